"""What a sink puts out, as a value: it is collected while operators run, and sent when the batch cannot be lost.

Operators that catch up after a failure run again over the same input and collect the same deliveries with the same ids;
whoever sends them decides which ones have been sent.

What the json mapping writes event by event is written here for all events, by a compiled loop over their columns; until
that is compiled, and without numba, it is written column by column, and put together by Arrow. Neither holds the GIL,
for the most part. The texts are octets in one Arrow array, in which form they are sent by those who send many; nobody
else has to know that.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import accumulate, chain, count
from json.encoder import encode_basestring
from math import nan
from typing import Any, overload

import numpy
import orjson
import pyarrow as pa

from spdist.language.types import Schema, Type
from spdist.mapping.columns import ARROW, OCTETS, ColumnarRows, all_rows, bounds, joined, octets_of, octets_within
from spdist.mapping.json_columns import FEW, KINDS
from spdist.mapping.json_payloads import ENVELOPE, json_text
from spdist.mapping.kernels import Kernels

__all__ = [
    "EVENT_BITS",
    "KEEPS_EVENTS",
    "KEPT_ERRORS",
    "Deliveries",
    "Delivery",
    "JsonTexts",
    "Outbox",
    "Outgoing",
    "on_error_of",
    "together",
]

#: What ``on.error`` says where the events themselves are needed when they cannot be sent.
KEEPS_EVENTS = ("STREAM", "STORE")

#: A delivery's events are numbered from ``seq << EVENT_BITS`` on, where they come back or are kept.
EVENT_BITS = 20
#: The kind of deliveries that are no sink's: entries of the error store, see `spdist.transports.errors`.
KEPT_ERRORS = "errors"

Row = tuple[Any, ...]
#: Timestamp in ms, data.
_Event = tuple[int, Row]

_NULL = type(None)
#: Java writes positive numbers from the one up to the other without an exponent, and zero.
_PLAIN_FROM, _PLAIN_TO = 0.001, 1e7
#: Up to here it writes no more digits of large doubles than tell them apart.
_SHORTEST_TO = 2.0**53
#: What an event is in its payload: all of it, or the first or another one of an array; what stands before and behind.
_ALONE, _FIRST, _OTHER = range(3)
_BEFORE, _BEHIND = pa.array([b"", b"[", b","], OCTETS), pa.array([b"", b"]"], OCTETS)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One payload for one destination of one sink.

    Parameters
    ----------
    kind : str
        The sink's type, such as ``http``.
    sink : int
        Which of the app's sinks, counted from 0 in the order of the text.
    destination : int
        Which ``@destination`` of it, from 0; 0 where it has none.
    stream : str
        The stream whose events it holds.
    options : mapping of str to str
        All options of the sink and of its destination, keys in lower case, ``{{attribute}}`` filled in: such a one is a
        `spdist.mapping.templates.Filled`. References to secrets are as written.
    payload : Any
        What the mapping made: text, a dictionary (``keyvalue``), or events (``passThrough``).
    producer : str
        Who made it: the group instance, or its shard.
    seq : int
        Number of this delivery, per producer, from 0 without gaps.
    events : tuple of (timestamp, row)
        What the payload was made of; only where ``on.error`` may need it (`KEEPS_EVENTS`), or whoever has the outbox.
    """

    kind: str
    sink: int
    destination: int
    stream: str
    options: Mapping[str, str]
    payload: Any
    producer: str
    seq: int
    events: tuple[_Event, ...] = ()

    @property
    def id(self) -> str:
        """A text that no other delivery has, and this one has each time it is made."""
        return f"{self.producer}:{self.seq}"

    @property
    def on_error(self) -> str:
        """What is to be done where it cannot be sent: LOG, WAIT, RETRY, STREAM or STORE."""
        return on_error_of(self.options)


