"""What a program hands out: the events of a stream stand in buffers of their own until the loop has ended."""

from __future__ import annotations

from spdist.program.expressions import FLAG, NUMBER, NotTyped, dtype_of
from spdist.program.parts import Block, Origin, Whole
from spdist.program.shape import Shape

__all__ = ["OutputWriter"]


class OutputWriter:
    """Writes what hands the events of chunks out.

    Parameters
    ----------
    shape : Shape
        The app's queries.
    put_out : tuple of str
        The streams that are handed out.
    known : frozenset of (str, int)
        Their attributes that are not, on every way, the same attribute of a source.
    timed : bool
        Whether the program has timers.

    State
    -----
    `computed`: what it has found to be such attributes; and which attributes of sources the others are.
    """

    def __init__(self, shape: Shape, put_out: tuple[str, ...], known: frozenset[tuple[str, int]], timed: bool) -> None:
        self.computed: set[tuple[str, int]] = set()
        self._shape = shape
        self._put_out = put_out
        self._known = known
        self._timed = timed
        self._origins: dict[tuple[str, int], Origin | None] = {}

    def origins(self) -> dict[str, tuple[Origin | None, ...]]:
        """Return of the attributes that are put out which attribute of a source each is."""
        found = {}
        for stream in self._put_out:
            places = range(len(self._shape.schemas[stream]))
            origins = (self._origins.get((stream, place)) for place in places)
            found[stream] = tuple(
                None if (stream, place) in self._known else origin
                for place, origin in zip(places, origins, strict=True)
            )
        return found

    def lines(self, whole: Whole, block: Block) -> list[str]:
        """Return what hands the events of a block out."""
        if not block.source:
            raise NotTyped(f"the stream {block.stream}, which is read and handed out")
        number, event = self._put_out.index(block.stream), whole.name()
        owner, room = f"h{number}", f"output {number}"
        whole.count(room, block.most)
        count, mixed = whole.arrays.declare(f"{owner}_count", NUMBER, "1"), self._shape.is_mixed
        number_now = "shared[NUMBER]" if mixed else "number"
        stores = {
            "cause": (NUMBER, whole.cause),
            "number": (NUMBER, number_now),
            "first": (FLAG, f"{event} == {block.begin}"),
            "ts": (NUMBER, f"{block.timestamp}[{event}]"),
            "source": (NUMBER, f"{block.source}[{event}]"),
        }
        if self._timed or mixed:
            stores["at"] = NUMBER, "shared[RUNG]" if mixed else "rung"
        for attribute, type in enumerate(block.types):
            origin, shown = block.origins[attribute], (block.stream, attribute)
            if origin is None or self._origins.setdefault(shown, origin) != origin:
                self.computed.add(shown)
            if shown in self._known:
                values, nulls = whole.attribute(block.owner, attribute, type, block.room)
                stores[str(attribute)] = dtype_of(type), f"{values}[{event}]"
                stores[f"{attribute}_n"] = FLAG, f"{nulls}[{event}]"
        for name, (dtype, _) in stores.items():
            whole.arrays.declare(f"{owner}_{name}", dtype, room)
        return [
            f"for {event} in range({block.begin}, {block.end}):",
            f"    k = {count}[0]",
            *(f"    {owner}_{name}[k] = {text}" for name, (_, text) in stores.items()),
            f"    {count}[0] = k + 1",
            f"    {number_now} += 1",
        ]
