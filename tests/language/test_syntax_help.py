from __future__ import annotations

import pytest

from spdist.errors import SiddhiSyntaxError
from spdist.language.parsing.parser import parse
from spdist.language.parsing.syntax_help import explain, word_at
from spdist.language.parsing.tables import lark_of_grammar

STREAM = "define stream S (a int, b string);\n"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("from S[a = 5] insert into Out", "In SiddhiQL this is written '=='."),
        ("from S[a <> 5] insert into Out", "In SiddhiQL this is written '!='."),
        ("from S[a > 5 && a < 9] insert into Out", "In SiddhiQL this is written 'and'."),
        ("from S[a > 5 || a < 2] insert into Out", "In SiddhiQL this is written 'or'."),
        ("from S selct a insert into Out", "Did you mean 'select'?"),
        ("from S select a inser into Out", "Did you mean 'insert'?"),
        ("from S#window.time(5 ms) insert into Out", "Did you mean 'millisec'?"),
        ("from S#window.time(5 minuts) insert into Out", "Did you mean 'minutes'?"),
        ("from S select a insert into Out from S insert into B", "Put ';' between definitions and queries."),
        ("from S[b == 'x] insert into Out", "These quotes do not end on their line"),
        ("from S as s select a insert into Out", "Only the streams of a join take an alias"),
        ("from S -> S, S select 1 as x insert into Out", "A pattern is joined by '->' throughout"),
        ("from S, S -> S select 1 as x insert into Out", "A pattern is joined by '->' throughout"),
        ("from S select '${a b}' + ${a b} as x insert into Out", "The name of a variable"),
        ("from S left join S on a == a insert into Out", None),
    ],
)
def test_hints(text: str, hint: str | None) -> None:
    with pytest.raises(SiddhiSyntaxError) as caught:
        parse(STREAM + text)
    assert (caught.value.hint or "").startswith(hint or "")
    assert (caught.value.hint is None) == (hint is None)


@pytest.mark.parametrize("written", ["integer", "text", "varchar", "boolean", "bigint", "strng"])
def test_types_of_other_languages_are_recognised(written: str) -> None:
    known = {
        "integer": "int",
        "text": "string",
        "varchar": "string",
        "boolean": "bool",
        "bigint": "long",
        "strng": "string",
    }
    with pytest.raises(SiddhiSyntaxError) as caught:
        parse(f"define stream S (a {written})")
    assert caught.value.hint == f"Did you mean '{known[written]}'?"


def test_what_was_expected_is_said_in_words() -> None:
    assert explain("x", {"_SELECT", "NAME", "SEMICOLON"}, "") == (
        "Unexpected 'x'; expected a name, ';', 'select'",
        None,
    )
    assert explain("", {"$END"}, "") == ("The text ends too early; expected the end of the text", None)
    assert explain("'a'", {"INT", "UNIT"}, "")[0].startswith("Unexpected 'a'; expected a time unit")
    many, _ = explain("x", {"_SELECT", "_INSERT", "_DELETE", "_UPDATE", "_RETURN", "_OUTPUT", "_ON", "_AS", "_IN"}, "")
    assert many.endswith("…")


def test_an_expression_is_expected_as_a_whole() -> None:
    with pytest.raises(SiddhiSyntaxError, match=r"Unexpected '\]'; expected an expression \("):
        parse(STREAM + "from S[] insert into Out")


def test_every_sign_of_the_grammar_has_words() -> None:
    signs = {terminal.name for terminal in lark_of_grammar().terminals if not terminal.name.startswith("__IGNORE")}
    for sign in signs:
        message, _ = explain("?", {sign}, "")
        assert "anon" not in message.lower()
        assert "_" not in message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("abc def", "abc"),
        ("'a b' c", "'a b'"),
        ("'open", "'open"),
        ("->x", "->"),
        ("5.5x y", "5.5x"),
        ("<> 3", "<>"),
        ("", ""),
    ],
)
def test_word_at(text: str, word: str) -> None:
    assert word_at(text, 0) == word
