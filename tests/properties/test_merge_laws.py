"""Whatever the interleaving of channels and the cut into batches, the same events come out in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.island.merge import Merge
from spdist.mapping.columns import TIMER, EventList
from spdist.planning.topology import AssignedInput
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import SCHEMA, island

INPUTS = (
    AssignedInput("A", "App.A", (0, 1)),
    AssignedInput("B", "App.B", (0,), ("App-g-1", "App-g-2")),
)
CHANNELS = [("App.A", 0, "f"), ("App.A", 1, "f"), ("App.B", 0, "App-g-1"), ("App.B", 0, "App-g-2")]
END = 10_000

#: What one channel delivers: records of (time since the event before, order) pairs, each with a promise or without.
record_contents = st.tuples(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3)), max_size=4), st.none() | st.integers(0, 3)
)
channel_contents = st.lists(record_contents, max_size=5)
all_contents = st.lists(channel_contents, min_size=len(CHANNELS), max_size=len(CHANNELS))


def records_of(key: tuple[str, int, str], contents: Sequence[Any]) -> list[Record]:
    """The channel's records; each row says where it comes from, and the last record promises the end."""
    made, seq, at = [], 0, 100
    payload = Payload(SCHEMA)
    for pairs, promise in contents:
        events = EventList()
        for gap, order in pairs:
            at += gap
            events.add(at, order, b"", 0, at, (f"{key}", seq + len(events)))
        at += promise or 0
        clock = at if promise is not None else NO_CLOCK
        value = payload.encode(events.events()) if len(events) else b""
        made.append(Record(key[0], key[1], value, len(events), key[2], seq, clock))
        seq += len(events)
    return [*made, Record(key[0], key[1], b"", 0, key[2], seq, END)]


def delivered(data: st.DataObject, contents: list[list[Any]]) -> list[list[Record]]:
    """A drawn interleaving of all channels, cut into drawn batches."""
    left = [records_of(key, channel) for key, channel in zip(CHANNELS, contents, strict=True)]
    batches: list[list[Record]] = [[]]
    while any(left):
        queue = data.draw(st.sampled_from([queue for queue in left if queue]))
        batches[-1].append(queue.pop(0))
        if data.draw(st.booleans()):
            batches.append([])
    return batches


def merged(batches: list[list[Record]]) -> list[Any]:
    merge = Merge(INPUTS, live=False, merge_wait_ms=0)
    payload, out, reached = Payload(SCHEMA), [], NO_CLOCK
    for batch in batches:
        for r in batch:
            merge.offer((r.topic, r.partition, r.producer), payload.decode(r.value) if r.count else None, r.clock)
        frontier = merge.frontier(0)
        assert frontier >= reached
        for chunk in chain.from_iterable(due.chunks() for due in merge.due()):
            # In time: neither before what was processed, nor too early.
            assert (reached, TIMER) < (chunk.at, chunk.order) < (frontier, 0)
            out.append((chunk.at, chunk.order, [*chunk.arrivals]))
        reached = frontier
    assert merge.pending == 0
    return out


@settings(max_examples=40)
@given(st.data(), all_contents)
def test_the_released_order_depends_on_the_channels_alone(data: st.DataObject, contents: list[list[Any]]) -> None:
    out = merged(delivered(data, contents))
    assert out == merged(delivered(data, contents))
    assert [entry[:2] for entry in out] == sorted(entry[:2] for entry in out)


@settings(max_examples=40)
@given(st.data(), all_contents)
def test_each_channel_keeps_its_order_and_loses_nothing(data: st.DataObject, contents: list[list[Any]]) -> None:
    rows = [row for *_, arrivals in merged(delivered(data, contents)) for _, row in arrivals]
    for key, channel in zip(CHANNELS, contents, strict=True):
        sent = sum(len(pairs) for pairs, _ in channel)
        assert [number for name, number in rows if name == f"{key}"] == list(range(sent))


@settings(max_examples=40)
@given(st.data(), all_contents)
def test_an_island_puts_out_the_same_events_with_the_same_ids(data: st.DataObject, contents: list[list[Any]]) -> None:
    assert put_out(delivered(data, contents)) == put_out(delivered(data, contents))


@settings(max_examples=40)
@given(st.data(), all_contents)
def test_a_snapshot_between_any_two_batches_is_invisible(data: st.DataObject, contents: list[list[Any]]) -> None:
    batches = delivered(data, contents)
    assert put_out(batches, restore_at=data.draw(st.integers(0, len(batches)))) == put_out(batches)


def put_out(batches: list[list[Record]], restore_at: int | None = None) -> dict[tuple[int, int], Any]:
    """What an island publishes: each event by partition and id, whatever record it is packed in."""
    one, events = island(*INPUTS), {}
    for number, batch in enumerate(batches):
        if number == restore_at:
            snapshot = one.snapshot()
            one = island(*INPUTS)
            one.restore(snapshot)
        promised = {0: NO_CLOCK, 1: NO_CLOCK}
        for record in one.process(batch, 0):
            if record.count:
                made = Payload(SCHEMA).decode(record.value)
                assert min(made.at) >= promised[record.partition]  # it has kept its promises
                for position, entry in enumerate(made):
                    events[record.partition, record.seq + position] = entry
            promised[record.partition] = max(promised[record.partition], record.clock)
    return events
