"""Puts what a user's source brings into one partition of an embedded topic, in chunks, as one producer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from spdist.errors import MappingError
from spdist.language.types import Schema
from spdist.mapping.columns import EventList, Events
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.payloads.payload import Payload

__all__ = ["NUMBERS_EACH", "Chunk", "SourceWriter", "Unfit"]

#: Events that were put out together: timestamp in ms, data.
Chunk = Sequence[tuple[int, tuple[Any, ...]]]
#: Told of a chunk that is left out because a value of it cannot travel, and why.
Unfit = Callable[[Chunk, MappingError], None]
#: What is numbered by its place in a stream of messages has room for so many events in each message.
NUMBERS_EACH = 1 << 20


class SourceWriter:
    """One source's way into its topic. Safe to use from one thread at a time.

    Parameters
    ----------
    transport, topic, partition
        Where to; the topic must exist.
    schema : Schema
        The stream's attributes.
    playback : bool
        Whether events move the app's clock; else an event comes in when it is appended, whatever its timestamp is.
    unfit : Callable, optional
        Told of each chunk with a value that cannot travel, which is left out, once the others are appended; without
        it nothing is appended then.

    State
    -----
    The highest time so far, ms, and how many events were appended.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        partition: int,
        schema: Schema,
        *,
        playback: bool,
        unfit: Unfit | None = None,
    ) -> None:
        self._unfit = unfit
        self.topic = topic
        self.transport = transport
        self.partition = partition
        self._payload = Payload(schema)
        self._playback = playback
        self._reached = NO_CLOCK
        self._order = 0

    def append(self, chunks: Sequence[Chunk], now: int, producer: str = "", seq: int = 0) -> int:
        """Append all or nothing; durable when this returns.

        Parameters
        ----------
        chunks : sequence of chunks
            In order.
        now : int
            The time, ms.
        producer : str
            Who numbers these events, so that they may be appended again after a failure; empty for nobody.
        seq : int
            Number of the first event.

        Returns
        -------
        int
            Number of events.

        Raises
        ------
        MappingError
            A value cannot travel, and nobody is told of it.
        TransportError
            The topic cannot be written.
        """
        return self.append_numbered([(chunks, seq)], now, producer)

    def append_numbered(self, parts: Sequence[tuple[Sequence[Chunk], int]], now: int, producer: str) -> int:
        """Append several lots of chunks together, each with the number of its first event; see `append`."""
        records: list[Record] = []
        # Own copies until the append has succeeded: what failed leaves no trace in times and numbers.
        reached, order = self._reached, self._order
        unfit: list[tuple[Chunk, MappingError]] = []
        for chunks, first in parts:
            try:
                events, after = self._events(chunks, now, reached, order)
                made = self._records(events, producer, first)
            except MappingError:
                if self._unfit is None:
                    raise
                # Chunk by chunk only now: most lots have no such value, and are encoded as one.
                events, after = self._events(self._fitting(chunks, unfit), now, reached, order)
                made = self._records(events, producer, first)
            reached = after
            order += len(events)
            records += made
        if records:
            self.transport.append(records)
        count = order - self._order
        self._reached, self._order = reached, order
        for chunk, error in unfit:
            # Not before the append: one that has failed is tried again, with the same chunks.
            assert self._unfit is not None
            self._unfit(chunk, error)
        return count

    def _fitting(self, chunks: Sequence[Chunk], unfit: list[tuple[Chunk, MappingError]]) -> list[Chunk]:
        """Return the chunks whose values all can travel; the others are added to `unfit`."""
        fitting = []
        for chunk in chunks:
            try:
                self._records(self._events([chunk], 0, 0, 0)[0], "", 0)
            except MappingError as error:
                unfit.append((chunk, error))
            else:
                fitting.append(chunk)
        return fitting

    def _events(self, chunks: Sequence[Chunk], now: int, reached: int, order: int) -> tuple[Events, int]:
        try:
            if all(len(chunk) == 1 for chunk in chunks):
                return self._singles([chunk[0] for chunk in chunks], now, reached, order)
            return self._chunked(chunks, now, reached, order)
        except OverflowError as error:  # times of 64 bits and more
            raise MappingError(f"an event cannot travel: {error}") from error

    def _chunked(self, chunks: Sequence[Chunk], now: int, reached: int, order: int) -> tuple[Events, int]:
        events = EventList()
        for chunk in chunks:
            if not chunk:
                continue
            # All of a chunk are put out together, when the last of them is due.
            reached = max(reached, chunk[-1][0] if self._playback else now)
            for place, (ts, row) in enumerate(chunk):
                events.add(reached, order + len(events), b"", place, ts, row)
        return events.events(), reached

    def _singles(
        self, several: Sequence[tuple[int, tuple[Any, ...]]], now: int, reached: int, order: int
    ) -> tuple[Events, int]:
        """Return what `_events` does for chunks of one event, column by column."""
        count = len(several)
        ts = [at for at, _ in several]
        # Never backwards: what comes late is put out when the time of the latest before it has come.
        at = list(accumulate(ts if self._playback else [now] * count, max, initial=reached))
        rows = [row for _, row in several]
        return Events(at[1:], list(range(order, order + count)), [b""] * count, [0] * count, ts, rows), at[-1]

    def _records(self, events: Events, producer: str, seq: int) -> list[Record]:
        records: list[Record] = []
        if not len(events):
            return records
        try:
            encoded = list(self._payload.encode_within(events))
        except Exception as error:  # whatever a value is that others have sent
            raise MappingError(f"an event cannot travel: {error}") from error
        for count, value in encoded:
            records.append(Record(self.topic, self.partition, value, count, producer, seq, NO_CLOCK))
            seq += count
        return records
