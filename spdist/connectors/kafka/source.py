"""What a ``@source(type='kafka')`` says: which topics, from where on. Values only.

Source: siddhi-io-kafka, KafkaSource and KafkaConsumerThread: options, defaults and where reading begins; behaviour in
our own words. ``group.id``, ``threading.option``, ``is.binary.message``, ``seq.enabled`` and ``enable.*.commit`` say
how its clients work and mean nothing here: Spark reads each partition, and offsets are part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spdist.connectors.kafka.link import KafkaAccess
from spdist.java.numbers import whole_number
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.options import Options

__all__ = ["UserTopics"]

_RESETS = ("earliest", "latest")
_RESET = "auto.offset.reset"
#: Settings of Kafka's consumers that Spark's connector takes from nobody.
_SPARKS_OWN = {_RESET, "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"}


@dataclass(frozen=True, slots=True)
class UserTopics:
    """The options of one source.

    Parameters
    ----------
    options : Options
        As written, for messages.
    access : KafkaAccess
        Where the brokers are.
    topics : tuple of str
        ``topic.list``.
    partitions : tuple of int
        ``partition.no.list``; empty for all there are.
    offsets : mapping of str to int
        ``topic.offsets.map='<topic>=<offset>,…'``: reading begins after the message with this offset.
    latest : bool
        Whether reading begins behind what is there already: ``auto.offset.reset:latest`` in
        ``optional.configuration``. Else it begins with the oldest message.
    """

    options: Options
    access: KafkaAccess
    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    offsets: Mapping[str, int]
    latest: bool

    @classmethod
    def of(cls, read: Options) -> UserTopics:
        """Read the options of a source; raises AppValidationError where one is missing or wrong."""
        topics = tuple(dict.fromkeys(_listed(read.needed("topic.list", "orders"))))
        numbers: set[int] = set()
        for one in _listed(read.text("partition.no.list")):
            if (number := whole_number(one, 0)) is None:
                raise read.wrong("partition.no.list", "holds whole numbers with commas between them")
            numbers.add(number)
        offsets: dict[str, int] = {}
        for one in _listed(read.text("topic.offsets.map")):
            topic, _, offset = (part.strip() for part in one.partition("="))
            number = whole_number(offset, 0)
            if topic not in topics or number is None:
                raise read.wrong("topic.offsets.map", f"has {one!r}", "For example: orders=100, a topic of topic.list")
            offsets[topic] = number
        access = KafkaAccess.of(read)
        reset = access.properties.get(_RESET, _RESETS[0])
        if reset not in _RESETS:
            raise read.wrong("optional.configuration", f"has {_RESET}:{reset}", f"It is one of {', '.join(_RESETS)}.")
        return cls(read, access, topics, tuple(sorted(numbers)), offsets, reset == "latest")

    @property
    def settings(self) -> KafkaSettings:
        """What Spark's connector must know."""
        properties = {name: value for name, value in self.access.properties.items() if name not in _SPARKS_OWN}
        return KafkaSettings(",".join(self.access.servers), properties)

    def first(self, topic: str, begin: int, end: int) -> int:
        """Return where reading begins in a partition that now has the messages from `begin` up to `end`."""
        if topic in self.offsets:
            # What stands before the oldest message was deleted by the broker.
            return max(begin, self.offsets[topic] + 1)
        return end if self.latest else begin


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]
