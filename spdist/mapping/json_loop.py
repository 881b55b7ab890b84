"""Payloads of JSON as Arrow columns by a compiled loop, which says of which payloads it is not sure."""

from __future__ import annotations

import json
from typing import Any

import numpy
import pyarrow as pa

from spdist.language.types import Schema, Type
from spdist.mapping.json_payloads import ENVELOPE
from spdist.mapping.kernels import Kernels
from spdist.mapping.octets import bits
from spdist.mapping.payload_reader import SURELY_REAL
from spdist.mapping.read_rows import ARROW

__all__ = ["BOOL", "DOUBLE", "FLOAT", "INT", "LONG", "MISSING", "TEXT", "THERE", "WRITTEN", "JsonLoop"]

#: Kinds of attributes, as numbers.
TEXT, INT, LONG, FLOAT, DOUBLE, BOOL = range(6)
_KINDS = {
    Type.STRING: TEXT,
    Type.INT: INT,
    Type.LONG: LONG,
    Type.FLOAT: FLOAT,
    Type.DOUBLE: DOUBLE,
    Type.BOOL: BOOL,
}
#: What the loop knows of a value: nothing, as it is null; itself; its text.
MISSING, THERE, WRITTEN = range(3)

_KERNELS = Kernels("spdist.mapping.json_kernels", "JSON is read by Arrow")
#: What texts may be copied into, bytes; memory that holds no text is not touched.
_MOST_BYTES = 1 << 30


class JsonLoop:
    """Reads many payloads of attributes of plain types, once the loop is compiled.

    Parameters
    ----------
    schema : Schema
        The attributes, at least one.
    largest : int
        How large a payload may be, bytes.
    """

    def __init__(self, schema: Schema, largest: int) -> None:
        self._types = schema.types
        self._kinds = numpy.array([_KINDS[type] for type in schema.types], numpy.int64)
        self._arrow = pa.schema([pa.field(name, ARROW[kind]) for name, kind in schema])
        self._largest = largest
        names = [f'"{name}"' for name in (*schema.names, ENVELOPE)]
        #: The loop knows no escapes.
        self._usable = all(json.dumps(name[1:-1], ensure_ascii=False) == name for name in names)
        words = [name.encode("utf-8", "replace") for name in names]
        self._words = numpy.frombuffer(b"".join(words), numpy.uint8)
        self._word_ends = numpy.cumsum([0, *map(len, words)], dtype=numpy.int64)

    def read(self, payloads: Any) -> tuple[Any, Any] | None:
        """Return the attributes' columns, and at which places they mean nothing as the payload is to be read otherwise.

        None where the loop cannot be used, or not yet.

        Parameters
        ----------
        payloads : pyarrow.BinaryArray
            At least one, without nulls.

        Raises
        ------
        pyarrow.ArrowInvalid
            A text is not in UTF-8.
        """
        _KERNELS.load_later()
        module, count, width = _KERNELS.module, len(payloads), len(self._kinds)
        _, places, octets = payloads.buffers()
        bounds = numpy.frombuffer(places, numpy.int32)[payloads.offset : payloads.offset + count + 1]
        size = int(bounds[-1] - bounds[0])
        if module is None or not self._usable or octets is None or size * width > _MOST_BYTES:
            return None
        values = _Written(count, width, size)
        data = numpy.frombuffer(octets, numpy.uint8)
        own = (values.numbers, values.reals, values.known, values.texts, values.ends, values.doubts)
        module.columns(data, bounds, self._largest, self._words, self._word_ends, self._kinds, *own)
        columns = [values.column(number, kind) for number, kind in enumerate(self._types)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        batch.validate(full=True)
        return batch, numpy.flatnonzero(values.doubts)


class _Written:
    """What the loop writes: a row of each array for each attribute."""

    def __init__(self, count: int, width: int, size: int) -> None:
        self.numbers = numpy.empty((width, count), numpy.int64)
        self.reals = self.numbers.view(numpy.float64)
        self.known = numpy.empty((width, count), numpy.uint8)
        self.texts = numpy.empty((width, size), numpy.uint8)
        self.ends = numpy.zeros((width, count + 1), numpy.int32)
        self.doubts = numpy.empty(count, numpy.bool_)

    def column(self, number: int, kind: Type) -> Any:
        """Return the values of an attribute as an Arrow array."""
        known = self.known[number] != MISSING
        valid = None if known.all() else bits(known)
        if kind is Type.STRING:
            return self._texts(number, valid)
        if kind is Type.BOOL:
            values = bits(self.numbers[number] != 0)
        elif kind in (Type.INT, Type.LONG):
            values = pa.py_buffer(self.numbers[number].astype(numpy.int32 if kind is Type.INT else numpy.int64))
        else:
            self._read_written(number, kind)
            values = pa.py_buffer(self.reals[number])
        return pa.Array.from_buffers(ARROW[kind], len(known), [valid, values])

    def _texts(self, number: int, valid: Any = None) -> Any:
        ends = self.ends[number]
        # There is room for all payloads, once for each attribute: who keeps a column is not to keep that.
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(self.texts[number, : ends[-1]].copy())]
        return pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)

    def _read_written(self, number: int, kind: Type) -> None:
        """Read the real numbers of which the loop has found the text: those of many digits, or of large exponents."""
        places = numpy.flatnonzero(self.known[number] == WRITTEN)
        if not len(places):
            return
        values = self._texts(number).take(pa.array(places)).cast(pa.float64()).to_numpy()
        sure = numpy.isfinite(values)
        if kind is Type.FLOAT:
            # Also of what is too small for a float nothing but a sign is left.
            with numpy.errstate(over="ignore", under="ignore"):
                values = values.astype(numpy.float32).astype(numpy.float64)
            sure &= (numpy.abs(values) < SURELY_REAL) & (values != 0)
        self.reals[number, places] = values
        self.doubts[places] |= ~sure
