"""Patterns and sequences of any shape: their program does what the operators do, and keeps the same state."""

from __future__ import annotations

from random import Random

import numpy
import pytest

from spdist.operators.base import NOT_NOW
from spdist.operators.core.junction import StreamPart
from spdist.operators.patterns.repeated_absences import PatternRests
from spdist.program.expressions import NotTyped
from spdist.program.machine.compiler import interpreted
from spdist.program.obstacle import compiled_or_why_not
from spdist.program.shape import shape_of
from spdist.program.text import written
from tests.program.drawn_apps import START_MS, STREAM, objects_too
from tests.program.drawn_patterns import drawn_states
from tests.program.interpreted_programs import programs
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

# Executed by Python, whole numbers are numpy's, which warn where they wrap as they should.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

_A, _B = "not S[volume > 0] for 60 milliseconds", "e2=S[sym == e1.sym or ok]"
_SHAPES = {
    "absence in front": "every not S[volume > 0] for 300 milliseconds -> e1=S[ok] select e1.sym, e1.price",
    "absence once": "not S[volume > 4] for 60 milliseconds -> e1=S -> e2=S select e1.sym, e2.price",
    "nothing but an absence": f"every {_A} select 7 as n, count() as m",
    "every further back": f"e1=S -> every {_B} -> e3=S select e1.sym as a, e2.sym as b, e3.volume",
    "every further back within": f"every e1=S -> every {_B} within 700 milliseconds select e1.sym as a, e2.sym as b",
    "count at the end": "every e1=S, e2=S[ok]* select e1.sym as a, e2[0].sym as b",
    "count in front": "every e1=S[ok]+, e2=S select e1[0].sym as a, e1[last].price, e2.sym as b, count() as n",
    "none in front": "e1=S[volume > 5]*, e2=S select e1[0].sym as a, e2.sym as b",
    "open count within": "every e1=S<2:4> within 500 milliseconds select e1[0].sym, e1[last].volume",
    "or within": "every (e1=S[ok] or e2=S[volume > 0]) -> e3=S within 500 milliseconds select e1.sym as a, e2.sym as b",
    "pair in a sequence": "every e1=S, e2=S[ok] and e3=S[volume > 0] select e1.sym as a, e2.sym as b, e3.volume",
    "absence in a sequence": "every e1=S, not S[ok] for 60 milliseconds select e1.sym",
    "absence and": f"every e1=S -> {_A} and e2=S[ok] select e1.sym as a, e2.sym as b",
    "absence or": f"every e1=S -> {_A} or e2=S[ok] select e1.sym as a, e2.sym as b",
    "two absences": f"every ({_A} and not S[ok] for 1 milliseconds) -> e1=S select e1.sym",
    "absence and, repeated": "every (not S[ok] and e1=S[volume > 0]) -> e2=S select e1.volume as v, e2.sym",
    "several repeated": "every (e1=S -> e2=S[ok]<1:3>) -> e3=S[volume > 0] select e1.sym as a, e2[last].sym as b",
}


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_pattern_of_one_shape_does_the_same_with_its_program(shape: str, keyed: bool) -> None:
    query = f"from {_SHAPES[shape]} insert into Out;"
    app = checked_app(f"{STREAM} partition with (kind of S) begin {query} end;" if keyed else f"{STREAM} {query}")
    assert sum(alike(app, Random(seed), interpreted, steps=10) for seed in range(3)) > 0


_EMPTY = (None, None, None, None, 5, None, None)


@pytest.mark.parametrize("limit", ["", " output last every 100 milliseconds"])
def test_a_program_that_is_there_waits_for_the_start_of_the_app(limit: str) -> None:
    text = f"{STREAM} from every not S for 70 milliseconds select 7 as n{limit} insert into Out;"
    found = []
    for there in (False, True):
        with programs(there):
            app = Watched(checked_app(text))
            app.app.compiles()
            for at in (0, 1):
                app.app.deliver({"S": _part_of(START_MS + at)})
            app.app.advance(START_MS + 900)
            assert app.app.programmed is not None
            assert app.app.programmed.active is there
            found.append(app.chunks)
    assert found[0] == found[1]
    assert len(found[0]) > 4


def _part_of(time: int) -> StreamPart:
    return StreamPart(numpy.array([time]), numpy.array([0]), [_EMPTY])


@pytest.mark.parametrize("pattern", ["every (e1=S and not S[ok])", "e1=S[ok]<0:>"])
def test_a_single_element_that_needs_no_event_within_a_time_is_called(pattern: str) -> None:
    """Of chunks that last longer than that, operators give what is too old when the next event of the chunk comes."""
    text = f"{STREAM} from {pattern} within 60 milliseconds select e1[last].volume as v insert into Out;"
    text = text if "<" in pattern else text.replace("[last]", "")
    with pytest.raises(NotTyped, match="a single element"):
        shape_of(checked_app(text))
    assert shape_of(checked_app(text.replace(" within 60 milliseconds", "")))


