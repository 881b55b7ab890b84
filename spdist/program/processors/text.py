"""Stream processors in a program: a block that takes a chunk and gives a chunk, which the query behind it reads.

What it lets go stands in ``q_went``, as what a source brings; what it keeps of that is called ``q_pre``. A timer
stands in the text in front of those of the query's window, with the query once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spdist.language import ast
from spdist.operators.windows.reorder_akslack import WEIGHTS
from spdist.operators.windows.reorder_kslack import TICK_MS
from spdist.program.expressions import FLAG, NUMBER, REAL, Value
from spdist.program.parts import EACH, Aggregate, Block, Most, QueryText, Whole, indent
from spdist.program.processors.shape import Adaption, Deduplicated, Processor, Reordered
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.queries.query_text import QueryWriter
from spdist.program.read_shape import Read
from spdist.program.timer_text import NEVER, PROCESSOR, TimerWriter
from spdist.program.windows.kinds import Unique
from spdist.program.windows.unique_keys import UniqueKeys

__all__ = ["ProcessorText", "ProcessorWriter", "begins_reordering", "front_of", "processor_of_text", "processor_writer"]


@dataclass(slots=True)
class ProcessorText(QueryText):
    """What is known of the stream processor in front of a query."""

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return f"q{self.read.number}_pre"

    @property
    def operator(self) -> int:
        """The place of its timer among those of the query."""
        return PROCESSOR

    @property
    def timer(self) -> int:
        """The query's place among all queries; what window that has does not matter here."""
        return self.read.number

    @property
    def grouped(self) -> tuple[int, ...]:
        """No attributes: it has no totals."""
        return ()

    @property
    def unique(self) -> Unique | None:
        """What makes an event the only one of its interval."""
        processor = processor_of_text(self)
        return processor.unique if isinstance(processor, Deduplicated) else None


def processor_of_text(text: QueryText) -> Processor:
    """Return the stream processor of a query, or of what is known of it."""
    assert isinstance(text.read, Read)
    assert text.read.processor is not None
    return text.read.processor


def front_of(query: QueryText) -> ProcessorText:
    """Return what is known of the stream processor in front of a query; the query knows it then."""
    read = query.read
    assert isinstance(read, Read)
    filters = processor_of_text(query).filters
    front = ProcessorText(replace(read, filters=filters, window=None), query.keyed, computed=query.computed)
    query.fronts = [front]
    return front


