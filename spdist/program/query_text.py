"""The block of one query in a program: filters, window, totals, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spdist.language import ast
from spdist.operators.aggregates import aggregates_in
from spdist.program.expressions import NUMBER, NotTyped, TypedWriter, Value, dtype_of
from spdist.program.group_text import GroupWriter
from spdist.program.parts import Block, Origin, QueryText, Whole, indent
from spdist.program.shape import Read
from spdist.program.window_text import WindowWriter

__all__ = ["PutOutEvent", "QueryWriter"]


@dataclass(frozen=True, slots=True)
class PutOutEvent:
    """An event for which there may be a result: what reads it, its timestamp, and the number of its group."""

    read: Callable[[int], Value]
    timestamp: str
    group: str


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

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        self._whole = whole
        self._query = query
        self._read = query.read
        self._block = block
        self._key = key
        self._select = query.read.checked.query.select
        self._event = whole.name()
        self._groups = GroupWriter(whole.arrays, query, key or "0", whole.name(), self._writer)
        self._window = None
        if query.read.window is not None:
            self._window = WindowWriter(whole, query, query.read.window, key or "0", self._groups)

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        groups, window, count = self._groups, self._window, self._whole.name()
        readers = self._readers("0", count, "chunk")
        body = self._filters()
        if window is not None:
            leaving = self.put_out(self._leaving(), count) if readers and self._read.puts_out_expired else []
            body += window.enters(self._attribute, self._timestamp, leaving)
        body += groups.finds(self._attribute)
        if window is not None:
            body += window.remembers()
        body += groups.enters(self._event_writer)
        if readers and self._read.puts_out_current:
            body += self.put_out(PutOutEvent(self._attribute, self._timestamp, groups.number), count)
        before, after = groups.before(), groups.forgets()
        if readers:
            before = [f"{count} = 0", *before]
            if groups.collapses and groups.grouped:
                before += [f"mark{count} = marks[0] + 1", f"marks[0] = mark{count}"]
            after = [*after, f"if {count} > 0:", *indent(readers)]
        guard = self._block.guard
        if guard:
            body = [f"if not ({guard.format(self._event)}):", "    continue", *body]
        loop = f"for {self._event} in range({self._block.begin}, {self._block.end}):"
        return [*before, loop, *indent(body or ["pass"]), *after]

    def expires(self) -> list[str]:
        """Return what lets events leave the window by time, while none comes."""
        if self._window is None or self._read.window is None or not self._read.window.span:
            return []
        lines = self._window.leaves([])
        if self._key:
            lines = [f"for {self._key} in range(len({self._query.name}_head)):", *indent(lines)]
        return [*self._groups.before(), *lines, *self._groups.forgets()]

    # What is read.

    @property
    def _timestamp(self) -> str:
        return f"{self._block.timestamp}[{self._event}]"

    def _leaving(self) -> PutOutEvent:
        """Return the event that leaves the window."""
        assert self._window is not None
        return PutOutEvent(self._window.kept, "now", "gone")

    def _writer(self, read: Callable[[int], Value], timestamp: str, group: str = "") -> TypedWriter:
        """Return a writer of expressions, given what reads an attribute, and the group whose totals they may name."""

        def variable(named: ast.Variable) -> Value:
            return read(self._query.resolved(named))

        def aggregate(call: ast.FunctionCall) -> Value | None:
            return self._groups.value(call, group)

        return TypedWriter(variable, timestamp, self._whole.name, self._whole.text_number, aggregate)

    def _event_writer(self) -> TypedWriter:
        """Return a writer of expressions over the event that enters."""
        return self._writer(self._attribute, self._timestamp, self._groups.number)

    def _attribute(self, place: int) -> Value:
        block = self._block
        values, nulls = self._whole.attribute(block.owner, place, block.types[place], block.room)
        return Value(f"{values}[{self._event}]", f"{nulls}[{self._event}] != 0", block.types[place])

    def _filters(self) -> list[str]:
        lines: list[str] = []
        assert isinstance(self._read, Read)
        for condition in self._read.filters:
            writer = self._event_writer()
            test = writer.condition(condition)
            lines += [*writer.lines, f"if not ({test}):", "    continue"]
        return lines

    # What comes out.

    @property
    def results(self) -> Block:
        """A block of as many events as may be put out, one for each."""
        return self._block

    def _readers(self, begin: str, end: str, room: str) -> list[str]:
        """Return the blocks of who reads what is put out, from one place of the buffers to another."""
        output, owner = self._read.checked.output, f"{self._query.name}_o"
        origins: list[Origin | None] = []
        for place in range(len(output.types)):
            attribute = None if self._read.puts_out_expired else self._attribute_of(place)
            origins.append(None if attribute is None else self._block.origins[attribute])
        for name in ("ts", "source"):
            self._whole.arrays.declare(f"{owner}_{name}", NUMBER, room)
        target, types = self._read.checked.target, tuple(output.types)
        most, pools = self._block.most * (1 + (self._read.events == "all")), self.results.pools
        block = Block(target, owner, types, begin, end, f"{owner}_source", tuple(origins), room, most, pools)
        return self._whole.readers(block, self._query.keyed, self._key)

    def _attribute_of(self, place: int) -> int | None:
        """Return which attribute of the event an attribute of the output is; None where it is computed."""
        if not self._select.items:
            return self._read.star[place]
        expression = self._select.items[place].expression
        return self._query.resolved(expression) if isinstance(expression, ast.Variable) else None

    def put_out(self, event: PutOutEvent, count: str, more: Sequence[str] = ()) -> list[str]:
        """Return what puts the result for an event into the buffers, at ``s``, unless ``having`` does not hold.

        Parameters
        ----------
        event : PutOutEvent
            The event.
        count : str
            Source of how many results there are so far.
        more : sequence of str
            What else is noted of the result.
        """
        writer = self._writer(event.read, event.timestamp, event.group)
        items: dict[int, Value] = {}

        def item(place: int) -> Value:
            if not self._select.items:
                return event.read(self._read.star[place])
            if place not in items:
                # The value of an aggregator may only be looked at where it is not null.
                items[place] = writer.kept(writer.write(self._select.items[place].expression))
            return items[place]

        condition = self._having(item, event)
        computed, writer.lines = writer.lines, []
        stored = self._stored(item, event, count)
        stored = [*writer.lines, *self._groups.slot(count, event.group), *stored, *more]
        if condition is None:
            return [*computed, *stored]
        lines, test = condition
        return [*computed, *lines, f"if {test}:", *indent(stored)]

    def _having(self, item: Callable[[int], Value], event: PutOutEvent) -> tuple[list[str], str] | None:
        """Return the statements and the test of ``having``."""
        condition = self._select.having
        if condition is None:
            return None
        if aggregates_in(condition):
            raise NotTyped("an aggregator in having", condition.span)
        checked = self._read.checked
        scope = checked.scope.results(checked.target, checked.output)

        def read(variable: ast.Variable) -> Value:
            found = scope.resolve(variable)
            return item(found.attribute) if scope.is_output(found) else event.read(self._read.place(found))

        own = TypedWriter(read, event.timestamp, self._whole.name, self._whole.text_number)
        test = own.condition(condition)
        return own.lines, test

    def _stored(self, item: Callable[[int], Value], event: PutOutEvent, count: str) -> list[str]:
        """Return what puts the result into the buffers, at ``s``."""
        owner, source = f"{self._query.name}_o", self._block.source
        stores = [
            f"{owner}_ts[s] = {event.timestamp}",
            f"{owner}_source[s] = {f'{source}[{self._event}]' if source else self._event}",
        ]
        for place, type in enumerate(self._read.checked.output.types):
            if (owner, place) in self._whole.needed:
                value = item(place)
                if dtype_of(value.type) != dtype_of(type):
                    raise NotTyped(f"a value of {value.type} as {type}", self._read.checked.query.span)
                stores += [f"{owner}_{place}[s] = {value.text}", f"{owner}_{place}_n[s] = {value.null or 'False'}"]
        return stores
