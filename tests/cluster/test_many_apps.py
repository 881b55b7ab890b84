"""What heartbeats and deploying cost does not grow with the apps that are there; with a real manager and worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from tests.cluster.heartbeats import Meter
from tests.cluster.shells import FakeSpark, manager_config, running_manager, worker_config

Eventually = Callable[..., Any]
APPS = 40
#: Bytes by which a heartbeat may differ: its number and the figures of the node.
PLAY = 150
#: What elections, the journal and looking for other managers do not touch.
TABLES = ("spdist_deployment", "spdist_origin", "spdist_worker", "spdist_cordon")


@contextmanager
def statements() -> Iterator[list[str]]:
    """Note the statements about apps and workers."""
    found: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if any(table in statement for table in TABLES):
            found.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def deploy(manager: Manager, number: int) -> None:
    manager.deploy(f"@app:name('App{number}') group filter 1 group average 2", replace=False)


def test_many_apps_cost_what_one_does(tmp_path: Path, eventually: Eventually) -> None:
    meter = Meter()

    def largest() -> tuple[int, int]:
        """The largest request and answer of the last five heartbeats."""
        return max(meter.sent[-5:]), max(meter.received[-5:])

    def all_run() -> bool:
        return all(one["state"] == "RUNNING" for one in manager.apps()) and len(meter.sent) >= 5

    # The manager does not look for what others have deployed meanwhile.
    config = manager_config(tmp_path, SPDIST__CLUSTER__EVENT_POLLING_INTERVAL="600000")
    with meter.reading(), statements() as said, running_manager(config) as manager:
        eventually(manager.leads, "it leads")
        room = {"SPDIST__SPARK__MEMORY_LIMIT": "4096g"}
        worker = Worker(worker_config(tmp_path, [manager.url], **room), launcher=FakeSpark())
        worker.start()
        try:
            counts = []
            for number in range(APPS):
                if number == 1:
                    eventually(all_run, "the first app runs")
                    meter.forget()
                    eventually(lambda: len(meter.sent) >= 5, "the worker reports")
                    sent, received = largest()
                said.clear()
                deploy(manager, number)
                counts.append(sum("spdist_worker" not in one for one in said))
            assert set(counts) == {counts[0]}, "each app is written with as many statements as the first"
            assert counts[0] > 0
            eventually(all_run, "all apps run")
            assert len(manager.apps()) == APPS

            def as_small() -> bool:
                now_sent, now_received = largest()
                return now_sent <= sent + PLAY and now_received <= received + PLAY

            eventually(as_small, "heartbeats are as small as with one app", timeout_s=5)
            said.clear()
            meter.forget()
            eventually(lambda: len(meter.sent) >= 5, "the worker reports")
            assert said == [], "heartbeats that bring nothing new do not ask the database"
        finally:
            worker.stop()
