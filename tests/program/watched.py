"""Apps whose results are seen, run by their operators or by their program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any
from unittest.mock import patch

import numpy

from spdist.engine.island.hosted import HostedApp
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.base import Arrival
from spdist.operators.core.junction import NO_TIMER, StreamPart
from spdist.program.machine.compiler import Compiled, Compiling
from spdist.program.parts import Program
from tests.engine.one_chunk import deliver_now
from tests.program.program_names import unknown_names

#: A stream, and what is put out to it as one chunk.
Chunk = tuple[str, list[Arrival]]


class Watched:
    """An app between topics, with what it puts out; one with a program is run by that."""

    def __init__(
        self, checked: CheckedApp, compiled: Callable[[Program], Compiled] | None = None, zone: str = "GMT"
    ) -> None:
        self.app = HostedApp(checked, time_zone=zone, delivers=False)
        self.chunks: list[Chunk] = []
        self._compiled = compiled
        self._received: list[tuple[tuple[int, bool, int, int], Chunk]] = []
        self._stamps: Sequence[int] = ()
        for stream in checked.streams:
            if stream.startswith("Out"):
                self._subscribe(stream)
        if compiled is not None:
            self.app.compiles()

    def _subscribe(self, stream: str) -> None:
        def one(timestamp: int, row: Any) -> None:
            self.chunks.append((stream, [(timestamp, row)]))

        def many(arrivals: Sequence[Arrival]) -> None:
            self.chunks.append((stream, list(arrivals)))

        def columns(rows: Any, bounds: Any, causes: Any, stamps: Any, numbers: Any = None, due: Any = None) -> None:
            made, ends = list(rows), bounds.tolist()
            fired = [NO_TIMER] * len(causes) if due is None else due.tolist()
            for cause, time, begin, end in zip(causes.tolist(), fired, ends, ends[1:], strict=False):
                times = [self._stamps[cause]] * (end - begin) if stamps is None else stamps[begin:end].tolist()
                chunk = list(zip(times, made[begin:end], strict=True))
                # What timers put out comes before what the event does.
                number = 0 if numbers is None else int(numbers[begin])
                self._received.append(((cause, time == NO_TIMER, time, number), (stream, chunk)))

        self.app.subscribe_each(stream, one, many, columns)

    def begin(self) -> None:
        """Let the program run the app, where there is to be one."""
        if self._compiled is not None:
            assert self.app.programmed is not None
            self.app.programmed.begin(self._found())

    def restore(self, state: bytes, directly: bool) -> None:
        """Go on from a state; a program is there already where `directly`, and begins later where not."""
        if self._compiled is None or not directly:
            self.app.restore(state)
            self.begin()
            return
        found = self._found()
        with patch.object(Compiling, "loaded", lambda _: found), patch.object(Compiling, "ready", lambda _: found):
            self.app.restore(state)
        assert self.app.programmed is not None
        assert self.app.programmed.active, self.app.programmed.reason

    def _found(self) -> Compiled:
        """Return the program."""
        programmed = self.app.programmed
        assert self._compiled is not None
        assert programmed is not None
        assert programmed.compile() is not None, programmed.reason
        assert programmed.program is not None
        compiled = self._compiled(programmed.program)
        assert unknown_names(compiled.run) == set()
        return compiled

    def run(self, events: Sequence[Arrival]) -> None:
        """Deliver events as a run."""
        if self._compiled is None:
            for event in events:
                self.chunk([event], event[0])
            return
        times = numpy.array([timestamp for timestamp, _ in events])
        self._stamps = times.tolist()
        self._deliver(StreamPart(times, numpy.arange(len(times)), [row for _, row in events]))

    def run_chunks(
        self, chunks: Sequence[tuple[int, Sequence[Arrival]]], early: Collection[int], alone: bool = False
    ) -> None:
        """Deliver chunks, each with when it is due, as a run.

        `early`: those that come before what timers do then; `alone`: the app is to deliver them one by one.
        """
        if self._compiled is None:
            for number, (due, events) in enumerate(chunks):
                (self.app.approach if number in early else self.app.advance)(due)
                deliver_now(self.app, "S", events)
            return
        events = [event for _, chunk in chunks for event in chunk]
        stamps, times = numpy.array([ts for ts, _ in events]), numpy.array([due for due, _ in chunks])
        bounds = numpy.cumsum([0, *(len(chunk) for _, chunk in chunks)])
        until = times - numpy.isin(numpy.arange(len(times)), [*early]) if early else None
        part = StreamPart(times, numpy.arange(len(times)), [row for _, row in events], stamps, bounds, until)
        if alone:
            self.app.deliver_one_by_one({"S": part})
        else:
            self._deliver(part)

    def _deliver(self, part: StreamPart) -> None:
        assert self.app.deliver_columns({"S": part})
        self.chunks += [chunk for *_, chunk in sorted(self._received, key=lambda one: one[0])]
        self._received.clear()

    def chunk(self, events: Sequence[Arrival], due: int) -> None:
        """Deliver events as one chunk, when the clock is at `due` ms."""
        self.app.advance(due)
        deliver_now(self.app, "S", events)


def checked_app(text: str) -> CheckedApp:
    return check(parse(text), catalog(False), text)
