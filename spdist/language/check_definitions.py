"""Definitions: unique names, windows, triggers, aggregations, and the annotations that belong to the language."""

from __future__ import annotations

import dataclasses

from spdist.errors import DuplicateDefinitionError, SiddhiTypeError, UndefinedNameError, UnsupportedFeatureError
from spdist.language import ast
from spdist.language.check_annotations import check_definition_annotations
from spdist.language.check_inputs import check_filters, check_window
from spdist.language.check_queries import check_items
from spdist.language.expressions import is_aggregator
from spdist.language.names import Names
from spdist.language.scope import Scope, Source
from spdist.language.types import Schema, Type

__all__ = ["check_definitions"]

_TRIGGERED = Schema.of([("triggered_time", "long")])
_DURATIONS = ("second", "minute", "hour", "day", "month", "year")
#: What an aggregation can compute bucket by bucket and add up later.
_INCREMENTAL = frozenset({"sum", "count", "avg", "min", "max", "distinctCount"})


def check_definitions(names: Names, app: ast.SiddhiApp) -> None:
    """Make everything an app defines known to its queries; aggregations last, since they read streams."""
    seen: dict[str, ast.Definition] = {}
    for definition in app.definitions:
        before = seen.setdefault(definition.name, definition)
        if before is not definition and before != dataclasses.replace(definition, annotations=before.annotations):
            hint = f"It was defined before in line {before.span.line}." if before.span else None
            message = f"'{definition.name}' is defined twice"
            names.refuse(DuplicateDefinitionError, message, definition.span, hint)
        else:
            _define(names, definition)
    for definition in app.definitions:
        if isinstance(definition, ast.AggregationDefinition) and seen[definition.name] is definition:
            _aggregation(names, definition)


def _define(names: Names, definition: ast.Definition) -> None:
    check_definition_annotations(names, definition)
    match definition:
        case ast.StreamDefinition(name=name):
            names.streams[name] = definition.schema
            if _goes_to_fault_stream(definition):
                names.streams[f"!{name}"] = Schema((*definition.schema.fields, ("_error", Type.OBJECT)))
        case ast.TableDefinition(name=name):
            names.tables[name] = definition.schema
        case ast.WindowDefinition(name=name):
            names.windows[name] = definition.schema
            if definition.window is not None:
                check_window(names, definition.window, Scope((Source(name, name, definition.schema),)))
        case ast.TriggerDefinition(name=name):
            names.streams[name] = _TRIGGERED
            _check_trigger(names, definition)
        case ast.FunctionDefinition(name=name, language=language, returns=returns):
            # Calls of it are no further errors.
            functions = {**names.catalog.functions, name: lambda *_: returns}
            names.catalog = dataclasses.replace(names.catalog, functions=functions)
            hint = "Register it from Python with the decorator spdist.extension.function."
            message = f"Functions written in '{language}' are not run"
            names.refuse(UnsupportedFeatureError, message, definition.span, hint)


def _goes_to_fault_stream(definition: ast.StreamDefinition) -> bool:
    annotations = ast.find_annotations(definition.annotations, "OnError")
    return any((annotation.get("action") or "").upper() == "STREAM" for annotation in annotations)


def _check_trigger(names: Names, trigger: ast.TriggerDefinition) -> None:
    if trigger.every is not None and trigger.every.milliseconds == 0:
        names.refuse(SiddhiTypeError, "A trigger cannot fire every 0 ms", trigger.every.span)
    if trigger.at is not None and trigger.at.lower() != "start" and len(trigger.at.split()) not in (6, 7):
        hint = "'start', or a cron expression with seconds first: '0 0 12 * * ?'"
        names.refuse(SiddhiTypeError, f"'{trigger.at}' is no time of a trigger", trigger.span, hint)


# --- aggregations ----------------------------------------------------------------------------------------------------


def _aggregation(names: Names, aggregation: ast.AggregationDefinition) -> None:
    single, select = aggregation.input, aggregation.select
    durations = _durations(names, aggregation)
    if single is None or select is None:
        return
    schema = names.require(single.stream)
    if schema is not None and single.stream.id not in names.streams:
        hint = "Let a query insert it into a stream."
        names.refuse(SiddhiTypeError, f"An aggregation reads a stream, not '{single.stream.id}'", single.span, hint)
        schema = None
    output = None
    if schema is not None:
        source = check_filters(names, single.before, Source(single.stream.id, single.stream.id, schema))
        if source is not None:
            output = _aggregated(names, aggregation, select, Scope((source,), tables=names.all_tables()))
    if output is None:
        names.unknown.add(aggregation.name)
    else:
        names.aggregations[aggregation.name] = Schema((("AGG_TIMESTAMP", Type.LONG), *output.fields))
        names.durations[aggregation.name] = durations


def _aggregated(
    names: Names, aggregation: ast.AggregationDefinition, select: ast.Selection, scope: Scope
) -> Schema | None:
    for variable in select.group_by:
        names.type_of(variable, scope)
    by = aggregation.aggregate_by
    if by is not None and names.type_of(by, scope) not in (None, Type.LONG, Type.STRING):
        hint = "Milliseconds as long, or a string such as '2024-01-31 12:00:00'."
        names.refuse(SiddhiTypeError, f"'{by.name}' is no time to aggregate by", by.span, hint)
    for item in select.items:
        _check_incremental(names, item.expression)
    if select.items:
        return check_items(names, select.items, scope)
    return Schema(tuple((scope.name_of(reference), reference.type) for reference in scope.star()))


def _check_incremental(names: Names, expression: ast.Expression) -> None:
    for call in expression.walk():
        if not isinstance(call, ast.FunctionCall) or not is_aggregator(call, names.catalog):
            continue
        if call.id not in _INCREMENTAL:
            hint = f"It can compute {', '.join(sorted(_INCREMENTAL))}."
            names.refuse(UndefinedNameError, f"An aggregation has no '{call.id}'", call.span, hint)
        elif any(not isinstance(argument, ast.Variable) for argument in call.args):
            hint = "Compute it in a query before, and aggregate its result."
            names.refuse(SiddhiTypeError, f"'{call.id}' takes an attribute here, no expression", call.span, hint)


def _durations(names: Names, aggregation: ast.AggregationDefinition) -> tuple[str, ...]:
    """Return the durations of an aggregation, a range written out."""
    written = aggregation.durations
    if "week" in written:
        names.refuse(UnsupportedFeatureError, "Aggregations know no weeks", aggregation.span, "Use day or month.")
        return ()
    if not aggregation.is_range:
        return tuple(unit for unit in _DURATIONS if unit in written)
    first, last = (_DURATIONS.index(unit) for unit in (written[0], written[-1]))
    if first > last:
        message = f"The durations '{written[0]} ... {written[-1]}' are reversed"
        names.refuse(SiddhiTypeError, message, aggregation.span, "They go from the short to the long one.")
    return _DURATIONS[first : last + 1]
