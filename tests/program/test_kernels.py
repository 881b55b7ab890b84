"""What programs call: the same as Python's own for tables and lists, and as Java for numbers."""

from __future__ import annotations

import math
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.caching import IndexDataCacheFile

from spdist.functions.aggregators import _remove_from_long
from spdist.java import numbers
from spdist.java.objects import box_float, hash_of
from spdist.java.order import place_of_real, place_of_text
from spdist.program.machine import arithmetic, hash_tables, kernels, passes, sorting
from spdist.program.running.values import TextTable

_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.sampled_from([0, 1, -1, 2**52, -(2**52), 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
_REALS = st.floats()


def same(left: Any, right: Any) -> bool:
    return bool(left == right) or (math.isnan(left) and math.isnan(right))


@given(_INTS, _INTS)
def test_int_arithmetic_is_that_of_java(left: int, right: int) -> None:
    assert arithmetic.wrap32(numpy.int64(left * right)) == numbers.wrap32(left * right)
    assert arithmetic.wrap32(numpy.int64(left + right)) == numbers.wrap32(left + right)
    if right:
        assert arithmetic.wrap32(arithmetic.divide(left, right)) == numbers.wrap32(numbers.divide_integers(left, right))
        assert arithmetic.remainder(left, right) == numbers.remainder_integers(left, right)


@given(_LONGS, _LONGS)
def test_long_arithmetic_is_that_of_java(left: int, right: int) -> None:
    given = numpy.int64(left), numpy.int64(right)
    assert arithmetic.wrapping_add(*given) == numbers.wrap64(left + right)
    assert arithmetic.wrapping_sub(*given) == numbers.wrap64(left - right)
    assert arithmetic.wrapping_mul(*given) == numbers.wrap64(left * right)
    if right:
        quotient = arithmetic.divide(numpy.int64(left), numpy.int64(right))
        assert quotient == numbers.wrap64(numbers.divide_integers(left, right))
        assert arithmetic.remainder(numpy.int64(left), numpy.int64(right)) == numbers.remainder_integers(left, right)
    exact = -(2**52) < left - right < 2**52 and -(2**52) < right < 2**52
    assert arithmetic.remove_long(numpy.int64(left), numpy.int64(right)) == (
        left - right if exact else _remove_from_long(left, right)
    )


@given(_REALS, _REALS)
def test_reals_are_those_of_java(left: float, right: float) -> None:
    assert same(arithmetic.f32(left), numbers.float32(left))
    if right:
        assert same(arithmetic.remainder_real(left, right), numbers.remainder_reals(left, right))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-2, 2), st.booleans()), max_size=120))
def test_a_table_of_keys_is_a_dictionary(steps: list[tuple[int, int, bool]]) -> None:
    slots, keys = numpy.full(512, -1), numpy.zeros(2 * 256, numpy.int64)
    meta, after, word = numpy.array([0, -1, 0, 7, 255]), numpy.zeros(256, numpy.int64), numpy.zeros(2, numpy.int64)
    known: dict[tuple[int, int], int] = {}
    for first, second, leaves in steps:
        word[:] = first, second
        found = hash_tables.find(slots, keys, meta, after, word, 2)
        assert found == known.setdefault((first, second), found)
        if leaves:
            hash_tables.release(slots, keys, meta, after, known.pop((first, second)), 2)
            assert hash_tables.known(slots, keys, meta, word, 2) == -1
        assert len(set(known.values())) == len(known) == meta[2]
    for key, number in known.items():
        word[:] = key
        assert hash_tables.known(slots, keys, meta, word, 2) == number


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), max_size=80), st.booleans())
def test_candidates_are_those_that_the_operators_keep(steps: list[tuple[int, int, bool]], least: bool) -> None:
    ends, free = numpy.full(6, -1), numpy.array([-1, 0])
    before, after, values = numpy.zeros(100, int), numpy.zeros(100, int), numpy.zeros(100, int)
    came: dict[int, deque[int]] = {0: deque(), 1: deque(), 2: deque()}
    kept: dict[int, deque[int]] = {0: deque(), 1: deque(), 2: deque()}
    for group, value, leaves in steps:
        best = kept[group]
        if leaves and came[group]:
            # In the order in which they came, as from a window; an equal one that came later may go in its place.
            gone = came[group].popleft()
            kernels.candidate_leaves(ends, before, after, values, free, group, gone)
            if gone in best:
                best.remove(gone)
        else:
            came[group].append(value)
            kernels.candidate_enters(ends, before, after, values, free, group, value, least)
            while best and (best[-1] > value if least else best[-1] < value):
                best.pop()
            best.append(value)
        for number, expected in kept.items():
            node, found = ends[2 * number], []
            while node >= 0:
                found.append(values[node])
                node = after[node]
            assert found == list(expected)


