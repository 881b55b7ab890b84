"""The loop over lark's tables makes the trees that lark makes, places included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spdist.language import parser
from spdist.language.lalr import Machine

CASES = Path(__file__).parents[1] / "cases"
TEXTS = sorted({json.loads(line)["app"] for file in CASES.glob("*.jsonl") for line in file.read_text().splitlines()})


def machine() -> Machine:
    made = parser._machine()
    assert made is not None
    return made


def flat(node: Any) -> Any:
    """A tree as plain data; of an empty branch the place does not matter."""
    if hasattr(node, "children"):
        meta = node.meta
        place = None if meta.empty else (meta.start_pos, meta.end_pos)
        return str(node.data), place, [flat(child) for child in node.children]
    return node.type, str(node), node.start_pos, node.end_pos


@pytest.mark.parametrize("part", range(8))
def test_trees_are_larks(part: int) -> None:
    for text in TEXTS[part::8]:
        assert flat(machine().run(text, "app")) == flat(parser._lark().parse(text, start="app")), text


@pytest.mark.parametrize(
    "text",
    [
        "a + (b * -2) / 3.5f > 1 and not (c or d)", "((a))", "x[0].v is null", "f(*)", "ns:f(a, 'b', \"\"\"c\"\"\")",
        "5 sec", "1 hour 5 min", "`from` == 1L",
    ],
)  # fmt: skip
def test_expressions_too(text: str) -> None:
    assert flat(machine().run(text, "expression")) == flat(parser._lark().parse(text, start="expression"))


def test_comments_and_scripts_too() -> None:
    text = """
    -- one line
    define function f[javascript] return int { return "}" /* not a comment here */ + {a: 1} };
    /* several
    lines */ define stream S (v int); from S[f(v) > 1]#window.length(5) select v insert into Out /* never closed
    """
    assert flat(machine().run(text, "app")) == flat(parser._lark().parse(text, start="app"))


@pytest.mark.parametrize(
    "text", ["", "define", "define stream S (v int", "define stream S (v int); ?", "from S select"]
)
def test_what_does_not_fit_is_left_to_lark(text: str) -> None:
    assert machine().run(text, "app") is None


def test_a_lark_with_other_insides_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXTS[0]
    expected = parser.parse(text)
    parser._machine.cache_clear()
    monkeypatch.setattr(parser, "Machine", machine_of_another_lark)
    try:
        assert parser._machine() is None
        assert parser.parse(text) == expected
    finally:
        parser._machine.cache_clear()


def machine_of_another_lark(_lark: object) -> None:
    raise AttributeError("_parse_table")
