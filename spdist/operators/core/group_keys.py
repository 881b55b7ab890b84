"""The keys of groups, the numbers that stand for them, and arrays that have a place for each number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.mapping.text_numbers import TextNumbers

__all__ = ["Keys", "grown"]


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
    The keys; texts a second time for who looks for one.
    """

    def __init__(self, attributes: tuple[int, ...], types: Sequence[Type]) -> None:
        self._attributes = attributes
        single = len(attributes) == 1 and types[attributes[0]] is Type.STRING
        self._texts = TextNumbers() if single else None
        self._numbers: dict[Any, int] = {}
        #: What `at` and `find` look into, as far as somebody has asked.
        self._listed: list[Any] = []
        self._found: dict[Any, int] = {}
        self._codes = numpy.zeros(0, numpy.int64)

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._numbers if self._texts is None else self._texts)

    def all(self) -> list[Any]:
        """Return the keys: a value, or a tuple of several."""
        return list(self._numbers) if self._texts is None else list(self._texts.texts)

    def at(self, numbers: Sequence[int]) -> list[Any]:
        """Return the keys with these numbers."""
        return list(map(self._in_order().__getitem__, numbers))

    def find(self, key: Any) -> int | None:
        """Return the number of a key; None where it has none. It gets none, other than with `add`."""
        if self._texts is None:
            return self._numbers.get(key)
        begin, texts = len(self._found), self._texts.texts
        if begin < len(texts):
            self._found.update(zip(texts[begin:], range(begin, len(texts)), strict=True))
        return self._found.get(key)

    def codes(self, numbers: Any, code_of: Callable[[Any], int]) -> Any:
        """Return what `code_of` makes of the keys with these numbers, as an int64 array; it is asked once for a key."""
        begin = len(self._codes)
        if begin < len(self):
            new = [code_of(key) for key in self.at(range(begin, len(self)))]
            self._codes = numpy.concatenate((self._codes, numpy.array(new, numpy.int64)))
        return self._codes[numbers]

    def _in_order(self) -> list[Any]:
        if self._texts is not None:
            return self._texts.texts
        if len(self._listed) < len(self._numbers):
            self._listed = list(self._numbers)
        return self._listed

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
        self._listed, self._found = [], {}
        # Numbers mean other keys from here on, so what was computed by number is forgotten.
        self._codes = numpy.zeros(0, numpy.int64)
        if self._texts is not None:
            self._texts.keep(kept)
        else:
            self._numbers = {key: number for number, key in enumerate(compress(self._numbers, kept))}

    def _by_dictionary(self) -> None:
        """Go over to what takes long texts, too."""
        assert self._texts is not None
        self._found = {}
        self._numbers = {text: number for number, text in enumerate(self._texts.texts)}
        self._texts = None


def grown(array: Any, size: int) -> Any:
    """Return an array that has at least so many places, the new ones zero."""
    if size <= len(array):
        return array
    # At least doubled, so that growing step by step copies each place a constant number of times.
    made = numpy.zeros(max(size, 2 * len(array)), array.dtype)
    made[: len(array)] = array
    return made
