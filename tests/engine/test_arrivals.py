"""What arrives in a task: our records, Kafka's messages, and what both say of the batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spdist.engine.shards.columns import to_batch
from spdist.engine.spark.arrivals import Arrivals
from spdist.engine.spark.source import control_record, read_control
from spdist.transports.base import Record
from spdist.transports.payloads.arrow_bytes import arrow_bytes
from spdist.transports.payloads.outside import is_marked

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def wide(records: list[Record], headers: list[Any], sent: int, batch_time: int) -> Any:
    """Messages as Spark brings them from Kafka."""
    columns = {name: to_batch(records).column(name) for name in ("topic", "partition", "offset", "value")}
    count = len(records)
    return pa.record_batch(
        columns
        | {
            "sent": pa.array([sent] * count, pa.int64()),
            "batch_time": pa.array([batch_time] * count, pa.int64()),
            "headers": pa.array(headers, pa.list_(HEADER)),
        }
    )


def beside_kafka(records: list[Record]) -> Any:
    """Records of ours as they come beside messages: as one row that has only a value."""
    row = wide([Record("", 0, arrow_bytes(to_batch(records)), 0)], [None], 0, 0)
    return pa.record_batch(
        {
            name: row.column(name) if name == "value" else pa.nulls(1, row.schema.field(name).type)
            for name in row.schema.names
        }
    )


def said(producer: str, seq: int, count: int, clock: int) -> list[dict[str, Any]]:
    texts = {"producer": producer, "seq": seq, "count": count, "clock": clock}
    return [{"key": f"spdist-{name}", "value": str(text).encode()} for name, text in texts.items()]


def test_our_source_says_where_the_batch_ends() -> None:
    arrivals, record = Arrivals(), Record("A.S", 0, b"x", 1, "f", 3, 9, 7)
    assert list(arrivals.records([to_batch([control_record(50, {"A.S": {0: 8}}), record])])) == [record]
    assert (arrivals.tick, arrivals.positions) == (50, {"A.S": {0: 8}})


def test_messages_say_it_themselves_beside_a_control_record() -> None:
    arrivals = Arrivals()
    own = Record("A.Log", 0, b"x", 1, "f", 3, 9, 2)
    control = beside_kafka([control_record(40, {"A.Log": {0: 3}}), own])
    message = Record("A.S", 1, b"payload", 0, offset=11)
    outsider = Record("A.S", 0, b'{"event": {}}', 0, offset=4)
    kafka = wide([message, outsider], [said("g", 5, 2, 77), None], 60, 90)
    logged, ours, theirs = arrivals.records([control, kafka])
    assert logged == own
    assert ours == Record("A.S", 1, b"payload", 2, "g", 5, 77, 11)
    assert (theirs.producer, theirs.count, theirs.offset) == ("", 1, 4)
    assert is_marked(theirs.value)
    assert arrivals.tick == 90
    assert arrivals.positions == {"A.Log": {0: 3}, "A.S": {1: 12, 0: 5}}
    assert read_control(arrivals.control()) == (90, arrivals.positions)


def test_what_several_tasks_heard_is_put_together() -> None:
    left, right = Arrivals(), Arrivals()
    list(left.records([wide([Record("A.S", 0, b"", 0, offset=1)], [said("g", 0, 0, 5)], 1, 70)]))
    right.apply_control(left.control())
    right.apply_control(control_record(60, {"A.S": {0: 1, 1: 4}}))
    assert (right.tick, right.positions) == (70, {"A.S": {0: 2, 1: 4}})
