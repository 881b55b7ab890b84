"""``make bench-engine``: the engine on the workloads beside it, and Siddhi's own engine in the same run.

Operators take rows; an app that can be a compiled program (`spdist.program`) takes columns of Arrow, as it does
between topics, and puts out columns. Given rows, which are Python's tuples, it has columns made of them.

Each figure is the best of some rounds, in time of the thread that sends and does the work, and the rounds of both
engines alternate, so that a busy machine does not hit one side only; ratios say more than figures. A round has as many
events as last 10 ms, as its first batches find cold caches: events are drawn, and the other engine runs, before it.
Events are drawn before the clock starts, and go in as batches of 10,000 (one by one where several streams take turns);
what comes out is counted. State lives on from round to round, so windows are full when it counts. Siddhi's column is
empty where a workload needs extensions that Maven Central does not have. A second table tells what an event costs when
there are more keys or longer windows, and what memory of that size costs by itself.

Examples: ``python -m tests.bench.engine``; ``… --count 20000 --no-peer``; ``… length_window_avg time_window_sum``.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy

from spdist.engine.island.hosted import HostedApp
from spdist.engine.local.app import LocalApp
from spdist.errors import SpdistError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.mapping.columns import ColumnarRows
from spdist.operators.base import Row
from spdist.operators.core.junction import StreamPart
from spdist.program.expressions import NotTyped
from tests.bench.peer import Peer, PeerMissing
from tests.bench.workloads import FOLDER, START_MS, Event, Workload

BATCH = 10_000
ROUNDS = 5
#: How long a round lasts at least, s.
ROUND_SECONDS = 0.01
#: A JVM is much slower before it has compiled what is hot.
WARM_UP_SECONDS = 3.0
#: Workloads that put out many events for one, or scan: fewer events do.
HEAVY = {"join_time_windows": 10, "join_time_windows_1k": 5}
#: Workloads whose cost is compared over numbers of keys, and over lengths of their window.
OVER_KEYS = ("length_window_avg", "time_window_sum", "partition_length_avg", "pattern_every")
OVER_WINDOWS = {"length_window_avg": r"length\(\d+\)", "time_window_sum": r"time\(1 sec\)"}
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)


class Running:
    """A workload in the local engine; each round goes on where the one before ended."""

    def __init__(self, workload: Workload, count: int, warm_up: int) -> None:
        self.app = LocalApp(check(parse(workload.text), catalog(), workload.text))
        self.out = 0
        if workload.output is not None:
            self.app.subscribe(workload.output, self._count)
        self.app.start(START_MS)
        self.several = len(workload.streams) > 1
        self.stream = workload.streams[0][0]
        self.count = count
        self.events = workload.drawn()
        self.best = 0.0
        self._warm(warm_up)

    def _warm(self, count: int) -> None:
        """Send events before any round, and let a round be so many that it lasts."""
        if count:
            self.count = _lasting(self.count, count / self._send(count))

    def _count(self, _timestamp: int, _row: object) -> None:
        self.out += 1

    def round(self) -> None:
        """Send the events of a round and keep the rate if it is the best so far."""
        self.best = max(self.best, self.count / self._send(self.count))

    def _send(self, count: int) -> float:
        events = [next(self.events) for _ in range(count)]
        batches = [] if self.several else list(_cut(events))
        app = self.app
        began = time.thread_time()
        if self.several:
            for stream, timestamp, row in events:
                app.send(stream, timestamp, row)
        for timestamps, rows in batches:
            app.send_batch(self.stream, timestamps, rows)
        return time.thread_time() - began


class Compiled(Running):
    """A workload whose queries are a compiled program; raises NotTyped where it has none.

    Parameters
    ----------
    workload, count, warm_up
        See `Running`.
    """

    #: Whether events are rows, not columns, when the clock starts.
    of_rows = False

    def __init__(self, workload: Workload, count: int, warm_up: int) -> None:
        checked = check(parse(workload.text), catalog(), workload.text)
        self.hosted = HostedApp(checked, delivers=False)
        if workload.output is not None:
            self.hosted.subscribe_each(workload.output, self._count, len, self._picked)
        self.hosted.compiles()
        assert self.hosted.programmed is not None
        compiling = self.hosted.programmed.compile()
        if compiling is None:
            raise NotTyped(self.hosted.programmed.reason)
        self.hosted.start(START_MS)
        self.hosted.programmed.begin(compiling.wait())
        self.out, self.best = 0, 0.0
        self.count = count
        self.events = workload.drawn()
        self._types = {stream: tuple(checked.streams[stream].types) for stream, _ in workload.streams}
        self._warm(warm_up)

    def _picked(self, rows: ColumnarRows, *_: object) -> None:
        self.out += len(rows)

    def _send(self, count: int) -> float:
        batches = []
        for at in range(0, count, BATCH):
            drawn = [next(self.events) for _ in range(min(BATCH, count - at))]
            batches.append({stream: self._part(stream, drawn) for stream in self._types})
        began = time.thread_time()
        for parts in batches:
            assert self.hosted.deliver_columns(parts)
        return time.thread_time() - began

    def _part(self, stream: str, drawn: list[Event]) -> StreamPart:
        """Return the events of a stream."""
        types = self._types[stream]
        ranks = [number for number, (own, _, _) in enumerate(drawn) if own == stream]
        rows: Sequence[Row] | None = [drawn[rank][2] for rank in ranks]
        if not self.of_rows:
            rows = ColumnarRows.of(rows, types, range(len(types)))
        assert rows is not None
        times = numpy.array([drawn[rank][1] for rank in ranks], numpy.int64)
        return StreamPart(times, numpy.array(ranks), rows)


class CompiledOfRows(Compiled):
    """The same, where events are rows: the program has columns made of those attributes that it reads."""

    of_rows = True


def _lasting(count: int, rate: float) -> int:
    """Return how many events a round has: `count`, or as many whole batches as last, at so many events a second."""
    return max(count, int(rate * ROUND_SECONDS) // BATCH * BATCH)


def _cut(events: list[Event]) -> Iterator[tuple[list[int], list[tuple[object, ...]]]]:
    for at in range(0, len(events), BATCH):
        part = events[at : at + BATCH]
        yield [timestamp for _, timestamp, _ in part], [row for *_, row in part]


def workloads(names: list[str], count: int, rounds: int, peer: Peer | None) -> None:
    """Print a table of the rates, and of the peer's where there is one."""
    ratios = f"{'Siddhi':>14}{'ratios':>18}" if peer else ""
    print(f"\n{'events/s':<26}{'operators':>12}{'of rows':>14}{'of columns':>14}{ratios}")
    for name in names:
        workload = Workload.load(name)
        share = count // HEAVY.get(name, 1)
        try:
            running = Running(workload, share, share // 2)
        except SpdistError as error:
            print(f"{name:<26}{'—':>12}  {str(error).splitlines()[0]}")
            continue
        try:
            compiled: list[Running] = [kind(workload, share, share // 2) for kind in (CompiledOfRows, Compiled)]
        except NotTyped:
            compiled = []
        theirs = _alternate([running, *compiled], rounds, peer, workload)
        told = "".join(f"{one.best:>14,.0f}" for one in compiled) or f"{'—':>14}" * 2
        if theirs:
            told += f"{theirs:>14,.0f}" + "".join(f"{one.best / theirs:>8.2f}×" for one in compiled or [running])
        print(f"{name:<26}{running.best:>12,.0f}{told}", flush=True)


def _alternate(ours: list[Running], rounds: int, peer: Peer | None, workload: Workload) -> float:
    """Run the rounds of all engines in turn; return the peer's best rate, 0 where it cannot run the workload."""
    best = 0.0
    count = ours[0].count
    if peer is not None:
        try:
            with peer.running(workload) as send:
                warm = 0.0
                while warm < WARM_UP_SECONDS:
                    warm += (took := send(count))
                count = _lasting(count, count / took)
                for _ in range(rounds):
                    for one in ours:
                        one.round()
                    best = max(best, count / send(count), count / send(count))
            return best
        except PeerMissing:  # functions of extensions that Maven does not have
            pass
    for _ in range(rounds):
        for one in ours:
            one.round()
    return 0.0


def flatness(count: int, rounds: int) -> None:
    """Print what an event costs with more keys, and with longer windows, in µs: as rows, then compiled."""
    print(f"\n{'µs per event, rows and compiled':<34}" + "".join(f"{size:>10,}" for size in SIZES))
    for name in OVER_KEYS:
        _row(f"{name}, keys", [Workload.load(name).with_keys(size) for size in SIZES], count, rounds)
    for name, window in OVER_WINDOWS.items():
        workload = Workload.load(name)
        apps = []
        for size in SIZES:
            call = f"length({size})" if "length" in window else f"time({size * 1000 // workload.events_per_second})"
            apps.append(replace(workload, text=re.sub(window, call, workload.text)))
        _row(f"{name}, window", apps, count, rounds)
    told = []
    for size in SIZES:
        arrays = [numpy.zeros(size, numpy.int64) for _ in range(10)]
        places = numpy.random.default_rng(1).integers(0, size, count)
        best = 1e9
        for _ in range(rounds + 1):
            began = time.thread_time()
            for array in arrays:
                array[places] += 1
            best = min(best, time.thread_time() - began)
        told.append(f"{1e6 * best / count:>10.3f}")
    print(f"{'ten arrays, written at random':<34}" + "".join(told))


def _row(title: str, apps: list[Workload], count: int, rounds: int) -> None:
    for make in (Running, Compiled):
        told = []
        for size, app in zip(SIZES, apps, strict=True):
            # As many events before as fill the longest window and meet most keys; one app at a time, as large ones
            # would drive each other out of the processor's cache.
            try:
                running = make(app, count, warm_up=max(count, min(2 * size, 20 * count)))
            except NotTyped:
                break
            for _ in range(rounds):
                running.round()
            told.append(f"{1e6 / running.best:>10.3f}")
        else:
            print(f"{title:<34}" + "".join(told), flush=True)


def main() -> None:
    """Run what the command line asks for."""
    names = sorted(path.stem for path in FOLDER.glob("*.siddhi"))
    parser = argparse.ArgumentParser(prog="make bench-engine", description="measure the local engine")
    parser.add_argument("names", nargs="*", help="workloads; by default all, and the table over sizes")
    parser.add_argument("--count", type=int, default=100_000, help="events per round, at least")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--no-peer", action="store_true", help="measure the local engine alone")
    chosen = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {chosen.count:,} events per round or more, best of {chosen.rounds}")
    peer = None
    if not chosen.no_peer:
        try:
            peer = Peer.ready()
        except PeerMissing as missing:
            print(f"Siddhi's engine is not measured: {missing}")
    workloads(chosen.names or names, chosen.count, chosen.rounds, peer)
    if not chosen.names:
        flatness(chosen.count, max(chosen.rounds - 2, 1))


if __name__ == "__main__":
    main()
