"""Messages of users' topics become records: the same events however they are cut, and as the mapping reads them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.island.intake import Mapped, by_time
from spdist.engine.shards.shard import cut
from spdist.engine.spark.tasks import Arrivals
from spdist.language import ast
from spdist.language.types import Schema
from spdist.mapping import json_columns
from spdist.mapping.base import MapSetting
from spdist.mapping.columns import ColumnarRows, EventList, Events, child
from spdist.transports.base import NO_CLOCK, Record, Repeats
from spdist.transports.errors import read_errors
from spdist.transports.kafka.record_batches import FetchedMessages
from spdist.transports.log import LogTransport
from spdist.transports.options import Options
from spdist.transports.payloads.payload import Payload
from spdist.transports.rejects import Rejects
from tests.engine.fetched_topic import FetchedTopic, Message

SCHEMA = Schema.of([("k", "string"), ("v", "long")])
TOPIC = "App.S@0:orders"
NOW = 10_000


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Much of what is drawn is no event; a few messages are read like many."""
    log = logging.getLogger("spdist.mapping.rejected")
    before = log.level
    log.setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "FEW", 2)
        yield
    log.setLevel(before)


def setting(*attributes: tuple[str, str], **options: str) -> MapSetting:
    nested = (ast.Annotation("attributes", tuple(ast.AnnotationElement(k, v) for k, v in attributes)),)
    elements = tuple(ast.AnnotationElement(k.replace("_", "."), v) for k, v in {"type": "json", **options}.items())
    return MapSetting("S", SCHEMA, ast.Annotation("map", elements, nested if attributes else ()))


def mapped(
    place: Path | str = ".", on_error: str = "LOG", *, live: bool = False, map: MapSetting | None = None
) -> Mapped:
    rejects = Rejects(LogTransport(place), "App", "S", Options({"on.error": on_error}, "the @source"))
    return Mapped(TOPIC, "orders", map or setting(), rejects, live=live)


def event(v: int) -> dict[str, Any]:
    return {"event": {"k": f"k{v % 3}", "v": v}}


def arrived(
    one: Mapped, messages: list[Message], *parts: list[Message], keys: list[bytes | None] | None = None
) -> tuple[Arrivals, list[Record]]:
    """What reads a topic, in some parts, and the records that it has read."""
    topic = FetchedTopic(TOPIC, messages, keys)
    arrivals = Arrivals({TOPIC: one}, topic)
    return arrivals, list(arrivals.records([topic.ranges(part, NOW) for part in parts or (messages,) if part]))


def events_of(records: list[Record], partition: int = 0) -> list[Any]:
    found = []
    for record in records:
        assert record.events is not None
        assert list(record.events) == list(Payload(SCHEMA).decode(record.value))
        assert (record.count, record.offset) == (len(record.events), record.events.order[-1])
        found += list(record.events) if record.partition == partition else []
    return found


payloads = st.one_of(
    st.integers(0, 99).map(event),
    st.lists(st.integers(0, 99).map(event), max_size=4),
    st.sampled_from(["no event", {"event": {"k": 1}}]),
)
message_lists = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(1, 500), payloads), max_size=30)


def numbered(drawn: list[Any]) -> list[tuple[int, int, int, bytes | None]]:
    """Offsets rise in each partition, with holes."""
    ends, found = [0, 0], []
    for partition, gap, sent, payload in drawn:
        found.append((partition, ends[partition] + gap, sent, json.dumps(payload).encode()))
        ends[partition] += gap + 1
    return found


