"""The local engine from outside: time, input, observers, state."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.errors import StateError, UndefinedNameError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

BATCHES = "define stream S (v int); @info(name='q') from S#window.timeBatch(100) select sum(v) as s insert into Out;"


def app(text: str = BATCHES, **options: Any) -> LocalApp:
    return LocalApp(check(parse(text), catalog(), text), **options)


def watched(text: str = BATCHES) -> tuple[LocalApp, list[Any]]:
    made = app(text)
    seen: list[Any] = []
    made.subscribe("Out", lambda ts, row: seen.append((ts, row)))
    return made, seen


def test_time_moves_with_events_and_by_itself() -> None:
    made, seen = watched()
    made.start(1000)
    assert (made.clock, made.next_timer) == (1000, None)
    made.send("S", 1010, (1,))
    assert (made.clock, made.next_timer) == (1010, 1110)
    made.send("S", 1050, (2,))
    made.advance(1109)
    assert (seen, made.clock) == ([], 1109)
    made.advance(1110)
    assert seen == [(1050, (3,))]
    made.advance(500)
    assert made.clock == 1110


def test_an_app_that_is_not_started_starts_with_its_first_event() -> None:
    made = app("define stream S (v int); from not S for 100 millisec -> e=S select e.v as v insert into Out;")
    assert made.next_timer is None
    made.send("S", 1000, (1,))
    assert made.next_timer == 1100
    made.start(9999)
    assert made.clock == 1000


def test_an_app_may_start_at_any_time_also_before_1970() -> None:
    made, seen = watched()
    made.start(-500)
    made.send("S", -450, (1,))
    made.advance(0)
    assert seen == [(-450, (1,))]


def test_a_late_event_is_taken_with_the_clock_where_it_is() -> None:
    text = (
        "define stream S (v int); from S select v, currentTimeMillis() as now, eventTimestamp() as own insert into Out;"
    )
    made, seen = watched(text)
    made.send("S", 1000, (1,))
    made.send("S", 900, (2,))
    assert seen == [(1000, (1, 1000, 1000)), (900, (2, 1000, 900))]


def test_what_is_due_at_an_events_time_comes_before_it() -> None:
    made, seen = watched()
    made.send("S", 1000, (1,))
    made.send("S", 1100, (2,))
    made.advance(1200)
    assert seen == [(1000, (1,)), (1100, (2,))]


def test_the_events_of_a_chunk_come_together_with_the_clock_at_the_last() -> None:
    text = "define stream S (v int); from S select sum(v) as s, currentTimeMillis() as now insert into Out;"
    made, seen = watched(text)
    made.send_chunk("S", [(1000, (1,)), (1005, (2,))])
    made.send_chunk("S", [])
    assert seen == [(1005, (3, 1005))]


@pytest.mark.parametrize("send", ["send", "send_batch", "send_chunk", "subscribe"])
def test_an_unknown_stream_is_told_with_what_was_meant(send: str) -> None:
    made = app("define stream Orders (v int); from Orders select v insert into Out;")
    arguments: dict[str, tuple[Any, ...]] = {
        "send": (1, (1,)),
        "send_batch": ([1], [(1,)]),
        "send_chunk": ([(1, (1,))],),
        "subscribe": (print,),
    }
    with pytest.raises(UndefinedNameError, match=r"'Order'[\s\S]*Orders"):
        getattr(made, send)("Order", *arguments[send])


def test_an_unknown_query_is_told() -> None:
    with pytest.raises(UndefinedNameError, match="'p'"):
        app().subscribe_query("p", print)


def test_times_and_rows_of_a_batch_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="2 timestamps for 1 rows"):
        app().send_batch("S", [1, 2], [(1,)])


def test_an_observers_error_comes_out_of_the_call() -> None:
    def refuse(_timestamp: int, _row: Any) -> None:
        raise KeyError("mine")

    made = app("define stream S (v int); from S select v insert into Mid; from Mid select v insert into Out;")
    made.subscribe("Out", refuse)
    for call in (
        lambda: made.send("S", 1, (1,)),
        lambda: made.send_batch("S", [1], [(1,)]),
        lambda: made.send_chunk("S", [(1, (1,))]),
    ):
        with pytest.raises(KeyError, match="mine"):
            call()
    assert made.failures.count == 0


def test_an_error_of_a_query_observer_comes_out_also_from_a_timer() -> None:
    made = app()
    made.subscribe_query("q", lambda ts, current, expired: current[9])
    made.send("S", 1000, (1,))
    with pytest.raises(IndexError):
        made.advance(2000)


def test_state_goes_on_in_another_app() -> None:
    made, seen = watched()
    made.send("S", 1000, (1,))
    other, also_seen = watched()
    other.restore(made.snapshot())
    assert (other.clock, other.next_timer) == (1000, 1100)
    for each in (made, other):
        each.send("S", 1010, (2,))
        each.advance(1100)
    assert seen == also_seen == [(1010, (3,))]


def test_restoring_replaces_everything_also_timers() -> None:
    made, seen = watched()
    before = made.snapshot()
    made.send("S", 1000, (1,))
    made.restore(before)
    assert made.next_timer is None
    made.send("S", 5000, (7,))
    made.advance(5100)
    assert seen == [(5000, (7,))]


def test_writing_an_app_otherwise_does_not_matter_changing_it_does() -> None:
    state = app().snapshot()
    spaced = "define stream S(v int); -- the same\n@info(name='q')\nfrom S#window.timeBatch(100)\nselect sum(v) as s\n"
    app(f"{spaced}insert into Out;").restore(state)
    with pytest.raises(StateError, match="not made by the app") as caught:
        app(BATCHES.replace("100", "200")).restore(state)
    assert caught.value.hint


@pytest.mark.parametrize("damage", [b"", b"nonsense", "cut", "list"])
def test_damaged_state_is_refused(damage: bytes | str) -> None:
    from spdist.operators.core.codec import encode

    data = {"cut": app().snapshot()[:-3], "list": encode([1, 2])}[damage] if isinstance(damage, str) else damage
    with pytest.raises(StateError):
        app().restore(data)


def test_an_object_that_cannot_be_stored_is_told() -> None:
    made = app("define stream S (o object); from S#window.length(2) select o insert into Out;")
    made.send("S", 1000, (object(),))
    with pytest.raises(StateError, match="type object"):
        made.snapshot()


def test_run_merges_streams_by_time_and_collects_every_target() -> None:
    text = """define stream A (v int); define stream B (v int);
        from A select v insert into Out; from B select v insert into Out; from A select v + 1 as v insert into More;
        partition with (v of A) begin
        from A select v insert into #Inner; from #Inner select v insert into Parts; end;"""
    out = run(text, {"A": [(1, (1,)), (3, (3,))], "B": [(2, (2,)), (3, (4,))]})
    assert out["Out"] == [(1, (1,)), (2, (2,)), (3, (3,)), (3, (4,))]
    assert out["More"] == [(1, (2,)), (3, (4,))]
    assert out["Parts"] == [(1, (1,)), (3, (3,))]
    assert set(out) == {"Out", "More", "Parts"}


def test_run_stops_where_it_is_told() -> None:
    assert run(BATCHES, {"S": [(1000, (1,))]}) == {"Out": []}
    assert run(BATCHES, {"S": [(1000, (1,))]}, until=1100) == {"Out": [(1000, (1,))]}


def test_nothing_asks_for_the_time_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise AssertionError("the machine's clock was read")

    for name in ("time", "time_ns", "monotonic", "perf_counter"):
        monkeypatch.setattr(f"time.{name}", refuse)
    text = """define stream S (v int);
        from S#window.time(1 sec) select v, UUID() as u, currentTimeMillis() as t insert all events into Out;
        from every not S for 1 sec -> e=S select e.v as v insert into Quiet;"""
    made = app(text)
    made.send("S", 1000, (1,))
    made.advance(5000)
    made.restore(made.snapshot())
