"""What arrives in a task: our records, Kafka's messages, and what both say of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from spdist.engine.spark.source import LogReader, control_record, read_control
from spdist.engine.spark.tasks import Arrivals
from spdist.transports.base import Record
from spdist.transports.kafka.fetching import KafkaReader
from spdist.transports.kafka.record_batches import FetchedMessages
from spdist.transports.payloads.external import is_marked
from spdist.transports.payloads.payload import from_batch, to_batch


class Topics(KafkaReader):
    """Messages without a broker."""

    def __init__(self, messages: dict[str, FetchedMessages]) -> None:
        super().__init__({})
        self.there = messages
        self.asked: list[tuple[str, int, int, int]] = []

    def messages(self, topic: str, partition: int, begin: int, end: int) -> Iterator[FetchedMessages]:
        """Return what is there, whatever is asked for."""
        self.asked.append((topic, partition, begin, end))
        return iter([self.there[f"{topic}/{partition}"]])


def fetched(offset: int, value: bytes, headers: list[tuple[str, bytes | None]], sent: int) -> FetchedMessages:
    columns = (pa.array([one], type) for one, type in ((offset, pa.int64()), (sent, pa.int64()), (value, pa.binary())))
    return FetchedMessages(*columns, headers=[headers])


def batch(tick: int, ends: dict[str, dict[int, int]], ranges: list[tuple[str, int, int, int]], *own: Record) -> Any:
    """What our source hands over."""
    kafka: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    for topic, partition, begin, end in ranges:
        starts, stops = kafka.setdefault(topic, ({}, {}))
        starts[str(partition)], stops[str(partition)] = begin, end
    start = {"kafka": {topic: starts for topic, (starts, _) in kafka.items()}, "topics": {}, "tick": 0}
    logged = {topic: {str(number): end for number, end in parts.items()} for topic, parts in ends.items()}
    end = {"kafka": {topic: stops for topic, (_, stops) in kafka.items()}, "topics": {}, "tick": tick}
    (first,) = LogReader.batches(None, start, end)  # type: ignore[arg-type]  # there is nothing on the log to be read
    if logged:
        first = to_batch([control_record(tick, logged | end["kafka"]), *list(from_batch(first))[1:], *own])
    return first


def said(producer: str, seq: int, count: int, clock: int) -> list[tuple[str, bytes | None]]:
    texts = {"producer": producer, "seq": seq, "count": count, "clock": clock}
    return [(f"spdist-{name}", str(text).encode()) for name, text in texts.items()]


def test_our_source_says_where_the_batch_ends() -> None:
    arrivals, record = Arrivals(), Record("A.S", 0, b"x", 1, "f", 3, 9, 7)
    assert list(arrivals.records([to_batch([control_record(50, {"A.S": {0: 8}}), record])])) == [record]
    assert (arrivals.tick, arrivals.positions) == (50, {"A.S": {0: 8}})


def test_messages_are_fetched_as_it_says() -> None:
    kafka = Topics(
        {"A.S/1": fetched(11, b"payload", said("g", 5, 2, 77), 60), "A.S/0": fetched(4, b'{"event": {}}', [], 60)}
    )
    arrivals, own = Arrivals(kafka=kafka), Record("A.Log", 0, b"x", 1, "f", 3, 9, 2)
    ranges = [("A.S", 1, 7, 14), ("A.S", 0, 4, 5)]
    ours, theirs, logged = arrivals.records([batch(90, {"A.Log": {0: 3}}, ranges, own)])
    assert kafka.asked == ranges
    assert logged == own
    assert ours == Record("A.S", 1, b"payload", 2, "g", 5, 77, 11)
    assert (theirs.producer, theirs.count, theirs.offset) == ("", 1, 4)
    assert is_marked(theirs.value)
    assert arrivals.messages == {"A.S": 2}
    # Also where the last offsets are marks of transactions.
    assert arrivals.positions == {"A.Log": {0: 3}, "A.S": {1: 14, 0: 5}}
    assert read_control(arrivals.control()) == (90, arrivals.positions)


def test_what_several_tasks_heard_is_put_together() -> None:
    left, right = Arrivals(kafka=Topics({"A.S/0": fetched(1, b"", said("g", 0, 0, 5), 1)})), Arrivals()
    list(left.records([batch(70, {}, [("A.S", 0, 0, 2)])]))
    right.apply_control(left.control())
    right.apply_control(control_record(60, {"A.S": {0: 1, 1: 4}}))
    assert (right.tick, right.positions) == (70, {"A.S": {0: 2, 1: 4}})


def test_messages_of_the_next_partition_are_asked_for_before_those_of_one_are_read() -> None:
    topics = Topics({f"A.S/{number}": fetched(4, b"x", said("f", 1, 1, 5), 7) for number in range(3)})
    arrivals = Arrivals(kafka=topics)
    records = arrivals.records([batch(50, {}, [("A.S", number, 4, 5) for number in range(3)])])
    assert next(records).partition == 0
    assert [partition for _, partition, *_ in topics.asked] == [0, 1]
    assert [record.partition for record in records] == [1, 2]
    assert arrivals.positions == {"A.S": {0: 5, 1: 5, 2: 5}}
