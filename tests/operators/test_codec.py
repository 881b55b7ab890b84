"""State as bytes comes back as it was, and nothing else is taken for state."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import deque
from typing import Any
from unittest.mock import patch

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.errors import StateError
from spdist.operators.core import codec
from spdist.operators.core.codec import VERSION, decode, encode

_keys = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5)
_plain = _keys | st.floats(allow_nan=False) | st.binary(max_size=5)
_hashable = st.recursive(_plain, lambda part: st.lists(part, max_size=3).map(tuple), max_leaves=6)
_states = st.recursive(
    _hashable,
    lambda part: (
        st.lists(part, max_size=4)
        | st.lists(part, max_size=4).map(tuple)
        | st.lists(part, max_size=4).map(deque)
        | st.dictionaries(_hashable, part, max_size=4)
        | st.sets(_hashable, max_size=4)
        | st.frozensets(_hashable, max_size=4)
    ),
    max_leaves=20,
)


def kinds(value: Any) -> Any:
    """The types of a value and of all its parts."""
    if isinstance(value, dict):
        return [type(value), [(kinds(key), kinds(part)) for key, part in value.items()]]
    if isinstance(value, list | tuple | deque):
        return [type(value), [kinds(part) for part in value]]
    return type(value)


#: Of what windows hold: the time of an event, and its row.
_events = st.lists(st.tuples(st.integers(0, 9), st.tuples(_plain, _hashable, _states)), min_size=6, max_size=20)


@given(_events, st.integers(0, 2), st.sampled_from([list, tuple, deque]))
def test_long_lists_of_tuples_come_back_as_they_were(events: Any, short: int, kind: type) -> None:
    uneven = [event[: 2 - index % (short + 1)] for index, event in enumerate(events)]
    state = {
        "window": [0, kind(events)],
        "other": [kind(uneven), [[events]], dict(zip("abcdefghij", events, strict=False))],
    }
    for many in (2, 8, 1000):  # by columns or, as older versions have packed it, value by value
        with patch.multiple(codec, _MANY=many, _MANY_TUPLES=many):
            again = decode(encode(state))
        assert again == state
        assert kinds(again) == kinds(state)


@given(_states)
def test_whatever_is_packed_by_columns_comes_back_as_it_was(state: Any) -> None:
    with patch.multiple(codec, _MANY=1, _MANY_TUPLES=1):
        again = decode(encode([state]))
    assert again == [state]
    assert kinds(again) == kinds([state])


#: What 0.33 has written, which had columns for lists and dictionaries of tuples.
_OF_033 = (
    "7370646973742d73746174650182a677696e646f77c78a02c7870e9299000102030405060708c7790e9399a25330a25331a25332a25330a2"
    "5331a25332a25330a25331a2533299cb0000000000000000cb3fe0000000000000cb3ff0000000000000cb3ff8000000000000cb40000000"
    "00000000cb4004000000000000cb4008000000000000cb400c000000000000cb401000000000000099c0c0c0c0c0c0c0c0c0a57461626c65"
    "c7290f9299000102030405060708929900010203040506070899a178a178a178a178a178a178a178a178a178"
)


def test_columns_of_an_older_version_are_read() -> None:
    window = deque((at, (f"S{at % 3}", at / 2, None)) for at in range(9))
    assert decode(bytes.fromhex(_OF_033)) == {"window": window, "table": {at: (at, "x") for at in range(9)}}


def test_what_a_window_holds_is_packed_by_columns() -> None:
    events = [(1_600_000_000_000 + at, (f"S{at % 9}", float(at))) for at in range(1000)]
    # A time of 9 bytes, a text of 3 and a real of 9, and next to nothing around them: each by itself has 8 more
    for state in (deque(events), {"window": [0, events]}, [[events]]):
        assert len(encode(state)) < 21.1 * len(events)
        assert decode(encode(state)) == state


def test_what_is_nested_without_end_is_refused() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(StateError, match="cannot be stored"):
        encode(nested)


@given(_states)
def test_what_is_decoded_equals_what_was_encoded(state: Any) -> None:
    again = decode(encode(state))
    assert again == state
    assert kinds(again) == kinds(state)


def test_special_reals_survive() -> None:
    assert repr(decode(encode([float("nan"), float("inf"), -0.0]))) == "[nan, inf, -0.0]"


def test_half_a_character_survives() -> None:
    state = {"\ud800": [("a\udfff", 1)], "k": deque(["\ud800", {"\udbff"}, "é"])}
    assert decode(encode(state)) == state


def test_equal_sets_are_equal_bytes_in_every_process() -> None:
    program = (
        "from spdist.operators.core.codec import encode\n"
        "names = ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta']\n"
        "print(encode([set(names), frozenset(reversed(names))]).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


@pytest.mark.parametrize("value", [object(), 1j, type("Text", (str,), {})("x")])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(StateError, match="cannot be"):
        encode({"deep": [value]})


@pytest.mark.parametrize("data", [b"", b"nonsense", b"spdist-state", msgpack.packb([1])])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(StateError, match="no state of spdist"):
        decode(data)


def test_a_newer_format_is_refused() -> None:
    data = bytearray(encode([1]))
    data[len(b"spdist-state")] = VERSION + 1
    with pytest.raises(StateError, match=f"format {VERSION + 1}.*reads format {VERSION}"):
        decode(bytes(data))


@given(st.data())
def test_damaged_bytes_are_refused_or_decoded_and_never_anything_else(data: st.DataObject) -> None:
    whole = encode({"a": [1, (2, 3)], "b": deque([1.5, None]), "c": {("x", 1): "y"}})
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(StateError):
        decode(cut)
    spoiled = bytearray(whole)
    spoiled[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(StateError):
        decode(bytes(spoiled))


def test_an_unknown_kind_is_refused() -> None:
    head = encode(None)[:-1]
    with pytest.raises(StateError, match="unknown kind 77"):
        decode(head + msgpack.packb(msgpack.ExtType(77, b"")))
