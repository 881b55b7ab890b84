"""How far one event may move the clock of a playback app: what lies further ahead is refused and harms nobody else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.island.hosted import build_island
from spdist.engine.island.intake import within_reach
from spdist.engine.island.island import Island
from spdist.engine.local.app import LocalApp
from spdist.engine.local.idle import passes_time
from spdist.engine.shards.rescale import rescale
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.mapping.columns import EventList, Events, child
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.testing import VirtualApp
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.payloads.payload import Payload

_DAY = 86_400_000
_NOW = 1_700_000_000_000
_FAR = 4_102_444_800_000_000
_QUERY = "from S#window.timeBatch(1 sec) select v insert into O;"
_PLAYBACK = f"@app:playback define stream S (v int); {_QUERY}"


def played(text: str, timestamps: Sequence[int]) -> tuple[LocalApp, list[tuple[int, Any]]]:
    app = LocalApp(check(parse(text), catalog(), text))
    out: list[tuple[int, Any]] = []
    app.subscribe("O", lambda ts, row: out.append((ts, row[0])))
    for number, timestamp in enumerate(timestamps):
        app.send("S", timestamp, (number,))
    return app, out


def test_an_event_too_far_ahead_is_refused_and_those_after_it_go_on(caplog: pytest.LogCaptureFixture) -> None:
    near = [_NOW, _NOW + 400, _NOW + 1500, _NOW + 2100]
    with caplog.at_level(logging.WARNING):
        app, out = played(_PLAYBACK, [*near[:2], _FAR, *near[2:]])
    assert out == [(_NOW, 0), (_NOW + 400, 1), (_NOW + 1500, 3)]
    assert (app.clock, app.failures.count) == (near[-1], 1)
    assert "max.jump" in str(app.failures.latest) + caplog.text
    assert "366 days" in caplog.text


def test_what_is_within_the_bound_moves_the_clock() -> None:
    app, _ = played(_PLAYBACK, [_NOW, _NOW + 366 * _DAY, _NOW + 2 * 366 * _DAY])
    assert app.failures.count == 0
    app, _ = played(_PLAYBACK, [_NOW, _NOW + 366 * _DAY + 1])
    assert (app.failures.count, app.clock) == (1, _NOW)


def test_the_app_says_how_far_that_is() -> None:
    said = "@app:clock(max.jump='1 hour')" + _PLAYBACK
    app, _ = played(said, [_NOW, _NOW + 3_600_001, _NOW + 3_600_000])
    assert (app.failures.count, app.clock) == (1, _NOW + 3_600_000)
    app, _ = played("@app:clock(max.jump='200 years')" + _PLAYBACK, [_NOW, _NOW + 75 * 366 * _DAY])
    assert app.failures.count == 0


@pytest.mark.parametrize(
    "text", ["@app:clock(max.jmp='1 sec')", "@app:clock(max.jump='1')", "@app:clock(max.jump='0 sec')"]
)
def test_a_bound_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SiddhiAppError):
        check(parse(text + _PLAYBACK), catalog(), text + _PLAYBACK)


@pytest.mark.parametrize("first", [0, _NOW, _FAR])
def test_the_first_event_sets_the_clock_wherever_it_is(first: int) -> None:
    app, _ = played(_PLAYBACK, [first, first + 1])
    assert (app.clock, app.failures.count) == (first + 1, 0)
    again = LocalApp(app.checked)
    again.restore(app.snapshot())
    again.send("S", first + 400 * _DAY, (1,))
    assert again.failures.count == 1


def test_what_is_refused_goes_to_the_fault_stream() -> None:
    text = (
        "@app:playback @OnError(action='STREAM') define stream S (v int);"
        "from S select v insert into P; from !S select v, _error insert into O;"
    )
    _, out = played(text, [_NOW, _FAR, _NOW + 1])
    assert out == [(_FAR, 1)]


def test_a_live_app_in_virtual_time_goes_where_it_is_told() -> None:
    app, _ = played(_PLAYBACK.replace("@app:playback", ""), [_NOW, _NOW + 1000 * _DAY])
    assert app.failures.count == 0


def test_the_test_kit_counts_what_is_refused_as_lost() -> None:
    app = VirtualApp(_PLAYBACK)
    app.send("S", 1, at=_NOW)
    app.send("S", 2, at=_FAR)
    app.send("S", 3, at=_NOW + 1000)
    app.expect("O", (1,))
    assert app.lost == 1


_times = st.lists(st.sampled_from([0, 5, 90, 110, 205, 600, 10_000, 10_050, 10_120]), min_size=1, max_size=12)


@given(_times, st.data())
def test_many_events_are_taken_as_one_by_one(times: list[int], data: st.DataObject) -> None:
    text = "@app:clock(max.jump='100 millisec') @app:playback define stream S (v int); from S select v insert into O;"
    one, out = played(text, times)
    app = LocalApp(one.checked)
    many: list[tuple[int, Any]] = []
    app.subscribe("O", lambda ts, row: many.append((ts, row[0])))
    start = 0
    while start < len(times):
        end = data.draw(st.integers(start + 1, len(times)))
        app.send_batch("S", times[start:end], [(number,) for number in range(start, end)])
        start = end
    assert (many, app.clock, app.failures.count) == (out, one.clock, one.failures.count)


# --- hosted between topics -------------------------------------------------------------------------------------------


def hosted(text: str, partitions: tuple[int, ...] = (0,)) -> Island:
    output = AssignedOutput("O", (Publishing(Strategy.ALL, 1, "O", 1),))
    given = Assignment("g-1", "A", "g", text, True, (AssignedInput("S", "S", partitions, ()),), (output,))
    return build_island(given, merge_wait_ms=0)


def record(offset: int, events: Events) -> Record:
    schema = check(parse(_PLAYBACK), catalog(), _PLAYBACK).streams["S"]
    return Record("S", 0, Payload(schema).encode(events), len(events), "feeder", offset, NO_CLOCK, offset=offset)


def of_door(times: Sequence[int], start: int) -> Events:
    """Events as a source puts them in: due with the latest before them."""
    made = EventList()
    high = times[0]
    for number, time in enumerate(times):
        high = max(high, time)
        if number >= start:
            made.add(high, number, b"", 0, time, (number,))
    return made.events()


def published(island: Island, records: Sequence[Sequence[Record]]) -> list[tuple[int, Any]]:
    schema = check(parse(_PLAYBACK), catalog(), _PLAYBACK).streams["S"]
    out = []
    for batch in records:
        for one in island.process(batch, 0):
            if isinstance(one, Record) and one.count:
                events = Payload(schema).decode(one.value)
                out += [(ts, row[0]) for ts, row in zip(events.ts, events.rows, strict=True)]
    return out


@given(_times, st.data())
def test_between_topics_the_same_events_are_refused_however_batches_are_cut(
    times: list[int], data: st.DataObject
) -> None:
    text = (
        "@app:clock(max.jump='100 millisec') @app:playback define stream S (v int);"
        "from S#window.timeBatch(20) select v insert into O;"
    )
    _, alone = played(text, times)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(times)), max_size=4)))
    records, start = [], 0
    for end in dict.fromkeys((*cuts, len(times))):
        if end > start:
            made = of_door(times[:end], start)
            records.append([record(start, made)])
            start = end
    assert published(hosted(text), records) == alone
    # A replay from a snapshot in the middle decides likewise.
    first, second = hosted(text), hosted(text)
    before = published(first, records[:1])
    second.restore(first.snapshot())
    assert before + published(second, records[1:]) == alone


def test_what_was_refused_does_not_say_later_when_others_are_due() -> None:
    """The source goes by 10120 from the second event on; the app does not, though 10050 brings it within reach."""
    first = Events([10_120, 10_120], [1, 2], [b""] * 2, [0, 0], [10_120, 10_050], [(1,), (2,)])
    found, refused = within_reach(first, 10_000, 100, by_own_times=True)
    assert (found.at.tolist(), refused) == ([10_000, 10_050], 10_120)
    late = Events([10_120] * 2 + [10_130] * 2, [3, 4, 5, 6], [b""] * 4, [0] * 4, [0, 10_060, 10_130, 0], [(3,)] * 4)
    found, refused = within_reach(late, 10_050, 100, by_own_times=True, refused=refused)
    assert (found.at.tolist(), refused) == ([10_050, 10_060, 10_130, 10_130], None)


def test_within_reach_a_source_may_know_of_an_order_that_own_times_do_not_tell() -> None:
    events = Events([50, 60], [0, 1], [b""] * 2, [0, 0], [10, 20], [(0,), (1,)])
    assert within_reach(events, 5, 100, by_own_times=True) == (events, None)


def test_a_chunk_is_refused_by_its_last_event() -> None:
    events = Events([900, 900, 900], [0, 1, 2], [b""] * 3, [0, 1, 0], [5, 900, 5], [(0,), (1,), (2,)])
    assert within_reach(events, 5, 100, by_own_times=True)[0].at.tolist() == [5, 5, 5]
    assert within_reach(events, 850, 100, by_own_times=True)[0].at.tolist() == [900, 900, 900]
    assert within_reach(events, 850, 100, by_own_times=False)[0].at.tolist() == [900, 900, 900]


# --- a live app ------------------------------------------------------------------------------------------------------

_LIVE = {
    "from S#window.time(1 sec) select v, count() as n insert all events into O;": [
        (1, 1),
        (2, 2),
        (3, 3),
        (1, 2),
        (2, 1),
        (3, 0),
    ],
    "from every e1=S -> e2=S within 1 sec select e1.v as a, e2.v as b insert into O;": [(1, 2), (2, 3)],
    "from every e1=S -> not S for 1 sec select e1.v as a, 0 as b insert into O;": [(3, 0)],
    "from S#window.timeBatch(1 sec) select v, count() as n insert into O;": [(3, 3)],
    "define trigger T at every 1 sec; from T select count() as n, 0 as m insert into O; from S insert into P;": [
        (number, 0) for number in range(1, 6)
    ],
}


def live_island(text: str) -> tuple[Island, dict[str, Any]]:
    streams = check(parse(text), catalog(), text).streams
    output = AssignedOutput("O", (Publishing(Strategy.ALL, 1, "O", 1),))
    given = Assignment("g-1", "A", "g", text, False, (AssignedInput("S", "S", (0,), ()),), (output,))
    return build_island(given, merge_wait_ms=0), dict(streams)


def live(text: str, batches: Sequence[tuple[int, Sequence[tuple[int, int]]]], by_feed: bool = True) -> list[Any]:
    """What batches of time and events put out; the clock is always the batch's."""
    island, streams = live_island(text)
    out: list[Any] = []
    offset = 0
    for tick, events in batches:
        records = []
        for ts, v in events:
            made = Events.of([(ts, (v,))], offset)
            clock = ts if by_feed else NO_CLOCK
            value = Payload(streams["S"]).encode(made)
            records.append(Record("S", 0, value, 1, "feeder" if by_feed else "", offset, clock, offset=offset))
            offset += 1
        for one in island.process(records, tick):
            if isinstance(one, Record) and one.count:
                out += Payload(streams["O"]).decode(one.value).rows
        assert island.clock == tick
    return out


