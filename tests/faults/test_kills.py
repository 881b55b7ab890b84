"""Kill -9 of the process that runs an app's queries, again and again: nothing is lost, nothing is there twice.

``SPDIST_KILLS`` and ``SPDIST_KILL_EVENTS`` choose how often and over how many events; ``make faults`` takes many.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest

from spdist.engine.local import run
from spdist.language.types import Schema
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SPDIST_KILLS", "4"))
EVENTS = int(os.environ.get("SPDIST_KILL_EVENTS", "40000"))
INPUT = Schema.of([("k", "string"), ("v", "long")])
#: A window, then a pattern for each key; the last group only makes the planner publish `Out`.
APP = """
@app:name('Killed') @app:playback define stream S (k string, v long);
@dist(execGroup='smooth') from S#window.length(5) select k, sum(v) as v insert into M;
@dist(execGroup='rise') partition with (k of M) begin
    from every e1=M -> e2=M[v > e1.v + 100] within 200 millisec
    select e1.k as k, e1.v as low, e2.v as high insert into Out; end;
@dist(execGroup='last') from Out select * insert into End;
"""
OUTPUT = Schema.of([("k", "string"), ("low", "long"), ("high", "long")])
#: How long a life lasts, s: three of four from when the queries run, the others from the start of the process.
AFTER_RUNNING_S, AFTER_START_S = 2.5, 8.0


def events() -> list[tuple[int, tuple[str, int]]]:
    return [(1000 + n, (f"k{n % 50}", n * 7919 % 97)) for n in range(EVENTS)]


class Node:
    """The process with the queries."""

    def __init__(self, home: Path, batch: int) -> None:
        command = [sys.executable, "-m", "tests.faults.node", str(home), str(home / "app.siddhi"), str(batch)]
        # A group of its own: the JVM and Spark's Python processes are killed together with it.
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True)
        self.running = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(line, end="")
            if line.startswith("RUNNING"):
                self.running.set()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def runs(self) -> bool:
        return self.process.poll() is None


@pytest.mark.spark
@pytest.mark.slow
def test_killed_again_and_again_nothing_is_lost_and_nothing_is_there_twice(
    tmp_path: Path, eventually: Callable[..., object]
) -> None:
    (tmp_path / "app.siddhi").write_text(APP, encoding="utf-8")
    log = LogTransport(tmp_path / "the topics")
    sent = events()
    expected = run(APP, {"S": sent})["Out"]
    log.ensure("Killed.S", 1)
    feed = Feed(log, "Killed.S", INPUT)
    for at in range(0, len(sent), 500):
        feed.send(sent[at : at + 500])
    feed.advance(sent[-1][0] + 1)
    rng, pace = random.Random(KILLS), threading.Event()

    for _ in range(KILLS):
        node = Node(tmp_path, batch=max(1, EVENTS // (KILLS * 20)))
        try:
            early = rng.random() < 0.25
            if not early:
                assert node.running.wait(90), "the queries do not run"
            pace.wait(rng.uniform(0.5, AFTER_START_S) if early else rng.uniform(0, AFTER_RUNNING_S))
            assert node.runs(), "the process ended before it was killed"
        finally:
            node.kill()

    def found() -> list[tuple[int, tuple[object, ...]]]:
        return read_events(log, "Killed.Out", OUTPUT) if log.partitions("Killed.Out") else []

    reached = len(found())
    node = Node(tmp_path, batch=EVENTS)
    try:
        eventually(lambda: len(found()) >= len(expected) or not node.runs(), "all results are there", 300)
    finally:
        node.kill()
    assert found() == expected
    print(f"{KILLS} kills; {reached} of {len(expected)} results were there before the last start")
