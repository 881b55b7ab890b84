"""Texts have the numbers that a dictionary would give them."""

from __future__ import annotations

from itertools import compress
from unittest.mock import patch

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.mapping.text_numbers import LONGEST, TextNumbers

_alike = st.sampled_from(["", "\0", "a", "a\0", "a\0\0", "é", "ab"])
_texts = st.text(max_size=6) | st.text(max_size=LONGEST // 4) | _alike
_columns = st.lists(st.lists(_texts, min_size=1, max_size=30), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(_columns, st.booleans(), st.data())
def test_each_text_has_one_number_for_ever(columns: list[list[str]], meet: bool, data: st.DataObject) -> None:
    numbers, known = TextNumbers(), dict[str, int]()
    slots = TextNumbers._slots
    with patch.object(TextNumbers, "_slots", lambda *given: slots(*given) * 0 if meet else slots(*given)):
        for column in columns:
            assert numbers.numbers_of(pa.array(column)).tolist() == [
                known.setdefault(text, len(known)) for text in column
            ]
            if data.draw(st.booleans()):
                kept = data.draw(st.lists(st.booleans(), min_size=len(known), max_size=len(known)))
                numbers.keep(kept)
                known = {text: number for number, text in enumerate(compress(known, kept))}
            assert numbers.texts == list(known)
            assert len(numbers) == len(known)


def test_many_texts() -> None:
    numbers = TextNumbers()
    texts = [f"key {number * 7919 % 50_000}" for number in range(100_000)]
    for begin in range(0, len(texts), 9000):
        numbers.numbers_of(pa.array(texts[begin : begin + 9000]))
    assert numbers.texts == texts[:50_000]
    assert numpy.array_equal(numbers.numbers_of(pa.array(texts[:50_000]).slice(100, 200)), numpy.arange(100, 300))


@pytest.mark.parametrize("form", ["SYM{:05}", "{}", "key {:013}", "{:03} of a longer text", "{:06}\0"])
def test_texts_that_differ_somewhere_are_looked_for_in_many_places(form: str) -> None:
    numbers = TextNumbers()
    numbers.numbers_of(pa.array([form.format(number) for number in range(500)]))
    words = [word[: len(numbers)] for word in numbers._words]
    slots = numbers._slots(words, numbers._lengths[: len(numbers)])
    # Of 500 texts in 1,024 places; by chance there are 395.
    assert len(numpy.unique(slots)) > 250


@pytest.mark.parametrize("text", ["x" * (LONGEST + 1), "é" * LONGEST, "\ud800"])
def test_others_have_none(text: str) -> None:
    numbers = TextNumbers()
    assert numbers.of_all(["x" * LONGEST]).tolist() == [0]
    assert numbers.of_all(["a", text]) is None
    assert numbers.of_all(["b", "x" * LONGEST]).tolist() == [1, 0]
