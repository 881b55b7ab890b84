"""To which of its destinations a sink sends an event: ``@distribution``.

Source: io.siddhi.core.stream.output.sink.distributed (RoundRobinDistributionStrategy, PartitionedDistributionStrategy,
BroadcastDistributionStrategy), described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from spdist.java.numbers import text_of, text_of_float32, wrap32
from spdist.language.types import Schema, Type
from spdist.operators.base import Arrival

__all__ = ["Distribution", "distribution", "java_hash"]


class Distribution(Protocol):
    """A strategy."""

    def share_out(self, arrivals: Sequence[Arrival]) -> list[tuple[int, Sequence[Arrival]]]:
        """Return which destination, by its place in the text, gets which events of a chunk, as one chunk."""
        ...

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        ...


class _Stateless:
    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass


class RoundRobin:
    """Each chunk goes to the next destination.

    State
    -----
    The number of the destination that is next.
    """

    def __init__(self, destinations: int) -> None:
        self._destinations = destinations
        self._next = 0

    def share_out(self, arrivals: Sequence[Arrival]) -> list[tuple[int, Sequence[Arrival]]]:
        """Return the next destination, with all events."""
        chosen = self._next
        self._next = (chosen + 1) % self._destinations
        return [(chosen, arrivals)]

    def snapshot(self) -> Any:
        """Return which destination is next."""
        return self._next

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self._next = state


class Broadcast(_Stateless):
    """Each destination gets everything."""

    def __init__(self, destinations: int) -> None:
        self._destinations = destinations

    def share_out(self, arrivals: Sequence[Arrival]) -> list[tuple[int, Sequence[Arrival]]]:
        """Return every destination, with all events."""
        return [(destination, arrivals) for destination in range(self._destinations)]


class Partitioned(_Stateless):
    """All events with one value of the key go to one destination."""

    def __init__(self, destinations: int, key: int, text: Callable[[Any], str]) -> None:
        self._destinations = destinations
        self._key = key
        self._text = text

    def share_out(self, arrivals: Sequence[Arrival]) -> list[tuple[int, Sequence[Arrival]]]:
        """Return the destinations in the order in which the chunk names them first, each with its events."""
        shares: dict[int, list[Arrival]] = {}
        for timestamp, row in arrivals:
            # Java's remainder has the sign of the hash; its size is that of the remainder of the size.
            chosen = abs(java_hash(self._text(row[self._key]))) % self._destinations
            shares.setdefault(chosen, []).append((timestamp, row))
        return list(shares.items())


def distribution(strategy: str, destinations: int, key: str | None, schema: Schema) -> Distribution:
    """Return the strategy of that name; `key` is the attribute that ``partitioned`` goes by."""
    if strategy == "roundRobin":
        return RoundRobin(destinations)
    if strategy == "broadcast":
        return Broadcast(destinations)
    position = schema.names.index(key or "")
    # Java writes a float with the digits of 32 bits, and it is the text that is hashed.
    text = text_of_float32 if schema.types[position] is Type.FLOAT else text_of
    return Partitioned(destinations, position, text)


def java_hash(text: str) -> int:
    """Return what ``String.hashCode`` gives: a 32-bit number that does not differ between processes."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return wrap32(value)
