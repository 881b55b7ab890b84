"""``keyvalue``: events as maps.

Source: io.siddhi.extension.map.keyvalue (its documentation), described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spdist.java.numbers import float32
from spdist.language.types import Type
from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, Stateless, mapped_attributes, readable
from spdist.mapping.bounds import check_events, shown
from spdist.mapping.templates import Template
from spdist.mapping.values import read_text

__all__ = ["KeyValueSink", "KeyValueSource"]

_KINDS: dict[Type, tuple[type, ...]] = {
    Type.STRING: (str,),
    Type.INT: (int,),
    Type.LONG: (int,),
    Type.FLOAT: (int, float),
    Type.DOUBLE: (int, float),
    Type.BOOL: (bool,),
}


class KeyValueSink(Stateless):
    """Writes events as maps from attribute to value; ``@payload(key='attribute', other='{{a}} of {{b}}')``."""

    def __init__(self, setting: MapSetting) -> None:
        payload = setting.nested("payload")
        if payload is None:
            written = [(name, name) for name in setting.schema.names]
        else:
            written = [(element.key or str(n), element.value) for n, element in enumerate(payload.elements)]
        self._fields = [(key, self._value(text, setting)) for key, text in written]

    @staticmethod
    def _value(text: str, setting: MapSetting) -> Callable[[tuple[Any, ...]], Any]:
        position = setting.schema.index(text.removeprefix("{{").removesuffix("}}"))
        # An attribute alone, in braces or not, keeps the type of its value; a template makes a text.
        return Template(text, setting.schema).fill if position is None else lambda row: row[position]

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return one map for each event."""
        return [{key: value(row) for key, value in self._fields} for _, row in events]


class KeyValueSource(Stateless):
    """Reads events from maps, one or a list of them.

    Options: ``fail.on.missing.attribute`` (true), ``implicit.cast.enable`` (false: a value must be of its type),
    ``@attributes(a='key')``.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._fail = setting.flag("fail.on.missing.attribute", True)
        self._cast = setting.flag("implicit.cast.enable", False)
        self._keys = mapped_attributes(setting) or setting.schema.names

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the payload's events as one chunk."""
        if not isinstance(payload, Mapping | list | tuple):
            raise self._setting.bad(f"keyvalue takes a map, not {type(payload).__name__}")
        maps = [payload] if isinstance(payload, Mapping) else payload
        check_events(maps)
        events = [(now, row) for row in readable(lambda one: self._row(one, properties), maps, lost)]
        return [events] if events else []

    def _row(self, one: Any, properties: Mapping[str, Any]) -> tuple[Any, ...]:
        if not isinstance(one, Mapping):
            raise self._setting.bad(f"keyvalue takes a map, not {type(one).__name__}")
        row: list[Any] = []
        for (name, kind), key in zip(self._setting.schema, self._keys, strict=True):
            given, key = (properties, key[4:]) if key.startswith(TRANSPORT_PREFIX) else (one, key)
            if given.get(key) is None and self._fail:
                raise self._setting.bad(f"the attribute '{name}' is missing")
            row.append(self._typed(name, given.get(key), kind))
        return tuple(row)

    def _typed(self, name: str, value: Any, kind: Type) -> Any:
        if value is None or kind is Type.OBJECT:
            return value
        # To Python a bool is an int, to Java it is none.
        fits = isinstance(value, _KINDS[kind]) and (kind is Type.BOOL or not isinstance(value, bool))
        if fits:
            if kind in (Type.FLOAT, Type.DOUBLE):
                return float32(float(value)) if kind is Type.FLOAT else float(value)
            return value
        if self._cast and isinstance(value, str):
            try:
                return read_text(value, kind)
            except ValueError as error:
                raise self._setting.bad(f"'{name}': {error}") from error
        raise self._setting.bad(f"'{name}' is no {kind}: {shown(value)}")
