"""Offsets where partitions in Kafka begin and end, as asked of the client of who reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import KafkaConsumer

__all__ = ["begins_of", "ends_of"]

#: How long to wait for an answer before looking whether the topic is still there.
_LOOK_MS = 2_000
#: How long the brokers are left alone after an answer that lacks partitions.
_AGAIN_S = 0.02


def begins_of(
    consumer: KafkaConsumer, places: Sequence[Any], patience_ms: int, look: Callable[[], None] = lambda: None
) -> dict[Any, int]:
    """Return the offset of the oldest message that is kept, of some partitions; parameters and errors as `ends_of`."""
    return _asked(consumer.beginning_offsets, places, patience_ms, look)


def ends_of(
    consumer: KafkaConsumer, places: Sequence[Any], patience_ms: int, look: Callable[[], None] = lambda: None
) -> dict[Any, int]:
    """Return the offset behind the newest message, of some partitions.

    Parameters
    ----------
    consumer : KafkaConsumer
        Who is asked; with `read_committed`, what open transactions have written does not count.
    places : sequence of TopicPartition
        The partitions, of any topics.
    patience_ms : int
        How long to ask again.
    look : callable
        Called while no answer comes: it raises where a topic was deleted, for which the client waits in silence.

    Raises
    ------
    KafkaTimeoutError
        The brokers did not tell the offsets of all partitions in that time.
    """
    return _asked(consumer.end_offsets, places, patience_ms, look)


def _asked(
    ask: Callable[..., dict[Any, int]], places: Sequence[Any], patience_ms: int, look: Callable[[], None]
) -> dict[Any, int]:
    from kafka.errors import KafkaTimeoutError

    deadline = time.monotonic() + patience_ms / 1000
    while True:
        try:
            return ask(list(places), timeout_ms=min(_LOOK_MS, patience_ms))
        # The client does not say whether the brokers or only the topic are gone; `look` finds out.
        except KafkaTimeoutError:
            look()
            if time.monotonic() > deadline:
                raise
        except KeyError as error:
            # The client asks those leaders only that it knows, and trips over the partitions whose leader it does not.
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"no leader of {error} is known") from error
            look()
            time.sleep(_AGAIN_S)
