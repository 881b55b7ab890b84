"""Tells from outside of a batch at which event it stands, where one takes long.

The loops that process events are not to do anything for that. A thread looks once in a while where the processing
thread is: its frames say which query's code runs, on an event of which time, of which stream. What it sees goes to a
file in the directory of the query's stop flag, where the group's status finds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from spdist.engine.spark.stopping import noted_reason
from spdist.operators.expressions.codegen import query_of
from spdist.transports.base import Record

__all__ = ["StandingWatch", "why_standing"]

_PATTERN = "standing.*.json"
#: How often it looks, as a share of the time that an event may take.
_LOOKS = 4


@dataclass(slots=True)
class _ThreadPlace:
    """Where the processing thread was when it was looked at.

    `event` is the row that is processed, kept so that no other object gets its identity. `places` says by topic and
    partition up to which offset what is processed was read: where a record begins that has messages of a user's topic
    it does not know.
    """

    batch: int
    query: str = ""
    stream: str = ""
    at: int | None = None
    event: Any = None
    places: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def same(self, other: _ThreadPlace) -> bool:
        """Tell whether it is at the same event still."""
        return (
            self.event is other.event
            and self.event is not None
            and (self.batch, self.query, self.at) == (other.batch, other.query, other.at)
        )

    def told(self, seconds: float) -> str:
        """Return what people are told."""
        event = "an event" if self.at is None else f"the event of {self.at} ms"
        of = f" of stream '{self.stream}'" if self.stream else ""
        where = "".join(f" at {place}" for place in self._places())
        query = f" in query '{self.query}'" if self.query else ""
        return f"batch {self.batch} stands: {event}{of}{where} takes longer than {seconds:g} s{query}"

    def _places(self) -> Iterator[str]:
        places = [
            f"{topic} partition {partition} up to offset {last}"
            for topic, ends in self.places.items()
            for partition, last in ends.items()
        ]
        yield from ([" and ".join(places)] if places else ())


class StandingWatch:
    """Watches the batches of a process.

    Parameters
    ----------
    directory : Path
        That of the stop flag.
    seconds : float
        How long an event may take before it is told.

    State
    -----
    One thread, from the first batch until the process ends or the directory is gone.
    """

    def __init__(self, directory: Path, seconds: float) -> None:
        self._note = directory / _PATTERN.replace("*", str(os.getpid()))
        self._seconds = seconds
        self._running: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self._begun = threading.Event()

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """Watch this thread while it processes a batch."""
        self._running = number, threading.get_ident()
        self._begun.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="standing", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            self._running = None

    def _watch(self) -> None:
        before, since, told = _ThreadPlace(-1), 0.0, False
        pause = threading.Event()
        while self._note.parent.exists():
            if self._running is None and not told:
                # Nothing to look at, and nothing to be taken back.
                self._begun.clear()
                self._begun.wait(self._seconds)
            pause.wait(self._seconds / _LOOKS)
            seen, now = self._running_place(), time.monotonic()
            if seen is None or not seen.same(before):
                before, since = seen or _ThreadPlace(-1), now
                if told:
                    self._note.unlink(missing_ok=True)
                    told = False
            elif now - since >= self._seconds:
                with contextlib.suppress(OSError):
                    self._note.write_text(json.dumps({"why": seen.told(self._seconds)}), encoding="utf-8")
                told = True

    def _running_place(self) -> _ThreadPlace | None:
        # Read once: the batch may end in another thread
        running = self._running
        frame = sys._current_frames().get(running[1]) if running is not None else None
        if running is None or frame is None:
            return None
        return _seen(running[0], frame)


def _seen(batch: int, frame: FrameType | None) -> _ThreadPlace:
    """Read from the frames, the innermost first, what is processed."""
    seen = _ThreadPlace(batch)
    while frame is not None:
        code, known = frame.f_code, frame.f_locals
        # Known by names of files and of local variables: `ts` and `row` of generated code, `stream` and `arrivals`
        # of the island, `record` and `segment` of `Shard`
        query = query_of(code.co_filename)
        if query is not None:
            # The innermost query that runs; the outermost event is the one that came in.
            seen.query = seen.query or query
            if isinstance(known.get("ts"), int):
                seen.at = known["ts"]
            seen.event = known.get("row", seen.event)
        elif code.co_filename.endswith(("island.py", "hosted.py")):
            if isinstance(known.get("stream"), str):
                seen.stream = known["stream"]
            arrivals = known.get("arrivals")
            if arrivals:
                seen.at, seen.event = arrivals[0]
        elif isinstance(record := known.get("record"), Record) and code.co_name == "add":
            seen.places = {record.topic: {record.partition: record.offset}}
        elif code.co_name == "finish" and "segment" in known:
            seen.places = _places(known["segment"].records)
        frame = frame.f_back
    return seen


def _places(records: tuple[Record, ...]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for record in records:
        if record.count:
            known = found.setdefault(record.topic, {})
            known[record.partition] = max(record.offset, known.get(record.partition, record.offset))
    return found


def why_standing(directory: Path) -> str | None:
    """Return which event a batch of the query stands at; None where none does."""
    return noted_reason(directory, _PATTERN)