class _NoTotals(BatchGroups):
    """Stands for the totals: a stream processor has none."""

    def _aggregators(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        return []

    def _conditions(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        return []


class ProcessorWriter(QueryWriter):
    """Writes the block of a stream processor.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`; `query` is the one behind it.
    """

    groups_of = _NoTotals

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, front_of(query), block, key)
        self._prefix = self._query.name
        self._at = key or "0"
        self._owner, self._passed = f"{query.name}_went", f"passed {self._prefix}"
        self._nodes = f"nodes {self._prefix}"
        #: Source of how many events it has let go.
        self._going = whole.name()
        types, source = tuple(query.read.types), f"{self._owner}_source"
        origins, most = self._origins(len(types)), self._most()
        #: What the query reads.
        self.behind = Block(
            query.read.streams[0], self._owner, types, "0", self._going, source, origins, self._passed, most
        )
        for name in ("ts", "source"):
            whole.arrays.declare(f"{self._owner}_{name}", NUMBER, self._passed)
        self._wanted = [place for place in range(len(types)) if (self._owner, place) in whole.needed]
        self._timer = TimerWriter(whole.arrays, self._query, self._at, PROCESSOR) if self._given.timed else None

    @property
    def _given(self) -> Processor:
        return processor_of_text(self._query)

    @property
    def _can_lose(self) -> bool:
        return False

    def _origins(self, count: int) -> tuple[tuple[str, int] | None, ...]:
        """Return which attribute of a source each attribute is that is let go."""
        return (None,) * count

    def _most(self) -> Most:
        """Return how many events it may let go."""
        return self._block.most + Most({self._prefix: 1})

    def block_of(self, query: list[str]) -> list[str]:
        """Return the block, given that of the query behind it."""
        self._whole.count(self._passed, self.behind.most)
        self._counts()
        return [f"{self._going} = 0", *self._loop(self._takes()), *self._goes_on(query)]

    def _counts(self) -> None:
        """Take note of how much room the events can use."""
        if self._timer is not None:
            for room in (f"dues {self._prefix}", "timers"):
                self._whole.count(room, self._block.most + self._block.most)

    def _goes_on(self, query: list[str]) -> list[str]:
        return [f"if {self._going} > 0:", *indent(query or ["pass"])]

    def _takes(self) -> list[str]:
        """Return what is done with an event."""
        raise NotImplementedError

    def wakes_with(self, query: Callable[[], list[str]]) -> list[str]:
        """Return what is done when the timer of a key is due, given what writes the block of the query behind it."""
        raise NotImplementedError

    def _lets_pass(self, read: Callable[[int], Value], timestamp: str, source: str) -> list[str]:
        """Return what lets an event go; `source` is of the place of that of a source which it comes from."""
        lines = [f"{self._owner}_ts[{self._going}] = {timestamp}", f"{self._owner}_source[{self._going}] = {source}"]
        for place in self._wanted:
            value = read(place)
            values, nulls = self._whole.attribute(self._owner, place, value.type, self._passed)
            lines += [f"{values}[{self._going}] = {value.text}", f"{nulls}[{self._going}] = {value.null or 'False'}"]
        return [*lines, f"{self._going} += 1"]

    def _own(self, name: str, room: str = "", fill: str = "0", dtype: str = NUMBER) -> str:
        """Return source of a value of the key."""
        array = self._whole.arrays.declare(f"{self._prefix}_{name}", dtype, room or self._query.instances, fill)
        return f"{array}[{self._at}]"


class ReorderWriter(ProcessorWriter):
    """Writes what ``reorder:kslack`` and ``reorder:akslack`` do; the event's node is ``d``.

    Notes
    -----
    ``q_pre_fresh`` and ``q_pre_held`` are the first nodes of two heaps (`machine.reorder_kernels.melded`): of the
    events since the greatest time rose, and of those before; ``q_pre_at`` is the time of a node's event, and
    ``q_pre_came`` which one of all it was. With an adaption there is a list of all events that came, as nodes of
    another pool, ``q_pre_s``.
    """

    @property
    def _reordered(self) -> Reordered:
        assert isinstance(self._given, Reordered)
        return self._given

    def _counts(self) -> None:
        super()._counts()
        rooms = [self._nodes, *([f"nodes {self._prefix}_s"] if self._reordered.adaption is not None else [])]
        for room in rooms:
            self._whole.count(room, self._block.most)

    def _declare(self) -> None:
        arrays, prefix = self._whole.arrays, self._prefix
        for name in ("ts", "at", "came", "next", "other"):
            arrays.declare(f"{prefix}_{name}", NUMBER, self._nodes, "-1" if name in ("next", "other") else "0")
        arrays.free_list(f"{prefix}_free")
        self._query.kept = self._wanted
        self._fresh, self._held = self._own("fresh", fill="-1"), self._own("held", fill="-1")
        self._greatest, self._sent, self._k = self._own("greatest"), self._own("sent", fill="-1"), self._own("k")
        self._tick, self._waits = self._own("tick", fill="-1"), self._own("waits", dtype=FLAG)
        self._size, self._number = self._own("size"), self._own("number")

    def _melded(self, first: str, second: str) -> str:
        prefix = self._prefix
        heap = ", ".join(f"{prefix}_{name}" for name in ("at", "came", "next", "other"))
        return f"melded({first}, {second}, {heap})"

    def _takes(self) -> list[str]:
        """Return what is done with an event."""
        self._declare()
        given, prefix = self._reordered, self._prefix
        time = self._attribute(given.time).text
        lines = [] if given.adaption is None else self._notes(time, given.adaption)
        if given.discards:
            lines += [f"if {time} < {self._sent}:", "    continue"]
        if self._timer is not None:
            again = [f"{self._tick} += (now - {self._tick} + {TICK_MS - 1}) // {TICK_MS} * {TICK_MS}"]
            again += [self._timer.asks(self._tick), f"{self._waits} = 0"]
            lines += [f"if {self._waits} != 0:", *indent(again)]
        lines += [
            f"d = allot({prefix}_free, {prefix}_next)",
            f"{prefix}_next[d] = {prefix}_other[d] = -1",
            f"{prefix}_ts[d], {prefix}_at[d], {prefix}_came[d] = {self._timestamp}, {time}, {self._number}",
            f"{self._number} += 1",
            f"{self._size} += 1",
        ]
        for place in self._wanted:
            value = self._attribute(place)
            values, nulls = self._whole.attribute(f"{prefix}_w", place, value.type, self._nodes)
            lines += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null or 'False'}"]
        lines.append(f"{self._fresh} = {self._melded(self._fresh, 'd')}")
        if given.adaption is not None:
            lines += self._adapts(time, given.adaption)
        rises = [
            f"{self._greatest} = {time}",
            *self._widens(f"{time} - {prefix}_at[{self._fresh}]"),
            f"{self._held} = {self._melded(self._held, self._fresh)}",
            f"{self._fresh} = -1",
            *self._releases(self._held, f"{self._greatest} - {prefix}_at[{self._held}] >= {self._k}", sends=True),
        ]
        return [*lines, f"if {time} > {self._greatest}:", *indent(rises)]

    def _widens(self, span: str) -> list[str]:
        """Return what lets the slack be as long as the disorder, given source of that."""
        limit = self._reordered.limit
        if self._reordered.adaption is None:
            return [f"{self._k} = max({self._k}, min({span}, {limit}))"]
        alpha = f"{self._prefix}_adapting[3 * {self._at}]"
        return [
            f"span = {span}",
            f"if span > {self._k}:",
            f"    {self._k} = round_long(span * {alpha}) if span < {limit} else {limit}",
        ]

    def _releases(self, heap: str, test: str, sends: bool = False) -> list[str]:
        """Return what lets the first events of a heap go, as long as a condition holds."""
        prefix = self._prefix
        return [
            f"while {heap} >= 0 and {test}:",
            f"    d = {heap}",
            *([f"    {self._sent} = {prefix}_at[d]"] if sends else []),
            f"    {heap} = {self._melded(f'{prefix}_next[d]', f'{prefix}_other[d]')}",
            *indent(self._lets_pass(self._kept, f"{prefix}_ts[d]", "0")),
            f"    give_back({prefix}_free, {prefix}_next, d)",
            f"    {self._size} -= 1",
        ]

    def _kept(self, place: int) -> Value:
        """Return the value of an attribute of the event of node ``d``."""
        type = self._query.read.types[place]
        values, nulls = self._whole.attribute(f"{self._prefix}_w", place, type, self._nodes)
        return Value(f"{values}[d]", f"{nulls}[d] != 0", type)

    # The slack that is adapted.

    def _notes(self, time: str, adaption: Adaption) -> list[str]:
        """Return what notes the time and the value of an event."""
        arrays, prefix = self._whole.arrays, f"{self._prefix}_s"
        for name, dtype in (("at", NUMBER), ("value", REAL), ("after", NUMBER)):
            arrays.declare(f"{prefix}_{name}", dtype, f"nodes {prefix}", "-1" if name == "after" else "0")
        arrays.free_list(f"{prefix}_free")
        first, last, batch = (self._own(f"s_{name}", fill="-1") for name in ("first", "last", "batch"))
        self._own("counted")
        self._own("slack")
        arrays.declare(f"{self._prefix}_adapting", REAL, self._query.instances, "0", width=3)
        return [
            f"low = allot({prefix}_free, {prefix}_after)",
            f"{prefix}_at[low], {prefix}_value[low] = {time}, {self._attribute(adaption.value).text}",
            f"{prefix}_after[low] = -1",
            f"if {first} < 0:",
            f"    {first} = low",
            f"    if {self._number} == 0:",
            f"        {self._prefix}_adapting[3 * {self._at}] = 1.0",
            "else:",
            f"    {prefix}_after[{last}] = low",
            f"{last} = low",
            f"if {batch} < 0:",
            f"    {batch} = low",
        ]

    def _adapts(self, time: str, adaption: Adaption) -> list[str]:
        """Return what adapts the slack at the end of a batch."""
        counted, slack = self._own("counted"), self._own("slack")
        first, error, before = (f"{self._prefix}_adapting[3 * {self._at}{place}]" for place in ("", " + 1", " + 2"))
        batch, pool = self._own("s_batch", fill="-1"), f"{self._prefix}_s"
        needed = f"{batch}, {pool}_value, {pool}_after, {adaption.threshold!r}, {adaption.critical_squared!r}"
        covered = f"{time} - {slack}, {pool}_first, {pool}_last, {self._at}, {pool}_at, {pool}_after, {pool}_free"
        change = f"{WEIGHTS[0]} * error + {WEIGHTS[1]} * (error - {error})"
        return [
            f"{counted} += 1",
            f"if {counted} > {adaption.batch_size}:",
            f"    error = share_needed({needed})",
            f"    error -= share_covered({covered}) if {slack} != 0 else 1.0",
            f"    alpha = abs({before} + {change})",
            f"    {first}, {error}, {before} = alpha, error, alpha",
            f"    {slack} = min(round_long(alpha * {self._k}), {self._k})",
            f"    {batch}, {counted} = -1, 0",
        ]

    # Timers.

    def wakes_with(self, query: Callable[[], list[str]]) -> list[str]:
        """Return what is done when the timer of a key is due; see `ProcessorWriter.wakes_with`."""
        assert self._timer is not None
        self._declare()
        given, prefix = self._reordered, self._prefix
        heaps = [self._held] if given.adaption is None else [self._held, self._fresh]
        old = f"due + {given.timeout}"
        released = [line for heap in heaps for line in self._releases(heap, f"{prefix}_at[{heap}] < {old}")]
        return self._timer.wakes(
            [
                f"{self._going} = 0",
                *released,
                f"{self._waits} = {' and '.join(f'{heap} < 0' for heap in heaps)}",
                f"if {self._waits} == 0:",
                f"    {self._tick} += {TICK_MS}",
                f"    {self._timer.asks(self._tick)}",
                *self._goes_on(query()),
            ]
        )

    def begins(self) -> list[str]:
        """Return what begins with the first event of a key."""
        if self._timer is None:
            return []
        self._declare()
        for room in (f"dues {self._prefix}", "timers"):
            self._whole.count(room, Most({EACH: 1}))
        asks = [f"{self._tick} = now + {self._reordered.timeout}", self._timer.asks(self._tick)]
        return [f"if {self._tick} < 0:", *indent(asks)]


