"""A case as a group instance and its input: what it reads, and the records of its steps in one order. Values only.

Many cases share the topics: each has a partition of its own in them. The first topic brings commands, each other one
the events of one stream; which stream that is differs from case to case.

Steps keep their order whatever topic they come through: each event bears the clock where the script is, and the number
of its step. Both grow from step to step, so the merge of the case's island has but one order to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from spdist.engine.island.scripted import FIRST_ORDER
from spdist.engine.local.recorder import error_of
from spdist.errors import StateError
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Schema
from spdist.mapping.columns import EventList, child
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.replay.cases import Case, first_time, read_arrivals, time_zone_of
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.commands import ANSWERS, SCHEMAS, SCRIPT, text_row
from spdist.transports.payloads.payload import Payload

__all__ = ["CasePlace", "Topics", "Work", "make_work"]

#: What the end of a script promises: nothing follows.
_END_OF_TIME = 2**62
_PRODUCER = "script"
#: No path is lower; of equal ones that of the command goes first.
_FIRST_PATH = child(b"", 0)


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of the topics that the cases of one run share.

    Parameters
    ----------
    prefix : str
        What the names begin with.
    """

    prefix: str

    @property
    def commands(self) -> str:
        """Where commands go."""
        return f"{self.prefix}.commands"

    @property
    def answers(self) -> str:
        """Where all answers come out."""
        return f"{self.prefix}.answers"

    def events(self, number: int) -> str:
        """Return where the events of the case's stream `number` go, from 0."""
        return f"{self.prefix}.events.{number}"


@dataclass(frozen=True, slots=True)
class Work:
    """What a case is to the cluster.

    Parameters
    ----------
    assignment : Assignment
        The group instance.
    parts : tuple of tuple of Record
        Its input, cut into so many parts, each to be appended before the next one.
    """

    assignment: Assignment
    parts: tuple[tuple[Record, ...], ...]


@dataclass(frozen=True, slots=True)
class CasePlace:
    """Where a case runs, and how.

    Parameters
    ----------
    topics : Topics
        What it shares.
    name : str
        Of its group instance.
    partition : int
        Its own, in the topics.
    shards : int
        Into how many it is split by key; 1 where it is not.
    parts : int
        Into how many parts its input is cut, at places that depend on the case's name and text alone.
    limit_s : float
        The time that it may take.
    """

    topics: Topics
    name: str
    partition: int
    shards: int = 1
    parts: int = 3
    limit_s: float = 60.0


def make_work(case: Case, checked: CheckedApp, observed: Any, place: CasePlace) -> Work:
    """Return what is to be run and fed for a case.

    Parameters
    ----------
    case : mapping
        See `spdist.replay.cases`.
    checked : CheckedApp
        Its app.
    observed : sequence
        See `spdist.engine.local.recorder.observed_of`.
    place : CasePlace
        Where.

    Raises
    ------
    TypeError, ValueError, KeyError
        The case's first step is none.
    """
    inputs = _inputs(case, checked, place.topics, place.partition)
    start = first_time(case)
    # From the case itself: it is cut at the same places in each run.
    random = Random(f"{case.get('name')} {case['app']}")
    begin = {"start": start, "observe": list(observed), "timeZone": time_zone_of(case), "limitS": place.limit_s}
    writer = _StepWriter(inputs, {**checked.streams, **SCHEMAS}, random, start)
    writer.command(FIRST_ORDER, begin)
    steps = list(case.get("events", []))
    # Up to `len(steps)`, where the end of the script stands: so there are exactly so many parts.
    cuts = sorted(random.randrange(len(steps) + 1) for _ in range(place.parts - 1))
    made: list[tuple[Record, ...]] = []
    for number, step in enumerate([*steps, {"end": True}]):
        while cuts and cuts[0] == number:
            cuts.pop(0)
            made.append(tuple(writer.part()))
        _write_step(writer, FIRST_ORDER + 1 + number, step, checked, place.shards > 1)
    made.append(tuple(writer.part(last=True)))
    outputs = (AssignedOutput(ANSWERS, (Publishing(Strategy.ALL, 1, place.topics.answers, 1),)),)
    name = place.name
    assignment = Assignment(name, name, name, case["app"], True, tuple(inputs), outputs, shards=place.shards)
    return Work(assignment, tuple(made))


