"""Queries put to a running app: they look into its tables, named windows and aggregations, or change its tables.

What is read is one chunk to the selection, so an aggregating query gives one row, or one for each group, and nothing at
all where there is nothing to read. Events that are made for such a query have the timestamp -1.

Source: io.siddhi.core.util.parser.OnDemandQueryParser and io.siddhi.core.query.OnDemandQueryRuntime, described in our
own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from spdist.errors import DuplicateDefinitionError, OnDemandQueryError, SiddhiAppError, SiddhiSyntaxError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.on_demand import CheckedOnDemand, check_on_demand
from spdist.language.parsing.parser import parse_on_demand
from spdist.language.types import Schema
from spdist.operators.base import Arrival, Event, Row, VirtualClock
from spdist.operators.core.junction import ObserverFailed
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.lookup import FindingPlan
from spdist.operators.expressions.pushdown import Test, push
from spdist.operators.expressions.readers import InputReader, RowReader
from spdist.operators.joins.sides import AggregationStore
from spdist.operators.selection.selector import SelectClause, SelectorOutput, SelectorState
from spdist.operators.tables.stores import Index, Searchable, Store, TableStore
from spdist.operators.tables.table import Table
from spdist.operators.tables.writes import table_writer
from spdist.operators.windows.named_window import NamedWindow

__all__ = ["Answer", "Lends", "Needs", "OnDemandQueries"]

_NO_TIME = -1
#: How many queries stay compiled.
_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query on demand gives.

    Parameters
    ----------
    schema : Schema
        The attributes of the rows; for a query that writes, of what it wrote.
    rows : list of tuple
        The result; empty where nothing was found, and for queries that write.
    """

    schema: Schema
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a query needs of the app's stores while it runs.

    Parameters
    ----------
    store : str
        Id of the one that it reads or changes.
    others : frozenset of str
        Those that ``in`` looks into.
    writes : bool
        Whether rows may be changed.
    test : Test, optional
        Holds at least for the rows that the query finds; None where all are needed.
    values : tuple
        What the test compares with.
    """

    store: str
    others: frozenset[str]
    writes: bool
    test: Test | None = None
    values: tuple[Any, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The ids of all stores."""
        return self.others | {self.store}


#: Lets operators have what a query needs while it runs.
Lends = Callable[[Needs], AbstractContextManager[None]]


class OnDemandQueries:
    """Answers the queries that are put to one app; a text that comes again is not compiled again.

    Parameters
    ----------
    app : CheckedApp
        The app.
    stores : Mapping[str, Store]
        What it keeps rows in, by id.
    catalog : Catalog
        Signatures, with the stores.
    clock : VirtualClock
        The app's time.
    """

    def __init__(self, app: CheckedApp, stores: Mapping[str, Store], catalog: Catalog, clock: VirtualClock) -> None:
        self._app = app
        self._stores = stores
        # Also what `in` looks into.
        self._catalog = replace(catalog, stores={id: _seen(store) for id, store in stores.items()})
        self._clock = clock
        self._compiled: dict[str, tuple[Callable[[], Answer], Needs]] = {}

    def answer(self, text: str, lends: Lends = lambda _: nullcontext()) -> Answer:
        """Return what the query gives.

        Parameters
        ----------
        text : str
            The query.
        lends : callable
            Lets the stores have their rows while it runs, where somebody else has them.

        Raises
        ------
        SiddhiSyntaxError
            The text does not follow the grammar.
        DuplicateDefinitionError
            Something is selected twice under one name.
        OnDemandQueryError
            The query means nothing in this app, or fails on a row.
        """
        try:
            # Put back behind all others once it has run: the first one is the one asked longest ago.
            run, needs = compiled = self._compiled.pop(text, None) or self._compile(text)
            with lends(needs):
                answer = run()
        except (OnDemandQueryError, SiddhiSyntaxError, DuplicateDefinitionError):
            raise
        except ObserverFailed as failed:  # the database behind a table
            raise failed.cause from None
        except SiddhiAppError as error:
            raise OnDemandQueryError(error.message, span=error.span, hint=error.hint, text=text) from error
        except Exception as error:
            message = f"The query fails: {type(error).__name__}: {error}"
            raise OnDemandQueryError(message, text=text) from error
        self._compiled[text] = compiled
        if len(self._compiled) > _REMEMBERED:
            del self._compiled[next(iter(self._compiled))]
        return answer

    def _compile(self, text: str) -> tuple[Callable[[], Answer], Needs]:
        checked = check_on_demand(parse_on_demand(text), self._app, self._catalog, text)
        plan = _Plan(checked, self._catalog, self._clock)
        store = self._stores[checked.store]
        if isinstance(store, NamedWindow) and not store.readable:
            message = f"'{checked.store}' puts out current events only, and keeps none that a query could read"
            raise OnDemandQueryError(message, text=text, hint="Define it without 'output current events'.")
        needs = _needs(checked, self._catalog)
        if not needs.writes:
            return plan.reading(store), needs
        assert isinstance(store, TableStore)
        return plan.writing(store), needs


