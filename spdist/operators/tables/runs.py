"""Queries on a table with a primary key, many events at once: those that write rows, and those that look them up.

Where one stream's events are written under their keys, and others' look for those keys, what each of a run of events
finds is what was written last before it, or what the table held. Both follow from arrays: which row an event means, and
which of all events it is. Nothing else about the events matters, their times least of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from spdist.language import ast
from spdist.language.checking.changes import change_scope
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.mapping.read_rows import ReadRows
from spdist.operators.base import Row
from spdist.operators.core.junction import Pick, Straight, StreamPart
from spdist.operators.expressions.finding import Equality
from spdist.operators.selection.output import QueryObserver
from spdist.operators.tables.changes import ChangeWriter
from spdist.operators.tables.columns import TableColumns, Writes
from spdist.operators.tables.stores import tables_of
from spdist.operators.tables.table import Table

if TYPE_CHECKING:
    from spdist.operators.joins.join import JoinPlan
    from spdist.operators.queries.query import SingleStreamPlan

__all__ = ["TableRuns", "lookup_runs", "write_runs"]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is common to a query's events.

    Parameters
    ----------
    observers : list of QueryObserver
        Those who watch the query: they are shown events one by one.
    types : tuple of Type
        Of the stream's attributes.
    key : tuple of int
        The attributes that are the key, in the order of the table's.
    """

    observers: list[QueryObserver]
    types: tuple[Type, ...]
    key: tuple[int, ...]

    @property
    def asked(self) -> tuple[int, ...]:
        """The attributes that must not be null."""
        return self.key

    def columns(self, rows: Sequence[Row]) -> ReadRows | None:
        """Return events as columns; None where a value is not of its type, or one of those asked for is null."""
        own = ReadRows.of(rows, self.types, range(len(self.types)))
        return None if own is None or own.has_nulls(self.asked) else own


@dataclass(frozen=True, slots=True)
class _Write(_Reading):
    """A query that updates rows, or inserts them as well.

    Parameters
    ----------
    sets : Mapping of int to int
        The table's attributes that an event changes, and its own that they become.
    inserts : Mapping of int to int, optional
        Likewise those of a row that is new, without the key; None where the query inserts none.
    """

    sets: Mapping[int, int]
    inserts: Mapping[int, int] | None

    @property
    def asked(self) -> tuple[int, ...]:
        """The attributes that are written: none of them may be null."""
        return (*self.key, *self.sets.values(), *(self.inserts or {}).values())

    def into(self, table: TableColumns, part: StreamPart, own: ReadRows) -> Writes:
        """Return what events write into a table, to which rows that are new are added already."""
        before, keys, ranks = len(table), own.selecting(self.key), part.ranks
        values = _values(own, self.sets)
        if self.inserts is None:
            numbers = table.known(keys)
            there = numpy.flatnonzero(numbers >= 0)
            numbers, ranks = numbers[there], ranks[there]
            values = {position: column[there] for position, column in values.items()}
        else:
            inserted = _values(own, self.inserts)
            numbers, first = table.add(keys, inserted)
            for position, attribute in self.sets.items():
                if attribute != self.inserts[position]:
                    values[position] = values[position].copy()
                    values[position][first] = inserted[position][first]
        return Writes(before, numbers, ranks, values)


def _values(own: ReadRows, attributes: Mapping[int, int]) -> dict[int, Any]:
    return {position: own.numbers(attribute, 0, len(own)) for position, attribute in attributes.items()}


@dataclass(frozen=True, slots=True)
class _Lookup(_Reading):
    """A join of a stream with the table by its primary key.

    Parameters
    ----------
    target : Straight
        Who takes the results.
    shown : tuple of (bool, int)
        For each value of a result whether it is the table's, and its place in the row.
    outer : bool
        Whether an event that finds nothing comes out, too.
    """

    target: Straight
    shown: tuple[tuple[bool, int], ...]
    outer: bool

    def put_out(self, pick: Pick, table: TableColumns, writes: Writes, part: StreamPart, own: ReadRows) -> None:
        """Put out what events find in a table."""
        numbers = table.known(own.selecting(self.key))
        there, last = writes.latest(numbers, part.ranks)
        found = {
            place: writes.values(table, place, numbers[there], last)
            for of_table, place in self.shown
            if of_table and place in table.values
        }
        ranks = part.ranks
        if self.outer:
            found = {place: _among(len(own), there, values) for place, values in found.items()}
        elif len(there) < len(own):
            own, ranks = own.at(there), ranks[there]
        if len(own):
            columns = [found.get(place, place) if of_table else place for of_table, place in self.shown]
            pick(own.selecting(columns), numpy.arange(len(own) + 1), ranks, None)


def _among(count: int, places: Any, values: Any) -> Any:
    """Return values at their places among so many, with nothing at the others."""
    if values.dtype == object:
        made = numpy.full(count, None, object)
        made[places] = values
        return made
    made = numpy.zeros(count, values.dtype)
    made[places] = values
    missing = numpy.ones(count, bool)
    missing[places] = False
    return numpy.ma.array(made, mask=missing)


