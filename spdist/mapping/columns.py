"""Many payloads at once: what the mappings of `spdist.mapping.mappers` do one by one, only faster.

Payloads in the form that WSO2's json mapping writes are read and checked column by column, and so are events written;
plain lines of csv are read without a parser of their own.
Whatever is unusual (an array, a null where a text is, a number of another type, an unknown attribute …) goes to the
mapping itself, payload by payload, so that the results are its results: tests/properties/test_mapping_laws.py.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any

import orjson

from spdist.errors import MappingError
from spdist.functions.numbers import float32
from spdist.language.types import Type
from spdist.mapping.base import Event, Lost, MapSetting
from spdist.mapping.csv_payloads import CsvSource
from spdist.mapping.json_payloads import json_text
from spdist.mapping.mappers import sink_mapper, source_mapper

__all__ = ["BatchReader", "BatchWriter", "Failed", "Unwritten"]

Row = tuple[Any, ...]
#: Told the number of a payload that cannot be read, and why.
Failed = Callable[[int, MappingError], None]
#: Told the number of the first event of a chunk that cannot be written, the chunk, and why.
Unwritten = Callable[[int, Sequence[Event], Exception], None]

_EVENT = "event"
_NULL = type(None)
#: Beyond it what was read as a real number may have been written as a whole one.
_SURELY_REAL = 2.0**63
#: Java writes positive numbers from the one up to the other without an exponent.
_PLAIN_FROM, _PLAIN_TO = 0.001, 1e7
#: Of arrays that take the numbers of a type and no other.
_CODES = {Type.INT: "i", Type.LONG: "q"}
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
        if isinstance(self.mapper, CsvSource):
            return self.mapper.rows(payloads)
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
        kinds = self._schema.types
        if Type.FLOAT not in kinds:
            return rows
        there = [row for row in rows if row is not None]
        columns = zip(*there, strict=True)
        narrow = zip(
            *(_float32s(c) if kind is Type.FLOAT else c for kind, c in zip(kinds, columns, strict=False)), strict=True
        )
        return list(narrow) if len(there) == len(rows) else [row and next(narrow) for row in rows]


def _float32s(column: Sequence[Any]) -> Sequence[Any]:
    """Return real numbers as floats of 32 bits."""
    return array("f", column) if None not in column else [None if v is None else float32(v) for v in column]


def _fits(kind: Type, column: Sequence[Any]) -> bool:
    """Tell whether all values of a column are surely what the mapping takes for this type."""
    types = set(map(type, column))
    if not types <= _TYPES[kind]:
        return False
    if kind in (Type.STRING, Type.BOOL) or types == {_NULL}:
        return True
    values = column if _NULL not in types else [value for value in column if value is not None]
    if kind in _CODES:
        try:
            array(_CODES[kind], values)
        except OverflowError:
            return False
        return True
    least, most = min(values), max(values)
    return bool(least > -_SURELY_REAL and most < _SURELY_REAL)


class BatchWriter:
    """Writes many events of one sink.

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
        plain = _is_plain(setting, "payload") and not setting.flag("validate.json", False)
        self._quick = plain and len(setting.schema) > 0
        self._groups = setting.flag("event.grouping.enabled", True)
        names = [f"{json.dumps(name)}:" for name in setting.schema.names]
        #: What stands in front of each value.
        self._before = [f'{{"{_EVENT}":{{{names[0]}', *(f",{name}" for name in names[1:])] if names else []

    def write(
        self,
        timestamps: Sequence[int],
        rows: Sequence[Row],
        unwritten: Unwritten,
        chunks: Sequence[tuple[int, int]] = (),
    ) -> list[Any]:
        """Return the payloads of all events in order, as the mapping writes them chunk by chunk.

        Parameters
        ----------
        timestamps, rows : Sequence
            The events.
        unwritten : Callable
            Told of each chunk that cannot be written: it has no payload.
        chunks : Sequence of (begin, end)
            Where there are chunks of several events, in order; each other event is a chunk of its own.
        """
        if self._quick and rows:
            columns = zip(*rows, strict=True)
            parts: list[Iterable[str]] = []
            for kind, column, before in zip(self._types, columns, self._before, strict=True):
                parts += (repeat(before), _texts(kind, column))
            each = list(map("".join, zip(*parts, repeat("}}"), strict=False)))
            return _in_arrays(each, chunks) if chunks and self._groups else each
        events = list(zip(timestamps, rows, strict=True))
        made: list[Any] = []
        done = 0
        for begin, end in (*chunks, (len(events), len(events))):
            for number in range(done, begin):
                made += self._write(number, events[number : number + 1], unwritten)
            if end > begin:
                made += self._write(begin, events[begin:end], unwritten)
            done = end
        return made

    def _write(self, number: int, chunk: Sequence[Event], unwritten: Unwritten) -> list[Any]:
        try:
            return self.mapper.write(chunk)
        except Exception as error:  # whoever made the event by itself would have been told, too
            unwritten(number, chunk, error)
            return []


def _in_arrays(texts: list[str], chunks: Sequence[tuple[int, int]]) -> list[str]:
    made: list[str] = []
    done = 0
    for begin, end in chunks:
        made += texts[done:begin]
        made.append(f"[{','.join(texts[begin:end])}]")
        done = end
    return made + texts[done:]


def _texts(kind: Type, column: Sequence[Any]) -> list[str]:
    """Return the values of a column as the json mapping writes them."""
    types = set(map(type, column))
    if types == {str}:
        return list(map(encode_basestring, column))
    if types == {int}:
        return list(map(str, column))
    if types == {float} and kind is Type.DOUBLE:
        texts = orjson.dumps(column).decode()[1:-1].split(",")
        total = sum(column)  # of which NaN would make NaN
        if not (min(column) >= _PLAIN_FROM and max(column) < _PLAIN_TO and total == total):
            for place, value in enumerate(column):
                if not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
                    texts[place] = json_text(value, kind)
        return texts
    return [json_text(value, kind) for value in column]
