"""What an app has defined so far, and what was found to be wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError, Span
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.checking.expressions import MOST_ERRORS, find_errors, uses_aggregator, written_out
from spdist.language.checking.scope import AttributeSource, Scope, suggestion, undefined
from spdist.language.scripts import Script
from spdist.language.types import Schema, Type

__all__ = ["Names", "TooManyErrors"]

NodeType = TypeVar("NodeType", bound=ast.Node)


class TooManyErrors(Exception):
    """So much is wrong that checking ends; `Names.errors` holds what was found."""


@dataclass(slots=True)
class Names:
    """The names that queries may use, in the order in which the text makes them known; and the errors found.

    Streams appear as queries write to them, so a query cannot read what only a later one makes.

    Parameters
    ----------
    catalog : Catalog
        Signatures of functions and windows.
    streams, tables, windows, aggregations : dict of str to Schema
        By id.
    aggregated : dict of str to CheckedAggregation
        The aggregations with what their names mean, by id.
    inner : dict of str to Schema, optional
        Inner streams of the partition that is being checked. Outside of partitions they are ordinary streams.
    unknown : set of str
        Streams that exist but whose attributes are not known because of an error: nothing more is said about them.
    errors : list of SiddhiAppError
        What was found.
    scripts : dict of str to Script
        The functions that the app defines, by name.
    searchable : set of str
        The tables in memory with a key or an index.
    stars : dict of int to FunctionCall
        What each ``f(*)`` that was checked stands for, by the call's identity.
    bound : dict of int to Variable
        What each bare name that `bind` found stands for, by its identity.
    """

    catalog: Catalog
    streams: dict[str, Schema] = field(default_factory=dict)
    tables: dict[str, Schema] = field(default_factory=dict)
    windows: dict[str, Schema] = field(default_factory=dict)
    aggregations: dict[str, Schema] = field(default_factory=dict)
    aggregated: dict[str, CheckedAggregation] = field(default_factory=dict)
    inner: dict[str, Schema] | None = None
    unknown: set[str] = field(default_factory=set)
    errors: list[SiddhiAppError] = field(default_factory=list)
    scripts: dict[str, Script] = field(default_factory=dict)
    searchable: set[str] = field(default_factory=set)
    stars: dict[int, ast.FunctionCall] = field(default_factory=dict)
    bound: dict[int, ast.Variable] = field(default_factory=dict)
    _tables: tuple[AttributeSource, ...] = ()

    def report(self, *errors: SiddhiAppError) -> None:
        """Keep `errors`; checking goes on, up to the hundredth: then it raises TooManyErrors."""
        self.errors.extend(errors)
        # An exception, since whoever reports is deep within a walk
        if len(self.errors) >= MOST_ERRORS:
            raise TooManyErrors

    # --- streams -----------------------------------------------------------------------------------------------------

    def streams_of(self, stream: ast.StreamRef) -> dict[str, Schema]:
        """Return the streams among which `stream` is: those of the partition for an inner one."""
        # Outside of partitions #S is an ordinary stream, as in Siddhi
        return self.inner if stream.inner and self.inner is not None else self.streams

    def schema(self, stream: ast.StreamRef) -> Schema | None:
        """Return the attributes of a stream, table, window or aggregation; None where there is none of that id."""
        for known in (self.streams_of(stream), self.windows, self.tables, self.aggregations):
            if stream.id in known:
                return known[stream.id]
        return None

    def require(self, stream: ast.StreamRef, code: ErrorKind | None = None) -> Schema | None:
        """Return the attributes of what `stream` names; reports where it is not defined, with this code."""
        schema = self.schema(stream)
        if schema is None and stream.id not in self.unknown:
            known = (*self.streams_of(stream), *self.windows, *self.tables, *self.aggregations)
            error = undefined("stream, table, window or aggregation", stream.id, stream.span, known, code)
            if stream.fault and stream.name in self.streams:
                error.hint = f"Put @OnError(action='STREAM') on the definition of '{stream.name}'."
            elif stream.inner and self.inner is not None:
                close = suggestion(stream.id, known)
                error.hint = close or "An inner stream must be written by an earlier query of the same partition."
            self.report(error)
        return schema

    def all_tables(self) -> tuple[AttributeSource, ...]:
        """Return the tables as what ``in`` may name."""
        if len(self._tables) != len(self.tables):  # one is only ever added
            self._tables = tuple(AttributeSource(name, name, schema, "table") for name, schema in self.tables.items())
        return self._tables

    # --- expressions -------------------------------------------------------------------------------------------------

    def type_of(self, expression: ast.Expression, scope: Scope) -> Type | None:
        """Return the type of `expression`; reports what is wrong in it, and then returns None."""
        kind, errors = find_errors(expression, scope, self.catalog)
        self.report(*errors)
        for node in expression.walk():
            if isinstance(node, ast.FunctionCall):
                self.with_arguments(node, scope)
        return kind

    def with_arguments(self, call: ast.FunctionCall, scope: Scope) -> ast.FunctionCall:
        """Return `call` with the attributes of `scope` in place of ``*``, and remember what it stands for."""
        # By identity: the same words mean other attributes elsewhere. The tree outlives this, so no id is given twice
        return self.stars.setdefault(id(call), written_out(call, scope)) if call.star else call

    def bind(self, expression: ast.Expression, source: AttributeSource, stream: ast.StreamRef) -> None:
        """Remember that each bare name in `expression` that `source` has is one of its attributes."""
        for node in expression.walk():
            if isinstance(node, ast.Variable) and node.stream is None and node.name in source.schema.names:
                self.bound[id(node)] = dataclasses.replace(node, stream=stream)

    def written_out(self, node: NodeType) -> NodeType:
        """Return a checked part of an app with what its ``f(*)`` and bare names stand for."""
        meant = {**self.stars, **self.bound}
        known: NodeType = _replaced(node, meant) if meant else node
        return known

    def condition(self, expression: ast.Expression, scope: Scope, what: str) -> None:
        """Report where `expression` is no condition; `what` asks for one."""
        kind = self.type_of(expression, scope)
        if kind is not None and kind is not Type.BOOL:
            article = "an" if kind.value[0] in "aeiou" else "a"
            self.refuse(SiddhiTypeError, f"{what} needs a bool, this is {article} {kind}", expression.span)

    def no_aggregator(self, node: ast.Node, where: str) -> None:
        """Report an aggregator where none is run."""
        if uses_aggregator(node, self.catalog):
            hint = "Aggregate in a query of its own, and use its result."
            self.unsupported(f"Aggregators in {where}", node.span, hint)

    def unsupported(self, what: str, span: Span | None, hint: str) -> None:
        """Report SiddhiQL that is understood but not run; `what` are several."""
        self.refuse(SiddhiAppError, f"{what} are not supported", span, hint, code=ErrorKind.UNSUPPORTED)

    def refuse(
        self,
        kind: type[SiddhiAppError],
        message: str,
        span: Span | None,
        hint: str | None = None,
        *,
        code: ErrorKind | None = None,
    ) -> None:
        """Report an error of class `kind`, with its first code where none is given."""
        self.report(kind(message, span=span, hint=hint, code=code))


def _replaced(node: Any, meant: Mapping[int, ast.Expression]) -> Any:
    """Return a tree with other expressions in place of some, given by identity."""
    if isinstance(node, tuple):
        return tuple(_replaced(part, meant) for part in node)
    if not isinstance(node, ast.Node):
        return node
    if id(node) in meant:
        return meant[id(node)]
    parts = {part.name: getattr(node, part.name) for part in dataclasses.fields(node)}
    changed = {name: _replaced(value, meant) for name, value in parts.items()}
    return dataclasses.replace(node, **{name: value for name, value in changed.items() if value is not parts[name]})
