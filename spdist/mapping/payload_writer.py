"""Many events written together, JSON column by column: by Arrow and numpy, for the most part without the GIL.

What the json mapping writes event by event is written here column by column, and put together by Arrow. The texts are
octets in one Arrow array, in which form they are sent by those who send many; nobody else has to know that.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from json.encoder import encode_basestring
from math import nan
from typing import Any, overload

import numpy
import orjson
import pyarrow as pa

from spdist.language.types import Schema, Type
from spdist.mapping.base import Event, MapSetting
from spdist.mapping.columns import OCTETS, ColumnarRows, all_rows, bounds, joined, octets_of, octets_within
from spdist.mapping.json_payloads import ENVELOPE, is_plain_json, json_text
from spdist.mapping.mappers import sink_mapper

__all__ = ["JsonTexts", "PayloadWriter", "Unwritten", "together"]

Row = tuple[Any, ...]
#: Told the number of the first event of a chunk that cannot be written, the chunk, and why.
Unwritten = Callable[[int, Sequence[Event], Exception], None]

_NULL = type(None)
#: Java writes positive numbers from the one up to the other without an exponent, and zero.
_PLAIN_FROM, _PLAIN_TO = 0.001, 1e7
#: Up to here it writes no more digits of large doubles than tell them apart.
_SHORTEST_TO = 2.0**53
#: What an event is in its payload: all of it, or the first or another one of an array; what stands before and behind.
_ALONE, _FIRST, _OTHER = range(3)
_BEFORE, _BEHIND = pa.array([b"", b"[", b","], OCTETS), pa.array([b"", b"]"], OCTETS)


class PayloadWriter:
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
        self._schema = setting.schema
        #: Whether events are written here, and not by the mapping: no timestamps are needed then.
        self.quick = is_plain_json(setting, "payload") and not setting.flag("validate.json", False)
        self._groups = setting.flag("event.grouping.enabled", True)

    def write(
        self,
        timestamps: Sequence[int],
        rows: Sequence[Row],
        unwritten: Unwritten,
        chunks: Sequence[tuple[int, int]] = (),
    ) -> Sequence[Any]:
        """Return the payloads of all events in order, as the mapping writes them chunk by chunk.

        Parameters
        ----------
        timestamps, rows : Sequence
            The events; where the writer is `quick` timestamps may be missing.
        unwritten : Callable
            Told of each chunk that cannot be written: it has no payload.
        chunks : Sequence of (begin, end)
            Where there are chunks of several events, in order; each other event is a chunk of its own.
        """
        if self.quick and rows:
            return JsonTexts.grouped(self._schema, rows, chunks if self._groups else ())
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

    def chunks(self, rows: ColumnarRows, bounds: Any) -> Sequence[Any]:
        """Return the payloads of many chunks, at least one, where the writer is `quick`.

        Parameters
        ----------
        rows : ColumnarRows
            The events.
        bounds : numpy.ndarray
            At which of them each chunk begins, and where the last one ends.
        """
        return JsonTexts(self._schema, rows, bounds if self._groups else numpy.arange(len(rows) + 1))

    def _write(self, number: int, chunk: Sequence[Event], unwritten: Unwritten) -> list[Any]:
        try:
            return self.mapper.write(chunk)
        except Exception as error:  # whoever made the event by itself would have been told, too
            unwritten(number, chunk, error)
            return []


class JsonTexts(Sequence[str]):
    """The payloads of events as WSO2's json mapping writes them, made when somebody asks for them.

    Parameters
    ----------
    schema : Schema
        The attributes, at least one.
    rows : Sequence of tuple
        Their values; nobody changes them any more.
    bounds : numpy.ndarray
        At which row each payload begins, and where the last one ends, ascending; a payload of several rows is an array.
    """

    def __init__(self, schema: Schema, rows: Sequence[Row], bounds: Any) -> None:
        self._schema = schema
        self._rows = rows
        self._bounds = bounds

    @classmethod
    def grouped(cls, schema: Schema, rows: Sequence[Row], chunks: Sequence[tuple[int, int]]) -> JsonTexts:
        """Return the payloads of rows some of which are an array together: ``(begin, end)`` for each, in order."""
        begins, ends = numpy.array(chunks, numpy.int64).reshape(-1, 2).T
        inside = numpy.zeros(len(rows) + 2, numpy.int8)
        inside[begins + 1] += 1
        inside[ends] -= 1
        return cls(schema, rows, numpy.flatnonzero(inside[:-1].cumsum(dtype=numpy.int8) == 0))

    @classmethod
    def following(cls, parts: Sequence[JsonTexts]) -> JsonTexts:
        """Return the payloads of several, at least one, all of the same attributes, as those of one."""
        rows = all_rows([one._rows for one in parts])
        starts = accumulate((len(one._rows) for one in parts), initial=0)
        bounds = [one._bounds[:-1] + start for one, start in zip(parts, starts, strict=False)]
        return cls(parts[0]._schema, rows, numpy.concatenate([*bounds, [len(rows)]]))

    def __len__(self) -> int:
        """Return the number of payloads."""
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> JsonTexts: ...
    def __getitem__(self, place: int | slice) -> str | JsonTexts:
        """Return a payload, or some of them."""
        if not isinstance(place, slice):
            number = range(len(self))[place]
            return next(iter(self[number : number + 1]))
        begins, ends = self._bounds[:-1][place], self._bounds[1:][place]
        if place.step in (None, 1):
            rows = self._rows[int(begins[0]) : int(ends[-1])] if len(begins) else []
        else:
            cuts = zip(begins.tolist(), ends.tolist(), strict=True)
            rows = list(chain.from_iterable(self._rows[begin:end] for begin, end in cuts))
        return JsonTexts(self._schema, rows, numpy.insert((ends - begins).cumsum(), 0, 0))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the payloads, all of which are made together."""
        return iter(self.octets().cast(pa.large_string()).to_pylist())

    def octets(self) -> Any:
        """Return all payloads as a `pyarrow.LargeBinaryArray`; half a character is a question mark, as in Java."""
        if not self._rows:
            return octets_of([])
        columns = _columns(self._schema, self._rows)
        several = numpy.diff(self._bounds) > 1
        if not several.any():
            return joined(*columns)
        before, behind = numpy.full(len(self._rows), _OTHER, numpy.int8), numpy.zeros(len(self._rows), numpy.int8)
        before[self._bounds[:-1]] = numpy.where(several, _FIRST, _ALONE)
        behind[self._bounds[1:] - 1] = several
        events = joined(_BEFORE.take(pa.array(before)), *columns, _BEHIND.take(pa.array(behind)))
        return octets_within(bounds(events)[self._bounds], events.buffers()[2])


