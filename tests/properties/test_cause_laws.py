"""Whatever comes out of whatever app: its causes are enough, and none of them can be left out."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.engine.replay.equality import same_values
from spdist.engine.replay.evidence import Cause
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.testing import VirtualApp
from tests.properties.siddhi_apps import DEFINITIONS, Sample, samples

laws = settings(max_examples=120)
START = 1000

#: Apps whose queries meet in joins, tables, defined windows and aggregations, or that put out what time alone brings.
MEETINGS = (
    "from A#window.length(2) join B#window.time(60) on A.id == B.id select A.v as v, B.w as w insert into Out;",
    "from A#window.time(80) left outer join B#window.length(1) on A.id == B.id and A.v > B.v "
    "select A.id as id, B.v as v, count() as n insert into Out;",
    "define table T (id string, v int); from A select id, v insert into T; "
    "from B join T on B.id == T.id select T.v as v, B.id as id insert into Out;",
    "define table T (id string, v int); from A select id, v update or insert into T set T.v = v on T.id == id; "
    "from B[v < 0] delete T on T.id == id; from B[T.id == id in T] select id, v insert into Out;",
    "define window W (id string, v int) time(50) output all events; from A select id, v insert into W; "
    "from W select id, sum(v) as s insert into Out; from B join W on B.id == W.id select W.v as v insert into Out2;",
    "define trigger Begin at 'start'; from Begin select triggered_time as at insert into Out; "
    "from A#window.timeBatch(50) join B#window.length(1) on A.v > B.v select A.v as v insert into Out2;",
    "define trigger Tick at every 40 millisec; from A#window.time(100) select id, v insert into Late; "
    "from Tick join A#window.length(3) select A.v as v insert into Out;",
    "from A[v > 2] select id insert into High; "
    "from every a=High -> not B[id == a.id] for 60 millisec select a.id as id insert into Alone; "
    "from Alone#window.lengthBatch(2) select id, count() as n insert into Out;",
    "define stream Sums (id string, s long); "
    "from A#window.time(90) select id, sum(v) as s group by id insert into Sums; "
    "partition with (id of Sums, id of B) begin from every x=Sums[s > 2] -> y=B within 100 millisec "
    "select x.id as id, x.s as s, y.v as v insert into Out; end;",
)


@st.composite
def meetings(draw: st.DrawFn) -> Sample:
    """One of these apps, with events for it."""
    sample = draw(samples())
    return Sample(DEFINITIONS + draw(st.sampled_from(MEETINGS)), sample.events, sample.end)


def comes(sample: Sample, kept: set[tuple[str, int]], until: int, stream: str, event: tuple[int, object]) -> int:
    """How often an event comes out when only some events are sent, while time passes as with all of them."""
    app = LocalApp(check(parse(sample.text), catalog(), sample.text))
    count = 0

    def note(timestamp: int, row: object) -> None:
        nonlocal count
        count += same_values(event, (timestamp, row), 1e-9)

    app.subscribe(stream, note)
    app.start(START)
    clock, positions = START, {"A": 0, "B": 0}
    for to, timestamp, row in sample.events:
        clock = max(clock, timestamp)
        if clock > until:
            break
        app.advance(clock)
        if (to, positions[to]) in kept:
            app.send(to, timestamp, row)
        positions[to] += 1
    app.advance(until)
    return count


def places(causes: Sequence[Cause]) -> set[tuple[str, int]]:
    return {(cause.stream, cause.position) for cause in causes}


@laws
@given(samples() | meetings(), st.data())
def test_causes_are_sufficient_and_minimal(sample: Sample, data: st.DataObject) -> None:
    app = VirtualApp(sample.text, start=START)
    for stream, timestamp, row in sample.events:
        app.send(stream, *row, at=timestamp)
    app.advance(to=sample.end)
    came = [seen for seen in app.history if not seen.sent]
    assume(came)
    number = data.draw(st.integers(0, len(came) - 1), label="which event")
    stream, event = came[number].stream, (came[number].timestamp, came[number].row)
    before = [seen for seen in came[: number + 1] if seen.stream == stream]
    copies = sum(same_values(event, (seen.timestamp, seen.row), 1e-9) for seen in before)

    evidence = app.explain(stream, len(before) - 1)
    assert evidence.minimal
    assert (evidence.event.timestamp, evidence.event.row) == event
    causes = places(evidence.causes)
    assert len(causes) == len(evidence.causes)
    assert comes(sample, causes, evidence.clock, stream, event) >= copies
    for cause in evidence.causes:
        others = causes - {(cause.stream, cause.position)}
        assert comes(sample, others, evidence.clock, stream, event) < copies
        assert cause.without
    assert str(evidence).startswith(stream)
    assert evidence.to_html().startswith("<div>")
