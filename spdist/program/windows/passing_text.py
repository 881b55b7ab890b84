"""Windows of a program that hold nothing: an event leaves as soon as it has come, or nobody ever sees it leave."""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.expressions import Value
from spdist.program.parts import Event
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.text import WindowWriter

__all__ = ["EachWriter", "PassingWriter"]


class PassingWriter(WindowWriter):
    """Writes what happens in a window that holds nothing; see `WindowWriter`. An event has a node while it passes."""

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return f"{self._prefix}_ts[d]" if self._window.resets else "now"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event be there."""
        return self._holds(read, timestamp)

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets the new event leave."""
        return self._left(leaving) if self._window.is_left else self._frees()

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return nothing: none is there any more."""
        return []


class EachWriter(BatchWriter):
    """Writes what a window does that has each event for a batch, which leaves when it has come; see `BatchWriter`."""

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event; where no batch is ever full, nothing."""
        if self._window.length:
            return []
        comes = [*self._holds(event, "head"), *self._releases(), *self._leaves()]
        return self._results.hands_over(self._chunk([*comes, *self._groups.passes(event.read, self._renews())]))
