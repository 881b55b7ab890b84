"""The text of a program: one loop over chunks, and in it the queries, depth first in the order of the app.

What a query puts out for a chunk stands in its buffers; whoever reads that follows in the text as a block of its own,
so that an event has been through all of them before the next one is looked at, as in Siddhi. A query that can be
reached on two ways stands in the text twice, over the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from spdist.language import ast
from spdist.language.types import Type
from spdist.program.aggregations.bucket_text import AddWriter
from spdist.program.arrays import Arrays
from spdist.program.begun import counted
from spdist.program.call_text import CallWriter, counts_lost, declares_shared, failing_site, fired_in_turn
from spdist.program.called import Called, CallSite
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value, dtype_of
from spdist.program.functions.arrays import FunctionArrays
from spdist.program.functions.computed import Computed
from spdist.program.functions.expansion import Expansion
from spdist.program.joins.shape import Joined
from spdist.program.joins.side_text import named_text
from spdist.program.joins.text import JoinWriter
from spdist.program.key_text import finds
from spdist.program.loop_text import Blocks, module
from spdist.program.partition_key import partition_word
from spdist.program.partition_text import ComputedKeys, EveryKey, Purging, new_key
from spdist.program.parts import NULL_TEXT, Block, Most, Origin, Program, QueryText, Whole, indent, ticks
from spdist.program.patterns.sequence_text import SequenceWriter
from spdist.program.patterns.shape import Matched
from spdist.program.patterns.state_text import StateWriter
from spdist.program.patterns.text import PatternWriter
from spdist.program.processors.text import processor_writer
from spdist.program.queries.limit_text import ticking
from spdist.program.queries.output_text import OutputWriter
from spdist.program.queries.places import count_places
from spdist.program.queries.query_text import QueryWriter
from spdist.program.read_shape import LoopWindow
from spdist.program.shape import Keyed, Query, Read, Shape, streams_of
from spdist.program.tables.change_text import ChangeText
from spdist.program.tables.shape import LoopTable
from spdist.program.timer_text import PROCESSOR, RATE_LIMIT, fired, latest, rank

__all__ = ["written"]

#: How many blocks a text may have: streams that meet again and again multiply them.
_MOST_BLOCKS = 200
#: Attributes, by the prefix of the arrays that have them, or by stream.
_Attributes = set[tuple[str, int]]
#: Functions that are computed before the loop, by the number of the query and as `QueryText.computed` has them.
_Functions = dict[int, dict[tuple[ast.FunctionCall, tuple[int, ...]], Computed]]


def written(shape: Shape, put_out: tuple[str, ...]) -> Program:
    """Return the program of an app.

    The text is written again until it is known which attributes are read further down: only those are computed.

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
    needed: _Attributes = set()
    computed: _Attributes = set()
    several: set[str] = set()
    functions: _Functions = {}
    while True:
        found = OutputWriter(shape, put_out, frozenset(computed), _is_timed(shape), frozenset(several))
        writer = Writer(shape, put_out, frozenset(needed), found, functions)
        blocks = writer.blocks()
        # What is read is found by writing, and only added to: so the rounds end
        if writer.needs <= needed and found.computed <= computed and found.several <= several:
            return writer.program(blocks)
        needed |= writer.needs
        computed |= found.computed
        several |= found.several


