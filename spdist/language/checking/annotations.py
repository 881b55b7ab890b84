"""Annotations whose meaning is part of the language; those of other layers (transports, planning) are left to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from spdist.connectors.registry import connector, store_types
from spdist.errors import (
    AppValidationError,
    DuplicateDefinitionError,
    ErrorKind,
    SiddhiAppError,
    SiddhiSyntaxError,
    SiddhiTypeError,
    UndefinedNameError,
)
from spdist.java.numbers import whole_number
from spdist.language import ast
from spdist.language.checking.checked import ClockSetting
from spdist.language.checking.names import Names
from spdist.language.checking.scope import suggestion
from spdist.language.checking.transports import check_transports
from spdist.language.parsing.parser import read_time
from spdist.language.types import Schema

__all__ = ["check_app_annotations", "check_definition_annotations", "check_partition_annotations"]

_STREAM_ERRORS = ("LOG", "STREAM", "STORE")
_ONCE = ("app:name", "app:playback", "app:clock", "app:statistics")
_PLAYBACK = ("idle.time", "increment")
_CLOCK = ("max.jump",)
_CLOCK_EXAMPLE = "@app:clock(max.jump='2 years')"
_PLAYBACK_EXAMPLE = "@app:playback(idle.time='100 millisec', increment='2 sec')"


def check_app_annotations(names: Names, app: ast.SiddhiApp) -> ClockSetting:
    """Check ``@app:…``: those with a meaning are written once, and ``@app:playback`` as a whole or bare.

    Returns
    -------
    ClockSetting
        What they say of the clock.
    """
    seen: set[str] = set()
    for annotation in app.annotations:
        key = annotation.name.lower()
        if key in seen and key in _ONCE:
            names.refuse(
                DuplicateDefinitionError,
                f"'@{annotation.name}' is written twice",
                annotation.span,
                code=ErrorKind.DUPLICATE_ANNOTATION,
            )
        seen.add(key)
        if key == "app:async":
            hint = "Put @async on the streams."
            names.refuse(SiddhiTypeError, "'@app:async' is not part of Siddhi any more", annotation.span, hint)
        elif key == "app:playback":
            _check_times(names, annotation, _PLAYBACK, _PLAYBACK_EXAMPLE)
            if (annotation.get("idle.time") is None) != (annotation.get("increment") is None):
                hint = f"For example: {_PLAYBACK_EXAMPLE}"
                names.refuse(AppValidationError, "'idle.time' and 'increment' come together", annotation.span, hint)
        elif key == "app:clock":
            _check_times(names, annotation, _CLOCK, _CLOCK_EXAMPLE)
        elif key == "app:statistics":
            _check_number(names, annotation, "interval", 0)
    return _clock_of(app)


def _clock_of(app: ast.SiddhiApp) -> ClockSetting:
    """Return what annotations that have been checked say of the clock."""
    said = {
        (element.key or "").lower(): read_time(element.value)
        for name in ("app:playback", "app:clock")
        for annotation in ast.find_annotations(app.annotations, name)
        for element in annotation.elements
    }
    set_here = {"max.jump": "max_jump_ms", "idle.time": "idle_ms", "increment": "increment_ms"}
    # A wrong time was reported and counts as not written
    setting = ClockSetting(**{set_here[key]: time for key, time in said.items() if key in set_here and time})
    return replace(setting, max_ahead_ms=setting.max_jump_ms) if said.get("max.jump") else setting


def _check_times(names: Names, annotation: ast.Annotation, known: tuple[str, ...], example: str) -> None:
    """Check that an annotation has no elements but these, and that each is a time."""
    for element in annotation.elements:
        place = element.span or annotation.span
        if (element.key or "").lower() not in known:
            message = f"'@{annotation.name}' knows no '{element.key or element.value}'"
            hint = suggestion(element.key or "", known) or f"For example: {example}"
            names.refuse(AppValidationError, message, annotation.span, hint)
        elif (time := read_time(element.value)) is None:
            names.refuse(SiddhiSyntaxError, f"'{element.value}' is no time", place, f"For example: {example}")
        elif not time:
            message = f"'{element.key}' of '@{annotation.name}' is at least 1 ms"
            names.refuse(AppValidationError, message, place, f"For example: {example}")


def _check_number(names: Names, annotation: ast.Annotation, key: str, least: int) -> None:
    value = annotation.get(key)
    if value is None or whole_number(value, least) is not None:
        return
    message = f"'{key}' of '@{annotation.name}' is a whole number of at least {least}, not '{value}'"
    names.refuse(SiddhiTypeError, message, annotation.span)


def check_definition_annotations(names: Names, definition: ast.Definition) -> None:
    """Check the annotations of a definition."""
    for annotation in definition.annotations:
        if annotation.name.lower() in ("source", "sink", "store"):
            check_references(names, annotation)
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
        hint = "For example: @purge(enable='true', interval='10 sec', idle.period='1 hour')"
        for key in ("interval", "idle.period"):
            value = purge.get(key)
            if value is not None and read_time(value) is None:
                names.refuse(AppValidationError, f"'{value}' is no time", purge.span, hint)
            elif key == "interval" and value is not None and read_time(value) == 0:
                names.refuse(AppValidationError, "'interval' of '@purge' is at least 1 ms", purge.span, hint)
        if (purge.get("enable") or "true").lower() not in ("true", "false"):
            names.refuse(SiddhiTypeError, "'enable' is 'true' or 'false'", purge.span)


def _check_stream(names: Names, stream: ast.StreamDefinition, schema: Schema) -> None:
    handlers = ast.find_annotations(stream.annotations, "OnError")
    for on_error in handlers:
        action = on_error.get("action")
        hint = f"It is one of {', '.join(_STREAM_ERRORS)}."
        if action is None:
            names.refuse(SiddhiTypeError, "'@OnError' has no 'action'", on_error.span, hint)
        elif action.upper() not in _STREAM_ERRORS:
            message = f"'{action}' is no action of '@OnError'"
            names.refuse(SiddhiTypeError, message, on_error.span, suggestion(action.upper(), _STREAM_ERRORS) or hint)
        elif action.upper() == "STREAM" and schema.index("_error") is not None:
            message = f"The fault stream '!{stream.name}' adds an attribute '_error', and there is one already"
            names.refuse(DuplicateDefinitionError, message, on_error.span, "Give yours another name.")
    _check_once(names, handlers)
    asynchronous = ast.find_annotations(stream.annotations, "async")
    _check_once(names, asynchronous)
    for annotation in asynchronous:
        for key in ("buffer.size", "workers", "batch.size.max"):
            _check_number(names, annotation, key, 0 if key == "buffer.size" else 1)
    check_transports(names, stream)


def _check_once(names: Names, annotations: tuple[ast.Annotation, ...]) -> None:
    for repeated in annotations[1:]:
        names.refuse(
            DuplicateDefinitionError,
            f"'@{repeated.name}' is written twice",
            repeated.span,
            code=ErrorKind.DUPLICATE_ANNOTATION,
        )


def _check_table(names: Names, table: ast.TableDefinition, schema: Schema) -> None:
    keys = ast.find_annotations(table.annotations, "PrimaryKey")
    for repeated in keys[1:]:
        names.refuse(
            DuplicateDefinitionError,
            "'@PrimaryKey' is written twice",
            repeated.span,
            "It takes several names.",
            code=ErrorKind.DUPLICATE_ANNOTATION,
        )
    for key in keys:
        if not key.elements:
            names.refuse(AppValidationError, "'@PrimaryKey' names no attribute", key.span)
            continue
        _check_attributes(names, key, tuple(element.value.strip() for element in key.elements), schema)
    indexed: set[str] = set()
    for index in ast.find_annotations(table.annotations, "Index"):
        if len(index.elements) != 1:
            hint = "Write one @Index for each attribute."
            names.refuse(AppValidationError, "'@Index' takes one attribute", index.span, hint)
        elif index.elements[0].value.strip() in indexed:
            names.refuse(AppValidationError, "There is an index on this attribute already", index.span)
        indexed.update(element.value.strip() for element in index.elements)
        if index.elements:
            _check_attributes(names, index, tuple(element.value.strip() for element in index.elements), schema)
    for store in ast.find_annotations(table.annotations, "Store"):
        if store.get("type") is None and store.get("ref") is None:
            names.refuse(SiddhiTypeError, "'@Store' has no 'type'", store.span, "For example: @Store(type='rdbms', …)")
    for old in ast.find_annotations(table.annotations, "IndexBy"):
        names.refuse(
            SiddhiAppError,
            "'@IndexBy' is not part of Siddhi any more",
            old.span,
            "Write @Index.",
            code=ErrorKind.UNSUPPORTED,
        )


def _check_attributes(names: Names, annotation: ast.Annotation, wanted: tuple[str, ...], schema: Schema) -> None:
    if not wanted:
        names.refuse(SiddhiTypeError, f"'@{annotation.name}' names no attribute", annotation.span)
    for name in wanted:
        if schema.index(name) is None:
            hint = suggestion(name, schema.names)
            names.refuse(
                UndefinedNameError,
                f"There is no attribute '{name}'",
                annotation.span,
                hint,
                code=ErrorKind.UNDEFINED_ATTRIBUTE,
            )


# ``${secret:NAME}`` in the options of sources, sinks and stores: where it may stand, and what else looks like it.


_REFERENCE = re.compile(r"\$\{\s*(env|file|sys|sec|secret)\s*:([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
#: A whole value that was once read as a variable or a file.
_BARE = re.compile(r"\s*(env|file):(.+)")
_LOGIN = re.compile(r"password|secret|token|username|consumer\.key", re.IGNORECASE)


def check_references(names: Names, annotation: ast.Annotation) -> None:
    """Check ``@source``, ``@sink`` or ``@store`` and what is nested in it."""
    kind = annotation.get("type") or ""
    declared = connector(kind) or store_types().get(kind)
    known = None if declared is None else declared.secrets
    for own, nested in _all(annotation):
        # What becomes part of messages holds no secret, whichever connector sends them
        message_part = nested.name.lower() in ("map", "payload", "attributes")
        for element in nested.elements:
            key = (element.key or "").lower()
            # Of a type that no connector declares, any option may be a login
            may = () if message_part else (key,) if known is None else known
            may = (*may, key) if "option.*" in may and key.startswith("option.") else may
            told = _wrong(f"'{element.key or own}' of '@{nested.name}'", key, element.value, may)
            if told is not None:
                names.refuse(AppValidationError, told[0], element.span or nested.span, told[1])


def _all(annotation: ast.Annotation) -> Iterator[tuple[str, ast.Annotation]]:
    yield annotation.name, annotation
    for nested in annotation.annotations:
        yield from _all(nested)


def _wrong(what: str, key: str, value: str, may: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what is wrong with an option's references, and what to write; None where nothing is."""
    bare = _BARE.fullmatch(value) if _LOGIN.search(key) else None
    found = [bare] if bare is not None else list(_REFERENCE.finditer(value))
    for one in found:
        kind, name = one[1], one[2].strip()
        if kind != "secret":
            wanted = name if kind != "file" and _NAME.fullmatch(name) else "NAME"
            source = f"${{file:{name}}}" if kind == "file" else f"${{env:{name if kind == 'env' else 'VARIABLE'}}}"
            hint = f"Write ${{secret:{wanted}}}, and in deployment.yaml: siddhi.secrets: {{{wanted}: '{source}'}}."
            if key not in may:
                hint = _where(may)
            return f"{what} names a variable or file of the node, which an app never sees", hint
        if not _NAME.fullmatch(one[2]) or not one[0].endswith("}"):
            return f"{what} names no secret", "Write ${secret:NAME}, with a name of siddhi.secrets in deployment.yaml."
        if key not in may:
            return f"{what} cannot hold a secret, as it is sent or shown", _where(may)
    return None


def _where(may: tuple[str, ...]) -> str:
    return f"Secrets stand in {', '.join(may)}." if may else "Nothing of this kind takes a secret."
