"""What holds of the local engine for every app and every input."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import run
from tests.properties.siddhi_apps import DEFINITIONS, Event, Sample, Watched, queries, samples

laws = settings(max_examples=120)


def outcome(sample: Sample) -> list[object]:
    """What comes out when each event is sent by itself."""
    watched = Watched(sample.text)
    for stream, timestamp, row in sample.events:
        watched.app.send(stream, timestamp, row)
    watched.app.advance(sample.end)
    return list(watched.seen)


def runs(events: tuple[Event, ...]) -> list[tuple[str, list[int], list[tuple[object, ...]]]]:
    """Events in a row that belong to one stream, as `LocalApp.send_batch` takes them."""
    made = []
    for stream, group in groupby(events, key=lambda event: event[0]):
        part = list(group)
        made.append((stream, [timestamp for _, timestamp, _ in part], [row for *_, row in part]))
    return made


@laws
@given(samples())
def test_batches_give_what_single_events_give(sample: Sample) -> None:
    watched = Watched(sample.text)
    for stream, timestamps, rows in runs(sample.events):
        watched.app.send_batch(stream, timestamps, rows)
    watched.app.advance(sample.end)
    assert watched.seen == outcome(sample)


@laws
@given(samples(), st.data())
def test_where_a_batch_is_cut_does_not_matter(sample: Sample, data: st.DataObject) -> None:
    watched = Watched(sample.text)
    for stream, timestamps, rows in runs(sample.events):
        cut = data.draw(st.integers(0, len(rows)))
        watched.app.send_batch(stream, timestamps[:cut], rows[:cut])
        watched.app.send_batch(stream, timestamps[cut:], rows[cut:])
    watched.app.advance(sample.end)
    assert watched.seen == outcome(sample)


@laws
@given(samples(), st.data())
def test_going_on_from_a_snapshot_in_a_new_app_is_invisible(sample: Sample, data: st.DataObject) -> None:
    stops = data.draw(st.sets(st.integers(0, len(sample.events)), min_size=1, max_size=4))
    watched = Watched(sample.text)
    for number, (stream, timestamp, row) in enumerate(sample.events):
        if number in stops:
            watched.again()
        watched.app.send(stream, timestamp, row)
    if len(sample.events) in stops:
        watched.again()
    watched.app.advance(sample.end)
    assert watched.seen == outcome(sample)


@laws
@given(samples(late=False), st.data())
def test_letting_time_pass_in_smaller_steps_changes_nothing(sample: Sample, data: st.DataObject) -> None:
    watched = Watched(sample.text)
    for stream, timestamp, row in sample.events:
        watched.app.advance(data.draw(st.integers(watched.app.clock, timestamp)))
        watched.app.send(stream, timestamp, row)
    watched.app.advance(data.draw(st.integers(watched.app.clock, sample.end)))
    watched.app.advance(sample.end)
    assert watched.seen == outcome(sample)


@laws
@given(samples(late=False))
def test_the_next_timer_is_always_ahead_and_nothing_happens_before_it(sample: Sample) -> None:
    watched = Watched(sample.text)
    for stream, timestamp, row in sample.events:
        due = watched.app.next_timer
        if due is not None and watched.app.clock < due <= timestamp:
            before = len(watched.seen)
            watched.app.advance(due - 1)
            assert len(watched.seen) == before
        watched.app.send(stream, timestamp, row)


def _counts_alike(query: str) -> bool:
    """Tell whether a query does the same in a partition: as in Siddhi keys share periods; `batch` forgets RESETs."""
    return not any(word in query for word in ("UUID", "timeBatch", "#window.batch()"))


@laws
@given(queries().filter(_counts_alike), samples(late=False))
def test_a_partition_is_one_app_for_each_key(query: str, sample: Sample) -> None:
    def arrivals(key: object = None) -> dict[str, list[tuple[int, tuple[object, ...]]]]:
        chosen = [(timestamp, row) for stream, timestamp, row in sample.events if stream == "A"]
        return {"A": [(t, row) for t, row in chosen if row[0] is not None and key in (None, row[0])]}

    text = f"{DEFINITIONS}partition with (id of A) begin {query} end;"
    whole = run(text, arrivals(), until=sample.end)["Out"]
    parts = []
    for key in "xyz":
        if arrivals(key)["A"]:
            parts += run(DEFINITIONS + query, arrivals(key), until=sample.end)["Out"]
    assert sorted(map(repr, whole)) == sorted(map(repr, parts))


_small = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("xyz")), max_size=40)


@laws
@given(_small, st.integers(1, 4))
def test_a_length_window_adds_up_its_last_events(values: list[tuple[int, str]], length: int) -> None:
    text = f"define stream S (v int, k string); from S#window.length({length}) select sum(v) as s insert into Out;"
    out = run(text, {"S": list(enumerate(values))}).get("Out", [])
    window: deque[int] = deque(maxlen=length)
    expected = []
    for number, (value, _) in enumerate(values):
        window.append(value)
        expected.append((number, (sum(window),)))
    assert out == expected


@laws
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=40), st.integers(1, 60))
def test_a_time_window_adds_up_what_is_younger(gaps: list[tuple[int, int]], length: int) -> None:
    text = f"define stream S (v int); from S#window.time({length}) select sum(v) as s, count() as n insert into Out;"
    time, arrivals = 1000, []
    for gap, value in gaps:
        time += gap
        arrivals.append((time, (value,)))
    expected = []
    for number, (now, _) in enumerate(arrivals):
        held = [row[0] for ts, row in arrivals[: number + 1] if now < ts + length]
        expected.append((now, (sum(held), len(held))))
    assert run(text, {"S": arrivals}).get("Out", []) == expected


@laws
@given(_small)
def test_groups_count_for_themselves(values: list[tuple[int, str]]) -> None:
    text = "define stream S (v int, k string); from S select k, sum(v) as s, count() as n group by k insert into Out;"
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    expected = []
    for number, (value, key) in enumerate(values):
        totals[key][0] += value
        totals[key][1] += 1
        expected.append((number, (key, *totals[key])))
    assert run(text, {"S": list(enumerate(values))}).get("Out", []) == expected


@laws
@given(_small, _small, st.sampled_from(["", " within 9 millisec"]), st.sampled_from(["", "v > a.v and "]))
def test_a_pattern_finds_by_index_what_it_finds_by_looking(
    firsts: list[tuple[int, str]], seconds: list[tuple[int, str]], within: str, more: str
) -> None:
    def found(equal: str) -> list[object]:
        pattern = f"every a=S -> b=T[{more}{equal}]{within}"
        text = f"define stream S (v int, k string); define stream T (v int, k string); from {pattern}"
        text += " select a.v as av, b.v as bv, a.k as k insert into Out;"
        events = {"S": list(enumerate(firsts)), "T": list(enumerate(seconds))}
        return list(run(text, events).get("Out", []))

    assert found("k == a.k") == found("not (k != a.k)")
