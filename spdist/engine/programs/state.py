"""The state of the elements of a program, from and to their operators; those that are called keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spdist.engine.local.elements import AppElements
from spdist.operators.base import Timers
from spdist.operators.core.packed_columns import plain
from spdist.operators.core.state_columns import Column, StructColumn, column_of
from spdist.operators.tables.on_demand import Needs
from spdist.operators.windows.named_window import NamedWindow
from spdist.program.parts import Program, QueryText
from spdist.program.read_shape import LoopWindow
from spdist.program.running.forgetting import forget_values
from spdist.program.running.mixed import MixedRunning
from spdist.program.running.running import Running, time_has_come
from spdist.program.shape import Element, Keyed, Shape
from spdist.program.states.bucket import LoopBuckets
from spdist.program.states.partition import forget_keys, fresh_partition, load_partition, stored_partition
from spdist.program.states.state import fresh_query, load_query, stored_query
from spdist.program.states.table import (
    FRESH_TABLE,
    clear_table,
    load_table,
    nodes_meeting,
    stored_table,
    used_tables,
)
from spdist.program.states.window import stored_windows
from spdist.program.tables.shape import LoopTable
from spdist.program.windows.kinds import CRON_RANK

__all__ = [
    "drop_state",
    "forget_unused",
    "lend_buckets",
    "lent_stores",
    "load_state",
    "places_of",
    "restore_operators",
    "return_buckets",
    "stored_state",
]

#: The kind and the key of an element (`spdist.planning.updates.fingerprints.AppElement`).
Place = tuple[str, str]


def places_of(program: Program, shape: Shape) -> set[Place]:
    """Return the elements of the app that a program runs."""
    return {("table", table.id) for table in used_tables(program)} | {place for place, _ in _typed(program, shape)}


def _typed(program: Program, shape: Shape) -> Iterator[tuple[Place, Element]]:
    """Yield the queries, partitions and named windows that a program runs."""
    numbers = {query.read.number for query in program.queries}
    for element in shape.typed:
        if isinstance(element, Keyed):
            yield ("partition", str(element.number)), element
        elif element.number in numbers:  # else no event reaches it
            yield ("window" if isinstance(element, LoopWindow) else "query", element.checked.name), element


def load_state(running: Running, shape: Shape, elements: AppElements, given: Mapping[Place, Column]) -> None:
    """Take over the states given by kind and key, each a column of one value; where there is none, the operators'.

    Raises
    ------
    ValueError, TypeError, OverflowError
        There is what a program cannot have.
    """
    parts, queries = elements.parts(), {query.read.number: query for query in running.program.queries}
    for table in used_tables(running.program):
        place = "table", table.id
        load_table(running, table, given.get(place) or column_of([parts[place].snapshot()]))
    for place, element in _typed(running.program, shape):
        state = given.get(place) or column_of([parts[place].snapshot()])
        if isinstance(element, Keyed):
            load_partition(running, element, state)
            continue
        if isinstance(element, LoopWindow):
            # A named window's snapshot is its window alone: what else a query's state has is as new.
            totals, _, *rest = (column_of([one]) for one in fresh_query(element))
            state = StructColumn(list, [totals, state, *rest])
        load_query(running, queries[element.number], state)
    if not running.compute_held():
        raise ValueError("a function fails on a text that a window holds")


def lend_buckets(running: MixedRunning, shape: Shape, elements: AppElements) -> None:
    """Let the loop add events to what aggregations have open."""
    for element in shape.adding:
        assert element.adds is not None
        made = LoopBuckets(running, element.adds, elements.aggregation(element.adds.checked.id))
        made.load()
        running.added[element] = made
    # Not before all are loaded: where one fails, the operators go on adding by themselves.
    for made in running.added.values():
        made.aggregation.to_columns()
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
    # Timers of cron rank behind those of all queries, under another number.
    timers.cancel_of({number for query in shape.queries for number in (query.number, CRON_RANK + query.number)})
    _drop_rows(elements, used_tables(running.program), _windows(running, elements))
    for element in shape.typed:
        if isinstance(element, Keyed):
            partition = elements.partition(element.number)
            partition.restore(fresh_partition(element, partition.snapshot()))
        elif not isinstance(element, LoopWindow):
            elements.query(element.checked.name).restore(fresh_query(element))


def stored_state(running: Running, shape: Shape, elements: AppElements, until: int) -> dict[Place, Column]:
    """Return the state of each element of the program, by its kind and key, as its operators would have it.

    That is how it is when all timers have fired that were due `until` then, ms. What sleeps is awake there: its next
    time is behind those that have passed, of which a program is not told.
    """
    time_has_come(running, until)
    stored: dict[Place, Column] = {}
    for table in used_tables(running.program):
        stored["table", table.id] = stored_table(running, table)
    queries = {query.read.number: query for query in running.program.queries}
    for place, element in _typed(running.program, shape):
        if isinstance(element, Keyed):
            before = elements.partition(element.number).snapshot()
            stored[place] = stored_partition(running, element, before)
        else:
            stored_one = stored_windows if isinstance(element, LoopWindow) else stored_query
            stored[place] = stored_one(running, queries[element.number], 1)
    return stored


def restore_operators(elements: AppElements, stored: Mapping[Place, Any]) -> None:
    """Give the operators the state that `stored_state` returned."""
    parts = elements.parts()
    for place, state in stored.items():
        parts[place].restore(plain(state))


def forget_unused(running: Running) -> None:
    """Let go what nobody uses any more, where there is much of it."""
    forget_keys(running)
    forget_values(running)


# Tables and named windows, also alone: those who ask look into them.


#: A named window of a program, and that of the operators.
_Named = tuple[QueryText, NamedWindow]


def _windows(running: Running, elements: AppElements) -> list[_Named]:
    """Return the named windows that the program has, with those of the operators."""
    named = (query for query in running.program.queries if isinstance(query.read, LoopWindow))
    return [(query, elements.window(query.read.checked.name)) for query in named]


def _drop_rows(elements: AppElements, tables: Sequence[LoopTable], windows: Sequence[_Named]) -> None:
    """Take the rows of tables and named windows off the operators: the program has them."""
    for table in tables:
        elements.table(table.id).restore(FRESH_TABLE)
    for query, window in windows:
        window.restore(fresh_query(query.read)[1])


@contextmanager
def lent_stores(running: Running, elements: AppElements, needs: Needs, retire: Callable[[str], None]) -> Iterator[None]:
    """Let the operators have the rows that a question needs, in a ``with`` statement.

    Parameters
    ----------
    running : Running
        The program.
    elements : AppElements
        The operators.
    needs : Needs
        What it needs.
    retire : callable
        Called with the reason where rows are changed, and a value is not of its type then: the operators keep the rows.
    """
    tables = [table for table in used_tables(running.program) if table.id in needs.names]
    windows = [one for one in _windows(running, elements) if one[0].read.checked.name in needs.names]
    for table in tables:
        test = needs.test if table.id == needs.store else None
        nodes = None if test is None else nodes_meeting(running, table, test, needs.values)
        elements.table(table.id).restore(plain(stored_table(running, table, nodes)))
    for query, window in windows:
        window.restore(plain(stored_windows(running, query, 1)))
    try:
        yield
    finally:
        for query, window in windows:
            if window.window.looked and f"{query.name}_looked" in running.arrays:
                # Whoever asks looks into a batch, which says what is shown of it when it leaves.
                running.arrays[f"{query.name}_looked"][0] = window.window.looked
        if not needs.writes or _reloaded(running, elements, tables, retire):
            _drop_rows(elements, tables, windows)


def _reloaded(
    running: Running, elements: AppElements, tables: Sequence[LoopTable], retire: Callable[[str], None]
) -> bool:
    """Let the program have the rows of tables again; tells whether it does, else the operators keep all."""
    held = [(table, elements.table(table.id)) for table in tables]
    try:
        for table, own in held:
            clear_table(running, table)
            load_table(running, table, column_of([own.snapshot()]))
    except (ValueError, OverflowError, TypeError):  # a long in an int column
        changed = [(own, own.snapshot()) for _, own in held]
        # This has the operators take the program's rows, those before the question: they get the changed ones back.
        retire("a table has a value that is not of its type")
        for own, rows in changed:
            own.restore(rows)
        return False
    return True
