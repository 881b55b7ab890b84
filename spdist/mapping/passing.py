"""``passThrough``: events are handed on as they are, with their timestamps.

Source: io.siddhi.core.stream.input.source.PassThroughSourceMapper, io.siddhi.core.stream.output.sink
.PassThroughSinkMapper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, Stateless, mapped_attributes

__all__ = ["ChunkPayload", "PassSink", "PassSource"]


class ChunkPayload(tuple[Event, ...]):
    """The payload: the events of one chunk."""

    __slots__ = ()


class PassSink(Stateless):
    """Hands a chunk on as one payload."""

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return the chunk."""
        return [ChunkPayload(events)]


class PassSource(Stateless):
    """Takes a chunk as it is; ``@attributes`` can only add what came with the payload (``trp:``)."""

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._taken = [
            (position, path.removeprefix(TRANSPORT_PREFIX))
            for position, path in enumerate(mapped_attributes(setting) or ())
            if path.startswith(TRANSPORT_PREFIX)
        ]

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the chunk; raises MappingError for what is no chunk of events."""
        if not isinstance(payload, ChunkPayload):
            raise self._setting.bad(f"passThrough takes events, not {type(payload).__name__}")
        if not self._taken:
            return [list(payload)]
        return [[(timestamp, self._with_properties(row, properties)) for timestamp, row in payload]]

    def _with_properties(self, row: tuple[Any, ...], properties: Mapping[str, Any]) -> tuple[Any, ...]:
        values = list(row)
        for position, name in self._taken:
            if name not in properties:
                raise self._setting.bad(f"nothing came with it as '{TRANSPORT_PREFIX}{name}'")
            values[position] = properties[name]
        return tuple(values)
