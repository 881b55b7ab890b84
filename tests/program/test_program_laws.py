"""Whatever runs an app, its operators or its program: the results are the same, and so is the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.island.hosted import HostedApp
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Type
from spdist.operators import timers
from spdist.operators.base import Arrival
from spdist.operators.core import packed_columns
from spdist.program.expressions import NotTyped
from spdist.program.machine.compiler import Compiled, interpreted
from spdist.program.mixed_shape import mixed_shape_of
from spdist.program.parts import Program
from spdist.program.running.running import Running
from spdist.program.shape import shape_of
from spdist.program.states import partition
from spdist.program.text import written
from tests.engine.one_chunk import deliver_now
from tests.program.chosen_apps import (
    ARRANGED,
    BATCHES,
    BEHIND,
    BEHIND_COPIES,
    BEHIND_KNOWN,
    BEHIND_UNIQUE,
    CHUNKS,
    EXPANDED,
    EXTERNAL,
    HAVING,
    LATE,
    LIMITED,
    PIECES,
    PURGED,
    SESSIONS,
    SEVERAL_KEYS,
    SHARED,
    SNAPSHOTS,
    SNAPSHOTS_OF_BATCHES,
    SORTED,
    TICKING,
    TRUTHS,
    UNIQUE,
    UNIQUE_JOINED,
    UNIQUE_MORE,
)
from tests.program.drawn_apps import START_MS, STREAM, drawn_app, drawn_events, with_objects
from tests.program.watched import Watched, checked_app

# Executed by Python, whole numbers are numpy's, which warn where they wrap as they should.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

_SUBJECTS = [ARRANGED, BATCHES, LIMITED, TICKING, SORTED, SESSIONS, EXTERNAL, CHUNKS, HAVING, UNIQUE, UNIQUE_MORE]
_SUBJECTS += [BEHIND, BEHIND_COPIES, BEHIND_KNOWN, BEHIND_UNIQUE, SNAPSHOTS, SNAPSHOTS_OF_BATCHES, PIECES]
_SUBJECTS += [TRUTHS, LATE, UNIQUE_JOINED, EXPANDED]
_SUBJECTS += [PURGED, SHARED, SEVERAL_KEYS]
#: In these some attribute is never null.
_WHOLE = (SORTED, EXTERNAL, BEHIND_KNOWN, TRUTHS)


def alike(
    checked: CheckedApp,
    random: Random,
    compiled: Callable[[Program], Compiled],
    steps: int,
    whole: bool = False,
    asks: Sequence[str] = (),
    events_of: Callable[[Random, int, int, bool], list[Arrival]] = drawn_events,
    look: Callable[[HostedApp], Any] | None = None,
    zone: str = "GMT",
) -> int:
    """Check that an app does the same with and without its program; returns how many events came out.

    `whole`: no attribute of an event is null. `asks`: questions that are put to it between batches. `look`: what is
    seen of both between some steps.
    """
    plain, programmed = Watched(checked, None, zone), Watched(checked, compiled, zone)
    apps = [plain, programmed]
    for one in apps:
        one.app.start(START_MS)
        one.begin()
    time = START_MS
    for _ in range(steps):
        for asked in random.sample(asks, min(len(asks), 1)):
            for one in apps:
                one.chunks.append((asked, list(enumerate(one.app.query(asked).rows))))
        how = random.choice(("run", "run", "chunk", "chunks", "single", "stored", "wait", "before timers"))
        events = events_of(random, random.choice((1, 3, 12)), time, whole)
        if Type.OBJECT in checked.streams["S"].types:
            events = with_objects(random, events)
        before, time = time, events[-1][0]
        if how == "stored":
            for one in apps:
                one.app.advance(time)
            states = [one.app.snapshot() for one in apps]
            if random.random() < 0.3:
                continue  # nobody notices that a snapshot was taken
            fresh = [Watched(checked, None, zone), Watched(checked, compiled, zone)]
            # Each goes on from what the other one had; or from its own, which a program has without operators.
            own = time % 2 == 0
            for one, state, before in zip(fresh, states if own else reversed(states), apps, strict=True):
                one.restore(state, directly=own)
                one.chunks = before.chunks
            apps = fresh
            continue
        # Events that come late have timestamps before the clock.
        late = [(timestamp - random.choice((0, 0, 3, 300, 5000)), row) for timestamp, row in events]
        bounds = [0, *sorted(random.sample(range(1, len(events)), random.randrange(len(events)))), len(events)]
        due_at = list(accumulate((timestamp for timestamp, _ in events), max))  # nothing is due before what came before
        chunks = [(due_at[end - 1], late[begin:end]) for begin, end in pairwise(bounds)]
        first = {n for n, (due, _) in enumerate(chunks) if due > (chunks[n - 1][0] if n else before)}
        early = {n for n in sorted(first) if random.random() < 0.3}
        for one in apps:
            if how == "wait":
                one.app.advance(time)
            elif how == "before timers":
                one.app.approach(time)
                deliver_now(one.app, "S", events)
            elif how == "run":
                one.run(events)
            elif how == "chunk":
                one.chunk(late, time)
            elif how == "chunks":
                one.run_chunks(chunks, early, alone=time % 3 == 0)
                if len(chunks) - 1 in early:  # more of the kind may come in the next batch
                    one.app.approach(time)
                    deliver_now(one.app, "S", late[:1])
            else:
                for event, (due, _) in zip(late, events, strict=True):
                    one.chunk([event], due)
        # Not a number equals nothing, and 0.0 equals -0.0.
        assert repr(apps[0].chunks) == repr(apps[1].chunks), (how, events)
        if look is not None and random.random() < 0.4:
            assert repr(look(apps[0].app)) == repr(look(apps[1].app)), (how, events)
    if look is not None:
        assert repr(look(apps[0].app)) == repr(look(apps[1].app))
    return len(apps[0].chunks)


@pytest.mark.parametrize("group", range(4))
def test_a_drawn_app_does_the_same_with_its_program(group: int) -> None:
    out = 0
    for seed in range(25 * group, 25 * group + 25):
        random = Random(seed)
        text = drawn_app(random)
        try:
            out += alike(checked_app(text), random, interpreted, steps=12)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert out > 200  # rate limits, limits and filters let little of it through


@pytest.mark.parametrize("app", _SUBJECTS)
def test_an_app_of_one_subject_does_the_same_with_its_program(app: str) -> None:
    checked = checked_app(app)
    for seed in range(4):
        assert alike(checked, Random(seed), interpreted, steps=30, whole=app in _WHOLE) > 50


def test_a_clock_that_jumps_lets_as_many_snapshots_go_on_as_operators_do() -> None:
    app = f"""{STREAM} from S#window.length(2) select sym, price output snapshot every 10 milliseconds insert into Out1;
    from S select kind, count() as n group by kind output snapshot every 700 milliseconds insert into Out2;"""
    with patch.object(timers, "MOST_FIRINGS", 9):
        apps = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
        for one in apps:
            one.app.start(START_MS)
            one.begin()
            for number in (0, 1, 10**6, 10**6 + 7, 10**9):
                one.run([(START_MS + number, ("a", None, 1.0, None, None, None, None))])
            one.app.advance(START_MS + 2 * 10**9)
    assert apps[0].chunks == apps[1].chunks
    assert len(apps[0].chunks) > 20


def test_a_time_that_has_come_is_not_approached_again() -> None:
    text = f"{STREAM} from S select sym output last every 40 milliseconds insert into Out;"
    plain, programmed = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    for one in (plain, programmed):
        one.app.start(START_MS)
        one.begin()
        one.app.advance(START_MS + 200)  # a tick that lets nothing go on is the last one
        one.app.advance(START_MS + 400)
        for number in range(2):
            one.app.approach(START_MS + 400)
            deliver_now(one.app, "S", [(START_MS + 400, (f"{number}", *[None] * 6))])
        one.app.advance(START_MS + 405)
        assert one.chunks == []
        one.app.approach(START_MS + 440)
        deliver_now(one.app, "S", [(START_MS + 440, ("2", *[None] * 6))])
        one.app.approach(START_MS + 440)
        assert one.chunks == []
        one.app.advance(START_MS + 440)
        assert one.chunks == [("Out", [(START_MS + 440, ("2",))])]


def equal_events(random: Random, count: int, start_ms: int, whole: bool) -> list[Arrival]:
    """Return events of which many are equal, also to some that came long before."""
    time = start_ms + random.choice((0, 1, 40, 400))
    values = (None, 1.0) if whole else (None, 0.0, -0.0, float("nan"))
    rows = [(random.choice("ab"), None, random.choice(values), None, 1, 1, True) for _ in range(count)]
    return [(time - time % random.choice((1, 1000)), row) for row in rows[:-1]] + [(time, rows[-1])]


def test_an_event_that_equals_one_which_has_left_leaves_at_once() -> None:
    text = f"""{STREAM} from S#window.unique:time(sym, 300) select sym, count() as n insert all events into Out1;
    partition with (ok of S) begin
    from S#window.unique:time(sym, 300)[price is null or price < 1.0] select sym, count() as n group by sym
    insert all events into Out2; end;"""
    checked = checked_app(text)
    for seed in range(6):
        assert alike(checked, Random(seed), interpreted, steps=30, events_of=equal_events) > 70


def test_where_a_null_has_no_place_in_an_order_the_operators_go_on() -> None:
    app = f"{STREAM} from S#window.sort(1, price) select price insert all events into Out;"
    plain, programmed = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in (plain, programmed):
        one.app.start(START_MS)
        one.begin()
        for number, price in enumerate((3.0, 2.0, None, 1.0)):
            one.chunk([(START_MS + number, ("a", None, price, None, None, None, None))], START_MS + number)
    assert programmed.chunks == plain.chunks
    assert len(plain.chunks) == 3
    assert programmed.app.programmed is not None and not programmed.app.programmed.active


def test_where_an_aggregator_fails_on_a_null_the_operators_go_on() -> None:
    app = f"{STREAM} from S#window.length(3) select and(ok) as a, or(ok) as b insert all events into Out;"
    plain, programmed = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in (plain, programmed):
        one.app.start(START_MS)
        one.begin()
        for number, ok in enumerate((True, False, None, True, True)):
            one.chunk([(START_MS + number, ("a", None, None, None, None, None, ok))], START_MS + number)
    assert programmed.chunks == plain.chunks
    assert len(plain.chunks) > 3
    assert programmed.app.programmed is not None and not programmed.app.programmed.active
    late = Watched(checked_app(app), interpreted)
    late.app.restore(plain.app.snapshot())
    with pytest.raises(ValueError, match="fails on a null"):
        late.begin()


@pytest.mark.parametrize("window", ["externalTime(total, 60)", "externalTimeBatch(total, 60)"])
@pytest.mark.parametrize("app", ["", " as s join S as r", "named"])
def test_times_near_the_limits_of_a_long_are_left_to_the_operators(window: str, app: str) -> None:
    selected = f"select {'s.total' if app.startswith(' as') else 'total'}, count() as n insert all events into Out;"
    defined = f"define window W {STREAM[STREAM.index('(') : -1]} {window}; from S select * insert into W; from W "
    app = STREAM + (defined if app == "named" else f" from S#window.{window}{app} ") + selected
    plain, programmed = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in (plain, programmed):
        one.app.start(START_MS)
        one.begin()
        for number, total in enumerate((0, 70, 2**63 - 1, 140, -(2**63), 2**63 - 30, 200)):
            one.chunk([(START_MS + number, ("a", None, None, None, None, total, None))], START_MS + number)
    assert programmed.chunks == plain.chunks
    assert len(plain.chunks) > 1
    assert programmed.app.programmed is not None
    assert programmed.app.programmed.reason == "a time near the limits of a long"


def test_groups_without_totals_are_forgotten_with_their_chunk() -> None:
    text = f"{STREAM} from S#window.length(1) select sym, volume group by sym insert all events into Out;"
    program = written(shape_of(checked_app(text)), ("Out",))
    running = Running(program, interpreted(program))
    for number in range(20):
        row = (f"{number}", None, None, None, number, None, None)
        assert len(running.process_chunk("S", [(number, row)] * 3, number, number) or ()) == 1
    assert running.arrays["q0_k_meta"][2] == 0


@pytest.mark.parametrize("window", ["time(1 sec)", "session(1 sec)", "lengthBatch(99, true)"])
def test_room_is_made_for_the_groups_of_events_that_leave_together(window: str) -> None:
    text = f"{STREAM} from S#window.{window} select sym, volume group by sym insert expired events into Out;"
    apps = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for number in range(100):
            one.run([(START_MS, (f"{number}", None, None, None, number, 100 * (number // 99), None))])
        one.app.advance(START_MS + 2000)
    assert apps[0].chunks == apps[1].chunks
    assert len(apps[1].chunks) == 1
    assert len(apps[1].chunks[0][1]) >= 99


def test_only_groups_of_events_that_meet_a_filter_behind_the_window_are_taken_over() -> None:
    text = f"{STREAM} from S#window.length(3)[volume > 0] select sym, count() as n group by sym insert into Out;"
    plain, programmed = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    for number, (sym, volume) in enumerate((("a", 0), ("b", 1), ("c", None))):
        plain.chunk([(START_MS + number, (sym, None, None, None, volume, None, None))], START_MS + number)
    programmed.app.restore(plain.app.snapshot())
    programmed.begin()
    assert programmed.app.held_rows() == 3 + 1


def test_what_is_too_old_where_it_was_counted_and_complete_elsewhere_leaves_the_totals() -> None:
    text = f"""{STREAM}
