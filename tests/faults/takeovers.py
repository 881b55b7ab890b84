"""Kill a worker again and again at the shipped times, and see when its groups run on another: ``make takeovers``.

One manager, two workers and a live app, all real processes. Each time the worker with more of the groups is killed,
with all that it has started, and started again once the other has taken over. Printed are the times from the kill until

* the leader shows the worker as lost,
* each of its groups is placed on the other one,
* that has started the last of them,
* the last of them has committed its first batch there,
* the first result comes out;

and how much processor time the other worker has spent until that batch, which a busy machine does not change as much;
in the end, whether each event that went in has led to one result.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import psutil

from spdist.cluster.processes.local import LocalCluster
from tests.faults.failovers import ClusterTraffic, shipped_times, wait_for

#: How long it may take at shipped times, s.
PROMISED_S = 10.0


def chain(length: int) -> str:
    """Return an app of so many groups, each of which reads what the one before puts out; the last one has a window."""
    streams = ["Numbers", *(f"Passed{number}" for number in range(1, length)), "Sums"]
    groups = [
        f"@info(name='pass{number}') @dist(execGroup='pass{number}') "
        f"from {streams[number - 1]}[n >= 0] select n insert into {streams[number]};"
        for number in range(1, length)
    ]
    return "\n".join(
        [
            "@app:name('Flow') define stream Numbers (n long);",
            "@sink(type='embedded', topic='Flow.Sums') define stream Sums (n long, total long);",
            *groups,
            f"@info(name='sum') @dist(execGroup='sum') from {streams[-2]}#window.length(3) "
            "select n, sum(n) as total insert into Sums;",
        ]
    )


@dataclass(frozen=True, slots=True)
class Takeover:
    """The seconds from a kill until each step of the take-over is done, and how busy the worker was."""

    lost: float
    placed: float
    started: float
    committed: float
    output: float
    processor: float

    def __str__(self) -> str:
        return ", ".join(f"{each.name} {getattr(self, each.name):.2f}" for each in fields(self))


class Watch:
    """Looks at what the leader knows, and notes when each step is seen to be done."""

    def __init__(self, cluster: LocalCluster, victim: str, other: str, groups: set[str]) -> None:
        self._cluster = cluster
        self._victim, self._other, self._groups = victim, other, groups
        self._began_s = time.monotonic()
        self._spent_s = self._processor_s()
        self._noted: dict[str, float] = {}

    def over(self) -> bool:
        """Look once; tell whether all steps up to the first batch are done."""
        seen = self._cluster.status()
        (app,) = seen.apps
        placed = {group.name for group in app.groups if group.worker == self._other}
        states = next((dict(worker.groups) for worker in seen.workers if worker.id == self._other), {})
        steps = {
            "lost": all(worker.id != self._victim for worker in seen.workers),
            "placed": self._groups <= placed,
            "started": all(states.get(name, "WAITING") != "WAITING" for name in self._groups),
            "committed": all(states.get(name) == "RUNNING" for name in self._groups),
        }
        for step, done in steps.items():
            if done:
                self._noted.setdefault(step, time.monotonic() - self._began_s)
        if len(self._noted) < len(steps):
            return False
        self._spent_s = self._processor_s() - self._spent_s
        return True

    def _processor_s(self) -> float:
        """Return the processor time of all processes that the other worker has, and of those it has had."""
        total = 0.0
        for process in self._cluster.node(self._other).processes():
            with suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])
        return total

    def take_over(self, came_s: list[float]) -> Takeover:
        """Return the times; `came_s` are those at which results came out (steady clock)."""
        # What the killed worker had put out comes before anybody else could have started.
        placed_s = self._began_s + self._noted["placed"]
        output_s = wait_for(lambda: next((at for at in [*came_s] if at > placed_s), None), "results come out", 120)
        return Takeover(**self._noted, output=float(str(output_s)) - self._began_s, processor=self._spent_s)


def kill(cluster: LocalCluster, flow: ClusterTraffic) -> Takeover:
    """Kill the worker with more of the groups, watch, and start it again."""
    by_worker: dict[str, set[str]] = {name: set() for name, node in cluster.nodes.items() if node.role == "worker"}
    for group in cluster.status().apps[0].groups:
        by_worker[group.worker].add(group.name)
    other, victim = sorted(by_worker, key=lambda name: len(by_worker[name]))
    cluster.kill(victim)
    watch = Watch(cluster, victim, other, by_worker[victim])
    wait_for(watch.over, f"{other} has taken over", 180)
    measured = watch.take_over(flow.at)
    cluster.restart(victim)
    wait_for(lambda: _calm(cluster), "the groups are spread over both workers, and run", 180)
    return measured


def _calm(cluster: LocalCluster) -> bool:
    groups = cluster.status().apps[0].groups
    spread = len(groups) == 1 or len({group.worker for group in groups}) == 2
    return spread and all(group.state == "RUNNING" for group in groups)


def main() -> None:
    """Measure what the command line asks for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--groups", type=int, default=3, help="of 1 the other worker has run none when it takes over")
    parser.add_argument("--optimize-for", choices=("start", "throughput"), default="start", help="spark.optimizeFor")
    chosen = parser.parse_args()
    given = {**shipped_times(), "SPDIST__SPARK__OPTIMIZE_FOR": chosen.optimize_for}
    measured: list[Takeover] = []
    with (
        tempfile.TemporaryDirectory(prefix="spdist-takeovers-", ignore_cleanup_errors=True) as directory,
        LocalCluster(1, 2, Path(directory), settings=given, start_timeout_s=300, quiet=True) as cluster,
    ):
        cluster.deploy(chain(chosen.groups)).wait(timeout_s=300)
        flow = ClusterTraffic(cluster)
        wait_for(lambda: flow.came > 20 and _calm(cluster), "results come out", 180)
        for number in range(1, chosen.kills + 1):
            load = os.getloadavg()[0]
            measured.append(one := kill(cluster, flow))
            print(f"kill {number} (load {load:.1f}): {one}", flush=True)
        exact = flow.drained()
        flow.stop()
    for step, times in zip(fields(Takeover), zip(*map(astuple, measured), strict=True), strict=True):
        print(f"{step.name}: median {statistics.median(times):.2f} s, longest {max(times):.2f} s")
    print(f"{flow.fed} events, {flow.came} results")
    sys.exit(not exact or max(one.committed for one in measured) > PROMISED_S)


if __name__ == "__main__":
    main()
