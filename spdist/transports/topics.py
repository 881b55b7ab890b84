"""What every transport refuses in the same words: names of topics and numbers of partitions that cannot be."""

from __future__ import annotations

from spdist.errors import TransportError

__all__ = ["MAX_PARTITIONS", "check_name", "check_offset", "check_partition", "check_partitions", "replaced"]

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


def check_offset(topic: str, partition: int, offset: int, end: int) -> None:
    """Raise TransportError where a partition ends before `offset`, up to which somebody has read it."""
    if offset > end:
        raise TransportError(
            f"topic {topic!r} partition {partition} ends at offset {end}, but {offset} records of it were read: it was "
            "shortened, or deleted and made anew",
            hint=_GONE,
        )


def replaced(topic: str) -> TransportError:
    """Return the error for a topic that is not the one any more that was read or written so far."""
    return TransportError(f"topic {topic!r} was deleted, or deleted and made anew", hint=_GONE)


_GONE = (
    "bring the topic back from a copy; or take the groups that read it back to a revision from before, or remove their "
    "state, so that they begin anew"
)
