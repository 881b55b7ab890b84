"""The windows of a join's sides: those of queries, of which the other side finds what they hold.

What a window does is written as in a query, by the same classes: here they are told that there are no totals, what is
done with an event that enters or leaves, and who is found. Of a window that releases batches events look for partners
when they are released; the other side finds those released last, or, where nothing that leaves is put out, all that
ever were, as in Siddhi.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.language import ast
from spdist.program.expressions import Value
from spdist.program.joins.pair_text import PairWriter
from spdist.program.joins.side_text import SideRows, SideText
from spdist.program.parts import Aggregate, Event, Whole
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.queries.result_text import ResultWriter
from spdist.program.shape import Sliding
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.text import WindowWriter

__all__ = ["BatchSideWriter", "ReleasedPairs", "SideGroups", "SideWriter", "batch_side", "sliding_side"]


class SideGroups(BatchGroups):
    """Stands for the totals: a side has none."""

    def __init__(self, whole: Whole, text: SideText, key: str) -> None:
        super().__init__(whole.arrays, text, key, key, _nothing)
        self.grouped, self.number = False, key

    def _aggregators(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        return []

    def _conditions(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        return []


def _nothing(*_: Any) -> Any:
    raise AssertionError("a side has no totals")


class SideWriter(WindowWriter):
    """Writes what happens in the window of a side that events leave one by one; see `WindowWriter`."""

    def __init__(self, whole: Whole, text: SideText, window: Sliding, key: str) -> None:
        self._rows = SideRows(whole, text, key)
        super().__init__(whole, text, window, key, SideGroups(whole, text, key))

    def _wanted(self) -> list[int]:
        return self._rows.wanted

    def _holds(self, read: Callable[[int], Value], timestamp: str) -> list[str]:
        return [*super()._holds(read, timestamp), *self._rows.enters(read)]

    def _frees(self, node: str = "d") -> list[str]:
        return [*self._rows.leaves(), *super()._frees(node)]


class ReleasedPairs:
    """Stands for the `ResultWriter` of a batch window: what an event of a batch gives are its pairs.

    Parameters
    ----------
    results : PairWriter
        What the join puts out.
    pairs : callable
        From an event, and whether it leaves, to what selects from its pairs.
    resets : callable
        From source of a timestamp to what is done when a batch is over.
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
    """Writes what happens in the window of a side that releases batches; see `BatchWriter`."""

    def __init__(self, whole: Whole, text: SideText, key: str, released: ReleasedPairs | ResultWriter) -> None:
        self._rows = SideRows(whole, text, key)
        given: Any = (_nothing, released)  # nothing computes the arguments of aggregators
        super().__init__(whole, text, key, SideGroups(whole, text, key), *given)

    def _wanted(self) -> list[int]:
        return self._rows.wanted

    def _goes(self) -> list[str]:
        return self._rows.leaves()

    def _enters(self, event: Event, node: str) -> list[str]:
        found = self._rows.enters(event.read) if self._keeps else []
        return [*found, *super()._enters(event, node)]

    def _holds(self, event: Event, where: str) -> list[str]:
        found = self._rows.enters(event.read) if where == self._rows.list == "head" else []
        return [*super()._holds(event, where), *found]


def sliding_side(make: type[WindowWriter]) -> type[SideWriter]:
    """Return what writes a window on a side, given what writes it in a query."""
    # The side's class is first: its methods add to those of the window, which `super` finds behind it.
    return type(f"Side{make.__name__}", (SideWriter, make), {})


def batch_side(make: type[BatchWriter]) -> type[BatchSideWriter]:
    """Return what writes a window that releases batches on a side, given what writes it in a query."""
    return type(f"Side{make.__name__}", (BatchSideWriter, make), {})
