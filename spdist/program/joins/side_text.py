"""What one side of a join holds: the other side looks into it, by key where the condition has equalities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spdist.language import ast
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.types import Type
from spdist.program.expressions import NUMBER, Value, either
from spdist.program.joins.shape import Joined, Side
from spdist.program.key_text import finds, seeks
from spdist.program.parts import QueryText, Whole, indent, prefix_of
from spdist.program.read_shape import LoopWindow
from spdist.program.search import Search
from spdist.program.shape import Batched, Read, Sliding
from spdist.program.windows.shape import events_of

__all__ = ["NamedText", "SideRows", "SideText", "named_text", "sides_of"]


@dataclass(slots=True)
class SideText(QueryText):
    """What is known of one side of a join: as of a query that puts out what leaves its window.

    Parameters
    ----------
    side : Side
        The side.
    """

    side: Side | None = None

    @property
    def own(self) -> Side:
        """The side."""
        assert self.side is not None
        return self.side

    def resolved(self, variable: ast.Variable) -> int:
        """Return the place of the attribute that a variable names in front of the window."""
        own = AttributeSource(self.own.stream, self.own.stream, self.own.schema)
        return Scope((own,)).resolve(variable).attribute

    @property
    def grouped(self) -> tuple[int, ...]:
        """No attributes: a side has no totals."""
        return ()

    @property
    def batches(self) -> bool:
        """Whether its window releases batches."""
        return isinstance(self.own.window, Batched)

    @property
    def shows_expired(self) -> bool:
        """Whether something is done with pairs of events that leave: they are put out, or taken off the totals."""
        window = self.own.window
        return events_of(self.read.checked) != "current" or (isinstance(window, Batched) and window.takes_off)

    @property
    def is_found(self) -> bool:
        """Whether joins look into what its window holds: the other side may."""
        return True

    @property
    def notes_looks(self) -> bool:
        """Whether it shows which events of a batch somebody has looked at."""
        window = self.own.window
        if isinstance(window, Sliding):
            return window.opens
        return window is not None and self.shows_expired and not window.replaces_released

    @property
    def operator(self) -> int:
        """The place of its window's timer among those of the query."""
        return self.own.position

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return f"q{self.read.number}_{self.own.position}"


@dataclass(slots=True)
class NamedText(SideText):
    """What is known of a named window that joins look into by a key."""

    @property
    def operator(self) -> int:
        """The place of its timer: it has one only."""
        return 0

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return prefix_of(self.read)


def named_text(window: LoopWindow) -> NamedText:
    """Return a named window as what joins look into."""
    side = Side(0, window.stream, window.schema, (), window.window, False, False, Search(window.index))
    return NamedText(window, None, side=side)


def sides_of(query: QueryText) -> list[QueryText]:
    """Return the sides of a join."""
    join = query.read
    assert isinstance(join, Joined)
    return [
        SideText(
            Read(join.number, join.checked, side.stream, side.schema, side.filters, side.window, "all"),
            query.keyed,
            side=side,
        )
        for side in join.sides
    ]