class Writer:
    """Writes the text once.

    Parameters
    ----------
    shape, put_out
        As for `written`.
    needed : frozenset
        The attributes that are read.
    outputs : OutputWriter
        What writes what is handed out.
    functions : dict
        The functions that queries have computed before the loop, as far as they are known; others are added.

    State
    -----
    `needs`, as they were found this time; `arrays`, and the names and texts given out.
    """

    def __init__(
        self,
        shape: Shape,
        put_out: tuple[str, ...],
        needed: frozenset[tuple[str, int]],
        outputs: OutputWriter,
        functions: _Functions,
    ) -> None:
        self.needed = needed
        self.sorts_texts = False
        self.needs: _Attributes = set()
        self.arrays = Arrays()
        self._shape = shape
        self._inputs = (*shape.sources, *shape.returned)
        self._put_out = put_out
        self._texts: dict[str, int] = {NULL_TEXT: 0}
        self._names = 0
        self._blocks = 0
        #: Whether the part of the text is for timers that is being written.
        self._firing = False
        #: Whether the part of the text is for events that operators bring.
        self._returned = False
        self._sites: list[CallSite] = []
        self._timed = _is_timed(shape)
        self._outputs = outputs
        self._most: dict[str, Most] = {}
        self._queries: dict[int, QueryText] = {}
        self.functions = FunctionArrays(shape, self.arrays, self.reads_source)
        self._known_functions = functions
        self._known = {stream: set(places) for stream, places in shape.known.items()}
        self._times = {stream: set(places) for stream, places in shape.times.items()}

    def blocks(self) -> Blocks:
        """Write the text, and return it without what stands around it."""
        self.arrays.declare("marks", NUMBER, "1")
        if self._shape.is_mixed:
            declares_shared(self.arrays, self._timed)
        body: list[str] = []
        tells_sources = self._timed or self._shape.is_mixed or len(self._shape.sources) != 1
        for number, stream in enumerate(self._inputs):
            types = tuple(self._shape.schemas[stream].types)
            owner, room = f"i{number}", f"input {number}"
            self.arrays.declare(f"{owner}_ts", NUMBER, room)
            self._returned = number >= len(self._shape.sources)
            origins = tuple(None if self._returned else (stream, place) for place in range(len(types)))
            block = Block(stream, owner, types, "begin", "end", "", origins, room, single=not self._returned)
            lines = self.readers(block, None, "")
            body += [f"if which[c] == {number}:", *indent(lines)] if tells_sources else lines
        self._returned = False
        timers = self._timers()
        if self._blocks > _MOST_BLOCKS:
            raise NotTyped("streams that meet again too often")
        if self.sorts_texts and _are_texts_brought(self._shape):
            raise NotTyped("an order by texts, in an app with elements that are called")
        queries = _in_order(self._queries)
        expires = [line for query in queries for line in _expires(self, query)]
        return Blocks(tells_sources, timers, body, expires, [line for query in queries for line in query.forgets])

    def program(self, blocks: Blocks) -> Program:
        """Return the program with these blocks."""
        owners = {stream: f"i{number}" for number, stream in enumerate(self._inputs)}
        read = {stream: sorted(place for owner, place in self.needs if owner == own) for stream, own in owners.items()}
        return Program(
            module(self.arrays, self._shape, blocks),
            self.arrays,
            self._shape,
            _in_order(self._queries),
            read,
            self._outputs.origins(),
            counted(self._most),
            tuple(self._texts),
            tuple(self._sites),
            self.functions.of_texts,
            self.functions.of_events,
            self._known,
            self._times,
            self._outputs.single,
        )

    def _timers(self) -> list[str]:
        """Return what wakes queries that are due; what comes to them, also by other timers, is known before."""
        blocks: dict[int, list[str]] = {}
        self._firing = True
        for number in self._shape.downwards:
            query = self._queries.get(number)
            if query is None:
                continue
            key = "key" if query.keyed is not None else ""
            own: dict[int, list[str]] = {}
            if query.read.timed:
                most, types = self._most[f"nodes {query.name}"], query.read.types
                block = Block("", "", types, "", "", "", (None,) * len(types), "", most)
                wakes = _query_writer(self, query, block, key).timers()
                own = {rank(query.timer, operator): lines for operator, lines in enumerate(wakes) if lines}
            own |= _woken_processor(self, query, key, self._most)
            if query.ticks:
                own[rank(number, RATE_LIMIT)] = ticking(self, query, key, self._most[f"nodes {query.name}_l"])
            if query.keyed is not None and query.keyed.purge is not None:
                gone = Purging(self, query.keyed).gone
                own = {one: [f"if {gone}[key] == 0:", *indent(lines)] for one, lines in own.items()}
            blocks |= own
        for purging in (Purging(self, keyed) for keyed in self._shape.purging):
            blocks[purging.rank] = purging.wakes()
        self._firing = False
        if self._shape.is_mixed:
            return fired_in_turn(blocks)
        return fired(blocks) if blocks else []

    def until(self, read: Query, operator: int = 0) -> str:
        """Return source of until when the timers of an operator of a query have fired."""
        if not (self._firing or self._returned):
            return "until"
        due, block = latest(self.arrays)
        return f"(max(until, {due}) if {rank(read.number, operator)} < {block} else until)"

    # What the parts of the text ask for.

    def name(self) -> str:
        """Return a name of the text's own."""
        self._names += 1
        return f"t{self._names}"

    @property
    def cause(self) -> str:
        """Source of the rank of the event that is processed."""
        return "shared[CAUSE]" if self._shape.is_mixed else "c"

    def can_lose(self, stream: str) -> bool:
        """Tell whether a query may fail on events of a stream: they are counted, or its operators say what it is."""
        return stream in self._shape.sources and (self._shape.is_mixed or stream not in self._shape.watched)

    def loses(self, query: QueryText, block: Block) -> list[str]:
        """Return what is done with the events of a source that a query has failed on."""
        if block.stream not in self._shape.watched:
            return counts_lost(self, query.read.number, block)
        self._sites.append(failing_site(query, block))
        called = f"called(callback, {len(self._sites) - 1}, {block.begin}, {block.end})"
        return [*(["timers_until[0] = until"] if self._timed else []), called]

    def text_number(self, text: str) -> int:
        """Return the number of a text of the app."""
        return self._texts.setdefault(text, len(self._texts))

    def attribute(self, owner: str, place: int, type: Type, room: str) -> tuple[str, str]:
        """Return the arrays of the values of an attribute, and of whether each is null; it is read from now on."""
        self.needs.add((owner, place))
        name = self.arrays.declare(f"{owner}_{place}", dtype_of(type), room)
        return name, self.arrays.declare(f"{name}_n", FLAG, room)

    def reads_source(self, stream: str, place: int) -> None:
        """Take note that an attribute of a source is read."""
        number = self._shape.sources.index(stream)
        self.attribute(f"i{number}", place, self._shape.schemas[stream].types[place], f"input {number}")

    def must_be_known(self, origin: Origin, is_time: bool = False) -> None:
        """Take note that an attribute of a source must not be null, and whether it says what time it is."""
        for places in (self._known, self._times) if is_time else (self._known,):
            places.setdefault(origin[0], set()).add(origin[1])

    def table(self, id: str) -> LoopTable | None:
        """Return a table of the program; None where it has none of that name."""
        return self._shape.tables.get(id)

    def is_single(self, block: Block) -> bool:
        """Tell whether the stream of a block is put out in chunks of one event each where each event is a chunk."""
        return self._outputs.is_single(block)

    def outside(self, stream: str) -> tuple[str, str] | None:
        """Return the prefix and the room of the arrays in which a stream goes out, where nobody else gets it."""
        read = any(stream in streams_of(element) for element in self._shape.elements)
        return None if read or stream not in self._put_out else self._outputs.buffers(stream)

    def follows(self, query: QueryText, block: Block, key: str) -> list[str]:
        """Return what is done with the results of a query, for the parameters see `readers`."""
        table = self.table(block.stream)
        if table is None:
            return self.readers(block, query.keyed, key)
        return ChangeText(self, query, table, block).lines()

    def readers(self, block: Block, keyed: Keyed | None, key: str) -> list[str]:
        """Return the blocks of all who read a stream, in the order of the app; then of who gets it outside.

        Parameters
        ----------
        block : Block
            The events.
        keyed, key : Keyed, str
            The partition that they come from, and source of the number of their key in it.
        """
        self._blocks += 1
        if self._blocks > _MOST_BLOCKS:
            return []
        lines: list[str] = []
        if keyed is not None and block.stream.startswith("#"):
            return self._within(keyed, block, key)
        #: What stands in front of an element that can fail, with it, and what writes what stands behind it.
        apart: list[tuple[list[str], Callable[[list[str]], list[str]]]] = []
        for element in self._shape.elements:
            if isinstance(element, Keyed):
                if any(block.stream in read.streams for read in element.queries):
                    lines += self._partition(element, block)
            elif block.stream not in element.streams:
                continue
            elif isinstance(element, Called):
                apart.append((lines, self._call(element, block).lines))
                lines = []
            else:
                lines += self._query(element, None, block, "")
                failed = self._queries[element.number].failed
                if failed:
                    apart.append((lines, partial(_unless, failed)))
                    lines = []
        if block.stream in self._put_out and not (self._returned and not block.source):
            lines += self._outputs.lines(self, block)
        # Who stands behind an element that fails does not get the events.
        for before, around in reversed(apart):
            lines = [*before, *around(lines)]
        return lines

    # Blocks.

    def _call(self, element: Called, block: Block) -> CallWriter | AddWriter:
        nested, schema = self._returned and not block.source, self._shape.schemas[block.stream]
        make = CallWriter if element.adds is None else AddWriter
        made = make(self, element, block, len(self._sites), schema, nested, self._timed)
        self._sites.append(made.site)
        return made

    def _query(self, read: Query, keyed: Keyed | None, block: Block, key: str) -> list[str]:
        made = QueryText(read, keyed, computed=self._known_functions.setdefault(read.number, {}))
        if isinstance(read, LoopWindow) and read.index:
            made = named_text(read)
        query = self._queries.setdefault(read.number, made)
        if isinstance(read, Read) and read.expansion is not None:
            return _expanded(self, query, read.expansion, block)
        if isinstance(read, Joined):
            return _query_writer(self, query, block, key).lines()
        return _processed(self, query, block, key)

    def count(self, room: str, most: Most) -> None:
        """Take note that so many places of a room can be used."""
        self._most[room] = self._most.get(room, Most()) + most

    def _partition(self, keyed: Keyed, block: Block) -> list[str]:
        """Return the blocks of a partition's queries: of runs of one key, one after the other."""
        place = keyed.keys.get(block.stream)
        if block.stream in keyed.computed:
            runs = ComputedKeys(self, keyed, block)
            begins = new_key(self, keyed, runs.run.most, runs.key)
            return runs.lines(begins, self._within(keyed, runs.run, runs.key))
        if place is None:
            every = EveryKey(self, keyed, block, self._shape)
            return every.lines(self._within(keyed, every.run, every.key))
        values, nulls = self.attribute(block.owner, place, block.types[place], block.room)
        self.count(f"keys {keyed.number}", block.most)
        first, end, key = self.name(), self.name(), self.name()

        def word(event: str) -> str:
            return partition_word(Value(f"{values}[{event}]", "", block.types[place]))

        run = replace(block, begin=first, end=end, guard=f"{nulls}[{{}}] == 0", single=False)
        return [
            f"{first} = {block.begin}",
            f"while {first} < {block.end}:",
            f"    if {nulls}[{first}] != 0:",
            f"        {first} += 1",
            "        continue",
            *indent(finds(self.arrays, f"p{keyed.number}", f"keys {keyed.number}", [word(first)], key)),
            *indent(new_key(self, keyed, block.most, key)),
            f"    {end} = {first} + 1",
            f"    while {end} < {block.end} and ({nulls}[{end}] != 0 or {word(end)} == {word(first)}):",
            f"        {end} += 1",
            *indent(self._within(keyed, run, key)),
            f"    {first} = {end}",
        ]

    def _within(self, keyed: Keyed, block: Block, key: str) -> list[str]:
        """Return the blocks of a partition's queries over events that a key gets."""
        reading = (query for query in keyed.queries if block.stream in query.streams)
        return [line for query in reading for line in self._query(query, keyed, block, key)]


