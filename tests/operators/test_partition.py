"""Partitions where recorded cases do not reach: idle keys, keys as text, what one key's failure costs."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.errors import AppValidationError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

STREAM = "define stream S (k string, v int, f float, d double, b bool);"


def app(text: str) -> tuple[LocalApp, list[Any]]:
    made = LocalApp(check(parse(text), catalog(), text))
    seen: list[Any] = []
    made.subscribe("Out", lambda ts, row: seen.append((ts, row)))
    return made, seen


def event(k: str | None = "x", v: int = 1, f: float = 0.5, d: float = 0.5, b: bool = True) -> tuple[Any, ...]:
    return (k, v, f, d, b)


def test_a_key_that_was_idle_is_forgotten() -> None:
    purge = "@purge(enable='true', interval='1 sec', idle.period='5 sec')"
    made, seen = app(
        f"{STREAM} {purge} partition with (k of S) begin from S select k, count() as n insert into Out; end;"
    )
    made.send("S", 1000, event("x"))
    made.send("S", 1500, event("y"))
    made.send("S", 4000, event("x"))
    made.send("S", 8500, event("x"))  # y was idle for 7 s, x for 4.5 s
    made.send("S", 8600, event("y"))
    assert [row for _, row in seen] == [("x", 1), ("y", 1), ("x", 2), ("x", 3), ("y", 1)]


@pytest.mark.parametrize("restored", [False, True], ids=["before", "restored"])
def test_who_is_idle_is_told_by_the_last_event_not_by_the_first(restored: bool) -> None:
    purge = "@purge(enable='true', interval='1 sec', idle.period='5 sec')"
    text = f"{STREAM} {purge} partition with (k of S) begin from S select k, count() as n insert into Out; end;"
    made, seen = app(text)
    for time, k in ((1000, "x"), (1500, "y"), (1600, "z"), (6000, "x")):
        made.send("S", time, event(k))
    if restored:
        other, seen = app(text)
        other.restore(made.snapshot())
        made = other
    for k in "xyz":
        made.send("S", 8500, event(k))
    assert [row for _, row in seen[-3:]] == [("x", 3), ("y", 1), ("z", 1)]


def test_without_purging_keys_stay() -> None:
    made, seen = app(f"{STREAM} partition with (k of S) begin from S select k, count() as n insert into Out; end;")
    made.send("S", 1000, event("x"))
    made.send("S", 10**10, event("x"))
    assert [row for _, row in seen] == [("x", 1), ("x", 2)]


def test_a_forgotten_key_wakes_no_more() -> None:
    purge = "@purge(enable='true', interval='100', idle.period='100 millisec')"
    query = "from S#window.time(1 sec) select v insert expired events into Out;"
    text = f"{STREAM} {purge} partition with (k of S) begin {query} end;"
    with pytest.raises(AppValidationError, match="'100' is no time"):
        app(text)
    made, seen = app(text.replace("interval='100'", "interval='100 millisec'"))
    made.send("S", 1000, event("x"))
    made.advance(5000)
    assert seen == []
    assert made.next_timer is None


@pytest.mark.parametrize(
    ("key", "first", "second", "together"),
    [
        ("f", event(f=0.10000000149011612), event(f=0.10000000149011612), True),
        ("b", event(b=True), event(b=False), False),
        ("v + 1", event(v=1), event(v=1), True),
        ("ifThenElse(v > 0, k, 'other')", event("x", -1), event("y", -1), True),
        ("d", event(d=1.0), event(d=1.5), False),
    ],
)
def test_keys_of_any_type(key: str, first: tuple[Any, ...], second: tuple[Any, ...], together: bool) -> None:
    text = f"{STREAM} partition with ({key} of S) begin from S select count() as n insert into Out; end;"
    out = run(text, {"S": [(1000, first), (1001, second)]})["Out"]
    assert [row for _, row in out] == [(1,), (2 if together else 1,)]


def test_a_range_gives_each_event_to_every_label_it_fits() -> None:
    ranges = "v > 1 as 'some' or v > 2 as 'many'"
    text = f"{STREAM} partition with ({ranges} of S) begin from S select v, count() as n insert into Out; end;"
    out = run(text, {"S": [(t, event(v=t)) for t in (1, 2, 3)]})["Out"]
    assert [row for _, row in out] == [(2, 1), (3, 2), (3, 1)]


def test_a_chunk_is_split_into_runs_of_one_key() -> None:
    made, seen = app(f"{STREAM} partition with (k of S) begin from S select k, sum(v) as s insert into Out; end;")
    made.send_chunk("S", [(1000, event(k, 1)) for k in ("x", "x", "y", "x", None, "x")])
    assert [row for _, row in seen] == [("x", 2), ("y", 1), ("x", 4)]


def test_one_keys_failure_is_not_anothers() -> None:
    text = """define stream S (k string, o object);
        partition with (k of S) begin from S select k, cast(o, 'int') + 1 as x insert into Out; end;"""
    made, seen = app(text)
    for time, (k, o) in enumerate([("x", 1), ("y", "text"), ("x", 2)]):
        made.send("S", time, (k, o))
    assert [row for _, row in seen] == [("x", 2), ("x", 3)]
    assert made.failures.count == 1


def test_inner_streams_of_two_keys_do_not_mix() -> None:
    text = f"""{STREAM} partition with (k of S) begin
        from S select k, v insert into #Mid;
        from #Mid#window.length(2) select k, sum(v) as s insert into Out; end;"""
    events = [("x", 1), ("y", 10), ("x", 2), ("y", 20), ("x", 3)]
    out = run(text, {"S": [(t, event(k, v)) for t, (k, v) in enumerate(events)]})["Out"]
    assert [row for _, row in out] == [("x", 1), ("y", 10), ("x", 3), ("y", 30), ("x", 5)]


def test_keys_are_part_of_a_snapshot() -> None:
    query = "from S#window.time(1 sec) select k, count() as n insert all events into Out;"
    text = f"{STREAM} partition with (k of S) begin {query} end;"
    made, seen = app(text)
    for time, k in enumerate("xyx"):
        made.send("S", 1000 + time, event(k))
    other, also_seen = app(text)
    other.restore(made.snapshot())
    for each in (made, other):
        each.send("S", 1500, event("x"))
        each.advance(3000)
    assert seen[3:] == also_seen
    assert len(also_seen) == 5


def test_each_event_begins_looks_for_idle_keys_of_its_own() -> None:
    purge = "@purge(enable='true', interval='1 sec', idle.period='2 sec')"
    made, seen = app(
        f"{STREAM} {purge} partition with (k of S) begin from S select k, count() as n insert into Out; end;"
    )
    made.send("S", 1000, event("x"))
    made.send("S", 1300, event("y"))
    made.send(
        "S", 3350, event("x")
    )  # looks at 3000 and at 3300: x is idle since 1000, more than 2 s only at the second
    made.send("S", 3350, event("y"))
    assert [row for _, row in seen] == [("x", 1), ("y", 1), ("x", 1), ("y", 2)]
