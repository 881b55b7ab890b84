"""What Spark's tasks run: batches of records into the shards that this process hosts, and out of them.

Our source says in a control record where a batch ends, and in others which messages of Kafka it has, which are fetched
here. Messages of topics that users' own sources read are no records yet: what follows one another in a partition is
made one record.

The islands append to the output topics themselves, in their tasks. A Python sink would run two more Python processes in
every batch and add 90 ms to it, at the same point of the same task: what has been put out and not committed is put out
again with the same ids in either case. And Spark's Kafka sink may lose a record and send those after it, which readers
between groups, that drop repeats by their numbers, would never see.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from spdist.connectors.sending import SinkContext, Sinks
from spdist.engine.island.intake import Mapped
from spdist.engine.island.island import Output
from spdist.engine.island.user_topics import mapped_topics
from spdist.engine.shards.copies import Copies
from spdist.engine.shards.memory import arrow_without_pandas, check_memory, collect_rarely, resident_bytes, set_aside
from spdist.engine.shards.shards import BackgroundCall, Counters, HostedShards, Router, island_maker
from spdist.engine.shards.state import Positions, StateStore
from spdist.engine.spark.appended import not_appended
from spdist.engine.spark.carried import carrying_errors
from spdist.engine.spark.query import QuerySettings
from spdist.engine.spark.source import control_record, is_control, is_range, read_control, read_range, read_rejected
from spdist.engine.spark.stalls import StandingWatch
from spdist.engine.spark.stopping import IdleTasks, StopFlag
from spdist.errors import TransportError
from spdist.operators.core.faults import error_text
from spdist.transports.base import Record
from spdist.transports.delivery import Outgoing
from spdist.transports.kafka.transport import read_headers
from spdist.transports.opening import open_place
from spdist.transports.payloads.headers import outsiders_record
from spdist.transports.payloads.payload import from_batch, from_routed, to_routed

if TYPE_CHECKING:
    from spdist.transports.kafka.fetching import KafkaReader
    from spdist.transports.kafka.record_batches import FetchedMessages

__all__ = [
    "COUNTERS",
    "Arrivals",
    "catch_up",
    "prefetched",
    "rejected_column",
    "route_batch",
    "run_batch",
    "run_routed_batch",
]

T = TypeVar("T")

#: The counters of a batch, in the order in which an islands' task returns them.
COUNTERS = tuple(field.name for field in fields(Counters))


def rejected_column(number: int) -> str:
    """Return the counter of messages that cannot be read, of the fed stream with a number."""
    return f"rejected_{number}"


#: Rows of an Arrow batch on the way to the islands' partitions.
_ROUTED_ROWS = 1000
#: How long a thread that reads waits for the one that processes: it releases the GIL many times for
#: less than the 5 ms that are usual.
_TURN_S = 0.001
#: The number of the shard in control records: they are for all.
_ALL = -1


class Arrivals:
    """What arrives in a task in one batch: records of every transport as records of ours, the tick, and the positions.

    Parameters
    ----------
    mapped : mapping of str to Mapped, optional
        What reads the topics of users' own sources.
    kafka : KafkaReader, optional
        Who fetches messages, where there are some.

    State
    -----
    ``tick`` and ``positions`` of what has been read so far; ``messages``: how many of Kafka's, by topic; ``rejected``:
    how many others have rejected, by stream.
    """

    def __init__(self, mapped: Mapping[str, Mapped] | None = None, kafka: KafkaReader | None = None) -> None:
        self._mapped = mapped or {}
        self._kafka = kafka
        self.tick = 0
        self.positions: Positions = {}
        self.messages: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    def records(self, batches: Iterable[Any]) -> Iterator[Record]:
        """Yield the records of all batches in order, without control records."""
        for record, messages in self._asked(record for batch in batches for record in from_batch(batch)):
            if is_control(record):
                self.apply_control(record)
            elif messages is not None:
                yield from self._fetched(record, messages)
            else:
                yield record

    def control(self, rejected: Mapping[str, int] | None = None) -> Record:
        """Return what has been said of the batch as a control record, and what was `rejected` here."""
        return control_record(self.tick, self.positions, rejected)

    def apply_control(self, control: Record) -> None:
        """Take over what a control record says."""
        tick, positions = read_control(control)
        self.tick = max(self.tick, tick)
        self.rejected.update(read_rejected(control))
        for topic, offsets in positions.items():
            for partition, offset in offsets.items():
                self._reach(topic, partition, offset)

    def _reach(self, topic: str, partition: int, offset: int) -> None:
        known = self.positions.setdefault(topic, {})
        known[partition] = max(offset, known.get(partition, offset))

    def _asked(self, records: Iterable[Record]) -> Iterator[tuple[Record, Iterator[FetchedMessages] | None]]:
        """Yield records, those of Kafka's partitions with their messages: the next one's are asked for already."""
        before: tuple[Record, Iterator[FetchedMessages] | None] | None = None
        for record in records:
            messages = None
            if is_range(record):
                assert self._kafka is not None
                messages = self._kafka.messages(*read_range(record))
            if before is not None:
                yield before
            before = record, messages
        if before is not None:
            yield before

    def _fetched(self, told: Record, messages: Iterator[FetchedMessages]) -> Iterator[Record]:
        """Yield the records of the messages that are fetched."""
        topic, partition, _, end = read_range(told)
        self.tick = max(self.tick, told.clock)
        users = self._mapped.get(topic)
        for some in messages:
            self.messages[topic] += len(some)
            if users is not None:
                yield from users.records(partition, users.timely(some, told.clock))
            else:
                columns = some.offsets.to_pylist(), some.values.to_pylist(), some.headers or (), some.times.to_pylist()
                for offset, value, headers, sent in zip(*columns, strict=True):
                    yield _message(topic, partition, offset, value, headers, sent)
        self._reach(topic, partition, end)


def _message(
    topic: str, partition: int, offset: int, value: bytes, headers: Iterable[tuple[str, bytes | None]], sent: int
) -> Record:
    numbers = read_headers(headers)
    if numbers is None:
        return outsiders_record(topic, partition, value, sent, offset)
    producer, seq, count, clock = numbers
    return Record(topic, partition, value, count, producer, seq, clock, offset)


class _Kept:
    """The live state of the shards, by partition; where outputs go; who reads what."""

    def __init__(self, settings: QuerySettings) -> None:
        collect_rarely()
        sys.setswitchinterval(_TURN_S)
        self.settings = settings
        self.hosted: dict[int, HostedShards] = {}
        self.router = Router(settings.shards, settings.scripts)
        self.transport = open_place(settings.topics)
        names = {topic: one.name for topic, one in settings.kafka.items()}
        apps = {shard.assignment.name: shard.assignment for shard in settings.shards}.values()
        self._mapped = mapped_topics(apps, names, self.transport, settings.scripts)
        self._kafka = settings.kafka_reader()
        self._sinks: dict[str, Sinks] = {}
        #: What tasks that route have rejected.
        self._rejected_before: Counter[str] = Counter()
        self.behind = BackgroundCall()
        self._stop_flag = StopFlag(settings.stop_flag)
        self._idle = IdleTasks(self._stop_flag.directory)
        self._events_in: dict[int, int | None] = {}
        self.watch = StandingWatch(self._stop_flag.directory, settings.slow_event_ms / 1000)

    def arrivals(self) -> Arrivals:
        """Return what reads the batches of a task."""
        return Arrivals(self._mapped, self._kafka)

    def rejected(self) -> Counter[str]:
        """Return how many messages of others could not be read, by stream, since this process began."""
        counted = self.router.rejected() + self._rejected_before
        for mapped in self._mapped.values():
            counted[mapped.stream] += mapped.rejected
        return sum((shards.rejected() for shards in self.hosted.values()), counted)

    def counted(self, partition: int, shards: HostedShards, arrivals: Arrivals) -> dict[str, int | None]:
        """Return the counters of a partition after a batch; what was rejected on the way the first one counts."""
        if not partition:
            self._rejected_before.update(arrivals.rejected)
        rejected = self.rejected()
        figures = dict(zip(COUNTERS, astuple(shards.counters()), strict=True))
        return figures | {rejected_column(n): rejected[name] for n, name in enumerate(self.settings.fed_streams)}

    def note_idle(self, partition: int, shards: HostedShards, put_out: bool, events_in: int | None) -> None:
        """Note until when a partition waits for events only, after a batch.

        The next batch tells that what this one has put out was published; so one that did anything is followed by one.
        """
        did, self._events_in[partition] = put_out or self._events_in.get(partition) != events_in, events_in
        self._idle.note(partition, 0 if did else shards.idle_until())

    def shards(self, partition: int) -> HostedShards:
        """Return the shards of a partition."""
        if partition not in self.hosted:
            settings = self.settings
            own = {n: shard for n, shard in enumerate(settings.shards) if n % settings.partitions == partition}
            self.hosted[partition] = HostedShards(
                own,
                island_maker(settings.merge_wait_ms, settings.scripts, settings.allowed),
                copies=Copies(Path(settings.copies)) if settings.copies else None,
            )
        return self.hosted[partition]

    def publish(self, shards: HostedShards, outputs: Sequence[Output], *, behind: bool = False) -> None:
        """Append the records that `shards` have put out, and send what their users' sinks have.

        Where it is done `behind`, that goes on while the next batch is read and processed.
        """
        records: list[Record] = []
        by_producer: dict[str, list[Outgoing]] = {}
        for output in outputs:
            if isinstance(output, Record):
                records.append(output)
            else:
                by_producer.setdefault(output.producer, []).append(output)
        sinks = [(self._sinks_of(shards, producer), own) for producer, own in by_producer.items()]
        origins = shards.origins()

        def publishing() -> None:
            shards.check_owner()
            self.transport.append(not_appended(self.transport, records, origins) if origins else records)
            for opened, own in sinks:
                opened.send(own)

        if not behind:
            publishing()
            return
        self._stop_flag.begin_sending()

        def publishing_behind() -> None:
            try:
                publishing()
            finally:
                self._stop_flag.end_sending()

        self.behind.begin(publishing_behind)

    def still_wanted(self, outputs: Sequence[Output]) -> list[Output]:
        """Return what is not for a topic that is not there any more."""
        topics = {output.topic for output in outputs if isinstance(output, Record)}
        gone = {topic for topic in topics if not self.transport.partitions(topic)}
        return [output for output in outputs if not isinstance(output, Record) or output.topic not in gone]

    def go_on(self) -> None:
        """Raise TransportError where the query is to end, once what is published behind is.

        Kafka's messages would make one batch after the other, and of the running one nothing is durable yet.
        """
        try:
            if self._stop_flag.is_asked() and self.behind.end():
                raise TransportError("the query was told to end while messages wait")
        except BaseException:
            for shards in self.hosted.values():
                shards.forget()
            raise

    def _sinks_of(self, shards: HostedShards, producer: str) -> Sinks:
        """Return what sends for a shard; while one of its sinks waits for its receiver, a note says so."""
        if producer not in self._sinks:
            shard, schemas = shards.settings_of(producer)
            waiting = partial(self._stop_flag.note_waiting, producer)
            waiting(None)  # a process that was killed may have left its note
            context = SinkContext(
                shard.assignment.app,
                self.transport,
                schemas,
                error_text,
                self._stop_flag.waits_no_more,
                waiting,
                self.settings.allowed,
                StateStore(shard.state_directory).identity(),
                shard.assignment.group,
            )
            self._sinks[producer] = Sinks(context)
        return self._sinks[producer]

    def close(self) -> None:
        """Let go of connections: another start runs now."""
        with suppress(Exception):  # it will put that out again
            self.behind.end()
        for opened in self._sinks.values():
            opened.close()
        if self._kafka is not None:
            self._kafka.close()
        self.transport.close()


#: What this Python process keeps of the one start that it serves, under that start's checkpoint.
_KEPT: dict[str, _Kept] = {}


def _kept(settings: QuerySettings) -> _Kept:
    if settings.checkpoint not in _KEPT:
        for old in _KEPT.values():
            old.close()
        _KEPT.clear()
        _KEPT[settings.checkpoint] = _Kept(settings)
    return _KEPT[settings.checkpoint]


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


def prefetched(items: Iterable[T], ahead: int = 2) -> Iterator[T]:
    """Yield `items` in order, while a thread takes those that follow from where they come.

    An error there is raised here, in its place. A caller that does not want the rest closes the iterator; then the
    thread ends with the item that it is at.

    Parameters
    ----------
    items : iterable
        Used by that thread alone.
    ahead : int
        How many items may wait here, at least 1.
    """
    made: SimpleQueue[T | _End] = SimpleQueue()
    places = threading.Semaphore(ahead)
    left = threading.Event()

    def make() -> None:
        end = _End(None)
        try:
            for item in items:
                places.acquire()
                if left.is_set():
                    return
                made.put(item)
        except BaseException as error:  # the caller's to judge
            end = _End(error)
        made.put(end)

    threading.Thread(target=make, name="reading", daemon=True).start()
    try:
        while not isinstance(item := made.get(), _End):
            places.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        left.set()
        places.release()  # it may wait for a place, and looks then whether it is wanted


def run_batch(settings: QuerySettings, batches: Iterator[Any]) -> Iterator[Any]:
    """Run one batch of all shards in a task: records to segments, state and topics; yield the counters."""
    arrow_without_pandas()
    with carrying_errors():
        kept = _kept(settings)
        arrivals = kept.arrivals()
        yield from _run(kept, 0, arrivals, prefetched(kept.router.route(arrivals.records(batches))))


def route_batch(settings: QuerySettings, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield each record once for each shard that reads it, with the partition where that is; then control for all."""
    arrow_without_pandas()
    with carrying_errors():
        yield from _routed(settings, batches)


