"""``spdist run``: a real process with a real Spark, HTTP in and a file out, killed in the middle."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from spdist.engine.spark.home import launcher_options
from spdist.services.process import HOST, ServerProcess, free_port

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
START_S = 180.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

APP = """@app:name('Orders')
@source(type='http', receiver.url='http://127.0.0.1:{port}/orders', @map(type='json'))
define stream In (k string, n long);
@sink(type='file', file.uri='{out}', @map(type='text', @payload('{{{{k}}}} {{{{n}}}} {{{{total}}}}')))
define stream Out (k string, n long, total long);
from In select k, n, sum(n) as total group by k insert into Out;
"""


class Run:
    """The app in one directory; every start is another process."""

    def __init__(self, root: Path) -> None:
        port = free_port()
        self.root, self.out = root, root / "spdist-data/files/out.txt"
        self.url = f"http://127.0.0.1:{port}/orders"
        (root / "app.siddhi").write_text(APP.format(port=port, out="out.txt"))
        self.process: subprocess.Popen[str] | None = None
        self._http = httpx.Client(timeout=60)  # a new one for each request would load its certificates each time

    def start(self, *more: str) -> None:
        command = [sys.executable, "-m", "spdist", "run", "app.siddhi", *more]
        spark = {"SPDIST__SPARK__DRIVER_MEMORY": "512m", "SPDIST__SPARK__OPTIMIZE_FOR": "start"}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **spark}
        self.log = (self.root / "run.log").open("a")
        # A group of its own, so that the JVM of a process that is killed can be ended, too.
        self.process = subprocess.Popen(
            command, cwd=self.root, env=environment, stderr=self.log, text=True, start_new_session=True
        )

    def send(self, number: int) -> None:
        """Send one event until it is taken: only what was not answered is sent again."""
        deadline = time.monotonic() + START_S
        pace = threading.Event()
        while True:
            assert self.process is not None and self.process.poll() is None, (self.root / "run.log").read_text()
            try:
                answer = self._http.post(self.url, json={"event": {"k": f"k{number % 3}", "n": number}})
                if answer.status_code == 200:
                    return
            except httpx.TransportError:
                assert time.monotonic() < deadline, (self.root / "run.log").read_text()
            pace.wait(0.1)

    def lines(self, count: int) -> list[str]:
        deadline = time.monotonic() + START_S
        pace = threading.Event()
        while True:
            found = self.out.read_text().splitlines() if self.out.exists() else []
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{found}\n{(self.root / 'run.log').read_text()}"
            pace.wait(0.1)

    def kill(self) -> None:
        """End the process and all that it has started, with no chance to tidy up."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.log.close()
            self.process = None

    def close(self) -> None:
        self.kill()
        self._http.close()

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(START_S)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.close()


def test_nothing_is_lost_or_doubled_where_the_process_is_killed(run: Run) -> None:
    run.start()
    for number in range(20):
        run.send(number)
    run.lines(3)  # it is in the middle of its work
    run.kill()
    run.start()
    for number in range(20, 40):
        run.send(number)
    totals = dict.fromkeys(("k0", "k1", "k2"), 0)
    expected = []
    for number in range(40):
        key = f"k{number % 3}"
        totals[key] += number
        expected.append(f"{key} {number} {totals[key]}")
    assert run.lines(40) == expected
    assert run.end(signal.SIGTERM) == 0
    assert run.out.read_text().splitlines() == expected
    assert "stopped after 40 events in" in (run.root / "run.log").read_text()


def test_a_wrong_app_is_explained_and_ends_with_1(run: Run) -> None:
    text = (run.root / "app.siddhi").read_text()
    (run.root / "app.siddhi").write_text(text.replace("file.uri=", "file.url="))
    run.start()
    assert run.process is not None and run.process.wait(START_S) == 1
    told = (run.root / "run.log").read_text()
    assert "'file.uri' of the @sink of type 'file' is missing" in told
    assert "line 4" in told


def test_an_app_that_names_what_it_may_not_does_not_start(run: Run) -> None:
    text = (run.root / "app.siddhi").read_text()
    told = {"/etc/out.txt": "lies outside of the directories", "${env:HOME}": "names a variable or file"}
    for wrong, said in told.items():
        (run.root / "app.siddhi").write_text(text.replace("'out.txt'", f"'{wrong}'"))
        run.start()
        assert run.process is not None and run.process.wait(START_S) == 1
        assert said in (run.root / "run.log").read_text()
        run.kill()


FILES = """@app:name('Lines')
@source(type='file', file.uri='{root}/in.csv', tailing='false', file.polling.interval='50', @map(type='csv'))
define stream In (k string, n long);
@sink(type='file', file.uri='{out}', @map(type='text', @payload('{{{{k}}}} {{{{total}}}}')))
define stream Out (k string, total long);
from In select k, sum(n) as total group by k insert into Out;
"""