@pytest.mark.parametrize("by_feed", [True, False])
@pytest.mark.parametrize("query", _LIVE)
def test_an_event_from_the_future_neither_moves_nor_stops_a_live_app(query: str, by_feed: bool) -> None:
    far = _NOW + 1000 * _DAY
    near = [(_NOW, [(_NOW, 1)]), (_NOW + 200, [(_NOW + 150, 2)]), (_NOW + 300, [(_NOW + 250, 3)]), (_NOW + 5000, [])]
    text = f"define stream S (v int); {query}"
    assert live(text, near, by_feed) == _LIVE[query]
    assert live(text, [near[0], (_NOW + 100, [(far, 9)]), *near[1:]], by_feed) == _LIVE[query]
    assert live(text, [near[0], (_NOW + 200, [(far, 9), (_NOW + 150, 2)]), *near[2:]], by_feed) == _LIVE[query]


def test_what_a_live_app_refuses_goes_where_on_error_says_with_the_bound() -> None:
    text = (
        "{}@OnError(action='stream') define stream S (v int); define stream O (v int, _error string);"
        "from S select v, '' as _error insert into O;"
        "from !S select v, convert(_error, 'string') as _error insert into O;"
    )
    batches = [(_NOW, [(_NOW, 1), (_NOW + _DAY, 2), (_NOW + _DAY + 1, 3)]), (_NOW + 10, [(_NOW + 5, 4)])]
    *near, refused, last = live(text.format(""), batches)
    assert (near, last) == ([(1, ""), (2, "")], (4, ""))
    assert refused[0] == 3
    assert "lies 1 days ahead" in refused[1]
    assert "in a live app it may be 1 at most" in refused[1]
    told = live(text.format("@app:clock(max.jump='2 days') "), batches)
    assert [value for value, _ in told] == [1, 2, 3, 4]


