"""The block of one query in a program: filters, window, totals, and what comes out."""

from __future__ import annotations

from collections.abc import Callable

from spdist.language import ast
from spdist.operators.aggregates import aggregates_in
from spdist.program.batch_text import BatchWriter
from spdist.program.expressions import NUMBER, NotTyped, TypedWriter, Value, dtype_of
from spdist.program.group_text import GroupWriter
from spdist.program.parts import Block, Event, Most, Origin, QueryText, Whole, indent
from spdist.program.shape import Batched, Sliding
from spdist.program.window_text import WindowWriter

__all__ = ["QueryWriter"]


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
        if isinstance(query.read.window, Sliding):
            self._window = WindowWriter(whole, query, query.read.window, key or "0", self._groups)

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        if isinstance(self._read.window, Batched):
            return self._loop(self._batch(self._read.window))
        groups, window, count = self._groups, self._window, self._whole.name()
        readers = self._readers(count)
        body: list[str] = []
        if window is not None:
            leaving = self._put_out(self._leaving(), count) if readers and self._read.puts_out_expired else []
            body += window.enters(self._attribute, self._timestamp, leaving)
        body += groups.finds(self._attribute)
        if window is not None:
            body += window.remembers()
        body += groups.enters(self._event_writer)
        if readers and self._read.puts_out_current:
            body += self._put_out(self._entering, count)
        before, after = groups.before(), groups.forgets()
        if readers:
            before = [*self._begins(count), *before]
            after = [*after, f"if {count} > 0:", *indent(readers)]
        return [*before, *self._loop(body), *after]

    def _loop(self, body: list[str]) -> list[str]:
        """Return the loop over the events that meet the conditions in front of the window."""
        guard = self._block.guard
        body = [*([f"if not ({guard.format(self._event)}):", "    continue"] if guard else []), *self._filters(), *body]
        return [f"for {self._event} in range({self._block.begin}, {self._block.end}):", *indent(body or ["pass"])]

    def _begins(self, count: str) -> list[str]:
        """Return what stands in front of a chunk of results."""
        if self._groups.collapses and self._groups.grouped:
            return [f"{count} = 0", f"mark{count} = marks[0] + 1", f"marks[0] = mark{count}"]
        return [f"{count} = 0"]

    def _batch(self, window: Batched) -> list[str]:
        """Return what is done with an event where the window releases batches: each of them is a chunk of its own."""
        count = self._whole.name()
        readers = self._readers(count)

        def put_out(event: Event, leaves: bool) -> list[str]:
            wanted = self._read.puts_out_expired if leaves else self._read.puts_out_current
            return self._put_out(event, count) if readers and wanted else []

        def hands_over(chunk: list[str]) -> list[str]:
            return [*self._begins(count), *chunk, f"if {count} > 0:", *indent(readers)] if readers else chunk

        writer = BatchWriter(self._whole, self._query, window, self._key or "0", self._groups, self._writer, put_out)
        return writer.takes(self._entering, hands_over)

    def expires(self) -> list[str]:
        """Return what lets events leave the window by time, while none comes."""
        if self._window is None or not isinstance(self._read.window, Sliding) or not self._read.window.span:
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

    def _leaving(self) -> Event:
        """Return the event that leaves the window."""
        assert self._window is not None
        return Event(self._window.kept, "now", "gone")

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
        for condition in self._read.filters:
            writer = self._event_writer()
            test = writer.condition(condition)
            lines += [*writer.lines, f"if not ({test}):", "    continue"]
        return lines

    # What comes out.

    def _readers(self, count: str) -> list[str]:
        """Return the blocks of who reads what is put out."""
        output, owner = self._read.checked.output, f"{self._query.name}_o"
        origins: list[Origin | None] = []
        for place in range(len(output.types)):
            kept = self._read.puts_out_expired or self._read.waits
            attribute = None if kept else self._attribute_of(place)
            origins.append(None if attribute is None else self._block.origins[attribute])
        room = f"chunk {self._query.name}"
        for name in ("ts", "source"):
            self._whole.arrays.declare(f"{owner}_{name}", NUMBER, room)
        target, types, most = self._read.checked.target, tuple(output.types), self._most
        self._whole.count(room, most)
        block = Block(target, owner, types, "0", count, f"{owner}_source", tuple(origins), room, most)
        return self._whole.readers(block, self._query.keyed, self._key)

    @property
    def _most(self) -> Most:
        """How many results there may be: each event that comes, or was there before, enters and leaves once."""
        most = self._block.most
        if self._read.waits or (isinstance(self._read.window, Batched) and self._read.puts_out_expired):
            most = most + Most({self._query.name: 1})
        return most + most if self._read.events == "all" else most

    def _attribute_of(self, place: int) -> int | None:
        """Return which attribute of the event an attribute of the output is; None where it is computed."""
        if not self._select.items:
            return place
        expression = self._select.items[place].expression
        return self._query.resolved(expression) if isinstance(expression, ast.Variable) else None

    def _put_out(self, event: Event, count: str) -> list[str]:
        """Return what puts the result for an event into the buffers, unless ``having`` does not hold."""
        writer = self._writer(event.read, event.timestamp, event.group)
        items: dict[int, Value] = {}

        def item(place: int) -> Value:
            if not self._select.items:
                return event.read(place)
            if place not in items:
                # The value of an aggregator may only be looked at where it is not null.
                items[place] = writer.kept(writer.write(self._select.items[place].expression))
            return items[place]

        condition = self._having(item, event.timestamp)
        computed, writer.lines = writer.lines, []
        stored = self._stored(item, event, count)
        stored = [*writer.lines, *self._groups.slot(count, event.group), *stored]
        if condition is None:
            return [*computed, *stored]
        lines, test = condition
        return [*computed, *lines, f"if {test}:", *indent(stored)]

    def _having(self, item: Callable[[int], Value], timestamp: str) -> tuple[list[str], str] | None:
        """Return the statements and the test of ``having``."""
        condition = self._select.having
        if condition is None:
            return None
        if aggregates_in(condition):
            raise NotTyped("an aggregator in having", condition.span)
        checked = self._read.checked
        scope = checked.scope.results(checked.target, checked.output)

        def read(variable: ast.Variable) -> Value:
            return item(scope.resolve(variable).attribute)

        own = TypedWriter(read, timestamp, self._whole.name, self._whole.text_number)
        test = own.condition(condition)
        return own.lines, test

    def _stored(self, item: Callable[[int], Value], event: Event, count: str) -> list[str]:
        """Return what puts the result into the buffers, at ``s``."""
        owner = f"{self._query.name}_o"
        stores = [f"{owner}_ts[s] = {event.timestamp}", f"{owner}_source[s] = {event.source}"]
        for place, type in enumerate(self._read.checked.output.types):
            if (owner, place) in self._whole.needed:
                value = item(place)
                if dtype_of(value.type) != dtype_of(type):
                    raise NotTyped(f"a value of {value.type} as {type}", self._read.checked.query.span)
                stores += [f"{owner}_{place}[s] = {value.text}", f"{owner}_{place}_n[s] = {value.null or 'False'}"]
        return stores