def _needs(checked: CheckedOnDemand, catalog: Catalog) -> Needs:
    """Return what a query needs."""
    reads = checked.query.store is not None
    others = frozenset(node.table for node in checked.query.walk() if isinstance(node, ast.In))
    pushed = push(checked.query.on, checked.scope, 0, catalog) if reads else None
    values = () if pushed is None else [value.value for value in pushed.values if isinstance(value, ast.Literal)]
    if pushed is None or len(values) < len(pushed.values):
        return Needs(checked.store, others, not reads)
    return Needs(checked.store, others, not reads, pushed.test, tuple(values))


class _Plan:
    """One query, being compiled."""

    def __init__(self, checked: CheckedOnDemand, catalog: Catalog, clock: VirtualClock) -> None:
        self.checked = checked
        self.catalog = catalog
        self.clock = clock
        self.title = f"query on {checked.store}"
        self.select = SelectClause(
            title=self.title,
            clause=checked.select,
            output=checked.output,
            target=checked.store,
            catalog=catalog,
            reader=self._reader,
            row="row",
            events="current",
            leaving=False,
        )

    def _reader(self, frame: Frame, _bindings: Bindings) -> InputReader:
        return RowReader(self.checked.scope, self.catalog, frame)

    # Reading.

    def reading(self, store: Store) -> Callable[[], Answer]:
        """Return what answers a query that reads."""
        checked = self.checked
        search = FindingPlan(self.title, checked.query.on, checked.scope, 0, self.catalog, "ts", self._reader)
        if isinstance(store, AggregationStore) and checked.query.per is not None:
            view = store.reader()
            find = search.bind(view, self.clock)
            asked = self._range(checked.query.within, checked.query.per)

            def read() -> list[Arrival]:
                view.set_range(*asked())
                return find(_NO_TIME)
        else:
            find = search.bind(_seen(store), self.clock)

            def read() -> list[Arrival]:
                return find(_NO_TIME)

        def run() -> Answer:
            found = read()
            return Answer(checked.output, self._selected([row for _, row in found]) if found else [])

        return run

    def _range(self, within: tuple[ast.Expression, ...], per: ast.Expression) -> Callable[[], tuple[Any, Any, Any]]:
        """Return what computes start, end and duration of what is asked for of an aggregation."""
        bindings, frame = Bindings(), Frame()
        writer = ExpressionWriter(self._reader(frame, bindings), frame, bindings)
        parts = [writer.write(part).text for part in (*within, per)]
        if len(parts) == 2:
            parts.insert(1, "None")
        body = ["def asked():", f"    return ({', '.join(parts)})", "return asked"]
        lines = ["def make(clock):", *indent(body)]
        asked: Callable[[], tuple[Any, Any, Any]] = build(f"{self.title} range", lines, bindings.names)["make"](
            self.clock
        )
        return asked

    # Writing.

    def writing(self, table: TableStore) -> Callable[[], Answer]:
        """Return what answers a query that writes."""
        checked, output = self.checked, self.checked.query.output
        assert output is not None
        writer = table_writer(self.title, output, checked.output, table, self.catalog, self.clock, _seen(table))
        nothing = (None,) * len(checked.output)

        def run() -> Answer:
            # Nothing is read, so what is selected is of one event without attributes.
            rows = self._selected([()]) if checked.select.items else [nothing]
            writer.receive_chunk([(_NO_TIME, row) for row in rows])
            return Answer(checked.output, [])

        return run

    # Selecting.

    def _selected(self, rows: Iterable[Row]) -> list[Row]:
        """Return what the selection makes of one chunk; nothing of earlier chunks is remembered."""
        results: list[Row] = []

        def receive(_kind: int, _timestamp: int, row: Row) -> None:
            results.append(row)

        def receive_chunk(events: list[Event]) -> None:
            results.extend(row for _, _, row in events)

        select = self.select.make("arrivals", SelectorState(), SelectorOutput(receive, receive_chunk), self.clock)
        select([(_NO_TIME, row) for row in rows])
        return results


def _seen(store: Store) -> Store:
    """Return a store as a passing query sees it."""
    return store if isinstance(store, Searchable) else _Seen(store)


class _Seen:
    """A store as a passing query sees it: it is answered by the indexes that are there, and makes none."""

    def __init__(self, store: Store) -> None:
        self.schema = store.schema
        self.contents = store.contents
        self._store = store

    def index(self, attributes: tuple[int, ...]) -> Index | None:
        """Return an index that is there already."""
        return self._store.known_index(attributes) if isinstance(self._store, Table) else None
