"""Many payloads read together: what the mappings of `spdist.mapping.mappers` do one by one, only faster.

Payloads in the form that WSO2's json mapping writes are read and checked column by column; plain lines of csv are read
without a parser of their own.
Whatever is unusual (an array, a null where a text is, a number of another type, an unknown attribute …) goes to the
mapping itself, payload by payload, so that the results are its results: tests/properties/test_mapping_laws.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import orjson

from spdist.errors import MappingError
from spdist.java.numbers import float32
from spdist.language.types import Type
from spdist.mapping.base import Lost, MapSetting
from spdist.mapping.csv_payloads import CsvSource
from spdist.mapping.json_payloads import ENVELOPE, is_plain_json
from spdist.mapping.mappers import source_mapper

__all__ = ["SURELY_REAL", "BatchReader", "Failed", "Row"]

Row = tuple[Any, ...]
#: Told the number of a payload that cannot be read, and why.
Failed = Callable[[int, MappingError], None]

_NULL = type(None)
#: Payloads that are read together. Of more of them the trees would not fit into the processor's nearest memory.
_TOGETHER = 256
_of_envelope = itemgetter(ENVELOPE)
_first = itemgetter(0)
#: With what all payloads begin that are read together: bytes or texts.
_BRACES: tuple[set[Any], ...] = ({ord("{")}, {"{"})
#: With what an array begins in a payload that begins with a brace, without this space; some texts hold that, too.
_ARRAYS, _SPACE = (b":[", b",["), b" \t\r\n"
#: Beyond it what was read as a real number may have been written as a whole one.
SURELY_REAL = 2.0**63
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


class BatchReader:
    """Reads many payloads of one source.

    Parameters
    ----------
    setting : MapSetting
        The mapping.

    Attributes
    ----------
    plain : bool
        Whether payloads in the form that WSO2's json mapping writes are read by columns.

    State
    -----
    That of the mapping: ``mapper``.
    """

    def __init__(self, setting: MapSetting) -> None:
        self.mapper = source_mapper(setting)
        self._schema = setting.schema
        self._largest = setting.max_bytes
        self.plain = is_plain_json(setting, "attributes")
        names = setting.schema.names
        self._getters = [itemgetter(name) for name in names]
        # With one name itemgetter returns the bare value and no tuple.
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
        if isinstance(self.mapper.mapper, CsvSource):
            return self.mapper.mapper.rows(payloads, self._largest)
        if not self.plain or not set(map(type, payloads)) <= {bytes, str}:
            return [None] * len(payloads)
        rows: list[Row | None] = []
        for start in range(0, len(payloads), _TOGETHER):
            part = payloads[start : start + _TOGETHER]
            # One unusual payload sends only the part around it to the slower way.
            rows += self._together(part) or self._each(part)
        return rows

    def _together(self, payloads: Sequence[Any]) -> Sequence[Row]:
        """Return the row of each payload where all hold one event in the same usual form; else nothing."""
        try:
            trees = _joined(payloads, self._largest)
            events = list(map(_of_envelope, trees)) if set(map(len, trees)) == {1} else trees
            if set(map(len, events)) != {len(self._getters)}:
                return ()
            return self._fitting([list(map(get, events)) for get in self._getters])
        except Exception:  # the mapping says of which payload it is, and why
            return ()

    def _each(self, payloads: Sequence[Any]) -> list[Row | None]:
        """Return the row of each payload that holds one event in the usual form, whatever the others hold."""
        loads, pick, width = orjson.loads, self._pick, len(self._getters)
        rows: list[Row | None] = []
        for payload in payloads:
            row = None
            try:
                if len(payload) <= self._largest:
                    tree = loads(payload)
                    event = tree[ENVELOPE] if len(tree) == 1 else tree
                    if len(event) == width:
                        row = pick(event)
            except Exception:  # the mapping says why
                pass
            rows.append(row)
        there = [row for row in rows if row is not None]
        # All rows together first; if one value does not fit, each row for itself, so that the others stay fast.
        made = iter(self._fitting(list(zip(*there, strict=True))) or map(self._fitting_alone, there))
        # A row of the usual form is never empty, and so true: `made` has one entry for each.
        return [row and next(made) for row in rows]

    def _fitting_alone(self, row: Row) -> Row | None:
        return next(iter(self._fitting([(value,) for value in row])), None)

    def _fitting(self, columns: Sequence[Sequence[Any]]) -> Sequence[Row]:
        """Return the rows of columns that hold only values that are surely of their types; else nothing."""
        kinds = self._schema.types
        if not all(map(_fits, kinds, columns)):
            return ()
        return list(zip(*map(_narrowed, kinds, columns), strict=True))


def _joined(payloads: Sequence[Any], largest: int) -> list[Any]:
    """Return the trees of payloads; raises ValueError where it is not sure that each is one object, not too large.

    They are read as one array. As the newline between two is in no text, and as there is no array in them, their comma
    parts elements, or it parts entries of an object: not before a brace. So each payload is one element or more, and
    one where there are as many elements as payloads.
    """
    if set(map(_first, payloads)) not in _BRACES:
        raise ValueError("not all begin with a brace")
    joined = b",\n".join(payloads) if type(payloads[0]) is bytes else ",\n".join(payloads).encode()
    # The sum bounds each: of usual payloads no single length is looked at.
    if len(joined) > largest and max(map(len, payloads)) > largest:
        raise ValueError("one is too large")
    # Payloads without any bracket, the usual ones, are not copied without their spaces.
    if b"[" in joined and any(map(joined.translate(None, _SPACE).__contains__, _ARRAYS)):
        raise ValueError("there may be an array")
    trees: list[Any] = orjson.loads(b"[%b]" % joined)
    if len(trees) != len(payloads):
        raise ValueError("some are more than one object")
    return trees


def _narrowed(kind: Type, column: Sequence[Any]) -> Sequence[Any]:
    """Return a column, real numbers of 32 bits as such."""
    return column if kind is not Type.FLOAT else _float32s(column)


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
            # Only for its OverflowError: one call tells for all numbers whether they are in range.
            array(_CODES[kind], values)
        except OverflowError:
            return False
        return True
    least, most = min(values), max(values)
    # NaN is in no JSON, so the least and the greatest bound all values.
    return bool(least > -SURELY_REAL and most < SURELY_REAL)
