"""Aggregations: what they select, their durations and annotations; and how they are read, ``within … per …``."""

from __future__ import annotations

import dataclasses

from spdist.errors import (
    DuplicateDefinitionError,
    ErrorKind,
    SiddhiAppError,
    SiddhiSyntaxError,
    SiddhiTypeError,
    UndefinedNameError,
)
from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation, PurgeSetting
from spdist.language.checking.expressions import is_aggregator
from spdist.language.checking.inputs import check_filters
from spdist.language.checking.names import Names
from spdist.language.checking.queries import check_items
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.durations import DURATIONS, duration_of, period
from spdist.language.types import Schema, Type

__all__ = ["check_aggregation"]

#: What an aggregation can compute bucket by bucket and add up later.
_INCREMENTAL = frozenset({"sum", "count", "avg", "min", "max", "distinctCount"})
_TIMESTAMP = ("AGG_TIMESTAMP", Type.LONG)

#: How long closed buckets are kept, in ms: at least, and where nothing is said; None: for ever.
_LEAST = {
    "second": period("120 sec"),
    "minute": period("120 min"),
    "hour": period("25 hours"),
    "day": period("32 days"),
    "month": period("13 months"),
    "year": 0,
}
_USUAL = {
    "second": period("120 sec"),
    "minute": period("24 hours"),
    "hour": period("30 days"),
    "day": period("1 year"),
    "month": None,
    "year": None,
}
_INTERVAL = period("15 min")


def check_aggregation(names: Names, definition: ast.AggregationDefinition) -> None:
    """Check an aggregation and make it known."""
    single, select = definition.input, definition.select
    durations = _durations(names, definition)
    if single is None or select is None:
        return
    _check_tables(names, definition, durations)
    purging, by_id = _annotations(names, definition, durations), _by_id(names, definition)
    scope = _scope(names, single)
    fields = None if scope is None else _selected(names, definition, select, scope)
    if scope is None or fields is None:
        # Its readers would only repeat the error
        names.unknown.add(definition.name)
        return
    output = Schema((_TIMESTAMP, *fields.fields))
    written = names.written_out(definition)
    select = names.written_out(select)
    checked = CheckedAggregation(definition.name, written, select, scope, output, durations, purging, by_id)
    names.aggregations[definition.name] = output
    names.aggregated[definition.name] = checked


def _durations(names: Names, definition: ast.AggregationDefinition) -> tuple[str, ...]:
    """Return the durations of an aggregation, a range written out."""
    written = definition.durations
    strange = next((unit for unit in written if unit not in DURATIONS), None)
    if strange is not None:
        hint = f"It is one of {', '.join(DURATIONS)}."
        names.refuse(SiddhiSyntaxError, f"'{strange}' is no duration of aggregations", definition.span, hint)
        return ()
    if not definition.is_range:
        # From the finest on, in whatever order they are written: each is added up from the one before
        return tuple(unit for unit in DURATIONS if unit in written)
    first, last = (DURATIONS.index(unit) for unit in (written[0], written[-1]))
    if first > last:
        message = f"The durations '{written[0]} ... {written[-1]}' are reversed"
        names.refuse(SiddhiTypeError, message, definition.span, "They go from the short to the long one.")
    return DURATIONS[first : last + 1]


def _check_tables(names: Names, definition: ast.AggregationDefinition, durations: tuple[str, ...]) -> None:
    """Report where a name is taken that Siddhi gives the table of a duration."""
    for duration in durations:
        name = f"{definition.name}_{duration.upper()}S"
        if any(name in known for known in (names.streams, names.tables, names.windows)):
            message = f"'{definition.name}' keeps its values per {duration} as '{name}', which is defined otherwise"
            names.refuse(DuplicateDefinitionError, message, definition.span)


# --- input and selection ---------------------------------------------------------------------------------------------


def _scope(names: Names, single: ast.SingleInput) -> Scope | None:
    stream = single.stream
    schema = names.require(stream)
    if schema is None:
        return None
    if stream.id not in names.streams:
        hint = "Let a query insert it into a stream."
        names.refuse(SiddhiTypeError, f"An aggregation reads a stream, not '{stream.id}'", single.span, hint)
        return None
    for handler in single.before:
        if isinstance(handler, ast.StreamFunction) and handler.call.id in names.catalog.stream_processors:
            hint = "Call it in a query of its own, and let the aggregation read the stream that this inserts into."
            names.unsupported("Stream processors in front of aggregations", handler.span, hint)
            return None
    source = check_filters(names, single.before, AttributeSource(stream.id, stream.id, schema))
    return None if source is None else Scope((source,), tables=names.all_tables())


def _selected(
    names: Names, definition: ast.AggregationDefinition, select: ast.Selection, scope: Scope
) -> Schema | None:
    """Return what is selected; None where that is not known. As in Siddhi ``select *`` selects nothing."""
    for variable in select.group_by:
        names.type_of(variable, scope)
        if variable.stream is not None:
            hint = f"Write {variable.name}."
            names.refuse(UndefinedNameError, "'group by' of an aggregation takes bare names", variable.span, hint)
    by = definition.aggregate_by
    if by is not None and names.type_of(by, scope) not in (None, Type.LONG, Type.STRING):
        hint = "Milliseconds as long, or a string such as '2024-01-31 12:00:00'."
        names.refuse(SiddhiTypeError, f"'{by.name}' is no time to aggregate by", by.span, hint)
    understood = [_check_item(names, item.expression, scope) for item in select.items]
    # Other than in queries, distinctCount takes booleans.
    aggregators = {**names.catalog.aggregators, "distinctCount": lambda *_: Type.LONG}
    # The copy shares errors and streams with `names`; only the catalog is another one
    here = dataclasses.replace(names, catalog=dataclasses.replace(names.catalog, aggregators=aggregators))
    return check_items(here, select.items, scope) if all(understood) else None


