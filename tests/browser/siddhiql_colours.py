"""Looks at SiddhiQL in JupyterLab: ``python -m tests.browser.siddhiql_colours [SCREENSHOT.png]``; about half a minute.

A cell that begins with ``%%siddhi``, one that becomes such, a text of an app in Python, and a .siddhi file are opened
in a browser, and the colours of keywords, types, texts and names are compared.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.browser.lab import WORDS, browser_page, colours, open_file, running_lab, write_notebook

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


def judge(found: dict[str, str]) -> None:
    """Raise where the colours of an app are not what they should be."""
    keyword, name, text, kind = (found[word] for word in ("select", "Alerts", "'cold'", "double"))
    assert len({keyword, text, kind}) == 3, found
    assert name not in (keyword, text, kind), found
    assert all(found[word] == keyword for word in ("define", "stream", "from", "every", "insert", "into", "for"))
    assert found["string"] == kind
    assert found["5.0"] not in (keyword, text, kind, name)
    assert found["-- rooms"] not in (keyword, text, kind, name)


def look(page: Any, lab: str, picture: Path | None = None) -> dict[str, float]:
    """Look at a notebook and at a file; return how long each took, in s."""
    began = time.monotonic()
    open_file(page, lab, "colours.ipynb")
    page.wait_for_function("document.querySelectorAll('.jp-Notebook .cm-editor').length >= 4")
    page.wait_for_function("document.querySelector('.jp-Notebook .cm-editor').textContent.includes('Alerts')")
    first = colours(page, 0)
    judge(first)
    # Python's own colours come later, with the kernel: only then is it seen which are in front.
    page.wait_for_function(IN_COLOUR, arg="print")
    python = colours(page, 1)
    assert python["define"] == first["define"], python
    assert python["double"] == first["double"], python
    assert python["Alerts"] == python['"""'], "a name has the colour of the text that it is in"
    assert {'"select"', '"""from'} < set(colours(page, 3)), "a text that is no app is one piece"
    # A cell that is typed.
    page.query_selector_all(".jp-Notebook .cm-content")[2].click()
    page.keyboard.type("from S select a")
    assert colours(page, 2).get("select") != first["select"]
    page.keyboard.press("Control+Home")
    page.keyboard.type("%%siddhi\n")
    page.wait_for_timeout(300)
    assert colours(page, 2)["select"] == first["select"], colours(page, 2)
    if picture:
        page.screenshot(path=picture)
    notebook_s = time.monotonic() - began
    open_file(page, lab, "cold.siddhi")
    page.wait_for_function("document.querySelector('.jp-FileEditor .cm-editor')?.textContent.includes('Alerts')")
    editors = page.query_selector_all(".jp-FileEditor .cm-editor")
    judge(dict(editors[0].evaluate(WORDS)))
    if picture:
        page.screenshot(path=picture.with_stem(f"{picture.stem}-file"))
    return {"notebook": notebook_s, "file": time.monotonic() - began - notebook_s}


def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_notebook(home / "colours.ipynb", CELLS)
        (home / "cold.siddhi").write_text(APP)
        with running_lab(home) as lab, browser_page() as page:
            up_s = time.monotonic() - began
            took = look(page, lab, picture)
            ours = [problem for problem in page.problems if "siddhi" in problem.lower()]
            assert not ours, ours
    print(
        f"lab and browser up {up_s:.1f} s, notebook {took['notebook']:.1f} s, file {took['file']:.1f} s: all coloured"
    )


if __name__ == "__main__":
    main()
