"""Whole numbers in options: one reader, and whatever is written is a number or an error at its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist import check, plan
from spdist.errors import SpdistError
from spdist.java.numbers import LONG_MAX, LONG_MIN, whole_number

HUGE = "9" * 5_000


@given(
    st.integers(-(10**18) + 1, 10**18 - 1), st.integers(LONG_MIN, LONG_MAX), st.integers(LONG_MIN, LONG_MAX), st.data()
)
def test_a_number_is_read_where_it_is_neither_too_small_nor_too_large(
    number: int, least: int, most: int, data: st.DataObject
) -> None:
    blanks = st.text(" \t\n", max_size=2)
    text = f"{data.draw(blanks)}{number}{data.draw(blanks)}"
    assert whole_number(text) == number
    assert whole_number(text, least, most) == (number if least <= number <= most else None)


@pytest.mark.parametrize("text", ["", " ", "-", "+1", "1_0", "1 0", "1.0", "1e3", "9" * 19, HUGE, "\u0661", "\uff11"])
def test_what_is_no_whole_number_of_up_to_18_digits_is_none(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize("number", ["x", "-1", HUGE, "\u0661"])
@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        (
            "@source(type='http', @map(type='json'), @dist(parallel='{}'))",
            "is not a whole number",
        ),
        ("@sink(type='inMemory', topic='t', @map(type='csv', @payload(v='{}')))", "is no column: there are 1"),
        ("@async(buffer.size='{}')", "is a whole number of at least"),
    ],
)
def test_a_wrong_number_is_told_with_its_place(annotations: str, told: str, number: str) -> None:
    # Two groups read the stream, so its source has a group of its own
    queries = (f"@dist(execGroup='{one}') from S select v insert into {one};" for one in ("A", "B"))
    text = f"@app:name('N') {annotations.replace('{}', number)}\ndefine stream S (v int); {' '.join(queries)}"
    with pytest.raises(SpdistError) as caught:
        check(text)
        plan(text)
    assert told in str(caught.value)
    assert caught.value.span is not None
    assert caught.value.span.line == 1


def test_a_text_of_thousands_of_digits_is_no_number_of_a_type() -> None:
    from spdist import run

    out = run(
        "define stream S (k string); from S select convert(k, 'int') as i, convert(k, 'long') as l insert into Out;",
        {"S": [(1, (HUGE,)), (2, ("7",))]},
    )
    assert [row for _, row in out["Out"]] == [(None, None), (7, 7)]
