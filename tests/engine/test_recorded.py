"""Recorded events of several streams are played as if each was sent by itself, in the order of time."""

from __future__ import annotations

from hypothesis import given, settings

from spdist.engine.local.recorded import Recording, play
from tests.properties.siddhi_apps import Sample, Watched, samples


@settings(max_examples=100)
@given(samples())
def test_playing_is_sending_in_the_order_of_time(sample: Sample) -> None:
    streams = dict.fromkeys(stream for stream, *_ in sample.events)
    ranks = {stream: rank for rank, stream in enumerate(streams)}
    alone, played = Watched(sample.text), Watched(sample.text)
    for stream, timestamp, row in sorted(sample.events, key=lambda event: (event[1], ranks[event[0]])):
        alone.app.send(stream, timestamp, row)
    alone.app.advance(sample.end)
    given_events = {}
    for stream in streams:
        own = [(timestamp, row) for to, timestamp, row in sample.events if to == stream]
        given_events[stream] = Recording([timestamp for timestamp, _ in own], [row for _, row in own])
    play(played.app, given_events, sample.end)
    assert played.seen == alone.seen


def test_long_runs_are_played_as_short_ones_and_it_is_told_how_far_it_is() -> None:
    text = """
    define stream A (id string, v int, w double, at long);
    define stream B (id string, v int, w double, at long);
    from A#window.length(3) select sum(v) as s insert into Out;
    from every e1=A -> e2=B select e1.v as v, e2.v as w insert into Counts;
    """
    rows = [("x", number, 0.5, number) for number in range(50_000)]
    alone, played = Watched(text), Watched(text)
    told: list[int] = []
    a, b = Recording(range(1000, 41_000), rows[:40_000]), Recording([*range(40_990, 41_000)] * 2, rows[:20])
    play(played.app, {"A": a, "B": b}, tell=told.append)
    assert told == [*range(2_000, 40_001, 2_000), 40_020]
    merged = sorted(
        (timestamp, rank, row)
        for rank, one in enumerate((a, b))
        for timestamp, row in zip(one.times, one.rows, strict=True)
    )
    for timestamp, rank, row in merged:
        alone.app.send("AB"[rank], timestamp, row)
    assert played.seen == alone.seen
