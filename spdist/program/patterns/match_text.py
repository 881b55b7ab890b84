"""What patterns put out: matches are handed over one by one, or all that an event completes together."""

from __future__ import annotations

from typing import Any

from spdist.program.begun import begun
from spdist.program.expressions import NUMBER
from spdist.program.parts import Event, Most, asked
from spdist.program.patterns.shape import Matched
from spdist.program.queries.result_text import ResultWriter

__all__ = ["MatchWriter"]


class MatchWriter(ResultWriter):
    """Writes what a pattern puts out: matches are handed over one by one, or all that an event completes together.

    Parameters
    ----------
    whole, query, block, key, groups, writer
        As for `ResultWriter`.
    by_event : bool
        Whether what an event completes is one chunk.
    """

    def __init__(self, *given: Any, by_event: bool) -> None:
        whole, query = given[:2]
        self._by_event = by_event
        self._begin, self._end = whole.name(), whole.name()
        super().__init__(*given)
        self._causes = whole.arrays.declare(f"{query.name}_o_at", NUMBER, self._buffers.room)

    @property
    def _bounds(self) -> tuple[str, str]:
        return self._begin, self._end

    def _own_attribute(self, place: int) -> int | None:
        pattern, found = self._read, self._attribute_of(place)
        assert isinstance(pattern, Matched)
        last = len(pattern.steps) - 1
        # Only the last event is one of this call for sure; others are read from the node.
        if found is None or pattern.step_of(found) < last or pattern.may_lack(last):
            return None
        return found - pattern.bases[last]

    @property
    def _most(self) -> Most:
        assert isinstance(self._read, Matched)
        if self._read.states is not None:
            return Most({asked(self._query.name): 1})
        # Also those that have begun with events of other streams, which may be several for an event of a source.
        return Most({begun(self._query.name): 1, self._query.name: 1})

    def hands_over(self, chunk: list[str]) -> list[str]:
        """Return a chunk, given what makes its results, and what hands them over."""
        if not self.wanted:
            return chunk
        loop = self._in_runs(self._causes if self._by_event else "")
        return [f"{self.count} = {self.first}", *chunk, *self._arranged.lines(), *loop]

    def of_match(self, event: Event, cause: str) -> list[str]:
        """Return what puts the result of a match into the chunk; `cause` is the event that has completed it."""
        return self.emits(event, noted=[f"{self._causes}[s] = {cause}"] if self._by_event else [])
