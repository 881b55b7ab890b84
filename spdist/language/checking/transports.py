"""Sources and sinks: types that exist, options that are needed, mappings that name attributes of their stream.

Source: io.siddhi.core.util.parser.helper.DefinitionParserHelper (addEventSource, addEventSink), verified on the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spdist.connectors.registry import connector, sink_types, source_types, why_missing
from spdist.errors import (
    AppValidationError,
    DuplicateDefinitionError,
    ErrorKind,
    SiddhiTypeError,
    Span,
    UndefinedNameError,
)
from spdist.java.numbers import whole_number
from spdist.language import ast
from spdist.language.checking.names import Names
from spdist.language.checking.scope import suggestion
from spdist.language.transport_names import MAPPINGS, SINKS, SOURCES, STRATEGIES
from spdist.language.types import Schema

__all__ = ["check_transports"]

_SINK_ERRORS = ("LOG", "WAIT", "STREAM", "STORE", "RETRY")
_PRIORITIES = ("INFO", "DEBUG", "WARN", "FATAL", "ERROR", "OFF", "TRACE")
_PLACE = re.compile(r"\{\{([^{}]*)\}\}")


def check_transports(names: Names, stream: ast.StreamDefinition) -> None:
    """Check all ``@source`` and ``@sink`` of a stream."""
    for annotation in ast.find_annotations(stream.annotations, "source"):
        _check_type(names, annotation, "source", (*source_types(), *SOURCES))
        _check_needed(names, annotation, annotation.get("type"), (annotation,))
        _refuse_places(names, annotation, "a source")
        for mapping in _check_mapping(names, annotation):
            _refuse_places(names, mapping, "a mapping")
            _check_attributes(names, mapping, stream.schema)
    for annotation in ast.find_annotations(stream.annotations, "sink"):
        _check_sink(names, annotation, stream.schema)


def _check_type(names: Names, annotation: ast.Annotation, what: str, known: Iterable[str]) -> None:
    kind = annotation.get("type")
    connected = connector(kind)
    if kind is None:
        if annotation.get("ref") is None:
            hint = f"For example: @{annotation.name}(type='inMemory', topic='…')"
            names.refuse(SiddhiTypeError, f"'@{annotation.name}' has no 'type'", annotation.span, hint)
    elif kind not in known:
        _refuse_unknown(names, f"{what} '{kind}'", kind, known, annotation.span, why_missing(kind))
    for element in annotation.elements:
        if (element.key or "").lower().startswith("dep:") and connected is not None and not connected.services:
            message = f"A {what} of type '{kind}' has nothing to deploy, so '{element.key}' means nothing"
            names.refuse(SiddhiTypeError, message, element.span or annotation.span)


def _refuse_unknown(
    names: Names, what: str, name: str, known: Iterable[str], span: Span | None, why: str | None = None
) -> None:
    near = {candidate.lower(): candidate for candidate in known}
    hint = suggestion(name, tuple(known)) or f"It is one of {', '.join(near.values())}."
    if name.lower() in near:
        hint = f"Did you mean '{near[name.lower()]}'?"
    names.refuse(UndefinedNameError, f"There is no {what}", span, why or hint, code=ErrorKind.UNKNOWN_EXTENSION)


def _check_needed(
    names: Names, annotation: ast.Annotation, kind: str | None, holders: tuple[ast.Annotation, ...]
) -> None:
    connected = connector(kind)
    for option in () if connected is None else connected.needed:
        # An option that all destinations share may stand on the sink around them
        if all(holder.get(option) is None for holder in holders):
            message = f"'@{annotation.name}' of type '{kind}' has no '{option}'"
            names.refuse(AppValidationError, message, annotation.span, f"For example: {option}='…'")


def _refuse_places(names: Names, annotation: ast.Annotation, what: str, allowed: tuple[str, ...] = ()) -> None:
    for element in annotation.elements:
        if _PLACE.search(element.value) and (element.key or "").lower() not in allowed:
            may = f"Only {', '.join(allowed)} may." if allowed else None
            message = f"'{element.key}' of {what} cannot differ from event to event"
            names.refuse(SiddhiTypeError, message, element.span or annotation.span, may)


# --- sinks -----------------------------------------------------------------------------------------------------------


def _check_sink(names: Names, sink: ast.Annotation, schema: Schema) -> None:
    kind = sink.get("type")
    _check_type(names, sink, "sink", (*sink_types(), *SINKS))
    distributions = sink.nested("distribution")
    # With @distribution each destination is asked, together with the sink
    if not distributions:
        _check_needed(names, sink, kind, (sink,))
    for repeated in distributions[1:]:
        names.refuse(
            DuplicateDefinitionError,
            f"'@{repeated.name}' is written twice",
            repeated.span,
            code=ErrorKind.DUPLICATE_ANNOTATION,
        )
    for distribution in distributions:
        _check_distribution(names, sink, distribution, schema)
    for key, known in (("on.error", _SINK_ERRORS), ("priority", _PRIORITIES if kind == "log" else None)):
        value = sink.get(key)
        if known is not None and value is not None and value.upper() not in known:
            hint = suggestion(value.upper(), known) or f"It is one of {', '.join(known)}."
            names.refuse(SiddhiTypeError, f"'{key}' cannot be '{value}'", sink.span, hint)
    connected = connector(kind)
    if connected is not None and connected.dynamic is not None:
        _refuse_places(names, sink, f"a sink of type '{kind}'", connected.dynamic)
    _check_places(names, sink.elements, schema)
    for mapping in _check_mapping(names, sink):
        _refuse_places(names, mapping, "a mapping")
        for payload in mapping.nested("payload"):
            _check_payload(names, payload, mapping, schema)


def _check_places(names: Names, elements: tuple[ast.AnnotationElement, ...], schema: Schema) -> None:
    for element in elements:
        for name in _PLACE.findall(element.value):
            if schema.index(name) is None:
                hint = suggestion(name.strip(), schema.names)
                message = f"There is no attribute '{name}' for '{{{{{name}}}}}'"
                names.refuse(SiddhiTypeError, message, element.span, hint)


def _check_payload(names: Names, payload: ast.Annotation, mapping: ast.Annotation, schema: Schema) -> None:
    _check_places(names, payload.elements, schema)
    keys = [(element.key or "").lower() for element in payload.elements]
    if len(set(keys)) < len(keys):
        message = "'@payload' has one text, or keys that differ"
        names.refuse(SiddhiTypeError, message, payload.span)
    if mapping.get("type") == "csv":
        _check_columns(names, payload, schema)


def _check_columns(names: Names, payload: ast.Annotation, schema: Schema) -> None:
    for element in payload.elements:
        hint = "For example: @payload(a='0', b='1')"
        if element.key is None or schema.index(element.key) is None:
            near = suggestion(element.key or "", schema.names) or hint
            names.refuse(SiddhiTypeError, "A csv payload names attributes and their columns", element.span, near)
        elif whole_number(element.value, 0, len(schema.names) - 1) is None:
            message = f"'{element.value}' is no column: there are {len(schema.names)}, counted from 0"
            names.refuse(SiddhiTypeError, message, element.span, hint)


def _check_distribution(names: Names, sink: ast.Annotation, distribution: ast.Annotation, schema: Schema) -> None:
    strategy = distribution.get("strategy")
    if strategy is None:
        hint = f"It is one of {', '.join(STRATEGIES)}."
        names.refuse(SiddhiTypeError, "'@distribution' has no 'strategy'", distribution.span, hint)
    elif strategy not in STRATEGIES:
        _refuse_unknown(names, f"strategy '{strategy}'", strategy, STRATEGIES, distribution.span)
    elif strategy == "partitioned":
        _check_partition_key(names, distribution, schema)
    destinations = distribution.nested("destination")
    if not destinations:
        hint = f"For example: @distribution(strategy='{strategy}', @destination(topic='a'), @destination(topic='b'))"
        names.refuse(SiddhiTypeError, "'@distribution' has no '@destination'", distribution.span, hint)
    for destination in destinations:
        _check_needed(names, destination, sink.get("type"), (destination, sink))
        if any(_PLACE.search(element.value) for element in destination.elements):
            message = "The options of a destination cannot differ from event to event"
            names.refuse(AppValidationError, message, destination.span)


def _check_partition_key(names: Names, distribution: ast.Annotation, schema: Schema) -> None:
    key = distribution.get("partitionKey")
    if key is None:
        hint = f"For example: partitionKey='{schema.names[0]}'"
        names.refuse(SiddhiTypeError, "The strategy 'partitioned' has no 'partitionKey'", distribution.span, hint)
    elif schema.index(key) is None:
        near = suggestion(key.strip("{}"), schema.names)
        names.refuse(AppValidationError, f"There is no attribute '{key}'", distribution.span, near)


# --- mappings --------------------------------------------------------------------------------------------------------


def _check_mapping(names: Names, annotation: ast.Annotation) -> tuple[ast.Annotation, ...]:
    """Check that there is at most one ``@map``, of a type that exists; returns it."""
    mappings = annotation.nested("map")
    for repeated in mappings[1:]:
        names.refuse(
            DuplicateDefinitionError,
            f"'@{repeated.name}' is written twice",
            repeated.span,
            code=ErrorKind.DUPLICATE_ANNOTATION,
        )
    for mapping in mappings:
        kind = mapping.get("type")
        if kind is None:
            names.refuse(SiddhiTypeError, "'@map' has no 'type'", mapping.span, "For example: @map(type='json')")
        elif kind not in MAPPINGS and kind not in names.catalog.mappings:
            known = (*MAPPINGS, *sorted(names.catalog.mappings))
            _refuse_unknown(names, f"mapping '{kind}'", kind, known, mapping.span)
    return mappings


def _check_attributes(names: Names, mapping: ast.Annotation, schema: Schema) -> None:
    for attributes in mapping.nested("attributes"):
        keys = [element.key for element in attributes.elements]
        if not keys or all(key is None for key in keys):
            if len(keys) != len(schema.names):
                message = f"'@attributes' maps {len(keys)} attributes, but the stream has {len(schema.names)}"
                names.refuse(SiddhiTypeError, message, attributes.span, f"They are {', '.join(schema.names)}.")
        elif None in keys:
            message = "'@attributes' names all attributes or none"
            names.refuse(SiddhiTypeError, message, attributes.span, "For example: @attributes(a='$.a', b='$.b')")
        else:
            for name in schema.names:
                if attributes.get(name) is None:
                    message = f"'@attributes' does not map '{name}'"
                    names.refuse(SiddhiTypeError, message, attributes.span, f"For example: {name}='…'")
