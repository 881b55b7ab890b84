"""Memory of which only what is written to is there: arrays in it grow where they are."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy

__all__ = ["Reserve"]

#: So much may each array become, in bytes: more than a machine has for one of many.
_EACH = 1 << 30
#: So many bytes lie between two of them. A loop writes to the same place of several arrays: those that begin at the
#: same place of their page, or a power of two apart, compete for the same lines of the caches.
_BETWEEN = 4096 + 192
#: The last one is Linux's MAP_NORESERVE, for which Python has no name before 3.13: what is not written to is free.
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0x4000 if sys.platform == "linux" else 0)


class Reserve:
    """Address space for some arrays.

    Parameters
    ----------
    count : int
        How many arrays.

    Raises
    ------
    OSError
        The process may not have so much address space.

    State
    -----
    How many arrays were made.
    """

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, count * (_EACH + _BETWEEN), flags=_FLAGS)
        self._made = 0

    def array(self, dtype: str) -> Any:
        """Return one more array of zeros, of all the places that it can ever have."""
        kind = numpy.dtype(dtype)
        offset, self._made = self._made * (_EACH + _BETWEEN), self._made + 1
        return numpy.frombuffer(self._memory, kind, _EACH // kind.itemsize, offset)