class SideRows:
    """Writes what lets the events of a side be found, by key where the condition has equalities, and what finds them.

    Parameters
    ----------
    whole, text
        The text, and the side.
    key : str
        Source of the number of the partition's key.

    Notes
    -----
    Of a window that releases batches it is what was released that is found.
    """

    def __init__(self, whole: Whole, text: SideText, key: str) -> None:
        self._whole = whole
        self._text = text
        self._key = key
        window = text.own.window
        #: Which list of the window is looked into.
        self.list = "head" if window is None else window.found_in
        self._index = f"groups {text.name}"
        self._nodes = f"nodes {text.name}"
        text.kept = sorted({*text.kept, *self.wanted})

    @property
    def wanted(self) -> list[int]:
        """The attributes that somebody reads: of a named window all, as questions may ask for them."""
        places = range(len(self._text.own.schema))
        if isinstance(self._text, NamedText):
            return list(places)
        read = {place for place in places if (f"{self._text.name}_w", place) in self._whole.needed}
        window = self._text.own.window
        return sorted({*read, *self._keys, *(() if window is None else window.compared)})

    def looks(self) -> list[str]:
        """Return what notes that all of a batch was looked at, where something shows that."""
        if not self._text.notes_looks:
            return []
        looked = self._whole.arrays.declare(f"{self._text.name}_looked", NUMBER, self._text.instances)
        return [f"{looked}[{self._key}] = {self._text.name}_{self.list}_size[{self._key}]"]

    @property
    def _keys(self) -> tuple[int, ...]:
        return self._text.own.search.index

    @property
    def _width(self) -> int:
        return len(self._keys) + (self._text.keyed is not None)

    def _words(self, values: Sequence[Value]) -> list[str]:
        """Return source of the words of a key."""
        texts = [f"(1 if {value.text} else 0)" if value.type is Type.BOOL else value.text for value in values]
        return [*([self._key] if self._text.keyed is not None else []), *texts]

    def enters(self, read: Callable[[int], Value]) -> list[str]:
        """Return what puts the event of node ``d`` behind those of its key."""
        if not self._keys:
            return []
        arrays, name = self._whole.arrays, self._declared()
        number, values = self._whole.name(), [read(place) for place in self._keys]
        enters = [
            *finds(arrays, f"{name}_k", self._index, self._words(values), number),
            f"{name}_link[d] = -1",
            f"if {name}_size[{number}] == 0:",
            f"    {name}_first[{number}] = d",
            "else:",
            f"    {name}_link[{name}_last[{number}]] = d",
            f"{name}_last[{number}] = d",
            f"{name}_size[{number}] += 1",
        ]
        # An equality with null holds for nobody: such an event is in no list of a key.
        null = either(*(value.null for value in values))
        if null:
            enters = [f"{number} = -1", f"if not ({null}):", *indent(enters)]
        return [*enters, f"{name}_of[d] = {number}"]

    def _declared(self) -> str:
        """Declare the chains of keys, and return with what their names begin: what no event enters has them, too."""
        arrays, name = self._whole.arrays, self._text.name
        for part, room in (("first", self._index), ("last", self._index), ("link", self._nodes), ("of", self._nodes)):
            arrays.declare(f"{name}_{part}", NUMBER, room, "-1")
        arrays.declare(f"{name}_size", NUMBER, self._index)
        return name

    def leaves(self) -> list[str]:
        """Return what takes the event of node ``d`` out of those of its key, of which it is the oldest one."""
        if not self._keys:
            return []
        name, number = self._declared(), self._whole.name()
        table = self._whole.arrays.table(f"{name}_k", self._width, self._index)
        return [
            f"{number} = {name}_of[d]",
            f"if {number} >= 0:",
            f"    {name}_first[{number}] = {name}_link[d]",
            f"    {name}_size[{number}] -= 1",
            f"    if {name}_size[{number}] == 0:",
            # Keys come and go with their events, so the table has no more than the window holds.
            f"        release({table}, {number}, {self._width})",
        ]

    # Looking into it.

    def value(self, place: int, row: str) -> Value:
        """Return the value of an attribute of an event, given source of its node."""
        type = self._text.read.types[place]
        values, nulls = self._whole.attribute(f"{self._text.name}_w", place, type, self._nodes)
        return Value(f"{values}[{row}]", f"{nulls}[{row}] != 0", type)

    def found(
        self,
        keys: Sequence[Value],
        row: str,
        asks: Callable[[str, list[str]], list[str]],
        test: Callable[[list[str]], list[str]],
        body: list[str],
    ) -> list[str]:
        """Return what is done with each event that has a key, in the order of the operators: mostly oldest first.

        Parameters
        ----------
        keys : sequence of Value
            The values that its attributes must be equal to; all events are looked at where there are none.
        row : str
            The name of its node.
        asks : callable
            From source of how many there may be, and from what is done where there is no room for so many results, to
            what asks for it.
        test : callable
            From what is done with an event to that done where it meets what is left of the condition.
        body : list of str
            What is done.
        """
        name, all = self._text.name, f"{self._text.name}_{self.list}"
        first, chain, size = f"{all}[{self._key}]", f"{name}_next", f"{all}_size[{self._key}]"
        seek: list[str] = []
        if keys:
            self._declared()
            number = self._whole.name()
            seek = seeks(self._whole.arrays, f"{name}_k", self._index, self._words(keys), number)
            null = either(*(value.null for value in keys))
            if null:
                seek = [f"{number} = -1", f"if not ({null}):", *indent(seek)]
            seek = [*seek, f"{row} = {name}_first[{number}] if {number} >= 0 else -1"]
            chain, size = f"{name}_link", f"{name}_size[{number}]"
        else:
            seek = [f"{row} = {first}"]
        asking = asks(size, [f"{row} = -1"])
        return [
            *seek,
            *([f"if {row} >= 0:", *indent(asking)] if asking else []),
            f"while {row} >= 0:",
            *indent([*test(body), f"{row} = {chain}[{row}]"]),
        ]
