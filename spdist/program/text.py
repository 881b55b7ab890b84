"""The text of a program: one loop over chunks, and in it the queries, depth first in the order of the app.

What a query puts out for a chunk stands in its buffers; whoever reads that follows in the text as a block of its own,
so that an event has been through all of them before the next one is looked at, as in Siddhi. A query that can be
reached on two ways stands in the text twice, over the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spdist.language import ast
from spdist.language.types import Type
from spdist.operators.aggregates import aggregates_in
from spdist.operators.selector import is_aggregator
from spdist.program.aggregators import TypedForm, typed_form
from spdist.program.arrays import Arrays
from spdist.program.expressions import FLAG, NUMBER, NotTyped, TypedWriter, Value, dtype_of
from spdist.program.shape import Keyed, Read, Shape

__all__ = ["NULL_TEXT", "Aggregate", "Program", "QueryText", "written"]

#: How many blocks a text may have: streams that meet again and again multiply them.
_MOST_BLOCKS = 200
#: Functions that compute arguments behind the first one only where they want them.
_CHOOSING = ("ifThenElse", "coalesce", "default")
#: Group keys of texts that are null are those of this text.
NULL_TEXT = "null"
_KERNELS = (
    "candidate_enters, candidate_leaves, deviation, deviation_add, deviation_remove, divide, f32, find, loop, release, "
    "remainder, remainder_real, remove_long, wrap32"
)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregator of a query: its form, and the names of its slots' arrays and of its lists of candidates."""

    form: TypedForm
    slots: tuple[str, ...]
    candidates: str


@dataclass(slots=True)
class QueryText:
    """What is known of a query once it was written.

    Parameters
    ----------
    read : Read
        The query.
    keyed : Keyed, optional
        The partition that it stands in.
    aggregates : list of Aggregate
        In the order of the text.
    kept : list of int
        The attributes that its window keeps of each event.
    """

    read: Read
    keyed: Keyed | None
    aggregates: list[Aggregate] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    @property
    def grouped(self) -> tuple[int, ...]:
        """The attributes that are the key of a group."""
        scope = self.read.checked.scope
        return tuple(scope.resolve(variable).attribute for variable in self.read.checked.query.select.group_by)

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return f"q{self.read.number}"


@dataclass(frozen=True, slots=True)
class Program:
    """A program as text.

    Parameters
    ----------
    source : str
        A module of Python with a function ``run``.
    arrays : Arrays
        What ``run`` is given behind the chunks, in that order.
    shape : Shape
        What it was written from.
    queries : tuple of QueryText
        In the order of the app.
    inputs : mapping of str to list of int
        The attributes of each source that are read, by stream.
    outputs : mapping of str to tuple
        For each stream that is put out, and each of its attributes: the attribute of a source that it is, as (stream,
        attribute), or None where it is computed.
    ways : mapping of str to int
        On how many ways an event can come to each stream that is put out.
    texts : tuple of str
        The texts of the app; their places are their numbers.
    """

    source: str
    arrays: Arrays
    shape: Shape
    queries: tuple[QueryText, ...]
    inputs: dict[str, list[int]]
    outputs: dict[str, tuple[tuple[str, int] | None, ...]]
    ways: dict[str, int]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """The events of one chunk of a stream: where they are, and what they have."""

    stream: str
    owner: str
    types: tuple[Type, ...]
    begin: str
    end: str
    timestamp: str
    source: str
    origins: tuple[tuple[str, int] | None, ...]
    guard: str = ""
    key: str = ""


Needs = set[tuple[str, int]]


def written(shape: Shape, put_out: tuple[str, ...]) -> Program:
    """Return the program of an app.

    Parameters
    ----------
    shape : Shape
        The app's queries.
    put_out : tuple of str
        The streams whose events somebody outside gets.

    Raises
    ------
    NotTyped
        Something in it has no typed form (yet).
    """
    needs: Needs = set()
    computed: Needs = set()
    while True:
        writer = _Writer(shape, put_out, frozenset(needs), frozenset(computed))
        program = writer.program()
        if writer.needs <= needs and writer.computed <= computed:
            return program
        needs |= writer.needs
        computed |= writer.computed


