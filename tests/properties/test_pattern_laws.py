"""What patterns and sequences do in one function is what they do element by element."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.operators.pattern import Automaton
from tests.properties.siddhi_apps import DEFINITIONS, Watched

_SHAPES = (
    "every e1=A[v > 1] -> e2=A[id == e1.id and v > e1.v] within 60 millisec",
    "every e1=A[v > 1] -> e2=A[id == e1.id]",
    "every e1=A[v > 1] -> e2=A[v < e1.v] within 90 millisec",
    "every e1=A[v > 1] -> e2=B[id == e1.id] -> e3=A[v == 3] within 90 millisec",
    "every e1=A[v > 1]",
    "every e1=A[v > 1], e2=A[v < e1.v]",
    "every e1=A[v > 1], e2=A[v > e1.v]+, e3=A[v < e2[last].v]",
    "every e1=A[v > 1], e2=A[v >= e1.v]<1:2>, e3=B",
    "every e1=A[v > 1], e2=B[v > 0], e3=A",
    "every e1=A[v > 1], e2=A?, e3=A[v < 2]",
)
_events = st.lists(
    st.tuples(st.sampled_from("AAAB"), st.sampled_from([0, 1, 10, 40]), st.sampled_from("xy"), st.integers(0, 4)),
    max_size=25,
)


def outcome(text: str, events: list[tuple[str, int, str, int]]) -> tuple[list[object], bytes]:
    watched = Watched(text)
    time = 1000
    for stream, gap, id, v in events:
        time += gap
        watched.app.send(stream, time, (id, v, None, time))
    return list(watched.seen), watched.app.snapshot()


@settings(max_examples=150)
@given(st.sampled_from(_SHAPES), _events)
def test_one_function_does_what_the_elements_do(shape: str, events: list[tuple[str, int, str, int]]) -> None:
    last = "[last]" if "+" in shape or "<1" in shape or "?" in shape else ""
    items = ", ".join(f"e{n}{last if n == 2 else ''}.v as v{n}" for n in (1, 2, 3) if f"e{n}=" in shape)
    text = f"{DEFINITIONS}from {shape} select {items}, eventTimestamp() as ts insert into Out;"
    expected = []
    with patch.object(Automaton, "_swiftly", return_value=None):
        expected = [*outcome(text, events)]
    assert [*outcome(text, events)] == expected
