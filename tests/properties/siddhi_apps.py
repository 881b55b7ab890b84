"""Generators of small apps and of what is sent to them; values are few, so that things meet."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

Event = tuple[str, int, tuple[object, ...]]

DEFINITIONS = """
define stream A (id string, v int, w double, at long);
define stream B (id string, v int, w double, at long);
"""
_WINDOWS = (
    "length(2)", "length(3)", "length(0)", "lengthBatch(2)", "lengthBatch(3, true)", "time(30)", "time(100)",
    "timeBatch(50)", "timeBatch(50, true)", "timeBatch(50, 7)", "timeLength(60, 2)", "externalTime(at, 40)",
    "externalTimeBatch(at, 40)", "externalTimeBatch(at, 40, 0, 60)", "batch()", "delay(35)", "sort(2, v)",
)  # fmt: skip
_ITEMS = (
    "id", "v", "v * 2 - 1 as twice", "eventTimestamp() as ts", "UUID() as u", "sum(v) as s", "avg(w) as a",
    "count() as n",
    "min(v) as lo", "max(w) as hi", "stdDev(w) as sd", "distinctCount(id) as d",
    "minForever(v) as never", "sum(cast(id, 'double')) as fails",
)  # fmt: skip
_PATTERNS = (
    "every e1=A -> e2=B[id == e1.id]",
    "every e1=A -> e2=B[id == e1.id and v > e1.v] within 80 millisec",
    "e1=A -> e2=A -> e3=B",
    "every (e1=A -> e2=B)",
    "every e1=A<2:3> -> e2=B",
    "every e1=A -> e2=B<0:2> -> e3=A",
    "every e1=A and e2=B",
    "every e1=A -> every (e2=A or e3=B) within 70 millisec",
    "every e1=A -> not B[id == e1.id] for 40 millisec",
    "every not B for 50 millisec -> e1=A",
    "not A for 30 millisec or e1=B -> e2=A",
    "every e1=A -> not B and e2=A",
    "every e1=A, e2=B",
    "every e1=A, e2=A[v > e1.v]+, e3=B",
    "e1=A*, e2=B within 90 millisec",
)

#: Null, also where a key is.
_ids = st.sampled_from(["x", "y", "z", None])
_values = st.none() | st.integers(-3, 5)
_halves = st.none() | st.integers(-6, 6).map(lambda n: n / 2)
_gaps = st.sampled_from([0, 0, 1, 10, 25, 50, 120])
#: Some events are late.
_steps = st.tuples(st.sampled_from("AB"), _gaps, _ids, _values, _halves, st.sampled_from([0, 0, 0, 15]))


@dataclass(frozen=True)
class Sample:
    """An app, what is sent to it, and when it stops."""

    text: str
    events: tuple[Event, ...]
    end: int


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query over stream A, with a window or without."""
    items = draw(st.lists(st.sampled_from(_ITEMS), min_size=1, max_size=4, unique=True))
    window = draw(st.none() | st.sampled_from(_WINDOWS))
    source = "A" + draw(st.sampled_from(["", "[v > 0]"])) + (f"#window.{window}" if window else "")
    if window:
        source += draw(st.sampled_from(["", "", "[v != 2]"]))
    grouping = draw(st.sampled_from(["", "", " group by id"]))
    if "v" in items:
        grouping += draw(st.sampled_from(["", "", " having v < 4"]))
    grouping += draw(st.sampled_from(["", "", "", " limit 1", " offset 1"]))
    kind = draw(st.sampled_from(["", "all events ", "expired events "]))
    return f"from {source} select {', '.join(items)}{grouping} insert {kind}into Out;"


@st.composite
def matches(draw: st.DrawFn) -> str:
    """A query over a pattern or sequence."""
    pattern = draw(st.sampled_from(_PATTERNS))
    plain = sorted({part[-2:] for part in pattern.split("=")[:-1] if part[-2:] in ("e1", "e2", "e3")})
    counted = "<" in pattern or "+" in pattern or "*" in pattern
    last = "[last]" if counted else ""
    items = ", ".join(f"{name}{last}.v as {name}, {name}{last}.id as {name}_id" for name in plain)
    return f"from {pattern} select {items}, eventTimestamp() as ts, count() as n insert into Out;"


@st.composite
def samples(draw: st.DrawFn, late: bool = True) -> Sample:
    """An app of one or two queries, in a partition or not, and events for it."""
    body = draw(queries() | matches())
    if draw(st.booleans()):
        body = f"partition with (id of A, id of B) begin {body} end;"
    following = draw(st.sampled_from(["", "\nfrom Out#window.timeBatch(70) select count() as n insert into Counts;"]))
    events: list[Event] = []
    time = 1000
    for stream, gap, id, v, w, behind in draw(st.lists(_steps, max_size=25)):
        time += gap
        events.append((stream, time - behind if late else time, (id, v, w, time)))
    return Sample(f"{DEFINITIONS}{body}{following}", tuple(events), time + draw(st.sampled_from([0, 30, 300])))


class Watched:
    """An app that remembers what came out; started anew by `again`, which keeps what was seen."""

    def __init__(self, text: str) -> None:
        self.checked = check(parse(text), catalog(), text)
        self.seen: list[tuple[str, int, tuple[object, ...]]] = []
        self.app = self._made()
        self.app.start(1000)

    def _made(self) -> LocalApp:
        app = LocalApp(self.checked)
        for stream in ("Out", "Counts"):
            if stream in self.checked.streams:
                app.subscribe(stream, lambda ts, row, stream=stream: self.seen.append((stream, ts, row)))  # type: ignore[misc]
        return app

    def again(self) -> None:
        """Go on in a new app, from a snapshot."""
        snapshot = self.app.snapshot()
        self.app = self._made()
        self.app.restore(snapshot)
        assert self.app.snapshot() == snapshot
