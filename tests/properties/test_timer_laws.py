"""A clock that jumps: to go past wake-ups that do nothing is the same as to wake each of them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.base import Timers

_DEFINITIONS = """
define stream A (id string, v int, at long);
define stream B (id string, v int, at long);
"""
_WINDOWS = (
    "timeBatch(7)", "timeBatch(50, 3)", "timeBatch(20, true)", "externalTimeBatch(at, 40, 0, 15)",
    "externalTimeBatch(at, 40, at, 15, true)", "unique:externalTimeBatch(id, at, 40, 0, 15)",
    "unique:time(id, 30)", "unique:length(id, 2)", "unique:timeBatch(id, 9)", "unique:firstTimeBatch(id, 9, 4)",
    "unique:timeLengthBatch(id, 11, 2)", "time(60)", "timeLength(60, 2)", "delay(35)", "session(30L, id)",
    "session(30L, id, 10L)", "cron('*/2 * * * * ?')", "length(2)", "batch()",
)  # fmt: skip
_RATES = (
    "", "", "output all every 9 millisec", "output last every 9 millisec", "output first every 9 millisec",
    "output snapshot every 25 millisec",
)  # fmt: skip
_ABSENCES = (
    "every not A for 20 millisec",
    "not A for 20 millisec",
    "every not A for 20 millisec -> e2=B",
    "every not A for 20 millisec, e2=B",
    "every not A[v > 1] for 20 millisec, e2=A",
    "not A for 20 millisec, e2=B",
    "every not A for 20 millisec -> e2=B within 70 millisec",
    "every not A for 20 millisec, e2=B within 70 millisec",
    "every (not A for 20 millisec -> e2=B)",
    "every (not A for 20 millisec and e2=B)",
    "every (not A for 20 millisec or e2=B)",
    "every (not A for 20 millisec and e2=B) -> e3=A",
    "every (not A for 20 millisec or e2=B), e3=A",
    "every (not A for 20 millisec and not B for 30 millisec)",
    "every (not A for 20 millisec and not B for 30 millisec), e3=A",
    "every (not A for 20 millisec or not B for 30 millisec) -> e3=A",
    "every e1=A, not B for 20 millisec, e2=A, not B for 30 millisec",
    "every not A for 20 millisec -> e2=B -> not A for 30 millisec",
    "every e1=A -> not B for 20 millisec",
    "every e1=A, not B for 20 millisec, e3=A",
    "every e1=A -> not B[id == e1.id] for 20 millisec and e3=B",
    "every e1=A, not B for 20 millisec and e3=A",
    "e1=A -> every not B for 20 millisec",
    "e1=A -> every (not B for 20 millisec and e3=A) within 200 millisec",
    "every (e1=A -> not B for 20 millisec) within 90 millisec",
)
_OTHERS = (
    "from A#reorder:kslack(at, 30L) select id, v insert into Out;",
    "from A#reorder:akslack(at, v, 2L, 30L) select id, v insert into Out;",
    "from A#window.length(3) join B#window.timeBatch(40) on A.id == B.id select A.v as v "
    "output snapshot every 9 millisec insert into Out;",
    "define trigger T at every 7 millisec; from A select id, v insert into Out;",
    "define trigger T at every 7 millisec; from T select count() as n output last every 30 millisec insert into Out;",
    "define trigger T at '*/3 * * * * ?'; from T#window.timeBatch(5) select count() as n insert into Out;",
    "@purge(enable='true', interval='10 sec', @retentionPeriod(sec='120 sec', min='2 hours', hours='25 hours')) "
    "define aggregation G from A select id, sum(v) as s group by id aggregate every sec...hour; "
    "from A select id insert into Out;",
    "define window W (id string, v int, at long) timeBatch(30); from A insert into W; "
    "from W select id, v output snapshot every 8 millisec insert into Out;",
    "from A#window.timeBatch(20) join B#window.time(70) on A.id == B.id select A.v as v, B.v as w "
    "output last every 11 millisec insert into Out;",
)


@st.composite
def _apps(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["window", "window", "absence", "absence", "other"]))
    if kind == "other":
        return _DEFINITIONS + draw(st.sampled_from(_OTHERS))
    if kind == "window":
        window = draw(st.sampled_from(_WINDOWS))
        selected = draw(st.sampled_from(["id, v", "sum(v) as s", "id, sum(v) as s group by id", "sum(v) as s, id"]))
        source, events = f"A#window.{window}", draw(st.sampled_from(["", "all events ", "expired events "]))
    else:
        source, events = draw(st.sampled_from(_ABSENCES)), ""
        selected = draw(st.sampled_from(["count() as n", "eventTimestamp() as t"]))
    rate = draw(st.sampled_from(_RATES))
    if "snapshot" in rate and "expired" in events:
        events = ""
    body = f"from {source} select {selected} {rate} insert {events}into Out;"
    if draw(st.integers(0, 2)) == 0:
        purge = draw(st.sampled_from(["", "@purge(enable='true', interval='15 millisec', idle.period='40 millisec') "]))
        body = f"{purge}partition with (id of A, id of B) begin {body} end;"
    following = draw(st.sampled_from(["", "", "from Out#window.timeBatch(17) select count() as n insert into Counts;"]))
    return _DEFINITIONS + body + following


_steps = st.lists(
    st.tuples(
        st.sampled_from(["A", "A", "B", ""]),
        st.sampled_from([0, 1, 7, 20, 33, 100, 450, 2000]),
        st.sampled_from("xy"),
        st.integers(0, 3),
        st.sampled_from([0, 0, -15, 40, 3000]),
    ),
    max_size=9,
)


def _course(text: str, steps: list[tuple[str, int, str, int, int]], *, one_by_one: bool) -> list[Any]:
    """All that comes out, and the state after each step."""
    app = LocalApp(check(parse(text), catalog(), text))
    seen: list[Any] = []
    for stream in ("Out", "Counts"):
        if stream in app.checked.streams:
            app.subscribe(stream, lambda ts, row, stream=stream: seen.append((stream, ts, row)))  # type: ignore[misc]
    way = patch.object(Timers, "_skip_calm", return_value=False) if one_by_one else nullcontext()
    with way:
        now = 1000
        app.start(now)
        for stream, gap, id, v, shift in steps:
            now += gap
            if stream:
                app.send(stream, now, (id, v, now + shift))
            else:
                app.advance(now)
            seen.append(app.snapshot())
    return seen


@settings(max_examples=150, deadline=None)
@given(_apps(), _steps)
def test_what_is_skipped_is_as_if_it_had_come(text: str, steps: list[tuple[str, int, str, int, int]]) -> None:
    assert _course(text, steps, one_by_one=False) == _course(text, steps, one_by_one=True)
