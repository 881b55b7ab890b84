"""Named windows, rare ones and stream processors in programs: what they let go, hold and show is as with operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.programs import state as programmed_state
from spdist.facade import explain
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import Arrival
from spdist.program.joins import text as joins_text
from spdist.program.joins.side_text import SideRows
from spdist.program.machine.compiler import interpreted
from spdist.program.processors import reorder
from spdist.program.processors.deduplicate import DeduplicateStates, DeduplicateWriter
from spdist.program.processors.reorder import ReorderWriter
from spdist.program.queries import group_text, query_text
from spdist.program.queries.snapshot_text import LastWriter
from spdist.program.read_shape import LoopWindow
from spdist.program.running import forgetting
from spdist.program.states import partition
from spdist.program.states import state as programs_state
from spdist.program.timer_text import rank
from spdist.program.windows.batch_text import BatchWriter
from tests.engine.one_chunk import deliver_now
from tests.program.drawn_apps import START_MS, STREAM, drawn_events
from tests.program.test_program_laws import alike, many_keys
from tests.program.watched import Watched, checked_app
from tests.program.window_apps import (
    ADAPTED,
    CHAINED,
    CRON,
    DEDUPLICATED,
    EXTERNAL_LATE,
    FREQUENT,
    KEYED,
    KEYS_JOINED,
    LOOKED,
    MIXED,
    PARTED,
    PASSING,
    REORDERED,
    SESSIONS_LATE,
    SLIDING,
    SORTED,
    asked_of,
    disordered_events,
    drawn_processed_app,
    drawn_window_app,
)

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")


def windows_of(checked: CheckedApp) -> int:
    """Return how many named windows the program of an app has; all of its queries have a typed form."""
    own = Watched(checked, interpreted).app.programmed
    assert own is not None
    assert own.compile() is not None, own.reason
    assert own.program is not None
    assert not own.program.sites, [site.element.why.reason for site in own.program.sites]
    return sum(isinstance(query.read, LoopWindow) for query in own.program.queries)


@pytest.mark.parametrize("group", range(3))
def test_a_drawn_app_has_the_same_windows_with_its_program(group: int) -> None:
    out = typed = 0
    for seed in range(12 * group, 12 * group + 12):
        random = Random(seed)
        text = drawn_window_app(random)
        checked = checked_app(text)
        try:
            typed += windows_of(checked)
            with patch.object(forgetting, "_FEW", 4 if seed % 2 else 10_000):
                out += alike(checked, random, interpreted, steps=12, asks=asked_of(text))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert typed >= 12
    assert out > 200


def same(app: str, checked: CheckedApp, *seeds: int) -> int:
    """Check an app with its program."""
    asks, whole = asked_of(app), app is SORTED
    return sum(alike(checked, Random(seed), interpreted, steps=20, asks=asks, whole=whole) for seed in seeds)


@pytest.mark.parametrize("app", [SLIDING, CHAINED, SORTED, LOOKED, KEYED, KEYS_JOINED, PARTED])
def test_an_app_has_the_same_windows_with_its_program(app: str) -> None:
    checked = checked_app(app)
    assert windows_of(checked)
    assert same(app, checked, *range(3)) > 100


def test_a_window_stands_in_the_loop_next_to_one_of_the_operators() -> None:
    checked = checked_app(MIXED)
    assert same(MIXED, checked, *range(6)) > 100
    own = Watched(checked, interpreted).app.programmed
    assert own is not None and own.compile() is not None and own.program is not None
    assert [query.read.checked.name for query in own.program.queries if isinstance(query.read, LoopWindow)] == ["W"]


@contextmanager
def timers_behind() -> Iterator[None]:
    """Let the timers of named windows fire behind those of queries."""

    def behind(query: int, operator: int = 0) -> int:
        return rank(query if query >= 0 else 1000 - query, operator)

    with ExitStack() as stack:
        for module in ("timer_text", "text", "states.dues"):
            stack.enter_context(patch(f"spdist.program.{module}.rank", behind))
        yield


def mutants() -> dict[str, Any]:
    """Return changes of what is written for named windows."""

    def entering(block: Any, event: str, leaves: list[str], enters: list[str]) -> list[str]:
        return enters

    return {
        "what leaves": patch.object(query_text, "by_kind", entering),
        "whose pairs leave": patch.object(joins_text, "by_kind", entering),
        "no earlier value": patch.object(group_text, "_falls_back", lambda read, call: True),
        "what a snapshot shows": patch.object(LastWriter, "_told", False),
        "what was looked at": patch.object(BatchWriter, "_leaving_times", lambda self: ([], self._closed_at)),
        "what is held": patch.object(LoopWindow, "shows_held", False),
        "what is lent": patch.object(programmed_state, "_windows", lambda running, elements: []),
        "the order of timers": timers_behind(),
        "what is found": patch.object(SideRows, "enters", lambda self, read: []),
        "keys of a state": patch.object(programs_state, "load_index", lambda running, query: None),
        "texts of keys": patch.object(forgetting, "side_keys", lambda running, query: []),
    }


@pytest.mark.parametrize("name", list(mutants()))
def test_the_law_finds_a_mutant(name: str) -> None:
    apps = {app: checked_app(app) for app in (SLIDING, CHAINED, LOOKED)}
    with mutants()[name], patch.object(forgetting, "_FEW", 4):
        assert all(map(windows_of, apps.values()))
        with pytest.raises((AssertionError, TypeError, KeyError)):
            for seed, app in product(range(4), apps):
                same(app, apps[app], seed)


def test_where_a_null_has_no_place_in_a_window_the_operators_go_on() -> None:
    apps = [Watched(checked_app(SORTED)), Watched(checked_app(SORTED), interpreted)]
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for number, price in enumerate((3.0, 2.0, None, 1.0)):
            one.chunk([(START_MS + number, ("a", None, price, None, None, None, None))], START_MS + number)
    assert apps[1].chunks == apps[0].chunks
    assert apps[1].app.programmed is not None and not apps[1].app.programmed.active


@pytest.mark.parametrize("window", ["lengthBatch(4)", "unique:lengthBatch(kind, 4)", "lengthBatch(4, true)"])
def test_groups_go_where_no_event_lets_totals_begin_anew(window: str) -> None:
    text = f"""{STREAM} from S#window.{window}[volume > 0] select sym, stdDev(price) as d, sum(volume) as v group by sym
    insert all events into Out;"""
    apps = [Watched(checked_app(text)), Watched(checked_app(text), interpreted)]
    first = int("true" in window)  # the event of four that is copied, in the order of keys, too: it is dropped
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for number in range(200):
            row = (f"{number // 4}", "aBCD"[number % 4], number / 7, None, int(number % 4 != first), None, None)
            one.chunk([(START_MS + number, row)], START_MS + number)
    assert apps[1].chunks == apps[0].chunks
    assert len(apps[0].chunks) > 40
    assert apps[1].app.held_rows() <= 10


def test_it_is_told_which_windows_stand_in_the_loop() -> None:
    defined = f"{STREAM}\ndefine window W (sym string, price double, n int) length(5);\n"
    inserts, reads = (
        "from S select sym, price, volume as n insert into W;\n",
        "from W select sym, sum(price) as p insert into Out;\n",
    )
    plain = "from S select sym insert into Out2;"
    assert explain(defined + inserts + reads).compiled == "yes"
    joins = "from W join S on W.sym == S.sym select W.sym insert into Out3;\n"
    assert explain(defined + inserts + joins + plain).compiled == "yes"
    told = explain(
        defined + inserts + joins.replace("join S on", "join S#window.cron('* * * * * ?') on") + plain
    ).compiled
    assert "query_1 is called: the named window 'W', which 'query_2' uses without a typed form" in told
    assert "query_3 is compiled" in told
    for window in ("lengthBatch(5)", "batch(2)", "unique:ever(sym)", "unique:lengthBatch(n, 3)", "session(9L)"):
        assert explain(defined.replace("length(5)", window) + inserts + joins + plain).compiled == "yes"
    told = explain(defined.replace("length(5)", "cron('* * * * * ?')") + inserts + joins + plain).compiled
    assert "query_2 is called: a join with the window cron (line 4)" in told
    feeds = "from W select sym insert into B; from B join W on B.sym == W.sym select W.sym insert into Out3;\n"
    assert explain(defined + inserts + feeds + plain).compiled == "yes"
    told = explain(defined.replace("length(5)", "lengthBatch(5)") + inserts + feeds + plain).compiled
    assert "a join with the named window 'W', which leads to it" in told
    other = joins.replace("W.sym == S.sym", "W.n == S.volume").replace("Out3", "Out4")
    told = explain(defined + inserts + joins + other + plain).compiled
    assert "query_3 is called: a named window ('W') that joins look into by several keys (line 5)" in told
    matched = "from every e1=W -> e2=S[sym == e1.sym] select e1.sym insert into Out3;\n"
    assert explain(defined + inserts + matched + plain).compiled == "yes"
    told = explain(defined.replace("length(5)", "time(0)") + inserts + reads + plain).compiled
    assert "query_2 is called: the named window 'W': the window time (line 4)" in told
    assert explain(KEYED).compiled == "yes"
    parted = "partition with (sym of W) begin from W select sym, count() as n insert into Out3; end;\n"
    assert explain(defined + inserts + parted + plain).compiled == "yes"


@pytest.mark.parametrize("app", [PASSING, EXTERNAL_LATE, FREQUENT, CRON, SESSIONS_LATE])
def test_rare_windows_do_the_same_in_a_program(app: str) -> None:
    checked = checked_app(app)
    assert windows_of(checked) == 0
    for seed in range(4):
        assert alike(checked, Random(seed), interpreted, steps=30, whole=app is EXTERNAL_LATE) > 40


def test_groups_know_the_events_of_both_sessions_of_a_restored_window() -> None:
    text = f"""{STREAM} from S#window.session(60L, sym, 40L) select kind, sum(total) as t group by kind
    insert all events into Out;"""
    apps = [Watched(checked_app(text)), Watched(checked_app(text), interpreted)]
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        # The second event begins a session, so the first one's is the previous one
        one.run([(START_MS, ("a", "x", None, None, None, 7, None))])
        one.run([(START_MS + 61, ("a", "x", None, None, None, None, None))])
    fresh = [Watched(checked_app(text)), Watched(checked_app(text), interpreted)]
    with patch.object(group_text, "MOST_WAITING", 0):
        for before, one in zip(apps, fresh, strict=True):
            one.app.restore(before.app.snapshot())
            one.begin()
            # Nothing but a null is left in the totals of the first kind when the second one gets a number
            one.run([(START_MS + 102, ("b", "z", None, None, None, 100, None))])
            one.app.advance(START_MS + 900)
    assert fresh[1].chunks == fresh[0].chunks
    assert [row for _, chunk in fresh[1].chunks for _, row in chunk] == [
        ("x", None),
        ("z", 100),
        ("x", None),
        ("z", None),
    ]
    programmed = fresh[1].app.programmed
    assert programmed is not None and programmed.running is not None
    assert not programmed.running.arrays["q0_members"].any()


def test_a_timeout_that_releases_nothing_lets_its_window_sleep() -> None:
    app = f"""{STREAM} from S#window.externalTimeBatch(total, 90, 0, 7) select sym, total insert all events into Out;"""
    apps = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for number, total in enumerate((1, 2, 3, 200, 210, 20, 500)):
            one.run([(START_MS + number * 10**9, (str(number), None, None, None, None, total, None))])
        one.app.advance(START_MS + 7 * 10**9)
    assert apps[0].chunks == apps[1].chunks
    assert len(apps[0].chunks) > 6


