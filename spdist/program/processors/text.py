"""Stream processors in a program: a block that takes a chunk and gives a chunk, which the query behind it reads.

What it lets go stands in ``q_went``, as what a source brings; what it keeps of that is called ``q_pre``. A timer
stands in the text in front of those of the query's window, with the query once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spdist.language import ast
from spdist.program.expressions import NUMBER, Value
from spdist.program.parts import Aggregate, Block, Most, QueryText, Whole, indent
from spdist.program.processors.kinds import Processor
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.queries.query_text import QueryWriter
from spdist.program.read_shape import Read
from spdist.program.timer_text import PROCESSOR, TimerWriter
from spdist.program.windows.kinds import Unique

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
        return processor_of_text(self).keyed_by


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
    # The filters of the query stand behind the stream processor, which has those in front of it
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
    """Writes the block of a stream processor: one of its own has at least `takes`.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`; `query` is the one behind it.
    """

    groups_of = _NoTotals

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, front_of(query), block, key)
        #: What the names of its arrays begin with.
        self.prefix = self.query.name
        self._at = key or "0"
        self._owner, self._passed = f"{query.name}_went", f"passed {self.prefix}"
        self._nodes = f"nodes {self.prefix}"
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
        self._timer = TimerWriter(whole.arrays, self.query, self._at, PROCESSOR) if self.processor.timed else None

    @property
    def processor(self) -> Processor:
        """What the app says of it."""
        return processor_of_text(self.query)

    @property
    def _can_lose(self) -> bool:
        return False

    def _origins(self, count: int) -> tuple[tuple[str, int] | None, ...]:
        """Return which attribute of a source each attribute is that is let go."""
        return (None,) * count

    def _most(self) -> Most:
        """Return how many events it may let go."""
        # What is held goes on once, whichever call that is
        return self.block.most + Most({self.prefix: 1})

    def block_of(self, query: list[str]) -> list[str]:
        """Return the block, given that of the query behind it."""
        self.whole.count(self._passed, self.behind.most)
        self._counts()
        return [f"{self._going} = 0", *self._loop(self.takes()), *self._goes_on(query)]

    def _counts(self) -> None:
        """Take note of how much room the events can use."""
        if self._timer is not None:
            for room in (f"dues {self.prefix}", "timers"):
                self.whole.count(room, self.block.most + self.block.most)

    def _goes_on(self, query: list[str]) -> list[str]:
        # A chunk of which all is held back is none for the query, whose window may take each chunk for a batch
        return [f"if {self._going} > 0:", *indent(query or ["pass"])]

    def takes(self) -> list[str]:
        """Return what is done with an event of a chunk: ``continue`` lets it go no further."""
        raise NotImplementedError

    def wakes_with(self, query: Callable[[], list[str]]) -> list[str]:
        """Return what is done when the timer of a key is due, given what writes the block of the query behind it."""
        raise NotImplementedError

    def lets_pass(self, read: Callable[[int], Value], timestamp: str, source: str) -> list[str]:
        """Return what lets an event go to the query behind.

        Parameters
        ----------
        read : callable
            From an attribute's place to its value in the event.
        timestamp, source : str
            Source of its timestamp, and of the place of the source's event that it comes from.
        """
        lines = [f"{self._owner}_ts[{self._going}] = {timestamp}", f"{self._owner}_source[{self._going}] = {source}"]
        for place in self._wanted:
            value = read(place)
            values, nulls = self.whole.attribute(self._owner, place, value.type, self._passed)
            lines += [f"{values}[{self._going}] = {value.text}", f"{nulls}[{self._going}] = {value.null or 'False'}"]
        return [*lines, f"{self._going} += 1"]

    def own(self, name: str, room: str = "", fill: str = "0", dtype: str = NUMBER) -> str:
        """Return source of a value that is kept for each key of the partition.

        Parameters
        ----------
        name : str
            Its name behind `prefix`.
        room : str, optional
            The room of its array; that of keys, where nothing is said.
        fill, dtype : str, optional
            Source of the value that it has at first, and its type.
        """
        array = self.whole.arrays.declare(f"{self.prefix}_{name}", dtype, room or self.query.instances, fill)
        return f"{array}[{self._at}]"

    def begins(self) -> list[str]:
        """Return what begins with the first event of a key."""
        return []


def processor_writer(whole: Whole, query: QueryText, block: Block, key: str) -> ProcessorWriter:
    """Return what writes the stream processor in front of a query; for the parameters see `QueryWriter`."""
    made: ProcessorWriter = processor_of_text(query).writer(whole, query, block, key)
    return made


def begins_reordering(whole: Whole, query: QueryText, key: str) -> list[str]:
    """Return what lets the time of a stream processor begin with the key of a partition that is new."""
    processor = query.read.processor if isinstance(query.read, Read) else None
    if processor is None or not processor.begins:
        return []
    types = query.read.types
    return processor_writer(whole, query, Block("", "", types, "", "", "", (None,) * len(types), ""), key).begins()
