"""Numbers that stand for texts: an open table in arrays, in which many texts are looked up together.

A dictionary waits for the machine's memory three times for each text, one text after the other. Here texts of a few
words of eight bytes are numbers themselves, and all of a column wait together.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["LONGEST", "TextNumbers"]

#: Bytes of the longest text that has a number here.
LONGEST = 64
_WORD = 8
_EMPTY = -1
#: Slots of the table for each text, at least.
_ROOM = 2
#: 2**64 divided by the golden ratio: products with it are spread evenly.
_GOLDEN = 0x9E3779B97F4A7C15


class TextNumbers:
    """Numbers from 0 on for texts, in the order in which they first came.

    State
    -----
    Each text twice, as it is and as words, and up to 4 slots of the table, of four bytes.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        #: Of each number the words of its text, word by word, and its length; and room for more.
        self._words = [numpy.empty(0, numpy.uint64)]
        self._lengths = numpy.empty(0, numpy.int32)
        self._table = numpy.empty(0, numpy.int32)
        # Whoever chooses texts does not know which of them meet in the table.
        self._factors = [secrets.randbits(64) | 1 for _ in range(LONGEST // _WORD)]

    def __len__(self) -> int:
        """Return how many texts have a number."""
        return len(self.texts)

    def of_all(self, texts: list[str]) -> Any:
        """Return the numbers of texts as `numbers_of` does; None where one has half a character, too."""
        try:
            return self.numbers_of(pa.array(texts, pa.string()))
        except UnicodeEncodeError:
            return None

    def numbers_of(self, texts: Any) -> Any:
        """Return the numbers of texts; new ones get one. None where one is longer than `LONGEST`.

        Parameters
        ----------
        texts : pyarrow.StringArray
            At least one, none null.
        """
        lengths = pc.binary_length(texts).to_numpy()
        longest = int(lengths.max())
        if longest > LONGEST:
            return None
        # Both before `words` are cut and slots computed: either may make a new table, in which slots are others.
        self._widen(-(-longest // _WORD))
        self._make_room(len(texts))
        words = self._cut(texts)
        found, slots = self._placed(words, lengths)
        # A text that carries its own claim is the first of its kind in the column: only that one gets a number.
        own = numpy.flatnonzero(found == _claim(numpy.arange(len(texts))))
        if len(own):
            first = len(self.texts)
            self.texts += texts.take(pa.array(own)).to_pylist()
            self._lengths[first : len(self.texts)] = lengths[own]
            for kept, word in zip(self._words, words, strict=True):
                kept[first : len(self.texts)] = word[own]
            given = numpy.empty(len(found), numpy.int64)
            given[own] = self._table[slots[own]] = numpy.arange(first, len(self.texts))
            new = found < _EMPTY
            # Repeats of a new text carry the claim of the first, which says where in the column that stands.
            found[new] = given[_claim(found[new])]
        return found

    def _cut(self, texts: Any) -> list[Any]:
        """Return texts, none of them too long, as words."""
        padded = pc.ascii_rpad(texts, _WORD * len(self._words), "\0")
        # All texts have the same length then, so the buffer is a table of words; lengths tell "a" from "a" with zeros.
        flat = numpy.frombuffer(padded.buffers()[2], numpy.dtype("<u8"), len(texts) * len(self._words))
        return list(flat.reshape(len(texts), -1).T)

    def _placed(self, words: Sequence[Any], lengths: Any) -> tuple[Any, Any]:
        """Return the number of each text, for a new one the claim of the first that is the same; and their slots."""
        slots = self._slots(words, lengths)
        found = numpy.empty(len(lengths), numpy.int64)
        left = numpy.arange(len(lengths))
        while len(left):
            there = self._table[slots[left]]
            empty = left[there == _EMPTY]
            if len(empty):
                # The first one of those that come together is written last.
                self._table[slots[empty[::-1]]] = _claim(empty[::-1])
                # Of texts that meet in one slot one has won; the others see its claim.
                there = self._table[slots[left]]
            same = numpy.empty(len(left), bool)
            known = there >= 0
            old, new = left[known], left[~known]
            same[known] = _alike(words, lengths, old, self._words, self._lengths, there[known])
            same[~known] = _alike(words, lengths, new, words, lengths, _claim(there[~known]))
            found[left[same]] = there[same]
            left = left[~same]
            # Linear probing ends, since half of the slots at least are empty (`_ROOM`).
            slots[left] = (slots[left] + 1) % len(self._table)
        return found, slots

    def keep(self, kept: Sequence[bool]) -> None:
        """Forget the other texts; those that are kept get numbers anew, in their order."""
        chosen = numpy.flatnonzero(kept)
        self.texts = list(compress(self.texts, kept))
        self._lengths[: len(chosen)] = self._lengths[chosen]
        for word in self._words:
            word[: len(chosen)] = word[chosen]
        self._fill(len(self._table))

    def _widen(self, words: int) -> None:
        if words > len(self._words):
            more = words - len(self._words)
            # Known texts are shorter and have zeros there; their slots change, as all words are mixed into them.
            self._words += [numpy.zeros(len(self._lengths), numpy.uint64) for _ in range(more)]
            self._fill(len(self._table))

    def _make_room(self, count: int) -> None:
        wanted = _ROOM * (len(self.texts) + count)
        if wanted > len(self._table):
            self._fill(1 << (wanted - 1).bit_length())

    def _fill(self, size: int) -> None:
        """Make a new table of all texts."""
        self._table = numpy.full(size, _EMPTY, numpy.int32)
        if size // _ROOM > len(self._lengths):
            more = size // _ROOM - len(self._lengths)
            self._lengths = numpy.append(self._lengths, numpy.zeros(more, numpy.int32))
            self._words = [numpy.append(word, numpy.zeros(more, numpy.uint64)) for word in self._words]
        count = len(self.texts)
        if count:
            words = [word[:count] for word in self._words]
            slots, left = self._slots(words, self._lengths[:count]), numpy.arange(count)
            while len(left):
                free = left[self._table[slots[left]] == _EMPTY]
                # Of several that want one slot the last write wins; the others see its number and go on.
                self._table[slots[free]] = free
                left = left[self._table[slots[left]] != left]
                slots[left] = (slots[left] + 1) % size

    def _slots(self, words: Sequence[Any], lengths: Any) -> Any:
        """Return where texts are looked for first.

        The highest bits say it: those of a product depend on all of a word, its lowest ones on its beginning only.
        """
        mixed = lengths.astype(numpy.uint64)
        for word, factor in zip(words, self._factors, strict=False):
            mixed = (mixed ^ word) * numpy.uint64(factor)
            mixed ^= mixed >> numpy.uint64(32)
        mixed *= numpy.uint64(_GOLDEN)
        return (mixed >> numpy.uint64(65 - len(self._table).bit_length())).astype(numpy.int64)


def _claim(places: Any) -> Any:
    """Return what stands in the table for texts at places of a column, and for that the places."""
    return _EMPTY - 1 - places


def _alike(words: Sequence[Any], lengths: Any, places: Any, others: Sequence[Any], sizes: Any, numbers: Any) -> Any:
    same = lengths[places] == sizes[numbers]
    for word, other in zip(words, others, strict=True):
        same &= word[places] == other[numbers]
    return same
