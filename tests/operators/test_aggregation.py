"""Aggregations: buckets of every duration, groups, late events, last values, reading, purging and state."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.errors import SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.aggregations.aggregation import Aggregation

T = 1_699_920_000_000  # 2023-11-14 00:00:00 GMT
EVER = (0, 4_000_000_000_000)
STREAM = "define stream S (k string, v int, d double, at long, s string);"

Event = tuple[int, tuple[Any, ...]]


def app(definition: str, extra: str = "") -> LocalApp:
    text = f"{STREAM} {definition}; {extra}"
    return LocalApp(check(parse(text), catalog(), text))


def aggregation(of: LocalApp) -> Aggregation:
    (found,) = (store for store in of._stores.values() if isinstance(store, Aggregation))
    return found


def rows(of: LocalApp, per: str, start: Any = EVER[0], end: Any = EVER[1]) -> list[tuple[Any, ...]]:
    return [row for _, row in aggregation(of).view(start, end, per).contents()]


def event(
    ts: int, k: str | None = "a", v: int | None = 1, d: float | None = 1.0, at: int | None = None, s: str | None = None
) -> Event:
    return ts, (k, v, d, ts if at is None else at, s)


def send(of: LocalApp, events: Iterable[Event]) -> LocalApp:
    for timestamp, row in events:
        of.send("S", timestamp, row)
    return of


BY_KEY = "define aggregation A from S select k, sum(v) as total, count() as n group by k aggregate every sec ... year"
FEW = [event(T, "a", 1), event(T + 400, "b", 2), event(T + 900, "a", 4), event(T + 61_000, "a", 8)]


def test_each_duration_has_its_buckets() -> None:
    running = send(app(BY_KEY), FEW)
    assert rows(running, "seconds") == [(T, "a", 5, 2), (T, "b", 2, 1), (T + 61_000, "a", 8, 1)]
    assert rows(running, "min") == [(T, "a", 5, 2), (T, "b", 2, 1), (T + 60_000, "a", 8, 1)]
    for per in ("hours", "day"):
        assert rows(running, per) == [(T, "a", 13, 3), (T, "b", 2, 1)]
    assert rows(running, "months") == [(1_698_796_800_000, "a", 13, 3), (1_698_796_800_000, "b", 2, 1)]
    # The hash of a row's key decides which one is first.
    assert rows(running, "YEAR") == [(1_672_531_200_000, "b", 2, 1), (1_672_531_200_000, "a", 13, 3)]


def test_a_range_begins_with_its_start_and_stops_before_its_end() -> None:
    running = send(app(BY_KEY), FEW)
    assert rows(running, "sec", T, T + 61_000) == [(T, "a", 5, 2), (T, "b", 2, 1)]
    assert rows(running, "sec", "2023-11-14 00:01:**", None) == [(T + 61_000, "a", 8, 1)]
    assert rows(running, "sec", "2023-11-14 00:00:01", "2023-11-14 00:02:00") == [(T + 61_000, "a", 8, 1)]


def test_groups_are_found_without_looking_at_others() -> None:
    view = aggregation(send(app(BY_KEY), FEW)).view(*EVER, "sec")
    index = view.index((1, 2))
    assert index is not None and index.attributes == (1,)
    assert [row for _, row in index.lookup("a")] == [row for _, row in view.contents() if row[1] == "a"]
    assert list(index.lookup("x")) == []
    assert view.index((0, 2)) is None


def test_the_group_of_null_is_not_found_by_its_name() -> None:
    view = aggregation(send(app(BY_KEY), [event(T, None)])).view(*EVER, "sec")
    index = view.index((1,))
    assert index is not None
    assert list(index.lookup("null")) == []
    assert [row for _, row in view.contents()] == [(T, None, 1, 1)]


def test_averages_of_whole_numbers_are_whole() -> None:
    running = app("define aggregation A from S select avg(v) as a, avg(d) as b aggregate every sec")
    send(running, [event(T, v=-2, d=1.0), event(T, v=-5, d=2.0)])
    assert rows(running, "sec") == [(T, -3, 1.5)]


def test_nulls_change_no_total_but_count() -> None:
    text = "select sum(v) as s, avg(d) as a, min(v) as lo, max(d) as hi, count(v) as n, distinctCount(v) as c"
    running = app(f"define aggregation A from S {text} aggregate every sec")
    send(running, [event(T, v=None, d=None)])
    assert rows(running, "sec") == [(T, None, None, None, None, 1, 1)]
    send(running, [event(T, v=3, d=4.0)])
    assert rows(running, "sec") == [(T, 3, 2.0, 3, 4.0, 2, 2)]


def test_totals_wrap_as_longs_do() -> None:
    text = f"{STREAM} define stream L (x long); define aggregation A from L select sum(x) as s aggregate every sec;"
    running = LocalApp(check(parse(text), catalog(), text))
    for _ in range(2):
        running.send("L", T, (2**63 - 1,))
    assert rows(running, "sec") == [(T, -2)]


def test_values_that_are_not_totals_are_those_of_the_latest_event() -> None:
    by_time = app("define aggregation A from S select v, v * 2 as w, sum(v) as s aggregate by at every sec, min")
    late = [event(T, v=1, at=T + 5_000), event(T + 10, v=2, at=T + 4_000), event(T + 20, v=4, at=T + 4_500)]
    send(by_time, late)
    assert rows(by_time, "min") == [(T, 1, 2, 7)]
    assert rows(by_time, "sec") == [(T + 5_000, 1, 2, 1), (T + 4_000, 4, 8, 6)]
    by_arrival = app("define aggregation A from S select v, k as name aggregate every min")
    send(by_arrival, late)
    assert rows(by_arrival, "min") == [(T, 4, "a")]


def test_expressions_around_aggregators_are_of_their_bucket() -> None:
    text = "select sum(v) + 1 as more, sum(v) * d as scaled, convert(avg(v), 'int') as mean"
    running = app(f"define aggregation A from S {text} aggregate every sec, min")
    send(running, [event(T, v=2, d=0.5), event(T + 1_000, v=3, d=2.0)])
    assert rows(running, "sec") == [(T, 3, 1.0, 2), (T + 1_000, 4, 6.0, 3)]
    assert rows(running, "min") == [(T, 6, 10.0, 2)]


def test_a_filter_filters() -> None:
    running = app("define aggregation A from S[v > 3] select sum(v) as s aggregate every sec")
    assert rows(send(running, FEW), "sec") == [(T, 4), (T + 61_000, 8)]


def test_times_may_be_text() -> None:
    running = app("define aggregation A from S select sum(v) as s aggregate by s every sec")
    send(running, [event(T, v=1, s="2023-11-14 00:00:05"), event(T, v=2, s="2023-11-14 05:30:05 +05:30")])
    send(running, [event(T, v=4, s="nonsense"), event(T, v=8, s=None)])
    assert rows(running, "sec") == [(T + 5_000, 3)]
    assert running.failures.count == 2


def test_a_chunk_with_a_text_that_is_no_time_is_lost_and_one_with_null_from_there_on() -> None:
    texts = app("define aggregation A from S select sum(v) as s aggregate by s every sec")
    texts.send_chunk("S", [event(T, v=1, s="2023-11-14 00:00:05"), event(T, v=2, s="nonsense")])
    assert rows(texts, "sec") == []
    numbers = app("define aggregation A from S select sum(v) as s aggregate by at every sec")
    null = (T, ("a", 2, 1.0, None, None))
    numbers.send_chunk("S", [event(T, v=1), null, event(T, v=4)])
    assert rows(numbers, "sec") == [(T, 1)]


def test_select_star_selects_nothing_but_the_time() -> None:
    running = send(app("define aggregation A from S select * aggregate every sec"), FEW)
    assert aggregation(running).schema.names == ("AGG_TIMESTAMP",)
    assert rows(running, "sec") == [(T,), (T + 61_000,)]


def test_hours_are_those_of_the_time_zone() -> None:
    definition = "define aggregation A from S select sum(v) as s aggregate every hour, day"
    checked = app(definition).checked
    running = send(LocalApp(checked, time_zone="Asia/Kolkata"), [event(T), event(T + 1_700_000), event(T + 1_800_000)])
    assert rows(running, "hour") == [(T - 1_800_000, 2), (T + 1_800_000, 1)]
    assert rows(running, "day") == [(T - 19_800_000, 3)]


def test_a_batch_gives_what_single_events_give() -> None:
    law = (
        "define aggregation A from S select k, str:upper(k) as u, sum(v) as s group by k aggregate by s every sec, min"
    )
    texts = ["2023-11-14 00:00:05", None, "2023-11-14 00:00:04", "x", "2023-11-14 00:01:05"]
    events = [event(T + 700 * n, k="ab"[n % 2], v=n, s=text) for n, text in enumerate(texts)]
    one, batch = send(app(law), events), app(law)
    batch.send_batch("S", [timestamp for timestamp, _ in events], [row for _, row in events])
    assert rows(batch, "sec") == rows(one, "sec") != []
    assert batch.failures.count == one.failures.count == 2


# --- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "per", "kind"),
    [
        (1, 2, "days", UndefinedNameError),
        (1, 2, "weeks", SiddhiAppError),
        (1, 2, None, SiddhiTypeError),
        (2, 2, "sec", SiddhiTypeError),
        ("2023-11-14", None, "sec", SiddhiTypeError),
        ("2023-**-14 00:00:00", None, "sec", SiddhiTypeError),
        ("2023-11-14 **:**:**", "2023-11-15 **:**:**", "sec", SiddhiTypeError),
        (None, 2, "sec", SiddhiTypeError),
    ],
)
def test_ranges_that_are_none(start: Any, end: Any, per: Any, kind: type[SiddhiAppError]) -> None:
    running = app("define aggregation A from S select sum(v) as s aggregate every sec")
    with pytest.raises(kind):
        rows(running, per, start, end)


def test_an_aggregation_is_not_read_without_a_range() -> None:
    running = aggregation(app(BY_KEY))
    assert running.index((0,)) is None
    with pytest.raises(SiddhiTypeError, match=r"within … per"):
        running.contents()


# --- purging ---------------------------------------------------------------------------------------------------------


def test_old_seconds_are_purged_every_quarter_of_an_hour() -> None:
    running = send(app(BY_KEY), FEW)
    running.advance(T + 15 * 60_000 - 1)
    assert len(rows(running, "sec")) == 3
    running.advance(T + 15 * 60_000)
    assert rows(running, "sec") == []
    assert len(rows(running, "min")) == 3


def test_purge_settings() -> None:
    purge = "@purge(enable='true', interval='10 sec', @retentionPeriod(sec='3 min', min='all'))"
    running = send(app(f"{purge} {BY_KEY}"), FEW)
    running.advance(T + 190_000)
    assert rows(running, "sec") == [(T + 61_000, "a", 8, 1)]
    off = send(app(f"@purge(enable='false') {BY_KEY}"), FEW)
    off.advance(T + 86_400_000)
    assert len(rows(off, "sec")) == 3


def test_purging_stops_where_the_next_duration_lacks_the_values() -> None:
    purge = "@purge(enable='true', interval='1 min', @retentionPeriod(sec='2 min'))"
    definition = "define aggregation A from S select sum(v) as s aggregate every sec, hour"
    running = send(app(f"{purge} {definition}"), FEW)
    running.advance(T + 7_200_000)
    assert len(rows(running, "sec")) == 2


# --- state -----------------------------------------------------------------------------------------------------------


def copied(running: LocalApp) -> LocalApp:
    copy = LocalApp(running.checked)
    copy.restore(running.snapshot())
    return copy


LAW = """define aggregation A from S select k, v, sum(v) as total, avg(d) as mean, min(v) as lo, max(v) as hi,
count() as n, distinctCount(v) as c group by k aggregate by at every sec ... year"""

HOURS = st.integers(0, 40)
SENT = st.lists(
    st.tuples(
        st.integers(0, 30_000), st.sampled_from(["a", "b", None]), st.none() | st.integers(-3, 3), HOURS, st.booleans()
    ),
    max_size=25,
)


def recomputed(events: list[Event], per: str) -> list[tuple[Any, ...]]:
    """Buckets from all events at once."""
    bucket = aggregation(app(LAW)).bucket[("sec", "min", "hour", "day", "month", "year").index(per)]
    groups: dict[tuple[int, str], list[tuple[Any, ...]]] = {}
    for _, row in events:
        groups.setdefault((bucket(row[3])[0], str(row[0])), []).append(row)
    out = []
    for (start, _), members in groups.items():
        values = [row[1] for row in members if row[1] is not None]
        last = max(enumerate(members), key=lambda item: (item[1][3], item[0]))[1]
        total = sum(values) if values else None
        mean = sum(row[2] for row in members) / len(members)
        low, high = (min(values), max(values)) if values else (None, None)
        row = (start, last[0], last[1], total, mean, low, high, len(members), len({row[1] for row in members}))
        out.append(row)
    return out


@given(SENT, st.randoms(use_true_random=False))
def test_any_order_and_any_cut_gives_the_buckets_of_all_events(drawn: list[Any], chance: random.Random) -> None:
    running, clock, events = app(LAW), T, []
    for step, k, v, hours, cut in drawn:
        clock += step
        # Each event has a time of its own, so that it is plain which is the latest.
        at = T + hours * 3_600_000 + chance.randrange(100_000) * 40 + len(events)
        events.append((clock, (k, v, float(v or 0), at, None)))
        running.send("S", *events[-1])
        if cut:
            running = copied(running)
    for per in ("sec", "min", "hour", "day", "month", "year"):
        assert sorted(map(repr, rows(running, per))) == sorted(map(repr, recomputed(events, per)))
