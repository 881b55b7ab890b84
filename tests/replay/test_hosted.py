"""Cases as ordinary group instances, fed and read through topics: what comes out is what virtual time gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.island.hosted import build_island
from spdist.engine.local.recorder import silenced
from spdist.mapping.case_values import write_value
from spdist.mapping.columns import EventList, child
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.replay import run_case
from spdist.replay.cases import first_time, read_arrivals
from spdist.replay.files import CaseLine, read_cases
from spdist.replay.prepared import PreparedCase, prepare
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.feed import read_events
from spdist.transports.payloads.payload import Payload
from tests.engine.memory_transport import MemoryTransport

CASES = Path(__file__).parents[1] / "cases"
#: Of each file so many, spread over it.
STRIDE = 10


def lines() -> Iterator[CaseLine]:
    """Cases of events and of nothing but time beside them."""
    for file in sorted(CASES.glob("*.jsonl")):
        for line in list(read_cases(file))[3::STRIDE]:
            one = prepare(line)
            steps = one.case["events"] if isinstance(one, PreparedCase) else ()
            plain = all("advance" in step or "stream" in step for step in steps)
            # What an in-memory sink cannot deliver comes back through a topic, when its batch is over.
            if plain and any("stream" in step for step in steps) and "@sink" not in line.text:
                yield line


class Hosted:
    """A case between topics: one for each stream that it sends to, one of two partitions for each that it watches."""

    def __init__(self, one: PreparedCase) -> None:
        self.one = one
        streams = one.checked.streams
        sent = dict.fromkeys(step["stream"] for step in one.case["events"] if "stream" in step)
        self.watched = [name for name in one.observed if isinstance(name, str) and name in streams]
        outputs = tuple(AssignedOutput(o, (Publishing(Strategy.ALL, 1, f"out.{o}", 2),)) for o in self.watched)
        inputs = tuple(AssignedInput(stream, f"in.{stream}", (0,)) for stream in sent)
        self.assignment = Assignment("c", "c", "c", one.case["app"], True, inputs, outputs)
        self.island = build_island(self.assignment, 0)
        self.transport = MemoryTransport()
        for output in self.watched:
            self.transport.ensure(f"out.{output}", 2)
        self.clock = first_time(one.case)
        self._events = {stream: EventList() for stream in sent}
        self._seq = dict.fromkeys(sent, 0)

    def step(self, number: int, step: dict[str, Any]) -> None:
        if "advance" in step:
            self.clock = max(self.clock, step["advance"])
            return
        arrivals = read_arrivals(step, self.one.checked)
        if arrivals:
            self.clock = max(self.clock, arrivals[-1][0])
        for place, (ts, row) in enumerate(arrivals):
            path = child(b"", place) if len(arrivals) > 1 else b""
            self._events[step["stream"]].add(self.clock, number, path, place, ts, row)

    def batch(self, promises: dict[str, int]) -> None:
        """Process what was sent since the last one; the island goes on elsewhere after that."""
        records = []
        for stream, events in self._events.items():
            payload = Payload(self.one.checked.streams[stream]).encode(events.events()) if len(events) else b""
            promise = promises.get(stream, NO_CLOCK)
            records.append(Record(f"in.{stream}", 0, payload, len(events), "feed", self._seq[stream], promise))
            self._seq[stream] += len(events)
            events.clear()
        put_out = self.island.process(records, 0)
        self.transport.append([record for record in put_out if isinstance(record, Record)])
        state = self.island.snapshot()
        self.island = build_island(self.assignment, 0)
        self.island.restore(state)

    def read(self) -> dict[str, list[Any]]:
        streams = self.one.checked.streams
        found = {name: read_events(self.transport, f"out.{name}", streams[name]) for name in self.watched}
        return {name: [[ts, write_value(row)] for ts, row in seen] for name, seen in found.items()}


@pytest.mark.parametrize("line", [pytest.param(line, id=line.name) for line in lines()])
def test_what_comes_out_is_what_virtual_time_gives(line: CaseLine) -> None:
    one = prepare(line)
    assert isinstance(one, PreparedCase)
    hosted, lot = Hosted(one), random.Random(line.text)
    with silenced():
        hosted.batch(dict.fromkeys(hosted.one.checked.streams, hosted.clock))
        for number, step in enumerate(one.case["events"]):
            hosted.step(number, step)
            if lot.random() < 0.3:
                hosted.batch({stream: hosted.clock for stream in one.checked.streams if lot.random() < 0.5})
        # Events of the last moment have their turn when that is over.
        hosted.batch(dict.fromkeys(one.checked.streams, hosted.clock + 1))
        result = run_case({**one.case, "events": [*one.case["events"], {"advance": hosted.clock + 1}]})
    assert hosted.read() == {
        name: [[event["timestamp"], event["data"]] for event in result["streams"][name]] for name in hosted.watched
    }