def _is_timed(shape: Shape) -> bool:
    """Tell whether a program has timers."""
    waits = any(read.timed or ticks(read) or _is_processed(read, timed=True) for read in shape.queries)
    return waits or bool(shape.purging)


def _expanded(whole: Writer, query: QueryText, expansion: Expansion, block: Block) -> list[str]:
    """Return the block of a query over what stream functions make of the events of a source."""
    read = query.read
    assert isinstance(read, Read)
    if None in block.origins or block.source:
        raise NotTyped("a stream function of what is not a source's", expansion.handlers[-1].span)
    owner, begin, end = read.expanded, whole.name(), whole.name()
    room = f"expanded {owner}"
    for name, one in (("begin", block.room), ("end", block.room), ("source", room), ("ts", room)):
        whole.arrays.declare(f"{owner}_{name}", NUMBER, one)
    origins = (*block.origins, *[None] * (len(read.types) - expansion.width))
    made = Block(block.stream, owner, read.types, begin, end, f"{owner}_source", origins, room, block.most)
    lines = _processed(whole, query, made, "")
    copied = {place for prefix, place in whole.needs if prefix == owner and place < expansion.width}
    for place in copied.union(expansion.arguments):
        whole.reads_source(block.stream, place)
    # What the events of a chunk have become stands in one piece, in their order
    return [f"{begin} = {owner}_begin[{block.begin}]", f"{end} = {owner}_end[{block.end} - 1]", *lines]


