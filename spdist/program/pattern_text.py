"""The block of a pattern or sequence in a program: which partial matches go on with an event, and which are complete.

A partial match is a node of a pool. It stands in a list: among those that have arrived at an element since an event was
last offered to it, or among those that wait there, which may also be found by a key. The meaning is that of
`spdist.operators.pattern_states`, in which an element is offered an event before the element in front of it is.

What is too old is looked for where it could be met: when an event is offered, and when the time of events goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from spdist.language import ast
from spdist.program.expressions import FLAG, NUMBER, NotTyped, TypedWriter, Value
from spdist.program.parts import Block, Event, Most, QueryText, Whole, indent
from spdist.program.pattern_lists import PatternLists, when
from spdist.program.pattern_shape import Matched
from spdist.program.query_text import QueryWriter
from spdist.program.result_text import ResultWriter

__all__ = ["PatternWriter", "SequenceWriter"]

_NEVER = str(-(2**63))


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
        self._causes = whole.arrays.declare(f"{query.name}_o_at", NUMBER, f"chunk {query.name}")
        super().__init__(*given)

    @property
    def _bounds(self) -> tuple[str, str]:
        return self._begin, self._end

    def _own_attribute(self, place: int) -> int | None:
        pattern, found = self._read, self._attribute_of(place)
        assert isinstance(pattern, Matched)
        last = len(pattern.steps) - 1
        if found is None or pattern.step_of(found) < last or pattern.steps[last].optional:
            return None
        return found - pattern.bases[last]

    @property
    def _most(self) -> Most:
        # A first element with a list begins for two reasons: once, and when another match has gone on.
        assert isinstance(self._read, Matched)
        begun = sum([self._block.most] * (1 + self._read.steps[0].optional), Most())
        return begun + Most({self._query.name: 1})

    def hands_over(self, chunk: list[str]) -> list[str]:
        """Return a chunk, given what makes its results, and what hands them over."""
        if not self.wanted:
            return chunk
        begin, end, count, causes = self._begin, self._end, self.count, self._causes
        more = [f"while {end} < {count} and {causes}[{end}] == {causes}[{begin}]:", f"    {end} += 1"]
        body = [f"{end} = {begin} + 1", *(more if self._by_event else []), *self._reads(), f"{begin} = {end}"]
        loop = [f"{begin} = 0", f"while {begin} < {count}:", *indent(body)]
        return [f"{count} = 0", *chunk, *self._arranged.lines(), *loop]

    def of_match(self, event: Event, cause: str) -> list[str]:
        """Return what puts the result of a match into the chunk; `cause` is the event that has completed it."""
        return self.of(event, noted=[f"{self._causes}[s] = {cause}"] if self._by_event else [])


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
        opened = whole.arrays.declare(f"{query.name}_open", FLAG, query.instances, "1")
        #: Source of whether the first element waits for an event: 0, 1, or 2 where it does from the next event on.
        self._open = f"{opened}[{self._at}]"
        self._lists = PatternLists(whole, query, self._at, self._open)
        #: The name of how many matches a chunk has completed, where their results are made behind its last event.
        self._late = ""

    # The block.

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        reading = [n for n in self._pattern.order if self._pattern.steps[n].stream == self._block.stream]
        results = None
        last = [n for n in reading if self._pattern.is_last(n) and not self._pattern.steps[n].absent]
        if last and not self._pattern.waits:
            given = self._whole, self._query, self._block, self._key, self._groups, self._writer
            # Siddhi hands out matches one by one where one element alone reads the stream.
            results = MatchWriter(*given, by_event=len(reading) > 1)
        # Where one element alone reads the stream, they do so behind the last event: some may be too old by then.
        shared = self._pattern.shares and self._pattern.within and not self._pattern.strict
        self._late = self._whole.name() if results is not None and shared and len(reading) == 1 else ""
        body = [*self._before_event(reading), *self._offered(reading, results)]
        if self._block.guard:
            body = [f"if not ({self._block.guard.format(self._event)}):", "    continue", *body]
        loop = [f"for {self._event} in range({self._block.begin}, {self._block.end}):", *indent(body or ["pass"])]
        if self._late:
            loop = [f"{self._late} = 0", *loop, *self._completed_late(results)]
        return loop if results is None else results.hands_over(loop)

    def _completed_late(self, results: MatchWriter | None) -> list[str]:
        """Return what puts the results of the matches into the buffers that the events of a chunk have completed."""
        place, (nodes, events), self._late = self._late, self._done(), ""
        noted = [f"d, {self._event} = {nodes}[{place}_at], {events}[{place}_at]"]
        body = [*noted, *self._completed(results), *self._lists.goes()]
        return [f"for {place}_at in range({place}):", *indent(body)]

    def _done(self) -> tuple[str, str]:
        """Return the arrays of the matches that a chunk has completed, and of the events that have."""
        declare, room = self._whole.arrays.declare, self._lists.nodes
        return declare(f"{self._prefix}_done", NUMBER, room), declare(f"{self._prefix}_done_at", NUMBER, room)

    def expires(self) -> list[str]:
        """Return what drops the partial matches that were too old at the latest event."""
        if not self._pattern.within or not self._last or self._pattern.shares:
            return []
        latest = self._latest()
        lines = when([f"{latest} > {_NEVER}"], self._lists.drops_all(latest))
        if self._key:
            lines = [f"for {self._key} in range(len({self._prefix}_latest)):", *indent(lines)]
        return lines

    def timers(self) -> list[list[str]]:
        """Return, for each absence, what is done when the wait of a key is over."""
        return [self._lists.timers[n].wakes(self._wakes_absence(n)) for n in self._pattern.absences]

    def _wakes_absence(self, n: int) -> list[str]:
        """Return what lets those go on who have waited long enough for an event not to come.

        Where they are in the order of their times, all behind one whose wait is not over need not be looked at.
        """
        pattern, lists, prefix = self._pattern, self._lists, self._prefix
        following, waiting, within = self._whole.name(), pattern.steps[n].waiting, pattern.within
        over, (head, tail), shares = self._whole.name(), lists.order(n), pattern.shares
        results = None
        if n == self._last:
            given = self._whole, self._query, self._block, self._key, self._groups, self._writer
            results = MatchWriter(*given, by_event=False)
        goes = self._ends(results, "due") if n == self._last else self._moves(n)
        moves = [f"{over} = 1", f"{prefix}_ts[d] = due", *lists.leaves(n), *goes]
        calm = [] if shares else [f"{lists.mixed(n)} == 0"]
        looked = [f"if due >= {prefix}_ts[d] + {waiting}:", *indent(moves)]
        old: list[str] = []
        if within:
            if not shares:
                calm.append(f"{prefix}_first[{tail}[{self._at}]] - due <= {within}")
                old = when([f"{self._latest()} > {_NEVER}"], lists.drops(n, self._latest()))
            began = [f"{self._open} = 1"] if self._again(n) else []
            gone = [*lists.leaves(n), *lists.goes(), *began]
            looked = [f"if {lists.too_old('due')}:", *indent(gone), f"el{looked[0]}", *looked[1:]]
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
        pattern, now = self._pattern, self._timestamp
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

    def _latest(self) -> str:
        name = self._whole.arrays.declare(f"{self._prefix}_latest", NUMBER, self._query.instances, _NEVER)
        return f"{name}[{self._at}]"

    # Elements.

    @property
    def _may_begin(self) -> str:
        """Source of whether this event may be the first one of a match."""
        return self._open

    def _begin(self, results: MatchWriter | None) -> list[str]:
        """Return what offers the event to the first element."""
        step = self._pattern.steps[0]
        inside = [] if self._pattern.repeated == 1 else [f"{self._open} = 0"]
        if self._last:
            inside += [
                *self._lists.begins(self._timestamp),
                f"{self._prefix}_first[d] = {self._timestamp}",
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
        number, own, (ends, _) = self._whole.name(), self._attribute(step.key.own), self._lists.ends(n)
        scanned = [
            *self._scanned(n, number, results),
            f"if {ends[0]}[{number}] < 0:",
            f"    {self._lists.released(n, number)}",
        ]
        found = [
            *self._lists.word(own),
            f"{number} = known({self._lists.index(n)})",
            *when([f"{number} >= 0"], scanned),
        ]
        return [*over, *self._where(step.alone, n, when([f"not ({own.null})"], found))]

    def _scanned(self, n: int, number: str, results: MatchWriter | None) -> list[str]:
        """Return what offers the event to those in a list, where it can fit any of them."""
        step, following, fresh = self._pattern.steps[n], self._whole.name(), self._whole.name()
        ((head, _), (_, after)), bound = self._lists.ends(n), step.bound
        if step.counted:
            goes = self._collects(n, number, results)
        elif step.partner is not None:
            goes = self._pairs(n, step.partner, results)
        elif step.waiting is not None:
            time = [f"{self._prefix}_ts[d] = {self._timestamp}"] if self._pattern.shares else []
            goes = [*time, *self._lists.waits_from(n, self._timestamp), *self._lists.goes()]
        else:
            goes = [*self._lists.comes(n), *self._ends(results)] if self._pattern.is_last(n) else self._goes_on(n)
        if not (step.counted or (step.absent and n in self._pattern.starts)):
            goes = [*self._lists.unlinked(n, number), *goes]
        loop = [f"{following} = {after}[d]", *self._where(step.rest, n, goes)]
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
        stores = self._stores(self._pattern.bases[n], n)
        return [*stores, *self._lists.comes(n), f"{self._prefix}_ts[d] = {self._timestamp}", *self._moves(n)]

    def _moves(self, n: int) -> list[str]:
        """Return what lets a partial match leave an element for the next one."""
        gone = self._lists.goes() if self._pattern.shares and n in self._pattern.listed else []
        return [*self._arrives(self._pattern.following(n)), *gone, *self._again(n)]

    def _stores(self, base: int, n: int) -> list[str]:
        """Return what notes the arriving event, as one of an element whose attributes have places from `base` on."""
        stores = []
        for attribute in range(self._pattern.width(n)):
            if self._lists.wanted(base + attribute):
                value, (values, nulls) = super()._attribute(attribute), self._lists.kept_arrays(base + attribute)
                stores += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null}"]
        return stores

    def _collects(self, n: int, number: str, results: MatchWriter | None) -> list[str]:
        """Return what adds the event to those of a counted element, and lets the match go on that has enough."""
        step, lists, prefix = self._pattern.steps[n], self._lists, self._prefix
        count = lists.counted(n)
        first = [*lists.comes(n), *([f"{prefix}_first[d] = {self._timestamp}"] if n == 0 else [])]
        enough = self._arrives(n + 1) if n < self._last else self._completed(results)
        enough += self._renews(n)
        leaves = f"{count} >= {step.least if n == self._last else max(step.least, step.most or 0)}"
        gone = [*lists.unlinked(n, number), *lists.uncollected(n), *lists.goes()]
        return [
            *when([f"{count} == 0"], first),
            *self._shifted(n, count),
            f"{count} += 1",
            f"{prefix}_ts[d] = {self._timestamp}",
            *when([f"{count} == {step.least}"], enough),
            *([] if step.most is None and n < self._last else when([leaves], gone)),
        ]

    def _renews(self, n: int) -> list[str]:
        """Return what lets another match begin where one goes on that several elements have."""
        if not self._pattern.begins_anew(n):
            return []
        node, lists = self._whole.name(), self._lists
        return [f"{node} = d", *lists.begins(f"{self._prefix}_ts[{node}]"), *lists.arrives(0), f"d = {node}"]

    def _pairs(self, n: int, partner: int, results: MatchWriter | None) -> list[str]:
        """Return what notes the event of one side of ``and`` or ``or``, and lets the match go on."""
        pattern, prefix, following = self._pattern, self._prefix, self._pattern.following(n)
        first = [f"{self._lists.first(n)} = {self._timestamp}"] if n in pattern.starts else []
        if pattern.steps[n].absent:
            # In front it waits on: another such event is the one that counts then.
            return [*self._lists.comes(n), *first, *(self._lists.goes() if not first else [])]
        on = self._completed(results) if pattern.is_last(n) else self._arrives(following)
        other = pattern.steps[partner]
        there = f"{prefix}_bits[d] & {1 << other.slot} {'==' if other.absent else '!='} 0"
        return [
            *self._lists.uncollected(n),
            *self._stores(pattern.bases[n], n),
            *self._lists.comes(n),
            *first,
            *when(
                [there] if pattern.steps[n].both else [],
                [f"{prefix}_ts[d] = {self._timestamp}", *on, *self._renews(n)],
            ),
            *self._lists.goes(),
        ]

    def _shifted(self, n: int, count: str) -> list[str]:
        """Return what notes the event where it is the last one, and where it has the index that is asked for."""
        pattern, lists = self._pattern, self._lists
        indexes = sorted((index for one, from_last, index in pattern.others if one == n and from_last), reverse=True)
        lines: list[str] = []
        for index in indexes:
            to, of = pattern.indexed(n, True, index), pattern.indexed(n, True, index - 1)
            for attribute in range(pattern.width(n)):
                if lists.wanted(to + attribute):
                    pairs = zip(lists.kept_arrays(to + attribute), lists.kept_arrays(of + attribute), strict=True)
                    lines += [f"{new}[d] = {old}[d]" for new, old in pairs]
        for one, from_last, index in pattern.others:
            if one == n and not from_last:
                lines += when([f"{count} == {index}"], self._stores(pattern.indexed(n, False, index), n))
        return [*lines, *self._stores(pattern.bases[n], n)]

    def _again(self, n: int) -> list[str]:
        """Return what lets the first element wait anew when the last one of those that are repeated is over."""
        return [f"{self._open} = 2"] if n + 1 == self._pattern.repeated > 1 else []

    def _arrives(self, n: int) -> list[str]:
        """Return what lets a partial match arrive at an element."""
        return self._lists.arrives(n)

    def _ends(self, results: MatchWriter | None, due: str = "") -> list[str]:
        """Return what completes a partial match; `due` is when, where no event does."""
        return [*self._completed(results, due), *self._lists.goes(), *self._again(self._last)]

    def _completed(self, results: MatchWriter | None, due: str = "") -> list[str]:
        """Return what puts the result for a complete match into the buffers."""
        assert results is not None
        if self._late:
            nodes, events = self._done()
            noted = [f"{nodes}[{self._late}] = d", f"{events}[{self._late}] = {self._event}"]
            return [*noted, f"{self._late} += 1", f"{self._prefix}_refs[d] += 1"]
        groups, source, time = self._groups, self._block.source, due or self._timestamp
        place = "0" if due else f"{source}[{self._event}]" if source else self._event
        event = Event(self._event_at, time, groups.number, place)
        enters = [
            *groups.enters(lambda: self._writer(self._event_at, time, groups.number)),
            *results.of_match(event, self._event),
        ]
        if self._pattern.shares and self._pattern.within and not self._pattern.strict:
            # What was too old at one element, and is complete all the same, is an event that leaves.
            removes = groups.removes(self._event_at, time, groups.number) or ["pass"]
            test = f"if {self._prefix}_expired[d] != 0:"
            enters = [test, *indent(removes), "else:", *indent(enters or ["pass"])]
        return [*groups.finds(self._event_at), *enters]

    # Values.

    def _attribute(self, place: int) -> Value:
        """Return an attribute of the arriving event, given its place in the pattern."""
        return super()._attribute(place - self._pattern.bases[self._pattern.step_of(place)])

    def _event_at(self, place: int) -> Value:
        """Return an attribute of any event of a complete match."""
        own = self._pattern.step_of(place) == self._last and not self._pattern.steps[self._last].optional
        return self._attribute(place) if own else self._lists.kept(place)

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
            if reference.source != n:
                return self._lists.kept(pattern.place(reference))
            own, index = super(PatternWriter, self)._attribute(reference.attribute), reference.index
            if index is None or (not step.counted and not index.position and not index.from_last):
                return own
            if not step.counted:
                raise NotTyped("an index of an element that is one event")
            kept = self._lists.kept(pattern.place(reference))
            if index.from_last:
                return kept
            # Seen from its own condition, the event is the last one.
            count, at = self._lists.counted(n), index.position
            text = f"({kept.text} if {count} > {at} else {own.text})"
            null = f"({kept.null} if {count} > {at} else {own.null} if {count} == {at} else True)"
            return Value(text, null, own.type)

        def missing(node: ast.IsNullEvent) -> str:
            found = step.scope.find(node.stream)
            return self._lists.missing(found, node.index, own=found == n)

        named = self._whole.name, self._whole.text_number
        return TypedWriter(variable, self._timestamp, *named, missing=missing)

    def _missing(self, node: ast.IsNullEvent) -> str:
        found = self._pattern.checked.scope.find(node.stream)
        return self._lists.missing(found, node.index, own=False)


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
            lines += [f"{name} = {waits}", f"{waits} = -1"]
            gone = [f"d = {name}", *self._lists.goes(), f"{name} = -1"]
            if n not in reading:
                lines += [f"if {name} >= 0:", *indent(gone)]
            elif self._pattern.within:
                lines += [f"d = {name}", f"if d >= 0 and {self._lists.too_old(self._timestamp)}:", *indent(gone)]
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
            fits = when([f"{self._prefix}_bits[d] & {over} == 0"], fits)
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
            f"{self._prefix}_ts[d] = {self._timestamp}",
            *when([f"{count} >= {step.least}"], self._arrives(n + 1)),
            *when(most, self._arrives(n)),
        ]

    def _arrives(self, n: int) -> list[str]:
        step, waits = self._pattern.steps[n], self._waits(n)
        if not self._pattern.shares:
            return [f"{waits} = d"]
        lines = [f"if {waits} < 0:", f"    {waits} = d", f"    {self._prefix}_refs[d] += 1"]
        if step.least:
            return lines
        return [*lines, *when([f"{self._lists.counted(n)} == 0"], self._arrives(n + 1))]

    def _moves(self, n: int) -> list[str]:
        """Return what lets a partial match go on; one that begins is gone where another one has arrived already."""
        gone = f"give_back({self._prefix}_free, {self._prefix}_next, d)"
        unwanted = when([f"{self._prefix}_refs[d] == 0"], [gone]) if self._pattern.shares and not n else []
        return [*self._arrives(n + 1), *unwanted]

    def _name(self, n: int) -> str:
        """Return the name of the partial match that waits at an element."""
        return f"match{n}"

    def _waits(self, n: int) -> str:
        waits = self._whole.arrays.declare(f"{self._prefix}_new{n}", NUMBER, self._query.instances, "-1")
        return f"{waits}[{self._at}]"
