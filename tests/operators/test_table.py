"""Tables: keys and indexes find what a list of rows finds, whatever was done to them before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.errors import ErrorKind, UndefinedNameError
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.parsing.parser import parse, parse_expression
from spdist.language.types import Schema
from spdist.operators.base import VirtualClock
from spdist.operators.core import codec
from spdist.operators.expressions.lookup import FindingPlan
from spdist.operators.expressions.readers import RowReader
from spdist.operators.tables.table import Table, make_table
from spdist.operators.tables.writes import table_writer
from tests.error_codes import coded

ROWS = Schema.of([("k", "string"), ("n", "int"), ("p", "double")])
EVENT = Schema.of([("k", "string"), ("n", "int"), ("p", "double")])
CONDITIONS = [
    "T.k == k",
    "T.n == n",
    "k == T.k and T.n == n",
    "T.k == k and T.p > p",
    "T.n == n and T.k != k",
    "T.n < n",
    "T.k == k or T.n == n",
    "not (T.k == k)",
    "T.k == 'a' and T.n == 1",
    "T.p == p",
    "k == 'a'",
]
SIGNATURES = catalog()
CLOCK = VirtualClock()

keys = st.sampled_from(["a", "b", "c", None])
numbers = st.integers(0, 3) | st.none()
rows = st.tuples(keys, numbers, st.sampled_from([0.5, 1.5, None]))
full = st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from([0.5, 1.5, None]))


def written(text: str) -> ast.Output:
    """What a query does, from the text behind its input."""
    defined = "define stream S (k string, n int, p double); define table T (k string, n int, p double);"
    (query,) = parse(f"{defined} from S {text};").elements
    assert isinstance(query, ast.Query)
    return query.output


def finder(condition: str, table: Table) -> Any:
    event = Scope((AttributeSource("S", "S", EVENT),))
    scope = event.with_table(AttributeSource("T", "T", table.schema, "table"))
    expression = parse_expression(condition)
    plan = FindingPlan(
        "t", expression, scope, 1, SIGNATURES, "ts, row", lambda frame, _: RowReader(event, SIGNATURES, frame)
    )
    return plan.bind(table, CLOCK)


class Listed(Table):
    """A table that is always searched row by row."""

    def index(self, attributes: tuple[int, ...]) -> Any:
        return None


def contents(table: Table) -> list[Any]:
    return [row for _, row in table.contents()]


WRITES = [
    "insert into T",
    *(f"delete T on {condition}" for condition in CONDITIONS[:6]),
    *(f"update T set T.p = p on {condition}" for condition in CONDITIONS),
    *(f"update T set T.n = T.n + 1, T.p = p on {condition}" for condition in CONDITIONS[:4]),
    *(f"update T on {condition}" for condition in CONDITIONS[:4]),
    *(f"update or insert into T set T.n = n on {condition}" for condition in CONDITIONS[:6]),
    *(f"update or insert into T on {condition}" for condition in CONDITIONS[:4]),
]
steps = st.lists(st.tuples(st.sampled_from(WRITES), st.lists(rows, min_size=1, max_size=3)), max_size=8)


@settings(max_examples=80, deadline=None)
@given(steps, st.lists(rows, max_size=3), st.sampled_from([(), (0,), (1,), (0, 1)]))
def test_an_indexed_table_is_a_list_that_is_searched_faster(
    steps: list[Any], asked: list[Any], declared: tuple[int, ...]
) -> None:
    tables = [Table("T", ROWS, (), declared), Listed("T", ROWS)]
    finders = [[finder(condition, table) for condition in CONDITIONS] for table in tables]
    for text, chunk in steps:
        for table in tables:
            writer = table_writer("q", written(text), EVENT, table, SIGNATURES, CLOCK)
            (writer.receive_chunk([(0, row) for row in chunk]) if len(chunk) > 1 else writer.receive(0, chunk[0]))
        assert contents(tables[0]) == contents(tables[1])
        for row in [*asked, *chunk]:
            for fast, slow in zip(*finders, strict=True):
                assert fast(0, row) == slow(0, row)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(WRITES), st.lists(full, min_size=1, max_size=3)), max_size=8),
    st.lists(full, max_size=3),
    st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
    st.sampled_from([(), (1,), (0, 1)]),
)
def test_a_keyed_table_is_a_list_that_refuses_rows_and_is_searched_faster(
    steps: list[Any], asked: list[Any], key: tuple[int, ...], declared: tuple[int, ...]
) -> None:
    tables = [Table("T", ROWS, key, declared), Listed("T", ROWS, key)]
    finders = [[finder(condition, table) for condition in CONDITIONS] for table in tables]
    for text, chunk in steps:
        for table in tables:
            writer = table_writer("q", written(text), EVENT, table, SIGNATURES, CLOCK)
            (writer.receive_chunk([(0, row) for row in chunk]) if len(chunk) > 1 else writer.receive(0, chunk[0]))
        assert contents(tables[0]) == contents(tables[1])
        held = [tuple(row[position] for position in key) for row in contents(tables[0])]
        assert len(set(held)) == len(held)
        if key == (1,):
            assert held == sorted(held)
        for row in [*asked, *chunk]:
            for fast, slow in zip(*finders, strict=True):
                assert fast(0, row) == slow(0, row)


BY_KEY = [
    text
    for on in ("T.k == k", "k == T.k and T.n == n", "T.n == n and T.k == k")
    for text in (
        f"update T set T.p = p on {on}",
        f"update T set T.p = T.p + p on {on}",
        f"select k, p update T on {on}" if "n" not in on else f"update T on {on}",
        f"update or insert into T set T.p = coalesce(T.p, 0.0) + 1.0 on {on}",
        f"update or insert into T set T.n = n + 1 on {on}",
        f"update or insert into T on {on}",
    )
]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(BY_KEY), rows), max_size=12),
    st.sampled_from([(0,), (0, 1)]),
    st.sampled_from([(), (1,), (2,)]),
)
def test_a_change_by_key_is_a_change_like_others(
    steps: list[Any], key: tuple[int, ...], declared: tuple[int, ...]
) -> None:
    tables = [Table("T", ROWS, key, declared) for _ in range(2)]
    for table in tables:
        table.insert(("a", 1, 0.5))
        table.insert((None, 2, None))
    lookups = [finder("T.n == n and T.k == k", table) for table in tables]
    for text, row in steps:
        selected = Schema.of([("k", "string"), ("p", "double")]) if text.startswith("select") else EVENT
        event = (row[0], row[2]) if text.startswith("select") else row
        fast, slow = (table_writer("q", written(text), selected, table, SIGNATURES, CLOCK) for table in tables)
        fast.receive(0, event)
        slow.receive_chunk([(0, event)])
        assert contents(tables[0]) == contents(tables[1])
        assert lookups[0](0, row) == lookups[1](0, row)
    assert tables[0].snapshot()[2] == tables[1].snapshot()[2]


@given(st.lists(full, max_size=9), st.sampled_from([(), (0,), (1,), (0, 1)]))
def test_a_restored_table_goes_on_as_the_one_it_was_taken_from(taken: list[Any], key: tuple[int, ...]) -> None:
    first, second = (Table("T", ROWS, key, (1,)) for _ in range(2))
    lookups = [finder("T.n == n and T.k == k", table) for table in (first, second)]
    for row in taken:
        first.insert(row)
    second.insert(("z", 9, None))
    second.restore(codec.decode(codec.encode(first.snapshot())))
    for table in (first, second):
        table.insert(("y", 8, None))
        table.delete(list(finder("T.k == k", table)(0, ("a", 0, None))))
    assert contents(first) == contents(second)
    assert first.snapshot() == second.snapshot()
    for row in taken:
        assert lookups[0](0, row) == lookups[1](0, row)


def test_a_definition_says_what_is_key_and_index() -> None:
    text = "@PrimaryKey('b', ' a ') @Index('c') @Index('a') define table T (a string, b int, c double);"
    (definition,) = parse(text).definitions
    assert isinstance(definition, ast.TableDefinition)
    table = make_table(definition)
    assert table.key == (1, 0)
    assert sorted(table.indexes) == [(0,), (2,)]
    assert table.null_keys


def test_rows_that_are_kept_elsewhere_are_refused() -> None:
    (definition,) = parse("@Store(type='rdbms') define table T (a string);").definitions
    assert isinstance(definition, ast.TableDefinition)
    with pytest.raises(UndefinedNameError, match="rdbms", check=coded(ErrorKind.UNKNOWN_EXTENSION)):
        make_table(definition)


def test_a_numeric_key_cannot_be_null() -> None:
    table = Table("T", ROWS, (1,))
    with pytest.raises(ValueError, match="cannot be null"):
        table.insert(("a", None, None))
    assert contents(table) == []


def test_refused_rows_are_counted() -> None:
    table = Table("T", ROWS, (0,))
    assert table.insert(("a", 1, None))
    assert not table.insert(("a", 2, None))
    assert (len(table), table.refused) == (1, 1)
