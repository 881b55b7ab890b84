"""The block of one query in a program: filters, window, totals, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spdist.errors import Span
from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.program.expressions import NotTyped, TypedWriter, Value
from spdist.program.functions.computed import FAILED, NULL, Guard, arguments_of, guard_of
from spdist.program.functions.text import computed_value, origins_of
from spdist.program.joins.side_text import NamedText
from spdist.program.joins.window_text import batch_side, sliding_side
from spdist.program.parts import Block, Event, QueryText, Whole, indent
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.queries.filter_text import Handler, computes_all, flagged, passing
from spdist.program.queries.result_text import ResultWriter
from spdist.program.read_shape import LoopWindow
from spdist.program.shape import Read, Sliding
from spdist.program.tables.member_text import contained
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.text import WindowWriter

__all__ = ["QueryWriter", "by_kind"]


class QueryWriter:
    """Writes the block of one query.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query; it is told what the block has.
    block : Block
        The events that it reads.
    key : str
        Source of the number of the partition's key; empty outside of partitions.
    """

    groups_of: type[BatchGroups] = BatchGroups  # what writes the totals

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        self.whole = whole
        self.query = query
        self._read = query.read
        self.block = block
        self.key = key
        self._event = whole.name()
        self._failed = whole.name()
        query.failed = ""
        self.groups = self.groups_of(whole.arrays, query, key or "0", whole.name(), self._writer)
        self._flagged: list[str] | None = None  # what tells whether an event meets the conditions, as no branch
        self.window: WindowWriter | None = None
        if isinstance(query.read.window, Sliding) and not query.read.waits:
            make: type[WindowWriter] = query.read.window.writer
            if isinstance(query, NamedText):
                self.window = sliding_side(make)(whole, query, query.read.window, "0")
            else:
                self.window = make(whole, query, query.read.window, key or "0", self.groups)
            self.window.asked = self._key_writer

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        groups, window, results = self.groups, self.window, self._results()
        self._knows_arguments()
        if self._read.window is not None and window is None:
            batch = self._batch(results)
            if batch.cuts:
                place, end = self.whole.name(), self.block.end
                pieces = batch.pieces(self._entering, partial(self._loop, place=place), place, end)
                return [f"{place} = {self.block.begin}", *pieces]
            if batch.takes_chunks:
                return batch.block(self._entering, self._loop)
            loop = self._loop(batch.takes(self._entering))
            if not batch.goes_on:
                return loop
            return results.hands_over([*groups.before(), *loop, *groups.forgets()])
        if computes_all(self._read, self.block):
            self.groups.step = self.whole.name()
            self._flagged = flagged(self._handlers(), self.groups.step)
        body: list[str] = []
        leaving = [] if window is None else self._lets_go(window, results)
        if window is not None:
            body += window.enters(self.attribute, self.timestamp, leaving)
        finds = [*groups.finds(self.attribute), *([] if window is None else window.remembers())]
        changes = [] if window is None else window.changes()
        if changes:
            body += [*groups.passes(self.attribute, finds), *changes]
            finds = []  # They stand in front of what changes
        enters = [*finds, *groups.enters(self._event_writer), *results.emits(self._entering)]
        body += by_kind(self.block, self._event, self._released(results), groups.passes(self.attribute, enters))
        if window is not None:
            body += window.pushes_out(leaving)
        # What stands before the loop is known when the loop is.
        loop = [*self._loses(results, self._loop(body)), *([] if window is None else window.ends_chunk(leaving))]
        return results.hands_over([*groups.before(), *loop, *groups.forgets()])

    def _released(self, results: ResultWriter) -> list[str]:
        """Return what is done with an event that leaves a named window."""
        if not self.block.leaves:
            return []
        groups, read, timestamp = self.groups, self.attribute, self.timestamp
        leaving = results.emits(Event(read, timestamp, "gone"), leaves=True)
        return [*groups.finds(read), *groups.leaves(read, timestamp, groups.number, leaving, counted=False)]

    def _knows_arguments(self) -> None:
        """Have arguments never be null that operators fail on: then each is an attribute of a source."""
        for call, aggregate in self.groups.found:
            if aggregate.form.strict and self._event_writer().write(call.args[0]).null:
                named = call.args[0]
                place = self.query.resolved(named) if isinstance(named, ast.Variable) else None
                self._must_be_known(place, f"the aggregator {call.id}() of what may be null", call.span)
                self.query.known.add(place or 0)
        if isinstance(self._read, LoopWindow) and self._read.window is not None:
            otherwise = f"a window whose attribute may be null ('{self._read.stream}')"
            for place in self._read.window.known:
                self._must_be_known(place, otherwise, None, is_time=place in self._read.window.times)

    def _must_be_known(self, place: int | None, otherwise: str, span: Span | None, is_time: bool = False) -> None:
        """Have an attribute never be null; raises NotTyped where it is not one of a source."""
        origin = None if place is None else self.block.origins[place]
        if origin is None:
            raise NotTyped(otherwise, span)
        self.whole.must_be_known(origin, is_time)

    def _loop(self, body: list[str], place: str = "") -> list[str]:
        """Return the loop over the events that meet the conditions in front of the window; from `place` on, if given.

        That is behind the event then.
        """
        guard = self.block.guard
        tests = passing(self.whole, self.block, self._handlers()) if self._flagged is None else self._flagged
        body = [*([f"if not ({guard.format(self._event)}):", "    continue"] if guard else []), *tests, *body]
        body = [*([f"{place} = {self._event} + 1"] if place else []), *body]
        begin = place or self.block.begin
        return [f"for {self._event} in range({begin}, {self.block.end}):", *indent(body or ["pass"])]

    def _results(self, silent: bool = False) -> ResultWriter:
        made = ResultWriter(self.whole, self.query, self.block, self.key, self.groups, self._writer, silent)
        if isinstance(self._read, Read):
            made.text_function = self._text_function
        return made

    def _batch(self, results: ResultWriter) -> BatchWriter:
        """Return what writes a window that has results for events later than they come."""
        assert self._read.window is not None
        make: type[BatchWriter] = self._read.window.writer
        made: BatchWriter
        if isinstance(self.query, NamedText):
            made = batch_side(make)(self.whole, self.query, "0", results)
        else:
            made = make(self.whole, self.query, self.key or "0", self.groups, self._writer, results)
        made.asked = self._key_writer
        return made

    def timers(self) -> list[list[str]]:
        """Return, for each operator with a timer, what is done when that of a key is due."""
        return [self._wakes()]

    def _wakes(self) -> list[str]:
        results = self._results(silent=not (self._read.waits or self._read.puts_out_expired))
        if self.window is not None:
            return self.window.wakes(results, self._lets_go(self.window, results))
        return self._batch(results).wakes()

    def expires(self) -> list[str]:
        """Return what lets events leave the window by time, while none comes."""
        kept = self._read.window
        if self.window is None or not kept or not kept.span or kept.time is not None or self._read.timed:
            return []
        lines = self.window.leaves([])
        if not lines:
            return []  # It holds nothing
        if self.key:
            lines = [f"for {self.key} in range(len({self.query.name}_head)):", *indent(lines)]
        return [*self.groups.before(), *lines, *self.groups.forgets()]

    # What is read.

    @property
    def timestamp(self) -> str:
        """Source of the timestamp of the event that comes."""
        return f"{self.block.timestamp}[{self._event}]"

    @property
    def _entering(self) -> Event:
        """The event that comes."""
        source = self.block.source
        place = f"{source}[{self._event}]" if source else self._event
        return Event(self.attribute, self.timestamp, self.groups.number, place)

    def _lets_go(self, window: WindowWriter, results: ResultWriter) -> list[str]:
        """Return what is done with an event that leaves the window, once it is off the totals."""
        leaves = results.emits(Event(window.kept, window.left_at, "gone"), leaves=True)
        if not (isinstance(self._read.window, Sliding) and self._read.window.resets):
            return leaves
        # No other group has an event.
        return [*leaves, *self.groups.anew("gone"), *results.resets(window.left_at)]

    def _writer(
        self, read: Callable[[int], Value], timestamp: str, group: str = "", scope: Scope | None = None
    ) -> TypedWriter:
        """Return a writer of expressions.

        Parameters
        ----------
        read : callable
            Reads an attribute.
        timestamp, group : str
            Source of the timestamp, and of the group whose totals they may name.
        scope : Scope, optional
            What names mean, where that is not what the query's do.
        """

        def variable(named: ast.Variable) -> Value:
            return read(self.query.resolved(named) if scope is None else scope.resolve(named).attribute)

        def aggregate(call: ast.FunctionCall) -> Value | None:
            return self.groups.value(call, group)

        named = self.whole.name, self.whole.text_number
        writer = TypedWriter(variable, timestamp, *named, aggregate, self._missing)
        if isinstance(self._read, Read):
            writer.text_function = partial(self._text_function, read)
            writer.contains = partial(contained, self.whole, self._read.checked.scope, writer)
        writer.failing = (f"{self._failed} = True", "break") if self._can_lose else ()
        return writer

    def _missing(self, node: ast.IsNullEvent) -> str:
        """Return source of whether a stream has no event."""
        return "False"

    def _text_function(
        self,
        read: Callable[[int], Value],
        call: ast.FunctionCall,
        place_of: Callable[[ast.Variable], int | None] | None = None,
        scope: Scope | None = None,
    ) -> Value | None:
        """Return the value of a function of an event's attributes that is computed before the loop.

        None where a call is one of something else.

        Parameters
        ----------
        read : callable
            From an attribute's place, or that of a function, to its value in the event.
        call : FunctionCall
            The call.
        place_of, scope : callable, Scope, optional
            The place of an attribute in the block, None where it has none, and what names mean; else as in the query.
        """
        loses = self._can_lose and place_of is None
        places = arguments_of(call, place_of or self.query.resolved)
        if places is None:
            return None
        # Blocks without a stream are those of timers: what they read is known by those from which the events come.
        origins = origins_of(self.block, sorted(set(places.values()))) if self.block.stream else []
        if origins is None:
            return None
        function = self.query.computes(call, scope or self._read.checked.scope, places)
        place, functions = function.arguments[0], self.whole.functions
        if len(function.arguments) > 1 or self.block.types[place] is not Type.STRING or function.type is Type.OBJECT:
            given = self.whole, self.block, self._event, function, loses, self._guard
            own = computed_value(*given) if origins else None
            return own if loses else read(function.place)
        found = functions.of_text(function, origins[0], not loses) if origins else functions.known(call)
        if found is None:
            return None
        if self._read.window is not None and read != self.attribute:
            found.held.add((self.query.name, place))
        text = read(place)
        known = f"{found.name}_s[0 if {text.null} else {text.text} + 1]"
        fails = f"{known} == {FAILED}" if loses else ""
        return Value(known.replace("_s[", "_v[", 1), f"{known} == {NULL}", found.type, fails=fails)

    @property
    def _can_lose(self) -> bool:
        """Whether an event that a function fails on is lost in the loop: with all of its chunk, and nothing is kept."""
        groups, limit = self.groups, self._read.checked.query.rate
        plain = self._read.window is None and self.query.keyed is None and limit is None
        kept = groups.aggregated or bool(groups.conditions)
        return plain and not kept and not self.block.source and self.whole.can_lose(self.block.stream)

    def _loses(self, results: ResultWriter, loop: list[str]) -> list[str]:
        """Return the loop over events with what is done where it has lost them."""
        failed = self._failed
        if not any(line.strip() == f"{failed} = True" for line in loop):
            return loop
        self.query.failed = failed
        lost = [f"{results.count} = {results.first}", *self.whole.loses(self.query, self.block)]
        return [f"{failed} = False", *loop, f"if {failed}:", *indent(lost)]

    def _event_writer(self, scope: Scope | None = None) -> TypedWriter:
        """Return a writer of expressions over the event that enters; see `_writer`."""
        return self._writer(self.attribute, self.timestamp, self.groups.number, scope)

    def _key_writer(self, scope: Scope | None = None) -> TypedWriter:
        """Return a writer of expressions over the event that enters, which may look at functions of its texts."""
        writer = self._event_writer(scope)
        writer.text_function = partial(self._text_function, self.attribute)
        return writer

    def attribute(self, place: int) -> Value:
        """Return the value of an attribute of the event that comes, or of a function of it."""
        block, function = self.block, self.query.computed_at(place)
        if function is not None:
            value = computed_value(self.whole, block, self._event, function, guard=self._guard)
            assert value is not None  # see `_text_function`
            return value
        values, nulls = self.whole.attribute(block.owner, place, block.types[place], block.room)
        return Value(f"{values}[{self._event}]", f"{nulls}[{self._event}] != 0", block.types[place])

    def _handlers(self) -> list[Handler]:
        """Return what stands in front of the window, each with what writes it."""
        handlers = self._read.filters if isinstance(self._read, Read) else ()
        return [(self._key_writer(self._read.checked.scope), one) for one in handlers]

    @property
    def _guard(self) -> Guard | None:
        """The conditions in front of all that have functions: the event has met them wherever one is looked at."""
        given = self._read.filters if isinstance(self._read, Read) and not self.block.source else ()
        return guard_of(given, self._read.checked.scope)


def by_kind(block: Block, event: str, leaves: list[str], enters: list[str]) -> list[str]:
    """Return what is done with an event of a block, given what is where it leaves a named window, and where not."""
    test = block.leaves.format(event)
    if test in ("", "True"):
        return leaves if test else enters
    return [f"if {test}:", *indent(leaves or ["pass"]), "else:", *indent(enters or ["pass"])]