_TEXTS = (
    st.text(max_size=12) | st.text("ab\0", max_size=20) | st.sampled_from(["", "a" * 300, "null", "ä", "𝄞", "\uffff"])
)


@given(st.lists(st.lists(_TEXTS | st.none(), max_size=30), max_size=8), st.integers(0, 3))
def test_texts_have_numbers_of_their_own(columns: list[list[str | None]], skipped: int) -> None:
    table = TextTable(hash_tables, ("first", "second"))
    known = {"first": 0, "second": 1}
    for column in columns:
        found = table.numbers(pa.array(column, pa.string()).slice(skipped))
        for text, number in zip(column[skipped:], found.tolist(), strict=True):
            if text is not None:
                assert known.setdefault(text, number) == number
                assert table.number(text) == number
    assert len(set(known.values())) == len(known) <= len(table)
    assert table.texts(numpy.array(list(known.values()))).to_pylist() == list(known)
    kept = dict(list(known.items())[::2]) | {"second": 1}
    fresh = table.keep(numpy.array(sorted(kept.values())))
    for text, number in kept.items():
        assert table.text(int(fresh[number])) == text
        assert table.number(text) == fresh[number]
    assert len(table) <= len(kept) + 1


def test_one_kernel_numbers_texts_that_can_be_written_to_and_others() -> None:
    there = pa.array(["a", "b", ""])
    _, offsets, data = there.buffers()
    table = TextTable(hash_tables, ())
    columns = [there, pa.array([""])]
    columns += [pa.StringArray.from_buffers(3, pa.py_buffer(bytes(offsets)), pa.py_buffer(bytes(data)))]
    columns += [pa.StringArray.from_buffers(3, pa.py_buffer(bytearray(offsets)), pa.py_buffer(bytes(data)))]
    assert [table.numbers(one).tolist() for one in columns] == [[0, 1, 2], [2], [0, 1, 2], [0, 1, 2]]
    assert len(hash_tables.number_texts.signatures) == 1


@given(st.lists(st.tuples(_TEXTS, st.integers(-2, 2), st.booleans()), max_size=40), st.sampled_from([0, 1, 2]))
def test_places_are_sorted_stably_and_nulls_come_last(rows: list[tuple[str, int, bool]], texts: int) -> None:
    table, count = TextTable(hash_tables, ()), len(rows)
    words = numpy.array([number for _, number, _ in rows], numpy.int64)
    if texts:
        words = table.numbers(pa.array([text for text, _, _ in rows], pa.string()))
    places, spare = numpy.arange(count), numpy.zeros(count, numpy.int64)
    sorting.sort_places(places, spare, words, table.starts, table.arena, 0, count, texts)
    expected = sorted(
        range(count), key=lambda at: place_of_text(rows[at][0]) if texts else rows[at][1], reverse=texts == 2
    )
    assert places.tolist() == expected
    nulls = numpy.array([null for *_, null in rows], numpy.uint8)
    sorting.nulls_last(places, spare, nulls, 0, count)
    assert places.tolist() == sorted(expected, key=lambda place: rows[place][2])


@given(_REALS)
def test_reals_have_the_places_that_the_operators_give_them(value: float) -> None:
    assert sorting.real_place(value) == place_of_real(value)


@given(_REALS)
def test_reals_have_the_hash_codes_that_the_operators_give_them(value: float) -> None:
    assert sorting.word_hash(arithmetic.key_bits(value)) == hash_of(value)
    narrow = numbers.float32(value)
    assert sorting.float_hash(narrow) == hash_of(box_float(narrow))


def test_who_saves_code_at_the_same_time_does_not_take_the_name_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert passes.program is not None  # from then on numba's caches are locked
    caches = [IndexDataCacheFile(str(tmp_path), "function", "stamp") for _ in range(2)]
    look, other = caches[0]._load_index, threading.Thread(target=caches[1].save, args=("reals", "code for reals"))

    def look_while_the_other_saves() -> Any:
        found = look()
        other.start()
        other.join(0.5)
        return found

    monkeypatch.setattr(caches[0], "_load_index", look_while_the_other_saves)
    caches[0].save("numbers", "code for numbers")
    monkeypatch.undo()
    other.join()
    assert [caches[0].load(key) for key in ("reals", "numbers")] == ["code for reals", "code for numbers"]