from every e1=S[kind == 'x'] -> e2=S[kind == 'y' and total == e1.total]<1:> -> e3=S[kind == 'z' and total == e1.total]
within 1 sec select e1.total, count() as n insert into Out;"""
    # The first match waits for its last event behind the second one, which is younger and came there before it.
    came = (100, "x", 1), (900, "x", 2), (950, "y", 2), (960, "y", 1), (970, "w", 0), (1150, "z", 1), (1160, "z", 2)
    events = [(START_MS + at, (None, kind, None, None, None, total, None)) for at, kind, total in came]
    for one in (Watched(checked_app(text)), Watched(checked_app(text), interpreted)):
        one.begin()
        one.app.start(START_MS)
        one.run(events)
        assert one.chunks == [("Out", [(START_MS + 1160, (2, 0))])]


def many_keys(random: Random, count: int, start_ms: int, whole: bool) -> list[Arrival]:
    """Return events with many texts, several of them at a time."""
    return [
        (start_ms + 20 * (number // 6), (f"page {random.randrange(60)}ü", *row[1:]))
        for number, (_, row) in enumerate(drawn_events(random, 3 * count, start_ms, whole))
    ]


def test_sessions_of_many_keys_end_in_the_order_of_a_map_that_grows() -> None:
    text = f"{STREAM} from S#window.session(60L, sym) select sym, kind insert all events into Out;"
    for seed in range(3):
        assert alike(checked_app(text), Random(seed), interpreted, steps=20, events_of=many_keys) > 60


_PURGE = "@purge(enable='true', interval='100 millisec', idle.period='250 millisec')"


def test_what_keys_have_left_that_are_gone_goes_where_it_is_more_than_what_others_have() -> None:
    text = f"""{STREAM} {_PURGE} partition with (sym of S) begin
    from S#window.time(5 sec) select sym, kind, count() as n group by kind insert all events into Out;
    from every e1=S -> e2=S[kind == e1.kind] select e1.total as a, e2.total as b insert into Out2;
    end;"""
    plain, programmed = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    with patch.object(partition, "_FEW", 10):
        for one in (plain, programmed):
            one.app.start(START_MS)
            one.begin()
            for number in range(120):
                row = (f"{number // 2 if number % 3 else 'often'}", "x", None, None, number, number, None)
                one.chunk([(START_MS + 40 * number, row)], START_MS + 40 * number)
    assert programmed.chunks == plain.chunks
    assert programmed.app.programmed is not None and programmed.app.programmed.active
    running = programmed.app.programmed.running
    assert running is not None
    created, _, here = running.arrays["p0_meta"][:3].tolist()
    assert here < 10 and created < 30
    own, _, *rest = packed_columns.plain(programmed.app.programmed.snapshot()["partition", "0"])
    keys, _, looks, due = plain.app._elements.partition(0).snapshot()
    assert [(key, used) for key, (_, used, _) in own.items()] == [(key, used) for key, (_, used, _) in keys.items()]
    assert rest == [looks, due]


def test_many_keys_get_what_has_no_key_in_the_order_of_a_set() -> None:
    text = f"""{STREAM} from S[volume > 0] select sym as by insert into A; partition with (sym of S) begin
    from S select sym, count() as n insert into Out; from every e1=S -> e2=A select e1.sym, e2.by insert into Out2; end;
    """
    for seed in range(2):
        alike(checked_app(text), Random(seed), interpreted, steps=15, events_of=many_keys)


def test_all_keys_get_what_a_trigger_brings_while_operators_are_called() -> None:
    text = f"""{STREAM} define trigger Tick at every 7 milliseconds; partition with (sym of S) begin
    from every e1=S -> e2=Tick select e1.sym as a, e2.triggered_time as b insert into Out1;
    from Tick#window.length(2) select count() as n insert all events into Out2; end;
    from S#window.time(0) select sym insert into Out3;"""
    checked = checked_app(text)
    (partition,) = mixed_shape_of(checked).partitions
    assert "Tick" in {stream for query in partition.queries for stream in query.streams}
    assert alike(checked, Random(1), interpreted, steps=8) > 300


def test_a_stream_that_a_partition_may_write_to_while_it_is_at_work_has_a_key_in_it() -> None:
    query = "from S select sym insert into Out; from B select sym insert into Out;"
    for writer in ("from S select sym insert into A;", "from S select sym insert into B;"):
        text = f"""{STREAM} define stream A (sym string); define stream B (sym string);
        partition with (sym of S) begin {writer} {query} end; from A select sym insert into B;"""
        with pytest.raises(NotTyped, match="may write to"):
            written(shape_of(checked_app(text)), ("Out",))


def test_keys_that_share_a_period_are_left_to_the_operators() -> None:
    query = "from S#window.timeBatch(40) select sym insert into Out;"
    shape_of(checked_app(f"{STREAM} partition with (sym of S) begin {query} end;"))
    with pytest.raises(NotTyped, match="one for all keys"):
        shape_of(checked_app(f"{STREAM} {_PURGE} partition with (sym of S) begin {query} end;"))
