"""What goes in through a feed comes out in its order, once, and with the promises that let readers go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spdist.errors import MappingError, TransportError
from spdist.language.types import Schema
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport
from spdist.transports.payloads.external import mark
from spdist.transports.payloads.payload import Payload
from spdist.transports.routing import key_partition

SCHEMA = Schema.of([("symbol", "string"), ("price", "double")])


@pytest.fixture
def log(tmp_path: Path) -> LogTransport:
    log = LogTransport(tmp_path)
    log.ensure("A.S", 3)
    return log


def rows(count: int, start: int = 0) -> list[tuple[int, tuple[Any, ...]]]:
    return [(1000 + n, (f"s{n % 5}", float(n))) for n in range(start, start + count)]


def test_events_come_out_in_the_order_in_which_they_were_sent(log: LogTransport) -> None:
    feed = Feed(log, "A.S", SCHEMA)
    assert feed.send(rows(10)) == 10
    feed.send([(1009, ("same time", 0.5)), (1009, ("and again", 1))])
    assert read_events(log, "A.S", SCHEMA) == [*rows(10), (1009, ("same time", 0.5)), (1009, ("and again", 1.0))]


def test_round_robin_goes_on_from_one_send_to_the_next(log: LogTransport) -> None:
    feed = Feed(log, "A.S", SCHEMA)
    feed.send(rows(2))
    feed.send(rows(5, 2))
    held = {p: [row[1] for r in log.read("A.S", p, 0) if r.count for row in Payload(SCHEMA).decode(r.value).rows]
            for p in range(3)}  # fmt: skip
    assert held == {0: [0.0, 3.0, 6.0], 1: [1.0, 4.0], 2: [2.0, 5.0]}


def test_by_key_all_events_of_a_key_are_in_its_partition(log: LogTransport) -> None:
    Feed(log, "A.S", SCHEMA, key="symbol").send(rows(50))
    for partition in range(3):
        keys = {
            row[0] for r in log.read("A.S", partition, 0) if r.count for row in Payload(SCHEMA).decode(r.value).rows
        }
        assert {key_partition(key, 3) for key in keys} <= {partition}


def test_every_partition_learns_when_time_begins_and_how_far_it_has_come(log: LogTransport) -> None:
    feed = Feed(log, "A.S", SCHEMA, producer="f")
    feed.send(rows(2))
    feed.advance(5000)
    feed.advance(4000)
    clocks = {p: [(r.count, r.seq, r.clock) for r in log.read("A.S", p, 0)] for p in range(3)}
    assert clocks == {
        0: [(0, 0, 1000), (1, 0, 1001), (0, 1, 5000)],
        1: [(0, 0, 1000), (1, 0, 1001), (0, 1, 5000)],
        2: [(0, 0, 1000), (0, 0, 1001), (0, 0, 5000)],
    }


def test_an_old_event_keeps_its_timestamp_and_is_put_out_when_its_turn_has_come(log: LogTransport) -> None:
    feed = Feed(log, "A.S", SCHEMA)
    feed.send([(5000, ("a", 1.0))])
    feed.send([(4000, ("late", 2.0)), (6000, ("b", 3.0))])
    assert read_events(log, "A.S", SCHEMA) == [(5000, ("a", 1.0)), (4000, ("late", 2.0)), (6000, ("b", 3.0))]


def test_a_feed_started_again_under_its_name_adds_nothing_twice(log: LogTransport) -> None:
    Feed(log, "A.S", SCHEMA, producer="f").send(rows(10))
    again = Feed(log, "A.S", SCHEMA, producer="f")
    again.send(rows(10))
    again.send(rows(5, 10))
    assert read_events(log, "A.S", SCHEMA) == rows(15)


def test_a_repeat_packed_in_another_way_is_still_dropped(log: LogTransport) -> None:
    feed = Feed(log, "A.S", SCHEMA, producer="f", key="symbol")
    feed.send([(1000 + n, ("k", float(n))) for n in range(4)])
    again = Feed(log, "A.S", SCHEMA, producer="f", key="symbol")
    again.send([(1000 + n, ("k", float(n))) for n in range(6)])
    assert [row[1] for _, row in read_events(log, "A.S", SCHEMA)] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ((1000, ("a",)), "has 1 values, the stream has 2"),
        ((1000, (5, 1.0)), "symbol is of type string, 5 is not"),
        ((1000, ("a", "1.0")), "price is of type double, '1.0' is not"),
        ((1000, ("a", True)), "price is of type double, True is not"),
        ((1.5, ("a", 1.0)), "1.5 is no timestamp"),
        ((NO_CLOCK, ("a", 1.0)), "is no timestamp"),
    ],
)
def test_an_event_that_does_not_fit_is_refused_and_nothing_of_its_batch_is_sent(
    log: LogTransport, event: Any, message: str
) -> None:
    with pytest.raises(MappingError, match=message):
        Feed(log, "A.S", SCHEMA).send([(1000, ("fine", 1.0)), event])
    assert log.end_offsets("A.S") == {0: 0, 1: 0, 2: 0}


def test_numbers_are_made_what_the_stream_declares(log: LogTransport) -> None:
    schema = Schema.of([("f", "float"), ("d", "double"), ("i", "int"), ("o", "object")])
    log.ensure("N", 1)
    feed = Feed(log, "N", schema)
    feed.send([(1, (0.1, 2, 3, (1, 2))), (2, (None, None, None, None))])
    ((_, (f, d, i, o)), _) = read_events(log, "N", schema)
    assert (f, d, i, o) == (0.10000000149011612, 2.0, 3, (1, 2))
    assert type(d) is float
    with pytest.raises(MappingError, match="i is of type int, 2147483648 is not"):
        feed.send([(3, (0.0, 0.0, 2**31, None))])


def test_a_topic_or_a_key_that_is_not_there_is_named(log: LogTransport) -> None:
    with pytest.raises(TransportError, match="no topic 'Nope'"):
        Feed(log, "Nope", SCHEMA)
    with pytest.raises(MappingError, match="key 'volume' is no attribute"):
        Feed(log, "A.S", SCHEMA, key="volume")


def test_a_topic_of_another_stream_cannot_be_read_as_this_one(log: LogTransport) -> None:
    log.append([Record("A.S", 0, b"junk", 1, "x")])
    with pytest.raises(MappingError):
        read_events(log, "A.S", SCHEMA)


def test_all_events_of_a_payload_of_outsiders_are_read(log: LogTransport) -> None:
    payload = b'[{"event": {"symbol": "a", "price": 1.0}}, {"event": {"symbol": "b", "price": 2.0}}]'
    log.append([Record("A.S", 0, mark(payload, 1000, 0), 1)])
    assert [row for _, row in read_events(log, "A.S", SCHEMA)] == [("a", 1.0), ("b", 2.0)]


def test_a_feed_shows_how_far_it_has_come_and_what_it_has_promised(log: LogTransport) -> None:
    feed = Feed(log, "A.S", SCHEMA, producer="mine")
    assert repr(feed) == "Feed(A.S with 3 partitions: 0 events as mine)"
    assert "will follow" not in feed._repr_html_()
    feed.send(rows(2_000))
    assert repr(feed) == "Feed(A.S with 3 partitions: 2,000 events as mine)"
    assert "nothing older than 1970-01-01 00:00:02.999 (UTC) will follow" in feed._repr_html_()
