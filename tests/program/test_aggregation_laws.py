"""Aggregations whose events the loop adds: they have what their operators have, whoever asks, and whenever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.facade import explain
from spdist.language.checking.checked import CheckedApp
from spdist.operators.aggregations import columns
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.aggregations.columns import GroupColumns
from spdist.program.aggregations.bucket_text import AddWriter
from spdist.program.machine.compiler import interpreted
from spdist.program.running import forgetting, mixed
from spdist.program.running.mixed import MixedRunning
from spdist.program.states import bucket
from spdist.program.states.bucket import LoopBuckets
from tests.program.aggregation_apps import ADDED, SUMMED, drawn_aggregation_app, seen, timed_events
from tests.program.drawn_apps import START_MS, STREAM
from tests.program.test_mixed_laws import started
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")


def law(checked: CheckedApp, random: Random, steps: int = 12, zone: str = "GMT") -> None:
    alike(checked, random, interpreted, steps, events_of=timed_events, look=seen, zone=zone)


@pytest.mark.parametrize("group", range(3))
def test_a_drawn_app_does_the_same_with_its_program(group: int) -> None:
    added = 0
    for seed in range(20 * group, 20 * group + 20):
        random = Random(seed)
        text = drawn_aggregation_app(random)
        zone = random.choice(("GMT", "GMT", "America/New_York"))
        checked = checked_app(text)
        own = Watched(checked, interpreted).app.programmed
        assert own is not None and own.compile() is not None and own.program is not None
        added += len(own.program.shape.adding)
        try:
            with few() if seed % 2 else nullcontext():
                law(checked, random, zone=zone)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert added > 15


def test_what_is_drawn_are_apps() -> None:
    for seed in (*range(300), 955, 1178, 1444, 1708):  # in these an aggregation groups by what it does not show
        checked_app(drawn_aggregation_app(Random(seed)))


@contextmanager
def few() -> Iterator[None]:
    """Few keys are many, and so are few groups that wait to be merged, and few questions for one."""
    with (
        patch.object(bucket, "_FEW_KEYS", 2),
        patch.object(columns, "_FEW", 3),
        patch.object(columns, "_OFTEN", 2),
        patch.object(forgetting, "_FEW", 4),
    ):
        yield


def test_buckets_that_have_ended_are_columns() -> None:
    real, made = Aggregation.close_bucket, []

    def noted(self: Aggregation, start: int, groups: Any, level: int = 0) -> None:
        made.append(isinstance(groups, GroupColumns))
        real(self, start, groups, level)

    with patch.object(Aggregation, "close_bucket", noted), few():
        checked = checked_app(SUMMED)
        for seed in range(6):
            alike(checked, Random(seed), interpreted, 20, True, events_of=timed_events, look=seen)
    assert 40 < sum(made) < len(made)


@pytest.mark.parametrize("rate", [0.5, None])
def test_what_operators_have_open_becomes_columns_where_all_in_it_has_a_value(rate: float | None) -> None:
    one = Watched(checked_app(SUMMED), interpreted)
    one.app.start(START_MS)
    for number in range(40):
        time = START_MS + 100 * number
        one.chunk([(time, ("s", "k", 1.0, rate if number == 0 else 0.5, number, 8, True))], time)
    (minutes,) = one.app._elements.aggregation("B").open[1:]
    before = {start: dict(columns.plain(groups)) for start, groups in minutes.items()}
    assert sum(map(len, before.values())) > 20
    one.begin()
    assert {start: columns.plain(groups) for start, groups in minutes.items()} == before
    assert {isinstance(groups, GroupColumns) for groups in minutes.values()} == {rate is not None}
    # Groups that somebody has asked for are no columns, but become some again with the others of their minute.
    time = START_MS + 5_000
    one.run([(time, ("s", "k", 1.0, 0.5, 99, 8, True))])
    assert one.app.held_rows()
    one.app.advance(time + 2_000)
    assert sum(map(len, minutes.values())) > sum(map(len, before.values()))
    assert {isinstance(groups, GroupColumns) for groups in minutes.values()} == {rate is not None}


def test_texts_that_nobody_knows_any_more_are_forgotten() -> None:
    with patch.object(forgetting, "_FEW", 4):
        checked = checked_app(ADDED)
        for seed in range(4):
            law(checked, Random(seed), 20)


#: What the text says, and what it must not say: bounds of buckets, what is new, what is the latest, sums and nulls.
WRITTEN = (
    ("now >= b0_open[0]", "now > b0_open[0]"),
    ("< b0_open[2]", "<= b0_open[2]"),
    ("b0_open[5] = 1", "b0_open[5] = 0"),
    (">= b0_s0[", "> b0_s0["),
    ("] += 1", "] += 2"),
    ("_n[{g}] != 0 or ", "_n[{g}] != 2 and "),
    ("if b0_s3_n[{g}] != 0:", "if False:"),
    ("] > i0_", "] >= 2 * i0_"),
    (", 1 if i0_", ", 0 if i0_"),
    ("b0_open[4] = ", "b0_open[4] = 1 + "),
)
#: The same where buckets that have ended are columns: the first bucket behind one, its end, and where it begins.
ENDED = (
    ("if now < b0_open[8]", "if now <= b0_open[8]"),
    ("b0_open[7] += 1", "b0_open[7] = 1"),
    ("now - now % b0_open[3] + b0_open[3]", "now + b0_open[3]"),
    ("forget_from(", "(lambda *_: 0)("),
)


@pytest.mark.parametrize(
    ("text", "whole", "right", "wrong"),
    [*((ADDED, False, *one) for one in WRITTEN), *((SUMMED, True, *one) for one in ENDED)],
)
def test_the_law_finds_a_wrong_text(text: str, whole: bool, right: str, wrong: str) -> None:
    real, changed = AddWriter.lines, []

    def lines(self: AddWriter, rest: list[str]) -> list[str]:
        group = self._group
        made = [line.replace(right.replace("{g}", group), wrong.replace("{g}", group)) for line in real(self, [])]
        changed.append(made != real(self, []))
        return made + rest

    with patch.object(AddWriter, "lines", lines), pytest.raises((AssertionError, IndexError)):
        for seed in range(8):
            alike(checked_app(text), Random(seed), interpreted, 20, whole, events_of=timed_events, look=seen)
    assert any(changed)


def _forgets_nothing(self: LoopBuckets) -> None:
    """Stands for `LoopBuckets._clear`."""


def _is_not_told(self: Any, *_: Any) -> None:
    """Stands for methods that take note of something."""


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        (Aggregation, "_bring", _is_not_told),
        (LoopBuckets, "_clear", _forgets_nothing),
        (LoopBuckets, "_keys", lambda self, count, real=LoopBuckets._keys: real(self, count)[::-1]),
        (LoopBuckets, "collect", _is_not_told),
        (LoopBuckets, "_move_to_front", _is_not_told),
        (LoopBuckets, "texts_changed", lambda self, real=LoopBuckets.texts_changed: self.groups or real(self)),
        (GroupColumns, "ordered", lambda self, order: self),
        (GroupColumns, "_numbers_in", lambda self, keys: self._numbers),
        (forgetting, "text_places", lambda running, adds: ()),
    ],
)
def test_the_law_finds_what_is_not_brought_over(where: Any, name: str, wrong: Any) -> None:
    with few(), patch.object(where, name, wrong), pytest.raises(Exception):  # noqa: B017
        for seed in range(8):
            for text, whole in ((ADDED, False), (SUMMED, True)):
                alike(checked_app(text), Random(seed), interpreted, 20, whole, events_of=timed_events, look=seen)


def row(sym: str, volume: int, total: int | None = None) -> tuple[Any, ...]:
    return (sym, "k", 1.0, 0.5, volume, total, True)


JOINED = f"""{STREAM}
define aggregation A from S select sym, sum(volume) as v group by sym aggregate every sec...hour;
from S as X join A on X.sym == A.sym within 0L, 9999999999999L per 'sec' select X.sym as sym, A.v as v insert into Out;
from S#window.length(2) select sum(volume) as v insert into Out2;"""


