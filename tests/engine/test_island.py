"""An island from records to records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spdist.engine.island.hosted import build_island
from spdist.engine.island.island import Island
from spdist.engine.shards.shards import idle_until
from spdist.errors import MappingError, PlanningError, StateError
from spdist.language.types import Schema
from spdist.mapping.columns import TIMER, Events
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.payloads.external import mark
from spdist.transports.payloads.payload import Payload
from spdist.transports.routing import key_partition
from tests.engine.fake_app import SCHEMA, SCHEMAS, Chunk, FakeApp, assignment, island

FED = AssignedInput("A", "App.A", (0,))
FED_B = AssignedInput("B", "App.B", (0,))
PAYLOAD = Payload(SCHEMA)


def fed(*events: tuple[int, str, int], seq: int = 0, clock: int = NO_CLOCK, topic: str = "App.A") -> Record:
    made = Events.of([(ts, (key, value)) for ts, key, value in events], seq)
    return Record(topic, 0, PAYLOAD.encode(made), len(events), "feed", seq, clock)


def promise(clock: int, topic: str = "App.A") -> Record:
    return Record(topic, 0, b"", 0, "feed", 0, clock)


def put_out(records: list[Record]) -> list[tuple[int, Any]]:
    events = [PAYLOAD.decode(r.value) for r in records if r.count]
    return [(ts, row) for one in events for ts, row in zip(one.ts, one.rows, strict=True)]


ONE = (Publishing(Strategy.ALL, 1, "App.Out", 1),)


def test_events_and_timers_come_out_in_order_with_their_cause() -> None:
    one = island(FED, outputs=ONE)
    begun, *records = one.process([fed((100, "x", 1), (120, "x", 2), (160, "y", 4))], 0)
    assert (begun.count, begun.clock) == (0, 100)
    (record,) = records
    events = PAYLOAD.decode(record.value)
    assert list(zip(events.at, events.order, events.rows, strict=True)) == [
        (100, 0, ("x", 1)),
        (120, 1, ("x", 3)),
        (150, TIMER, ("quiet x", 3)),
        (160, 2, ("y", 7)),
    ]
    assert (record.producer, record.seq, record.count, record.clock) == ("App-g-1", 0, 4, 160)


def test_a_promise_lets_time_pass_and_goes_on_to_every_partition() -> None:
    one = island(FED)
    one.process([fed((100, "x", 1))], 0)
    records = one.process([promise(200)], 0)
    assert put_out(records) == [(130, ("quiet x", 1))]
    assert {r.partition: r.clock for r in records} == {0: 200, 1: 200}
    assert one.process([promise(200)], 0) == []


def test_before_all_inputs_are_heard_nothing_begins() -> None:
    one = island(FED, FED_B, outputs=ONE)
    assert one.process([fed((100, "x", 1), clock=100)], 0) == []
    assert one.clock is None
    assert one.pending == 1
    records = one.process([promise(90, "App.B")], 0)
    assert [(r.count, r.clock) for r in records] == [(0, 90)]
    assert put_out(one.process([promise(101, "App.B"), promise(101)], 0)) == [(100, ("x", 1))]


def test_a_live_island_begins_now_and_fires_while_its_stream_is_silent() -> None:
    one = island(FED, playback=False, outputs=ONE)
    assert [r.clock for r in one.process([], 5000)] == [5000]
    assert put_out(one.process([fed((5010, "x", 1))], 5012)) == [(5010, ("x", 1))]
    assert put_out(one.process([], 5039)) == []
    records = one.process([], 5040)
    assert put_out(records) == [(5040, ("quiet x", 1))]
    assert records[-1].clock == 5040


def test_an_island_says_until_when_nothing_happens_unless_something_comes() -> None:
    one = island(FED, playback=False, outputs=ONE)
    assert idle_until(one) == 0  # it has not begun
    one.process([], 5000)
    assert idle_until(one) is None
    one.process([fed((5010, "x", 1))], 5012)
    assert idle_until(one) == 5040
    one.process([], 5040)
    assert idle_until(one) is None
    lagging = replace(FED_B, producers=("B-g-1",))
    two = island(FED, lagging, playback=False, outputs=ONE)
    two.process([fed((5010, "x", 1))], 5012)
    assert (two.pending, idle_until(two)) == (1, 0)  # an event waits for what the other group says
    assert idle_until(island(FED)) == 0  # in playback nobody asks: time does not pass by itself


def test_a_chunk_comes_out_whole_with_its_own_timestamps_and_goes_in_as_one() -> None:
    one = island(FED_B, outputs=ONE)
    records = one.process([fed((100, "x", 1), (110, "y", 2), topic="App.B")], 0)
    (chunk,) = [r for r in records if r.count]
    events = PAYLOAD.decode(chunk.value)
    assert [one[:-1] for one in events] == [(110, 1, b"\0", 0, 100), (110, 1, b"\1", 1, 110)]
    inner = AssignedInput("B", "App.Out", (0,), ("App-g-1",))
    two = island(inner, outputs=ONE, name="App-h-1")
    rows = [row for _, row in put_out(two.process(records, 0))]
    assert ("x of 1 of 2", 1) in rows  # two events in one chunk
    assert ("y of 1 of 2", 4) in rows


def test_repeats_are_dropped_by_their_ids() -> None:
    one = island(FED, outputs=ONE)
    one.process([fed((100, "x", 1), (101, "x", 2))], 0)
    assert put_out(one.process([fed((100, "x", 1), (101, "x", 2)), fed((101, "x", 2), (102, "x", 4), seq=1)], 0)) == [
        (102, ("x", 7))
    ]
    assert one.events_in == 3


def test_outputs_are_spread_in_turn_over_all_batches() -> None:
    one = island(FED)
    held: dict[int, list[Any]] = {0: [], 1: []}
    for number in range(5):
        for record in one.process([fed((100 + number, "x", 1), seq=number)], 0):
            if record.count:
                held[record.partition] += PAYLOAD.decode(record.value).rows
                assert record.seq == len(held[record.partition]) - 1
    assert held == {0: [("x", 1), ("x", 3), ("x", 5)], 1: [("x", 2), ("x", 4)]}


def test_outputs_are_spread_by_key() -> None:
    one = island(FED, outputs=(Publishing(Strategy.FIELD_GROUPING, 2, "App.Out.key", 4, "key"),))
    records = one.process([fed(*((100 + n, f"k{n % 7}", 1) for n in range(20)))], 0)
    seen = {(row[0], r.partition) for r in records if r.count for row in PAYLOAD.decode(r.value).rows}
    assert seen == {(f"k{n}", key_partition(f"k{n}", 4)) for n in range(7)}


def test_a_key_that_the_stream_does_not_have_is_named() -> None:
    with pytest.raises(PlanningError, match="keyed by 'volume'"):
        island(FED, outputs=(Publishing(Strategy.FIELD_GROUPING, 1, "App.Out.volume", 1, "volume"),))


def test_what_outsiders_send_wrongly_is_dropped_and_what_groups_send_wrongly_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = island(FED, outputs=ONE)
    junk = Record("App.A", 0, b"junk", 1, "", 0, 150, 3)
    assert put_out(one.process([fed((100, "x", 1)), junk, fed((150, "y", 1), seq=1)], 0))[-1] == (150, ("y", 2))
    assert "topic App.A drops what it cannot read, 1 so far: offset 3 of partition 0" in caplog.text
    hostile = [b"[" * 5000, b"<a>" * 5000, b'[{"event":{}}, {"event":{}}]']
    records = [Record("App.A", 0, mark(value, 160, n), 1, offset=n) for n, value in enumerate(hostile, 4)]
    assert put_out(one.process([*records, fed((170, "z", 1), seq=2)], 0))[-1] == (170, ("z", 3))
    assert one.rejected == {"A": 5}
    inner = island(AssignedInput("A", "App.A", (0,), ("feed",)))
    with pytest.raises(MappingError):
        inner.process([junk], 0)


def test_a_snapshot_between_two_batches_is_invisible() -> None:
    one = island(FED, FED_B)
    one.process([fed((100, "x", 1), (120, "y", 2)), promise(110, "App.B")], 0)
    again = island(FED, FED_B)
    again.restore(one.snapshot())
    rest = [fed((130, "z", 4), seq=2), fed((115, "b", 8), topic="App.B", clock=400), promise(500)]
    assert again.process(rest, 0) == one.process(rest, 0)
    assert (again.clock, again.events_in, again.events_out, again.pending) == (
        one.clock,
        one.events_in,
        one.events_out,
        one.pending,
    )
    assert again.snapshot() == one.snapshot()


def test_an_island_that_has_not_begun_can_be_stored_too() -> None:
    one, again = island(FED, FED_B), island(FED, FED_B)
    one.process([fed((100, "x", 1))], 0)
    again.restore(one.snapshot())
    assert again.clock is None
    assert again.process([promise(150, "App.B"), promise(150)], 0) == one.process(
        [promise(150, "App.B"), promise(150)], 0
    )


def test_bytes_that_are_no_island_are_refused() -> None:
    with pytest.raises(StateError, match="no state of spdist"):
        island(FED).restore(b"junk")
    with pytest.raises(StateError, match="no snapshot of a group"):
        island(FED).restore(FakeApp().snapshot())


def test_several_topics_of_one_stream_each_get_everything() -> None:
    keyed = Publishing(Strategy.FIELD_GROUPING, 2, "App.Out.key", 2, "key")
    one = Island(assignment(FED, outputs=(ONE[0], keyed)), FakeApp(), SCHEMAS, merge_wait_ms=0)
    records = one.process([fed((100, "x", 1), (101, "y", 2))], 0)
    counts = {topic: sum(r.count for r in records if r.topic == topic) for topic in ("App.Out", "App.Out.key")}
    assert counts == {"App.Out": 2, "App.Out.key": 2}


def test_objects_are_published_as_they_were_put_out_whatever_becomes_of_them_later() -> None:
    text = """define stream S (v int); from S select list:create(v) as o insert into M; from M insert into First;
        from M select list:add(o, 7) as o insert into Second;"""
    outputs = tuple(AssignedOutput(name, (Publishing(Strategy.ALL, 1, name, 1),)) for name in ("First", "Second"))
    made = Assignment("App-1", "App", "App", text, True, (AssignedInput("S", "S", (0,)),), outputs)
    events = Payload(Schema.of([("v", "int")])).encode(Events.of([(100, (1,))]))
    records = build_island(made, 0).process([Record("S", 0, events, 1, "feed", 0, 100)], 0)
    objects = Payload(Schema.of([("o", "object")]))
    seen = {r.topic: objects.decode(r.value).rows for r in records if isinstance(r, Record) and r.count}
    assert seen == {"First": [([1],)], "Second": [([1, 7],)]}


class Returning(FakeApp):
    """Puts out what it gets as it is, and once more when a timer fires."""

    def _process(self, stream: str, arrivals: Chunk) -> None:
        self._put(arrivals)
        if stream == "Out":
            self.timers.append((self.clock + 2, ""))
            self.waiting = list(arrivals)

    def advance(self, to_ms: int) -> None:
        while self.timers and self.timers[0][0] <= to_ms:
            self.clock, _ = self.timers.pop(0)
            self._put(self.waiting)
        self.clock = max(self.clock, to_ms)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("next_ms", [99, 101, 110])
def test_what_others_published_is_not_published_when_it_comes_in_but_when_the_app_puts_it_out(
    size: int, next_ms: int
) -> None:
    own = AssignedInput("Out", "App.Out", (0,), ("App-f-1",), ("App-g-1",))
    one = Island(assignment(own, FED_B, outputs=ONE), Returning(), SCHEMAS, merge_wait_ms=0)
    rows = [(100, (key, 1)) for key in "xy"[:size]]
    chunk = Events(
        [100] * size, [7] * size, [b"\0", b"\1"][:size], [0, 1][:size], [100] * size, [row for _, row in rows]
    )
    shared = Record("App.Out", 0, PAYLOAD.encode(chunk), size, "App-f-1", 0, 120)
    records = one.process([shared, fed((next_ms, "b", 1), topic="App.B", clock=120)], 0)
    other = [(next_ms, ("b", 1))]
    assert put_out(records) == [*other, *rows] if next_ms < 102 else [*rows, *other]
