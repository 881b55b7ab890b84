"""How many records of its topics a query has not read yet."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

from spdist.errors import TransportError
from spdist.planning.topology import Assignment
from spdist.transports.base import Transport
from spdist.transports.kafka.transport import KafkaTransport

__all__ = ["Lag"]

#: From when on what was found last is old, and for how long a look is waited for then, s.
_OLD_S, _MOMENT_S = 1.0, 0.2


class Lag:
    """How many records of a query's topics are not read yet, as was found last.

    Brokers that are away let a question wait, and who asks for the status of a group cannot wait: the heartbeats of its
    worker depend on it. So a thread asks them.

    Parameters
    ----------
    transport : Transport
        Of the topics between groups; `close` closes it.
    assignments : sequence of Assignment
        What shares the query: where it reads topics of `transport` in Kafka, it waits for brokers that are away and
        tells nobody.

    State
    -----
    A number, and a thread from the first question on.
    """

    def __init__(self, transport: Transport, assignments: Sequence[Assignment]) -> None:
        self._transport = transport
        self._assignments = assignments
        self._lock = threading.Lock()
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="lag")
        self._asked: Future[None] | None = None
        self._closed = False
        self._found: tuple[int, str | None] = (0, None)
        self._found_s = 0.0

    def after(self, progress: Any) -> tuple[int, str | None]:
        """Return the number as it was found last, and why nobody can tell now; and look again.

        Who asks again and again never waits; else what was found last may be old, and a look at brokers that answered
        then is waited for a moment.

        Parameters
        ----------
        progress
            What Spark told last.
        """
        with self._lock:
            if self._closed or not (self._asked is None or self._asked.done()):
                return self._found
            self._asked = self._asking.submit(self._measure, progress)
            is_old = time.monotonic() - self._found_s > _OLD_S
        if is_old and self._found[1] is None:
            wait((self._asked,), _MOMENT_S)
        return self._found

    def close(self) -> None:
        """Look no more; returns before a look that is under way has ended. May be called twice."""
        with self._lock:
            if not self._closed:
                # In the same thread, so behind a look that still uses the connections
                self._asking.submit(self._transport.close)
            self._closed = True
        self._asking.shutdown(wait=False)

    def _measure(self, progress: Any) -> None:
        try:
            for topic in islice(self._in_kafka(), 1):  # all are on the same brokers
                self._transport.end_offsets(topic)
            lags = [self._behind(json.loads(one.endOffset or "{}"), one.latestOffset) for one in progress.sources]
        except TransportError as error:
            self._found = self._found[0], str(error)
        else:
            self._found = sum(lags), None
        self._found_s = time.monotonic()

    def _in_kafka(self) -> Iterator[str]:
        """Yield the topics of the transport that are read from Kafka."""
        if isinstance(self._transport, KafkaTransport):
            yield from (one.topic for each in self._assignments for one in each.inputs if one.transport == "kafka")

    def _behind(self, read: dict[str, Any], latest: str | None) -> int:
        from spdist.engine.native.realtime import records_behind

        behind = 0
        if "topics" in read:
            for topic, partitions in read["topics"].items():
                ends = self._transport.end_offsets(topic)
                behind += sum(max(0, ends[int(partition)] - offset) for partition, offset in partitions.items())
            return behind + int(read.get("behind", 0))
        return records_behind(read, json.loads(latest or "{}"))  # Kafka's source says itself what there is
