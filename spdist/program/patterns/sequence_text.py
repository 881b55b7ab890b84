"""The block of a sequence in a program: with each event, what has arrived at an element goes on or ends."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.program.expressions import NUMBER
from spdist.program.parts import indent
from spdist.program.patterns.match_text import MatchWriter
from spdist.program.patterns.nodes import when
from spdist.program.patterns.text import PatternWriter

__all__ = ["SequenceWriter"]


class SequenceWriter(PatternWriter):
    """Writes the block of a sequence: with each event, what has arrived at an element goes on or ends.

    One partial match at most has arrived at an element, ``q_new``; a counted element lets one arrive at itself again.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def expires(self) -> list[str]:
        """Return nothing: what is too old goes with the next event."""
        return []

    def _before_event(self, reading: Sequence[int]) -> list[str]:
        lines: list[str] = []
        for n in range(1, self._last + 1):
            waits, name = self._waits(n), self._name(n)
            # Taken out first: what arrives during this event waits for the next one.
            lines += [f"{name} = {waits}", f"{waits} = -1"]
            gone = [f"d = {name}", *self._lists.goes(), f"{name} = -1"]
            if n not in reading:
                lines += [f"if {name} >= 0:", *indent(gone)]
            elif self._pattern.within:
                lines += [f"d = {name}", f"if d >= 0 and {self._lists.too_old(self.timestamp)}:", *indent(gone)]
        if not self._pattern.repeated:
            # Only the first event of all can begin.
            lines += [f"fresh = {self._open}", f"{self._open} = 0"]
        return lines

    @property
    def _may_begin(self) -> str:
        return self._open if self._pattern.repeated else "fresh"

    def _offer(self, n: int, results: MatchWriter | None) -> list[str]:
        step, shares = self._pattern.steps[n], self._pattern.shares
        if step.counted:
            goes = self._collected(n)
        elif n < self._last:
            goes = self._goes_on(n)
        else:
            goes = [*self._lists.comes(n), *self._completed(results)]
        # What goes on is a node still; where matches wait at several elements, each counts.
        stays = [] if shares or n == self._last else [f"{self._name(n)} = -1"]
        fits = self._where((*step.alone, *step.rest), n, [*goes, *stays])
        if step.counted:
            # What follows has come: one of the next two elements.
            over = sum(1 << slot for slot in (n + 1, n + 2))
            fits = when([f"{self.prefix}_bits[d] & {over} == 0"], fits)
        gone = when([] if shares or n == self._last else [f"{self._name(n)} >= 0"], self._lists.goes())
        return [f"d = {self._name(n)}", "if d >= 0:", *indent([*fits, *gone])]

    def _collected(self, n: int) -> list[str]:
        """Return what adds the event to those of a counted element, and lets the match arrive where it may go on."""
        step, count = self._pattern.steps[n], self._lists.counted(n)
        most = [] if step.most is None else [f"{count} != {step.most}"]
        return [
            *when([f"{count} == 0"], self._lists.comes(n)),
            *self._shifted(n, count),
            f"{count} += 1",
            f"{self.prefix}_ts[d] = {self.timestamp}",
            *when([f"{count} >= {step.least}"], self._arrives(n + 1)),
            *when(most, self._arrives(n)),
        ]

    def _arrives(self, n: int) -> list[str]:
        step, waits = self._pattern.steps[n], self._waits(n)
        if not self._pattern.shares:
            return [f"{waits} = d"]
        lines = [f"if {waits} < 0:", f"    {waits} = d", f"    {self.prefix}_refs[d] += 1"]
        if step.least:
            return lines
        return [*lines, *when([f"{self._lists.counted(n)} == 0"], self._arrives(n + 1))]

    def _moves(self, n: int) -> list[str]:
        """Return what lets a partial match go on; one that begins is gone where another one has arrived already."""
        gone = f"give_back({self.prefix}_free, {self.prefix}_next, d)"
        unwanted = when([f"{self.prefix}_refs[d] == 0"], [gone]) if self._pattern.shares and not n else []
        return [*self._arrives(n + 1), *unwanted]

    def _name(self, n: int) -> str:
        """Return the name of the partial match that waits at an element."""
        return f"match{n}"

    def _waits(self, n: int) -> str:
        waits = self.whole.arrays.declare(f"{self.prefix}_new{n}", NUMBER, self.query.instances, "-1")
        return f"{waits}[{self._at}]"