def _inputs(case: Case, checked: CheckedApp, topics: Topics, partition: int) -> list[AssignedInput]:
    streams = dict.fromkeys(step["stream"] for step in case.get("events", []) if "stream" in step)
    # A stream that the app lacks has no topic: its step is written as a command that fails.
    known = [stream for stream in streams if stream in checked.streams]
    commands = AssignedInput(SCRIPT, topics.commands, (partition,))
    return [commands, *(AssignedInput(stream, topics.events(n), (partition,)) for n, stream in enumerate(known))]


def _write_step(writer: _StepWriter, order: int, step: Mapping[str, Any], checked: CheckedApp, split: bool) -> None:
    """Write a step; one that cannot be read fails when its turn has come."""
    try:
        if "stream" in step:
            arrivals = read_arrivals(step, checked)
            if split and arrivals:
                writer.time(order, arrivals[-1][0])
            writer.events(order, step["stream"], arrivals)
        else:
            writer.command(order, step)
    except Exception as error:
        writer.command(order, {"failed": error_of(error)})


@dataclass(slots=True)
class _ScriptInput:
    """One input: what waits to be a record, and the number of the next event."""

    topic: str
    partition: int
    payload: Payload
    seq: int = 0
    events: EventList = field(default_factory=EventList)


class _StepWriter:
    """Writes the steps of a script as records.

    State
    -----
    The clock where the script is, and the events since the last cut.
    """

    def __init__(
        self, inputs: Sequence[AssignedInput], schemas: Mapping[str, Schema], random: Random, start: int
    ) -> None:
        self._clock = start
        self._random = random
        self._channels = {
            assigned.stream: _ScriptInput(assigned.topic, assigned.partitions[0], Payload(schemas[assigned.stream]))
            for assigned in inputs
        }

    def command(self, order: int, command: Mapping[str, Any]) -> None:
        """Write a command."""
        if "advance" in command:
            self._clock = max(self._clock, command["advance"])
        self._channels[SCRIPT].events.add(self._clock, order, b"", 0, self._clock, text_row(command))

    def time(self, order: int, to_ms: int) -> None:
        """Write that time passes for a step, ahead of its events, of which only one shard gets each."""
        self._clock = max(self._clock, to_ms)
        command = text_row({"time": to_ms})
        self._channels[SCRIPT].events.add(self._clock, order, _FIRST_PATH, 0, self._clock, command)

    def events(self, order: int, stream: str, arrivals: Any) -> None:
        """Write the events of a step, several as one chunk."""
        if not arrivals:
            return
        if stream not in self._channels:
            raise StateError(f"there is no topic for the stream {stream}")
        self._clock = max(self._clock, arrivals[-1][0])
        events = self._channels[stream].events
        for number, (ts, row) in enumerate(arrivals):
            path = child(b"", number) if len(arrivals) > 1 else b""
            events.add(self._clock, order, path, number, ts, row)

    def part(self, last: bool = False) -> Iterator[Record]:
        """Yield the records since the last cut.

        At a cut some channels, drawn by lot, tell how far the clock is, and some do not, as with feeds in real life.
        """
        for channel in self._channels.values():
            promise = _END_OF_TIME if last else self._clock if self._random.random() < 0.5 else NO_CLOCK
            value = channel.payload.encode(channel.events.events()) if len(channel.events) else b""
            count = len(channel.events)
            if count or promise != NO_CLOCK:
                yield Record(channel.topic, channel.partition, value, count, _PRODUCER, channel.seq, promise)
            channel.seq += count
            channel.events.clear()