class TableRuns:
    """Takes runs of events of those who write to a table and look into it (`operators.core.junction.TakesParts`).

    Parameters
    ----------
    table : Table
        The table.

    State
    -----
    None of its own.
    """

    #: There is none.
    timer = None

    def __init__(self, table: Table) -> None:
        self._table = table
        #: By stream.
        self.queries: dict[str, _Write | _Lookup] = {}

    def take(self, parts: Mapping[str, StreamPart]) -> bool:
        """Take events at once; see `spdist.operators.core.junction.TakesParts`."""
        writes: list[tuple[_Write, StreamPart, ReadRows]] = []
        lookups: list[tuple[_Lookup, Pick, StreamPart, ReadRows]] = []
        for stream, part in parts.items():
            query = self.queries[stream]
            own = None if query.observers else query.columns(part.rows)
            if own is None:
                return False
            if isinstance(query, _Write):
                writes.append((query, part, own))
                continue
            pick = query.target.picker()
            if pick is None or any(query.target is other.target for other, *_ in lookups):
                return False
            lookups.append((query, pick, part, own))
        count = sum(len(part.times) for part in parts.values())
        # Of several who write, the later ones would have to see which rows the earlier ones insert.
        table = self._table.in_columns(count) if len(writes) < 2 else None
        if table is None:
            return False
        log = Writes(len(table))
        for write, part, own in writes:
            log = write.into(table, part, own)
        for lookup, pick, part, own in lookups:
            lookup.put_out(pick, table, log, part, own)
        log.settle(table)
        return True


def _runs_of(table: Table) -> TableRuns:
    if table.runs is None:
        table.runs = TableRuns(table)
    return table.runs


def _only_selects(plan: SingleStreamPlan) -> bool:
    """Tell whether new events of a stream, behind at most a window, are all that a query selects from."""
    select = plan.checked.query.select
    if plan.before or plan.after or plan.chosen.filters or plan.reads_window or plan.events != "current":
        return False
    return not (plan.rate is not None or select.having or select.order_by or select.limit or select.offset)


def write_runs(plan: SingleStreamPlan) -> TableRuns | None:
    """Return what takes runs of a query that updates a table by its primary key; None where events go one by one.

    It does nothing but to pass attributes on: an event's become those of the row, and the key stays.
    """
    output, table = plan.checked.query.output, plan.stores.get(plan.checked.target)
    if not isinstance(output, ast.Update) or not isinstance(table, Table) or plan.window is not None:
        return None
    if not _only_selects(plan) or plan.checked.query.select.group_by or plan.checked.partition is not None:
        return None
    types, kinds = plan.scope.sources[0].schema.types, table.schema.types
    items = [item.expression for item in plan.checked.query.select.items]
    chosen = [plan.scope.resolve(item).attribute for item in items if isinstance(item, ast.Variable)]
    if len(chosen) < len(items):
        return None
    chosen = chosen or list(range(len(types)))
    event = plan.checked.output
    scope = change_scope(event, table.id, table.schema, tables_of(plan.catalog))
    places = ChangeWriter(plan.name, output, event, table.schema, scope, plan.catalog).places(table)
    if places is None:
        return None
    key, sets = tuple(chosen[place] for place in places[0]), {at: chosen[place] for at, place in places[1].items()}
    inserts = None
    if output.or_insert:
        if places[0] != table.key:
            return None  # a row would be inserted under another key than was looked for
        inserts = {at: chosen[at] for at in range(len(kinds)) if at not in table.key}
    moved = (*zip(table.key, key, strict=True), *sets.items(), *(inserts or {}).items())
    if any(types[attribute] is not kinds[position] for position, attribute in moved):
        return None
    runs = _runs_of(table)
    runs.queries[plan.inputs[0]] = _Write(plan.observers, types, key, sets, inserts)
    return runs


def lookup_runs(plan: JoinPlan, keys: Sequence[Sequence[Equality]], target: Straight) -> TableRuns | None:
    """Return what takes runs of a quiet join with a table, without tests beside its keys; None where it is another.

    Parameters
    ----------
    plan : JoinPlan
        The join.
    keys : Sequence of Sequence of Equality
        By what the events of each side look into the other one.
    target : Straight
        Who takes the results.
    """
    scope: Scope = plan.checked.scope
    own = next((side for side in plan.sides if side.kind == "stream" and side.call is None and not side.handlers), None)
    table = None if own is None else plan.stores.get(plan.sides[1 - own.position].source.stream_id)
    if own is None or not own.triggers or not isinstance(table, Table):
        return None
    values = {one.attribute: one.value for one in keys[own.position]}
    if not table.key or set(values) != set(table.key):
        return None
    variables = [values[position] for position in table.key]
    items = [item.expression for item in plan.checked.query.select.items]
    named = [scope.resolve(one) for one in (*variables, *items) if isinstance(one, ast.Variable)]
    if len(named) < len(variables) + len(items):
        return None
    key = tuple(one.attribute for one in named[: len(variables)])
    shown = [(one.source != own.position, one.attribute) for one in named[len(variables) :]]
    if not items:
        shown = [(side is not own, place) for side in plan.sides for place in range(len(side.source.schema))]
    types = own.source.schema.types
    if any(types[mine] is not table.schema.types[its] for mine, its in zip(key, table.key, strict=True)):
        return None
    # Who has found a row has its key.
    of_key = dict(zip(table.key, key, strict=True))
    if own.outer and any(of_table and place in of_key for of_table, place in shown):
        return None
    told = tuple(
        (False, of_key[place]) if of_table and place in of_key else (of_table, place) for of_table, place in shown
    )
    runs = _runs_of(table)
    runs.queries[own.source.stream_id] = _Lookup(plan.observers, types, key, target, told, own.outer)
    return runs