@pytest.mark.parametrize("window", ["timeBatch(10)", "externalTimeBatch(total, 10, 0, 10)"])
def test_a_window_that_sleeps_knows_that_timers_of_now_have_fired(window: str) -> None:
    app = f"{STREAM} from S#window.{window} select sym insert into Out;"
    apps = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        one.chunk([(START_MS, ("a", None, None, None, None, 5, None))], START_MS)
        for time in (START_MS + 100, START_MS + 200):
            one.app.advance(time - 50)
            one.app.advance(time)
            one.app.approach(time)
            deliver_now(one.app, "S", [(time, ("b", None, None, None, None, 5, None))])
            one.app.advance(time + 5)
            one.chunks.append(("when", [(time, ())]))
        one.app.advance(START_MS + 300)
    assert repr(apps[0].chunks) == repr(apps[1].chunks)
    assert len(apps[0].chunks) == 5


def test_periods_are_counted_from_what_another_attribute_says() -> None:
    app = """define stream S (at long, begin long);
    from S#window.externalTimeBatch(at, 100, begin) select at, begin insert into Out;"""
    apps = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        one.run([(START_MS + at, (at, 30)) for at in (50, 120, 129, 130, 229, 230)])
    assert apps[0].chunks == apps[1].chunks
    assert [len(chunk) for _, chunk in apps[0].chunks] == [3, 2]


