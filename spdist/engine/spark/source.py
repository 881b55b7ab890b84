"""The Spark source of every query: which records make the next batch, and when a silent stream wakes the query.

A *simple* stream reader, on purpose: it reads in the one process that Spark keeps for the source and hands the data to
the JVM together with the offsets. An ordinary reader would start a Python task of its own in every batch, which costs
several times more than the batch itself; executors on other machines, which it is for, do not exist here. Of Kafka only
offsets are handed over: the tasks fetch the messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from spdist.engine.shards.memory import arrow_without_pandas
from spdist.engine.shards.state import Positions
from spdist.engine.spark.carried import carrying_errors
from spdist.engine.spark.kafka_source import KafkaPlan, Planned, ranges_of
from spdist.engine.spark.stopping import IdleTasks, StopFlag
from spdist.transports.base import Record
from spdist.transports.opening import open_place
from spdist.transports.payloads.payload import RECORD_DDL, to_batch
from spdist.transports.read_ahead import SizedReader, sized_reader

__all__ = [
    "LogDataSource",
    "LogReader",
    "SourceSettings",
    "control_record",
    "is_control",
    "is_range",
    "read_control",
    "read_range",
    "read_rejected",
]

#: Offsets as Spark keeps them: partitions are texts, as JSON wants it. ``tick`` is the time of the batch, ms; ``kafka``
#: is only there where Kafka is read, as is ``behind``: how many messages waited there when the batch was planned.
Offsets = dict[str, Any]

_READ_RECORDS = 1000
#: No topic has these partitions.
_CONTROL, _RANGE = -1, -2
#: A batch holds at most this many bytes of payload (and one record where that alone is larger).
_MAX_BATCH_BYTES = 16 * 1024 * 1024
#: A live query that merges producers looks at their promises at most this often.
_PROMISES_EVERY_MS = 200
#: While nothing comes, Kafka's brokers are asked less often: after a pause of this part of the time since something
#: did, but of no more than so many seconds.
_PAUSED, _LONGEST_PAUSE_S = 0.01, 0.05
#: A query in which nothing waits for time is woken after so many tick intervals: its clock and its counters are shown.
_LONGEST_SILENCE = 10
#: The option under which the settings travel.
_OPTION = "settings"
#: What passes in offsets while nothing comes.
_NO_TIME = {"tick": 0, "behind": 0}


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What a source reads.

    Parameters
    ----------
    place : str
        Where the topics are, see `spdist.transports.opening.write_settings`.
    topics : dict
        Topic → partitions.
    start : Positions
        Where to begin; a partition that is missing begins at its first record.
    live : bool
        Whether time passes while streams are silent.
    merges : bool
        Whether there are several channels, so that promises alone can release events.
    tick_interval_ms : int
        How often a live query wakes without events, where something in it waits for time.
    max_batch_events : int
        Bound of events in a batch (exceeded by part of a record).
    stop_flag : str
        A file, see `StopFlag`: once it exists no batch begins any more.
    kafka : str
        A file, see `KafkaPlan.write`; empty where nothing is read of Kafka.
    tasks : int
        How many tasks host its shards (`IdleTasks`).
    """

    place: str
    topics: dict[str, tuple[int, ...]]
    start: Positions
    live: bool
    merges: bool
    tick_interval_ms: int
    max_batch_events: int
    stop_flag: str
    kafka: str = ""
    tasks: int = 1

    def to_options(self) -> dict[str, str]:
        """Return the settings as options of a Spark source."""
        return {_OPTION: json.dumps(asdict(self))}

    @classmethod
    def from_options(cls, options: Any) -> SourceSettings:
        """Return what `to_options` was called on."""
        data = json.loads(options[_OPTION])
        data["topics"] = {topic: tuple(partitions) for topic, partitions in data["topics"].items()}
        data["start"] = {t: {int(p): o for p, o in offsets.items()} for t, offsets in data["start"].items()}
        return cls(**data)


