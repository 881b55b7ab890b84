"""Functions in programs: each gives what the operators give, for all numbers that are at an edge of something."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.program.compiler import interpreted
from spdist.program.obstacle import compiled_or_why_not
from tests.program.drawn_apps import START_MS
from tests.program.test_program_laws import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

STREAM = "define stream S (a int, b long, c float, d double, e bool, f bool, s string, x double);\n"
_OF_REAL = ("acos", "asin", "ceil", "isNan", "isInfinite", "round")
_OF_ONE = "abs cbrt cos cosh exp floor ln log10 log2 sin sinh sqrt tan tanh toDegrees toRadians signum getExponent atan"
_OF_TWO = "copySign max min power atan"
_UNITS = ("YEAR", "quarter", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "ERA")

MATHS = (
    *(f"math:{name}({value})" for name in _OF_REAL for value in "cd"),
    *(f"math:{name}({value})" for name in _OF_ONE.split() for value in "abcd"),
    *(f"math:{name}({pair})" for name in _OF_TWO.split() for pair in ("d, x", "a, d", "c, b")),
    *(f"math:power(d, {exponent})" for exponent in ("2", "0.5", "-1.0", "3")),
    "math:pi() * d",
    "math:e()",
)
TYPES = (
    *(f"convert({value}, '{type}')" for value in "abcde" for type in ("int", "long", "float", "double", "bool")),
    *(
        f"cast({value}, '{type}')"
        for value, type in zip("aabcde", ("int", "long", "long", "float", "double", "bool"), strict=True)
    ),
    *(
        f"instanceOf{type}({value})"
        for type in ("Integer", "Long", "Float", "Double", "String", "Boolean")
        for value in "abcdes"
    ),
    "convert(a, 'float') / 3",
    "cast(a, 'long') * 3",
)
CHOICES = (
    *(
        f"{name}({arguments})"
        for name in ("maximum", "minimum")
        for arguments in ("a, 3, a + 1", "b", "c, 0.5f", "d, x", "b, b")
    ),
    "coalesce(a, 7)",
    "coalesce(d, x)",
    "coalesce(e, f)",
    "default(b, 5L)",
    "default(s, 'none')",
    "default(e, true)",
    "ifThenElse(e, f, e)",
    "ifThenElse(e, d, x)",
    "ifThenElse(coalesce(e, f), s, 'no')",
    "ifThenElse(s == 'a', 1, 2)",
)
TIMES = (
    *(f"time:extract(b, '{unit}')" for unit in _UNITS),
    *(f"time:extract(b, 'WEEK', '{locale}')" for locale in ("en_GB", "th_TH", "ar_EG", "pt_PT")),
    "time:extract(b, 'YEAR', 'th_TH')",
    "time:dateDiff(b, 86400000L)",
    "time:dateDiff(-9223372036854775808L, b)",
    "time:timestampInMilliseconds() - eventTimestamp()",
    "currentTimeMillis()",
)


def _either(*edges: Any) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(edges)


_REALS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, 710.3, 1e300, -1e19, 2.0**31, 5e-324, math.inf, -math.inf, math.nan)
_FLOATS = (0.0, -0.0, 0.5, -1.5, 2147483648.0, -(2.0**63), 2.0**-149, math.inf, math.nan)
_DAY = 86_400_000
ROWS = st.tuples(
    _either(0, 1, -1, 7, 2**31 - 1, -(2**31)),
    _either(0, 1, -1, 2**53 + 1, 2**60 + 2**36 + 1, 2**63 - 1, -(2**63), -141_427 * _DAY - 1, -719_163 * _DAY)
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-(10**14), 10**13),
    _either(*_FLOATS) | st.floats(width=32),
    _either(*_REALS) | st.floats() | st.floats(-50, 50),
    _either(True, False),
    _either(True, False),
    _either("a", "", "null"),
    _either(*_REALS) | st.floats(-5, 5),
)


def shown(value: Any) -> Any:
    """A value so that equal ones are equal bit for bit; all that are not a number are one."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("d", value)
    return value


def results(text: str, rows: list[tuple[Any, ...]], typed: bool) -> list[Any]:
    app = Watched(checked_app(text), interpreted if typed else None)
    app.begin()
    app.app.start(START_MS)
    app.run([(START_MS + 1000 * place, row) for place, row in enumerate(rows)])
    return [(time, *map(shown, row)) for _, chunk in app.chunks for time, row in chunk]


@pytest.mark.parametrize("calls", [MATHS, TYPES, CHOICES, TIMES], ids=["maths", "types", "choices", "times"])
def test_a_function_gives_what_the_operators_give(calls: tuple[str, ...]) -> None:
    items = ", ".join(f"{call} as r{place}" for place, call in enumerate(calls))
    text = f"{STREAM}from S select {items} insert into Out;"

    @settings(max_examples=15, deadline=None)
    @given(st.lists(ROWS, min_size=1, max_size=30))
    def alike(rows: list[tuple[Any, ...]]) -> None:
        for expected, found in zip(results(text, rows, False), results(text, rows, True), strict=True):
            names = dict(zip(("time", *calls), zip(expected, found, strict=True), strict=True))
            assert not {name: pair for name, pair in names.items() if pair[0] != pair[1]}

    alike()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("str:upper(s)", "the function str:upper()"),
        ("math:log(d, x)", "the function math:log()"),
        ("convert(d, 'string')", "the function convert()"),
        ("convert(math:rand(), 'int')", "the function math:rand()"),
        ("UUID()", "the function UUID()"),
        ("cast(d, 'int')", "the function cast()"),
    ],
)
def test_what_has_no_form_is_named_with_its_line(call: str, named: str) -> None:
    text = f"{STREAM}from S select a,\n{call} as r insert into Out;"
    assert compiled_or_why_not(checked_app(text), text) == f"no: {named} (line 3)"


def test_the_clock_is_not_asked_when_an_event_has_left() -> None:
    text = f"{STREAM}from S#window.time(5 sec) select sum(currentTimeMillis()) as r insert into Out;"
    assert "the clock in an aggregator" in compiled_or_why_not(checked_app(text))
