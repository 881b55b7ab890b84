"""What stands next to a payload in the headers of a message, in text: who it is, and the promise of a record."""

from __future__ import annotations

from collections.abc import Mapping

from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.payloads.external import mark

__all__ = [
    "CLOCK",
    "COUNT",
    "ID_HEADER",
    "ORIGIN_HEADER",
    "PRODUCER",
    "SEQ",
    "header_text",
    "outsiders_record",
    "read_numbers",
]

#: The header in which a message bears the id of its delivery: who must not see one twice drops repeats by it.
ID_HEADER = "spdist-id"
#: Over HTTP, the header that says within what these ids count: a life of the sender's state, a sink, a destination.
ORIGIN_HEADER = "spdist-origin"
#: Those of a record between groups.
PRODUCER, SEQ, COUNT, CLOCK = "spdist-producer", "spdist-seq", "spdist-count", "spdist-clock"


def read_numbers(headers: Mapping[str, str]) -> tuple[str, int, int, int] | None:
    """Return producer, seq, count and clock of a message.

    None for a message without headers of ours, or with ones that make no sense: it is an outsider's.
    """
    try:
        producer = headers[PRODUCER]
        seq, count, clock = (int(headers[name]) for name in (SEQ, COUNT, CLOCK))
    except (KeyError, ValueError):
        return None
    # Python's int has no bounds: numbers that no record can have come from somebody else.
    return (producer, seq, count, clock) if seq >= 0 and count >= 0 and NO_CLOCK <= clock < 2**63 else None


def outsiders_record(topic: str, partition: int, value: bytes, sent_ms: int, offset: int) -> Record:
    """Return the record of a message that bears no numbers; it counts as one event, however many its payload holds."""
    return Record(topic, partition, mark(value, sent_ms, offset), 1 if value else 0, offset=offset)


def header_text(id: str) -> str:
    """Return an id as it stands in a header that takes nothing but ASCII, as those of HTTP."""
    return id.encode("ascii", "backslashreplace").decode()
