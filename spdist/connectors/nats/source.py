"""``@source(type='nats')``: messages of a subject; with ``jetstream='true'`` none is lost while the app is down."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from spdist.connectors.nats.link import NatsLink, NatsMessage, NatsSourceSettings
from spdist.connectors.receiving import Looping, SourceContext, now_ms
from spdist.transports.source_writer import NUMBERS_EACH, Chunk

__all__ = ["NatsSource", "in_line", "open_source"]

_MOST = 500
_WAIT_S = 0.5
#: So long others may be given messages before that is told: who stood still ends sooner.
_OTHERS_S = 10.0


class NatsSource(Looping):
    """Receives from a NATS server.

    Without JetStream a message that nobody listens to is lost, as NATS means it. With it the server is told only after
    the append, and what it sends again is known by its place in the stream.

    Messages of a JetStream are appended in the order of the stream, and none is left out: what was given to a reader
    that was killed or stands still the server would send again only later, behind others, and then readers of the topic
    would drop it as known. So that is looked up in the stream. It does not matter who appends, or how often. With
    ``queue.group.name`` several readers share the messages: each comes to one of them, in no order, and a second time
    where a reader fails before the server knows that it has it.

    Parameters
    ----------
    context : SourceContext
        Where events go. Options: ``destination``, ``queue.group.name``; ``jetstream``, ``durable.name``; and those of
        `NatsSourceSettings`.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(f"the @source of stream '{context.stream}'")
        self._context = context
        self._subject = context.options.needed("destination", "orders")
        self._stream = context.options.flag("jetstream", False)
        self._durable = context.options.text("durable.name") or context.writer.topic.replace(".", "-").replace(" ", "-")
        self._queue = context.options.text("queue.group.name")
        self._settings = NatsSourceSettings.of(context.options)
        self._link: NatsLink | None = None
        self._pulled: Any = None
        self._got: queue.Queue[NatsMessage] = queue.Queue()
        #: Up to which place in the stream all is appended, the last delivery, and whether all before the next is.
        self._appended, self._delivery, self._in_line = 0, 0, False
        self._gaps_since_s: float | None = None

    @property
    def problem(self) -> str | None:
        """Why nothing comes in at the moment, or that others get a part of it."""
        since_s = self._gaps_since_s
        if self._problem or since_s is None or time.monotonic() - since_s < _OTHERS_S:
            return self._problem
        told = f"others read the durable subscription '{self._durable}' of '{self._subject}', too"
        return f"{self._name}: {told}; give each a durable.name of its own, or all one queue.group.name to share it"

    def _turn(self) -> float:
        if self._link is None or not self._link.connected:
            # What was given and not acknowledged before the connection was lost is looked up in the stream first.
            self._in_line = False
            self._connect()
        assert self._link is not None
        if not self._stream:
            self._append(self._taken(), now_ms())
        elif self._queue:
            messages = self._link.fetch(self._pulled, _MOST, _WAIT_S)
            self._append(messages, now_ms())
            # After the append: a message that is acknowledged and not appended would be lost.
            self._link.acknowledge(messages)
        else:
            if not self._in_line:
                self._catch_up(self._link)
            self._follow(self._link.fetch(self._pulled, _MOST, _WAIT_S), self._link)
        return 0.0

    def _follow(self, messages: Sequence[NatsMessage], link: NatsLink) -> None:
        """Append messages, but nothing behind a gap before what is missing: that was given to another reader."""
        if not messages:
            return
        self._in_line = False  # until all of this is done
        here, self._delivery, whole = in_line(messages, self._delivery, self._appended)
        self._append_new(here)
        if whole:
            self._gaps_since_s, self._in_line = None, True
        else:
            self._gaps_since_s = self._gaps_since_s or time.monotonic()
            self._catch_up(link)
        # Also those that another reader has appended: they need not come again to anybody.
        link.acknowledge([one for one in messages if one.sequence <= self._appended])

    def _catch_up(self, link: NatsLink) -> None:
        """Append what readers were given and have not acknowledged, as the stream has it."""
        given = link.given(self._pulled)
        # What is acknowledged was appended before that, by whichever reader.
        self._appended = max(self._appended, given.floor)
        while messages := link.stored(self._pulled, self._appended, given.sequence, _MOST):
            self._append_new(messages)
        # Also where the last places are of messages that were deleted.
        self._appended = max(self._appended, given.sequence)
        self._delivery, self._in_line = given.delivery, True

    def _append_new(self, messages: Sequence[NatsMessage]) -> None:
        """Append messages in the order of the stream, each under the number of its place."""
        if messages:
            now, numbers = now_ms(), (one.sequence * NUMBERS_EACH for one in messages)
            parts = list(zip(self._read(messages, now), numbers, strict=True))
            self._context.writer.append_numbered(parts, now, f"nats-{self._durable}")
            self._appended = messages[-1].sequence

    def _append(self, messages: Sequence[NatsMessage], now: int) -> None:
        self._context.append(list(chain.from_iterable(self._read(messages, now))), now)

    def _read(self, messages: Sequence[NatsMessage], now: int) -> list[list[Chunk]]:
        def properties(number: int) -> dict[str, str]:
            return {**messages[number].headers, "sequenceNumber": str(messages[number].sequence)}

        return self._context.read_each([one.data for one in messages], properties, now)

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
            # First the connection: what comes afterwards nobody would take, and what has come is appended below.
            self._link.close()
            self._link = None
        self._append(list(self._left()), now_ms())

    def _left(self) -> Iterator[NatsMessage]:
        """Yield what had come before the connection was closed."""
        while not self._got.empty():
            yield self._got.get_nowait()


def in_line(messages: Sequence[NatsMessage], delivery: int, appended: int) -> tuple[list[NatsMessage], int, bool]:
    """Return which messages are to be appended, up to the first gap between deliveries.

    Parameters
    ----------
    messages : sequence of NatsMessage
        As they came.
    delivery : int
        The last delivery before them.
    appended : int
        The place in the stream up to which all is appended.

    Returns
    -------
    list of NatsMessage
        In the order of the stream.
    int
        The last delivery of those that are in line.
    bool
        Whether all are.
    """
    new: list[NatsMessage] = []
    for one in messages:
        known = one.sequence <= appended
        # Deliveries are counted for all readers together: a number that is missing was given to another one.
        if one.delivery == delivery + 1:
            delivery += 1
            if not known:
                new.append(one)
                appended = one.sequence
        # An older delivery of what is appended is a repeat and no gap.
        elif not known or one.delivery > delivery:
            return new, delivery, False
    return new, delivery, True


def open_source(context: SourceContext) -> NatsSource:
    """Return the source of an annotation, not yet started."""
    return NatsSource(context)