def test_what_has_left_a_cron_window_has_no_node_any_more() -> None:
    text = f"{STREAM} from S#window.cron('* * * * * ?') select sym, count() as n group by sym insert into Out;"
    app = Watched(checked_app(text), interpreted)
    app.app.start(START_MS)
    app.begin()
    for number in range(100):
        app.run([(START_MS + 600 * number, (str(number), None, None, None, None, None, None))])
    assert app.app.programmed is not None and app.app.programmed.running is not None
    arrays = app.app.programmed.running.arrays
    assert arrays["q0_free"][1] < 10
    assert len(app.chunks) > 50


def test_cron_windows_fire_behind_cron_triggers_and_named_ones_first() -> None:
    text = f"""{STREAM} define trigger Tick at '* * * * * ?'; define trigger Tock at every 1 sec;
    define window W (sym string, total long) cron('*/2 * * * * ?');
    from Tick select triggered_time as t insert into Out1; from Tock select triggered_time as t insert into Out2;
    from S#window.time(0) select sym, total insert all events into Mid; from Mid select * insert into W;
    from S#window.cron('* * * * * ?') select sym, count() as n insert all events into Out3;
    from W select sym, count() as n insert all events into Out4;"""
    for seed in range(2):
        assert alike(checked_app(text), Random(seed), interpreted, steps=20) > 20


