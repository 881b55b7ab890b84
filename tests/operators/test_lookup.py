"""Searches in stores: an index changes nothing but the speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.extension import catalog
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.parsing.parser import parse_expression
from spdist.language.types import Schema
from spdist.operators.base import Arrival, VirtualClock
from spdist.operators.expressions.lookup import FindingPlan, equalities
from spdist.operators.expressions.readers import RowReader
from spdist.operators.tables.stores import Index

HELD = Schema.of([("k", "string"), ("n", "int"), ("p", "double")])
EVENT = Schema.of([("k", "string"), ("m", "long"), ("p", "double")])
EVENTS = Scope((AttributeSource("S", "S", EVENT),))
SCOPE = EVENTS.with_table(AttributeSource("T", "T", HELD, "table"))


class Rows:
    """A store in a list; with an index on whatever is asked for, where it is allowed one."""

    def __init__(self, rows: list[tuple[Any, ...]], indexed: bool) -> None:
        self.schema = HELD
        self.held: list[Arrival] = [(number, row) for number, row in enumerate(rows)]
        self.indexed = indexed
        self.asked: tuple[int, ...] = ()

    def contents(self) -> Iterable[Arrival]:
        return self.held

    def index(self, attributes: tuple[int, ...]) -> Index | None:
        self.asked = attributes
        if not self.indexed:
            return None
        groups: dict[Any, list[Arrival]] = defaultdict(list)
        for timestamp, row in self.held:
            key = tuple(row[a] for a in attributes)
            groups[key[0] if len(key) == 1 else key].append((timestamp, row))
        return Index(attributes, lambda key: groups.get(key, ()))


def found(condition: str, store: Rows, row: tuple[Any, ...]) -> list[int]:
    signatures = catalog()
    plan = FindingPlan(
        "test",
        parse_expression(condition),
        SCOPE,
        1,
        signatures,
        "ts, row",
        lambda frame, _: RowReader(EVENTS, signatures, frame),
    )
    return [timestamp for timestamp, _ in plan.bind(store, VirtualClock())(1000, row)]


CONDITIONS = (
    "T.k == k",
    "k == T.k and T.n > m",
    "T.n == m and T.k == S.k",
    "T.n == m + 1 or T.k == k",
    "T.n == 3 and not (T.k == k)",
    "T.p == p",
    "T.p > p and T.k != k",
    "T.k is null",
    "T.n == m and T.n == 2",
)
KEYS = st.none() | st.sampled_from("ab")
NUMBERS = st.none() | st.integers(1, 3)
REALS = st.none() | st.sampled_from((1.0, 2.5, float("nan")))


@given(
    condition=st.sampled_from(CONDITIONS),
    rows=st.lists(st.tuples(KEYS, NUMBERS, REALS), max_size=12),
    event=st.tuples(KEYS, NUMBERS, REALS),
)
def test_an_index_finds_what_a_scan_finds_in_the_same_order(
    condition: str, rows: list[tuple[Any, ...]], event: tuple[Any, ...]
) -> None:
    assert found(condition, Rows(rows, True), event) == found(condition, Rows(rows, False), event)


@pytest.mark.parametrize(
    ("condition", "attributes"),
    [
        ("T.k == k", [0]),
        ("m == T.n and T.k == k and T.p > p", [1, 0]),
        ("T.n == m and T.n == 2", [1]),
        ("T.k == k or T.n == m", []),
        ("T.p == p", []),
        ("T.k == T.k", []),
        ("T.n == T.n + m", []),
        ("instanceOfString(T.k) and T.k == k", []),
        ("T.k == k and instanceOfString(T.k)", [0]),
        ("T.n + 1 == m", []),
    ],
)
def test_which_equalities_an_index_can_answer(condition: str, attributes: list[int]) -> None:
    keys = equalities(parse_expression(condition), SCOPE, 1, catalog())
    assert [key.attribute for key in keys] == attributes
