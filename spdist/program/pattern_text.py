"""The block of a pattern or sequence in a program: which partial matches go on with an event, and which are complete.

A partial match is a node of a pool. It stands in a list: among those that have arrived at an element since an event was
last offered to it, or among those that wait there, which may also be found by a key. The meaning is that of
`spdist.operators.pattern_states`, in which an element is offered an event before the element in front of it is.

What is too old is looked for where it could be met: when an event is offered, and when the time of events goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from spdist.language import ast
from spdist.program.expressions import FLAG, NUMBER, TypedWriter, Value
from spdist.program.parts import Block, QueryText, Whole, indent
from spdist.program.pattern_lists import PatternLists, when
from spdist.program.pattern_shape import Matched
from spdist.program.query_text import PutOutEvent, QueryWriter

__all__ = ["PatternWriter", "SequenceWriter"]

_NEVER = str(-(2**63))


class PatternWriter(QueryWriter):
    """Writes the block of a pattern, for the events of one stream that it reads; the node of a partial match is ``d``.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, query, block, key)
        assert isinstance(query.read, Matched)
        self._pattern = query.read
        self._prefix = query.name
        self._at = self._key or "0"
        self._last = len(query.read.steps) - 1
        self._chunks = False
        opened = whole.arrays.declare(f"{query.name}_open", FLAG, query.instances, "1")
        #: Source of whether the first element waits for an event: 0, 1, or 2 where it does from the next event on.
        self._open = f"{opened}[{self._at}]"
        self._lists = PatternLists(whole, query, self._at, self._open)

    @property
    def results(self) -> Block:
        """The events that are put out, as far as that is known: one for each partial match that is completed."""
        return replace(self._block, pools=self._block.pools | {self._lists.nodes}) if self._last else self._block

    # The block.

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        count, pattern = self._whole.name(), self._pattern
        reading = [n for n, step in enumerate(pattern.steps) if step.stream == self._block.stream]
        # Siddhi hands out matches one by one where one element alone reads the stream.
        self._chunks = len(reading) > 1
        readers = self._chunked(count) if self._last in reading else []
        body = [*self._before_event(reading), *self._offered(reading, count if readers else "")]
        if self._block.guard:
            body = [f"if not ({self._block.guard.format(self._event)}):", "    continue", *body]
        loop = f"for {self._event} in range({self._block.begin}, {self._block.end}):"
        return [*([f"{count} = 0"] if readers else []), loop, *indent(body or ["pass"]), *readers]

    def expires(self) -> list[str]:
        """Return what drops the partial matches that were too old at the latest event."""
        if not self._pattern.within or not self._last:
            return []
        latest = self._latest()
        lines = when([f"{latest} > {_NEVER}"], self._lists.drops_all(latest))
        if self._key:
            lines = [f"for {self._key} in range(len({self._prefix}_latest)):", *indent(lines)]
        return lines

    def _before_event(self, reading: Sequence[int]) -> list[str]:
        """Return what is done before an event is offered: what is too old goes, and what has arrived waits."""
        lines: list[str] = []
        pattern, now = self._pattern, self._timestamp
        if pattern.within and self._last:
            latest = self._latest()
            back = [*self._lists.drops_all(latest), *self._lists.drops_all(now)]
            lines += [*when([f"{now} < {latest}"], back), f"{latest} = {now}"]
        for n in range(1, self._last + 1):
            # A repeated element begins anew when its partial match is too old, so it is always looked at.
            if pattern.within and (n in reading or n < pattern.repeated):
                lines += self._lists.drops(n, now)
        if pattern.repeated > 1 and 0 in reading:
            lines += [f"if {self._open} == 2:", f"    {self._open} = 1"]
        return [*lines, *chain.from_iterable(self._lists.joins(n) for n in reading if n)]

    def _offered(self, reading: Sequence[int], count: str) -> list[str]:
        """Return what offers the event to the elements that read it, the last one first."""
        lines: list[str] = []
        for n in reversed(reading):
            lines += self._offer(n, count) if n else self._begin(count)
        return lines

    def _latest(self) -> str:
        name = self._whole.arrays.declare(f"{self._prefix}_latest", NUMBER, self._query.instances, _NEVER)
        return f"{name}[{self._at}]"

    # Elements.

    @property
    def _may_begin(self) -> str:
        """Source of whether this event may be the first one of a match."""
        return self._open

    def _begin(self, count: str) -> list[str]:
        """Return what offers the event to the first element."""
        step = self._pattern.steps[0]
        inside = [] if self._pattern.repeated == 1 else [f"{self._open} = 0"]
        if self._last:
            inside += [
                f"d = allot({self._prefix}_free, {self._prefix}_next)",
                f"{self._prefix}_first[d] = {self._timestamp}",
                *self._goes_on(0),
            ]
        else:
            inside += self._completed(count)
        return self._where(step.alone, 0, inside, [f"{self._may_begin} == 1"])

    def _offer(self, n: int, count: str) -> list[str]:
        """Return what offers the event to those who wait at an element behind the first one."""
        step, number = self._pattern.steps[n], self._at
        if step.key is None:
            return self._where(step.alone, n, self._scanned(n, number, count))
        number, own, (ends, _) = self._whole.name(), self._attribute(step.key.own), self._lists.ends(n)
        scanned = [
            *self._scanned(n, number, count),
            f"if {ends[0]}[{number}] < 0:",
            f"    {self._lists.released(n, number)}",
        ]
        found = [
            *self._lists.word(own),
            f"{number} = known({self._lists.index(n)})",
            *when([f"{number} >= 0"], scanned),
        ]
        return self._where(step.alone, n, when([f"not ({own.null})"], found))

    def _scanned(self, n: int, number: str, count: str) -> list[str]:
        """Return what offers the event to those in a list, where it can fit any of them."""
        step, following, fresh = self._pattern.steps[n], self._whole.name(), self._whole.name()
        ((head, _), (_, after)), bound = self._lists.ends(n), step.bound
        goes = self._goes_on(n) if n < self._last else self._ends(count)
        loop = [f"{following} = {after}[d]", *self._where(step.rest, n, [*self._lists.unlinked(n, number), *goes])]
        if bound is None:
            return [f"d = {head}[{number}]", "while d >= 0:", *indent([*loop, f"d = {following}"])]
        # The bound is renewed on the way, as that of all who were there.
        edge, own = f"{self._prefix}_e{n}[{number}]", self._attribute(bound.own)
        scanned = [
            f"d, {fresh} = {head}[{number}], {self._lists.nobody(n)}",
            "while d >= 0:",
            *indent([*self._lists.easier(n, fresh), *loop, f"d = {following}"]),
            f"{edge} = {fresh}",
        ]
        return when([f"not ({own.null}) and {own.text} {bound.op} {edge}"], scanned)

    def _goes_on(self, n: int) -> list[str]:
        """Return what notes the event of an element, and lets the partial match arrive at the next element."""
        prefix, stores = self._prefix, []
        begin, end = self._pattern.bases[n : n + 2]
        for place in range(begin, end):
            if (f"{prefix}_p", place) in self._whole.needed:
                value, (values, nulls) = self._attribute(place), self._lists.kept_arrays(place)
                stores += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null}"]
        again = [f"{self._open} = 2"] if n + 1 == self._pattern.repeated > 1 else []
        return [
            *stores,
            f"{prefix}_ts[d] = {self._timestamp}",
            *self._arrives(n + 1),
            *again,
        ]

    def _arrives(self, n: int) -> list[str]:
        """Return what lets a partial match arrive at an element."""
        return self._lists.arrives(n)

    def _ends(self, count: str) -> list[str]:
        """Return what completes a partial match."""
        again = [f"{self._open} = 2"] if self._last + 1 == self._pattern.repeated > 1 else []
        return [*self._completed(count), f"give_back({self._prefix}_free, {self._prefix}_next, d)", *again]

    def _completed(self, count: str) -> list[str]:
        """Return what puts the result for a complete match into the buffers."""
        groups = self._groups
        lines = [*groups.finds(self._event_at), *groups.enters(self._match_writer)]
        if count:
            more = [f"{self._causes}[s] = {self._event}"] if self._chunks else []
            lines += self.put_out(PutOutEvent(self._event_at, self._timestamp, groups.number), count, more)
        return lines

    # Values.

    def _attribute(self, place: int) -> Value:
        """Return an attribute of the arriving event, given its place in the pattern."""
        return super()._attribute(place - self._pattern.bases[self._pattern.step_of(place)])

    def _event_at(self, place: int) -> Value:
        """Return an attribute of any event of a complete match."""
        return self._attribute(place) if self._pattern.step_of(place) == self._last else self._lists.kept(place)

    def _match_writer(self) -> TypedWriter:
        return self._writer(self._event_at, self._timestamp, self._groups.number)

    def _attribute_of(self, place: int) -> int | None:
        found = super()._attribute_of(place)
        if found is None or self._pattern.step_of(found) < self._last:
            return None
        return found - self._pattern.bases[self._last]

    def _where(
        self, conditions: Sequence[ast.Expression], n: int, inside: list[str], tests: Sequence[str] = ()
    ) -> list[str]:
        """Return lines that run those `inside` where the conditions of an element and some tests hold."""
        for condition in reversed(conditions):
            writer = self._element_writer(n)
            test = writer.condition(condition)
            inside = [*writer.lines, f"if {test}:", *indent(inside)]
        return when(tests, inside)

    def _element_writer(self, n: int) -> TypedWriter:
        """Return a writer of the conditions of an element."""
        step, pattern = self._pattern.steps[n], self._pattern

        def variable(named: ast.Variable) -> Value:
            reference = step.scope.resolve(named)
            place = pattern.place(reference)
            return self._attribute(place) if reference.source == n else self._lists.kept(place)

        return TypedWriter(variable, self._timestamp, self._whole.name, self._whole.text_number)

    # What comes out.

    @property
    def _room(self) -> str:
        return self._lists.nodes if self._last else "chunk"

    @property
    def _causes(self) -> str:
        """The array that has of each result the event that has completed the match."""
        return self._whole.arrays.declare(f"{self._prefix}_o_at", NUMBER, self._room)

    def _chunked(self, count: str) -> list[str]:
        """Return the blocks of who reads what is put out: of single matches, or of all that an event completes."""
        begin, end = self._whole.name(), self._whole.name()
        readers = self._readers(begin, end, self._room)
        if not readers:
            return []
        more = []
        if self._chunks:
            more = [f"while {end} < {count} and {self._causes}[{end}] == {self._causes}[{begin}]:", f"    {end} += 1"]
        body = [f"{end} = {begin} + 1", *more, *readers, f"{begin} = {end}"]
        return [f"{begin} = 0", f"while {begin} < {count}:", *indent(body)]