@dataclass(frozen=True, slots=True)
class Deliveries(Sequence[Delivery]):
    """The payloads of one sink from one batch, where all that is said of each is the same: no object for each.

    Each is a `Delivery` that is made when it is asked for. They are numbered for their sink alone, so that the
    numbers do not depend on where batches are cut.

    Parameters
    ----------
    kind, sink, destination, stream, options
        As of each `Delivery`.
    payloads : sequence
        In order, at least one.
    producer : str
        Who made them: the group instance, or its shard.
    first : int
        Number of the first of them, per sink, from 0 without gaps.
    """

    kind: str
    sink: int
    destination: int
    stream: str
    options: Mapping[str, str]
    payloads: Sequence[Any]
    producer: str
    first: int

    def __len__(self) -> int:
        """Return the number of payloads."""
        return len(self.payloads)

    @overload
    def __getitem__(self, place: int) -> Delivery: ...
    @overload
    def __getitem__(self, place: slice) -> Deliveries: ...
    def __getitem__(self, place: int | slice) -> Delivery | Deliveries:
        """Return one as a delivery of a producer whose name is ours and the sink's number, or those of a slice."""
        # A range does what Python's slices mean, negative places included, and an index out of range raises.
        numbers = range(self.first, self.first + len(self))[place]
        if isinstance(numbers, range):
            return replace(self, payloads=self.payloads[place], first=numbers.start)
        return self._one(numbers, self.payloads[place])

    def __iter__(self) -> Iterator[Delivery]:
        """Iterate over all as deliveries."""
        return map(self._one, count(self.first), self.payloads)

    def _one(self, number: int, payload: Any) -> Delivery:
        place = (self.kind, self.sink, self.destination, self.stream)
        return Delivery(*place, self.options, payload, self.source, number)

    @property
    def source(self) -> str:
        """Whose the numbers are: the producer's and the sink's."""
        return f"{self.producer}#{self.sink}"

    @property
    def on_error(self) -> str:
        """As of each `Delivery`."""
        return on_error_of(self.options)


#: What leaves an app: payloads one by one, or many of a sink together.
Outgoing = Delivery | Deliveries


def on_error_of(options: Mapping[str, str]) -> str:
    """Return what the options of a sink say about payloads that cannot be sent, LOG where nothing."""
    return (options.get("on.error") or "LOG").upper()


class Outbox:
    """Collects and numbers the deliveries of one producer.

    Parameters
    ----------
    producer : str
        Whose they are.
    keeps_events : bool
        Whether what is put out one by one is to hold the events that it was made of.

    State
    -----
    The number that is next; the deliveries of the running batch.
    """

    def __init__(self, producer: str, keeps_events: bool = False) -> None:
        self.producer = producer
        self.keeps_events = keeps_events
        self.next = 0
        self._collected: list[Outgoing] = []
        self._writers: list[Callable[[], Deliveries | None]] = []

    def add(
        self,
        place: tuple[str, int, int, str],
        options: Mapping[str, str],
        payload: Any,
        events: tuple[_Event, ...] = (),
    ) -> None:
        """Collect one payload; `place` is the delivery's kind, sink, destination and stream."""
        self._collected.append(Delivery(*place, options, payload, self.producer, self.next, events))
        self.next += 1

    def ask(self, writer: Callable[[], Deliveries | None]) -> None:
        """Have a sink that makes its payloads together asked for them at the end of each batch."""
        self._writers.append(writer)

    def drain(self) -> list[Outgoing]:
        """Return what was collected since the last call, of each sink in order, and forget it."""
        # Asked first: what cannot be written may be collected itself.
        together = [made for writer in self._writers if (made := writer()) is not None]
        collected, self._collected = self._collected, []
        return [*collected, *together]


# Payloads of JSON.


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
        # No payload begins between the first row of a chunk and its end: +1 behind that row, -1 at the end.
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
        made = _by_loop(self._schema, self._rows, self._bounds)
        if made is not None:
            return made
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


#: So many bytes of escapes there is room for, for each of the texts; where it is not enough, for as many as can be.
_ESCAPES, _ALL_ESCAPES = 1 / 8, 5
_KERNELS = Kernels(partial(import_module, "spdist.mapping.json_kernels"), "JSON is written by Arrow")


