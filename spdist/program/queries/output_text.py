"""What a program hands out: the events of a stream stand in buffers of their own until the loop has ended."""

from __future__ import annotations

from spdist.program.expressions import FLAG, NUMBER, NotTyped, dtype_of
from spdist.program.parts import Block, Origin, Whole, indent
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
    several : frozenset of str
        The streams of which one event of a source may put out several.

    State
    -----
    `computed`, `several`: what it has found to be such attributes, and such streams; and which attributes of sources
    the others are.
    """

    def __init__(
        self,
        shape: Shape,
        put_out: tuple[str, ...],
        known: frozenset[tuple[str, int]],
        timed: bool,
        several: frozenset[str],
    ) -> None:
        self.computed: set[tuple[str, int]] = set()
        self.several: set[str] = set()
        # Of several sources, the place of an event among those of its own does not say which of all it is.
        # What timers and called elements put out has no event as its cause.
        told = timed or shape.is_mixed or len(shape.sources) != 1
        #: The streams whose chunks are noted only where one has several events; see `Program.single`.
        self.single = frozenset() if told else frozenset(put_out) - several
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

    def is_single(self, block: Block) -> bool:
        """Tell whether a block puts out to such a stream: then it is handed out whether it has an event or not."""
        if not block.single:
            self.several.add(block.stream)
        return block.stream in self.single

    def buffers(self, stream: str) -> tuple[str, str]:
        """Return the prefix of the arrays in which a stream is handed out, and their room."""
        number = self._put_out.index(stream)
        return f"h{number}", f"output {number}"

    def lines(self, whole: Whole, block: Block) -> list[str]:
        """Return what hands the events of a block out: they are copied, where they do not stand there already."""
        if not block.source:
            raise NotTyped(f"the stream {block.stream}, which is read and handed out")
        (owner, room), event, mixed = self.buffers(block.stream), whole.name(), self._shape.is_mixed
        whole.count(room, block.most)
        count, chunks = (whole.arrays.declare(f"{owner}_{name}", NUMBER, "1") for name in ("count", "chunks"))
        number = "shared[NUMBER]" if mixed else "number"
        events = {
            "ts": (NUMBER, f"{block.timestamp}[{event}]"),
            "source": (NUMBER, f"{block.source}[{event}]"),
        }
        for attribute, type in enumerate(block.types):
            origin, shown = block.origins[attribute], (block.stream, attribute)
            if origin is None or self._origins.setdefault(shown, origin) != origin:
                self.computed.add(shown)
            if shown in self._known:
                values, nulls = whole.attribute(block.owner, attribute, type, block.room)
                events[str(attribute)] = dtype_of(type), f"{values}[{event}]"
                events[f"{attribute}_n"] = FLAG, f"{nulls}[{event}]"
        chunk = {"cause": (NUMBER, whole.cause), "number": (NUMBER, number), "begin": (NUMBER, f"{count}[0]")}
        if self._timed or mixed:
            chunk["at"] = NUMBER, "shared[RUNG]" if mixed else "rung"
        for name, (dtype, _) in (*events.items(), *chunk.items()):
            whole.arrays.declare(f"{owner}_{name}", dtype, room)
        lines = [
            f"k = {chunks}[0]",
            *(f"{owner}_{name}[k] = {text}" for name, (_, text) in chunk.items()),
            f"{chunks}[0] = k + 1",
        ]
        if self.is_single(block):
            # Behind the last one there is room for an event that does not come: to write there costs less than to ask.
            alone = f"{owner}_number[{count}[0]] = {number}"
            lines = ["if alone != 0:", f"    {alone}", f"elif {block.end} > {block.begin}:", *indent(lines)]
        lines.append(f"{number} += {block.end} - {block.begin}")
        if block.owner == owner:
            return [*lines, f"{count}[0] = {block.end}"]
        return [
            *lines,
            f"for {event} in range({block.begin}, {block.end}):",
            f"    k = {count}[0]",
            *(f"    {owner}_{name}[k] = {text}" for name, (_, text) in events.items()),
            f"    {count}[0] = k + 1",
        ]