def test_a_chunk_is_refused_in_a_live_app_by_any_of_its_events() -> None:
    text = "define stream S (v int); from S insert into O;"
    island, streams = live_island(text)
    chunk = Events([_NOW] * 2, [0, 0], [child(b"", 0), child(b"", 1)], [0, 1], [_NOW + 1000 * _DAY, _NOW], [(1,), (2,)])
    given = Record("S", 0, Payload(streams["S"]).encode(chunk), 2, "", 0, NO_CLOCK, offset=0)
    assert [one for one in island.process([given], _NOW) if isinstance(one, Record) and one.count] == []


# --- idle time -------------------------------------------------------------------------------------------------------


def idle_app(text: str, partitions: tuple[int, ...] = (0,)) -> Island:
    output = AssignedOutput("O", (Publishing(Strategy.ALL, 1, "O", 1),))
    inputs = (AssignedInput("S", "S", partitions, ()),)
    whole = f"@app:playback(idle.time='100 millisec', increment='1 sec') define stream S (v int); {text}"
    return build_island(Assignment("g-1", "A", "g", whole, True, inputs, (output,), idle_ms=100), merge_wait_ms=0)


def heard(island: Island, tick: int, *times: int) -> list[tuple[int, Any]]:
    """What a batch at a tick publishes; it brings the events of these times."""
    made = Events.of([(time, (number,)) for number, time in enumerate(times)])
    records = [record(island.events_in, made)] if times else []
    schema = check(parse(_PLAYBACK), catalog(), _PLAYBACK).streams["S"]
    out = []
    for one in island.process(records, tick):
        if isinstance(one, Record) and one.count:
            events = Payload(schema).decode(one.value)
            out += [(ts, row[0]) for ts, row in zip(events.ts, events.rows, strict=True)]
    return out


