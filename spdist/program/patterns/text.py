"""The block of a pattern or sequence in a program: which partial matches go on with an event, and which are complete.

A partial match is a node of a pool. It stands in a list: among those that have arrived at an element since an event was
last offered to it, or among those that wait there, which may also be found by a key. The meaning is that of
`spdist.operators.patterns.states`, in which an element is offered an event before the element in front of it is.

What is too old is looked for where it could be met: when an event is offered, and when the time of events goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from spdist.program.parts import indent
from spdist.program.patterns.element_text import ElementWriter
from spdist.program.patterns.match_text import MatchWriter
from spdist.program.patterns.nodes import when
from spdist.program.timer_text import NEVER

__all__ = ["PatternWriter"]


class PatternWriter(ElementWriter):
    """Writes the block of a pattern, for the events of one stream that it reads; the node of a partial match is ``d``.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        reading = [n for n in self._pattern.order if self._pattern.steps[n].stream == self.block.stream]
        results = None
        last = [n for n in reading if self._pattern.is_last(n) and not self._pattern.steps[n].absent]
        if last and not self._pattern.waits:
            given = self.whole, self.query, self.block, self.key, self.groups, self._writer
            # Siddhi hands out matches one by one where one element alone reads the stream.
            results = MatchWriter(*given, by_event=len(reading) > 1)
        # Where one element alone reads the stream, they do so behind the last event: some may be too old by then.
        shared = self._pattern.shares and self._pattern.within and not self._pattern.strict
        self._late = self.whole.name() if results is not None and shared and len(reading) == 1 else ""
        body = [*self._before_event(reading), *self._offered(reading, results)]
        if self.block.guard:
            body = [f"if not ({self.block.guard.format(self._event)}):", "    continue", *body]
        loop = [f"for {self._event} in range({self.block.begin}, {self.block.end}):", *indent(body or ["pass"])]
        if self._late:
            loop = [f"{self._late} = 0", *loop, *self._completed_late(results)]
        return loop if results is None else results.hands_over(loop)

    def expires(self) -> list[str]:
        """Return what drops the partial matches that were too old at the latest event."""
        if not self._pattern.within or not self._last or self._pattern.shares:
            return []
        latest = self._latest()
        lines = when([f"{latest} > {NEVER}"], self._lists.drops_all(latest))
        if self.key:
            lines = [f"for {self.key} in range(len({self.prefix}_latest)):", *indent(lines)]
        return lines

    def timers(self) -> list[list[str]]:
        """Return, for each absence, what is done when the wait of a key is over."""
        return [self._lists.timers[n].wakes(self._wakes_absence(n)) for n in self._pattern.absences]

    def _wakes_absence(self, n: int) -> list[str]:
        """Return what lets those go on who have waited long enough for an event not to come.

        Where they are in the order of their times, all behind one whose wait is not over need not be looked at.
        """
        pattern, lists, prefix = self._pattern, self._lists, self.prefix
        following, waiting, within = self.whole.name(), pattern.steps[n].waiting, pattern.within
        over, (head, tail), shares = self.whole.name(), lists.order(n), pattern.shares
        results = None
        if n == self._last:
            given = self.whole, self.query, self.block, self.key, self.groups, self._writer
            results = MatchWriter(*given, by_event=False)
        goes = self._ends(results, "due") if n == self._last else self._moves(n)
        moves = [f"{over} = 1", f"{prefix}_ts[d] = due", *lists.leaves(n), *goes]
        calm = [] if shares else [f"{lists.mixed(n)} == 0"]
        looked = [f"if due >= {prefix}_ts[d] + {waiting}:", *indent(moves)]
        old: list[str] = []
        if within:
            if not shares:
                calm.append(f"{prefix}_first[{tail}[{self._at}]] - due <= {within}")
                old = when([f"{self._latest()} > {NEVER}"], lists.drops(n, self._latest()))
            began = [f"{self._open} = 1"] if self._again(n) else []
            gone = [*lists.leaves(n), *lists.goes(), *began]
            looked = [f"if {lists.too_old('due')}:", *indent(gone), f"el{looked[0]}", *looked[1:]]
        # Read before a match leaves: then its links may be those of another list.
        looked = [f"{following} = {lists.links(n)[1]}[d]", *looked]
        looked += [f"elif {' and '.join(calm)}:", "    break"] if calm else []
        lines = [
            *old,
            *lists.joins(n),
            *([f"if {self._open} == 2:", f"    {self._open} = 1"] if n < pattern.repeated else []),
            f"{over}, d = 0, {head}[{self._at}]",
            "while d >= 0:",
            *indent([*looked, f"d = {following}"]),
            f"if now > due + {waiting}:",
            f"    {lists.deadline(n)} = now + {waiting}",
            f"if {over} == 0 and {lists.deadline(n)} < due:",
            *indent(lists.waits_from(n, "due")),
        ]
        return lines if results is None else results.hands_over(lines)

    def _before_event(self, reading: Sequence[int]) -> list[str]:
        """Return what is done before an event is offered: what is too old goes, and what has arrived waits."""
        lines: list[str] = []
        pattern, now = self._pattern, self.timestamp
        if pattern.within and pattern.shares:
            # Whoever waits at several elements is too old everywhere when it is at one of them.
            lines += self._lists.drops_all(now)
        elif pattern.within and self._last:
            latest = self._latest()
            back = [*self._lists.drops_all(latest), *self._lists.drops_all(now)]
            lines += [*when([f"{now} < {latest}"], back), f"{latest} = {now}"]
        for n in range(1, self._last + 1):
            # A repeated element begins anew when its partial match is too old, so it is always looked at.
            if pattern.within and not pattern.shares and (n in reading or n < pattern.repeated):
                lines += self._lists.drops(n, now)
        if pattern.repeated > 1 and 0 in reading:
            lines += [f"if {self._open} == 2:", f"    {self._open} = 1"]
        if set(pattern.starts) & {*reading} & {*pattern.listed}:
            begun = [f"{self._open} = 0", *self._lists.begins("-1"), *self._lists.arrives(0)]
            lines += when([f"{self._open} == 1"], begun)
        partners = {pattern.steps[n].partner for n in reading}
        joining = [n for n in pattern.listed if n in reading or n in partners]
        return [*lines, *chain.from_iterable(map(self._lists.joins, joining))]

    def _offered(self, reading: Sequence[int], results: MatchWriter | None) -> list[str]:
        """Return what offers the event to the elements that read it, the last one first."""
        lines: list[str] = []
        for n in reversed(reading):
            lines += self._offer(n, results) if n in self._pattern.listed else self._begin(results)
        return lines

    def _begin(self, results: MatchWriter | None) -> list[str]:
        """Return what offers the event to the first element."""
        step = self._pattern.steps[0]
        inside = [] if self._pattern.repeated == 1 else [f"{self._open} = 0"]
        if self._last:
            inside += [
                *self._lists.begins(self.timestamp),
                f"{self.prefix}_first[d] = {self.timestamp}",
                *self._goes_on(0),
            ]
        else:
            inside += self._completed(results)
        return self._where(step.alone, 0, inside, [f"{self._may_begin} == 1"])

    def _offer(self, n: int, results: MatchWriter | None) -> list[str]:
        """Return what offers the event to those who wait at an element behind the first one."""
        step, number = self._pattern.steps[n], self._at
        over = self._lists.lets_go(n) if step.lingers else []
        if step.key is None:
            return [*over, *self._where(step.alone, n, self._scanned(n, number, results))]
        number, own, (ends, _) = self.whole.name(), self.attribute(step.key.own), self._lists.ends(n)
        scanned = [
            *self._scanned(n, number, results),
            f"if {ends[0]}[{number}] < 0:",
            f"    {self._lists.released(n, number)}",
        ]
        found = [
            *self._lists.word(own),
            # Not `find`: a value that nobody waits for must get no number.
            f"{number} = known({self._lists.index(n)})",
            *when([f"{number} >= 0"], scanned),
        ]
        return [*over, *self._where(step.alone, n, when([f"not ({own.null})"], found))]

    def _scanned(self, n: int, number: str, results: MatchWriter | None) -> list[str]:
        """Return what offers the event to those in a list, where it can fit any of them."""
        step, following, fresh = self._pattern.steps[n], self.whole.name(), self.whole.name()
        ((head, _), (_, after)), bound = self._lists.ends(n), step.bound
        if step.counted:
            goes = self._collects(n, number, results)
        elif step.partner is not None:
            goes = self._pairs(n, step.partner, results)
        elif step.waiting is not None:
            time = [f"{self.prefix}_ts[d] = {self.timestamp}"] if self._pattern.shares else []
            goes = [*time, *self._lists.waits_from(n, self.timestamp), *self._lists.goes()]
        else:
            goes = [*self._lists.comes(n), *self._ends(results)] if self._pattern.is_last(n) else self._goes_on(n)
        if not (step.counted or (step.absent and n in self._pattern.starts)):
            goes = [*self._lists.unlinked(n, number), *goes]
        loop = [f"{following} = {after}[d]", *self._where(step.rest, n, goes)]
        if bound is None:
            return [f"d = {head}[{number}]", "while d >= 0:", *indent([*loop, f"d = {following}"])]
        # The bound is renewed on the way, as that of all who were there.
        edge, own = f"{self.prefix}_e{n}[{number}]", self.attribute(bound.own)
        scanned = [
            f"d, {fresh} = {head}[{number}], {self._lists.nobody(n)}",
            "while d >= 0:",
            *indent([*self._lists.easier(n, fresh), *loop, f"d = {following}"]),
            f"{edge} = {fresh}",
        ]
        return when([f"not ({own.null}) and {own.text} {bound.op} {edge}"], scanned)