def _processed(whole: Writer, query: QueryText, block: Block, key: str) -> list[str]:
    """Return the block of a query, with that of the stream processor in front of it."""
    front = None
    if _is_processed(query.read):
        front = processor_writer(whole, query, block, key)
        block = front.behind
    count_places(whole, query, block)
    lines = _query_writer(whole, query, block, key).lines()
    return lines if front is None else front.block_of(lines)


def _woken_processor(whole: Writer, query: QueryText, key: str, rooms: Mapping[str, Most]) -> dict[int, list[str]]:
    """Return by rank what is done when the timer of the stream processor in front of a query is due, if there is one.

    `rooms`: how many places of each room can be used.
    """
    if not _is_processed(query.read, timed=True):
        return {}
    types, (front,) = query.read.types, query.fronts
    most = rooms.get(f"nodes {front.name}", Most())
    writer = processor_writer(whole, query, Block("", "", types, "", "", "", (None,) * len(types), "", most), key)
    lines = writer.wakes_with(_query_writer(whole, query, writer.behind, key).lines)
    return {rank(query.read.number, PROCESSOR): lines}


def _is_processed(read: Query, timed: bool = False) -> bool:
    """Tell whether there is a stream processor in front of a query, and one with a timer, if that is asked."""
    processor = read.processor if isinstance(read, Read) else None
    return processor is not None and (processor.timed or not timed)


