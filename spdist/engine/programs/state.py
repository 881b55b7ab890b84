"""The state of the elements of a program, from and to their operators; those that are called keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spdist.engine.local.elements import AppElements
from spdist.operators.base import Timers
from spdist.program.running.mixed import MixedRunning
from spdist.program.running.running import Running
from spdist.program.shape import Keyed, Shape
from spdist.program.states.bucket import LoopBuckets
from spdist.program.states.state import fresh_query, load_keys, load_query, stored_keys, stored_query
from spdist.program.states.table import FRESH_TABLE, clear_table, load_table, stored_table, used_tables

__all__ = [
    "drop_state",
    "lend_buckets",
    "lent_tables",
    "load_state",
    "return_buckets",
    "store_state",
]


def load_state(running: Running, shape: Shape, elements: AppElements) -> None:
    """Take the state of the operators over; raises ValueError where it has what a program cannot have."""
    for table in used_tables(running):
        load_table(running, table, elements.table(table.id).snapshot())
    queries = iter(running.program.queries)
    for element in shape.typed:
        if isinstance(element, Keyed):
            keys = elements.partition(element.number).snapshot()[0]
            numbers = load_keys(running, element.number, list(keys), element.type).tolist()
            for place, _ in enumerate(element.queries):
                states = [(n, state[2][place]) for n, state in zip(numbers, keys.values(), strict=True)]
                load_query(running, next(queries), states)
        else:
            state = elements.query(element.checked.name).snapshot()
            load_query(running, next(queries), [(0, state)])
    if not running.compute_held():
        raise ValueError("a function fails on a text that a window holds")


def lend_buckets(running: MixedRunning, shape: Shape, elements: AppElements) -> None:
    """Let the loop add events to what aggregations have open."""
    for element in shape.adding:
        assert element.adds is not None
        made = LoopBuckets(running, element.adds, elements.aggregation(element.adds.checked.id))
        made.load()
        running.added[element] = made
    for made in running.added.values():
        made.aggregation.adder = made


def return_buckets(shape: Shape, elements: AppElements) -> None:
    """Let aggregations add events themselves again."""
    for element in shape.adding:
        assert element.adds is not None
        aggregation = elements.aggregation(element.adds.checked.id)
        if aggregation.adder is not None:
            aggregation.adder.bring()
        aggregation.adder = None


def drop_state(running: Running, shape: Shape, elements: AppElements, timers: Timers) -> None:
    """Take the state off the operators: the program has it, and its timers."""
    timers.cancel_of({query.number for query in shape.queries})
    _drop_tables(running, elements)
    for element in shape.typed:
        if isinstance(element, Keyed):
            partition = elements.partition(element.number)
            _, created, looks, purge = partition.snapshot()
            partition.restore([{}, created, looks, purge])
        else:
            elements.query(element.checked.name).restore(fresh_query(element))


def store_state(running: Running, shape: Shape, elements: AppElements) -> None:
    """Give the operators the state."""
    _store_tables(running, elements)
    queries = iter(running.program.queries)
    for element in shape.typed:
        if isinstance(element, Keyed):
            keys = stored_keys(running, element.number, element.type)
            states = [stored_query(running, next(queries), len(keys)) for _ in element.queries]
            partition = elements.partition(element.number)
            _, _, looks, purge = partition.snapshot()
            by_key = {key: [n, 0, [own[n] for own in states]] for n, key in enumerate(keys)}
            partition.restore([by_key, len(keys), looks, purge])
        else:
            (state,) = stored_query(running, next(queries), 1)
            elements.query(element.checked.name).restore(state)


# Tables, also alone: those who ask look into them.


def _store_tables(running: Running, elements: AppElements) -> None:
    """Give the operators the rows of all tables."""
    for table in used_tables(running):
        elements.table(table.id).restore(stored_table(running, table))


def _drop_tables(running: Running, elements: AppElements) -> None:
    """Take the rows of all tables off the operators: the program has them."""
    for table in used_tables(running):
        elements.table(table.id).restore(FRESH_TABLE)


@contextmanager
def lent_tables(running: Running, elements: AppElements, retire: Callable[[str], None] | None) -> Iterator[None]:
    """Let the operators have the rows of all tables, in a ``with`` statement.

    Parameters
    ----------
    running : Running
        The program.
    elements : AppElements
        The operators.
    retire : callable, optional
        Given where the rows may be changed; called with the reason where a value is not of its type then, and the
        operators keep the rows.
    """
    _store_tables(running, elements)
    try:
        yield
    finally:
        if retire is not None:
            _reload_tables(running, elements, retire)
        else:
            _drop_tables(running, elements)


def _reload_tables(running: Running, elements: AppElements, retire: Callable[[str], None]) -> None:
    tables = [(table, elements.table(table.id)) for table in used_tables(running)]
    try:
        for table, own in tables:
            clear_table(running, table)
            load_table(running, table, own.snapshot())
    except (ValueError, OverflowError, TypeError):  # a long in an int column
        changed = [(own, own.snapshot()) for _, own in tables]
        retire("a table has a value that is not of its type")
        for own, rows in changed:
            own.restore(rows)
    else:
        _drop_tables(running, elements)