def test_after_idle_time_the_clock_goes_on_by_the_increment() -> None:
    island = idle_app("from S#window.timeBatch(2 sec) select v insert into O;")
    assert heard(island, 10_000) == []
    assert island.clock is None
    assert heard(island, 50_000, _NOW) == []
    assert heard(island, 50_099) == []
    assert island.clock == _NOW
    assert heard(island, 50_100) == []
    assert island.clock == _NOW + 1000
    again = idle_app("from S#window.timeBatch(2 sec) select v insert into O;")
    again.restore(island.snapshot())
    for one in (island, again):
        assert heard(one, 50_199) == []
        assert heard(one, 50_200) == [(_NOW, 0)]
        assert one.clock == _NOW + 2000
        heard(one, 50_250, _NOW + 500)  # late: the clock stays
        assert one.clock == _NOW + 2000
        heard(one, 50_349)
        assert one.clock == _NOW + 2000
        heard(one, 50_650)
        assert one.clock == _NOW + 6000


def test_idle_time_lets_what_waits_for_a_silent_partition_go() -> None:
    island = idle_app("from S select v insert into O;", (0, 1))
    assert heard(island, 1000, _NOW) == []
    assert heard(island, 1100) == [(_NOW, 0)]
    assert island.clock == _NOW + 1000


def test_absence_in_a_sequence_goes_on_with_idle_time_from_the_first_event() -> None:
    island = idle_app("from every not S[v < 0] for 1 sec, e2=S select e2.v as v insert into O;")
    assert heard(island, 500, 1_600_000_000_000) == []
    assert heard(island, 600) == []
    assert island.clock == 1_600_000_001_000
    assert [v for _, v in heard(island, 650, 1_600_000_001_500)] == [0]
    heard(island, 650 + 86_400_000)
    assert island.clock == 1_600_000_001_500 + 864_000 * 1000


def test_the_source_wakes_an_app_with_idle_time() -> None:
    bare = Assignment("g-1", "A", "g", "", True, (AssignedInput("S", "S", (0,), ()),), ())
    inner = AssignedInput("S", "S", (0,), ("A-up-1",))
    assert not passes_time(bare)
    assert passes_time(replace(bare, playback=False))
    assert passes_time(replace(bare, idle_ms=100))
    assert not passes_time(replace(bare, idle_ms=100, inputs=(inner,)))
    assert Assignment.from_dict(replace(bare, idle_ms=100).to_dict()).idle_ms == 100


# --- in another number of shards -------------------------------------------------------------------------------------

_SPLIT = "partition with (v of S) begin from S select v insert into O; end;"


def resharded(island: Island, again: Island) -> Island:
    """Return `again`, gone on from where `island` is by way of three shards."""
    text = f"@app:playback define stream S (v int); {_SPLIT}"
    checked = check(parse(text), catalog(), text)
    given = Assignment("g-1", "A", "g", text, True, (AssignedInput("S", "S", (0,), ()),), ())
    states = rescale([island.snapshot()], checked, given, 3)
    again.restore(rescale(states, checked, given, 1)[0])
    return again


def test_what_was_refused_does_not_say_when_others_are_due_in_other_shards() -> None:
    text = f"@app:clock(max.jump='100 millisec') @app:playback define stream S (v int); {_SPLIT}"
    times = [10_000, 10_120, 10_050, 10_060, 10_070]
    batches = [[record(start, of_door(times[: start + 1], start))] for start in range(len(times))]
    whole, first = hosted(text), hosted(text)
    published(whole, batches[:3])
    published(first, batches[:3])
    second = resharded(first, hosted(text))
    for batch in batches[3:]:
        assert published(second, [batch]) == published(whole, [batch])
        assert second.clock == whole.clock
    assert whole.clock == 10_070


def test_idle_time_goes_on_in_other_shards() -> None:
    island = idle_app(_SPLIT)
    heard(island, 50_000, _NOW)
    again = resharded(island, idle_app(_SPLIT))
    for one in (island, again):
        heard(one, 50_100)
    assert island.clock == again.clock == _NOW + 1000