def _query_writer(whole: Whole, query: QueryText, block: Block, key: str) -> QueryWriter:
    if isinstance(query.read, Joined):
        return JoinWriter(whole, query, block, key)
    if not isinstance(query.read, Matched):
        return QueryWriter(whole, query, block, key)
    if query.read.states is not None:
        return StateWriter(whole, query, block, key)
    return (SequenceWriter if query.read.strict else PatternWriter)(whole, query, block, key)


def _in_order(queries: dict[int, QueryText]) -> tuple[QueryText, ...]:
    """Return the queries that stand in the text, in the order of the app."""
    return tuple(queries[number] for number in sorted(queries))


def _are_texts_brought(shape: Shape) -> bool:
    """Tell whether operators may bring texts while the loop runs, which has those of its beginning."""
    types = (type for stream in shape.returned for type in shape.schemas[stream].types)
    return shape.is_mixed and Type.STRING in types


def _expires(whole: Whole, query: QueryText) -> list[str]:
    """Return what lets events leave the windows of a query."""
    block = Block("", "", query.read.types, "", "", "", (), "")
    return _query_writer(whole, query, block, "key" if query.keyed is not None else "").expires()


def _unless(failed: str, lines: list[str]) -> list[str]:
    """Return what is only done with events that a query has not failed on."""
    return [f"if not {failed}:", *indent(lines)] if lines else []