def _by_loop(schema: Schema, rows: Sequence[Row], bounds: Any) -> Any:
    """Return payloads, see `JsonTexts`; None where they are few, a value is not of its type, or the loop is not there.

    It is compiled when many are written for the first time.
    """
    if len(rows) < FEW:
        return None
    _KERNELS.load_later()
    loops = _KERNELS.loops
    columns = None if loops is None else ColumnarRows.of(rows, schema.types, range(len(schema)))
    if columns is None or columns.types != tuple(map(ARROW.get, schema.types)):
        return None
    kept = [_InMemory(columns.column(number), kind, loops) for number, kind in enumerate(schema.types)]
    around = [f",{json.dumps(name)}:" for name in schema.names]
    around[0] = f'{{"{ENVELOPE}":{{{around[0][1:]}'
    pieces = [piece.encode() for piece in (*around, "}}")]
    lengths = numpy.array(list(map(len, pieces)))
    places = numpy.stack([(lengths + loops.SLACK).cumsum() - lengths - loops.SLACK, lengths], 1)
    words = numpy.frombuffer(b"".join(piece + bytes(loops.SLACK) for piece in pieces), numpy.uint8)
    size = sum(column.size for column in kept)
    most = len(rows) * int(lengths.sum() + loops.MOST_BYTES * len(kept) + loops.AROUND) + size + loops.SLACK
    described, ends = numpy.array([column.described for column in kept]), numpy.empty(len(bounds), numpy.int64)
    # Few texts have many escapes: room for the worst case, six bytes each, is taken only after a try has failed.
    for spare in (int(size * _ESCAPES), size * _ALL_ESCAPES):
        into = numpy.empty(most + spare, numpy.uint8)
        if loops.payloads(described, words, places, numpy.array(bounds), spare, into, ends):
            break
    return octets_within(ends, into)


class _InMemory:
    """A column as the loop knows it; what stands at the addresses stays there as long as this does.

    Parameters
    ----------
    column : pyarrow.Array
        The values.
    kind : Type
        Theirs.
    loops : module
        `spdist.mapping.json_kernels`.
    """

    def __init__(self, column: Any, kind: Type, loops: Any) -> None:
        # Kept, since the loop has addresses only: without a reference Python may free what stands there.
        valid, values, *others = self._buffers = column.buffers()
        #: A row of what `payloads` takes.
        self.described = [KINDS[kind], _address(values), _address(valid), column.offset, *map(_address, others)]
        #: Bytes of the texts.
        self.size = 0
        if kind is Type.STRING:
            begins = numpy.frombuffer(values, numpy.int32)
            self.size = int(begins[column.offset + len(column)] - begins[column.offset])
        elif kind in (Type.FLOAT, Type.DOUBLE):
            places = numpy.empty(len(column), numpy.int64)
            odd = places[: loops.odd_reals(numpy.array(self.described), places)].tolist()
            # The loop reads up to `SLACK` bytes behind what it copies: the blanks keep that inside of the buffer.
            texts = octets_of([*(json_text(column[place].as_py(), kind) for place in odd), " " * loops.SLACK])
            _, begins, content = texts.buffers()
            self._buffers += [begins, content]
            self.described += [_address(content), _address(begins)]
        self.described += [0] * (6 - len(self.described))


def _address(buffer: Any) -> int:
    return 0 if buffer is None else int(buffer.address)


def _columns(schema: Schema, rows: Sequence[Row]) -> Sequence[Any]:
    """Return the events of rows as pieces that are to be joined."""
    pieces: list[Any] = []
    before = f'{{"{ENVELOPE}":{{'
    for number, (name, kind) in enumerate(schema):
        # What stands behind a value goes into its piece, so that pieces that are the same in each row stay few.
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
        # Their texts stand behind all others, and are taken from there into their places.
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
    # In place: each comma between elements, and the bracket at the end, becomes what is wanted behind an element.
    octets[ends] = ord(end)
    return octets_within(numpy.insert(ends, 0, 0) + 1, octets)