class DeduplicateWriter(ProcessorWriter):
    """Writes what ``unique:deduplicate`` does.

    Notes
    -----
    Keys that passed have numbers; they stand in a list, ``q_pre_head``, in the order in which they passed.
    """

    @property
    def _deduplicated(self) -> Deduplicated:
        assert isinstance(self._given, Deduplicated)
        return self._given

    @property
    def _keys(self) -> UniqueKeys:
        return UniqueKeys(self._whole, self._query, self._deduplicated.unique, self._at)

    def _origins(self, count: int) -> tuple[tuple[str, int] | None, ...]:
        return self._block.origins[:count]

    def _most(self) -> Most:
        return self._block.most

    def _counts(self) -> None:
        super()._counts()
        self._whole.count(self._keys.room, self._block.most)

    def _takes(self) -> list[str]:
        """Return what is done with an event."""
        assert self._timer is not None
        keys, timestamp = self._keys, self._timestamp
        head, last, passed, following = self._lists()
        block, number = self._block, keys.number
        source = f"{block.source}[{self._event}]" if block.source else self._event
        return [
            *self._forgets(timestamp),
            *keys.finds(self._key_writer(self._read.checked.scope))[0],
            f"if {passed}[{number}] != {NEVER}:",
            "    continue",
            f"{passed}[{number}], {following}[{number}] = {timestamp}, -1",
            f"if {head} < 0:",
            f"    {head} = {number}",
            "else:",
            f"    {following}[{last}] = {number}",
            f"{last} = {number}",
            self._timer.asks(f"{timestamp} + {self._deduplicated.interval}"),
            *self._lets_pass(self._attribute, timestamp, source),
        ]

    def _lists(self) -> tuple[str, str, str, str]:
        """Return source of the first and the last key that passed; the arrays of when each did, and of the next one."""
        arrays, prefix, room = self._whole.arrays, self._prefix, self._keys.room
        passed = arrays.declare(f"{prefix}_passed", NUMBER, room, NEVER)
        following = arrays.declare(f"{prefix}_following", NUMBER, room, "-1")
        return self._own("head", fill="-1"), self._own("head_end", fill="-1"), passed, following

    def _forgets(self, now: str) -> list[str]:
        """Return what forgets the keys that passed longest ago, up to the first that is still in its interval."""
        head, _, passed, following = self._lists()
        return [
            f"while {head} >= 0 and {now} - {passed}[{head}] > {self._deduplicated.interval}:",
            f"    low = {head}",
            f"    {head}, {passed}[low] = {following}[low], {NEVER}",
            f"    {self._keys.forgets('low')}",
        ]

    def wakes_with(self, query: Callable[[], list[str]]) -> list[str]:
        """Return what is done when the timer of a key is due; see `ProcessorWriter.wakes_with`."""
        assert self._timer is not None
        return self._timer.wakes(self._forgets("due"))


def processor_writer(whole: Whole, query: QueryText, block: Block, key: str) -> ProcessorWriter:
    """Return what writes the stream processor in front of a query; for the parameters see `QueryWriter`."""
    make = ReorderWriter if isinstance(processor_of_text(query), Reordered) else DeduplicateWriter
    return make(whole, query, block, key)


def begins_reordering(whole: Whole, query: QueryText, key: str) -> list[str]:
    """Return what lets the time of a stream processor begin with the key of a partition that is new."""
    if not isinstance(query.read, Read) or not isinstance(query.read.processor, Reordered):
        return []
    types = query.read.types
    return ReorderWriter(whole, query, Block("", "", types, "", "", "", (None,) * len(types), ""), key).begins()
