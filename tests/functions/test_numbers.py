"""Java's numbers, checked against C's (struct, numpy) and against what Java writes."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.java.numbers import (
    as_double,
    as_float,
    as_int,
    as_long,
    divide_integers,
    double_to_int,
    double_to_long,
    float32,
    long_to_float32,
    remainder_integers,
    remainder_reals,
    text_of,
    text_of_float32,
    wrap32,
    wrap64,
)

longs = st.integers(-(2**63), 2**63 - 1)
reals = st.floats()


@given(st.integers(-(2**70), 2**70))
def test_wrapping_keeps_the_low_bits(value: int) -> None:
    assert wrap32(value) == struct.unpack("<i", (value % 2**32).to_bytes(4, "little"))[0]
    assert wrap64(value) == struct.unpack("<q", (value % 2**64).to_bytes(8, "little"))[0]


@given(longs, longs.filter(bool))
def test_division_is_towards_zero_and_agrees_with_the_remainder(left: int, right: int) -> None:
    quotient, rest = divide_integers(left, right), remainder_integers(left, right)
    assert quotient == math.trunc(Fraction(left, right))
    assert quotient * right + rest == left
    assert rest == 0 or (rest > 0) == (left > 0)


@given(reals)
def test_float32_rounds_as_c_does(value: float) -> None:
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    assert float32(value) == expected or (math.isnan(expected) and math.isnan(float32(value)))


@given(longs)
def test_a_long_becomes_a_float_in_one_rounding(value: int) -> None:
    assert long_to_float32(value) == float(np.int64(value).astype(np.float32))


def test_rounding_a_long_twice_would_be_wrong() -> None:
    value = 2**60 + 2**36 + 1  # just above the middle of two floats, which a double cannot tell from the middle
    assert float32(float(value)) != long_to_float32(value) == float(2**60 + 2**37)


@pytest.mark.parametrize(
    ("value", "as_32", "as_64"),
    [
        (2.9, 2, 2),
        (-2.9, -2, -2),
        (1e12, 2**31 - 1, 10**12),
        (-1e12, -(2**31), -(10**12)),
        (1e300, 2**31 - 1, 2**63 - 1),
        (-math.inf, -(2**31), -(2**63)),
        (math.nan, 0, 0),
    ],
)
def test_reals_become_integers_within_their_range(value: float, as_32: int, as_64: int) -> None:
    assert double_to_int(value) == as_32 == as_int(value)
    assert double_to_long(value) == as_64 == as_long(value)


def test_numbers_of_any_type_become_others() -> None:
    assert as_int(2**32 + 5) == 5
    assert as_long(7) == 7
    assert as_float(16777217) == 16777216.0
    assert as_float(0.1) == float(np.float32(0.1))
    assert as_double(3) == 3.0


@pytest.mark.parametrize("convert", [as_int, as_long, as_float, as_double])
@pytest.mark.parametrize("value", ["1", True, None])
def test_what_is_no_number_is_refused(convert: object, value: object) -> None:
    with pytest.raises(TypeError, match="cannot be cast to class java"):
        convert(value)  # type: ignore[operator]


def test_remainders_of_reals_follow_the_sign_of_the_left_side() -> None:
    assert remainder_reals(5.5, 2.0) == 1.5
    assert remainder_reals(-5.5, 2.0) == -1.5
    assert math.isnan(remainder_reals(math.inf, 2.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        ("x", "x"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (100.0, "100.0"),
        (1234567.0, "1234567.0"),
        (12345678.0, "1.2345678E7"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1.5e300, "1.5E300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_java_writes(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1e10, "1.0E10"), (16777216.0, "1.6777216E7"), (3.4e38, "3.4E38"), (2.5, "2.5"), (None, "null")],
)
def test_java_writes_floats_shorter(value: float | None, text: str) -> None:
    assert text_of_float32(None if value is None else float32(value)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_written_reals_read_back_as_themselves(value: float) -> None:
    assert float(text_of(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_written_floats_read_back_as_themselves(value: float) -> None:
    assert float32(float(text_of_float32(value))) == value