class SequenceWriter(PatternWriter):
    """Writes the block of a sequence: with each event, what has arrived at an element goes on or ends.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def expires(self) -> list[str]:
        """Return nothing: what is too old goes with the next event."""
        return []

    def _before_event(self, reading: Sequence[int]) -> list[str]:
        prefix, within = self._prefix, self._pattern.within
        lines: list[str] = []
        for n in range(1, self._last + 1):
            waits = self._waits(n)
            lines += [f"{self._name(n)} = {waits}", f"{waits} = -1"]
            gone = [f"give_back({prefix}_free, {prefix}_next, {self._name(n)})", f"{self._name(n)} = -1"]
            if n not in reading:
                lines += [f"if {self._name(n)} >= 0:", *indent(gone)]
            elif within:
                age = f"{prefix}_first[{self._name(n)}] - {self._timestamp}"
                lines += [f"if {self._name(n)} >= 0 and not -{within} <= {age} <= {within}:", *indent(gone)]
        if not self._pattern.repeated:
            # Only the first event of all can begin.
            lines += [f"fresh = {self._open}", f"{self._open} = 0"]
        return lines

    @property
    def _may_begin(self) -> str:
        return self._open if self._pattern.repeated else "fresh"

    def _offer(self, n: int, count: str) -> list[str]:
        step, goes_on = self._pattern.steps[n], self._goes_on(n) if n < self._last else self._ends(count)
        fits = self._where((*step.alone, *step.rest), n, [*goes_on, f"{self._name(n)} = -1"])
        gone = f"give_back({self._prefix}_free, {self._prefix}_next, d)"
        return [
            f"d = {self._name(n)}",
            "if d >= 0:",
            *indent([*fits, f"if {self._name(n)} >= 0:", f"    {gone}"]),
        ]

    def _arrives(self, n: int) -> list[str]:
        return [f"{self._waits(n)} = d"]

    def _name(self, n: int) -> str:
        """Return the name of the partial match that waits at an element."""
        return f"w{n}"

    def _waits(self, n: int) -> str:
        waits = self._whole.arrays.declare(f"{self._prefix}_new{n}", NUMBER, self._query.instances, "-1")
        return f"{waits}[{self._at}]"
