"""Named windows where recorded cases do not reach: who sees what, what they hold, what failures cost."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import UndefinedNameError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.base import CURRENT, EXPIRED
from spdist.operators.windows.named_window import NamedWindow

APP = """
define stream S (k string, v int);
define window W (k string, v int) length(2) output {output} events;
from S insert into W;
"""


def app(rest: str = "", output: str = "all") -> LocalApp:
    text = APP.format(output=output) + rest
    return LocalApp(check(parse(text), catalog(), text))


def window(made: LocalApp) -> NamedWindow:
    found = made._stores["W"]
    assert isinstance(found, NamedWindow)
    return found


def fill(made: LocalApp) -> None:
    for n, key in enumerate("aba"):
        made.send("S", 1000 + n, (key, n))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("all", [(CURRENT, 1000, 0), (CURRENT, 1001, 1), (EXPIRED, 1002, 0), (CURRENT, 1002, 2)]),
        ("current", [(CURRENT, 1000, 0), (CURRENT, 1001, 1), (CURRENT, 1002, 2)]),
        ("expired", [(EXPIRED, 1002, 0)]),
    ],
)
def test_those_who_watch_see_the_kinds_that_the_window_puts_out(output: str, expected: list[Any]) -> None:
    made = app(output=output)
    seen: list[Any] = []
    made.subscribe_window("W", seen.extend)
    fill(made)
    assert [(kind, timestamp, row[1]) for kind, timestamp, row in seen] == expected


def test_only_windows_can_be_watched_as_such() -> None:
    with pytest.raises(UndefinedNameError, match="no window 'S'"):
        app().subscribe_window("S", lambda chunk: None)


def test_it_holds_rows_in_order_and_finds_them_by_key() -> None:
    made = app()
    fill(made)
    held = window(made)
    assert list(held.contents()) == [(1001, ("b", 1)), (1002, ("a", 2))]
    index = held.index((0,))
    assert index is not None
    assert list(index.lookup("a")) == [(1002, ("a", 2))]
    made.send("S", 1003, ("a", 3))
    assert list(index.lookup("a")) == [(1002, ("a", 2)), (1003, ("a", 3))]
    assert list(index.lookup("b")) == []


def test_rows_with_nulls_are_under_no_key() -> None:
    made = app()
    index = window(made).index((0, 1))
    assert index is not None
    made.send("S", 1000, (None, 1))
    made.send("S", 1001, ("a", 1))
    assert list(index.lookup(("a", 1))) == [(1001, ("a", 1))]
    assert list(index.lookup((None, 1))) == []


def test_an_index_is_made_again_from_a_snapshot() -> None:
    made = app()
    fill(made)
    again = app()
    index = window(again).index((0,))
    assert index is not None
    again.send("S", 1000, ("z", 9))
    assert list(index.lookup("z")) == [(1000, ("z", 9))]
    again.restore(made.snapshot())
    assert list(index.lookup("z")) == []
    assert list(index.lookup("b")) == [(1001, ("b", 1))]


def test_a_reader_that_fails_costs_the_readers_after_it_the_chunk() -> None:
    made = app("from W select k + v as x insert into Broken; from W select v insert into Out;")
    seen: list[Any] = []
    made.subscribe("Out", lambda ts, row: seen.append(row))
    fill(made)
    assert seen == []
    assert made.failures.count == 4  # the expired one too
    assert [row for _, row in window(made).contents()] == [("b", 1), ("a", 2)]
