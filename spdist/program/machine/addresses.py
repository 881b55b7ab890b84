"""Arrays by their addresses, as the text of a compiled program has them; only imported where there is numba.

A program has hundreds of arrays. As arguments each would be seven values for the compiler and an object to look at in
each call; a pointer is one value. ``addresses`` has for each array where it is, and its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numba
import numpy
import pyarrow as pa
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = ["addresses_of", "float64_at", "int64_at", "lending", "uint8_at"]

#: Whether each index is looked at (``NUMBA_BOUNDSCHECK``): a pointer knows no length, so there are arrays then.
_CHECKED = bool(numba.config.BOUNDSCHECK)  # type: ignore[attr-defined]


class _Pinned(tuple[Any]):
    """The array of addresses, and the arrays, which are there as long as somebody may be given their addresses."""

    arrays: tuple[Any, ...]


def addresses_of(arrays: Iterable[Any]) -> tuple[Any]:
    """Return what a compiled program is given for its arrays."""
    kept = tuple(arrays)
    places = [word for array in kept for word in (array.__array_interface__["data"][0], len(array))]
    made = _Pinned((numpy.array(places, numpy.int64),))
    made.arrays = kept
    return made


def lending(given: tuple[Any], lent: Mapping[int, Any]) -> tuple[Any]:
    """Return what `addresses_of` has returned with other arrays at some places, of the same type and as long."""
    made = _Pinned((given[0].copy(),))
    made.arrays = (given, *lent.values())
    words = made[0]
    for place, array in lent.items():
        # Asking numpy for the address costs as much as ten events.
        words[2 * place], words[2 * place + 1] = pa.py_buffer(array).address, len(array)
    return made


def _reader(dtype: Any) -> Any:
    """Return what makes an array of one type of what `addresses_of` has at a place, which is a constant."""
    made = types.Array(dtype, 1, "C") if _CHECKED else types.CPointer(dtype)

    @intrinsic
    def read(_typing: Any, addresses: Any, place: Any) -> Any:
        """Return an array."""
        # numba asks with a plain int first, then with the constant itself.
        if not isinstance(place, types.IntegerLiteral):
            return None

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address, length = (
                builder.load(cgutils.gep_inbounds(builder, words, 2 * place.literal_value + n)) for n in (0, 1)
            )
            if not _CHECKED:
                return builder.inttoptr(address, context.get_value_type(made))
            array, item = context.make_array(made)(context, builder), context.get_data_type(dtype)
            size = context.get_constant(types.intp, context.get_abi_sizeof(item))
            data = builder.inttoptr(address, item.as_pointer())
            # Without `meminfo` no references are counted: `_Pinned` has the arrays stay.
            populate_array(array, data=data, shape=[length], strides=[size], itemsize=size, meminfo=None)
            return array._getvalue()

        return made(addresses, place), code

    return read


int64_at, float64_at, uint8_at = (_reader(dtype) for dtype in (types.int64, types.float64, types.uint8))