class _Writer:
    """Writes the text once, given what was found to be needed when it was written before."""

    def __init__(self, shape: Shape, put_out: tuple[str, ...], needed: frozenset, computed: frozenset) -> None:
        self.shape = shape
        self.put_out = put_out
        self.needed = needed
        #: Attributes of buffers, inputs and windows that are read.
        self.needs: Needs = set()
        self._must_compute = computed
        #: Attributes of streams put out that are no attribute of a source.
        self.computed: Needs = set()
        self.arrays = Arrays()
        self._texts: dict[str, int] = {NULL_TEXT: 0}
        self._names = 0
        self._blocks = 0
        self._origins: dict[tuple[str, int], tuple[str, int] | None] = {}
        self._ways: dict[str, int] = {}
        self.queries: dict[int, QueryText] = {}

    def program(self) -> Program:
        """Return the program."""
        self.arrays.declare("marks", NUMBER, "1")
        body: list[str] = []
        for number, stream in enumerate(self.shape.sources):
            schema = self.shape.schemas[stream]
            owner = f"i{number}"
            origins = tuple((stream, place) for place in range(len(schema)))
            self.arrays.declare(f"{owner}_ts", NUMBER, f"input {number}")
            block = _Block(stream, owner, tuple(schema.types), "begin", "end", f"{owner}_ts", "", origins)
            body += [f"if which[c] == {number}:", *_indent(self._readers(block, None, ""))]
        lines = [
            "for c in range(len(begins)):",
            "    begin, end, number = begins[c], ends[c], 0",
            "    if at[c] > now:",
            "        now = at[c]",
            *_indent(body),
            "return now",
        ]
        if self._blocks > _MOST_BLOCKS:
            raise NotTyped("streams that meet again too often")
        expires = [line for query in self.queries.values() for line in self._expires(query)]
        parameters = ", ".join(self.arrays.declared)
        source = [
            f"from spdist.program.kernels import ({_KERNELS})",
            "",
            "@loop",
            f"def run(begins, ends, at, which, now, {parameters}):",
            *_indent(lines),
            "",
            "",
            "@loop",
            f"def expire(now, {parameters}):",
            *_indent([*expires, "return now"]),
        ]
        return Program(
            "\n".join(source) + "\n",
            self.arrays,
            self.shape,
            tuple(self.queries[number] for number in sorted(self.queries)),
            {
                stream: sorted(place for owner, place in self.needs if owner == f"i{number}")
                for number, stream in enumerate(self.shape.sources)
            },
            {
                stream: tuple(
                    None if (stream, place) in self._must_compute else self._origins.get((stream, place))
                    for place in range(len(self.shape.schemas[stream]))
                )
                for stream in self.put_out
            },
            {stream: self._ways.get(stream, 0) for stream in self.put_out},
            tuple(self._texts),
        )

    def name(self) -> str:
        """Return a name of the text's own."""
        self._names += 1
        return f"t{self._names}"

    def text_number(self, text: str) -> int:
        """Return the number of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def need(self, owner: str, place: int, type: Type, room: str) -> tuple[str, str]:
        """Take note that an attribute is read, and return the names of its values and of their nulls."""
        self.needs.add((owner, place))
        name = f"{owner}_{place}"
        self.arrays.declare(name, dtype_of(type), room)
        self.arrays.declare(f"{name}_n", FLAG, room)
        return name, f"{name}_n"

    # Streams.

    def _readers(self, block: _Block, keyed: Keyed | None, key: str) -> list[str]:
        """Return the blocks of all who read a stream, in the order of the app; then of who gets it outside."""
        self._blocks += 1
        if self._blocks > _MOST_BLOCKS:
            return []
        lines: list[str] = []
        if block.stream.startswith("#") and keyed is not None:
            for read in keyed.queries:
                if read.stream == block.stream:
                    lines += self._query(read, keyed, block, key)
            return lines
        for element in self.shape.elements:
            if isinstance(element, Keyed):
                if any(read.stream == block.stream for read in element.queries):
                    lines += self._partition(element, block)
            elif element.stream == block.stream:
                lines += self._query(element, None, block, "")
        if block.stream in self.put_out:
            lines += self._output(block)
        return lines

    def _output(self, block: _Block) -> list[str]:
        """Return what hands the events of a chunk out."""
        if not block.source:
            raise NotTyped(f"the stream {block.stream}, which is read and handed out")
        self._ways[block.stream] = self._ways.get(block.stream, 0) + 1
        number = self.put_out.index(block.stream)
        owner, room = f"h{number}", f"output {number}"
        for name, dtype in (("cause", NUMBER), ("number", NUMBER), ("first", FLAG), ("ts", NUMBER), ("source", NUMBER)):
            self.arrays.declare(f"{owner}_{name}", dtype, room)
        self.arrays.declare(f"{owner}_count", NUMBER, "1")
        place = self.name()
        lines = [
            f"{owner}_cause[k] = c",
            f"{owner}_number[k] = number",
            f"{owner}_first[k] = {place} == {block.begin}",
            f"{owner}_ts[k] = {block.timestamp}[{place}]",
            f"{owner}_source[k] = {block.source}[{place}]",
        ]
        for attribute, type in enumerate(block.types):
            origin, known = block.origins[attribute], (block.stream, attribute)
            if origin is None or self._origins.setdefault(known, origin) != origin:
                self.computed.add(known)
            if known in self._must_compute:
                values, nulls = self.need(block.owner, attribute, type, self._room(block.owner))
                shown = f"{owner}_{attribute}"
                self.arrays.declare(shown, dtype_of(type), room)
                self.arrays.declare(f"{shown}_n", FLAG, room)
                lines += [f"{shown}[k] = {values}[{place}]", f"{shown}_n[k] = {nulls}[{place}]"]
        return [
            f"for {place} in range({block.begin}, {block.end}):",
            f"    k = {owner}_count[0]",
            *_indent(lines),
            f"    {owner}_count[0] = k + 1",
            "    number += 1",
        ]

    @staticmethod
    def _room(owner: str) -> str:
        return f"input {owner[1:]}" if owner.startswith("i") else "chunk"

    # Partitions.

    def _partition(self, keyed: Keyed, block: _Block) -> list[str]:
        """Return the blocks of a partition's queries: runs of one key after the other."""
        place = keyed.keys[block.stream]
        values, nulls = self.need(block.owner, place, block.types[place], self._room(block.owner))
        name, room = f"p{keyed.number}", f"keys {keyed.number}"
        table = self.arrays.table(name, 1, room)
        self.arrays.declare("word1", NUMBER, "1")
        first, end, key = self.name(), self.name(), self.name()
        run = _Block(
            block.stream,
            block.owner,
            block.types,
            first,
            end,
            block.timestamp,
            block.source,
            block.origins,
            f"{nulls}[{{}}] == 0",
            key,
        )
        lines: list[str] = []
        for read in keyed.queries:
            if read.stream == block.stream:
                lines += self._query(read, keyed, run, key)
        return [
            f"{first} = {block.begin}",
            f"while {first} < {block.end}:",
            f"    if {nulls}[{first}] != 0:",
            f"        {first} += 1",
            "        continue",
            f"    word1[0] = {values}[{first}]",
            f"    {key} = find({table}, word1, 1)",
            f"    {end} = {first} + 1",
            f"    while {end} < {block.end} and ({nulls}[{end}] != 0 or {values}[{end}] == {values}[{first}]):",
            f"        {end} += 1",
            *_indent(lines),
            f"    {first} = {end}",
        ]

    # Queries.

    def _query(self, read: Read, keyed: Keyed | None, block: _Block, key: str) -> list[str]:
        known = self.queries.setdefault(read.number, QueryText(read, keyed))
        known.aggregates.clear()
        return _QueryWriter(self, known, block, key).lines()

    def _expires(self, query: QueryText) -> list[str]:
        schema = query.read.schema
        key = "0" if query.keyed is None else "key"
        block = _Block(query.read.stream, "", tuple(schema.types), "", "", "", "", ())
        return _QueryWriter(self, query, block, key).expires()

    def readers_of(self, query: QueryText, block: _Block, key: str) -> list[str]:
        """Return the blocks of those who read what a query puts out."""
        return self._readers(block, query.keyed, key)