def colliding_keys(random: Random, count: int, start_ms: int, whole: bool) -> list[Arrival]:
    """Return events with texts that have one hash code."""
    texts = ["".join(random.choice(("Aa", "BB")) for _ in range(3)) for _ in range(3 * count)]
    events = drawn_events(random, len(texts), start_ms, whole)
    return [(start_ms, (text, *row[1:])) for text, (_, row) in zip(texts, events, strict=True)]


@pytest.mark.parametrize("events_of", [many_keys, colliding_keys])
def test_keys_that_came_too_seldom_leave_in_the_order_of_a_map(events_of: Callable[..., list[Arrival]]) -> None:
    text = f"""{STREAM}
    from S#window.frequent(4, sym) select sym, count() as n insert all events into Out1;
    from S#window.lossyFrequent(0.03, 0.02, sym) select sym, kind insert all events into Out2;
    partition with (kind of S) begin
    from S#window.frequent(14) select sym, count() as n group by sym insert all events into Out3; end;"""
    for seed in range(2):
        assert alike(checked_app(text), Random(seed), interpreted, steps=20, events_of=events_of) > 100


# Stream processors.


def processed(app: str, *seeds: int, steps: int = 16) -> int:
    """Check an app with stream processors with its program, which has all of it."""
    windows_of(checked := checked_app(app))
    few = patch.object(forgetting, "_FEW", 4), patch.object(partition, "_FEW", 1)
    with few[0], few[1]:
        given: dict[str, Any] = {"whole": True, "events_of": disordered_events}
        return sum(alike(checked, Random(seed), interpreted, steps, **given) for seed in seeds)


@pytest.mark.parametrize("app", [REORDERED, ADAPTED, DEDUPLICATED])
def test_a_stream_processor_lets_the_same_go_with_its_program(app: str) -> None:
    assert processed(app, *range(4)) > 300


def test_a_drawn_app_has_the_same_stream_processors_with_its_program() -> None:
    out = typed = 0
    for seed in range(30):
        random = Random(seed)
        checked = checked_app(text := drawn_processed_app(random))
        own = Watched(checked, interpreted).app.programmed
        if own is None or own.compile() is None or own.program is None:
            continue  # a function behind it has no typed form
        typed += sum(bool(query.fronts) for query in own.program.queries)
        try:
            out += alike(checked, random, interpreted, 12, whole=True, events_of=disordered_events)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert typed > 30
    assert out > 200


