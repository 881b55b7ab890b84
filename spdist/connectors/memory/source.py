"""``@source(type='inMemory')`` on Spark: what other apps of this machine publish on the topic."""

from __future__ import annotations

import uuid
from pathlib import Path

from spdist.connectors.memory.sink import in_memory_topic, read_in_memory
from spdist.connectors.positions import Position
from spdist.connectors.receiving import Looping, SourceContext, now_ms
from spdist.transports.source_writer import NUMBERS_EACH

__all__ = ["InMemorySource", "open_source"]

_MOST = 500


class InMemorySource(Looping):
    """Follows the embedded topic that carries an in-memory topic, from the moment when somebody first listened.

    What the app itself publishes on the topic it has heard immediately, so that is passed over here.

    Parameters
    ----------
    context : SourceContext
        Where events go.
    position : Path
        Where it remembers how far it has read.
    """

    def __init__(self, context: SourceContext, position: Path) -> None:
        super().__init__(f"the @source of stream '{context.stream}'")
        self._context = context
        self._transport = context.writer.transport
        self._topic = in_memory_topic(context.options.needed("topic", "prices"))
        self._position = Position(position)
        self._offset = 0
        self._producer = ""

    def _begin(self) -> None:
        self._transport.ensure(self._topic, 1)
        known = self._position.load()
        if known is None:
            # From the end: what was published before anybody listened is lost, as in one process.
            known = {"offset": self._transport.end_offsets(self._topic)[0], "producer": f"inMemory-{uuid.uuid4().hex}"}
            self._position.save(known)
        self._offset, self._producer = known["offset"], known["producer"]

    def _turn(self) -> float:
        records = self._transport.read(self._topic, 0, self._offset, _MOST)
        if records:
            now = now_ms()
            # Numbered by its place in the topic: what is read again after a failure is known to have been read.
            parts = [
                (self._context.read(read_in_memory(one.value), {}, now).chunks, one.offset * NUMBERS_EACH)
                for one in records
                if one.producer != self._context.instance
            ]
            self._context.writer.append_numbered(parts, now, self._producer)
            # After the append: a crash between the two reads the records again, under the numbers of their offsets.
            self._offset = records[-1].offset + 1
            self._position.save({"offset": self._offset, "producer": self._producer})
        return 0.0 if len(records) == _MOST else self._PAUSE_S


def open_source(context: SourceContext) -> InMemorySource:
    """Return the source of an annotation, not yet started."""
    return InMemorySource(context, context.kept("position.json"))
