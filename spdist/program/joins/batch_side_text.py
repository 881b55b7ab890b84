"""The windows of a join's sides that release batches: their events look for partners when they are released.

The other side finds what was released last; where nothing that leaves is put out, all that was ever released, as in
Siddhi.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.program.joins.pair_text import PairWriter
from spdist.program.joins.side_text import SideRows, SideText
from spdist.program.parts import Event, Whole, indent
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.period_text import PeriodWriter

__all__ = ["BatchSideWriter", "PeriodSideWriter", "ReleasedPairs"]


class ReleasedPairs:
    """Stands for the `ResultWriter` of a batch window: what an event of a batch gives are its pairs.

    Parameters
    ----------
    results : PairWriter
        What the join puts out.
    pairs : callable
        From an event, and whether it leaves, to what selects from its pairs.
    resets : callable
        From source of a timestamp to what notes that a batch is over.
    apart : bool
        Whether what is released together is a chunk; else it is part of one.
    """

    late = False

    def __init__(
        self,
        results: PairWriter,
        pairs: Callable[[Event, bool], list[str]],
        resets: Callable[[str], list[str]],
        apart: bool,
    ) -> None:
        self._results = results
        self._apart = apart
        self.emits = pairs
        self.resets = resets

    def hands_over(self, chunk: list[str]) -> list[str]:
        """Return a chunk, given what makes its results, and what hands it over."""
        return self._results.hands_over(chunk) if self._apart else chunk


class BatchSideWriter(BatchWriter):
    """Writes what happens in the window of a side that releases batches; see `BatchWriter`.

    Parameters
    ----------
    whole, text, key, groups
        The text, the side, source of the number of the partition's key, and the totals of the join: there are none.
    released : ReleasedPairs
        What is put out.
    """

    def __init__(self, whole: Whole, text: SideText, key: str, groups: BatchGroups, released: ReleasedPairs) -> None:
        self._rows = SideRows(whole, text, key)
        given: Any = (None, released)  # nothing computes the arguments of aggregators
        super().__init__(whole, text, key, groups, *given)
        self._expires = text.shows_expired

    def _wanted(self) -> list[int]:
        return self._rows.wanted

    def _chunk(self, lines: list[str]) -> list[str]:
        return lines

    def _closes(self) -> list[str]:
        """Return what lets the batch before leave: with its own timestamps where it was looked at, as in Siddhi."""
        if not self._expires:
            return self._resets()
        looked = self._rows.looked
        gone = Event(self._kept, f"({self._prefix}_ts[d] if {looked} != 0 else now)", "")
        leaves = self._each("left", [*self._rows.leaves(), *self._results.emits(gone, True)])
        return [*leaves, *self._frees("left"), f"{looked} = 0", *self._resets()]

    def _releases(self) -> list[str]:
        """Return what lets the events of the open batch look for partners, and be found."""
        prefix, key = self._prefix, self._key
        head, left = f"{prefix}_head", f"{prefix}_left"
        event = Event(self._kept, f"{prefix}_ts[d]", "")
        moves = [
            f"if {left}[{key}] < 0:",
            f"    {left}[{key}] = {head}[{key}]",
            "else:",
            f"    {prefix}_next[{left}_end[{key}]] = {head}[{key}]",
            f"{left}_end[{key}] = {head}_end[{key}]",
            f"{left}_size[{key}] += {head}_size[{key}]",
            f"{head}[{key}] = -1",
            f"{head}_size[{key}] = 0",
        ]
        released = self._each("head", [*self._rows.enters(self._kept), *self._results.emits(event, False)])
        return [*released, f"if {head}[{key}] >= 0:", *indent(moves)]


class PeriodSideWriter(BatchSideWriter, PeriodWriter):
    """Writes what happens in the window of a side that releases the batches of a time; see `PeriodWriter`."""

    @property
    def _calm(self) -> list[str]:
        lists = ("head", "left") if self._expires else ("head",)
        return [f"{self._prefix}_{name}[{self._key}] < 0" for name in lists]
