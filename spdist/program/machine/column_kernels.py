"""Texts by row, from Arrow's columns and from the table of texts; compiled, only imported where there is numba.

A number of the table is a row of it, so one gathering serves what a query passes on and what it computes.
"""

from __future__ import annotations

from typing import Any

import numpy
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spdist.program.machine.arithmetic import loop

__all__ = ["SLACK", "bounds_gathered", "texts_gathered"]

_WORD = 8
#: So many bytes more than the texts have must be there to write to.
SLACK = _WORD


@intrinsic
def _eight_bytes_copied(_typing: Any, into: Any, place: Any, data: Any, begin: Any) -> Any:
    """Copy eight bytes from one array to another."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        written, there, read, here = arguments
        word = ir.IntType(64).as_pointer()
        source = builder.gep(context.make_array(data)(context, builder, read).data, [here])
        target = builder.gep(context.make_array(into)(context, builder, written).data, [there])
        copied = builder.load(builder.bitcast(source, word), align=1)
        builder.store(copied, builder.bitcast(target, word), align=1)
        return context.get_dummy_value()

    return types.void(into, place, data, begin), code


#: As it is called, without what numba gives it.
_word_copied: Any = _eight_bytes_copied


@loop
def bounds_gathered(begins, rows, bounds):  # type: ignore[no-untyped-def]
    """Write where the texts of some rows begin and end when they stand one behind the other.

    Parameters
    ----------
    begins : array
        Where each text begins, and the last one ends; read only.
    rows : array
        Which texts.
    bounds : array
        One place more than there are rows.

    Returns
    -------
    int
        How many bytes they have together; where that is more than 2**31 - 1, the bounds are wrong. -1: there is no such
        row.
    """
    at, texts = 0, numpy.uintp(len(begins) - 1)
    bounds[0] = 0
    for place in range(len(rows)):
        row = numpy.uintp(rows[place])
        if row >= texts:
            return -1
        at += begins[row + numpy.uintp(1)] - begins[row]
        bounds[place + 1] = at
    return at


@loop
def texts_gathered(begins, data, rows, bounds, gathered):  # type: ignore[no-untyped-def]
    """Write the bytes of the texts of some rows.

    Parameters
    ----------
    begins, data : array
        Where each text begins, and the bytes; read only.
    rows : array
        Which texts.
    bounds : array
        What `bounds_gathered` has written.
    gathered : array
        As many bytes as that has returned, and `SLACK`.
    """
    size = len(data)
    for place in range(len(rows)):
        begin, at = numpy.int64(begins[numpy.uintp(rows[place])]), numpy.int64(bounds[place])
        length = bounds[place + 1] - at
        copied = 0
        # What is written behind a text is not yet the next one.
        while copied < length and begin + copied + _WORD <= size:
            _word_copied(gathered, at + copied, data, begin + copied)
            copied += _WORD
        while copied < length:
            gathered[at + copied] = data[begin + copied]
            copied += 1


def _compile() -> None:
    """Compile both, or load them, for Arrow's columns and for the table: no event waits for it."""
    data = types.Array(types.uint8, 1, "C", readonly=True)
    rows, bounds = (types.Array(kind, 1, "C") for kind in (types.int64, types.int32))
    for kind in (types.int32, types.int64):
        begins = types.Array(kind, 1, "C", readonly=True)
        bounds_gathered.compile((begins, rows, bounds))
        texts_gathered.compile((begins, data, rows, bounds, types.Array(types.uint8, 1, "C")))


_compile()