class LogReader(SimpleDataSourceStreamReader):
    """Plans and reads batches of one query.

    Offsets are ``{"topics": {topic: {partition: offset}}, "tick": ms}``. The first batch comes right away, also without
    records: it shows that the query runs and publishes what an earlier run may have left unpublished.

    State
    -----
    When something has come last.
    """

    def __init__(self, settings: SourceSettings, transport: SizedReader, kafka: KafkaPlan | None = None) -> None:
        self.settings = settings
        self.transport = transport
        self.kafka = kafka
        self._idle = IdleTasks(StopFlag(settings.stop_flag).directory)
        self._came = time.monotonic()

    def initialOffset(self) -> Offsets:
        """Return where reading begins, with tick 0."""
        start = self.settings.start
        topics = {
            topic: {str(partition): start.get(topic, {}).get(partition, 0) for partition in partitions}
            for topic, partitions in self.settings.topics.items()
        }
        begin = {"topics": topics, "tick": 0}
        return begin if self.kafka is None else begin | {"kafka": self.kafka.initial(), "behind": 0}

    def read(self, start: Offsets) -> tuple[Iterator[Any], Offsets]:
        """Return the next batch as Arrow batches and where it ends; nothing and `start` where it is not yet time."""
        with carrying_errors():
            end = None if StopFlag(self.settings.stop_flag).obeyed() else self.plan(start, int(time.time() * 1000))
        if end is not None and (end | _NO_TIME) != (start | _NO_TIME):
            self._came = time.monotonic()
        if end is None:
            if self.kafka is not None:  # to ask brokers takes much longer than to look at files
                time.sleep(min(_LONGEST_PAUSE_S, _PAUSED * (time.monotonic() - self._came)))
            return iter(()), start
        return _LazyBatches(self, start, end), end

    def readBetweenOffsets(self, start: Offsets, end: Offsets) -> Iterator[Any]:
        """Return the batch between two offsets again."""
        return _LazyBatches(self, start, end)

    def plan(self, start: Offsets, now: int) -> Offsets | None:
        """Return where the batch after `start` ends, None where there is no reason for one at the time `now`, ms.

        `now` must have been read before: whatever is appended before it belongs to this batch.
        """
        first = start["tick"] == 0
        kafka: Planned | None = None
        if self.kafka is not None and (kafka := self.kafka.plan(start["kafka"])) is None:
            return None  # what waits there is older than this moment
        fetched = kafka is not None and kafka.messages > 0
        ends, events = self._ends(start["topics"])
        news = ends != start["topics"]
        # The clock on the wall may be set back; ours goes on.
        tick = max(now, start["tick"] + 1)
        if self.settings.live:
            waited = now - start["tick"]
            promises = news and self.settings.merges and waited >= _PROMISES_EVERY_MS
            if not (first or events or fetched or promises or self._is_due(now, waited)):
                return None
        elif not fetched:
            if not (first or news):
                return None
            tick = max(start["tick"], 1)
        end = {"topics": ends, "tick": tick}
        return end if kafka is None else end | {"kafka": kafka.ends, "behind": kafka.behind}

    def _is_due(self, now: int, waited: int) -> bool:
        """Tell whether time alone is a reason for a batch, so many ms after the last one."""
        ticks = waited // self.settings.tick_interval_ms
        if not 0 < ticks < _LONGEST_SILENCE:
            return ticks > 0
        until = self._idle.until(self.settings.tasks)
        return until is not None and until <= now

    def batches(self, start: Offsets, end: Offsets) -> Iterator[Any]:
        """Yield the records between two offsets as Arrow batches; the first holds the control record.

        Of Kafka there is one record for each partition, see `read_range`.
        """
        kafka = end.get("kafka", {})
        ranges = [_range_record(end["tick"], *one) for one in ranges_of(start.get("kafka", {}), kafka)]
        yield to_batch([control_record(end["tick"], {**end["topics"], **kafka}), *ranges])
        for topic, partitions in end["topics"].items():
            for partition, stop in partitions.items():
                offset = start["topics"][topic][partition]
                while offset < stop:
                    limit = min(_READ_RECORDS, stop - offset)
                    yield to_batch(self.transport.read(topic, int(partition), offset, limit))
                    offset += limit

    def _ends(self, starts: dict[str, dict[str, int]]) -> tuple[dict[str, dict[str, int]], int]:
        """Return the offsets up to which the next batch may read, and how many events that are."""
        places = [(topic, partition, at) for topic, parts in starts.items() for partition, at in parts.items()]
        left, left_bytes, events = self.settings.max_batch_events, _MAX_BATCH_BYTES, 0
        ends: dict[str, dict[str, int]] = {topic: {} for topic in starts}
        for number, (topic, partition, offset) in enumerate(places):
            others = len(places) - number
            end, found, size = self._end(topic, int(partition), offset, left // others, left_bytes // others)
            ends[topic][partition] = end
            left, left_bytes, events = max(0, left - found), max(0, left_bytes - size), events + found
        return ends, events

    def _end(self, topic: str, partition: int, offset: int, events: int, size: int) -> tuple[int, int, int]:
        """Return the offset at which a share of a batch is full, and how many events and bytes it then holds."""
        found = found_bytes = 0
        while rows := self.transport.sizes(topic, partition, offset, _READ_RECORDS):
            for count, length in rows:
                offset += 1
                found += count
                found_bytes += length
                if found >= events or found_bytes >= size:
                    return offset, found, found_bytes
            if len(rows) < _READ_RECORDS:
                break
        return offset, found, found_bytes


class _LazyBatches(Iterator[Any]):
    """Reads a batch when it is asked for.

    Spark's wrapper keeps what `read` returned until the offsets are committed, and copies it before use: so this must
    hold offsets, not data.
    """

    def __init__(self, reader: LogReader, start: Offsets, end: Offsets) -> None:
        self._made_from = (reader, start, end)
        self._batches = reader.batches(start, end)

    def __copy__(self) -> _LazyBatches:
        return _LazyBatches(*self._made_from)

    def __next__(self) -> Any:
        with carrying_errors():
            return next(self._batches)


class LogDataSource(DataSource):
    """The Spark data source ``spdist_log``: rows are records."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``readStream.format``."""
        return "spdist_log"

    def schema(self) -> str:
        """Return the columns; see `spdist.transports.payloads.payload.to_batch`."""
        return RECORD_DDL

    def simpleStreamReader(self, schema: Any) -> LogReader:
        """Return the reader; Spark calls this in the process that it keeps for the source."""
        arrow_without_pandas()
        settings = SourceSettings.from_options(self.options)
        kafka = KafkaPlan.read(settings.kafka) if settings.kafka else None
        return LogReader(settings, sized_reader(open_place(settings.place)), kafka)


def control_record(
    tick: int, positions: Mapping[str, Mapping[Any, int]], rejected: Mapping[str, int] | None = None
) -> Record:
    """Return the record that brings the tick of a batch to the islands, and where reading goes on after it.

    Also how many messages were `rejected` on the way, by stream.
    """
    said = {"positions": positions, "rejected": rejected or {}}
    return Record("", _CONTROL, json.dumps(said).encode(), 0, clock=tick)


def _range_record(tick: int, topic: str, partition: int, begin: int, end: int) -> Record:
    """Return the record that says what a task is to fetch of a partition."""
    return Record("", _RANGE, json.dumps([topic, partition, begin, end]).encode(), 0, clock=tick)


def is_range(record: Record) -> bool:
    """Whether a record says what is to be fetched."""
    return record.partition == _RANGE


def read_range(record: Record) -> tuple[str, int, int, int]:
    """Return topic, partition, and the offsets from where to where messages are to be fetched."""
    topic, partition, begin, end = json.loads(record.value)
    return topic, partition, begin, end


def is_control(record: Record) -> bool:
    """Whether a record is the control record of its batch."""
    return record.partition == _CONTROL


def read_control(record: Record) -> tuple[int, Positions]:
    """Return the tick and the positions that the first record of a batch brings."""
    topics = json.loads(record.value)["positions"]
    return record.clock, {t: {int(p): offset for p, offset in parts.items()} for t, parts in topics.items()}


def read_rejected(record: Record) -> dict[str, int]:
    """Return how many messages a control record tells to be rejected, by stream."""
    rejected: dict[str, int] = json.loads(record.value)["rejected"]
    return rejected
