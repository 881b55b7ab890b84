"""What an event does with a partial match at an element of a pattern or sequence: it is noted, counted, and goes on."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.language import ast
from spdist.program.expressions import FLAG, NUMBER, NotTyped, TypedWriter, Value
from spdist.program.parts import Block, Event, QueryText, Whole, indent
from spdist.program.patterns.lists import PatternLists
from spdist.program.patterns.match_text import MatchWriter
from spdist.program.patterns.nodes import when
from spdist.program.patterns.shape import Matched
from spdist.program.queries.query_text import QueryWriter
from spdist.program.timer_text import NEVER

__all__ = ["ElementWriter"]


class ElementWriter(QueryWriter):
    """Writes what becomes of a partial match with the event of an element; its node is ``d``.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, query, block, key)
        assert isinstance(query.read, Matched)
        self._pattern = query.read
        self.prefix = query.name
        self._at = self.key or "0"
        self._last = len(query.read.steps) - 1
        #: Source of whether the first element waits for an event: 0, 1, or 2 where it does from the next event on.
        self._open = ""
        if query.read.states is None:
            self._open = f"{whole.arrays.declare(f'{query.name}_open', FLAG, query.instances, '1')}[{self._at}]"
        self._lists = PatternLists(whole, query, self._at, self._open)
        #: The name of how many matches a chunk has completed, where their results are made behind its last event.
        self._late = ""

    def _completed_late(self, results: MatchWriter | None) -> list[str]:
        """Return what puts the results of the matches into the buffers that the events of a chunk have completed."""
        place, (nodes, events), self._late = self._late, self._done(), ""
        noted = [f"d, {self._event} = {nodes}[{place}_at], {events}[{place}_at]"]
        body = [*noted, *self._completed(results), *self._lists.goes()]
        return [f"for {place}_at in range({place}):", *indent(body)]

    def _done(self) -> tuple[str, str]:
        """Return the arrays of the matches that a chunk has completed, and of the events that have."""
        declare, room = self.whole.arrays.declare, self._lists.nodes
        return declare(f"{self.prefix}_done", NUMBER, room), declare(f"{self.prefix}_done_at", NUMBER, room)

    def _latest(self) -> str:
        name = self.whole.arrays.declare(f"{self.prefix}_latest", NUMBER, self.query.instances, NEVER)
        return f"{name}[{self._at}]"

    @property
    def _may_begin(self) -> str:
        """Source of whether this event may be the first one of a match."""
        return self._open

    def _goes_on(self, n: int) -> list[str]:
        """Return what notes the event of an element, and lets the partial match arrive at the next element."""
        stores = self._stores(self._pattern.bases[n], n)
        return [*stores, *self._lists.comes(n), f"{self.prefix}_ts[d] = {self.timestamp}", *self._moves(n)]

    def _moves(self, n: int) -> list[str]:
        """Return what lets a partial match leave an element for the next one."""
        gone = self._lists.goes() if self._pattern.shares and n in self._pattern.listed else []
        return [*self._arrives(self._pattern.following(n)), *gone, *self._again(n)]

    def _stores(self, base: int, n: int) -> list[str]:
        """Return what notes the arriving event, as one of an element whose attributes have places from `base` on."""
        stores = []
        for attribute in range(self._pattern.width(n)):
            if self._lists.wanted(base + attribute):
                value, (values, nulls) = super().attribute(attribute), self._lists.kept_arrays(base + attribute)
                stores += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null}"]
        return stores

    def _collects(self, n: int, number: str, results: MatchWriter | None) -> list[str]:
        """Return what adds the event to those of a counted element, and lets the match go on that has enough."""
        step, lists, prefix = self._pattern.steps[n], self._lists, self.prefix
        count = lists.counted(n)
        first = [*lists.comes(n), *([f"{prefix}_first[d] = {self.timestamp}"] if n == 0 else [])]
        enough = self._arrives(n + 1) if n < self._last else self._completed(results)
        enough += self._renews(n)
        leaves = f"{count} >= {step.least if n == self._last else max(step.least, step.most or 0)}"
        gone = [*lists.unlinked(n, number), *lists.uncollected(n), *lists.goes()]
        return [
            *when([f"{count} == 0"], first),
            *self._shifted(n, count),
            f"{count} += 1",
            f"{prefix}_ts[d] = {self.timestamp}",
            *when([f"{count} == {step.least}"], enough),
            *([] if step.most is None and n < self._last else when([leaves], gone)),
        ]

    def _renews(self, n: int) -> list[str]:
        """Return what lets another match begin where one goes on that several elements have."""
        if not self._pattern.begins_anew(n):
            return []
        node, lists = self.whole.name(), self._lists
        return [f"{node} = d", *lists.begins(f"{self.prefix}_ts[{node}]"), *lists.arrives(0), f"d = {node}"]

    def _pairs(self, n: int, partner: int, results: MatchWriter | None) -> list[str]:
        """Return what notes the event of one side of ``and`` or ``or``, and lets the match go on."""
        pattern, prefix, following = self._pattern, self.prefix, self._pattern.following(n)
        first = [f"{self._lists.first(n)} = {self.timestamp}"] if n in pattern.starts else []
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
                [f"{prefix}_ts[d] = {self.timestamp}", *on, *self._renews(n)],
            ),
            *self._lists.goes(),
        ]

    def _shifted(self, n: int, count: str) -> list[str]:
        """Return what notes the event where it is the last one, and where it has the index that is asked for."""
        pattern, lists = self._pattern, self._lists
        # From the earliest one on, so that each place is read before it gets the next event.
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
            return [*noted, f"{self._late} += 1", f"{self.prefix}_refs[d] += 1"]
        return self._put_out(results, due or self.timestamp, self._event, timed=bool(due))

    def _put_out(self, results: MatchWriter, time: str, cause: str, timed: bool) -> list[str]:
        """Return what puts the result for the match of node ``d`` into the buffers.

        Parameters
        ----------
        results : MatchWriter
            The buffers.
        time, cause : str
            Source of its timestamp, and of what is alike for the results of one chunk.
        timed : bool
            Whether no event has completed it.
        """
        groups, source = self.groups, self.block.source
        place = "0" if timed else f"{source}[{self._event}]" if source else self._event
        event = Event(self._event_at, time, groups.number, place)
        enters = [
            *groups.enters(lambda: self._writer(self._event_at, time, groups.number)),
            *results.of_match(event, cause),
        ]
        if self._pattern.shares and self._pattern.within and (self._pattern.states or not self._pattern.strict):
            # What was too old at one element, and is complete all the same, is an event that leaves.
            leaves = groups.removes(self._event_at, time, groups.number)
            given = self.query.read.checked.query
            if given.output.events == "all":
                if given.rate is not None:
                    raise NotTyped("a rate limit of what may leave a pattern", given.span)
                leaves = [*leaves, *results.of_match(event, cause)]
            test = f"if {self.prefix}_expired[d] != 0:"
            enters = [test, *indent(leaves or ["pass"]), "else:", *indent(enters or ["pass"])]
        return [*groups.finds(self._event_at), *enters]

    def attribute(self, place: int) -> Value:
        """Return an attribute of the arriving event, given its place in the pattern."""
        return super().attribute(place - self._pattern.bases[self._pattern.step_of(place)])

    def _event_at(self, place: int) -> Value:
        """Return an attribute of any event of a complete match."""
        own = self._pattern.step_of(place) == self._last and not self._pattern.may_lack(self._last)
        return self.attribute(place) if own else self._lists.kept(place)

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
            own, index = super(ElementWriter, self).attribute(reference.attribute), reference.index
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

        read = super().attribute

        def place_of(variable: ast.Variable) -> int | None:
            found = step.scope.resolve(variable)
            return found.attribute if found.source == n and found.index is None else None

        def text_function(call: ast.FunctionCall) -> Value | None:
            return self._text_function(read, call, place_of, step.scope)

        named = self.whole.name, self.whole.text_number
        return TypedWriter(variable, self.timestamp, *named, missing=missing, text_function=text_function)

    def _missing(self, node: ast.IsNullEvent) -> str:
        found = self._pattern.checked.scope.find(node.stream)
        return self._lists.missing(found, node.index, own=False)