TABLES = """@app:name('Tables')
@source(type='spark', format='parquet', path='in', polling.interval='50', option.maxFilesPerTrigger='1')
define stream In (k string, n long);
@sink(type='spark', format='parquet', path='out')
define stream Out (k string, n long, total long);
from In select k, n, sum(n) as total group by k insert into Out;
"""


def test_rows_of_spark_are_read_and_written_once_where_the_process_is_killed(run: Run) -> None:
    files = run.root / "spdist-data" / "files"
    (files / "in").mkdir(parents=True)
    (run.root / "app.siddhi").write_text(TABLES)

    def put(number: int) -> None:
        rows = pa.table({"k": ["a", "b"], "n": [2 * number, 2 * number + 1]})
        pq.write_table(rows, files / "in" / f".{number}")
        (files / "in" / f".{number}").rename(files / "in" / f"{number:02d}.parquet")

    def written(count: int) -> list[tuple[str, int, int]]:
        deadline, pace = time.monotonic() + START_S, threading.Event()
        while True:
            there = sorted((files / "out").glob("*.parquet"))
            rows = [tuple(row.values()) for one in there for row in pq.ParquetFile(one).read().to_pylist()]
            if len(rows) >= count:
                return rows
            assert time.monotonic() < deadline, f"{rows}\n{(run.root / 'run.log').read_text()}"
            pace.wait(0.1)

    for number in range(10):
        put(number)
    run.start()
    written(2)  # it is in the middle of its work
    run.kill()
    for number in range(10, 12):
        put(number)
    run.start()
    rows = written(24)
    assert run.end(signal.SIGTERM) == 0
    assert rows == written(24)
    assert sorted(n for _, n, _ in rows) == list(range(24))
    for key in ("a", "b"):  # Spark's order is that of files' times, which may be equal
        own = [(n, total) for k, n, total in rows if k == key]
        assert [total for _, total in own] == [*accumulate(n for n, _ in own)]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """A standalone master and a worker with one core: the master's address. They know nothing of this checkout."""
    port, web = free_port(), free_port()
    started: list[ServerProcess] = []

    def start(kind: str, *arguments: str) -> ServerProcess:
        command = [str(SPARK / "bin/spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        environment = {"SPARK_HOME": str(SPARK), "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": ""}
        # They live for a minute: the first compiler is enough.
        environment |= {"SPARK_DAEMON_JAVA_OPTS": QUICK, "SPARK_LAUNCHER_OPTS": launcher_options(SPARK)}
        started.append(ServerProcess(f"Spark {kind}", command, tmp_path / f"{kind}.log", environment))
        return started[-1]

    def workers() -> int:
        with contextlib.suppress(httpx.HTTPError, ValueError):  # it answers before it knows the path
            return int(httpx.get(f"http://{HOST}:{web}/json/").json()["aliveworkers"])
        return -1

    address = f"spark://{HOST}:{port}"
    try:
        master = start("Master", "--host", HOST, "--port", str(port), "--webui-port", str(web))
        master.wait_until(lambda: workers() == 0, START_S)
        work = ("-d", str(tmp_path / "work"), "--webui-port", str(free_port()))
        worker = start("Worker", "--host", HOST, "-c", "1", "-m", "1g", *work, address)
        worker.wait_until(lambda: workers() == 1, START_S)
        yield address
    finally:
        for one in reversed(started):
            one.stop()


def test_a_standalone_master_runs_it_and_prometheus_is_told(run: Run, standalone: str) -> None:
    run.start("--master", standalone, "--metrics-port", str(port := free_port()))
    for number in range(5):
        run.send(number)
    assert run.lines(5) == ["k0 0 0", "k1 1 1", "k2 2 2", "k0 3 3", "k1 4 5"]
    deadline, told, pace = time.monotonic() + START_S, "", threading.Event()
    while 'spdist_events_in_total{app="Orders",instance="Orders"} 5.0' not in told:
        assert time.monotonic() < deadline, told
        told = httpx.get(f"http://{HOST}:{port}/metrics").text
        pace.wait(0.1)
    assert 'spdist_state_rows{app="Orders",instance="Orders"} 3.0' in told
    assert run.end(signal.SIGTERM) == 0


def test_executors_of_their_own_give_the_same(run: Run) -> None:
    (run.root / "in.csv").write_text("".join(f"k{number % 2},{number}\n" for number in range(10)))
    (run.root / "app.siddhi").write_text(FILES.format(root=run.root, out=run.out))
    run.start("--master", "local-cluster[2,1,1024]", "--until-idle", "5", "--files", str(run.root))
    assert run.process is not None and run.process.wait(2 * START_S) == 0, (run.root / "run.log").read_text()
    assert run.out.read_text().splitlines() == [
        "k0 0", "k1 1", "k0 2", "k1 4", "k0 6", "k1 9", "k0 12", "k1 16", "k0 20", "k1 25",
    ]  # fmt: skip
