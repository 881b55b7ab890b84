"""Whatever text arrives: an app, or an error that says where; never anything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.errors import SiddhiAppError, SiddhiSyntaxError
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse, parse_expression, parse_on_demand
from spdist.language.types import Type

SAMPLES = re.split(
    r"^-- app: \w+\n", Path(__file__).parents[1].joinpath("language/apps.siddhi").read_text("utf-8"), flags=re.MULTILINE
)[1:]
_PIECES = re.compile(r"\w+|\s+|\W")
_INSERTIONS = """; , -> ( ) [ ] # ! @ . : = == < > <2:3> + * ? ' \\" ` -- /* { } ${X} select from every not within in
and or as of e1= end begin 5 5.5 9999999999 1e999 sec is null first é \x00"""
_INSERTED = st.sampled_from([*_INSERTIONS.split(), '"""'])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return a sample with some of its words taken out, doubled, swapped or put in."""
    pieces = _PIECES.findall(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(pieces) - 1)))
        other = draw(st.integers(0, max(0, len(pieces) - 1)))
        match draw(st.sampled_from(["drop", "cut", "insert", "swap", "copy"])):
            case "drop":
                del pieces[place : place + 1]
            case "cut":
                del pieces[min(place, other) : max(place, other)]
            case "insert":
                pieces.insert(place, f" {draw(_INSERTED)} ")
            case "swap" if pieces:
                pieces[place], pieces[other] = pieces[other], pieces[place]
            case "copy":
                pieces[place:place] = pieces[other : other + 12]
    return "".join(pieces)


ANYTHING = Catalog(
    functions={name: lambda *_: Type.INT for name in ("coalesce", "convert", "math:abs", "default", "str:length")},
    aggregators={name: lambda *_: Type.LONG for name in ("sum", "count", "avg", "max")},
    windows={name: lambda *_: None for name in ("length", "time", "lengthBatch", "timeBatch", "sort", "externalTime")},
)


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_a_changed_app_is_read_or_refused(text: str) -> None:
    try:
        app = parse(text)
    except SiddhiSyntaxError as error:
        assert error.span is not None
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert str(error)
        return
    try:
        check(app, ANYTHING, text)
    except SiddhiAppError as error:
        assert all(found.span is not None for found in error.errors)
        assert str(error)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse, parse_expression, parse_on_demand):
        try:
            read(text)
        except SiddhiSyntaxError as error:
            assert error.span is not None


@pytest.mark.parametrize("text", ["(" * 3000, "not " * 3000, "a+" * 3000 + "a", "f(" * 3000 + ")" * 3000])
def test_depth_is_refused_too(text: str) -> None:
    with pytest.raises(SiddhiSyntaxError):
        parse_expression(text)
