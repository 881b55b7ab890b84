"""The window ``sort`` releases what sorting all it holds at each event would."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

ORDERS = st.lists(
    st.tuples(st.sampled_from(["k", "v", "d"]), st.booleans()), min_size=1, max_size=3, unique_by=lambda key: key[0]
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "ab", "b", "\uffff", "\U00010000"]),
        st.integers(-2, 2),
        st.sampled_from([float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    ),
    max_size=25,
)
Key = tuple[str, bool]


def app(length: int, order: list[Key]) -> LocalApp:
    keys = ", ".join(f"{name}, '{'desc' if descending else 'asc'}'" for name, descending in order)
    text = (
        "@app:playback define stream S (k string, v int, d double); "
        f"@info(name='q') from S#window.sort({length}, {keys}) select * insert all events into Out;"
    )
    return LocalApp(check(parse(text), catalog(), text))


def place(name: str, row: tuple[Any, ...]) -> Any:
    """Where Java puts a value."""
    if name == "k":
        return row[0].encode("utf-16-be")
    if name == "v":
        return row[1]
    nan = row[2] != row[2]
    return (nan, 0.0 if nan else row[2], not str(row[2]).startswith("-"))


def sorted_each_time(length: int, order: list[Key], rows: list[Any]) -> list[Any]:
    held: list[Any] = []
    out = []
    for row in rows:
        out.append(row)
        held.append(row)
        if len(held) > length:
            for name, descending in reversed(order):
                held.sort(key=lambda row, name=name: place(name, row), reverse=descending)
            out.append(held.pop())
    return out


@settings(max_examples=150, deadline=None)
@given(length=st.integers(0, 6), order=ORDERS, rows=ROWS, stops=st.sets(st.integers(0, 25), max_size=3))
def test_what_leaves_is_what_is_last_of_all_held(
    length: int, order: list[Key], rows: list[Any], stops: set[int]
) -> None:
    out: list[Any] = []

    def made() -> LocalApp:
        fresh = app(length, order)
        fresh.subscribe("Out", lambda _, row: out.append(row))
        return fresh

    running = made()
    running.start(1000)
    for number, row in enumerate(rows):
        if number in stops:
            stored = running.snapshot()
            running = made()
            running.restore(stored)
        running.send("S", 1000 + number, row)
    assert repr(out) == repr(sorted_each_time(length, order, rows))


def test_an_event_that_cannot_be_compared_stays_out() -> None:
    running = app(3, [("v", False)])
    running.start(1000)
    for number, value in enumerate([1, 2, 3, 4, *[None] * 50]):
        running.send("S", 1000 + number, ("a", value, 0.5))
    assert running.held_rows() == 3
    assert running.failures.count == 50
    assert "cannot compare null" in (running.failures.latest or "")
