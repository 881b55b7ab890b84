"""Kill executors of a Spark standalone master, each in a network namespace: ``make executors`` (Linux, root).

``spdist run --master spark://…`` with two shards, a master where it runs, and two workers elsewhere with an executor
each. Events come in over HTTP all the time. In each round an executor is killed, or a worker with its executor, or the
link of one is cut for some seconds. Printed is how long nothing came out, and in the end whether each event has led to
one result: the sums are those of virtual time.

Namespaces share the file system, as executors elsewhere must share the directories of topics and states.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pyspark

from spdist.services.process import free_ports
from tests.faults.failovers import wait_for
from tests.faults.island import HOME, Island, enter_island

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
NODES = ("one", "two")
KEYS = 8
CUT_S = 5.0
_MARK = "SPDIST_NODE_MARK"
APP = """\
@app:name('Far')
@source(type='http', receiver.url='http://{home}:{port}/numbers', basic.auth.enabled='false', @map(type='json'))
define stream Numbers (k int, n long);
@sink(type='file', file.uri='sums.txt', @map(type='text', @payload('{{{{k}}}} {{{{n}}}} {{{{total}}}}')))
define stream Sums (k int, n long, total long);
partition with (k of Numbers) begin
  from Numbers select k, n, sum(n) as total insert into Sums;
