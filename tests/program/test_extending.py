"""What the page of extensions shows with a typed form is compiled where another package brings it, and is right."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.extension import find
from spdist.packages import use_packages
from spdist.program.machine.compiler import interpreted
from spdist.program.windows.text import WindowWriter
from tests.connectors.foreign import install
from tests.program.drawn_apps import STREAM
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "extending.md"
#: The blocks of the page that are files of a package each.
FILES = [one for one in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if "typed=" in one]
NTH = f"""{STREAM}
    define window W {STREAM[STREAM.index("(") : -1]} shop:nth(2);
    partition with (kind of S) begin
        from S#window.shop:nth(3) select sym, volume, count() as c, sum(volume) as v insert all events into OutKeyed;
    end;
    from S#window.shop:nth(2) select sym, max(price) as p group by sym insert all events into Out;
    from S#window.shop:nth(1) select total insert expired events into OutExpired;
    from S join S#window.shop:nth(4) as T on S.sym == T.sym select S.volume, T.total insert into OutPairs;
    from S insert into W;
    from W select sym, count() as c insert all events into OutWindow;"""
FREE = f"""{STREAM}
    from S#window.length(3) select sym, shop:free(price) as f group by sym insert all events into Out;
    from S#window.lengthBatch(4) select shop:free(price) as f, count() as c insert into OutBatch;
    from S[volume > 0]#window.shop:nth(2) select shop:free(price) + 1L as f insert all events into OutNth;
    from S select shop:free(price) as f having f > 0L insert into OutHaving;"""
RISING = f"""{STREAM}
    from S#shop:rising(volume) select sym, volume insert into Out;
    from S[ok]#shop:rising(total)#window.length(2) select total, count() as c insert all events into OutHeld;
    partition with (sym of S) begin
        from S#shop:rising(volume) select sym, volume, sum(price) as p insert into OutKeyed;
    end;"""


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process that has named the packages of which each brings one file."""
    monkeypatch.setenv("SPDIST_PACKAGES", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    for number, text in enumerate(FILES):
        module = f"acme_typed{number}"
        install(tmp_path, f"acme-typed{number}", {module: text}, {"spdist.extensions": {"typed": module}})
    use_packages([f"acme-typed{number}" for number in range(len(FILES))])
    yield
    for module in [name for name in sys.modules if name.startswith("acme_typed")]:
        del sys.modules[module]


def program_of(app: str) -> Any:
    """Return the program of an app, of which all is in the loop."""
    own = Watched(checked_app(app), interpreted).app.programmed
    assert own is not None
    assert own.compile() is not None, own.reason
    assert own.program is not None
    assert not own.program.sites, [site.element.why.reason for site in own.program.sites]
    return own.program


def test_the_page_uses_public_names_only() -> None:
    nodes = [node for text in FILES for node in ast.walk(ast.parse(text))]
    used = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    used += [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    assert {"whole", "takes"} < set(used)
    assert not [name for name in used if name.startswith("_") and not name.endswith("__")]


@pytest.mark.parametrize(("app", "least"), [(NTH, 300), (FREE, 300), (RISING, 100)])
def test_an_app_with_extensions_does_the_same_with_its_program(app: str, least: int) -> None:
    program_of(app)
    assert sum(alike(checked_app(app), Random(seed), interpreted, steps=20) for seed in range(6)) > least


def mutants() -> dict[str, tuple[str, Any]]:
    """Return changes of what the files say, each with an app that shows it."""
    rising: Any = find("stream processor", "shop:rising").typed
    begins_anew = patch.object(type(rising((), 0).states), "load", lambda *given: None)
    typed: Any = find("window", "shop:nth").typed
    writer, states = typed().writer, type(typed().states)
    return {
        "which are held": (NTH, patch.object(writer, "enters", WindowWriter.enters)),
        "how many have come": (NTH, patch.object(states, "names", ())),
        "what is held": (NTH, patch.object(states, "state", lambda self, read, lists, rest: [0, []])),
        "what is greatest": (RISING, begins_anew),
    }


@pytest.mark.parametrize("name", ["which are held", "how many have come", "what is held", "what is greatest"])
def test_the_law_finds_a_mutant(name: str) -> None:
    program_of(NTH)
    app, change = mutants()[name]
    with change, pytest.raises(AssertionError):
        for seed in range(6):
            alike(checked_app(app), Random(seed), interpreted, steps=20)
