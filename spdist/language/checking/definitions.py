"""Definitions: unique names, windows, triggers, aggregations, and the annotations that belong to the language."""

from __future__ import annotations

from spdist.errors import (
    DuplicateDefinitionError,
    SiddhiAppError,
    SiddhiSyntaxError,
    SiddhiTypeError,
)
from spdist.java.cron import CronExpression
from spdist.language import ast
from spdist.language.checking.aggregations import check_aggregation
from spdist.language.checking.annotations import check_definition_annotations
from spdist.language.checking.inputs import check_window
from spdist.language.checking.names import Names
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.scripts import read_script
from spdist.language.types import Schema, Type

__all__ = ["check_definitions"]

_TRIGGERED = Schema.of([("triggered_time", "long")])


def check_definitions(names: Names, app: ast.SiddhiApp) -> None:
    """Make everything an app defines known to its queries; aggregations last, since they read streams."""
    seen: dict[str, ast.Definition] = {}
    for definition in app.definitions:
        before = seen.setdefault(definition.name, definition)
        if before is not definition and not _tolerated(before, definition):
            hint = f"It was defined before in line {before.span.line}." if before.span else None
            message = f"'{definition.name}' is defined twice"
            names.refuse(DuplicateDefinitionError, message, definition.span, hint)
        else:
            _define(names, definition)
    for definition in app.definitions:
        # One whose name was taken is no second aggregation
        if isinstance(definition, ast.AggregationDefinition) and seen[definition.name] is definition:
            check_aggregation(names, definition)


def _tolerated(before: ast.Definition, again: ast.Definition) -> bool:
    """Tell whether a name may be defined again: a stream or table in the same words, a trigger's stream as it is."""
    for one, other in ((before, again), (again, before)):
        if isinstance(one, ast.StreamDefinition) and isinstance(other, ast.TriggerDefinition):
            return one.schema == _TRIGGERED
    return before == again and isinstance(again, ast.StreamDefinition | ast.TableDefinition)


def _define(names: Names, definition: ast.Definition) -> None:
    check_definition_annotations(names, definition)
    match definition:
        case ast.StreamDefinition(name=name):
            names.streams[name] = definition.schema
            if _goes_to_fault_stream(definition):
                names.streams[f"!{name}"] = Schema((*definition.schema.fields, ("_error", Type.OBJECT)))
        case ast.TableDefinition(name=name):
            names.tables[name] = definition.schema
            annotated = {annotation.name.lower() for annotation in definition.annotations}
            # A store searches by itself: only tables in memory bind bare names when they look a key up
            if annotated & {"primarykey", "index"} and "store" not in annotated:
                names.searchable.add(name)
            _check_distinct(names, definition)
        case ast.WindowDefinition(name=name):
            names.windows[name] = definition.schema
            if definition.window is not None:
                check_window(names, definition.window, Scope((AttributeSource(name, name, definition.schema),)))
        case ast.TriggerDefinition(name=name):
            names.streams[name] = _TRIGGERED
            _check_trigger(names, definition)
        case ast.FunctionDefinition(name=name):
            script, wrong = read_script(definition, names.catalog.scripts)
            # Also a wrong one is known from now on: calls of it are no further errors.
            names.scripts[name] = script
            names.catalog = names.catalog.with_functions({name: script})
            if wrong is not None:
                names.report(wrong)


def _check_distinct(names: Names, table: ast.TableDefinition) -> None:
    seen: set[str] = set()
    for attribute in table.attributes:
        if attribute.name in seen:
            names.refuse(DuplicateDefinitionError, f"There are two attributes '{attribute.name}'", attribute.span)
        seen.add(attribute.name)


def _goes_to_fault_stream(definition: ast.StreamDefinition) -> bool:
    annotations = ast.find_annotations(definition.annotations, "OnError")
    return any((annotation.get("action") or "").upper() == "STREAM" for annotation in annotations)


def _check_trigger(names: Names, trigger: ast.TriggerDefinition) -> None:
    for annotation in trigger.annotations:
        names.refuse(SiddhiSyntaxError, "A trigger takes no annotations", annotation.span)
    if trigger.every is not None and trigger.every.milliseconds == 0:
        names.refuse(SiddhiTypeError, "A trigger cannot fire every 0 ms", trigger.every.span)
    if trigger.at is not None and trigger.at.lower() != "start":
        try:
            CronExpression(trigger.at)
        except SiddhiAppError as error:
            message = f"'{trigger.at}' is no time of a trigger: {error.message}"
            names.refuse(SiddhiTypeError, message, trigger.span, f"'start', or {error.hint}")