def _check_item(names: Names, item: ast.Expression, scope: Scope) -> bool:
    """Check aggregators in a value that is selected; False where nothing more should be said about it."""
    understood = True
    for call in item.walk():
        if not isinstance(call, ast.FunctionCall):
            continue
        if is_aggregator(call, names.catalog) and call.id not in _INCREMENTAL:
            hint = f"It can compute {', '.join(sorted(_INCREMENTAL))}."
            names.refuse(UndefinedNameError, f"An aggregation has no '{call.id}'", call.span, hint)
            understood = False
        elif call is item and is_aggregator(call, names.catalog):
            understood = _check_incremental(names, call, scope)
        elif call is item and call.id not in names.catalog.functions:
            names.refuse(UndefinedNameError, f"There is no function or aggregator '{call.id}'", call.span)
            understood = False
    return understood


def _check_incremental(names: Names, call: ast.FunctionCall, scope: Scope) -> bool:
    if call.star or any(not isinstance(argument, ast.Variable) for argument in call.args):
        hint = "Compute it in a query before, and aggregate its result."
        names.refuse(SiddhiTypeError, f"'{call.id}' takes an attribute here, no expression", call.span, hint)
        return False
    if len(call.args) > 1:
        names.refuse(SiddhiTypeError, f"'{call.id}' takes one attribute here", call.span)
        return False
    if call.id == "distinctCount":
        if not call.args:
            names.refuse(SiddhiTypeError, "'distinctCount' takes an attribute", call.span)
            return False
        if names.type_of(call.args[0], scope) is Type.OBJECT:
            names.refuse(SiddhiTypeError, "An aggregation cannot tell objects apart", call.span)
            return False
    return True


# --- annotations -----------------------------------------------------------------------------------------------------


def _annotations(names: Names, definition: ast.AggregationDefinition, durations: tuple[str, ...]) -> PurgeSetting:
    """Check the annotations; returns what ``@purge`` says, the last one, where there are several."""
    _check_stores(names, definition)
    found = ast.find_annotations(definition.annotations, "purge")
    if found:
        try:
            return _purging(found[-1], durations)
        except SiddhiAppError as error:
            error.span = error.span or found[-1].span
            names.report(error)
    return PurgeSetting(_INTERVAL, _USUAL)


def _check_stores(names: Names, definition: ast.AggregationDefinition) -> None:
    for key in ast.find_annotations(definition.annotations, "PrimaryKey"):
        hint = "Its buckets are found by their time and group."
        names.refuse(SiddhiTypeError, "An aggregation takes no '@PrimaryKey'", key.span, hint)
    for annotation in ast.find_annotations(definition.annotations, "persistedAggregation"):
        if (annotation.get("enable") or "true").lower() == "true":
            hint = f"Leave out '@{annotation.name}', or write enable='false'."
            message = "Aggregations are not computed in a database"
            names.refuse(SiddhiAppError, message, annotation.span, hint, code=ErrorKind.UNSUPPORTED)


def _by_id(names: Names, definition: ast.AggregationDefinition) -> bool:
    """Return whether ``@PartitionById`` is there and not switched off."""
    enabled = False
    for annotation in ast.find_annotations(definition.annotations, "PartitionById"):
        written = (annotation.get("enable") or "true").lower()
        if written not in ("true", "false"):
            message = f"'enable' of '@{annotation.name}' is '{annotation.get('enable')}'"
            names.refuse(SiddhiTypeError, message, annotation.span, "It is 'true' or 'false'.")
        enabled = written == "true"
    return enabled


def _purging(purge: ast.Annotation, durations: tuple[str, ...]) -> PurgeSetting:
    enabled = (purge.get("enable") or "true").lower()
    if enabled not in ("true", "false"):
        raise SiddhiTypeError(f"'enable' of '@purge' is '{enabled}'", hint="It is 'true' or 'false'.")
    if enabled == "false":
        return PurgeSetting(None, _USUAL)
    interval = purge.get("interval")
    return PurgeSetting(_INTERVAL if interval is None else period(interval), {**_USUAL, **_kept(purge, durations)})


def _kept(purge: ast.Annotation, durations: tuple[str, ...]) -> dict[str, int | None]:
    kept: dict[str, int | None] = {}
    for element in (e for retention in purge.nested("retentionPeriod")[:1] for e in retention.elements):
        if element.key is None:
            raise SiddhiTypeError("'@retentionPeriod' names no duration", hint="@retentionPeriod(sec='5 min', …)")
        duration = duration_of(element.key)
        if duration not in durations:
            raise SiddhiTypeError(f"There are no values per {duration} that could be purged")
        if element.value.lower() == "all":
            kept[duration] = None
        elif period(element.value) < _LEAST[duration]:
            hint = f"At least {_LEAST[duration] // 60_000} minutes, so that the next duration has them all."
            raise SiddhiTypeError(f"'{element.value}' is too short for values per {duration}", hint=hint)
        else:
            kept[duration] = period(element.value)
    return kept
