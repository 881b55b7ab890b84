"""The keys of groups, and the numbers that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.mapping.read_rows import ReadRows
from spdist.mapping.text_numbers import TextNumbers

__all__ = ["Keys"]


class Keys:
    """Keys in the order in which they came, which is their number.

    Parameters
    ----------
    attributes : tuple of int
        Whose values are a key; with none there is one key, ().
    types : Sequence of Type
        Of all attributes.

    State
    -----
    The keys.
    """

    def __init__(self, attributes: tuple[int, ...], types: Sequence[Type]) -> None:
        self._attributes = attributes
        single = len(attributes) == 1 and types[attributes[0]] is Type.STRING
        self._texts = TextNumbers() if single else None
        self._numbers: dict[Any, int] = {}

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._numbers if self._texts is None else self._texts)

    def all(self) -> list[Any]:
        """Return the keys: a value, or a tuple of several."""
        return list(self._numbers) if self._texts is None else list(self._texts.texts)

    def of(self, rows: ReadRows, count: int) -> Any:
        """Return the numbers of the keys of the first rows, so many, as an int64 array; None where there is a null."""
        if self._texts is not None:
            texts = rows.values(self._attributes[0], 0, count)
            known = None if texts is None else self._texts.of(texts)
            if texts is None or known is not None:
                return known
            self._by_dictionary()
        coded = [rows.codes(attribute, 0, count) for attribute in self._attributes]
        found = [one for one in coded if one is not None]
        if len(found) < len(coded):
            return None
        if not found:
            self.add([()])
            return numpy.zeros(count, numpy.int64)
        if len(found) == 1:
            ((numbers, values),) = found
            return self.add(values.to_pylist())[numbers]
        combined = numpy.zeros(count, numpy.int64)
        for numbers, values in found:
            combined = numpy.unique(combined * len(values) + numbers, return_inverse=True)[1]
        first = numpy.empty(int(combined.max()) + 1, numpy.int64)
        first[combined[::-1]] = numpy.arange(count)[::-1]
        parts = (values.take(numbers[first]).to_pylist() for numbers, values in found)
        return self.add(list(zip(*parts, strict=True)))[combined]

    def add(self, keys: list[Any]) -> Any:
        """Return the numbers of keys, each of which is there once, as an int64 array; new ones get one."""
        if self._texts is not None and keys:
            known = self._texts.of_all(keys)
            if known is not None:
                return known
            self._by_dictionary()
        numbers = self._numbers
        found = list(map(numbers.get, keys))
        if None in found:
            given = zip(keys, found, strict=True)
            found = [numbers.setdefault(key, len(numbers)) if number is None else number for key, number in given]
        return numpy.array(found, numpy.int64)

    def keep(self, kept: Sequence[bool]) -> None:
        """Forget the other keys; those that are kept get numbers anew, in their order."""
        if self._texts is not None:
            self._texts.keep(kept)
        else:
            self._numbers = {key: number for number, key in enumerate(compress(self._numbers, kept))}

    def _by_dictionary(self) -> None:
        """Go over to what takes long texts, too."""
        assert self._texts is not None
        self._numbers = {text: number for number, text in enumerate(self._texts.texts)}
        self._texts = None
