"""What patterns and sequences do in one function is what they do element by element."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from itertools import groupby
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.operators.patterns.pattern import Automaton
from tests.properties.siddhi_apps import DEFINITIONS, Watched

_SHAPES = (
    "e1=A[v > 1] -> e2=A[v >= e1.v]",
    "every e1=A[v > 1] -> e2=A[e1.id == id and e1.v > v and at > e1.at] within 60 millisec",
    "every e1=A[v > 1] -> e2=A[v <= e1.v] -> e3=A[id == e1.id and v > e2.v] within 90 millisec",
    "every e1=A[cast(v, 'double') > 1.0] -> e2=A[v > e1.v]",
    "every e1=A[v > 1] -> e2=A[v > e1.v and cast(id, 'double') > 1.0] within 90 millisec",
    "every (e1=A[v > 2] -> e2=A[v < e1.v]) within 60 millisec",
    "every e1=B -> e2=A[v > e1.v] within 60 millisec",
    "every e1=A[v > 1] -> e2=A[id == e1.id and v > e1.v] within 60 millisec",
    "every e1=A[v > 1] -> e2=A[id == e1.id]",
    "every e1=A[v > 1] -> e2=A[v < e1.v] within 90 millisec",
    "every e1=A[v > 1] -> e2=B[id == e1.id] -> e3=A[v == 3] within 90 millisec",
    "every e1=A[v > 1]",
    "every e1=A[v > 1], e2=A[v < e1.v]",
    "every e1=A[v > 1], e2=A<2:3>, e3=A[v < e2[last].v]",
    "every e1=A[v > 1], e2=A[v > e1.v]<1:2>, e3=A[v < e2[last].v]+, e4=A[v == 3]",
    "every e1=A[v > 1], e2=A[v > e1.v]+, e3=A[v > 2 and cast(id, 'double') > 1.0], e4=A[v == 3]",
    "every e1=A[v > 1], e2=A[v > 0]<2:4>, e3=A[v < 3], e4=A[v == 3]",
    "every e1=A[v > 1], e2=A[v > e1.v]+, e3=A[v < e2[last].v]",
    "every e1=A[v > 1], e2=A[v >= e1.v]<1:2>, e3=B",
    "every e1=A[v > 1], e2=B[v > 0], e3=A",
    "every e1=A[v > 1], e2=A?, e3=A[v < 2]",
)
_events = st.lists(
    st.tuples(
        st.sampled_from("AAAB"),
        st.sampled_from([0, 1, 10, 40, -10]),
        st.sampled_from(["x", "y", "x", "y", None]),
        st.integers(0, 4) | st.integers(0, 4) | st.none(),
    ),
    max_size=25,
)


Sent = list[tuple[str, int, str | None, int | None]]


def app_of(shape: str) -> str:
    last = "[last]" if "+" in shape or "<1" in shape or "?" in shape else ""
    items = ", ".join(f"e{n}{last if n == 2 else ''}.v as v{n}" for n in (1, 2, 3) if f"e{n}=" in shape)
    return f"{DEFINITIONS}from {shape} select {items}, eventTimestamp() as ts insert into Out;"


def timed(events: Sent) -> Iterator[tuple[str, int, tuple[object, ...]]]:
    time = 1000
    for stream, gap, id, v in events:
        time += gap
        yield stream, time, (id, v, None, time)


def outcome(text: str, events: Sent) -> tuple[list[object], bytes]:
    watched = Watched(text)
    for stream, time, row in timed(events):
        watched.app.send(stream, time, row)
    return list(watched.seen), watched.app.snapshot()


@settings(max_examples=150)
@given(st.sampled_from(_SHAPES), _events)
def test_one_function_does_what_the_elements_do(shape: str, events: Sent) -> None:
    text = app_of(shape)
    with patch.object(Automaton, "_swiftly", return_value=None):
        expected = [*outcome(text, events)]
    assert [*outcome(text, events)] == expected


@settings(max_examples=300)
@given(st.sampled_from(_SHAPES), _events, st.integers(0, 25))
def test_a_loop_over_events_does_what_single_events_do(shape: str, events: Sent, cut: int) -> None:
    text = app_of(shape)
    watched = Watched(text)
    for number, (stream, run) in enumerate(groupby(timed(events), key=lambda event: event[0])):
        part = list(run)
        watched.app.send_batch(stream, [time for _, time, _ in part], [row for *_, row in part])
        if number == cut:
            watched.again()
    seen, state = outcome(text, events)
    assert watched.seen == seen
    assert watched.app.snapshot() == state


def test_a_loop_is_written_where_one_is_of_use() -> None:
    text = app_of(_SHAPES[1]).replace("from every", "@info(name='loop_of_a_pattern') from every")
    Watched(text).app.send_batch("A", [1000], [("x", 1, None, 1000)])
    assert any("loop_of_a_pattern loop" in file for file in linecache.cache)
