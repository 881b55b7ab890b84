"""The machine of written tables makes the trees that lark makes, places included; the tables are not stale."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from lark.exceptions import UnexpectedInput, UnexpectedToken

from spdist.language.parsing import parser
from spdist.language.parsing.lalr import Machine, Stop
from spdist.language.parsing.tables import lark_of_grammar, tables_of, written

LARK = lark_of_grammar()
CASES = Path(__file__).parents[1] / "cases"
TEXTS = sorted({json.loads(line)["app"] for file in CASES.glob("*.jsonl") for line in file.read_text().splitlines()})


def machine() -> Machine:
    return parser._machine()


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
        assert flat(machine().run(text, "app")) == flat(LARK.parse(text, start="app")), text


@pytest.mark.parametrize(
    "text",
    [
        "a + (b * -2) / 3.5f > 1 and not (c or d)", "((a))", "x[0].v is null", "f(*)", "ns:f(a, 'b', \"\"\"c\"\"\")",
        "5 sec", "1 hour 5 min", "`from` == 1L", "5sec", "5e1d-.5F", "select + Min * sec", "a[LAST-1].first == 5l",
    ],
)  # fmt: skip
def test_expressions_too(text: str) -> None:
    assert flat(machine().run(text, "expression")) == flat(LARK.parse(text, start="expression"))


def test_comments_and_scripts_too() -> None:
    text = """
    -- one line
    define function f[javascript] return int { return "}" /* not a comment here */ + {a: 1} };
    /* several
    lines */ define stream S (v int); from S[f(v) > 1]#window.length(5) select v insert into Out /* never closed
    """
    assert flat(machine().run(text, "app")) == flat(LARK.parse(text, start="app"))


def larks(text: str) -> Any:
    """What lark says of a text: its tree, or where it stops and what could have stood there."""
    try:
        return flat(LARK.parse(text, start="app"))
    except UnexpectedInput as error:
        ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        return None if ended else error.pos_in_stream, ended, error.interactive_parser.accepts()


def ours(text: str) -> Any:
    tree = machine().run(text, "app")
    if isinstance(tree, Stop):
        return None if tree.ended else tree.position, tree.ended, tree.expected
    return flat(tree)


@pytest.mark.parametrize(
    "text",
    [
        "", "define", "define stream S (v int", "define stream S (v int); ?", "from S select", "/* only this",
        "define function f[python] return int { '}' ", "from S[v > ] insert into T",
        "define stream S (v int) -- \n  from",
    ],
)  # fmt: skip
def test_texts_that_do_not_fit_stop_where_lark_stops(text: str) -> None:
    assert isinstance(machine().run(text, "app"), Stop)
    assert ours(text) == larks(text)


def test_texts_with_words_changed_fit_or_stop_as_with_lark() -> None:
    lot = Random(5)
    words = [re.findall(r"\w+|\s+|.", text, re.DOTALL) for text in TEXTS if text]
    stopped = 0
    for _ in range(400):
        changed = list(lot.choice(words))
        at = lot.randrange(len(changed))
        other = lot.choice([*lot.choice(words), "", "--x\n", "/*", "'", "`", "1e5", "5d", "...", "{", "@ app:", "é"])
        changed[at : at + lot.randrange(2)] = [other]
        text = "".join(changed)
        stopped += isinstance(machine().run(text, "app"), Stop)
        assert ours(text) == larks(text), text
    assert 40 < stopped < 400


def test_the_written_tables_are_those_of_grammar_and_lark() -> None:
    text = files("spdist.language.parsing").joinpath("tables.json").read_text("utf-8")
    assert text == written(tables_of(LARK)), "make tables"


def test_what_is_not_told_apart_as_a_word_is_refused() -> None:
    terminals = [terminal("_FROM", "(?i:from(?![A-Za-z_0-9]))"), terminal("HEX", "[0-9a-f]+")]
    lexer = SimpleNamespace(terminals=terminals, ignore_types=frozenset())
    table = SimpleNamespace(states={0: {}}, start_states={"app": 0}, end_states={"app": 0})
    frontend = SimpleNamespace(
        lexer=SimpleNamespace(lexers={0: lexer}, root_lexer=lexer), parser=SimpleNamespace(_parse_table=table)
    )
    with pytest.raises(ValueError, match=r"\['HEX'\] begins like a word"):
        tables_of(SimpleNamespace(parser=frontend, terminals=terminals))


def terminal(name: str, regexp: str) -> Any:
    return SimpleNamespace(name=name, pattern=SimpleNamespace(to_regexp=lambda: regexp))
