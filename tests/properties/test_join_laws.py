"""Laws of joins: with and without an index, with and without timers, restarted anywhere, they give the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.joins.lazy_expiry import LazyExpiryJoinPlan
from spdist.operators.windows.store import WindowStore

SLIDING = ["#window.length(2)", "#window.length(4)", "#window.time(100)", "#window.time(400)", ""]
WINDOWS = [
    *SLIDING,
    "#window.lengthBatch(2)",
    "#window.lengthBatch(2, true)",
    "#window.timeBatch(150)",
    "#window.batch()",
    "#window.sort(2, v)",
    "#window.timeLength(200, 2)",
    "#window.externalTime(at, 100)",
    "#window.externalTimeBatch(at, 150)",
]
KINDS = ["join", "left outer join", "right outer join", "full outer join"]
CONDITIONS = ["x.k == y.k", "x.k == y.k and x.v < y.v", "y.v == x.v and x.k == y.k", "x.v + 1 == y.v"]
PLAIN = ["x.k as k, x.v as a, y.v as b", "x.v + y.v as s, y.k as k, y.k is null as n"]
SELECTIONS = [*PLAIN, "x.k as k, sum(y.v) as s, count() as n", "y.k as k, max(x.v) as m, count() as n group by y.k"]

steps = st.lists(
    st.tuples(
        st.sampled_from(["L", "R", "L", "R", "chunk L", "chunk R", "advance", "restart"]),
        st.integers(0, 120),  # ms since the step before
        st.sampled_from([0, 0, 0, 0, 90, 500]),  # ms that the event is late
        st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 4)), min_size=1, max_size=3),
    ),
    max_size=25,
)


@st.composite
def joins(draw: st.DrawFn, windows: list[str], selections: list[str], outputs: list[str]) -> str:
    sides = [f"{name}{draw(st.sampled_from(windows))} as {alias}" for name, alias in (("L", "x"), ("R", "y"))]
    unidirectional = draw(st.sampled_from([None, None, None, 0, 1]))
    if unidirectional is not None:
        sides[unidirectional] += " unidirectional"
    kind, condition = draw(st.sampled_from(KINDS)), draw(st.sampled_from(CONDITIONS))
    return (
        "define stream L (k string, v int, at long); define stream R (k string, v int, at long);"
        f"from {sides[0]} {kind} {sides[1]} on {condition} select {draw(st.sampled_from(selections))} "
        f"insert {draw(st.sampled_from(outputs))} into Out; from Out select count() as c insert into Counted;"
    )


def outcome(text: str, steps: list[Any], restarts: bool) -> list[Any]:
    """What an app puts out; where `restarts` is false, the steps that restart it do nothing."""
    checked = check(parse(text), catalog(), text)
    seen: list[Any] = []

    def made() -> LocalApp:
        app = LocalApp(checked)
        for stream in ("Out", "Counted"):
            app.subscribe(stream, lambda ts, row, stream=stream: seen.append((stream, ts, row)))  # type: ignore[misc]
        return app

    app, now = made(), 1000
    app.start(now)
    for step, later, late, events in steps:
        now += later
        if step == "restart":
            state = app.snapshot()
            if restarts:
                app = made()
                app.restore(state)
        elif step == "advance":
            app.advance(now)
        elif step.startswith("chunk"):
            app.send_chunk(step[-1], [(now - late, (k, v, now - late)) for k, v in events])
        else:
            k, v = events[0]
            app.send(step, now - late, (k, v, now - late))
    return seen


@contextmanager
def scanning() -> Iterator[None]:
    """Joins that look at every row of a window."""
    index, lazy = WindowStore.index, LazyExpiryJoinPlan.may_be_lazy
    WindowStore.index = lambda self, attributes: None  # type: ignore[method-assign, assignment]
    LazyExpiryJoinPlan.may_be_lazy = False
    try:
        yield
    finally:
        WindowStore.index, LazyExpiryJoinPlan.may_be_lazy = index, lazy  # type: ignore[method-assign]


@settings(max_examples=150, deadline=None)
@given(joins(WINDOWS, SELECTIONS, ["current events", "all events", "expired events"]), steps)
def test_an_index_finds_what_a_scan_finds_also_after_restarts(text: str, steps: list[Any]) -> None:
    with scanning():
        expected = outcome(text, steps, restarts=False)
    assert outcome(text, steps, restarts=True) == expected


@settings(max_examples=200, deadline=None)
@given(joins(SLIDING, PLAIN, ["current events"]), steps)
def test_the_lazy_form_gives_what_the_plain_form_gives(text: str, steps: list[Any]) -> None:
    LazyExpiryJoinPlan.may_be_lazy = False
    try:
        expected = outcome(text, steps, restarts=False)
    finally:
        LazyExpiryJoinPlan.may_be_lazy = True
    assert outcome(text, steps, restarts=True) == expected