def together(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the payloads of several sequences, at least one, as one; texts of the same attributes stay unmade."""
    if len(parts) == 1:
        return parts[0]
    texts = [one for one in parts if isinstance(one, JsonTexts)]
    return JsonTexts.following(texts) if len(texts) == len(parts) else list(chain.from_iterable(parts))


def _columns(schema: Schema, rows: Sequence[Row]) -> Sequence[Any]:
    """Return the events of rows as pieces that are to be joined."""
    pieces: list[Any] = []
    before = f'{{"{ENVELOPE}":{{'
    for number, (name, kind) in enumerate(schema):
        end = "}" if number == len(schema) - 1 else ","
        column = rows.column(number) if isinstance(rows, ColumnarRows) else [row[number] for row in rows]
        opening, values, closing = _column(kind, column, end)
        pieces += (f"{before}{json.dumps(name)}:{opening}".encode(), values)
        before = closing
    return (*pieces, (before + "}").encode())


def _column(kind: Type, column: Any, end: str) -> tuple[str, Any, str]:
    """Return the values of a column as the json mapping writes them, `end` behind each, and what is around each.

    The column is a sequence, or an Arrow array.
    """
    if isinstance(column, pa.Array):
        if not column.null_count and pa.types.is_floating(column.type):
            return _reals(kind, column.to_numpy(), end)
        if not column.null_count and pa.types.is_integer(column.type):
            return "", _elements(orjson.dumps(column.to_numpy(), option=orjson.OPT_SERIALIZE_NUMPY), end), ""
        if not column.null_count and pa.types.is_string(column.type):
            texts = column.cast(pa.large_string()).cast(OCTETS)
            if _needs_no_escape(texts):
                return '"', texts, f'"{end}'
        column = column.to_pylist()
    types = set(map(type, column))
    if types == {str}:
        texts = octets_of(column)
        if _needs_no_escape(texts):
            return '"', texts, f'"{end}'
    if types <= {str, _NULL}:
        return "", octets_of(["null" if value is None else encode_basestring(value) for value in column]), end
    if types - {_NULL} == {float} and kind in (Type.DOUBLE, Type.FLOAT):
        # What is no number is null in JSON, too.
        return _reals(kind, [nan if value is None else value for value in column] if _NULL in types else column, end)
    if types - {_NULL} in ({int}, {bool}):
        try:
            return "", _elements(orjson.dumps(column), end), ""
        except TypeError:  # of more than 64 bits
            pass
    return "", octets_of([json_text(value, kind) for value in column]), end


def _needs_no_escape(texts: Any) -> bool:
    """Tell whether JSON writes texts as they are."""
    characters = numpy.frombuffer(texts.buffers()[2] or b"", numpy.uint8)
    return not ((characters < ord(" ")) | (characters == ord('"')) | (characters == ord("\\"))).any()


def _reals(kind: Type, column: Any, end: str) -> tuple[str, Any, str]:
    """Return real numbers as Java writes them: where it writes plain decimals, orjson writes the same."""
    exact = values = column if isinstance(column, numpy.ndarray) else numpy.asarray(array("d", column))
    if kind is Type.FLOAT:
        with numpy.errstate(over="ignore"):
            values = exact.astype(numpy.float32)
    written = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    sizes = numpy.abs(exact)
    # A double that was cast to float has more digits than a float.
    plain = ((sizes >= _PLAIN_FROM) & (sizes < _PLAIN_TO) | (sizes == 0)) & (values == exact)
    # NaN and infinities are null in both ways.
    unusual = numpy.flatnonzero(~plain & numpy.isfinite(exact))
    texts = _elements(written, end)
    if len(unusual):
        said = (_unusual(kind, float(exact[place]), texts[place].as_py()[:-1].decode()) for place in unusual.tolist())
        which = numpy.arange(len(column))
        which[unusual] = range(len(column), len(column) + len(unusual))
        texts = pa.concat_arrays([texts, octets_of([one + end for one in said])]).take(pa.array(which))
    return "", texts, ""


def _unusual(kind: Type, value: float, plain: str) -> str:
    """Return a number that Java does not write as a plain decimal, which orjson does, or not with the same digits."""
    large = kind is Type.DOUBLE and _PLAIN_TO <= abs(value) < _SHORTEST_TO
    return _with_exponent(plain) if large else json_text(value, kind)


def _with_exponent(plain: str) -> str:
    """Return a plain decimal of several digits before the point as Java writes large numbers."""
    sign = "-" if plain[0] == "-" else ""
    whole, fraction = plain[len(sign) :].split(".")
    digits = (whole + fraction)[1:].rstrip("0") or "0"
    return f"{sign}{whole[0]}.{digits}E{len(whole) - 1}"


def _elements(numbers: bytes, end: str) -> Any:
    """Return the elements of a JSON array of numbers as octets, `end` behind each."""
    octets = numpy.frombuffer(numbers, numpy.uint8).copy()
    ends = numpy.append(numpy.flatnonzero(octets == ord(",")), len(octets) - 1)
    octets[ends] = ord(end)
    return octets_within(numpy.insert(ends, 0, 0) + 1, octets)