@pytest.mark.parametrize("events", ["all events ", ""])
def test_a_match_that_was_too_old_at_one_element_leaves(events: str) -> None:
    text = f"""{STREAM} from S[ok] select * insert into A; from S[volume > 0] select * insert into B;
    from e1=B[ok] -> every (e2=S -> e3=S<2:3> -> e4=S[volume > 0] or e14=A) within 2 sec
    select e2.volume as v, sum(e2.volume) as total insert {events}into Out;"""
    old, now = START_MS - 4000, START_MS + 600
    chunks: list[list[tuple[int, int, bool | None]]] = [
        [(START_MS, 1, True)],
        [(START_MS + 500, -1, True)],
        [(START_MS + 510, -2, None)],
        [(now, 0, True), (old, 0, True)],
        [(now + 10, 3, True)],
        [(now + 20, -4, True)],
        [(now + 30, -4, None), (now + 40, 0, True)],
    ]
    apps = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for number, chunk in enumerate(chunks):
            rows = [(at, (None, None, None, None, volume, None, ok)) for at, volume, ok in chunk]
            one.chunk(rows, START_MS + 500 * min(number, 1) + 10 * number)
    assert apps[0].chunks == apps[1].chunks
    assert (("Out", [(now, (1, -1))]) in apps[0].chunks) is bool(events)


def test_where_the_clock_goes_past_too_many_waits_the_operators_go_on() -> None:
    text = f"{STREAM} from every not S for 1 milliseconds -> e1=S select e1.volume insert into Out;"
    app = Watched(checked_app(text), interpreted)
    app.app.start(START_MS)
    app.begin()
    app.chunk([(START_MS + 5, _EMPTY)], START_MS + 5)
    assert app.app.programmed is not None
    assert app.app.programmed.active
    app.app.programmed.advance(START_MS + 10**10)
    assert not app.app.programmed.active
    assert "skip" in app.app.programmed.reason
    assert [len(chunk) for _, chunk in app.chunks] == [5]


@pytest.mark.parametrize("text", ["-> e2=S[sym == e1.sym]<2:4> -> e3=S[ok]", ", e2=S[volume > 0]*, e3=S[not ok]"])
def test_a_pattern_whose_matches_nobody_reads_has_a_program(text: str) -> None:
    app = f"""{STREAM} from every e1=S[ok] {text} select e1.sym, e2[0].price as p, e2[last].rate as r insert into Mid;
    from S select sym insert into Out1;"""
    checked = checked_app(app)
    assert sum(alike(checked, Random(seed), interpreted, steps=20) for seed in range(4)) > 50


@pytest.mark.parametrize("group", range(4))
def test_a_drawn_pattern_does_the_same_with_its_program(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A program goes through each wake-up, also where operators would go past many in one step.
    monkeypatch.setattr(PatternRests, "calm_until", lambda _self, _to_ms: NOT_NOW)
    compared = 0
    for seed in range(20 * group, 20 * group + 20):
        random = Random(seed)
        query = drawn_states(random, ("A", "B", "S"))
        moved = "from S[ok] select * insert into A; from S[volume > 0] select * insert into B;"
        text = f"{STREAM}\n{moved}\n{query} insert {random.choice(('', 'all events '))}into Out;"
        text = objects_too(text) if random.random() < 0.3 else text
        checked = checked_app(text)
        try:
            written(shape_of(checked), ("Out",))
        except NotTyped as why:
            assert why.reason == "a repetition of what a counted element still collects for", text
            continue
        try:
            compared += alike(checked, random, interpreted, steps=8) > 0
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert compared > 4


def test_room_is_made_for_matches_that_several_events_of_another_stream_begin() -> None:
    text = f"""{STREAM} from S#window.timeLength(900, 2) select * insert all events into A;
    from every a=A -> b=S[ok] select a.kind as k, b.price as p, a.volume as v insert into Out;"""
    checked = checked_app(text)
    assert sum(alike(checked, Random(seed), interpreted, steps=16) for seed in range(6, 10)) > 40


#: Patterns over what named windows release: to them also what leaves has come.
OF_WINDOWS = f"""{STREAM}
define window W (sym string, kind string, volume int) length(2);
define window V (sym string, total long) time(60) output expired events;
from S select sym, kind, volume insert into W;
from S[ok] select sym, total insert into V;
from every e1=W -> e2=W[volume > e1.volume] select e1.sym as a, e2.volume as v insert into Out1;
from every e1=W[volume > 0] -> e2=S[sym == e1.sym] within 500 milliseconds select e1.kind as k, e2.price as p
insert into Out2;
from e1=V, e2=W+ select e1.total as t, e2[0].sym as a, count() as n insert into Out3;
from every e1=W -> not V[sym == e1.sym] for 100 milliseconds select e1.sym as a insert into Out4;
partition with (sym of W, sym of S) begin
from every e1=W -> e2=S[ok] select e1.volume as v, e2.price as p insert into Out5;
end;
"""


def test_a_pattern_over_named_windows_does_the_same_in_a_program() -> None:
    checked = checked_app(OF_WINDOWS)
    assert compiled_or_why_not(checked) == "yes"
    assert sum(alike(checked, Random(seed), interpreted, steps=30) for seed in range(4)) > 300
