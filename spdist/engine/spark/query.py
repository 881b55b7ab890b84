"""What one start of a query needs to know, in the driver and in its tasks. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spdist.config.allowed import Allowed
from spdist.engine.local.idle import passes_time
from spdist.engine.shards.shards import ShardSettings, lowest_positions
from spdist.engine.spark.source import KafkaPlan, SourceSettings
from spdist.transports.kafka.options import KafkaInput

if TYPE_CHECKING:
    from spdist.transports.kafka.fetching import KafkaReader

__all__ = ["QuerySettings"]

#: What a batch must have of the most that it may have to be full: each partition has a share of that, and it counts
#: marks of transactions, too.
_FULL = 0.9


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """What the query of one start needs, in the driver and in the tasks.

    Parameters
    ----------
    name : str
        Of the group instance, or of whatever else these shards are together.
    shards : tuple of ShardSettings
        What to run, at least one; the opening segment of each must be its newest one.
    topics : str
        Where the topics are, see `spdist.transports.opening.write_settings`.
    stop_flag : str
        See `SourceSettings`.
    checkpoint : str
        A directory for Spark, used once.
    merge_wait_ms, tick_interval_ms, max_batch_events : int
        See `Merge` and `SourceSettings`.
    scripts : bool
        Whether functions that apps define in Python are run.
    partitions : int
        Number of Spark partitions that host the shards: shard number *n* is on partition ``n % partitions``.
    kafka : dict of str to KafkaInput
        The inputs with transport ``kafka`` by topic.
    max_state_bytes : int
        How large a process that hosts shards may become.
    slow_event_ms : int
        How long one event may take before it is told.
    allowed : Allowed
        The secrets, databases and files that apps may refer to, as `Allowed.for_tasks` makes it: without passwords.
    copies : str
        A directory with copies of files of the states, see `spdist.engine.shards.copies`; empty where there are none.
    """

    name: str
    shards: tuple[ShardSettings, ...]
    topics: str
    stop_flag: str
    checkpoint: str
    merge_wait_ms: int
    tick_interval_ms: int
    max_batch_events: int
    scripts: bool = False
    partitions: int = 1
    kafka: dict[str, KafkaInput] = field(default_factory=dict)
    max_state_bytes: int = 2 << 30
    slow_event_ms: int = 5000
    allowed: Allowed = field(default_factory=Allowed)
    copies: str = ""

    def source(self, kafka: str = "") -> SourceSettings:
        """Return what our source must know, which is the clock of every query; `kafka`: see `SourceSettings`."""
        start = lowest_positions(self.shards)
        return SourceSettings(
            place=self.topics,
            topics={topic: tuple(offsets) for topic, offsets in start.items()},
            start=start,
            live=any(passes_time(shard.assignment) for shard in self.shards),
            merges=any(_channels(shard) > 1 for shard in self.shards),
            tick_interval_ms=self.tick_interval_ms,
            max_batch_events=self.max_batch_events,
            stop_flag=self.stop_flag,
            kafka=kafka,
            tasks=self.partitions,
        )

    def kafka_plan(self) -> KafkaPlan:
        """Return what is read of Kafka."""
        start = lowest_positions(self.shards, kafka=True)
        return KafkaPlan(self.kafka, {topic: start[topic] for topic in self.kafka}, self.max_batch_events)

    def kafka_reader(self) -> KafkaReader | None:
        """Return what fetches messages of Kafka in a task; None where none are read."""
        if not self.kafka:
            return None
        # The client takes its time to load.
        from spdist.transports.kafka.fetching import KafkaReader

        return KafkaReader(self.kafka)

    @property
    def fed_streams(self) -> tuple[str, ...]:
        """The streams of which it is counted how many messages cannot be read."""
        return tuple(sorted({stream for shard in self.shards for stream in shard.assignment.fed_streams}))

    def is_full(self, messages: Mapping[str, int]) -> bool:
        """Tell whether a batch with so many messages of each topic is as large as it may be, so that others wait."""
        counts: Counter[int] = Counter()
        for topic, one in self.kafka.items():
            counts[one.most_messages(self.max_batch_events)] += messages.get(topic, 0)
        return any(count >= _FULL * most for most, count in counts.items())


def _channels(shard: ShardSettings) -> int:
    return sum(len(i.partitions) * max(1, len(i.producers)) for i in shard.assignment.inputs if not i.into)
