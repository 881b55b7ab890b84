"""What every transport refuses in the same words: names of topics and numbers of partitions that cannot be."""

from __future__ import annotations

from spdist.errors import TransportError

__all__ = ["MAX_PARTITIONS", "check_name", "check_partition", "check_partitions"]

MAX_PARTITIONS = 1 << 16


def check_name(topic: str) -> None:
    """Raise TransportError where `topic` can be no topic's name."""
    if not topic:
        raise TransportError(f"{topic!r} cannot be the name of a topic", hint="use 1 to 200 letters")


def check_partitions(topic: str, partitions: int) -> None:
    """Raise TransportError where `topic` cannot have that many partitions."""
    check_name(topic)
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise TransportError(f"topic {topic!r} cannot have {partitions} partitions, only 1 to {MAX_PARTITIONS}")


def check_partition(topic: str, partition: int, known: int, place: str) -> None:
    """Raise TransportError where `topic`, which has `known` partitions in `place`, has none of that number."""
    if not known:
        raise TransportError(f"there is no topic {topic!r} in {place}", hint="create it with ensure(topic, partitions)")
    if not 0 <= partition < known:
        raise TransportError(f"topic {topic!r} has the partitions 0 to {known - 1}, not {partition}")
