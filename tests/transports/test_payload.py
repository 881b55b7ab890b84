"""A payload keeps events exactly, also those whose values are not of the declared type."""

from __future__ import annotations

import math
from collections import deque
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spdist.errors import MappingError
from spdist.java.objects import Float, HashMap, HashSet, JSONArray, JSONObject, Long, Opaque
from spdist.language.types import Schema
from spdist.mapping.columns import ColumnarRows, EventList, Events
from spdist.transports.payloads.payload import Payload, pack_value, payload_columns, unpack_value

ALL_TYPES = Schema.of(
    [("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool"), ("o", "object")]
)
ROW = ("text", 1, 2**40, 0.5, 0.1, True, [1, (2, "x")])


def same(left: Any, right: Any) -> bool:
    """Equal, of the same type all the way down, and NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list | tuple | deque):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same([*left.items()], [*right.items()])
    return bool(left == right)


def test_each_type_and_null_come_back_as_they_went() -> None:
    events = Events.of([(1000, ROW), (1001, (None,) * 7)], first_order=7)
    assert Payload(ALL_TYPES).decode(Payload(ALL_TYPES).encode(events)) == events


PAIR = Schema.of([("s", "string"), ("i", "int")])


def with_columns() -> Events:
    events = Events.of([(1000 + n, (f"s{n}", n)) for n in range(4)])
    attributes = pa.record_batch([["s0", "s1", "s2", "s3"], pa.array(range(4), pa.int32())], names=["s", "i"])
    events.columns = payload_columns(events, attributes)
    return events


def test_columns_that_are_there_are_the_payload() -> None:
    events = with_columns()
    for begin, end in ((0, 4), (1, 3), (3, 4)):
        part = events.part(begin, end)
        assert part.columns.num_rows == end - begin
        assert Payload(PAIR).decode(Payload(PAIR).encode(part)) == part
        assert part.rows == events.rows[begin:end]
    place = events.columns.schema.get_field_index("s")
    events.columns = events.columns.set_column(place, "s", pa.array(["other"] * 4))
    assert Payload(PAIR).decode(Payload(PAIR).encode(events)).rows[1] == ("other", 1)


def test_events_that_follow_others_are_those_of_both() -> None:
    both = Events.following([with_columns(), with_columns().part(1, 3)])
    assert list(both) == [*with_columns(), *with_columns().part(1, 3)]
    assert Payload(PAIR).decode(Payload(PAIR).encode(both)) == both


def test_rows_that_were_read_as_columns_are_written_as_those() -> None:
    written = Payload(PAIR).encode(Events.of([(1000 + n, (f"s{n}", n)) for n in range(100)]))
    events = Payload(PAIR).decode(written)
    assert isinstance(events.rows, ColumnarRows)
    assert Payload(PAIR).encode(events) == written
    assert list(events.picked([3, 1])) == [[*events][3], [*events][1]]
    others = Payload(PAIR).decode(written)
    both = Events.following([others, others.part(98, 100)])
    assert isinstance(both.rows, ColumnarRows)
    assert both.rows == [*events.rows, *events.rows[98:]]


def test_rows_stay_the_same_objects_where_they_are_picked() -> None:
    events = Payload(PAIR).decode(Payload(PAIR).encode(Events.of([(n, (f"s{n}", n)) for n in range(100)])))
    rows = list(events.rows)
    assert [id(row) for row in events.picked([2, 0]).rows] == [id(rows[2]), id(rows[0])]


def test_picked_events_have_no_columns_of_others() -> None:
    picked = with_columns().picked([2, 0])
    assert Payload(PAIR).decode(Payload(PAIR).encode(picked)) == picked


def test_a_declared_type_becomes_a_column_of_that_type() -> None:
    with pa.ipc.open_stream(Payload(ALL_TYPES).encode(Events.of([(1000, ROW)]))) as reader:
        kinds = {field.name: str(field.type) for field in reader.schema}
    assert kinds == {
        "__ts": "int64",
        "__order": "int64",
        "s": "string",
        "i": "int32",
        "l": "int64",
        "f": "double",
        "d": "double",
        "b": "bool",
        "o": "string",
    }


@pytest.mark.parametrize("value", ["five", 5.0, True, 2**31, 2**70, (1, 2), math.nan])
def test_a_value_that_is_no_int_stays_what_it_is_in_an_int_column(value: Any) -> None:
    payload = Payload(Schema.of([("i", "int")]))
    rows = payload.decode(payload.encode(Events.of([(1, (1,)), (2, (value,)), (3, (None,))]))).rows
    assert same(rows, [(1,), (value,), (None,)])


def test_half_a_surrogate_pair_survives() -> None:
    payload = Payload(Schema.of([("s", "string")]))
    assert payload.decode(payload.encode(Events.of([(1, ("\ud83d",))]))).rows == [("\ud83d",)]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(deque)
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner)
    ),
    max_leaves=8,
)


@given(values)
@example({0: math.nan})
def test_any_plain_value_can_travel(value: Any) -> None:
    assert same(unpack_value(pack_value(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        Long(3),
        Float(0.5),
        HashMap([("b", Long(1)), ("a", [HashMap()])]),
        JSONObject([("x", JSONArray([1, None]))]),
        HashSet(["b", "a", 3]),
        Opaque("java.lang.Object", "it"),
        Decimal("1.50"),
        2**70,
    ],
)
def test_objects_of_java_come_back_with_their_classes(value: Any) -> None:
    found = unpack_value(pack_value(value))
    assert (type(found), found) == (type(value), value)
    if isinstance(value, HashMap):
        assert found.history() == value.history()


def test_sets_can_travel_and_code_cannot() -> None:
    assert unpack_value(pack_value({1, 2})) == {1, 2}
    assert isinstance(unpack_value(pack_value(frozenset({1}))), frozenset)
    with pytest.raises(MappingError, match="object cannot travel"):
        pack_value(object())


def test_what_was_put_out_later_than_its_timestamp_keeps_both_times_its_path_and_its_chunk() -> None:
    events = Events(
        at=[50, 50, 60],
        order=[3, 3, -1],
        path=[b"", b"\x01", b"\x00\x02"],
        chunk=[0, 1, 0],
        ts=[10, 20, 60],
        rows=[(1,), (2,), (3,)],
    )
    payload = Payload(Schema.of([("i", "int")]))
    assert payload.decode(payload.encode(events)) == events


def test_a_large_payload_is_split_between_chunks() -> None:
    made = EventList()
    for number in range(100):
        made.add(number, number, b"", number % 10, number, ("x" * 1000,))
    events = made.events()
    payload = Payload(Schema.of([("s", "string")]))
    parts = list(payload.encode_within(events, max_bytes=30_000))
    assert len(parts) > 3
    assert all(count % 10 == 0 for count, _ in parts)
    assert all(len(value) <= 30_000 for _, value in parts)
    assert [row for _, value in parts for row in payload.decode(value).rows] == events.rows


def test_one_chunk_is_never_split() -> None:
    made = EventList()
    for number in range(10):
        made.add(0, 0, b"", number, 0, ("x" * 1000,))
    events = made.events()
    assert [count for count, _ in Payload(Schema.of([("s", "string")])).encode_within(events, max_bytes=100)] == [10]


def test_a_stream_without_attributes_has_events_all_the_same() -> None:
    payload = Payload(Schema(()))
    assert len(payload.decode(payload.encode(Events.of([(1, ()), (2, ())])))) == 2


@pytest.mark.parametrize("bad", [b"", b"{}", b"\x00" * 40])
def test_bytes_that_are_no_payload_are_refused(bad: bytes) -> None:
    with pytest.raises(MappingError, match="no Arrow batch"):
        Payload(ALL_TYPES).decode(bad)


def test_a_payload_of_another_stream_is_refused_and_both_are_named() -> None:
    other = Payload(Schema.of([("x", "int")])).encode(Events.of([(1, (1,))]))
    with pytest.raises(MappingError, match=r"\(x\), the stream has \(s string, i int"):
        Payload(ALL_TYPES).decode(other)


MIXED = Schema.of([("k", "string"), ("v", "long"), ("o", "object"), ("b", "bool")])
_MADE = Payload(MIXED).encode(Events.of([(n, (f"key {n}", n, {"a": [n]}, n % 2 == 0)) for n in range(20)]))


@given(st.lists(st.tuples(st.integers(0, len(_MADE) - 1), st.integers(0, 255)), min_size=1, max_size=20), st.data())
def test_bytes_of_others_are_checked_before_they_are_read(changes: list[tuple[int, int]], data: st.DataObject) -> None:
    """Arrow reads wherever the columns of a batch point to: without the check this ends the process."""
    changed = bytearray(_MADE)
    for place, value in changes:
        changed[place] = value
    cut = data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))
    try:
        events = Payload(MIXED, foreign=True).decode(bytes(changed[:cut]))
    except MappingError:
        return
    assert all(type(at) is int and len(row) == len(MIXED) for at, *_, row in events)


def test_columns_of_others_have_the_types_of_the_stream() -> None:
    def made(**columns: Any) -> bytes:
        sink = pa.BufferOutputStream()
        usual = {"__ts": pa.array([1]), "__order": pa.array([0]), "k": pa.array(["a"]), "v": pa.array([2])}
        batch = pa.record_batch({**usual, **columns})
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    payload = Payload(Schema.of([("k", "string"), ("v", "long")]), foreign=True)
    assert payload.decode(made()).rows == [("a", 2)]
    for wrong in (
        {"v": pa.array(["x"])},
        {"v": pa.array([2], pa.int32())},
        {"k": pa.array([b"a"])},
        {"k": pa.array(["a"]).dictionary_encode()},
        {"__ts": pa.array([None], pa.int64())},
        {"__at": pa.array(["x"])},
    ):
        with pytest.raises(MappingError, match="is no Arrow batch: the column"):
            payload.decode(made(**wrong))
