"""Annotations whose meaning is part of the language; those of other layers (transports, planning) are left to them."""

from __future__ import annotations

from spdist.errors import DuplicateDefinitionError, SiddhiTypeError, UndefinedNameError, UnsupportedFeatureError
from spdist.language import ast
from spdist.language.names import Names
from spdist.language.scope import suggestion
from spdist.language.types import Schema

__all__ = ["check_app_annotations", "check_definition_annotations", "check_partition_annotations"]

_STREAM_ERRORS = ("LOG", "STREAM", "STORE")
_STRATEGIES = ("roundRobin", "partitioned", "broadcast")


def check_app_annotations(names: Names, app: ast.SiddhiApp) -> None:
    """Check ``@app:…``: each once, and ``@app:playback`` with both of its elements or none."""
    seen: set[str] = set()
    for annotation in app.annotations:
        key = annotation.name.lower()
        if key in seen:
            names.refuse(DuplicateDefinitionError, f"'@{annotation.name}' is written twice", annotation.span)
        seen.add(key)
        if key == "app:async":
            hint = "Put @async on the streams."
            names.refuse(UnsupportedFeatureError, "'@app:async' is not part of Siddhi any more", annotation.span, hint)
        if key == "app:playback" and (annotation.get("idle.time") is None) != (annotation.get("increment") is None):
            hint = "For example: @app:playback(idle.time='100 millisec', increment='2 sec')"
            names.refuse(SiddhiTypeError, "'idle.time' and 'increment' come together", annotation.span, hint)


def check_definition_annotations(names: Names, definition: ast.Definition) -> None:
    """Check the annotations of a stream or table."""
    match definition:
        case ast.StreamDefinition():
            _check_stream(names, definition, definition.schema)
        case ast.TableDefinition():
            _check_table(names, definition, definition.schema)


def check_partition_annotations(names: Names, partition: ast.Partition) -> None:
    """Check ``@purge`` of a partition."""
    for purge in ast.find_annotations(partition.annotations, "purge"):
        for key in ("enable", "idle.period"):
            if purge.get(key) is None:
                names.refuse(SiddhiTypeError, f"'@purge' of a partition needs '{key}'", purge.span)
        if (purge.get("enable") or "true").lower() not in ("true", "false"):
            names.refuse(SiddhiTypeError, "'enable' is 'true' or 'false'", purge.span)


def _check_stream(names: Names, stream: ast.StreamDefinition, schema: Schema) -> None:
    for on_error in ast.find_annotations(stream.annotations, "OnError"):
        action = on_error.get("action")
        if action is not None and action.upper() not in _STREAM_ERRORS:
            hint = f"It is one of {', '.join(_STREAM_ERRORS)}."
            names.refuse(SiddhiTypeError, f"'{action}' is no action of '@OnError'", on_error.span, hint)
    for kind in ("source", "sink"):
        for annotation in ast.find_annotations(stream.annotations, kind):
            _check_transport(names, annotation, schema)


def _check_transport(names: Names, annotation: ast.Annotation, schema: Schema) -> None:
    if annotation.get("type") is None and annotation.get("ref") is None:
        hint = f"For example: @{annotation.name}(type='kafka', …)"
        names.refuse(SiddhiTypeError, f"'@{annotation.name}' has no 'type'", annotation.span, hint)
    for mapping in annotation.nested("map"):
        if mapping.get("type") is None:
            names.refuse(SiddhiTypeError, "'@map' has no 'type'", mapping.span, "For example: @map(type='json')")
    for distribution in annotation.nested("distribution"):
        strategy = distribution.get("strategy")
        if strategy not in _STRATEGIES:
            hint = f"It is one of {', '.join(_STRATEGIES)}."
            names.refuse(UndefinedNameError, f"There is no strategy '{strategy}'", distribution.span, hint)
        if strategy == "partitioned":
            _check_attributes(names, distribution, (distribution.get("partitionKey") or "",), schema)


def _check_table(names: Names, table: ast.TableDefinition, schema: Schema) -> None:
    keys = ast.find_annotations(table.annotations, "PrimaryKey")
    for repeated in keys[1:]:
        names.refuse(
            DuplicateDefinitionError, "'@PrimaryKey' is written twice", repeated.span, "It takes several names."
        )
    for key in keys:
        _check_attributes(names, key, tuple(element.value for element in key.elements), schema)
    for index in ast.find_annotations(table.annotations, "Index"):
        if len(index.elements) != 1:
            hint = "Write one @Index for each attribute."
            names.refuse(SiddhiTypeError, "'@Index' takes one attribute", index.span, hint)
        _check_attributes(names, index, tuple(element.value for element in index.elements), schema)
    for old in ast.find_annotations(table.annotations, "IndexBy"):
        names.refuse(UnsupportedFeatureError, "'@IndexBy' is not part of Siddhi any more", old.span, "Write @Index.")


def _check_attributes(names: Names, annotation: ast.Annotation, wanted: tuple[str, ...], schema: Schema) -> None:
    if not wanted:
        names.refuse(SiddhiTypeError, f"'@{annotation.name}' names no attribute", annotation.span)
    for name in wanted:
        if schema.index(name) is None:
            hint = suggestion(name, schema.names)
            names.refuse(UndefinedNameError, f"There is no attribute '{name}'", annotation.span, hint)
