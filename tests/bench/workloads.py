"""The workloads of ``make bench-engine``: apps, and events that Python and Java draw alike.

Next to each app lies what is sent to it: streams in turn, each field uniform (strings among ``keys`` values, numbers
from ``min`` to ``max``, a ``timestamp`` field the event's own time), ``events_per_second`` of event time. The drawing
is a 64-bit congruential generator, so that the peer (see ``peer/Peer.java``) sends the very same events.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from spdist import check

FOLDER = Path(__file__).parent / "workloads"
START_MS = 1_000_000

_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, 2**64 - 1
_DRAWN = 2.0**-31

#: Stream, timestamp, row.
Event = tuple[str, int, tuple[Any, ...]]


@dataclass(frozen=True)
class Workload:
    """An app and what is sent to it."""

    name: str
    text: str
    streams: tuple[tuple[str, tuple[dict[str, Any], ...]], ...]
    events_per_second: int
    output: str | None
    seed: int

    @staticmethod
    def load(name: str) -> Workload:
        """Read a workload of the folder."""
        spec = json.loads((FOLDER / f"{name}.json").read_text())
        streams = tuple((each["stream"], tuple(each["fields"])) for each in spec["streams"])
        text = (FOLDER / f"{name}.siddhi").read_text()
        return Workload(name, text, streams, spec["events_per_second"], spec.get("output"), spec["seed"])

    def with_keys(self, keys: int) -> Workload:
        """The same with strings among `keys` values."""
        streams = tuple(
            (stream, tuple({**field, "keys": keys} if field["type"] == "string" else field for field in fields))
            for stream, fields in self.streams
        )
        return replace(self, streams=streams)

    def drawn(self) -> Iterator[Event]:
        """Draw events, one after the other."""
        drawn = self.seed
        columns = [(stream, [_drawer(field) for field in fields]) for stream, fields in self.streams]
        for number in count():
            stream, drawers = columns[number % len(columns)]
            time = START_MS + number * 1000 // self.events_per_second
            row = []
            for drawer in drawers:
                drawn = (drawn * _MULTIPLIER + _INCREMENT) & _MASK
                row.append(drawer(drawn >> 33, time))
            yield stream, time, tuple(row)

    @property
    def description(self) -> list[str]:
        """What the peer is told of each stream, such as ``S:symbol=string,100;price=float,0,100``."""
        schemas = check(self.text).streams
        return [f"{id}:" + ";".join(map(_description, schemas[id].names, fields)) for id, fields in self.streams]


def _description(name: str, field: dict[str, Any]) -> str:
    if field.get("timestamp"):
        return f"{name}=timestamp"
    if field["type"] == "string":
        return f"{name}=string,{field['keys']}"
    return f"{name}={field['type']},{field.get('min', 0)},{field.get('max', 100)}"


def _drawer(field: dict[str, Any]) -> Callable[[int, int], Any]:
    """From 31 drawn bits and the event's time to a value."""
    if field.get("timestamp"):
        return lambda _bits, time: time
    if field["type"] == "string":
        names = [f"S{key}" for key in range(field["keys"])]
        return lambda bits, _time: names[bits % len(names)]
    low, high = field.get("min", 0), field.get("max", 100)
    if field["type"] in ("int", "long"):
        return lambda bits, _time: low + bits % (high - low + 1)
    if field["type"] == "double":
        return lambda bits, _time: low + bits * _DRAWN * (high - low)
    narrow = array("f", [0.0])

    def drawn_float(bits: int, _time: int) -> float:
        narrow[0] = low + bits * _DRAWN * (high - low)
        return narrow[0]

    return drawn_float