@pytest.mark.parametrize("few", [2, 10**9])
def test_arrays_are_read_as_columns_where_the_loop_is_compiled(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    json_columns._KERNELS.load()
    monkeypatch.setattr(json_columns, "FEW", few)
    sent: list[Any] = [event(n) if n % 5 == 0 else [event(n + k) for k in range(n % 5 + 1)] for n in range(200)]
    sent[7] = [event(k) for k in range(300)]
    _, records = arrived(mapped(), [(0, n, 500 + n, json.dumps(one).encode()) for n, one in enumerate(sent)])
    (events,) = [record.events for record in records]
    assert events is not None and isinstance(events.rows, ColumnarRows) == (few == 2)
    expected = [
        (
            500 + n,
            n,
            child(b"", k) if isinstance(one, list) else b"",
            k,
            500 + n,
            (single["event"]["k"], single["event"]["v"]),
        )
        for n, one in enumerate(sent)
        for k, single in enumerate(one if isinstance(one, list) else [one])
    ]
    assert list(events) == expected
    assert list(Payload(SCHEMA).decode(records[0].value)) == expected


@given(message_lists, st.data())
def test_cuts_into_batches_change_no_event(drawn: list[Any], data: st.DataObject) -> None:
    messages = numbered(drawn)
    whole, expected = arrived(mapped(), messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=5)))
    parts = [messages[a:b] for a, b in zip([0, *cuts], [*cuts, len(messages)], strict=True) if a < b]
    arrivals, found = arrived(mapped(), messages, *parts)
    for partition in (0, 1):
        assert events_of(found, partition) == events_of(expected, partition)
    assert arrivals.positions == whole.positions
    ends = {p: max(o for q, o, _, _ in messages if q == p) + 1 for p in {m[0] for m in messages}}
    assert whole.positions == ({TOPIC: ends} if ends else {})


@given(message_lists, st.integers(0, 40))
def test_a_record_is_cut_between_messages(drawn: list[Any], position: int) -> None:
    messages = [one for one in numbered(drawn) if one[0] == 0]
    for record in arrived(mapped(), messages)[1]:
        left = [one for one in record.events or () if one[1] >= position]
        live, stored = cut(record, position), cut(replace(record, events=None), position)
        assert list(live.events or ()) == left
        assert (list(Payload(SCHEMA).decode(stored.value)) if stored.value else []) == left
        assert stored.value == live.value
        assert stored.offset == record.offset


def test_events_of_a_message_are_one_chunk_of_its_time_and_offset() -> None:
    batch = json.dumps([event(1), event(2)]).encode()
    (record,) = mapped().records(
        0, FetchedMessages.of([(7, 50, batch, None), (9, 40, json.dumps(event(3)).encode(), None)])
    )
    assert list(record.events or ()) == [
        (50, 7, b"\x00", 0, 50, ("k1", 1)),
        (50, 7, b"\x01", 1, 50, ("k2", 2)),
        (40, 9, b"", 0, 40, ("k0", 3)),
    ]
    assert (record.offset, record.clock, record.producer) == (9, 50, "")


def test_a_live_app_is_not_taken_into_the_future_by_a_clock_that_goes_ahead() -> None:
    messages = [(0, 0, NOW - 5, json.dumps(event(1)).encode()), (0, 1, NOW + 60_000, json.dumps(event(2)).encode())]
    messages.append((0, 2, -1, json.dumps(event(3)).encode()))
    times = []
    for live in (True, False):
        _, (record,) = arrived(mapped(live=live), messages)
        times.append([at for at, *_ in record.events or ()])
    assert times == [[NOW - 5, NOW, NOW], [NOW - 5, NOW + 60_000, NOW]]


def test_properties_of_a_message_are_there_for_the_mapping() -> None:
    names = ("topic", "partition", "offset", "record.timestamp", "key")
    schema = Schema.of([(name.replace(".", "_"), "string") for name in names])
    attributes = ast.Annotation("attributes", tuple(ast.AnnotationElement(None, f"trp:{name}") for name in names))
    annotation = ast.Annotation("map", (ast.AnnotationElement("type", "json"),), (attributes,))
    one = mapped(map=MapSetting("S", schema, annotation))
    _, (record,) = arrived(one, [(3, 5, 77, b"{}"), (3, 6, 78, b"{}")], keys=[b"x", b"\xff"])
    first, second = (row for *_, row in record.events or ())
    assert first == ("orders", "3", "5", "77", "x")
    assert second[2:] == ("6", "78", "\ufffd")


def test_records_have_a_bound_that_splits_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdist.engine.island.intake.MOST_EVENTS", 4)
    several = [[event(n) for n in range(size)] for size in (3, 2, 1, 1, 6, 1)]
    listed = [(offset, 5, json.dumps(one).encode(), None) for offset, one in enumerate(several)]
    records = list(mapped().records(0, FetchedMessages.of(listed)))
    assert [sorted(set(record.events.order)) for record in records if record.events] == [[0], [1, 2, 3], [4], [5]]


