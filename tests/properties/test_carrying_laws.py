"""An app that goes on from a state of another text: what has not changed does not notice, what has begins then."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.errors import StateError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.properties.siddhi_apps import DEFINITIONS, Event, Sample, matches, queries, samples

Seen = list[tuple[str, int, tuple[object, ...]]]


def app_of(text: str, seen: Seen) -> LocalApp:
    app = LocalApp(check(parse(text), catalog(), text))
    for stream in app.checked.streams:
        if stream.startswith("Out"):
            app.subscribe(stream, lambda ts, row, stream=stream: seen.append((stream, ts, row)))  # type: ignore[misc]
    return app


def sent(app: LocalApp, events: tuple[Event, ...]) -> None:
    for stream, timestamp, row in events:
        app.send(stream, timestamp, row)


def of(seen: Seen, stream: str) -> Seen:
    return [one for one in seen if one[0] == stream]


def made(number: int, body: str, partitioned: bool) -> str:
    """A query as an element of its own, with outputs of its own."""
    body = body.replace("into Out;", f"into Out{number};")
    return f"partition with (id of A, id of B) begin {body} end;" if partitioned else body


#: Not the business of one query alone: values drawn for all; a failure, which loses an event for those behind it.
_TOGETHER = ("UUID", "fails")
drawn = st.tuples((queries() | matches()).filter(lambda body: not any(w in body for w in _TOGETHER)), st.booleans())


@settings(max_examples=60)
@given(drawn, drawn, drawn, samples(late=False), st.data())
def test_what_is_unchanged_goes_on_and_what_is_changed_begins(
    kept: tuple[str, bool], old: tuple[str, bool], new: tuple[str, bool], sample: Sample, data: st.DataObject
) -> None:
    staying, leaving, coming = made(1, *kept), made(2, *old), made(3, *new)
    cut = data.draw(st.integers(0, len(sample.events)))
    before, after = sample.events[:cut], sample.events[cut:]

    seen: Seen = []
    first = app_of(DEFINITIONS + leaving + staying, seen)
    first.start(1000)
    sent(first, before)
    at, position = first.clock, len(seen)
    second = app_of(DEFINITIONS + staying + coming, seen)
    changes = second.carry_over(first.snapshot())
    second = again(second, DEFINITIONS + staying + coming, seen) if data.draw(st.booleans()) else second
    sent(second, after)
    second.advance(sample.end)

    untouched: Seen = []
    whole = app_of(DEFINITIONS + staying, untouched)
    whole.start(1000)
    sent(whole, sample.events)
    whole.advance(sample.end)
    assert of(seen, "Out1") == untouched
    fresh: Seen = []
    begun = app_of(DEFINITIONS + coming, fresh)
    begun.start(at)
    sent(begun, after)
    begun.advance(sample.end)
    assert of(seen, "Out3") == fresh
    assert not of(seen[position:], "Out2")
    assert [change.outcome for change in changes] == ["keeps", "new", "removed"]


def again(app: LocalApp, text: str, seen: Seen) -> LocalApp:
    """Go on in a new app of the same text, from a snapshot: what is to begin has not yet."""
    snapshot = app.snapshot()
    other = app_of(text, seen)
    other.restore(snapshot)
    assert other.snapshot() == snapshot
    return other


TABLE = "define table T (id string, v int); "
TRIGGER = "define trigger Tick at every {} millisec; from Tick select triggered_time as at insert into OutTick; "


def test_tables_windows_and_aggregations_outlive_an_update() -> None:
    kept = (
        "define table T (id string, v int); define window W (v int) length(3) output all events; "
        "define aggregation G from A select sum(v) as s aggregate every sec, min; "
    )
    writers = "from A[v > {}] select id, v insert into T; from A select v insert into W; "
    seen: Seen = []
    first = app_of(DEFINITIONS + kept + writers.format(0), seen)
    for number in range(4):
        first.send("A", 1000 + number, ("x", number, 1.0, 0))
    second = app_of(DEFINITIONS + kept + writers.format(2) + "from W select sum(v) as s insert into Out;", seen)
    second.carry_over(first.snapshot())
    second.send("A", 2500, ("x", 2, 1.0, 0))
    assert [row for (row,) in second.query("from T select v").rows] == [1, 2, 3]
    assert [row for (row,) in second.query("from W select v").rows] == [2, 3, 2]
    sums = second.query("from G within 0L, 100000L per 'sec' select s").rows
    assert [row for (row,) in sums] == [6, 2]
    assert seen[-1][2] == (-1 + 2,), "the reader begins with what enters and leaves from now on"


def test_triggers_go_on_and_new_ones_count_from_the_update() -> None:
    seen: Seen = []
    first = app_of(DEFINITIONS + TRIGGER.format(100), seen)
    first.start(1000)
    first.advance(1150)
    second = app_of(DEFINITIONS + TRIGGER.format(100).replace("as at", "as time"), seen)
    second.carry_over(first.snapshot())
    second.advance(1210)
    third = app_of(DEFINITIONS + TRIGGER.format(70), seen)
    third.carry_over(second.snapshot())
    third.advance(1360)
    assert [row for *_, row in seen] == [(1100,), (1200,), (1280,), (1350,)]


def test_a_trigger_at_start_fires_where_it_is_new_and_only_once() -> None:
    start = "define trigger Begun at 'start'; from Begun select triggered_time as at insert into OutBegun;"
    seen: Seen = []
    first = app_of(DEFINITIONS + TABLE, seen)
    first.start(1000)
    second = app_of(DEFINITIONS + start, seen)
    second.carry_over(first.snapshot())
    second.advance(1500)
    third = app_of(DEFINITIONS + TABLE + start, seen)
    third.carry_over(second.snapshot())
    third.advance(2000)
    assert seen == [("OutBegun", 1000, (1000,))]


def test_a_pattern_that_begins_with_an_absence_waits_from_the_update() -> None:
    absent = "from not A for 100 millisec select 'silent' as s insert into Out;"
    seen: Seen = []
    first = app_of(DEFINITIONS, seen)
    first.start(1000)
    first.advance(1950)
    second = app_of(DEFINITIONS + absent, seen)
    second.carry_over(first.snapshot())
    second.advance(2049)
    assert not seen
    second.advance(2050)
    assert seen == [("Out", 2050, ("silent",))]


def test_a_state_of_another_text_is_not_restored_but_carried_over() -> None:
    old, new = (f"@info(name='q') from A#window.length({n}) select sum(v) as s insert into Out;" for n in (2, 3))
    first = app_of(DEFINITIONS + old, [])
    first.send("A", 1000, ("x", 1, 1.0, 0))
    second = app_of(DEFINITIONS + new, [])
    with pytest.raises(StateError, match=r"not made by the app .* as it is written now: query 'q' starts empty"):
        second.restore(first.snapshot())
    assert [str(change) for change in second.carry_over(first.snapshot())] == ["query 'q' starts empty"]
    second.start(1000)
    with pytest.raises(StateError, match="has not started"):
        second.carry_over(first.snapshot())


def test_no_bit_of_a_snapshot_changes_unnoticed() -> None:
    app = app_of(DEFINITIONS + TABLE + "from A select id, v insert into T;", [])
    app.send("A", 1000, ("x", 1, 1.0, 0))
    whole = app.snapshot()
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            with pytest.raises(StateError):
                app.restore(bytes(changed))
