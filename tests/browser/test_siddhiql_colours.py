"""SiddhiQL in colours, in JupyterLab: cells of ``%%siddhi``, texts of apps in Python, and .siddhi files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import WORDS, colours, open_file, write_notebook

pytestmark = pytest.mark.slow

APP = """@app:name('Cold') -- rooms
define stream Readings (room string, celsius double);
from every e1=Readings[celsius < 5.0]#window.time(1 min) -> not Readings[celsius >= 5.0] for 10 min
select e1.room as room, math:abs(e1.celsius) as depth, 'cold' as what insert into Alerts;"""
CELLS = [
    f"%%siddhi --plan\n{APP}",
    f'app = """\n{APP}\n"""\nprint(app)',
    "",
    'def from_here():\n    """Nothing."""\n\n@source("select")\ndef there():\n    """from here"""\n    return "select"',
]

#: Whether a word of the second cell is a piece of its own.
IN_COLOUR = """word => [...document.querySelectorAll('.jp-Notebook .cm-editor')[1].querySelectorAll('span')]
    .some(span => span.textContent === word)"""


def assert_colours_of_an_app(found: dict[str, str]) -> None:
    keyword, name, text, kind = (found[word] for word in ("select", "Alerts", "'cold'", "double"))
    assert len({keyword, text, kind}) == 3, found
    assert name not in (keyword, text, kind), found
    assert all(found[word] == keyword for word in ("define", "stream", "from", "every", "insert", "into", "for"))
    assert found["string"] == kind
    assert found["5.0"] not in (keyword, text, kind, name)
    assert found["-- rooms"] not in (keyword, text, kind, name)


def test_cells_of_siddhiql_and_texts_of_apps_in_python(page: Any, lab: str, home: Path) -> None:
    write_notebook(home / "colours.ipynb", CELLS)
    open_file(page, lab, "colours.ipynb")
    page.wait_for_function("document.querySelectorAll('.jp-Notebook .cm-editor').length >= 4")
    page.wait_for_function("document.querySelector('.jp-Notebook .cm-editor').textContent.includes('Alerts')")
    first = colours(page, 0)
    assert_colours_of_an_app(first)
    # Python's own colours come later, with the kernel: only then is it seen which are in front.
    page.wait_for_function(IN_COLOUR, arg="print")
    python = colours(page, 1)
    assert python["define"] == first["define"], python
    assert python["double"] == first["double"], python
    assert python["Alerts"] == python['"""'], "a name has the colour of the text that it is in"
    assert {'"select"', '"""from'} < set(colours(page, 3)), "a text that is no app is one piece"


def test_a_cell_that_becomes_one_of_siddhiql_while_it_is_typed(page: Any, lab: str, home: Path) -> None:
    write_notebook(home / "typed.ipynb", [f"%%siddhi\n{APP}", ""])
    open_file(page, lab, "typed.ipynb")
    page.wait_for_function("document.querySelector('.jp-Notebook .cm-editor').textContent.includes('Alerts')")
    keyword = colours(page, 0)["select"]
    page.query_selector_all(".jp-Notebook .cm-content")[1].click()
    page.keyboard.type("from S select a")
    assert colours(page, 1).get("select") != keyword
    page.keyboard.press("Control+Home")
    page.keyboard.type("%%siddhi\n")
    page.wait_for_function(
        f"({WORDS})(document.querySelectorAll('.jp-Notebook .cm-editor')[1]).some(([word, colour]) => "
        f"word === 'select' && colour === '{keyword}')"
    )


def test_files(page: Any, lab: str, home: Path) -> None:
    (home / "cold.siddhi").write_text(APP)
    open_file(page, lab, "cold.siddhi")
    page.wait_for_function("document.querySelector('.jp-FileEditor .cm-editor')?.textContent.includes('Alerts')")
    editors = page.query_selector_all(".jp-FileEditor .cm-editor")
    assert_colours_of_an_app(dict(editors[0].evaluate(WORDS)))
