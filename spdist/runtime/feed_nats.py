"""``@source(type='nats')``: messages of a subject; with ``jetstream='true'`` none is lost while the app is down."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from spdist.runtime.feeders import Door, Looping, now_ms
from spdist.transports.inlet import NUMBERS_EACH, Chunk
from spdist.transports.nats_link import NatsLink, NatsMessage, NatsSettings

__all__ = ["NatsFeeder"]

_MOST = 500
_WAIT_S = 0.5


class NatsFeeder(Looping):
    """Receives from a NATS server.

    Without JetStream a message that nobody listens to is lost, as NATS means it. With it the server is told only after
    the append, and what it sends again is known by its place in the stream.

    Parameters
    ----------
    door : Door
        Where events go. Options: ``destination``, ``queue.group.name``; ``jetstream``, ``durable.name``; and those of
        `NatsSettings`.
    """

    def __init__(self, door: Door) -> None:
        super().__init__(f"the @source of stream '{door.stream}'")
        self._door = door
        self._subject = door.options.needed("destination", "orders")
        self._stream = door.options.flag("jetstream", False)
        self._durable = door.options.text("durable.name") or door.inlet.topic.replace(".", "-").replace(" ", "-")
        self._queue = door.options.text("queue.group.name")
        self._settings = NatsSettings.of(door.options)
        self._link: NatsLink | None = None
        self._pulled: Any = None
        self._got: queue.Queue[NatsMessage] = queue.Queue()

    def _turn(self) -> float:
        if self._link is None or not self._link.connected:
            self._connect()
        assert self._link is not None
        messages = self._link.fetch(self._pulled, _MOST, _WAIT_S) if self._stream else self._taken()
        now = now_ms()
        if not self._stream:
            self._append(messages, now)
            return 0.0
        if messages:
            numbers = (one.sequence * NUMBERS_EACH for one in messages)
            parts = list(zip(self._read(messages, now), numbers, strict=True))
            self._door.inlet.append_numbered(parts, now, f"nats-{self._durable}")
            self._link.acknowledge(messages)
        return 0.0

    def _append(self, messages: Sequence[NatsMessage], now: int) -> None:
        self._door.append(list(chain.from_iterable(self._read(messages, now))), now)

    def _read(self, messages: Sequence[NatsMessage], now: int) -> list[list[Chunk]]:
        def properties(number: int) -> dict[str, str]:
            return {**messages[number].headers, "sequenceNumber": str(messages[number].sequence)}

        return self._door.read_each([one.data for one in messages], properties, now)

    def _connect(self) -> None:
        if self._link is None:
            self._link = NatsLink(self._settings)
        if self._stream:
            self._pulled = self._link.pull(self._subject, self._durable)
        else:
            self._link.subscribe(self._subject, self._queue, self._got.put)

    def _taken(self) -> list[NatsMessage]:
        """Return what has come: the first within a while, and what is there with it."""
        messages: list[NatsMessage] = []
        with contextlib.suppress(queue.Empty):
            messages.append(self._got.get(timeout=_WAIT_S))
            while len(messages) < _MOST:
                messages.append(self._got.get_nowait())
        return messages

    def _end(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._append(list(self._left()), now_ms())

    def _left(self) -> Iterator[NatsMessage]:
        """Yield what had come before the connection was closed."""
        while not self._got.empty():
            yield self._got.get_nowait()
