"""Where partitions of any topics in Kafka begin and end, for who reads messages by their offsets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spdist.transports.kafka.offsets import begins_of, ends_of
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.kafka.transport import KafkaTransport
from spdist.transports.topics import replaced

if TYPE_CHECKING:
    from kafka import KafkaConsumer

__all__ = ["KafkaExtents"]

#: A topic as Kafka calls it, and a partition.
Place = tuple[str, int]


class KafkaExtents:
    """Asks the brokers of one Kafka cluster where partitions begin and end.

    Parameters
    ----------
    settings : KafkaSettings
        Where the brokers are, and how long to try where none answers.

    State
    -----
    Connections, from the first question on. Of what transactions have not committed yet nothing counts.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._transport = KafkaTransport(settings)
        self._lock = threading.Lock()

    def extents(self, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
        """Return of some partitions the offset of the oldest message that is kept, and that behind the newest.

        Raises
        ------
        TransportError
            A topic is not there any more.
        TransportUnavailableError
            The brokers do not answer.
        """
        return self._asked(places, begins=True)

    def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """Return of some partitions the offset behind the newest message; raises what `extents` does."""
        return {place: end for place, (_, end) in self._asked(places, begins=False).items()}

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def _asked(self, places: Sequence[Place], *, begins: bool) -> dict[Place, tuple[int, int]]:
        from kafka import TopicPartition

        asked = [TopicPartition(*place) for place in places]

        def look() -> None:
            for name in sorted({name for name, _ in places}):
                if not self._transport.partitions_of(name):
                    raise replaced(name)

        def found(consumer: KafkaConsumer) -> dict[Place, tuple[int, int]]:
            patience_ms = self._settings.patience_ms
            ends = ends_of(consumer, asked, patience_ms, look)
            first = begins_of(consumer, asked, patience_ms, look) if begins else ends
            return {(one.topic, one.partition): (first[one], ends[one]) for one in asked}

        # The client is not safe to use from several threads.
        with self._lock:
            return self._transport.reading(found) if asked else {}