def test_who_joins_while_the_loop_runs_sees_what_was_added_before() -> None:
    _, other = started(JOINED)
    other.run([(START_MS + n, row("ab"[n % 2], 1)) for n in range(6)])
    totals = [out[0][1] for stream, out in other.chunks if stream == "Out"]
    assert totals == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]


@pytest.mark.parametrize(("selected", "ends"), [("count()", 0), ("distinctCount(kind)", 1)])
def test_the_operators_are_called_for_times_without_a_place_and_for_ends_of_sets(selected: str, ends: int) -> None:
    text = f"""{STREAM}
    define aggregation A from S select sym, {selected} as n group by sym aggregate by total every sec;
    from S select sym insert into Out;"""
    _, other = started(text)
    own = other.app.programmed
    assert own is not None and isinstance(own.running, MixedRunning)
    other.run([(START_MS + n, row("a", 1, START_MS - 7000 * (n % 3))) for n in range(999)])
    assert own.running.calls == ends
    other.run([(START_MS + 1000, row("a", 1, START_MS)), (START_MS + 1001, row("a", 1, None))])
    assert own.running.calls == 1 + 2 * ends
    assert own.active


def test_where_groups_are_brought_over_too_often_the_operators_go_on() -> None:
    app = JOINED.replace("X.sym == A.sym", "X.volume == 5")
    plain, other = started(app)
    own = other.app.programmed
    assert own is not None
    with patch.object(mixed, "_LOOKED_AT", 20):
        for one in (plain, other):
            one.run([(START_MS + n, row(f"{n}", 1)) for n in range(40)])
    assert not own.active
    assert repr(seen(other.app)) == repr(seen(plain.app))


def test_it_is_told_what_of_an_aggregation_is_compiled_and_why_not() -> None:
    stream = "define stream S (k string, v double, at string);\n"
    query = " from S[v > 1.0] select k insert into O;"
    added = "define aggregation A from S[v > 0.0] select k, avg(v) as a group by k aggregate every sec...year;"
    assert explain(stream + added + query).compiled == "yes"
    assert explain(stream + added.replace("[v > 0.0]", "")).compiled == "yes"
    text = added.replace("aggregate every", "aggregate by at every")
    assert explain(stream + text + query).compiled.startswith(
        "in part: A is called: a time that is written as text (line 2); query_1 is compiled"
    )
    function = added.replace("avg(v)", "str:upper(k)")
    assert explain(stream + function).compiled == "no: the function str:upper() (line 2)"
    stored = f"@store(type='rdbms', datasource='X') {added}"
    assert "A is called: an aggregation that is kept outside (line 2)" in explain(stream + stored + query).compiled
