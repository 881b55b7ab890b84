"""``json``: events as ``{"event": {"a": 1}}``, or in a form of the app's own.

Where Siddhi writes a null as the text ``undefined``, which no reader takes for a null, a JSON null is written here; a
null that is read is a null.

Source: io.siddhi.extension.map.json.sinkmapper.JsonSinkMapper, io.siddhi.extension.map.json.sourcemapper
.JsonSourceMapper, described in our own words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

from spdist.errors import SiddhiTypeError
from spdist.java.bounds import Room
from spdist.java.json.gson import parse_gson
from spdist.java.json.parse import parse_smart
from spdist.java.json.path import InvalidPathError, JsonPath, PathError
from spdist.java.json.path_text import compile_path
from spdist.java.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, float32, text_of
from spdist.language.types import Type
from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, Stateless, mapped_attributes
from spdist.mapping.bounds import check_depth, check_events, shown
from spdist.mapping.templates import json_template
from spdist.mapping.values import read_text, write_text

__all__ = ["ENVELOPE", "MISSING", "JsonSink", "JsonSource", "find", "is_plain_json", "json_text"]

_ROOT = "$"
#: The name of the only member of an object around an event.
ENVELOPE = "event"


def json_text(value: Any, type: Type = Type.OBJECT, room: Room | None = None) -> str:
    """Return a value as JSON; numbers as Java writes them, and null for what JSON cannot write.

    Raises OverflowError where there is no `room` for an object.
    """
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        room = room or Room()
        if isinstance(value, Mapping):
            room.enter()
            members = [f"{room.fill(encode_basestring(str(k)))}:{json_text(v, room=room)}" for k, v in value.items()]
            return "{" + ",".join(members) + "}"
        room.enter()
        return "[" + ",".join([json_text(part, room=room) for part in value]) + "]"
    text = _plain_text(value, type)
    return text if room is None else room.fill(text)


def _plain_text(value: Any, type: Type) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "null"
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bool | int | float):
        return write_text(value, type)
    return encode_basestring(str(value))


class JsonSink(Stateless):
    """Writes events as JSON.

    Options: ``enclosing.element`` (``$``: nothing around it), ``event.grouping.enabled`` (true: the events of a chunk
    are one array), ``validate.json`` (false: a payload of the app's own is not looked at).
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._grouping = setting.flag("event.grouping.enabled", True)
        self._validate = setting.flag("validate.json", False)
        names = [part for part in setting.text("enclosing.element", _ROOT).removeprefix(_ROOT).split(".") if part]
        self._before = "".join(f"{{{json.dumps(name)}:" for name in names)
        self._after = "}" * len(names)
        self._begin = f'{{"{ENVELOPE}":{{'
        self._fields = [(f"{json.dumps(name)}:", kind) for name, kind in setting.schema]
        payload = setting.nested("payload")
        self._template = None if payload is None else json_template(payload.elements[0].value, setting.schema)

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return one payload, or one for each event where they are not grouped."""
        texts = [self._event(row) for _, row in events]
        if self._grouping and len(texts) > 1:
            texts = ["[" + (",\n" if self._template else ",").join(texts) + "]"]
        payloads = [f"{self._before}{text}{self._after}" for text in texts]
        if self._validate:
            for payload in payloads:
                self._check(payload)
        return payloads

    def _event(self, row: tuple[Any, ...]) -> str:
        if self._template is not None:
            return self._template.fill(row)
        fields = zip(self._fields, row, strict=False)
        return self._begin + ",".join([name + json_text(value, kind) for (name, kind), value in fields]) + "}}"

    def _check(self, payload: str) -> None:
        try:
            json.loads(payload)
        except ValueError as error:
            raise self._setting.bad(f"the payload is no JSON ({error}): {shown(payload)}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"'{name}' is no JSON")


class JsonSource(Stateless):
    """Reads events from JSON: one object, or an array of them, which is one chunk.

    Options: ``enclosing.element`` (``$``), ``fail.on.missing.attribute`` (true: an event without one of its attributes
    is left out), ``@attributes`` with a path for each attribute.

    Notes
    -----
    A single object in the form that `JsonSink` writes must have values of the very types: a double with a fraction, an
    int without one. In arrays, and where paths are given, values are read from their text.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._fail = setting.flag("fail.on.missing.attribute", True)
        enclosing = setting.text("enclosing.element", _ROOT)
        self._enclosing = None if enclosing == _ROOT else (enclosing, _path(enclosing))
        mapped = mapped_attributes(setting)
        self._paths = None if mapped is None else [_mapped(text) for text in mapped]

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the payload's events as one chunk."""
        tree = self._tree(payload)
        rows = self._rows(tree, properties, lost)
        return [[(now, row) for row in rows]] if rows else []

    def _tree(self, payload: Any) -> Any:
        text = self._setting.text_of(payload, "json")
        try:
            # Python's reader takes NaN and Infinity, which JSON has not.
            tree = json.loads(text, parse_constant=_no_constant) if self._paths is None else _permissive(text)
            check_depth(tree, text)
        # Python's reader meets its own limit of recursion before `check_depth` can count.
        except (ValueError, RecursionError) as error:
            raise self._setting.bad(f"this is no JSON that can be read ({error}): {shown(payload)}") from error
        if self._enclosing is not None:
            written, path = self._enclosing
            tree = find(path, tree)
            if tree is MISSING:
                raise self._setting.bad(f"nothing is at '{written}' in {shown(payload)}")
        return tree

    def _rows(self, tree: Any, properties: Mapping[str, Any], lost: Lost) -> list[tuple[Any, ...]]:
        if self._paths is not None:
            elements = tree if isinstance(tree, list) else [tree]
            check_events(elements)
            return [row for element in elements if (row := self._by_paths(element, properties, lost)) is not None]
        if isinstance(tree, list):
            check_events(tree)
            return [row for element in tree if (row := self._lenient(element, lost)) is not None]
        event = self._unwrapped(tree)
        events = event if isinstance(event, list) else [event]
        check_events(events)
        # One event that does not fit raises, and so refuses the payload: nothing here is told to `lost`.
        return [self._strict(one) for one in events]

    def _unwrapped(self, element: Any) -> Any:
        if isinstance(element, dict) and list(element) == [ENVELOPE] and isinstance(element[ENVELOPE], dict | list):
            return element[ENVELOPE]
        return element

    # --- one object ---------------------------------------------------------------------------------------------------

    def _strict(self, event: Any) -> tuple[Any, ...]:
        if not isinstance(event, dict):
            raise self._setting.bad(f"an event is an object, not {shown(event)}")
        schema = self._setting.schema
        unknown = [name for name in event if schema.index(name) is None]
        if unknown:
            raise self._setting.bad(f"there is no attribute '{unknown[0]}'")
        missing = [name for name in schema.names if name not in event]
        if missing and self._fail:
            raise self._setting.bad(f"the attribute '{missing[0]}' is missing")
        return tuple(self._exact(name, event.get(name), type) for name, type in schema)

    def _exact(self, name: str, value: Any, kind: Type) -> Any:
        if value is None or kind is Type.OBJECT:
            return value
        if kind is Type.STRING:
            return _text(value)
        if kind is Type.FLOAT and type(value) in (int, float):
            return float32(float(value))
        low, high = (INT_MIN, INT_MAX) if kind is Type.INT else (LONG_MIN, LONG_MAX)
        # The very type: isinstance would take a bool for an int.
        wanted = {Type.BOOL: bool, Type.DOUBLE: float}.get(kind, int)
        if type(value) is not wanted or (wanted is int and not low <= value <= high):
            raise self._setting.bad(f"'{name}' is no {kind}: {shown(value)}")
        return value

    # --- arrays and paths ---------------------------------------------------------------------------------------------

    def _lenient(self, element: Any, lost: Lost) -> tuple[Any, ...] | None:
        event = self._unwrapped(element)
        if not isinstance(event, dict):
            raise self._setting.bad(f"an event is an object, not {shown(event)}")
        return self._row(lambda name, _: event.get(name, MISSING), lost)

    def _by_paths(self, element: Any, properties: Mapping[str, Any], lost: Lost) -> tuple[Any, ...] | None:
        # `_row` asks for the attributes in the order of the schema, as the paths are.
        paths = iter(self._paths or ())

        def value(_name: str, _type: Type) -> Any:
            path = next(paths)
            return find(path, element) if isinstance(path, JsonPath) else properties.get(path, MISSING)

        return self._row(value, lost)

    def _row(self, value_of: Callable[[str, Type], Any], lost: Lost) -> tuple[Any, ...] | None:
        row: list[Any] = []
        absent: list[str] = []
        for name, kind in self._setting.schema:
            value = value_of(name, kind)
            if value is MISSING:
                absent.append(name)
                value = None
            row.append(None if value is None else self._read(name, value, kind))
        if absent and self._fail:
            lost(self._setting.bad(f"the attribute '{absent[0]}' is missing"))
            return None
        return tuple(row)

    def _read(self, name: str, value: Any, kind: Type) -> Any:
        try:
            return read_text(_text(value), kind)
        except ValueError as error:
            raise self._setting.bad(f"'{name}': {error}") from error


def is_plain_json(setting: MapSetting, nested: str) -> bool:
    """Tell whether a mapping is json with all events in its usual form, of attributes whose types have one in JSON.

    `nested` is the annotation that would give them another form: ``attributes`` or ``payload``.
    """
    usual = setting.text("type", "passThrough") == "json" and setting.text("enclosing.element", _ROOT) == _ROOT
    schema = setting.schema
    return usual and setting.nested(nested) is None and len(schema) > 0 and Type.OBJECT not in schema.types


def _text(value: Any) -> str:
    return (
        value if isinstance(value, str) else text_of(value) if not isinstance(value, dict | list) else json_text(value)
    )


def _permissive(text: str) -> Any:
    """Return what paths look into: bare words and single quotes too, where both of the readers that Siddhi uses do."""
    # Only for its refusal: what it parses is thrown away.
    parse_gson(text)
    return parse_smart(text)


def _mapped(text: str) -> JsonPath | str:
    if text.startswith(TRANSPORT_PREFIX):
        return text.removeprefix(TRANSPORT_PREFIX)
    return _path(text)


def _path(text: str) -> JsonPath:
    try:
        return compile_path(text)
    except InvalidPathError as error:
        raise SiddhiTypeError(f"'{text}' is no path", hint="for example: $.a.b[0] or $.list[*].v") from error


# Paths into the JSON of a payload, by the reader of `spdist.java.json.path`: what is missing is no error here.


#: What a path gives where it leads nowhere.
MISSING = object()


def find(path: JsonPath, tree: Any) -> Any:
    """Return what is at `path` in a parsed JSON text, a list where it may name several places, or `MISSING`."""
    # A path into null leads nowhere, also the path of the root.
    if tree is None:
        return MISSING
    try:
        return path.read(tree, tree)
    except PathError:
        return MISSING
