"""What a query of a program puts out: results stand in the query's buffers, and go to whoever reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.program.expressions import NotTyped, TypedWriter, Value, dtype_of
from spdist.program.functions.forms import may_fail
from spdist.program.joins.shape import Joined
from spdist.program.parts import Block, Event, Most, Origin, QueryText, Whole, indent
from spdist.program.patterns.shape import Matched
from spdist.program.queries.chunk_text import Arrangement, Buffers
from spdist.program.queries.group_text import GroupWriter
from spdist.program.queries.limit_text import limit_of
from spdist.program.read_shape import LoopWindow
from spdist.program.shape import Read, Sliding
from spdist.program.tables.member_text import contained

__all__ = ["ResultWriter"]


#: From what reads an attribute, a call, the places of the attributes that it names, and what names mean to its value.
MakeFunction = Callable[
    [Callable[[int], Value], ast.FunctionCall, Callable[[ast.Variable], int | None], Scope], Value | None
]


class ResultWriter:
    """Writes the chunks of results of one block of a query, and the blocks of their readers.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query.
    block : Block
        The events that it reads.
    key : str
        Source of the number of the partition's key; empty outside of partitions.
    groups : GroupWriter
        The totals.
    writer : callable
        From what reads an attribute, the source of a timestamp and that of a group to a writer of expressions.
    silent : bool
        Whether there is never a result.
    """

    def __init__(
        self,
        whole: Whole,
        query: QueryText,
        block: Block,
        key: str,
        groups: GroupWriter,
        writer: Callable[[Callable[[int], Value], str, str], TypedWriter],
        silent: bool = False,
    ) -> None:
        self._whole = whole
        self._query = query
        self._read = query.read
        self._select = query.read.checked.query.select
        self._block = block
        self._groups = groups
        self._writer = writer
        #: What makes the value of a function of a text; whoever writes the query says it.
        self.text_function: MakeFunction | None = None
        #: Source of how many results there are.
        self.count = whole.name()
        alone = isinstance(query.read, Matched) or (groups.collapses and not groups.grouped)
        self._buffers = Buffers.of_results(whole, query)
        #: Source of where they begin.
        self.first = self._buffers.begin
        if groups.begin == "0":
            groups.begin = self.first
        self._arranged = Arrangement(self._buffers, self.count, alone, isinstance(query.read, Joined))
        limited = query.read.checked.query.rate is not None
        #: Whether readers are only reached with results.
        self._tests = True
        self._rate = limit_of(whole, query, self._arranged.buffers, key or "0") if limited and not silent else None
        self._readers = [] if silent else self._reading(key)
        #: Whether somebody wants results.
        self.wanted = bool(self._readers) or (query.ticks and not silent)
        items = enumerate(() if silent else self._select.items)
        #: The items that may fail: whether they do does not depend on who reads them.
        self._fallible = [place for place, one in items if any(map(may_fail, one.expression.walk()))]

    @property
    def late(self) -> bool:
        """Whether the results of a batch are those of the newest event of each group, and are computed at its end."""
        newest = self._groups.collapses and self._groups.aggregated and not self._select.having
        return self.wanted and newest and self._read.renews and not self._query.behind

    def hands_over(self, chunk: list[str]) -> list[str]:
        """Return a chunk, given what makes its results, and what hands it over."""
        if not self.wanted:
            return chunk
        begins, count = [f"{self.count} = {self.first}"], self.count
        if self._groups.collapses and self._groups.grouped:
            begins += [f"mark{count} = marks[0] + 1", f"marks[0] = mark{count}"]
        return [*begins, *chunk, *self._arranged.lines(), *self._reads()]

    def _reads(self) -> list[str]:
        """Return what hands a chunk to the readers, as far as a rate limit lets it go on."""
        begin, end = self._bounds
        limits = [] if self._rate is None else self._rate.limits(begin, end)
        if self._waits_for_ticks or not self._readers:
            return limits
        if self._rate is not None:
            begin, end = "0", self._rate.count
        test = f"if {end} > 0:" if begin == "0" else f"if {end} > {begin}:"
        return [*limits, test, *indent(self._readers)] if self._tests else [*limits, *self._readers]

    def _in_runs(self, alike: str) -> list[str]:
        """Return what hands results over in runs: those that are `alike` there, which is an array; or one by one."""
        begin, end = self._bounds
        first, last = self._arranged.begin, self._arranged.end
        more = [f"while {end} < {last} and {alike}[{end}] == {alike}[{begin}]:", f"    {end} += 1"]
        body = [f"{end} = {begin} + 1", *(more if alike else []), *self._reads(), f"{begin} = {end}"]
        return [f"{begin} = {first}", f"while {begin} < {last}:", *indent(body)]

    def emits(self, event: Event, leaves: bool = False, noted: Sequence[str] = ()) -> list[str]:
        """Return what puts the result of an event into the chunk, where there is one, at ``s``.

        Parameters
        ----------
        event : Event
            The event.
        leaves : bool
            Whether it leaves the window.
        noted : sequence of str
            What else is noted of the result.
        """
        wanted = self._read.puts_out_expired if leaves else self._read.puts_out_current
        asked = self.wanted and (wanted or bool(self._groups.conditions))
        if not asked and not (wanted and self._fallible):
            return []
        computed, condition, stored = self._result(event, leaves)
        if not asked:
            return computed
        if not wanted:  # the aggregators of having count it all the same
            return [*computed, *(condition or ([], ""))[0]]
        kind = [f"{self._buffers.owner}_kind[s] = {int(leaves)}"] if "kind" in self._buffers.more else []
        stored = [*self._groups.slot(self.count, event), *stored, *kind, *noted]
        if condition is None:
            return [*computed, *stored]
        lines, test = condition
        return [*computed, *lines, f"if {test}:", *indent(stored)]

    def resets(self, timestamp: str) -> list[str]:
        """Return what puts a sign that all totals begin anew among the results, where it means anything to a limit."""
        if not (self.wanted and self._query.notes_resets):
            return []
        owner, count = self._buffers.owner, self.count
        return [f"{owner}_ts[{count}], {owner}_kind[{count}] = {timestamp}, 2", f"{count} += 1"]

    def at(self, event: Event) -> list[str]:
        """Return what puts the result of an event at place ``s``."""
        computed, _, stored = self._result(event)
        return [*computed, *stored]

    # Readers.

    def _reading(self, key: str) -> list[str]:
        """Return the blocks of who reads what is put out."""
        output, buffers = self._read.checked.output, self._arranged.buffers
        origins: list[Origin | None] = []
        for place in range(len(output.types)):
            attribute = None if self._is_late else self._own_attribute(place)
            known = attribute is not None and attribute < len(self._block.origins)
            origins.append(self._block.origins[attribute] if known and attribute is not None else None)
        self._buffers.declare()
        target, types, most, bounds = self._read.checked.target, tuple(output.types), self._most, self._bounds
        if self._buffers.begin == "0":
            self._whole.count(buffers.room, most)
        if self._rate is not None:
            most, buffers, bounds = self._rate.counts(most), self._rate.buffers, ("0", self._rate.count)
        if self._waits_for_ticks:
            return []
        owner, leaves = buffers.owner, ""
        if isinstance(self._read, LoopWindow) and self._read.puts_out_expired:
            leaves = f"{owner}_kind[{{}}] != 0" if self._query.tells_kinds else "True"
        source = f"{owner}_source"
        block = Block(target, owner, types, *bounds, source, tuple(origins), buffers.room, most, leaves=leaves)
        block = replace(block, single=self._is_single)
        self._tests = not (buffers is self._buffers and buffers.begin != "0" and self._whole.is_single(block))
        return self._whole.follows(self._query, block, key)

    @property
    def _is_single(self) -> bool:
        """Whether each result comes from an event of a source that has caused it, and no other one of it does."""
        return self._block.single and isinstance(self._read, Read) and not self._is_late

    @property
    def _is_late(self) -> bool:
        """Whether there may be results of events that came before."""
        return self._read.puts_out_expired or self._read.waits or self._query.holds_back

    @property
    def _waits_for_ticks(self) -> bool:
        """Whether results go on only when time passes: a snapshot goes on with a result that is not before its tick."""
        return self._query.ticks and not self._query.shows_snapshots

    @property
    def _bounds(self) -> tuple[str, str]:
        """Source of where the results of a chunk begin, and end."""
        return self._arranged.begin, self._arranged.end

    def _own_attribute(self, place: int) -> int | None:
        """Return which attribute of the event that is read an attribute of the output is; None where it is none."""
        return self._attribute_of(place)

    @property
    def _most(self) -> Most:
        """How many results there may be: each event that comes, or was there before, enters and leaves once."""
        read, most = self._read, self._block.most
        alone = isinstance(read, Read) and read.window is None
        one_by_one = alone or (isinstance(read.window, Sliding) and read.window.one_by_one)
        if read.waits or (read.puts_out_expired and not one_by_one):
            most = most + Most({self._query.name: 1})
        # Signs that totals begin anew are as many as events at most; what a named window releases does one of both.
        both = read.events == "all" and not (isinstance(read, Read) and read.released is not None)
        return sum([most] * (1 + both + self._query.notes_resets), Most())

    def _attribute_of(self, place: int) -> int | None:
        """Return which attribute of the event an attribute of the output is; None where it is computed."""
        if not self._select.items:
            return self._read.star[place]
        expression = self._select.items[place].expression
        return self._query.resolved(expression) if isinstance(expression, ast.Variable) else None

    # Results.

    def _result(self, event: Event, leaves: bool = False) -> tuple[list[str], tuple[list[str], str] | None, list[str]]:
        """Return what computes a result, the statements and the test of ``having``, and what stores it at ``s``."""
        writer = self._writer(event.read, event.timestamp, event.group)
        items: dict[int, Value] = {}

        def item(place: int) -> Value:
            if not self._select.items:
                return event.read(self._read.star[place])
            if place not in items:
                expression = self._select.items[place].expression
                items[place] = writer.write(expression)
                if not isinstance(expression, ast.Variable):
                    # The value of an aggregator may only be looked at where it is not null.
                    items[place] = writer.kept(items[place])
            return items[place]

        # In front of `having`: operators compute all that is selected before they ask it, and fail on that.
        for place in self._fallible:
            item(place)
        condition = self._having(item, event, leaves, writer.missing)
        # What is written from here on is computed behind the test, of results that are kept.
        computed, writer.lines = writer.lines, []
        stored = self._stored(item, event)
        return computed, condition, [*writer.lines, *stored]

    def _having(
        self, item: Callable[[int], Value], event: Event, leaves: bool, missing: Callable[[ast.IsNullEvent], str]
    ) -> tuple[list[str], str] | None:
        condition = self._select.having
        if condition is None:
            return None
        checked = self._read.checked
        scope = checked.scope.results(checked.target, checked.output)

        def read(variable: ast.Variable) -> Value:
            found = scope.resolve(variable)
            return item(found.attribute) if scope.is_output(found) else event.read(self._read.place(found))

        def place_of(variable: ast.Variable) -> int | None:
            found = scope.resolve(variable)
            return self._attribute_of(found.attribute) if scope.is_output(found) else self._read.place(found)

        def text_function(call: ast.FunctionCall) -> Value | None:
            return None if self.text_function is None else self.text_function(event.read, call, place_of, scope)

        def writer() -> TypedWriter:
            def aggregate(call: ast.FunctionCall) -> Value | None:
                return self._groups.value(call, self._groups.key)

            named = self._whole.name, self._whole.text_number
            made = TypedWriter(read, event.timestamp, *named, aggregate, missing, text_function=text_function)
            if isinstance(self._read, Read):
                made.contains = partial(contained, self._whole, scope, made)
            return made

        updates, own = self._groups.updates(writer, leaves), writer()
        test = own.condition(condition)
        return [*updates, *own.lines], test

    def _stored(self, item: Callable[[int], Value], event: Event) -> list[str]:
        owner = self._buffers.owner
        stores = [f"{owner}_ts[s] = {event.timestamp}", f"{owner}_source[s] = {event.source}"]
        if "w0" in self._buffers.more:
            words = self._groups.words(event.read)
            stores += [f"{owner}_w{number}[s] = {word}" for number, word in enumerate(words)]
        for number, reference in enumerate(self._arranged.unselected):
            value = event.read(self._read.place(reference))
            values, nulls = self._buffers.unselected(number, reference.type)
            stores += [f"{values}[s] = {value.text}", f"{nulls}[s] = {value.null or 'False'}"]
        for place, type in enumerate(self._read.checked.output.types):
            if (owner, place) in self._whole.needed:
                value = item(place)
                objects = (value.type is Type.OBJECT) != (type is Type.OBJECT)
                if objects or dtype_of(value.type) != dtype_of(type):
                    raise NotTyped(f"a value of {value.type} as {type}", self._read.checked.query.span)
                stores += [f"{owner}_{place}[s] = {value.text}", f"{owner}_{place}_n[s] = {value.null or 'False'}"]
        return stores
