"""Channels are merged by event time; what is waited for, and how long."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.island import merge as module
from spdist.engine.island.merge import Merge
from spdist.mapping.columns import TIMER, EventList, Events, child
from spdist.planning.topology import AssignedInput
from spdist.transports.base import NO_CLOCK

FED_A = AssignedInput("A", "App.A", (0,))
FED_B = AssignedInput("B", "App.B", (0,))
INNER = AssignedInput("C", "App.C", (0,), ("App-g-1", "App-g-2"))


def events(*keys: tuple[int, int]) -> Events:
    made = EventList()
    for at, order in keys:
        made.add(at, order, b"", 0, at, (order,))
    return made.events()


def released(merge: Merge, tick: int = 0) -> list[tuple[int, Any]]:
    merge.frontier(tick)
    return [(chunk.at, row[0]) for due in merge.due() for chunk in due.chunks() for _, row in chunk.arrivals]


def playback(*inputs: AssignedInput) -> Merge:
    return Merge(inputs, live=False, merge_wait_ms=0)


def test_one_channel_waits_for_nothing() -> None:
    merge = playback(FED_A)
    merge.offer(("App.A", 0, "f"), events((10, 0), (20, 1), (20, 2)), NO_CLOCK)
    assert released(merge) == [(10, 0), (20, 1), (20, 2)]
    assert merge.frontier(0) == 20


def test_runs_of_few_events_become_one_and_those_of_many_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SMALL", 3)
    monkeypatch.setattr(module, "_TOGETHER", 4)
    merge = playback(FED_A)
    for size, begin in ((2, 0), (2, 2), (1, 4), (3, 5), (1, 8)):
        merge.offer(("App.A", 0, "f"), events(*((10 + n, n) for n in range(begin, begin + size))), NO_CLOCK)
    assert [due.causes().order.tolist() for due in merge.due()] == [[0, 1, 2, 3], [4], [5, 6, 7], [8]]


def test_several_channels_wait_for_the_slowest_and_go_by_time_then_order() -> None:
    merge = playback(FED_A, FED_B)
    merge.offer(("App.A", 0, "f"), events((10, 0), (20, 5), (30, 6)), 30)
    assert merge.frontier(0) == NO_CLOCK
    assert released(merge) == []
    merge.offer(("App.B", 0, "g"), events((10, 1), (20, 4)), 25)
    assert released(merge) == [(10, 0), (10, 1), (20, 4), (20, 5)]
    assert merge.pending == 1
    merge.offer(("App.B", 0, "g"), None, 31)
    assert (merge.frontier(0), released(merge)) == (30, [])  # another event at 30 may still come
    merge.offer(("App.A", 0, "f"), None, 31)
    assert released(merge) == [(30, 6)]


def test_equal_keys_go_to_derived_streams_first_then_by_producer() -> None:
    merge = playback(FED_A, INNER)
    merge.offer(("App.A", 0, "f"), events((10, 1)), 11)
    merge.offer(("App.C", 0, "App-g-2"), Events([10], [1], [b""], [0], [10], [("second",)]), 11)
    merge.offer(("App.C", 0, "App-g-1"), Events([10], [1], [b""], [0], [10], [("first",)]), 11)
    assert released(merge) == [(10, "first"), (10, "second"), (10, 1)]


def test_the_order_within_a_channel_is_kept_where_its_keys_fall() -> None:
    merge = playback(FED_A, FED_B)
    merge.offer(("App.A", 0, "f"), events((20, 3), (20, -1), (10, 4), (21, 0)), 30)
    merge.offer(("App.B", 0, "g"), events((20, 2), (20, 9)), 30)
    assert released(merge) == [(20, 2), (20, 3), (20, -1), (20, 4), (20, 9), (21, 0)]


def test_an_event_below_a_promise_is_put_out_when_the_promise_was_due() -> None:
    merge = playback(FED_A, FED_B)
    merge.offer(("App.A", 0, "f"), None, 50)
    merge.offer(("App.A", 0, "g"), events((10, 0)), NO_CLOCK)  # a second feed of the same partition
    merge.offer(("App.B", 0, "h"), None, 60)
    assert released(merge) == []
    merge.offer(("App.A", 0, "f"), None, 51)
    assert released(merge) == [(50, 0)]


def test_a_live_app_waits_for_a_group_that_lags_so_long_and_for_a_feed_not_at_all() -> None:
    merge = Merge([FED_A, INNER], live=True, merge_wait_ms=100)
    merge.offer(("App.A", 0, "f"), events((1000, 0)), 1000)
    merge.offer(("App.C", 0, "App-g-1"), events((990, 1)), 2000)
    assert merge.frontier(1050) == 950
    assert released(merge, 1095) == [(990, 1)]
    assert released(merge, 1101) == [(1000, 0)]
    merge.offer(("App.C", 0, "App-g-2"), events((999, 2)), 5000)  # too late for its place, not lost
    assert released(merge, 1102) == [(999, 2)]
    assert merge.frontier(1300) == 1300
    assert merge.frontier(1250) == 1300  # the clock on the wall was set back


def test_a_live_app_of_several_feeds_waits_for_no_clock_that_goes_behind() -> None:
    merge = Merge([FED_A, FED_B], live=True, merge_wait_ms=100)
    merge.offer(("App.A", 0, "f"), events((61_000, 0), (61_007, 1)), 61_007)
    merge.offer(("App.B", 0, "f"), events((60_990, 2)), 60_990)
    assert released(merge, 61_005) == [(60_990, 2), (61_000, 0)], "the other one was appended after the batch began"
    # Another server goes on, whose clock is a minute behind.
    again = Merge([FED_A, FED_B], live=True, merge_wait_ms=100)
    again.restore(merge.snapshot())
    again.offer(("App.A", 0, "f"), events((1_010, 3)), 1_010)
    assert released(again, 1_020) == [(61_007, 1), (61_007, 3)]
    again.offer(("App.B", 0, "f"), events((1_030, 4)), 1_030)
    again.offer(("App.A", 0, "f"), events((1_031, 5)), 1_031)
    assert released(again, 1_040) == [(60_990, 4), (61_007, 5)]
    assert again.frontier(1_050) == 61_008, "time does not go back"
    assert again.frontier(61_500) == 61_500


def test_without_inputs_a_live_app_follows_the_clock_and_a_playback_app_stands() -> None:
    assert Merge([], live=True, merge_wait_ms=100).frontier(1234) == 1234
    assert playback().frontier(1234) == NO_CLOCK


def test_an_unannounced_producer_is_heard_and_not_waited_for() -> None:
    merge = playback(INNER)
    merge.offer(("App.C", 0, "App-g-1"), events((10, 0)), 40)
    merge.offer(("App.C", 0, "App-g-2"), None, 40)
    merge.offer(("App.C", 0, "somebody"), events((20, 1)), NO_CLOCK)
    assert released(merge) == [(10, 0), (20, 1)]
    assert merge.frontier(0) == 40


def output(*numbers: int, at: int = 50, order: int = 1, chunk: int = 0) -> Events:
    """Outputs of one cause, with these numbers, the first at this place of its chunk."""
    made = EventList()
    for number in numbers:
        made.add(at, order, child(b"", number), chunk + number - numbers[0], at, (number,))
    return made.events()


def chunks(merge: Merge) -> list[list[Any]]:
    merge.frontier(0)
    return [[row[0] for _, row in chunk.arrivals] for due in merge.due() for chunk in due.chunks()]


SPREAD = AssignedInput("C", "App.C", (0, 1), ("App-g-1",))


def test_a_chunk_stays_together() -> None:
    merge = playback(AssignedInput("C", "App.C", (0,), ("App-g-1",)))
    merge.offer(("App.C", 0, "App-g-1"), output(0, 1), NO_CLOCK)
    merge.offer(("App.C", 0, "App-g-1"), output(2), 60)
    assert chunks(merge) == [[0, 1], [2]]


def test_a_chunk_that_was_spread_is_whole_again_for_who_reads_all_of_it() -> None:
    merge = playback(SPREAD)
    merge.offer(("App.C", 1, "App-g-1"), output(1, chunk=1), 60)
    for number in (0, 2):
        merge.offer(("App.C", 0, "App-g-1"), output(number, chunk=number), 60 if number else NO_CLOCK)
    assert chunks(merge) == [[0, 1, 2]]


def test_what_is_left_of_a_chunk_is_one_only_where_nothing_is_missing_in_between() -> None:
    merge = playback(AssignedInput("C", "App.C", (0,), ("App-g-1",)))
    for number in (0, 1, 3, 4, 6):
        merge.offer(("App.C", 0, "App-g-1"), output(number, chunk=number), NO_CLOCK)
    assert chunks(merge) == [[0, 1], [3, 4], [6]]


def test_chunks_of_two_producers_are_not_mixed_up() -> None:
    merge = playback(INNER)
    merge.offer(("App.C", 0, "App-g-1"), output(0), 60)
    merge.offer(("App.C", 0, "App-g-2"), output(1, chunk=1), 60)
    assert chunks(merge) == [[0], [1]]


def test_the_rest_of_a_chunk_that_is_sent_again_keeps_its_place() -> None:
    merge = playback(INNER)
    for number, chunk in ((6, 0), (4, 0), (5, 1)):
        merge.offer(("App.C", 0, "App-g-1"), output(number, chunk=chunk), 60 if chunk else NO_CLOCK)
    merge.offer(("App.C", 0, "App-g-2"), output(5), 60)
    assert chunks(merge) == [[5], [6], [4, 5]]


def test_the_first_rows_of_chunks_are_those_of_the_streams_that_are_named() -> None:
    merge = playback(FED_A, INNER)
    merge.offer(("App.A", 0, "f"), events((50, 1), (51, 2)), 60)
    merge.offer(("App.C", 0, "App-g-1"), output(0, 1), 60)
    merge.offer(("App.C", 0, "App-g-2"), None, 60)
    merge.frontier(0)
    (due,) = merge.due()
    assert due.first_rows({"C"}) == [(0,), None, None]
    assert due.first_rows({"A"}) == [None, (1,), (2,)]


def test_what_one_cause_put_out_is_in_that_order_again_after_it_was_spread() -> None:
    merge = playback(SPREAD)
    for number in range(6):
        merge.offer(("App.C", number % 2, "App-g-1"), output(number), 60 if number > 3 else NO_CLOCK)
    assert released(merge) == [(50, number) for number in range(6)]


def test_an_event_comes_after_what_it_caused_upstream() -> None:
    merge = playback(FED_A, AssignedInput("C", "App.C", (0,), ("App-g-1",)))
    merge.offer(("App.A", 0, "f"), Events.of([(50, ("cause",))], 1), 60)
    merge.offer(("App.C", 0, "App-g-1"), output(0, 1), 60)
    assert released(merge) == [(50, 0), (50, 1), (50, "cause")]


def test_what_timers_put_out_at_a_time_is_waited_for_until_that_time_is_promised() -> None:
    merge = playback(INNER)
    for number, producer in enumerate(("App-g-1", "App-g-2")):
        merge.offer(("App.C", 0, producer), output(number, order=TIMER), NO_CLOCK)
    assert (merge.frontier(0), released(merge)) == (49, [])
    merge.offer(("App.C", 0, "App-g-1"), output(2, order=TIMER), 50)
    assert (merge.frontier(0), released(merge)) == (49, [])
    merge.offer(("App.C", 0, "App-g-2"), None, 50)
    assert (merge.frontier(0), released(merge)) == (50, [(50, 0), (50, 1), (50, 2)])


def test_time_begins_with_the_first_thing_heard() -> None:
    merge = playback(FED_A, FED_B)
    assert merge.first is None
    merge.offer(("App.A", 0, "f"), events((30, 0)), 40)
    merge.offer(("App.B", 0, "g"), None, 20)
    assert merge.first == 20


def test_a_snapshot_holds_what_waits_and_what_was_promised() -> None:
    merge = playback(FED_A, INNER)
    merge.offer(("App.A", 0, "f"), events((10, 0), (20, 1)), 30)
    merge.offer(("App.C", 0, "App-g-1"), None, 15)
    merge.offer(("App.C", 0, "guest"), events((12, 3)), 15)
    again = playback(FED_A, INNER)
    again.restore(merge.snapshot())
    for one in (merge, again):
        one.offer(("App.C", 0, "App-g-2"), None, 16)
        assert released(one) == [(10, 0), (12, 3)]
        assert one.pending == 1
        assert one.first == 10


def test_a_chunk_that_has_waited_in_a_snapshot_is_one_still() -> None:
    merge, again = (playback(AssignedInput("C", "App.C", (0,), ("App-g-1",))) for _ in range(2))
    merge.offer(("App.C", 0, "App-g-1"), output(1, 2, chunk=1), NO_CLOCK)
    again.restore(merge.snapshot())
    assert chunks(again) == chunks(merge) == [[1, 2]]
