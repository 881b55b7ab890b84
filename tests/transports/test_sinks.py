"""Sending what sinks put out: order, retries, and what becomes of what nobody takes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spdist.connectors import sending as module
from spdist.connectors.memory.sink import InMemorySink, in_memory_topic, read_in_memory
from spdist.connectors.sending import SendError, SinkContext, Sinks
from spdist.errors import AppValidationError, TransportError
from spdist.language.types import Schema
from spdist.mapping.passing import ChunkPayload as Passed
from spdist.transports.delivery import Deliveries, Delivery
from spdist.transports.errors import read_errors
from spdist.transports.feed import read_events
from spdist.transports.log import LogTransport
from spdist.transports.rejects import fault_topic

FAULTS = Schema.of([("k", "string"), ("_error", "object")])


def delivery(seq: int, payload: Any = "x", kind: str = "file", producer: str = "App-1", **options: str) -> Delivery:
    written = {key.replace("_", "."): value for key, value in options.items()}
    return Delivery(kind, 0, 0, "S", written, payload, producer, seq, ((seq, (str(payload),)),))


class Picky:
    """Refuses what `refusals` says, so many times or for ever, and takes the rest."""

    def __init__(self, refusals: dict[int, int], lasting: bool = False) -> None:
        self.refusals = refusals
        self.lasting = lasting
        self.taken: list[int] = []
        self.calls = 0

    def send(self, deliveries: Sequence[Delivery]) -> None:
        self.calls += 1
        for done, one in enumerate(deliveries):
            if self.refusals.get(one.seq, 0) > 0:
                self.refusals[one.seq] -= 1
                raise SendError(f"no {one.seq}", done, self.lasting)
            self.taken.append(one.seq)

    def close(self) -> None:
        pass


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogTransport]:
    transport = LogTransport(tmp_path / "log")
    yield transport
    transport.close()


class Sending(Sinks):
    """Sends through `sink`, and waits for nothing."""

    def __init__(self, sink: Any, transport: LogTransport, stop_after: int = 10**9) -> None:
        self.told: list[str | None] = []
        self.pauses = 0
        self.longest_s = 0.0
        context = SinkContext(
            "App", transport, {"!S": FAULTS}, repr, lambda: self.pauses > stop_after, self.told.append
        )
        super().__init__(context)
        self._open[0, 0] = sink

    def _pause(self, seconds: float) -> None:
        self.pauses += 1
        self.longest_s = max(self.longest_s, seconds)
        super()._pause(1e-9)


def test_what_fails_for_a_while_is_sent_once_and_in_order(log: LogTransport) -> None:
    sink = Picky({1: 3, 2: 4, 4: 2})
    sending = Sending(sink, log)
    sending.send([delivery(seq) for seq in range(6)])
    assert sink.taken == [0, 1, 2, 3, 4, 5]
    assert sending.told[-1] is None
    assert "waits: no 1" in str(sending.told[0])


def test_log_drops_after_some_tries_and_says_so(log: LogTransport, caplog: pytest.LogCaptureFixture) -> None:
    sink = Picky({0: 99, 1: 99, 2: 99})
    sending = Sending(sink, log)
    with caplog.at_level(logging.ERROR):
        sending.send([delivery(seq) for seq in range(4)])
    assert sink.taken == [3]
    # The first is tried for a while; once nobody takes anything the others are tried once.
    assert 99 - sink.refusals[0] == module._TRIES
    assert 99 - sink.refusals[1] == 1
    assert next(r.getMessage() for r in caplog.records if r.levelno == logging.ERROR) == (
        "dropping delivery App-1:0 of the @sink of stream 'S' (file): no 0"
    )


def test_what_is_refused_for_good_is_not_tried_again_even_where_one_would_wait(log: LogTransport) -> None:
    sink = Picky({0: 99, 2: 99}, lasting=True)
    Sending(sink, log).send([delivery(seq, on_error="WAIT") for seq in range(4)])
    assert (sink.taken, sink.refusals) == ([1, 3], {0: 98, 2: 98})


def test_wait_goes_on_until_it_is_taken_or_stopped(log: LogTransport) -> None:
    sink = Picky({0: 40})
    sending = Sending(sink, log)
    sending.send([delivery(0, on_error="wait")])
    assert sink.taken == [0]
    assert sending.longest_s <= 3.0, "a receiver that has failed over is not kept waiting"
    with pytest.raises(TransportError, match="was stopped while a sink waited"):
        Sending(Picky({0: 99}), log, stop_after=7).send([delivery(0, on_error="WAIT")])


def test_stream_brings_the_events_back_through_a_topic_once(log: LogTransport) -> None:
    topic = fault_topic("App", "S")
    log.ensure(topic, 1)
    for _ in range(2):
        Sending(Picky({1: 99}, lasting=True), log).send([delivery(seq, f"p{seq}", on_error="STREAM") for seq in (0, 1)])
    assert read_events(log, topic, FAULTS) == [(1, ("p1", repr(SendError("no 1"))))]
    # An app without the fault stream has it as LOG.
    other = SinkContext("Other", log, {})
    sending = Sinks(other)
    sending._open[0, 0] = Picky({0: 1}, lasting=True)
    sending.send([delivery(0, on_error="STREAM")])


def test_store_keeps_the_events(log: LogTransport) -> None:
    Sending(Picky({0: 9}, lasting=True), log).send([delivery(0, "p", on_error="STORE")])
    # Kept again after a failure it is there once.
    Sending(Picky({0: 9}, lasting=True), log).send([delivery(0, "p", on_error="STORE")])
    assert read_errors(log, "App") == [{"stream": "S", "origin": "sink", "cause": "no 0", "events": [(0, ("p",))]}]
    assert read_errors(log, "Other") == []


def test_in_memory_topics_reach_other_processes_once_somebody_listens(log: LogTransport) -> None:
    sink = InMemorySink(log)
    payloads = ["text", {"a": 1, "b": None}, Passed([(5, ("x", 1))])]
    sink.send([delivery(0, "lost", "inMemory", topic="t")])
    log.ensure(in_memory_topic("t"), 1)
    sink.send([delivery(n, payload, "inMemory", topic="t") for n, payload in enumerate(payloads, 1)])
    records = log.read(in_memory_topic("t"), 0, 0)
    found = [read_in_memory(record.value) for record in records]
    assert found == payloads
    assert isinstance(found[2], Passed)
    assert [(r.producer, r.seq) for r in records] == [("App-1", 1), ("App-1", 2), ("App-1", 3)]


def test_unknown_types_and_missing_options_are_refused(log: LogTransport) -> None:
    sinks = Sinks(SinkContext("App", log, {}))
    with pytest.raises(TransportError, match="a sink of type 'jms' is not sent from here"):
        sinks.send([delivery(0, kind="jms")])
    with pytest.raises(AppValidationError, match=r"'file\.uri' of the @sink of type 'file' is missing"):
        sinks.send([delivery(0, kind="file")])


def test_what_follows_one_another_is_sent_together_up_to_what_fails(
    log: LogTransport, caplog: pytest.LogCaptureFixture
) -> None:
    def some(first: int, count: int, producer: str = "App-1", on_error: str = "LOG") -> Deliveries:
        return Deliveries("file", 0, 0, "S", {"on.error": on_error}, ["x"] * count, producer, first)

    sink = Picky({})
    sending = Sending(sink, log)
    sending.send([some(0, 2), some(2, 1), some(3, 3)])
    assert (sink.taken, sink.calls) == ([0, 1, 2, 3, 4, 5], 1)
    sending.send([some(6, 1), some(8, 1), some(9, 1, "App-2"), some(10, 1, "App-2"), delivery(11), delivery(13)])
    sending.send([some(14, 1), some(15, 1, on_error="WAIT")])
    assert (sink.taken[6:], sink.calls) == ([6, 8, 9, 10, 11, 13, 14, 15], 7)
    sink.refusals[18] = 99
    with caplog.at_level(logging.ERROR):
        sending.send([some(16, 2), some(18, 2), some(20, 2)])
    assert sink.taken[14:] == [16, 17, 19, 20, 21]
    assert "dropping delivery App-1#0:18 " in caplog.text