def _routed(settings: QuerySettings, batches: Iterator[Any]) -> Iterator[Any]:
    kept, partitions = _kept(settings), settings.partitions
    arrivals, before = kept.arrivals(), kept.rejected()

    def rows() -> Iterator[tuple[int, int, Record]]:
        for record in arrivals.records(batches):
            yield from ((number % partitions, number, routed) for number, routed in kept.router.route((record,)))
        control = arrivals.control(kept.rejected() - before)  # known behind the last record
        yield from ((partition, _ALL, control) for partition in range(partitions))

    left = rows()
    while some := tuple(islice(left, _ROUTED_ROWS)):
        yield to_routed(some)


def run_routed_batch(settings: QuerySettings, partition: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Run one batch of the shards of one partition in a task."""
    arrow_without_pandas()
    with carrying_errors():
        yield from _run_routed(settings, partition, batches)


def _run_routed(settings: QuerySettings, partition: int, batches: Iterator[Any]) -> Iterator[Any]:
    kept = _kept(settings)
    arrivals = Arrivals()
    routed: list[tuple[int, Record]] = []
    for number, record in (one for batch in batches for one in from_routed(batch, partition)):
        if number == _ALL:
            arrivals.apply_control(record)
        else:
            routed.append((number, record))
    # What several tasks have sent here may come in any order of theirs.
    routed.sort(key=lambda one: (one[1].topic, one[1].partition, one[1].offset))
    yield from _run(kept, partition, arrivals, routed)


def _run(kept: _Kept, partition: int, arrivals: Arrivals, routed: Any) -> Iterator[Any]:
    number = int(_task().getLocalProperty("streaming.sql.batchId"))  # type: ignore[arg-type]
    set_aside(number)
    shards = kept.shards(partition)
    check_memory(kept.settings.name, resident_bytes(), kept.settings.max_state_bytes)

    def all_routed() -> Iterator[tuple[int, Record]]:
        yield from routed
        kept.go_on()

    with kept.watch.batch(number):
        outputs = shards.process(number, all_routed(), arrivals, kept.behind)
    # Only where a batch follows immediately, which learns what went wrong.
    kept.publish(shards, outputs, behind=kept.settings.is_full(arrivals.messages))
    counted = kept.counted(partition, shards, arrivals)
    kept.note_idle(partition, shards, bool(outputs), counted["events_in"])
    yield pa.record_batch({name: pa.array([value], pa.int64()) for name, value in counted.items()})


def catch_up(
    settings: QuerySettings,
    batches: Iterable[tuple[Sequence[Record], Positions]],
    tick: int,
    closing: bool = False,
) -> list[bytes]:
    """Run the first batches of an owner in this process, of all shards, and return their states after them.

    What they put out, and what earlier owners may not have published, has left when this returns. What is for topics
    that are not there any more is dropped: nobody reads them.

    Parameters
    ----------
    settings : QuerySettings
        Of the shards, which nobody has run.
    batches : iterable
        At least one: the records of each, and where reading goes on after it.
    tick : int
        Their time, ms.
    closing : bool
        Whether nothing is to wait for its turn after the last one.
    """
    kept = _Kept(settings)
    try:
        shards = kept.shards(0)
        left = iter(batches)
        following = next(left, None)
        number = 0
        while following is not None:
            (records, positions), following = following, next(left, None)
            heard = Arrivals()
            heard.apply_control(control_record(tick, positions))
            routed = kept.router.route(records)
            with kept.watch.batch(number):
                outputs = shards.process(number, routed, heard, closing=closing and following is None)
            kept.publish(shards, kept.still_wanted(outputs))
            number += 1
        return shards.snapshots()
    finally:
        kept.close()


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # this runs in a task
    return context
