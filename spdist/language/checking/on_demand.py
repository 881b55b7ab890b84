"""Queries put to a running app: what they read, what they select, and what they change.

As in a join, ``having`` and ``order by`` may name attributes that are not selected. An alias is accepted and means
nothing, as in Siddhi.

Source: io.siddhi.core.util.parser.OnDemandQueryParser, verified on the engine.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from spdist.errors import DuplicateDefinitionError, OnDemandQueryError, SiddhiAppError, SiddhiSyntaxError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.changes import check_change, refuse_schema
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.names import Names, TooManyErrors
from spdist.language.checking.queries import check_items
from spdist.language.checking.ranges import check_range
from spdist.language.checking.scope import AttributeSource, Scope, suggestion
from spdist.language.types import Schema

__all__ = ["CheckedOnDemand", "check_on_demand"]

_NOTHING = Schema(())


@dataclass(frozen=True, slots=True)
class CheckedOnDemand:
    """An on-demand query with what its names mean.

    Parameters
    ----------
    query : OnDemandQuery
        As written.
    store : str
        Id of what it reads or changes.
    scope : Scope
        What its condition and its selection may name: the store; nothing where it only changes a table.
    select : Selection
        What is computed, ``*`` written out.
    output : Schema
        What that puts out.
    """

    query: ast.OnDemandQuery
    store: str
    scope: Scope
    select: ast.Selection
    output: Schema


def check_on_demand(query: ast.OnDemandQuery, app: CheckedApp, catalog: Catalog, text: str = "") -> CheckedOnDemand:
    """Return a query with its names and types.

    Parameters
    ----------
    query : OnDemandQuery
        What `spdist.language.parsing.parser.parse_on_demand` returned.
    app : CheckedApp
        The app it is put to.
    catalog : Catalog
        The functions and aggregators there are.
    text : str, optional
        The text it came from, for the errors.

    Raises
    ------
    OnDemandQueryError
        Something is wrong; ``errors`` holds all of it, in the order of the text.
    SiddhiSyntaxError
        What is written has no place in such a query: an event type, a change of what is read.
    DuplicateDefinitionError
        Something is selected twice under one name.
    """
    names = Names(catalog)
    names.tables.update(app.tables)
    names.windows.update(app.windows)
    names.aggregations.update(app.aggregations)
    checked = None
    with contextlib.suppress(TooManyErrors):
        checked = _Check(names, query).result()
    if names.errors or checked is None:
        raise _together(names.errors, text)
    return checked


class _Check:
    """One query being checked."""

    def __init__(self, names: Names, query: ast.OnDemandQuery) -> None:
        self.names = names
        self.query = query

    def result(self) -> CheckedOnDemand | None:
        self._check_form()
        if self.names.errors:
            return None
        return self._read(self.query.store) if self.query.store is not None else self._change()

    def _check_form(self) -> None:
        query, output = self.query, self.query.output
        if output is None:
            return
        if query.store is not None:
            hint = "Read in one query, and write in another: select … insert into T, update T set … on …"
            self.names.refuse(SiddhiSyntaxError, "A query on demand reads or writes, not both", output.span, hint)
        elif output.events is not None:
            self.names.refuse(SiddhiSyntaxError, "There are no events of a kind here", output.span, "Leave it out.")
        elif not query.select.items and not _may_select_nothing(output):
            hint = "Say what: select 'a' as name, 1 as number insert into T"
            self.names.refuse(SiddhiSyntaxError, "Nothing is selected", output.span, hint)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, store: str) -> CheckedOnDemand | None:
        names, query = self.names, self.query
        schema = names.tables.get(store) or names.windows.get(store) or names.aggregations.get(store)
        if schema is None:
            hint = suggestion(store, (*names.tables, *names.windows, *names.aggregations))
            message = f"'{store}' is neither a table, a window nor an aggregation"
            names.refuse(OnDemandQueryError, message, query.span, hint)
            return None
        scope = Scope((AttributeSource(store, store, schema, "table"),), tables=names.all_tables())
        self._check_bounds(store, scope)
        if query.on is not None:
            names.condition(query.on, scope, "'on'")
            names.no_aggregator(query.on, "'on'")
        return self._selected(store, scope, query.select)

    def _check_bounds(self, store: str, scope: Scope) -> None:
        query = self.query
        if store in self.names.aggregations:
            check_range(self.names, query.within, query.per, Scope((), tables=scope.tables), query.span)
        elif query.within or query.per is not None:
            message = f"'{store}' is no aggregation: 'within' and 'per' mean nothing here"
            self.names.refuse(OnDemandQueryError, message, query.span)

    # --- changing ----------------------------------------------------------------------------------------------------

    def _change(self) -> CheckedOnDemand | None:
        names, output = self.names, self.query.output
        assert output is not None and output.target is not None
        target = output.target
        table = names.tables.get(target.id)
        if table is None:
            hint = suggestion(target.id, names.tables)
            names.refuse(OnDemandQueryError, f"'{target.id}' is not a table", target.span, hint)
            return None
        nothing = Scope(
            (AttributeSource("what is selected from nothing", "", _NOTHING, "table"),), tables=names.all_tables()
        )
        if not self.query.select.items:
            # What is not selected is null.
            checked = CheckedOnDemand(self.query, target.id, nothing, self.query.select, table)
            if isinstance(output, ast.Update) and not output.set:
                hint = f"update {target.id} set {target.id}.… = … on …"
                names.refuse(OnDemandQueryError, "This says not what to change", output.span, hint)
        else:
            selected = self._selected(target.id, nothing, self.query.select)
            if selected is None:
                return None
            checked = selected
        before = len(names.errors)
        if isinstance(output, ast.Delete | ast.Update):
            check_change(names, output, target, checked.output)
        elif checked.output != table:
            refuse_schema(names, target, checked.output, table)
        # The checks of queries have reported in their own classes
        names.errors[before:] = [_of_on_demand(error, OnDemandQueryError) for error in names.errors[before:]]
        return checked

    # --- selection ---------------------------------------------------------------------------------------------------

    def _selected(self, store: str, scope: Scope, select: ast.Selection) -> CheckedOnDemand | None:
        names = self.names
        for variable in select.group_by:
            names.type_of(variable, scope)
        for limit, word in ((select.limit, "limit"), (select.offset, "offset")):
            if isinstance(limit, ast.Literal) and isinstance(limit.value, int) and limit.value < 0:
                names.refuse(OnDemandQueryError, f"'{word}' cannot be negative", limit.span)
        items = select.items or tuple(_named(name) for name in scope.sources[0].schema.names)
        output = check_items(names, items, scope)
        if output is None:
            return None
        result = scope.results(store, output)
        if select.having is not None:
            names.condition(select.having, result, "'having'")
        for by in select.order_by:
            names.type_of(by.variable, result)
        written = names.written_out(dataclasses.replace(select, items=items))
        return CheckedOnDemand(names.written_out(self.query), store, scope, written, output)


def _may_select_nothing(output: ast.Output) -> bool:
    return isinstance(output, ast.Delete) or (isinstance(output, ast.Update) and not output.or_insert)


def _named(name: str) -> ast.SelectItem:
    return ast.SelectItem(ast.Variable(name), None)


def _together(errors: Iterable[SiddhiAppError], text: str) -> SiddhiAppError:
    """Return one error for all that was found, in the order of the text."""
    found = sorted(errors, key=lambda error: error.span.start if error.span else -1)
    kept = (DuplicateDefinitionError, SiddhiSyntaxError)
    converted = [
        _of_on_demand(error, type(error) if isinstance(error, kept) else OnDemandQueryError, text) for error in found
    ]
    if len(converted) == 1:
        return converted[0]
    listed = [f"{number}. {error}" for number, error in enumerate(converted, 1)]
    message = "\n".join([f"The query has {len(converted)} errors", *listed])
    return OnDemandQueryError(message, errors=tuple(converted))


def _of_on_demand(error: SiddhiAppError, kind: type[SiddhiAppError], text: str = "") -> SiddhiAppError:
    """Return an error as one of class `kind`."""
    return kind(error.message, span=error.span, hint=error.hint, text=error.text or text or None)
