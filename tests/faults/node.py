"""A process that runs the groups of an app on Spark until it is killed, for `tests.faults.test_kills`.

Arguments: directory for everything, file of the app, transport, address of its server. It starts Spark, prints
``READY`` and waits for a line with the size of batches: so one stands by while another runs. Then it starts the groups,
starts those again that fail, prints ``BATCH`` whenever all run and have gone on, and ``STATE`` with how they are
whenever that changes. It ends with its parent: when its input is closed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from dataclasses import replace
from pathlib import Path

from spdist.engine.spark.session import SparkHost
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from tests.runtime.host_settings import settings_in, transports_in


def assignments(text: str, transport: str) -> list[Assignment]:
    """What the instances of the app run; the group called `last` only makes the planner publish what it reads."""
    topology = plan(parse(text), transport=transport)
    return [each for each in topology.assignments() if not each.group.endswith("-last")]


def main(directory: str, app: str, kind: str, url: str) -> None:
    """Stand by, then run the groups."""
    root, ended = Path(directory), threading.Event()
    settings = settings_in(root, transports_in(root, kind, url))

    def watch() -> None:
        with contextlib.suppress(OSError):
            sys.stdin.read()
        ended.set()

    with SparkHost(settings) as host:
        host.start()
        print("READY", flush=True)
        told = sys.stdin.readline()
        if not told:
            return
        host.config = replace(settings, spark=replace(settings.spark, max_batch_events=int(told)))
        threading.Thread(target=watch, daemon=True).start()
        keep_running(host, assignments(Path(app).read_text(encoding="utf-8"), kind), ended)


def keep_running(host: SparkHost, work: list[Assignment], ended: threading.Event) -> None:
    """Run the groups in two queries until told otherwise."""

    def start(number: int) -> GroupRuntime:
        group = GroupRuntime(halves[number], host, "node", name=f"half {number}")
        group.start()
        return group

    halves = work[: len(work) // 2], work[len(work) // 2 :]
    groups, before, told = [start(number) for number in range(2)], [0, 0], ""
    while not ended.wait(0.05):
        statuses = [group.status() for group in groups]
        for number, status in enumerate(statuses):
            if status.state == "FAILED":
                print("again:", str(status.error).partition("\n")[0], flush=True)
                groups[number] = start(number)
        state = "; ".join(f"{one.name} {one.state} {one.waiting or ''} {one.error or ''}" for one in statuses)
        if state != told:
            told = state
            print("STATE", " ".join(state.split()), flush=True)
        batches = [status.batches for status in statuses]
        if all(status.state == "RUNNING" for status in statuses) and batches != before:
            before = batches
            print("BATCH", flush=True)
    for group in groups:
        group.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