def test_what_cannot_be_read_is_kept_once_however_often_it_is_read(tmp_path: Path) -> None:
    values = [b"nonsense", json.dumps([event(1), {"event": {"k": "a"}}, {"event": {}}]).encode()]
    for _ in range(2):
        (record,) = mapped(tmp_path, "STORE").records(
            0, FetchedMessages.of([(4, 1, values[0], None), (5, 2, values[1], None)])
        )
        assert record.count == 1
    kept = read_errors(LogTransport(tmp_path), "App")
    assert [entry["payload"] for entry in kept] == [values[0].decode(), *[values[1].decode()] * 2]
    stored = LogTransport(tmp_path).read("App.!errors", 0, 0)
    assert len(stored) == 6
    repeats = Repeats()
    assert [repeats.fresh(one) for one in stored] == [0, 0, 0, 1, 1, 1]


def test_a_message_that_nobody_can_read_takes_none_along_and_is_counted(tmp_path: Path) -> None:
    hostile = (b"[" * 5000, b'{"event":' * 5000, b'{"event":{"k":"a","v":' + b"9" * 5000 + b"}}", b"\xff")
    values = [one for bad in hostile for one in (bad, json.dumps(event(1)).encode())]
    one = mapped(tmp_path, "STORE")
    (record,) = one.records(0, FetchedMessages.of([(n, n, value, None) for n, value in enumerate(values)]))
    assert record.events is not None
    assert record.events.order.tolist() == [1, 3, 5, 7]
    assert one.rejected == len(read_errors(LogTransport(tmp_path), "App")) == len(hostile)


def test_a_value_that_cannot_travel_takes_none_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Payload.encode

    def fails(self: Payload, events: Events) -> bytes:
        if any(row[1] == 2 for row in events.rows):
            raise RecursionError("too deep")
        return encode(self, events)

    monkeypatch.setattr(Payload, "encode", fails)
    one = mapped(tmp_path)
    found = list(one.records(0, FetchedMessages.of([(n, n, json.dumps(event(n)).encode(), None) for n in range(4)])))
    assert [record.events.rows for record in found if record.events] == [[("k0", 0)], [("k1", 1)], [("k0", 3)]]
    assert one.rejected == 1


def test_a_message_without_a_value_is_rejected_and_takes_none_along(tmp_path: Path) -> None:
    values = [json.dumps(event(n)).encode() if n != 1 else None for n in range(3)]
    messages = [(0, n, NOW, value) for n, value in enumerate(values)]
    _, (record,) = arrived(mapped(tmp_path, "STORE"), messages)
    assert record.events is not None
    assert record.events.order.tolist() == [0, 2]
    assert len(read_errors(LogTransport(tmp_path), "App")) == 1


def test_messages_read_by_columns_travel_as_those_columns() -> None:
    listed = [(offset, 5, json.dumps(event(offset)).encode(), None) for offset in range(5)]
    (record,) = mapped().records(0, FetchedMessages.of(listed))
    assert record.events is not None
    expected = [{"__ts": 5, "__order": offset} | event(offset)["event"] for offset in range(5)]
    assert record.events.columns.to_pylist() == expected
    assert list(Payload(SCHEMA).decode(record.value)) == list(record.events)


def test_partitions_are_read_by_time() -> None:
    def at(*times: int) -> Events:
        made = EventList()
        for number, time in enumerate(times):
            made.add(time, number, b"", 0, time, (f"k{time}", number))
        return made.events()

    assert list(by_time([])) == []
    one, two = at(10, 30, 20, 40), at(15, 30, 35)
    assert list(by_time([[one, two]])) == [one, two]
    (together,) = by_time([[one], [two]])
    # 20 is late: it stays behind 30.
    assert together.at.tolist() == [10, 15, 30, 30, 20, 35, 40]
    assert min(together.at) > NO_CLOCK


def test_an_event_whose_time_cannot_travel_takes_none_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = mapped(tmp_path, "STORE", map=setting(("k", "k"), ("v", "v")))
    read = one._mapper.read

    def own_times(value: Any, properties: Any, sent: int, lost: Any) -> Any:
        return [
            [(2**63 if row[1] == 1 else ts, row) for ts, row in chunk] for chunk in read(value, properties, sent, lost)
        ]

    monkeypatch.setattr(one._mapper, "read", own_times)
    values = [json.dumps({"k": "a", "v": v}).encode() for v in range(3)]
    (record,) = one.records(0, FetchedMessages.of([(n, n, value, None) for n, value in enumerate(values)]))
    assert [row for *_, row in record.events or ()] == [("a", 0), ("a", 2)]
    assert one.rejected == 1
