"""The Spark source of every query: which records make the next batch, and when a silent stream wakes the query.

A *simple* stream reader, on purpose: it reads in the one process that Spark keeps for the source and hands the data to
the JVM together with the offsets. An ordinary reader would start a Python task of its own in every batch, which costs
several times more than the batch itself; executors on other machines, which it is for, do not exist here.

Of Kafka only offsets are handed over: the tasks fetch the messages by themselves. So messages go from the brokers to
the process that needs them, without the JVM between them, and whoever repeats a batch reads the same ones again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from spdist.engine.shards.memory import arrow_without_pandas
from spdist.engine.shards.state import Positions
from spdist.engine.spark.carried import carrying_errors
from spdist.engine.spark.stopping import IdleTasks, StopFlag
from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.base import Record
from spdist.transports.kafka.extents import KafkaExtents
from spdist.transports.kafka.options import KafkaInput, KafkaSettings
from spdist.transports.opening import open_place
from spdist.transports.payloads.payload import RECORD_DDL, to_batch
from spdist.transports.read_ahead import SizedReader, sized_reader

__all__ = [
    "KafkaPlan",
    "LogDataSource",
    "LogReader",
    "Planned",
    "SourceSettings",
    "control_record",
    "is_control",
    "is_range",
    "ranges_of",
    "read_control",
    "read_range",
    "read_rejected",
]

#: Offsets as Spark keeps them: partitions are texts, as JSON wants it. ``tick`` is the time of the batch, ms; ``kafka``
#: is only there where Kafka is read, as is ``behind``: how many messages waited there when the batch was planned.
Offsets = dict[str, Any]
#: By our name of a topic of Kafka and partition, as text, an offset.
KafkaOffsets = dict[str, dict[str, int]]

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
#: Where nothing is there for a batch, one question of Spark's looks so often, so many seconds apart: a question takes a
#: millisecond of processor time, a look less than half of one.
_LOOKS, _LOOK_EVERY_S = 4, 0.025
#: How long one question to Kafka's brokers may take: the query can be stopped between two.
_ASK_MS = 2_000
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


class Brokers(Protocol):
    """Who knows where partitions begin and end; see `KafkaExtents`."""

    def extents(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]: ...

    def ends(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]: ...


@dataclass(frozen=True, slots=True)
class Planned:
    """What of Kafka a batch may have: up to which offsets, how many messages that are, and how many wait behind it."""

    ends: KafkaOffsets
    messages: int
    behind: int


@dataclass(slots=True)
class KafkaPlan:
    """Plans what a batch reads of Kafka.

    Parameters
    ----------
    inputs : mapping of str to KafkaInput
        By our names of the topics.
    start : Positions
        The partitions to read, and where to begin.
    most_events : int
        Bound of events in a batch.
    asked : mapping of str to Brokers, optional
        By servers and properties who is asked.

    State
    -----
    Connections, and since when nobody can tell.
    """

    inputs: Mapping[str, KafkaInput]
    start: Positions
    most_events: int
    asked: dict[str, Brokers] = field(default_factory=dict)
    _since: float | None = None

    @classmethod
    def read(cls, file: str) -> KafkaPlan:
        """Return what `write` was told."""
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        inputs = {
            topic: KafkaInput(**one | {"settings": KafkaSettings(**one["settings"])})
            for topic, one in data["inputs"].items()
        }
        start = {t: {int(p): offset for p, offset in parts.items()} for t, parts in data["start"].items()}
        return cls(inputs, start, data["most_events"])

    def write(self, file: Path) -> str:
        """Write all of this into a file that nobody else may read, as passwords may be in it; return its name."""
        inputs = {topic: asdict(one) for topic, one in self.inputs.items()}
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as private:
            json.dump({"inputs": inputs, "start": self.start, "most_events": self.most_events}, private)
        return str(file)

    def initial(self) -> KafkaOffsets:
        """Return where reading begins."""
        return {topic: {str(number): at for number, at in parts.items()} for topic, parts in self.start.items()}

    def plan(self, starts: KafkaOffsets) -> Planned | None:
        """Return up to where the batch from `starts` on may read; None while nobody can tell, for a time.

        Raises
        ------
        TransportUnavailableError
            No broker has answered for longer than that.
        TransportError
            A topic was deleted, or ends before `starts` for longer than that: it was made anew.
        """
        try:
            extents = self._extents(starts)
            # A broker that leads since a moment ago may not know yet how far its topics go.
            short = next((place for place, (at, end) in extents.items() if end < at), None)
            problem = None if short is None else self._made_anew(short, *extents[short])
        except TransportUnavailableError as error:
            problem = error
        if problem is not None:
            now = time.monotonic()
            self._since = self._since or now
            if now - self._since > min(one.patience_ms for one in self.inputs.values()) / 1000:
                raise problem
            return None
        self._since = None
        ends: KafkaOffsets = {topic: dict(parts) for topic, parts in starts.items()}
        messages = behind = 0
        # A record between groups holds many events, a user's message about one: each kind has a bound of its own
        for packed in (False, True):
            own = [place for place in extents if self.inputs[place[0]].packed is packed]
            waiting = {place: max(0, extents[place][1] - extents[place][0]) for place in own}
            total = sum(waiting.values())
            most = self.inputs[own[0][0]].most_messages(self.most_events) if own else 0
            for place in own:
                # Rounded up, so that no partition with messages gets nothing
                share = waiting[place] if total <= most else -(-waiting[place] * most // total)
                if share:
                    ends[place[0]][place[1]] = extents[place][0] + share
                messages += share
                behind += waiting[place] - share
        return Planned(ends, messages, behind)

    def _extents(self, starts: KafkaOffsets) -> dict[tuple[str, str], tuple[int, int]]:
        """Return from where each partition is to be read, and where it ends."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        clusters: dict[str, list[tuple[str, str]]] = {}
        for topic, parts in starts.items():
            settings = self.inputs[topic].settings
            known = clusters.setdefault(repr((settings, sorted(settings.properties.items()))), [])
            known += [(topic, number) for number in parts]
        for cluster, places in clusters.items():
            asked = self.asked.get(cluster)
            if asked is None:
                settings = self.inputs[places[0][0]].settings
                asked = self.asked[cluster] = KafkaExtents(replace(settings, patience_ms=_ASK_MS))
            names = {place: (self.inputs[place[0]].name, int(place[1])) for place in places}
            # Only reading from 0 on may mean messages that are deleted: elsewhere the start needs no question
            new = [name for (topic, number), name in names.items() if not starts[topic][number]]
            begins = {name: begin for name, (begin, _) in asked.extents(new).items()} if new else {}
            ends = asked.ends(list(names.values()))
            for (topic, number), name in names.items():
                found[topic, number] = max(starts[topic][number], begins.get(name, 0)), ends[name]
        return found

    def _made_anew(self, place: tuple[str, str], at: int, end: int) -> TransportError:
        told = f"was made anew: it ends with message {end - 1}, and {at - 1} was read"
        hint = "give the app a new name, or read another topic"
        return TransportError(f"topic '{self.inputs[place[0]].name}' {told}", hint=hint)


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
        self._stop = StopFlag(settings.stop_flag)
        self._idle = IdleTasks(self._stop.directory)
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
            end = self._next(start)
        # A batch for time alone is no sign that Kafka is to be asked more often
        if end is not None and (end | _NO_TIME) != (start | _NO_TIME):
            self._came = time.monotonic()
        if end is None:
            if self.kafka is not None:  # to ask brokers takes much longer than to look at files
                time.sleep(min(_LONGEST_PAUSE_S, _PAUSED * (time.monotonic() - self._came)))
            return iter(()), start
        return _LazyBatches(self, start, end), end

    def _next(self, start: Offsets) -> Offsets | None:
        """Return where the next batch ends; None where there is no reason for one for a while, or none may begin."""
        for look in range(_LOOKS):
            if look:
                time.sleep(_LOOK_EVERY_S)
            if self._stop.obeyed():
                return None
            end = self.plan(start, int(time.time() * 1000))
            if end is not None or self.kafka is not None:
                return end
        return None

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
            # A time means nothing to playback, but 0 stands for no batch yet
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
            # What a partition leaves of its share goes to those behind it
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
                # Behind the record: one that is larger than its share must not stop reading for ever
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


def ranges_of(starts: Mapping[str, Mapping[str, int]], ends: Mapping[str, Mapping[str, int]]) -> Iterator[Any]:
    """Yield topic, partition, and from where to where, of each partition of which a batch has something."""
    for topic, parts in ends.items():
        for number, end in parts.items():
            begin = starts[topic][number]
            if begin < end:
                yield topic, int(number), begin, end


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
