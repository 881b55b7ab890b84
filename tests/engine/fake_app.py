"""An app small enough to see through, with what an island must get right: sums, chunks, timers, old timestamps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spdist.engine.island.island import Island
from spdist.engine.shards.layout import ShardLayout, keep_assignment
from spdist.engine.shards.state import Positions, state_directory
from spdist.engine.spark.source import control_record
from spdist.engine.spark.tasks import Arrivals
from spdist.language.types import Schema
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.junction import StreamPart
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.transports.delivery import Delivery

Chunk = Sequence[tuple[int, tuple[Any, ...]]]

SCHEMA = Schema.of([("key", "string"), ("value", "long")])
SCHEMAS = {"A": SCHEMA, "B": SCHEMA, "Out": SCHEMA}
DELAY = 30


class FakeApp:
    """Puts out the running total with each event, and after 30 ms without news of a key that it was quiet.

    Every second event of stream B releases both as one chunk with their own, older timestamps, as a batch window does.
    """

    def __init__(self) -> None:
        self.clock = -(2**63)
        self.total = 0
        self.began: int | None = None
        self.timers: list[tuple[int, str]] = []
        self.waiting: list[tuple[int, tuple[Any, ...]]] = []
        self._out: list[Callable[[Chunk], None]] = []

    @property
    def next_timer(self) -> int | None:
        return self.timers[0][0] if self.timers else None

    def start(self, now_ms: int) -> None:
        self.clock = self.began = now_ms

    def begin(self, batch: Any) -> None:
        """Nothing is kept outside."""

    def commit(self) -> None:
        """Nothing is kept outside."""

    def stop(self) -> None:
        """Nothing is kept outside."""

    def advance(self, to_ms: int) -> None:
        while self.timers and self.timers[0][0] <= to_ms:
            due, key = self.timers.pop(0)
            self.clock = max(self.clock, due)
            self._put([(due, (f"quiet {key}", self.total))])
        self.clock = max(self.clock, to_ms)

    def deliver(self, parts: Mapping[str, StreamPart], around: Any = lambda times, move: (iter(times), move)) -> None:
        chunks = sorted(
            (rank, stream, at, until, chunk)
            for stream, part in parts.items()
            for rank, at, until, chunk in zip(
                part.ranks.tolist(),
                part.times.tolist(),
                (part.times if part.until is None else part.until).tolist(),
                part.chunks(),
                strict=True,
            )
        )
        times, move = around([at for _, _, at, _, _ in chunks], self.advance)
        for (_, stream, _, until, chunk), at in zip(chunks, times, strict=True):
            if self.timers and self.timers[0][0] <= until:
                move(until)
            self.clock = max(self.clock, at)
            self._process(stream, chunk)

    def _process(self, stream: str, arrivals: Chunk) -> None:
        for ts, (key, value) in arrivals:
            self.total += value
            self.timers = sorted([t for t in self.timers if t[1] != key] + [(self.clock + DELAY, key)])
            if stream == "A":
                self._put([(ts, (f"{key}", self.total))])
            else:
                self.waiting.append((ts, (f"{key} of {len(arrivals)}", self.total)))
        if len(self.waiting) >= 2:
            waiting, self.waiting = self.waiting, []
            self._put(waiting)

    def take_deliveries(self) -> list[Delivery]:
        return []

    def subscribe_each(
        self,
        stream: str,
        receive: Callable[[int, tuple[Any, ...]], None],
        receive_chunk: Callable[[Chunk], None],
        receive_columns: Any = None,
    ) -> None:
        assert stream == "Out"
        self._out.append(lambda chunk: receive_chunk(chunk) if len(chunk) > 1 else receive(*chunk[0]))

    def snapshot(self) -> bytes:
        return encode([self.clock, self.total, self.began, self.timers, self.waiting])

    def restore(self, data: bytes) -> None:
        self.clock, self.total, self.began, timers, waiting = decode(data)
        self.timers = [(due, key) for due, key in timers]
        self.waiting = [(ts, row) for ts, row in waiting]

    def _put(self, arrivals: Chunk) -> None:
        for callback in self._out:
            callback(arrivals)


def assignment(
    *inputs: AssignedInput, playback: bool = True, name: str = "App-g-1", outputs: tuple[Publishing, ...] | None = None
) -> Assignment:
    if outputs is None:
        outputs = (Publishing(Strategy.ROUND_ROBIN, 2, "App.Out", 2),)
    return Assignment(name, "App", "App-g", "", playback, inputs, (AssignedOutput("Out", outputs),))


def island(*inputs: AssignedInput, merge_wait_ms: int = 100, **options: Any) -> Island:
    return Island(assignment(*inputs, **options), FakeApp(), SCHEMAS, merge_wait_ms=merge_wait_ms)


def heard(positions: Positions) -> Arrivals:
    """What is known of a batch that ends at `positions`."""
    said = Arrivals()
    said.apply_control(control_record(0, positions))
    return said


def say_who_runs(location: Path, name: str) -> None:
    """Keep in the state of an instance which assignment makes it, as whoever runs it does first."""
    keep_assignment(ShardLayout(state_directory(location, name), ".", 1), assignment(name=name))