end;
"""


class Machines:
    """A master where this program is, and a worker in each namespace."""

    def __init__(self, island: Island, home: Path) -> None:
        self._island, self._home = island, home
        self.port, self._web = free_ports(2)
        self._daemon("home", "Master", "--host", HOME, "--port", str(self.port), "--webui-port", str(self._web))
        wait_for(lambda: self.workers() == 0, "the master answers", 60)
        for node in NODES:
            island.add(node)
            self.start(node)
        wait_for(lambda: self.workers() == len(NODES), "the workers are there", 60)

    def start(self, node: str) -> None:
        where = ("--host", self._island.addresses[node], "-d", str(self._home / f"work {node}"), "-c", "1", "-m", "1g")
        self._daemon(node, "Worker", *where, f"spark://{HOME}:{self.port}")

    def _daemon(self, node: str, kind: str, *arguments: str) -> None:
        command = [str(SPARK / "bin/spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_DAEMON_MEMORY": "256m", _MARK: node}
        environment["PYTHONPATH"] = ""
        with (self._home / f"{node}.log").open("ab") as log:
            subprocess.Popen(
                command if node == "home" else self._island.command(node, command),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def workers(self) -> int:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            return int(httpx.get(f"http://{HOME}:{self._web}/json/").json()["aliveworkers"])
        return -1

    def kill(self, node: str, word: str = "") -> int:
        """Kill what runs there, or those whose command line has that word, and return how many."""
        found = 0
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == node and word in " ".join(process.cmdline()):
                    process.kill()
                    found += 1
        return found

    def stop(self) -> None:
        for node in (*NODES, "home"):
            self.kill(node)


class Requests:
    """Sends numbers without an end, and looks at what comes out."""

    def __init__(self, url: str, out: Path) -> None:
        self._url, self._out = url, out
        self.sent: list[tuple[int, int]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._came_s = time.monotonic()
        self._count = 0
        self.silence_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def _send(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._end.wait(0.005):
                event = len(self.sent) % KEYS, len(self.sent)
                client.post(self._url, json={"event": {"k": event[0], "n": event[1]}}).raise_for_status()
                self.sent.append(event)

    def look(self) -> int:
        """Return how many results there are, and note how long there were no more."""
        lines = len(self.lines())
        now_s = time.monotonic()
        self.silence_s = max(self.silence_s, now_s - self._came_s)
        if lines > self._count:
            self._count, self._came_s = lines, now_s
        return lines

    def caught_up(self, what: str, timeout_s: float = 300.0) -> float:
        """Wait until all that has been sent until now has come out; return for how long at most nothing did."""
        self.silence_s, self._came_s = 0.0, time.monotonic()
        wanted = len(self.sent) + 1
        wait_for(lambda: self.look() >= wanted, what, timeout_s)
        return self.silence_s

    def lines(self) -> list[str]:
        return self._out.read_text().splitlines() if self._out.exists() else []

    def stop(self) -> None:
        self._end.set()
        self._thread.join(60)

    def verdict(self) -> tuple[int, int]:
        """Return how many results are missing, and how many there are too many of."""
        totals: defaultdict[int, int] = defaultdict(int)
        wanted = []
        for key, number in self.sent:
            totals[key] += number
            wanted.append(f"{key} {number} {totals[key]}")
        found = self.lines()
        return len(set(wanted) - set(found)), len(found) - len(set(found) & set(wanted))


@contextlib.contextmanager
def app_running(machines: Machines, home: Path) -> Iterator[Requests]:
    (port,) = free_ports(1)
    (home / "app.siddhi").write_text(APP.format(home=HOME, port=port))
    command = [sys.executable, "-m", "spdist", "run", "app.siddhi", "--shards", "2"]
    command += ["--master", f"spark://{HOME}:{machines.port}"]
    own = {"PYTHONPATH": str(ROOT), "SPDIST__SPARK__DRIVER_MEMORY": "512m", "SPARK_LOCAL_IP": HOME}
    with (home / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--shards", "2"], cwd=home, env={**os.environ, **own}, stderr=log, stdout=log
        )
    url = f"http://{HOME}:{port}/numbers"

    def answers() -> bool:
        assert process.poll() is None, (home / "run.log").read_text()
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url).status_code < 500
        return False

    try:
        wait_for(answers, "the source of the app answers", 120)
        yield Requests(url, home / "spdist-data/files/sums.txt")
    finally:
        process.terminate()
        process.wait(60)


def faults(machines: Machines, island: Island) -> dict[str, Callable[[str], None]]:
    """Return what can happen to a node, by its name."""

    def kill_executor(node: str) -> None:
        assert machines.kill(node, "CoarseGrainedExecutorBackend")

    def kill_worker(node: str) -> None:
        machines.kill(node)
        wait_for(lambda: machines.workers() < len(NODES), "the master misses the worker", 120)
        machines.start(node)
        wait_for(lambda: machines.workers() == len(NODES), "the worker is back", 60)

    def cut(node: str) -> None:
        with island.cut(node):
            threading.Event().wait(CUT_S)

    return {"executor killed": kill_executor, "worker killed": kill_worker, f"link cut for {CUT_S:g} s": cut}


def main() -> None:
    parser = argparse.ArgumentParser(description="kill executors of a standalone master in networks of their own")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    enter_island()
    chosen = random.Random(arguments.seed)
    silences: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="spdist-executors-") as place, Island() as island:
        home = Path(place)
        machines = Machines(island, home)
        try:
            with app_running(machines, home) as flow:
                flow.start()
                flow.caught_up("the first results")
                known = faults(machines, island)
                for number in range(arguments.rounds):
                    name, node = list(known)[number % len(known)], chosen.choice(NODES)
                    begin = threading.Thread(target=known[name], args=(node,))
                    begin.start()
                    silences[name].append(flow.caught_up(f"results after: {name}"))
                    begin.join()
                    silences[name][-1] = max(silences[name][-1], flow.caught_up("results afterwards"))
                    print(f"{number + 1}: {name} at {node}: {silences[name][-1]:.1f} s without a result", flush=True)
                flow.stop()
                wait_for(lambda: flow.look() >= len(flow.sent), "all results", 300)
                lost, doubled = flow.verdict()
        finally:
            machines.stop()
    rows = {name: f"{len(each)} rounds, at most {max(each):.1f} s without a result" for name, each in silences.items()}
    print(json.dumps(rows, indent=2))
    print(f"{len(flow.sent):,} events: {lost} lost, {doubled} doubled")
    sys.exit(bool(lost or doubled))


if __name__ == "__main__":
    main()
