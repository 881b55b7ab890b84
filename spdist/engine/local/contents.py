"""What a running app holds at one moment, as tables for people: windows, attempts to match, tables, totals, wake-ups.

It is read from what the operators' snapshots hold, so an operator that can be stored can be looked at, and looking
changes nothing. Where state is in columns, what nobody reads any more is not there, and shows as null.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Literal

from spdist.display import Shown, details_html, headline_html, number_of, table_html, table_text
from spdist.engine.local.app_context import AppContext
from spdist.history import clock_text
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedPartition
from spdist.language.format_expressions import format_call
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.core.triggers import CRON_RANK, PERIODIC_RANK, PURGE_RANK
from spdist.operators.joins.join import JoinPlan
from spdist.operators.queries.kept_rows import attempts, labels, rows_in, window_parts
from spdist.operators.queries.plans import Plan, QueryPlan
from spdist.operators.queries.query import SingleStreamPlan, StatePlan
from spdist.operators.tables.stores import KeptStore
from spdist.operators.tables.table import Table

__all__ = ["Contents", "Inside", "OperatorContent", "contents_of"]

Kind = Literal["window", "attempts", "totals", "rate limit", "handler", "table", "aggregation", "keys", "timers"]
Row = tuple[Any, ...]

#: What is woken, where the name of its class says nothing to people.
_OPERATORS = {"PatternRests": "absence", "Cells": "windows"}
#: Kinds that one seldom looks at.
_FOLDED = ("keys", "totals", "timers")
#: Columns that hold times.
_TIMES = ("time", "due", "fires at", "expires at")


@dataclass(frozen=True, slots=True)
class OperatorContent:
    """What one operator holds; in a partition for all keys together.

    Parameters
    ----------
    kind : str
        ``window``, ``attempts`` of a pattern to match, ``totals``, ``rate limit``, ``handler``, ``table``,
        ``aggregation``, ``keys`` of a partition, or ``timers``.
    of : str
        The query or definition; empty for timers.
    what : str
        Which part of it: the window as written, or the batch of it.
    names : tuple of str
        The columns. In a partition the first one is ``key``. Times are in ms.
    rows : tuple of tuple
        The newest rows, oldest first.
    total : int
        How many rows there are.
    """

    kind: Kind
    of: str
    what: str
    names: tuple[str, ...]
    rows: tuple[Row, ...]
    total: int

    @property
    def title(self) -> str:
        """What it is, in a line."""
        parts = (self.kind, self.of, self.what)
        return f"{' '.join(part for part in parts if part)}: {number_of(self.total, 'row')}"

    def cells(self) -> list[list[object]]:
        """Return the rows as a table shows them."""
        missing = "" if self.kind == "attempts" else "null"
        return [[_cell(name, value, missing) for name, value in zip(self.names, row, strict=True)] for row in self.rows]


@dataclass(frozen=True)
class Contents(Shown):
    """What an app holds at one moment.

    Parameters
    ----------
    app : str
        Its name.
    clock : int
        Its time, ms.
    parts : tuple of OperatorContent
        Those that hold something: of queries in the order of the text, then of definitions; timers are last.
    """

    app: str
    clock: int
    parts: tuple[OperatorContent, ...]

    def of(self, name: str, kind: Kind | None = None) -> list[OperatorContent]:
        """Return what a query or definition holds, of one kind or of all."""
        return [part for part in self.parts if part.of == name and kind in (None, part.kind)]

    @property
    def headline(self) -> str:
        """Whose it is, and when."""
        return f"{self.app} at {clock_text(self.clock)}"

    def __str__(self) -> str:
        tables = (table_text(part.names, part.cells(), title=part.title) for part in self.parts)
        return "\n".join([self.headline, *tables])

    def _repr_html_(self) -> str:
        return "".join([headline_html(self.headline), *map(_html, self.parts)])


def _html(part: OperatorContent) -> str:
    if part.kind in _FOLDED:
        return details_html(part.title, table_html(part.names, part.cells()))
    return table_html(part.names, part.cells(), caption=part.title)


@dataclass(frozen=True, slots=True)
class Inside:
    """What a running app consists of, for who looks at it.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    context : AppContext
        Its clock and timers.
    plans : mapping of str to QueryPlan
        Its queries by name.
    stores : mapping of str to KeptStore
        Its tables, named windows and aggregations by id.
    states : callable
        Returns what its parts hold now as plain data, by kind and key; it is the app's own and must stay as it is.
    """

    checked: CheckedApp
    context: AppContext
    plans: Mapping[str, QueryPlan]
    stores: Mapping[str, KeptStore]
    states: Callable[[], Mapping[tuple[str, str], Any]]


def contents_of(app: Inside, most: int = 50, key: str | None = None) -> Contents:
    """Return what an app holds.

    Parameters
    ----------
    app : Inside
        The app; nothing of it changes.
    most : int
        How many rows of each part are returned at most, the newest.
    key : str, optional
        The only key of partitions that is looked at; by default all.
    """
    found: dict[tuple[Kind, str, str], tuple[tuple[str, ...], list[tuple[int, Row]]]] = {}
    for kind, of, what, names, time, row in _everything(app, key):
        found.setdefault((kind, of, what), (names, []))[1].append((time, row))
    parts = []
    for (kind, of, what), (names, rows) in found.items():
        newest = nlargest(most, range(len(rows)), key=lambda n, rows=rows: (rows[n][0], n))  # type: ignore[misc]
        parts.append(OperatorContent(kind, of, what, names, tuple(rows[n][1] for n in sorted(newest)), len(rows)))
    return Contents(app.checked.name, app.context.clock.now, tuple(parts))


#: One row that is held: kind, owner, part, columns, the time by which it is new, values.
_Found = tuple[Kind, str, str, tuple[str, ...], int, Row]


def _everything(app: Inside, only: str | None) -> Iterator[_Found]:
    states, plans = app.states(), app.plans
    number = 0
    for element in app.checked.elements:
        if isinstance(element, CheckedPartition):
            queries = [plans[query.name] for query in element.queries]
            yield from _of_partition(number, queries, states.get(("partition", str(number))), only)
            number += 1
        elif ("query", element.name) in states:
            yield from _of_query(plans[element.name], states["query", element.name])
    for definition in app.checked.app.definitions:
        store = app.stores.get(definition.name)
        if isinstance(definition, ast.WindowDefinition) and definition.window is not None:
            names = app.checked.windows[definition.name].names
            yield from _of_window(definition.name, definition.window, names, states.get(("window", definition.name)))
        elif isinstance(store, Table):
            for place, (_, row) in enumerate(store.contents()):
                yield "table", definition.name, "", store.schema.names, place, row
        elif isinstance(store, Aggregation):
            names = ("per", *app.checked.aggregations[definition.name].names)
            for per, start, row in store.open_rows():
                yield "aggregation", definition.name, "open buckets", names, start, (per, *row)
    owners = _owners(app)
    for due, rank, timer in sorted(app.context.timers.heap, key=lambda waking: waking[:2]):
        if timer.due and timer.due[0] == due:
            owner = owners.get(rank[:2]) or owners.get((rank[0], 0), "")
            operator = getattr(timer.wake, "__qualname__", type(timer.wake).__name__).split(".")[0]
            operator = _OPERATORS.get(operator, operator)
            # Negative, so that the soonest ones count as the newest
            yield "timers", "", "", ("due", "of", "operator"), -due, (due, owner, operator)


def _owners(app: Inside) -> dict[tuple[int, ...], str]:
    """Return whose a timer is, by the front of its rank."""
    checked, definitions = app.checked, app.checked.app.definitions
    triggers = [one.name for one in definitions if isinstance(one, ast.TriggerDefinition)]
    purged = [*checked.aggregated, *(f"partition {number}" for number in range(1, len(checked.partitions) + 1))]
    return {
        **{(plan.rank, 0): name for name, plan in app.plans.items() if isinstance(plan, Plan)},
        **{(-1, 1 + place): one.name for place, one in enumerate(definitions)},
        **{(rank + place, 0): n for rank in (PERIODIC_RANK, CRON_RANK) for place, n in enumerate(triggers)},
        **{(PURGE_RANK + place, 0): name for place, name in enumerate(purged)},
    }


def _of_partition(number: int, queries: list[QueryPlan], state: Any, only: str | None) -> Iterator[_Found]:
    if state is None:
        return
    keys = state[0]
    label = f"partition {number + 1}"
    for key, (_, used, stored) in keys.items():
        if only not in (None, key):
            continue
        yield "keys", label, "", ("key",), used, (key,)
        for plan, its in zip(queries, stored, strict=True):
            for kind, of, what, names, time, row in _of_query(plan, its):
                yield kind, of, what, ("key", *names), time, (key, *row)


def _of_query(plan: QueryPlan, state: Any) -> Iterator[_Found]:
    match plan:
        case SingleStreamPlan():
            totals, window, limit, processors = state
            names = plan.scope.sources[0].schema.names
            yield from _of_window(plan.name, plan.input.window, names, window)
        case StatePlan():
            totals, automaton, limit = state
            processors, names = [], ()
            for time, row in attempts(plan.pattern, automaton):
                columns = ("waits for", "fires at", "expires at", *labels(plan.pattern))
                yield "attempts", plan.name, "", columns, time, row
        case JoinPlan():
            totals, limit, processors, *windows = state
            names = ()
            for side, window in zip(plan.sides, windows, strict=True):
                yield from _of_window(plan.name, side.call, side.source.schema.names, window)
        case _:
            return
    groups, own, _ = totals
    for group, slots in groups.items():
        yield "totals", plan.name, "", ("group", "values"), 0, (group, _copied(slots))
    if own:
        yield "totals", plan.name, "", ("values",), 0, (_copied(own),)
    assert isinstance(plan, SingleStreamPlan | StatePlan | JoinPlan)
    yield from _rows("rate limit", plan.name, "", plan.checked.output.names, limit)
    for processor in processors:
        yield from _rows("handler", plan.name, "", names, processor)


def _copied(slots: Any) -> Any:
    """Return totals as they are now: they go on changing in place."""
    if isinstance(slots, dict):
        return {key: _copied(value) for key, value in slots.items()}
    return tuple(map(_copied, slots)) if isinstance(slots, list | tuple | deque) else copy(slots)


def _of_window(of: str, call: ast.FunctionCall | None, names: tuple[str, ...], state: Any) -> Iterator[_Found]:
    if call is None or state is None:
        return
    for what, part in window_parts(call.id, state):
        yield from _rows("window", of, ", ".join(filter(None, (format_call(call), what))), names, part)


def _rows(kind: Kind, of: str, what: str, names: tuple[str, ...], state: Any) -> Iterator[_Found]:
    for time, row in rows_in(state, len(names)):
        fitting = names if len(names) == len(row) else tuple(map(str, range(1, len(row) + 1)))
        yield kind, of, what, ("time", *fitting), -1 if time is None else time, (time, *row)


def _cell(name: str, value: Any, missing: str) -> object:
    if name in _TIMES:
        return "" if value is None else clock_text(value)
    if value is None:
        return missing
    return value if isinstance(value, str | int | float) else _captured(value)


def _captured(value: Any) -> str:
    """Return what an element of a pattern has captured as text: events, with their times."""
    match value:
        case (int(time), tuple(row)):
            return f"{clock_text(time)} {row!r}" if row or time >= 0 else "absent"
        case [*events] if events and all(isinstance(one, tuple) for one in events):
            return "; ".join(map(_captured, events))
    return repr(value)
