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
        self._whole = whole
        self._query = query
        self._read = query.read
        self._block = block
        self._key = key
        self._event = whole.name()
        self._failed = whole.name()
        query.failed = ""
        self._groups = self.groups_of(whole.arrays, query, key or "0", whole.name(), self._writer)
        self._flagged: list[str] | None = None  # what tells whether an event meets the conditions, as no branch
        self._window: WindowWriter | None = None
        if isinstance(query.read.window, Sliding) and not query.read.waits:
            make: type[WindowWriter] = query.read.window.writer
            if isinstance(query, NamedText):
                self._window = sliding_side(make)(whole, query, query.read.window, "0")
            else:
                self._window = make(whole, query, query.read.window, key or "0", self._groups)
            self._window.asked = self._key_writer

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        groups, window, results = self._groups, self._window, self._results()
        self._knows_arguments()
        if self._read.window is not None and window is None:
            batch = self._batch(results)
            if batch.cuts:
                place, end = self._whole.name(), self._block.end
                pieces = batch.pieces(self._entering, partial(self._loop, place=place), place, end)
                return [f"{place} = {self._block.begin}", *pieces]
            if batch.takes_chunks:
                return batch.block(self._entering, self._loop)
            loop = self._loop(batch.takes(self._entering))
            if not batch.goes_on:
                return loop
            return results.hands_over([*groups.before(), *loop, *groups.forgets()])
        if computes_all(self._read, self._block):
            self._groups.step = self._whole.name()
            self._flagged = flagged(self._handlers(), self._groups.step)
        body: list[str] = []
        leaving = [] if window is None else self._lets_go(window, results)
        if window is not None:
            body += window.enters(self._attribute, self._timestamp, leaving)
        finds = [*groups.finds(self._attribute), *([] if window is None else window.remembers())]
        changes = [] if window is None else window.changes()
        if changes:
            body += [*groups.passes(self._attribute, finds), *changes]
            finds = []
        enters = [*finds, *groups.enters(self._event_writer), *results.emits(self._entering)]
        body += by_kind(self._block, self._event, self._released(results), groups.passes(self._attribute, enters))
        if window is not None:
            body += window.pushes_out(leaving)
        # What stands before the loop is known when the loop is.
        loop = self._loses(results, self._loop(body))
        return results.hands_over([*groups.before(), *loop, *groups.forgets()])

    def _released(self, results: ResultWriter) -> list[str]:
        """Return what is done with an event that leaves a named window."""
        if not self._block.leaves:
            return []
        groups, read, timestamp = self._groups, self._attribute, self._timestamp
        leaving = results.emits(Event(read, timestamp, "gone"), leaves=True)
        return [*groups.finds(read), *groups.leaves(read, timestamp, groups.number, leaving, counted=False)]

    def _knows_arguments(self) -> None:
        """Have arguments never be null that operators fail on: then each is an attribute of a source."""
        for call, aggregate in self._groups.found:
            if aggregate.form.strict and self._event_writer().write(call.args[0]).null:
                named = call.args[0]
                place = self._query.resolved(named) if isinstance(named, ast.Variable) else None
                self._must_be_known(place, f"the aggregator {call.id}() of what may be null", call.span)
                self._query.known.add(place or 0)
        if isinstance(self._read, LoopWindow) and self._read.window is not None:
            otherwise = f"a window whose attribute may be null ('{self._read.stream}')"
            for place in self._read.window.known:
                self._must_be_known(place, otherwise, None, is_time=place in self._read.window.times)

    def _must_be_known(self, place: int | None, otherwise: str, span: Span | None, is_time: bool = False) -> None:
        """Have an attribute never be null; raises NotTyped where it is not one of a source."""
        origin = None if place is None else self._block.origins[place]
        if origin is None:
            raise NotTyped(otherwise, span)
        self._whole.must_be_known(origin, is_time)

    def _loop(self, body: list[str], place: str = "") -> list[str]:
        """Return the loop over the events that meet the conditions in front of the window; from `place` on, if given.

        That is behind the event then.
        """
        guard = self._block.guard
        tests = passing(self._whole, self._block, self._handlers()) if self._flagged is None else self._flagged
        body = [*([f"if not ({guard.format(self._event)}):", "    continue"] if guard else []), *tests, *body]
        body = [*([f"{place} = {self._event} + 1"] if place else []), *body]
        begin = place or self._block.begin
        return [f"for {self._event} in range({begin}, {self._block.end}):", *indent(body or ["pass"])]

    def _results(self, silent: bool = False) -> ResultWriter:
        made = ResultWriter(self._whole, self._query, self._block, self._key, self._groups, self._writer, silent)
        if isinstance(self._read, Read):
            made.text_function = self._text_function
        return made

    def _batch(self, results: ResultWriter) -> BatchWriter:
        """Return what writes a window that has results for events later than they come."""
        assert self._read.window is not None
        make: type[BatchWriter] = self._read.window.writer
        made: BatchWriter
        if isinstance(self._query, NamedText):
            made = batch_side(make)(self._whole, self._query, "0", results)
        else:
            made = make(self._whole, self._query, self._key or "0", self._groups, self._writer, results)
        made.asked = self._key_writer
        return made

    def timers(self) -> list[list[str]]:
        """Return, for each operator with a timer, what is done when that of a key is due."""
        return [self._wakes()]

    def _wakes(self) -> list[str]:
        results = self._results(silent=not (self._read.waits or self._read.puts_out_expired))
        if self._window is not None:
            return self._window.wakes(results, self._lets_go(self._window, results))
        return self._batch(results).wakes()

    def expires(self) -> list[str]:
        """Return what lets events leave the window by time, while none comes."""
        kept = self._read.window
        if self._window is None or not kept or not kept.span or kept.time is not None or self._read.timed:
            return []
        lines = self._window.leaves([])
        if self._key:
            lines = [f"for {self._key} in range(len({self._query.name}_head)):", *indent(lines)]
        return [*self._groups.before(), *lines, *self._groups.forgets()]

    # What is read.

    @property
    def _timestamp(self) -> str:
        return f"{self._block.timestamp}[{self._event}]"

    @property
    def _entering(self) -> Event:
        """The event that comes."""
        source = self._block.source
        place = f"{source}[{self._event}]" if source else self._event
        return Event(self._attribute, self._timestamp, self._groups.number, place)

    def _lets_go(self, window: WindowWriter, results: ResultWriter) -> list[str]:
        """Return what is done with an event that leaves the window, once it is off the totals."""
        leaves = results.emits(Event(window.kept, window.left_at, "gone"), leaves=True)
        if not (isinstance(self._read.window, Sliding) and self._read.window.resets):
            return leaves
        # No other group has an event.
        return [*leaves, *self._groups.anew("gone"), *results.resets(window.left_at)]

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
            return read(self._query.resolved(named) if scope is None else scope.resolve(named).attribute)

        def aggregate(call: ast.FunctionCall) -> Value | None:
            return self._groups.value(call, group)

        named = self._whole.name, self._whole.text_number
        writer = TypedWriter(variable, timestamp, *named, aggregate, self._missing)
        if isinstance(self._read, Read):
            writer.text_function = partial(self._text_function, read)
            writer.contains = partial(contained, self._whole, self._read.checked.scope, writer)
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
        places = arguments_of(call, place_of or self._query.resolved)
        if places is None:
            return None
        # Blocks without a stream are those of timers: what they read is known by those from which the events come.
        origins = origins_of(self._block, sorted(set(places.values()))) if self._block.stream else []
        if origins is None:
            return None
        function = self._query.computes(call, scope or self._read.checked.scope, places)
        place, functions = function.arguments[0], self._whole.functions
        if len(function.arguments) > 1 or self._block.types[place] is not Type.STRING or function.type is Type.OBJECT:
            given = self._whole, self._block, self._event, function, loses, self._guard
            own = computed_value(*given) if origins else None
            return own if loses else read(function.place)
        found = functions.of_text(function, origins[0], not loses) if origins else functions.known(call)
        if found is None:
            return None
        if self._read.window is not None and read != self._attribute:
            found.held.add((self._query.name, place))
        text = read(place)
        known = f"{found.name}_s[0 if {text.null} else {text.text} + 1]"
        fails = f"{known} == {FAILED}" if loses else ""
        return Value(known.replace("_s[", "_v[", 1), f"{known} == {NULL}", found.type, fails=fails)

    @property
    def _can_lose(self) -> bool:
        """Whether an event that a function fails on is lost in the loop: with all of its chunk, and nothing is kept."""
        groups, limit = self._groups, self._read.checked.query.rate
        plain = self._read.window is None and self._query.keyed is None and limit is None
        kept = groups.aggregated or bool(groups.conditions)
        return plain and not kept and not self._block.source and self._whole.can_lose(self._block.stream)

    def _loses(self, results: ResultWriter, loop: list[str]) -> list[str]:
        """Return the loop over events with what is done where it has lost them."""
        failed = self._failed
        if not any(line.strip() == f"{failed} = True" for line in loop):
            return loop
        self._query.failed = failed
        lost = [f"{results.count} = {results.first}", *self._whole.loses(self._query, self._block)]
        return [f"{failed} = False", *loop, f"if {failed}:", *indent(lost)]

    def _event_writer(self, scope: Scope | None = None) -> TypedWriter:
        """Return a writer of expressions over the event that enters; see `_writer`."""
        return self._writer(self._attribute, self._timestamp, self._groups.number, scope)

    def _key_writer(self, scope: Scope | None = None) -> TypedWriter:
        """Return a writer of expressions over the event that enters, which may look at functions of its texts."""
        writer = self._event_writer(scope)
        writer.text_function = partial(self._text_function, self._attribute)
        return writer

    def _attribute(self, place: int) -> Value:
        block, function = self._block, self._query.computed_at(place)
        if function is not None:
            value = computed_value(self._whole, block, self._event, function, guard=self._guard)
            assert value is not None  # see `_text_function`
            return value
        values, nulls = self._whole.attribute(block.owner, place, block.types[place], block.room)
        return Value(f"{values}[{self._event}]", f"{nulls}[{self._event}] != 0", block.types[place])

    def _handlers(self) -> list[Handler]:
        """Return what stands in front of the window, each with what writes it."""
        handlers = self._read.filters if isinstance(self._read, Read) else ()
        return [(self._key_writer(self._read.checked.scope), one) for one in handlers]

    @property
    def _guard(self) -> Guard | None:
        """The conditions in front of all that have functions: the event has met them wherever one is looked at."""
        given = self._read.filters if isinstance(self._read, Read) and not self._block.source else ()
        return guard_of(given, self._read.checked.scope)


def by_kind(block: Block, event: str, leaves: list[str], enters: list[str]) -> list[str]:
    """Return what is done with an event of a block, given what is where it leaves a named window, and where not."""
    test = block.leaves.format(event)
    if test in ("", "True"):
        return leaves if test else enters
    return [f"if {test}:", *indent(leaves or ["pass"]), "else:", *indent(enters or ["pass"])]
