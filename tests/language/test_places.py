from __future__ import annotations

import pytest

from spdist.errors import SiddhiSyntaxError
from spdist.language.parsing.parser import parse
from spdist.language.parsing.places import Places, expand


def test_offsets_become_lines_and_columns() -> None:
    span = Places("ab\ncd\r\nef").span(4, 9)
    assert (span.line, span.column, span.end_line, span.end_column, span.start, span.end) == (2, 2, 3, 3, 4, 9)


def test_variables_are_replaced_everywhere() -> None:
    text, _ = expand("${a} -- ${b.c}\n'${a}'", {"a": "long", "b.c": "x-y", "unused": ""})
    assert text == "long -- x-y\n'long'"


@pytest.mark.parametrize("value", ["", "x", "a much longer text", "two\nlines"])
def test_places_are_those_of_the_written_text(value: str) -> None:
    written = "before ${name} after ${name} end"
    text, places = expand(written, {"name": value})
    for word in ("before", "after", "end"):
        span = places.span(text.index(word), text.index(word) + len(word))
        assert written[span.start : span.end] == word
        assert (span.line, span.column) == (1, written.index(word) + 1)


def test_a_place_inside_of_a_variable_is_the_whole_variable() -> None:
    written = "a ${name} b"
    text, places = expand(written, {"name": "one two three"})
    span = places.span(text.index("two"), text.index("two") + 3)
    assert written[span.start : span.end] == "${name}"
    outer = places.span(0, len(text))
    assert written[outer.start : outer.end] == written


def test_an_error_behind_a_variable_is_shown_where_it_is_written() -> None:
    with pytest.raises(SiddhiSyntaxError) as caught:
        parse("define stream S (${type_of_a}) oops", {"type_of_a": "identifier string"})
    assert str(caught.value).splitlines()[1:3] == [
        "define stream S (${type_of_a}) oops",
        "                               ^^^^",
    ]


def test_all_missing_variables_are_named() -> None:
    with pytest.raises(SiddhiSyntaxError) as caught:
        expand("-- ${one}\n${two} ${three}", {"two": "2"})
    assert [error.message for error in caught.value.errors] == [
        "No value for the variable '${one}'",
        "No value for the variable '${three}'",
    ]
    assert [error.span.column for error in caught.value.errors if error.span] == [4, 8]
