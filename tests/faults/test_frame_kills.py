"""Kill -9 of a streaming query with an app in it, again and again: its files hold what an undisturbed run gives, once.

Either the whole process is killed with its JVM and all its children, and another goes on with the checkpoint; or only
Spark's Python processes, which have the live state. ``SPDIST_KILLS`` chooses how often; ``make faults`` takes many.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from spdist.engine.local.app import run
from tests.faults.frames import APP, OUTPUTS

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SPDIST_KILLS", "3"))
FILES, ROWS = 3 * KILLS + 3, 100
SHARDS = 2
#: How long a life lasts at most after a batch that is drawn, s.
PART_S = 0.5


class Life:
    """The process with the query."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-m", "tests.faults.frames", str(home), str(SHARDS)]
        # A group of its own: the JVM and Spark's Python processes are killed together with it.
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True)
        self.ready, self.batches, self.done = threading.Event(), 0, False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("READY"):
                self.ready.set()
            elif line.startswith("BATCH"):
                self.batches += 1
            elif line.startswith("DONE"):
                self.done = True

    def go(self) -> None:
        assert self.ready.wait(300), "Spark does not start"
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill_python(self) -> None:
        """Kill Spark's Python processes."""
        self.batches = 0
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "pyspark.daemon" in " ".join(process.cmdline()):
                    process.kill()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._listener.join(5)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Callable[[], Life]]:
    begun: list[Life] = []

    def begin() -> Life:
        begun.append(Life(tmp_path))
        return begun[-1]

    yield begin
    for life in begun:
        if life.process.poll() is None:
            life.kill()


def events() -> list[tuple[int, tuple[str, int]]]:
    return [(1000 + n, (f"k{n % 13}", n * 7919 % 97 * 3)) for n in range(FILES * ROWS)]


def fill(place: Path) -> None:
    """Write the rows as files, one after the other; within a file they are in no order."""
    place.mkdir()
    rows = [(ts, n, *row) for n, (ts, row) in enumerate(events())]
    for number in range(FILES):
        part = sorted(rows[number * ROWS : (number + 1) * ROWS], key=lambda row: row[1] * 31 % 101)
        columns = zip(*part, strict=True)
        kinds = (pa.int64(), pa.int32(), pa.string(), pa.int32())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        path = place / f"{number:03d}.parquet"
        parquet.write_table(pa.table(arrays, ["ts", "seq", "k", "v"]), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def written(place: Path) -> list[dict[str, Any]]:
    """What Spark's file sink has committed, and nothing else."""
    files: set[str] = set()
    for log in sorted((place / "_spark_metadata").glob("[0-9]*")):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            (files.add if entry["action"] == "add" else files.discard)(entry["path"].removeprefix("file://"))
    table = dataset.dataset(sorted(files)).to_table()
    times = table["event_time"].cast(pa.timestamp("ms")).cast(pa.int64())
    rows: list[dict[str, Any]] = table.set_column(1, "event_time", times).to_pylist()
    return rows


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_that_is_killed_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, lives: Callable[[], Life], eventually: Callable[..., object]
) -> None:
    fill(tmp_path / "in")
    expected = run(APP, {"S": events()})
    rng, pace, life = random.Random(KILLS), threading.Event(), lives()
    life.go()
    killed = 0
    for left in reversed(range(KILLS)):
        until = rng.randint(1, 2)
        eventually(lambda life=life, until=until: life.batches >= until or life.done, "the query goes on", 300)
        pace.wait(rng.uniform(0, PART_S))
        if life.done:
            break
        killed += 1
        if left and rng.random() < 0.6:
            life.kill_python()
        else:
            life.kill()
            life = lives()
            life.go()
    assert killed > KILLS // 2
    eventually(lambda: life.done, "all files are read", 600)
    rows = written(tmp_path / "out")
    assert [id for id, times in Counter(row["event_id"] for row in rows).items() if times > 1] == []
    for name in OUTPUTS:
        own = [row for row in rows if row["stream"] == name]
        found = Counter((row["event_time"], *row[name].values()) for row in own)
        assert found == Counter((ts, *row) for ts, row in expected[name]), name
        numbers = Counter(row["event_id"].rsplit("-", 1)[0] for row in own)
        ids = {f"{shard}-{number}" for shard, count in numbers.items() for number in range(count)}
        assert {row["event_id"] for row in own} == ids, "a number is missing"
