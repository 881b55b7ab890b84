"""Numbers that stand for objects in a program: places in a list. The loop hands them on, and looks into none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

__all__ = ["ObjectTable"]


class ObjectTable:
    """Objects by number; null has number 0. Each time that an object comes it gets another number.

    State
    -----
    The objects that came since `keep` forgot those that nobody uses, and those that it kept.
    """

    def __init__(self) -> None:
        self._objects: list[Any] = [None]
        #: How many there were when some were forgotten last.
        self.kept = 0

    def __len__(self) -> int:
        """Return how many objects have a number."""
        return len(self._objects) - 1

    def number(self, value: Any) -> int:
        """Return the number of an object."""
        if value is None:
            return 0
        self._objects.append(value)
        return len(self._objects) - 1

    def numbers(self, values: Sequence[Any]) -> Any:
        """Return the numbers of objects as an int64 array."""
        known = numpy.fromiter((value is not None for value in values), bool, len(values))
        found = numpy.cumsum(known, dtype=numpy.int64) + len(self)
        found[~known] = 0
        self._objects += (value for value in values if value is not None)
        return found

    def object(self, number: int) -> Any:
        """Return the object with a number."""
        return self._objects[number]

    def objects(self, numbers: Any, nulls: Any) -> list[Any]:
        """Return the objects with these numbers, an array; where `nulls` is not 0, there is none."""
        objects = self._objects
        return [objects[number] for number in numpy.where(nulls, 0, numbers).tolist()]

    def keep(self, used: Any) -> Any:
        """Forget all objects but those with the numbers `used`.

        Returns
        -------
        numpy.ndarray
            The new number of each old one, int64; -1 of those that are forgotten.
        """
        kept = numpy.union1d(numpy.zeros(1, numpy.int64), used)
        fresh = numpy.full(len(self._objects), -1, numpy.int64)
        fresh[kept] = numpy.arange(len(kept))
        self._objects = [self._objects[number] for number in kept.tolist()]
        self.kept = len(self)
        return fresh
