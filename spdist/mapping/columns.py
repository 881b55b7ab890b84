"""Many payloads at once: what the mappings of `spdist.mapping.mappers` do one by one, only faster.

Payloads in the form that WSO2's json mapping writes are read and checked column by column, and so are events written.
Whatever is unusual (an array, a null where a text is, a number of another type, an unknown attribute …) goes to the
mapping itself, payload by payload, so that the results are its results: tests/properties/test_mapping_laws.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any

import orjson

from spdist.errors import MappingError
from spdist.functions.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, float32
from spdist.language.types import Type
from spdist.mapping.base import Lost, MapSetting
from spdist.mapping.json_payloads import json_text
from spdist.mapping.mappers import sink_mapper, source_mapper

__all__ = ["BatchReader", "BatchWriter", "Failed"]

Row = tuple[Any, ...]
#: Told the number of a payload that cannot be read, or of an event that cannot be written, and why.
Failed = Callable[[int, MappingError], None]

_EVENT = "event"
_NULL = type(None)
#: Beyond it what was read as a real number may have been written as a whole one.
_SURELY_REAL = 2.0**63
_RANGES = {Type.INT: (INT_MIN, INT_MAX), Type.LONG: (LONG_MIN, LONG_MAX)}
_TYPES: dict[Type, set[type]] = {
    Type.STRING: {str, _NULL},
    Type.INT: {int, _NULL},
    Type.LONG: {int, _NULL},
    Type.FLOAT: {float, _NULL},
    Type.DOUBLE: {float, _NULL},
    Type.BOOL: {bool, _NULL},
}


def _is_plain(setting: MapSetting, nested: str) -> bool:
    """Tell whether a mapping is json without anything that changes the form of an event."""
    plain = setting.text("enclosing.element", "$") == "$" and setting.nested(nested) is None
    known = all(type in _TYPES for type in setting.schema.types)
    return setting.text("type", "passThrough") == "json" and plain and known


class BatchReader:
    """Reads many payloads of one source.

    Parameters
    ----------
    setting : MapSetting
        The mapping.

    State
    -----
    That of the mapping: ``mapper``.
    """

    def __init__(self, setting: MapSetting) -> None:
        self.mapper = source_mapper(setting)
        self._schema = setting.schema
        self._quick = _is_plain(setting, "attributes") and len(setting.schema) > 0
        names = setting.schema.names
        self._pick: Callable[[Any], Row] = itemgetter(*names) if len(names) > 1 else lambda event: (event[names[0]],)

    def read(self, payloads: Sequence[Any], now: int, lost: Lost, failed: Failed) -> tuple[list[Row], Sequence[int]]:
        """Return the rows of all payloads, and for each the number of its payload; those of one are one chunk.

        Parameters
        ----------
        payloads : Sequence[Any]
            What the transport received, without properties.
        now : int
            See `spdist.mapping.base.SourceMapper`; the timestamp of all events.
        lost : Callable
            Told of each event that is left out.
        failed : Callable
            Told of each payload that cannot be read.
        """
        rows = self.rows(payloads)
        slow = [number for number, row in enumerate(rows) if row is None]
        if not slow:
            return rows, range(len(rows))  # type: ignore[return-value]
        made: list[Row] = []
        numbers: list[int] = []
        for number, row in enumerate(rows):
            several = [row] if row is not None else self._read(number, payloads[number], now, lost, failed)
            made += several
            numbers += [number] * len(several)
        return made, numbers

    def _read(self, number: int, payload: Any, now: int, lost: Lost, failed: Failed) -> list[Row]:
        try:
            return [row for chunk in self.mapper.read(payload, {}, now, lost) for _, row in chunk]
        except MappingError as error:
            failed(number, error)
            return []

    def rows(self, payloads: Sequence[Any]) -> list[Row | None]:
        """Return the row of each payload that holds one event in the usual form; None where `mapper` is to be asked."""
        if not self._quick or not set(map(type, payloads)) <= {bytes, str}:
            return [None] * len(payloads)
        loads, pick, width = orjson.loads, self._pick, len(self._schema)
        rows: list[Row | None] = []
        for payload in payloads:
            row = None
            try:
                tree = loads(payload)
                event = tree[_EVENT] if len(tree) == 1 else tree
                if len(event) == width:
                    row = pick(event)
            except (ValueError, LookupError, TypeError):
                pass
            rows.append(row)
        return self._checked(rows)

    def _checked(self, rows: list[Row | None]) -> list[Row | None]:
        there = rows if None not in rows else [row for row in rows if row is not None]
        if not there:
            return rows
        columns = list(zip(*there, strict=True))
        if not all(map(_fits, self._schema.types, columns)):
            kinds = self._schema.types
            return self._narrowed(
                [row if row is not None and all(map(_fits, kinds, zip(row, strict=True))) else None for row in rows]
            )
        return self._narrowed(rows)

    def _narrowed(self, rows: list[Row | None]) -> list[Row | None]:
        """Return rows with floats of 32 bits."""
        floats = [place for place, kind in enumerate(self._schema.types) if kind is Type.FLOAT]
        if not floats:
            return rows
        made: list[Row | None] = []
        for row in rows:
            if row is not None:
                values = list(row)
                for place in floats:
                    values[place] = None if row[place] is None else float32(row[place])
                row = tuple(values)
            made.append(row)
        return made


def _fits(kind: Type, column: Sequence[Any]) -> bool:
    """Tell whether all values of a column are surely what the mapping takes for this type."""
    types = set(map(type, column))
    if not types <= _TYPES[kind]:
        return False
    if kind in (Type.STRING, Type.BOOL) or types == {_NULL}:
        return True
    values = column if _NULL not in types else [value for value in column if value is not None]
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return bool(low <= min(values) and max(values) <= high)
    least, most = min(values), max(values)
    return bool(least > -_SURELY_REAL and most < _SURELY_REAL)


class BatchWriter:
    """Writes many events of one sink, each as a chunk of its own.

    Parameters
    ----------
    setting : MapSetting
        The mapping.

    State
    -----
    That of the mapping: ``mapper``.
    """

    def __init__(self, setting: MapSetting) -> None:
        self.mapper = sink_mapper(setting)
        self._types = setting.schema.types
        self._quick = _is_plain(setting, "payload") and not setting.flag("validate.json", False)
        fields = ",".join(f"{json.dumps(name)}:".replace("%", "%%") + "%s" for name in setting.schema.names)
        self._form = f'{{"{_EVENT}":{{{fields}}}}}'

    def write(self, events: Sequence[tuple[int, Row]], failed: Failed) -> list[list[Any]]:
        """Return the payloads of each event; none where it cannot be written, which `failed` is told."""
        if self._quick and events:
            columns = zip(*(row for _, row in events), strict=True)
            texts = [_texts(kind, column) for kind, column in zip(self._types, columns, strict=True)]
            form = self._form
            return [[form % values] for values in zip(*texts, strict=True)]
        return [self._write(number, event, failed) for number, event in enumerate(events)]

    def _write(self, number: int, event: tuple[int, Row], failed: Failed) -> list[Any]:
        try:
            return self.mapper.write((event,))
        except MappingError as error:
            failed(number, error)
            return []


def _texts(kind: Type, column: Sequence[Any]) -> list[str]:
    """Return the values of a column as the json mapping writes them."""
    types = set(map(type, column))
    if types == {str}:
        return list(map(encode_basestring, column))
    if types == {int}:
        return list(map(str, column))
    if types == {float} and kind is Type.DOUBLE:
        texts = orjson.dumps(column).decode()[1:-1].split(",")
        for place, value in enumerate(column):
            if not (0.001 <= value < 1e7 or -1e7 < value <= -0.001):
                texts[place] = json_text(value, kind)
        return texts
    return [json_text(value, kind) for value in column]