class _QueryWriter:
    """Writes the block of one query."""

    def __init__(self, whole: _Writer, query: QueryText, block: _Block, key: str) -> None:
        self.whole = whole
        self.query = query
        self.read = query.read
        self.block = block
        self.key = key or "0"
        self.select = query.read.checked.query.select
        self.arrays = whole.arrays
        self.prefix = query.name
        self.event = whole.name()
        self.grouped = bool(self.select.group_by)
        self.aggregated = any(aggregates_in(item.expression) for item in self.select.items)
        self.collapses = self.aggregated
        keys = f"keys {query.keyed.number}" if query.keyed is not None else "1"
        #: The rooms of what there is once for a key of the partition, and once for a group.
        self.instances = keys
        self.groups = f"groups {self.prefix}" if self.grouped else keys
        self.group = whole.name() if self.grouped else self.key
        self._items: dict[int, Value] = {}
        self._found = self._aggregators()
        #: When a group whose last event has left is forgotten, in a window.
        self._forgetting = ""

    def lines(self) -> list[str]:
        """Return the block."""
        block, count = self.block, self.whole.name()
        body = self._filters()
        if self.read.window is not None:
            body += self._window()
        if self.grouped:
            body += self._find_group()
        if self.read.window is not None and self.aggregated:
            body += self._remembered()
        body += self._enters()
        writer = self._event_writer()
        body += self._having(writer)
        readers = self._readers(count)
        body += self._stored(writer, count) if readers else []
        before = [f"{count} = 0"] if readers else []
        if self.collapses and self.grouped and readers:
            before += [f"mark{count} = marks[0] + 1", f"marks[0] = mark{count}"]
        after = [f"if {count} > 0:", *_indent(readers)] if readers else []
        if self._forgetting:
            before.append("late = 0")
            after = [*self._forgets(), *after]
        guard = [f"if not ({block.guard.format(self.event)}):", "    continue"] if block.guard else []
        return [
            *before,
            f"for {self.event} in range({block.begin}, {block.end}):",
            *_indent([*guard, *body] or ["pass"]),
            *after,
        ]

    def _remembered(self) -> list[str]:
        """Return what notes the group of the event that has entered the window."""
        group = self.arrays.declare(f"{self.prefix}_g", NUMBER, f"nodes {self.prefix}", "-1")
        lines = [f"{group}[d] = {self.group}"]
        if self.grouped:
            held = self.arrays.declare(f"{self.prefix}_held", NUMBER, self.groups)
            lines.append(f"{held}[{self.group}] += 1")
        return lines

    def _enters(self) -> list[str]:
        """Return what adds the event to the totals."""
        lines: list[str] = []
        for call, aggregate in self._found:
            writer = self._event_writer()
            slots = [f"{name}[{self.group}]" for name in aggregate.slots]
            lines += _updated(writer, call, aggregate, aggregate.form.add, slots, self.group)
        return lines

    def _readers(self, count: str) -> list[str]:
        """Return the blocks of who reads what is put out."""
        output, owner = self.read.checked.output, self.prefix
        origins: list[tuple[str, int] | None] = []
        for place in range(len(output.types)):
            variable = self._attribute_of(place)
            origins.append(None if variable is None else self.block.origins[variable])
        for name in ("ts", "source"):
            self.arrays.declare(f"{owner}_o{name}", NUMBER, "chunk")
        block = _Block(
            self.read.checked.target,
            f"{owner}_o",
            tuple(output.types),
            "0",
            count,
            f"{owner}_ots",
            f"{owner}_osource",
            tuple(origins),
        )
        return self.whole.readers_of(self.query, block, self.key if self.query.keyed is not None else "")

    def _attribute_of(self, place: int) -> int | None:
        """Return which attribute of the event an output attribute is; None where it is computed."""
        if not self.select.items:
            return place
        expression = self.select.items[place].expression
        return self._resolved(expression) if isinstance(expression, ast.Variable) else None

    def _resolved(self, variable: ast.Variable) -> int:
        return self.read.checked.scope.resolve(variable).attribute

    def _event_writer(self) -> TypedWriter:
        def read(variable: ast.Variable) -> Value:
            return self._attribute(self._resolved(variable))

        stamp = f"{self.block.timestamp}[{self.event}]"
        return TypedWriter(read, stamp, self.whole.name, self.whole.text_number, self._aggregate)

    def _attribute(self, place: int) -> Value:
        block, type = self.block, self.block.types[place]
        values, nulls = self.whole.need(block.owner, place, type, self.whole._room(block.owner))
        return Value(f"{values}[{self.event}]", f"{nulls}[{self.event}] != 0", type)

    def _filters(self) -> list[str]:
        lines: list[str] = []
        for condition in self.read.filters:
            writer = self._event_writer()
            test = writer.condition(condition)
            lines += [*writer.lines, f"if not ({test}):", "    continue"]
        return lines

    # Windows.

    def _window(self) -> list[str]:
        """Return what lets events leave, and the event enter as node ``d``."""
        window, prefix = self.read.window, self.prefix
        assert window is not None
        nodes = f"nodes {prefix}"
        for name in ("head", "tail"):
            self.arrays.declare(f"{prefix}_{name}", NUMBER, self.instances, "-1")
        self.arrays.declare(f"{prefix}_size", NUMBER, self.instances)
        self.arrays.declare(f"{prefix}_next", NUMBER, nodes, "-1")
        self.arrays.declare(f"{prefix}_ts", NUMBER, nodes)
        self.arrays.free_list(f"{prefix}_free")
        at = self.key
        kept = []
        for place in self._kept():
            own = self._attribute(place)
            values, nulls = self.whole.need(f"{prefix}_w", place, own.type, nodes)
            kept += [f"{values}[d] = {own.text}", f"{nulls}[d] = {own.null}"]
        return [
            *self._dues(),
            f"d = {prefix}_free[0]",
            "if d >= 0:",
            f"    {prefix}_free[0] = {prefix}_next[d]",
            "else:",
            f"    d = {prefix}_free[1]",
            f"    {prefix}_free[1] = d + 1",
            f"{prefix}_next[d] = -1",
            f"{prefix}_ts[d] = {self.block.timestamp}[{self.event}]",
            f"if {prefix}_tail[{at}] < 0:",
            f"    {prefix}_head[{at}] = d",
            "else:",
            f"    {prefix}_next[{prefix}_tail[{at}]] = d",
            f"{prefix}_tail[{at}] = d",
            f"{prefix}_size[{at}] += 1",
            *kept,
        ]

    def _dues(self) -> list[str]:
        """Return what lets the events leave whose time is over, or the oldest one where there are enough."""
        window, prefix, at = self.read.window, self.prefix, self.key
        assert window is not None
        full = f"if {prefix}_size[{at}] >= {window.length}:"
        due = f"while {prefix}_head[{at}] >= 0 and {prefix}_ts[{prefix}_head[{at}]] <= now - {window.span}:"
        return [
            due if window.span else full,
            f"    d = {prefix}_head[{at}]",
            f"    {prefix}_head[{at}] = {prefix}_next[d]",
            f"    if {prefix}_head[{at}] < 0:",
            f"        {prefix}_tail[{at}] = -1",
            f"    {prefix}_size[{at}] -= 1",
            *_indent(self._leaves()),
            f"    {prefix}_next[d] = {prefix}_free[0]",
            f"    {prefix}_free[0] = d",
        ]

    def _kept(self) -> list[int]:
        """Return the attributes that the window keeps: those that matter when an event leaves."""
        found: set[int] = {self._resolved(variable) for variable in self.select.group_by}
        for item in self.select.items:
            for node in item.expression.walk():
                if is_aggregator(node):
                    for argument in node.args:
                        found |= {self._resolved(v) for v in argument.walk() if isinstance(v, ast.Variable)}
        self.query.kept = sorted(found)
        return self.query.kept

    def _leaves(self) -> list[str]:
        """Return what happens to the totals when the event of node ``d`` leaves."""
        if not self.aggregated:
            return []
        prefix, group = self.prefix, "gone"

        def read(variable: ast.Variable) -> Value:
            place = self._resolved(variable)
            type = self.read.schema.types[place]
            values, nulls = self.whole.need(f"{prefix}_w", place, type, f"nodes {prefix}")
            return Value(f"{values}[d]", f"{nulls}[d] != 0", type)

        lines = [f"gone = {prefix}_g[d]"]
        empty: list[str] = []
        reset: list[str] = []
        for call, aggregate in self._found:
            writer = TypedWriter(read, f"{prefix}_ts[d]", self.whole.name, self.whole.text_number)
            slots = [f"{name}[{group}]" for name in aggregate.slots]
            lines += _updated(writer, call, aggregate, aggregate.form.remove, slots, group)
            empty.append(_filled(aggregate.form.empty, slots, aggregate, group))
            reset += [f"{slot} = {first}" for slot, (_, first) in zip(slots, aggregate.form.slots, strict=True)]
        if reset:
            lines += [f"if {' and '.join(empty)}:", *_indent(reset)]
        if self.grouped:
            # Its number must not be given to another group while results of this chunk are known by it.
            self.arrays.declare(f"{prefix}_waits", FLAG, self.groups)
            self.arrays.declare(f"{prefix}_late", NUMBER, self.groups)
            self._forgetting = " and ".join([f"{prefix}_held[gone] == 0", *empty])
            lines += [
                f"{prefix}_held[gone] -= 1",
                f"if {prefix}_waits[gone] == 0 and {self._forgetting}:",
                f"    {prefix}_waits[gone] = 1",
                f"    {prefix}_late[late] = gone",
                "    late += 1",
            ]
        return lines

    def _forgets(self) -> list[str]:
        """Return what forgets groups that have gone with their last event, once a chunk is over."""
        prefix = self.prefix
        return [
            "for waiting in range(late):",
            f"    gone = {prefix}_late[waiting]",
            f"    {prefix}_waits[gone] = 0",
            f"    if {self._forgetting}:",
            f"        release({self._table()}, gone, {self._width()})",
        ]

    def expires(self) -> list[str]:
        """Return what lets events leave a window by time that no event comes to."""
        if self.read.window is None or not self.read.window.span:
            return []
        lines = self._dues()
        if self.query.keyed is not None:
            lines = [f"for {self.key} in range(len({self.prefix}_head)):", *_indent(lines)]
        return [*(["late = 0"] if self._forgetting else []), *lines, *(self._forgets() if self._forgetting else [])]

    # Groups and aggregators.

    def _width(self) -> int:
        return len(self.select.group_by) + 1 + (self.query.keyed is not None)

    def _table(self) -> str:
        return self.arrays.table(f"{self.prefix}_k", self._width(), self.groups)

    def _find_group(self) -> list[str]:
        width, lines, nulls = self._width(), [], []
        self.arrays.declare(f"word{width}", NUMBER, str(width))
        words = [] if self.query.keyed is None else [self.key]
        for bit, variable in enumerate(self.select.group_by):
            value = self._attribute(self._resolved(variable))
            if value.type is Type.STRING:
                words.append(f"{value.text} if {value.null.replace('!=', '==')} else 0")
                continue
            if value.type in (Type.FLOAT, Type.DOUBLE):
                raise NotTyped("a group of reals", variable.span)
            words.append(f"{value.text} if {value.null.replace('!=', '==')} else 0")
            nulls.append(f"({1 << bit} if {value.null} else 0)")
        words.append(" + ".join(nulls) or "0")
        lines = [f"word{width}[{place}] = {word}" for place, word in enumerate(words)]
        return [*lines, f"{self.group} = find({self._table()}, word{width}, {width})"]

    def _aggregators(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        """Return the aggregators of the query, in the order of its text."""
        found = []
        for item in self.select.items:
            if not _eager(item.expression):
                raise NotTyped("an aggregator that is asked for some events only", item.expression.span)
            for node in item.expression.walk():
                if is_aggregator(node):
                    found.append((node, self._declared(node, len(found))))
        self.query.aggregates = [aggregate for _, aggregate in found]
        return found

    def _declared(self, call: ast.FunctionCall, number: int) -> Aggregate:
        """Return an aggregator, and declare its arrays."""
        types = tuple(self._type_of(argument) for argument in call.args)
        leaving = self.read.window is not None
        form = None if call.namespace else typed_form(call.name, types, leaving)
        if form is None:
            raise NotTyped(f"the aggregator {call.id}()", call.span)
        prefix = f"{self.prefix}_a{number}"
        slots = []
        for place, (dtype, first) in enumerate(form.slots):
            slots.append(self.arrays.declare(f"{prefix}s{place}", dtype, self.groups, first))
        if form.candidates:
            nodes = f"nodes {self.prefix}"
            self.arrays.declare(f"{prefix}_first", NUMBER, self.groups, "-1")
            self.arrays.declare(f"{prefix}_last", NUMBER, self.groups, "-1")
            self.arrays.declare(f"{prefix}_before", NUMBER, nodes, "-1")
            self.arrays.declare(f"{prefix}_after", NUMBER, nodes, "-1")
            self.arrays.declare(f"{prefix}_value", form.candidates, nodes)
            self.arrays.free_list(f"{prefix}_free")
        return Aggregate(form, tuple(slots), prefix)

    def _type_of(self, expression: ast.Expression) -> Type:
        def read(variable: ast.Variable) -> Value:
            return Value("0", "", self.read.schema.types[self._resolved(variable)])

        return TypedWriter(read, "0", lambda: "t", lambda text: 0).write(expression).type

    def _aggregate(self, call: ast.FunctionCall) -> Value | None:
        """Return the value of an aggregator after the event; None where the call is none."""
        found = next((one for node, one in self._found if node is call), None)
        if found is None:
            return None
        slots = [f"{name}[{self.group}]" for name in found.slots]
        result = _filled(found.form.result, slots, found, self.group)
        return Value(result, _filled(found.form.null, slots, found, self.group), found.form.type)

    # What comes out.

    def _item(self, place: int, writer: TypedWriter) -> Value:
        """Return the value of an output attribute, whose statements go to `writer`."""
        if not self.select.items:
            return self._attribute(place)
        if place not in self._items:
            value = writer.write(self.select.items[place].expression)
            # Of an aggregator it is the source of a division, say, which is for one place only.
            self._items[place] = writer.kept(value)
        return self._items[place]

    def _having(self, writer: TypedWriter) -> list[str]:
        condition = self.select.having
        if condition is None:
            return []
        if aggregates_in(condition):
            raise NotTyped("an aggregator in having", condition.span)
        checked = self.read.checked
        scope = checked.scope.results(checked.target, checked.output)

        def read(variable: ast.Variable) -> Value:
            return self._item(scope.resolve(variable).attribute, writer)

        stamp = f"{self.block.timestamp}[{self.event}]"
        own = TypedWriter(read, stamp, self.whole.name, self.whole.text_number)
        test = own.condition(condition)
        computed, writer.lines = writer.lines, []
        return [*computed, *own.lines, f"if not ({test}):", "    continue"]

    def _stored(self, writer: TypedWriter, count: str) -> list[str]:
        """Return what puts the result into the buffers."""
        owner, block = f"{self.prefix}_o", self.block
        stores = [
            f"{owner}ts[s] = {block.timestamp}[{self.event}]",
            f"{owner}source[s] = {f'{block.source}[{self.event}]' if block.source else self.event}",
        ]
        for place, type in enumerate(self.read.checked.output.types):
            if (owner, place) in self.whole.needed:
                value = self._item(place, writer)
                if dtype_of(value.type) != dtype_of(type):
                    raise NotTyped(f"a value of {value.type} for an attribute of {type}", self.read.checked.query.span)
                stores += [f"{owner}_{place}[s] = {value.text}", f"{owner}_{place}_n[s] = {value.null or 'False'}"]
        return [*writer.lines, *self._slot(count), *stores]

    def _slot(self, count: str) -> list[str]:
        """Return what sets ``s`` to the place of the result: a chunk gives one, or one for each group."""
        following = [f"s = {count}", f"{count} += 1"]
        if not self.collapses:
            return following
        if not self.grouped:
            return ["s = 0", f"{count} = 1"]
        seen = self.arrays.declare(f"{self.prefix}_seen", NUMBER, self.groups)
        where = self.arrays.declare(f"{self.prefix}_where", NUMBER, self.groups)
        return [
            f"if {seen}[{self.group}] == mark{count}:",
            f"    s = {where}[{self.group}]",
            "else:",
            *_indent(following),
            f"    {seen}[{self.group}] = mark{count}",
            f"    {where}[{self.group}] = s",
        ]


def _eager(expression: ast.Expression) -> bool:
    """Tell whether every aggregator in an expression is asked for each event."""
    match expression:
        case ast.Binary(op="and" | "or"):
            return _eager(expression.left) and not aggregates_in(expression.right)
        case ast.FunctionCall() if expression.args and expression.id in _CHOOSING:
            return _eager(expression.args[0]) and not any(aggregates_in(one) for one in expression.args[1:])
        case ast.FunctionCall():
            return all(_eager(one) for one in expression.args)
        case ast.Binary():
            return _eager(expression.left) and _eager(expression.right)
        case ast.Not() | ast.IsNull():
            return _eager(expression.operand)
    return True


def _updated(
    writer: TypedWriter,
    call: ast.FunctionCall,
    aggregate: Aggregate,
    statements: tuple[str, ...],
    slots: list[str],
    group: str,
) -> list[str]:
    """Return what lets the value of an event enter an aggregator, or leave it."""
    form = aggregate.form
    value = writer.write(call.args[0]) if call.args and form.skips_null else None
    text = "0" if value is None else value.text
    lines = [_filled(line, slots, aggregate, group, text) for line in statements]
    if value is None or not value.null:
        return [*writer.lines, *lines]
    lines = [f"if not ({value.null}):", *_indent(lines)]
    if form.on_null and statements is form.add:
        lines += ["else:", *_indent([_filled(line, slots, aggregate, group) for line in form.on_null])]
    return [*writer.lines, *lines]


def _filled(text: str, slots: list[str], aggregate: Aggregate, group: str, value: str = "") -> str:
    return text.format(*slots, v=value, g=group, a=aggregate.candidates)


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
