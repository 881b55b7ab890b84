"""Numbers that stand for texts in a program: one open table over the bytes of Arrow's columns."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.language.types import Type
from spdist.mapping.columns import validity

__all__ = ["TextTable", "numbers_of", "texts_of"]

_FIRST = 64
_MOST_KNOWN = 10_000
#: What a column of Arrow with offsets of 32 bits may hold.
_MOST_BYTES = 2**31 - 1


class TextTable:
    """Texts by number, from 0 on in the order in which they first came.

    Parameters
    ----------
    kernels : module
        `spdist.program.machine.kernels`.
    first : Sequence of str
        Those that have the first numbers.

    State
    -----
    Each text once, and 4 to 8 words for each; `keep` forgets those that nobody uses. `starts` has where each text, and
    the one behind all, begins in `arena`.
    """

    def __init__(self, kernels: Any, first: Sequence[str]) -> None:
        self._kernels = kernels
        self._first = tuple(first)
        #: How many there were when some were forgotten last.
        self.kept = 0
        self._reset()

    def _reset(self) -> None:
        #: Of some texts, for those who ask for one.
        self._known: dict[str, int] = {}
        self._shown: dict[int, str] = {}
        self._slots = numpy.full(2 * _FIRST, -1, numpy.int64)
        self.starts = numpy.zeros(_FIRST, numpy.int64)
        self._hashes = numpy.zeros(_FIRST, numpy.uint64)
        self.arena = numpy.zeros(16 * _FIRST, numpy.uint8)
        # Whoever chooses texts does not know which of them meet in the table.
        self._meta = numpy.array([0, secrets.randbits(62)], numpy.int64)
        if self._first:
            self.numbers(pa.array(self._first, pa.string()))

    def __len__(self) -> int:
        """Return how many texts have a number."""
        return int(self._meta[0])

    def numbers(self, texts: Any, into: Any = None) -> Any:
        """Return the numbers of texts as an int64 array; new ones get one.

        Parameters
        ----------
        texts : pyarrow.StringArray
            Nulls are counted as empty texts: who reads them looks at the validity first.
        into : numpy.ndarray, optional
            Gets the numbers, and is returned.
        """
        count = len(texts)
        found = numpy.empty(count, numpy.int64) if into is None else into
        if not count:
            return found
        _, offsets, data = texts.buffers()
        begins = numpy.frombuffer(offsets, numpy.int32)[texts.offset : texts.offset + count + 1]
        content = numpy.frombuffer(b"" if data is None else data, numpy.uint8)
        done = 0
        while done < count:
            done += self._kernels.number_texts(
                begins[done:], content, self._slots, self.starts, self.arena, self._hashes, self._meta, found[done:]
            )
            if done < count:
                self._grow(int(begins[done + 1] - begins[done]))
        return found

    def number(self, text: str) -> int:
        """Return the number of one text; a new one gets one."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            found = self._known[text] = int(self.numbers(pa.array([text], pa.string()))[0])
        return found

    def text(self, number: int) -> str:
        """Return the text with a number."""
        found = self._shown.get(number)
        if found is None:
            if len(self._shown) > _MOST_KNOWN:
                self._shown.clear()
            found = bytes(self.arena[self.starts[number] : self.starts[number + 1]]).decode()
            self._shown[number] = found
        return found

    def _grow(self, length: int) -> None:
        """Make room for at least one more text of so many bytes."""
        count = len(self)
        if count + 2 >= len(self.starts):
            self.starts = numpy.concatenate([self.starts, numpy.zeros(len(self.starts), numpy.int64)])
            self._hashes = numpy.concatenate([self._hashes, numpy.zeros(len(self._hashes), numpy.uint64)])
        if int(self.starts[count]) + length > len(self.arena):
            more = max(len(self.arena), length)
            self.arena = numpy.concatenate([self.arena, numpy.zeros(more, numpy.uint8)])
        if 2 * (count + 1) > len(self._slots):
            size = 2 * len(self._slots)
            self._slots = numpy.full(size, -1, numpy.int64)
            self._kernels.refill_texts(self._slots, self._hashes, count)

    def texts(self, numbers: Any, nulls: Any = None) -> Any:
        """Return the texts with these numbers, an array, as an Arrow array; where `nulls` is not 0, there is none."""
        rows = numpy.ascontiguousarray(numbers, numpy.int64)
        # Of a value that is null the number may be 0 where there is no text yet.
        return texts_of(self.starts[: max(1, len(self)) + 1], self.arena, rows, nulls, self._kernels)

    def keep(self, used: Any) -> Any:
        """Forget all texts but those with the numbers `used`, and the first ones.

        Returns
        -------
        numpy.ndarray
            The new number of each old one, int64; -1 of those that are forgotten.
        """
        kept = numpy.union1d(numpy.arange(len(self._first)), used)
        texts = self.texts(kept)
        fresh = numpy.full(len(self), -1, numpy.int64)
        self._reset()
        fresh[kept] = self.numbers(texts)
        self.kept = len(self)
        return fresh


def numbers_of(column: Any, type: Type, texts: TextTable, into: Any = None) -> Any:
    """Return the values of an Arrow column as a program has them: 0 where they are null.

    Parameters
    ----------
    column : pyarrow.Array
        The values.
    type : Type
        Theirs.
    texts : TextTable
        Gives texts their numbers.
    into : numpy.ndarray, optional
        Gets the numbers of texts, and is returned then.
    """
    if type is Type.STRING:
        found = texts.numbers(column, into)
        if column.null_count:
            found[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return found
    if column.null_count:
        column = column.fill_null(False if type is Type.BOOL else 0)
    return column.to_numpy(zero_copy_only=False)


def texts_of(begins: Any, content: Any, rows: Any, nulls: Any, kernels: Any) -> Any:
    """Return texts as a column of their own.

    Parameters
    ----------
    begins, content : numpy.ndarray
        Where each text begins, and the last one ends; the bytes.
    rows : numpy.ndarray
        Which ones, int64.
    nulls : numpy.ndarray, optional
        Where not 0, there is none.
    kernels : module
        `spdist.program.machine.kernels`.

    Raises
    ------
    IndexError
        There is no such row.
    OverflowError
        They have more bytes than a column of Arrow.
    """
    # The kernels are compiled for what is read only, as some of it is.
    begins, content = begins.view(), content.view()
    begins.flags.writeable = content.flags.writeable = False
    bounds = numpy.empty(len(rows) + 1, numpy.int32)
    size = kernels.bounds_gathered(begins, rows, bounds)
    if size < 0:
        raise IndexError(f"one of the rows is none of {len(begins) - 1}")
    if size > _MOST_BYTES:
        raise OverflowError(f"the texts of a batch have {size} bytes together")
    gathered = numpy.empty(size + kernels.SLACK, numpy.uint8)
    kernels.texts_gathered(begins, content, rows, bounds, gathered)
    valid = None if nulls is None else validity(nulls)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(bounds), pa.py_buffer(gathered), valid)