def processor_mutants() -> dict[str, tuple[str, Any]]:
    """Return changes of what is written for stream processors, each with an app that shows it."""

    def wakes(self: Any, query: Any) -> list[str]:
        return list(self._timer.wakes([]))

    stored, rank_of = reorder._stored_heaps, "spdist.program.timer_text.rank"

    def others(running: Any, front: Any, name: str, count: int) -> Any:
        return stored(running, front, {"held": "fresh", "fresh": "held"}[name], count)

    return {
        "the slack": (REORDERED, patch.object(ReorderWriter, "_widens", lambda self, span: [])),
        "wake-ups": (REORDERED, patch.object(ReorderWriter, "wakes_with", wakes)),
        "what begins with a key": (REORDERED, patch.object(ReorderWriter, "begins", lambda self: [])),
        "which timer is first": (REORDERED, patch(rank_of, lambda query, operator=0: 64 * query + operator % 64)),
        "a state": (REORDERED, patch.object(reorder, "_stored_heaps", others)),
        "texts": (REORDERED, patch.object(forgetting, "_values", lambda running, type: iter(()))),
        "an adaption": (ADAPTED, patch.object(ReorderWriter, "_adapts", lambda self, time, adaption: [])),
        "what was adapted": (ADAPTED, patch.object(reorder, "_load_adapting", lambda *given: None)),
        "keys by time": (DEDUPLICATED, patch.object(DeduplicateWriter, "wakes_with", wakes)),
        "keys of a state": (DEDUPLICATED, patch.object(DeduplicateStates, "load_columns", lambda *given: None)),
        "texts of keys": (DEDUPLICATED, patch.object(forgetting, "_unique_keys", lambda running, query: iter(()))),
    }


@pytest.mark.parametrize("name", list(processor_mutants()))
def test_the_law_finds_a_mutant_of_a_stream_processor(name: str) -> None:
    app, change = processor_mutants()[name]
    with change, pytest.raises((AssertionError, IndexError, KeyError, TypeError)):
        for seed in range(6):
            processed(app, seed, steps=24)


def test_where_a_time_is_near_the_limits_of_a_long_the_operators_go_on() -> None:
    app = f"{STREAM} from S#reorder:kslack(total) select total insert into Out;"
    apps = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for number, total in enumerate((0, 70, 2**63 - 1, 140, -(2**63), 2**63 - 30, 2**63 - 1)):
            one.chunk([(START_MS + number, ("a", None, None, None, None, total, None))], START_MS + number)
    assert apps[1].chunks == apps[0].chunks
    assert len(apps[0].chunks) > 1
    assert apps[1].app.programmed is not None
    assert apps[1].app.programmed.reason == "a time near the limits of a long"


def test_it_is_told_which_stream_processors_stand_in_the_loop() -> None:
    def told(query: str) -> str:
        window = "define window W (sym string, total long) length(5); from S select sym, total insert into W;"
        return explain(f"{STREAM} {window} from {query} insert into Out; from S select ok insert into Out2;").compiled

    assert told("S#reorder:kslack(total) select sym") == "yes"
    assert "reorder:kslack by what is no attribute" in told("S#reorder:kslack(total + 1L) select sym")
    assert "a stream processor of a named window" in told("W#reorder:kslack(total) select sym")
    behind = "S#reorder:kslack(total)#unique:deduplicate(sym, 9L) select sym"
    assert "a stream function behind a stream processor" in told(behind)
    assert "a stream function" in told("S#window.length(2)#unique:deduplicate(sym, 9L) select sym")
    assert "a window whose attribute may be null ('M')" in told(
        "S select sym, total insert into M; from M#reorder:kslack(total) select sym"
    )


def test_who_asks_for_the_first_events_of_keys_gets_all_that_they_have() -> None:
    text = f"""{STREAM} define window W (sym string, kind string, n int) unique:first(kind);
    from S select sym, kind, volume as n insert into W; from W select sym, count() as c insert into Out;"""
    apps = [Watched(checked_app(text)), Watched(checked_app(text), interpreted)]
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        one.chunk([(START_MS, ("a", "k", 1.0, 0.5, 7, 2, True))], START_MS)
        assert one.app.query("from W select *").rows == [("a", "k", 7)]
