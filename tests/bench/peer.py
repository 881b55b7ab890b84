"""The Siddhi engine beside the local one: resolved by Maven, compiled once, run as a process of its own.

What Maven brings and what javac makes is kept in the user's cache folder; without Java or Maven, or without a network
at the first run, there is no peer, and `Peer.ready` says why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

from tests.bench.workloads import FOLDER, Workload

_SOURCES = Path(__file__).parent / "peer"


class PeerMissing(Exception):
    """The Siddhi engine cannot be had here; says why."""


class Peer:
    """The Siddhi engine, ready to run workloads."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @staticmethod
    def ready() -> Peer:
        """Return the peer, made now if it is not yet there."""
        for program in ("java", "javac", "mvn"):
            if shutil.which(program) is None:
                raise PeerMissing(f"there is no '{program}' in PATH")
        written = b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        home = cache / "spdist" / "bench-peer" / hashlib.sha256(written).hexdigest()[:16]
        if not (home / "complete").exists():
            _make(home)
        return Peer(home)

    def call(self, program: str, *arguments: object) -> str:
        """Run a program of the peer's to its end and return what it printed."""
        command = ["java", "-Xms1g", "-Xmx2g", "-cp", f"{self.home}/classes:{self.home}/lib/*", program]
        done = subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, text=True)
        return done.stdout

    @contextmanager
    def running(self, workload: Workload) -> Iterator[Callable[[int], float]]:
        """Give a function that sends so many events, one by one, and returns the thread's seconds that took."""
        command = [
            "java", "-Xmx2g", "-cp", f"{self.home}/classes:{self.home}/lib/*", "Peer",
            str(FOLDER / f"{workload.name}.siddhi"), str(workload.events_per_second), str(workload.seed),
            workload.output or "-", *workload.description,
        ]  # fmt: skip
        process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True)
        asked, told = process.stdin, process.stdout
        assert asked is not None and told is not None

        def send(count: int) -> float:
            asked.write(f"{count}\n")
            asked.flush()
            for line in told:  # the engine's log may say something in between
                if line.startswith("took "):
                    return int(line.split()[1]) / 1e9
            raise PeerMissing(f"it ended while it ran {workload.name}")

        try:
            yield send
        finally:
            process.kill()
            process.wait()


def _make(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    (home / "classes").mkdir(parents=True)
    resolve = ["mvn", "-q", "-B", "-f", str(_SOURCES / "pom.xml"), "dependency:copy-dependencies"]
    compiling = [
        "javac",
        "-nowarn",
        "-d",
        str(home / "classes"),
        "-cp",
        f"{home}/lib/*",
        *map(str, sorted(_SOURCES.glob("*.java"))),
    ]
    for what, command in (
        ("Maven could not resolve it", [*resolve, f"-DoutputDirectory={home}/lib", f"-DbuildDirectory={home}/target"]),
        ("javac failed", compiling),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerMissing(f"{what}: {(done.stderr or done.stdout).strip()[-300:]}")
    (home / "complete").touch()
