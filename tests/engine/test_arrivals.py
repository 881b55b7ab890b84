"""What arrives in a task: our records, Kafka's messages, and what both say of the batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spdist.engine.arrivals import Arrivals
from spdist.engine.columns import to_batch
from spdist.engine.source import control_record, read_control
from spdist.transports.base import Record
from spdist.transports.outside import is_marked

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def wide(records: list[Record], headers: list[Any], sent: int | None, batch_time: int | None) -> Any:
    """Rows as Spark brings them from Kafka; without a time of the batch they are ours."""
    batch = to_batch(records)
    beside = {
        "headers": pa.array(headers, pa.list_(HEADER)),
        "sent": pa.array([sent] * len(records), pa.int64()),
        "batch_time": pa.array([batch_time] * len(records), pa.int64()),
    }
    return pa.record_batch([*batch.columns, *beside.values()], names=[*batch.schema.names, *beside])


def said(producer: str, seq: int, count: int, clock: int) -> list[dict[str, Any]]:
    texts = {"producer": producer, "seq": seq, "count": count, "clock": clock}
    return [{"key": f"spdist-{name}", "value": str(text).encode()} for name, text in texts.items()]


def test_our_source_says_where_the_batch_ends() -> None:
    arrivals, record = Arrivals(), Record("A.S", 0, b"x", 1, "f", 3, 9, 7)
    assert list(arrivals.records([to_batch([control_record(50, {"A.S": {0: 8}}), record])])) == [record]
    assert (arrivals.tick, arrivals.positions) == (50, {"A.S": {0: 8}})


def test_messages_say_it_themselves_beside_a_control_record() -> None:
    arrivals = Arrivals()
    control = wide([control_record(40, {"A.Log": {0: 3}})], [None], None, None)
    message = Record("A.S", 1, b"payload", 0, offset=11)
    outsider = Record("A.S", 0, b'{"event": {}}', 0, offset=4)
    kafka = wide([message, outsider], [said("g", 5, 2, 77), None], 60, 90)
    ours, theirs = arrivals.records([control, kafka])
    assert ours == Record("A.S", 1, b"payload", 2, "g", 5, 77, 11)
    assert (theirs.producer, theirs.count, theirs.offset) == ("", 1, 4)
    assert is_marked(theirs.value)
    assert arrivals.tick == 90
    assert arrivals.positions == {"A.Log": {0: 3}, "A.S": {1: 12, 0: 5}}
    assert read_control(arrivals.control()) == (90, arrivals.positions)


def test_what_several_tasks_heard_is_put_together() -> None:
    left, right = Arrivals(), Arrivals()
    list(left.records([wide([Record("A.S", 0, b"", 0, offset=1)], [said("g", 0, 0, 5)], 1, 70)]))
    right.hear(left.control())
    right.hear(control_record(60, {"A.S": {0: 1, 1: 4}}))
    assert (right.tick, right.positions) == (70, {"A.S": {0: 2, 1: 4}})
