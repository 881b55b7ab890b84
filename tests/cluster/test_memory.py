"""How much memory a worker uses and may use: measured on real processes, limits of containers read from files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from spdist.cluster.clients.client import Caller
from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.cluster.workers.memory import container_limit, memory_of, worker_memory
from tests.cluster.shells import APP, PASSWORD, FakeSpark, manager_config, running_manager, worker_config

Eventually = Callable[..., Any]
MIB = 1 << 20


def test_what_a_worker_uses_includes_what_it_has_started() -> None:
    before = worker_memory()
    code = "block = bytearray(b'x') * (64 << 20); print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert worker_memory().used - before.used > 64 * MIB
        assert memory_of([psutil.Process(child.pid)]) > 64 * MIB
        child.communicate(b"\n")
    assert 0 < before.used < before.limit < psutil.virtual_memory().total


def test_the_limit_is_what_was_set_and_never_more_than_is_free() -> None:
    assert worker_memory(64 * MIB).limit == 64 * MIB
    usage = worker_memory(1 << 60)
    assert usage.limit <= usage.used + psutil.virtual_memory().available + 512 * MIB


@pytest.fixture
def groups(tmp_path: Path) -> Callable[..., int | None]:
    """Write limits of control groups, path → text, and read what holds for a process in ``/pods/one``."""

    def read(own: str, **files: str) -> int | None:
        for name, text in files.items():
            file = tmp_path / name.replace("__", "/").replace("_max", ".max").replace("_limit", ".limit_in_bytes")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="ascii")
        (tmp_path / "own").write_text(own, encoding="ascii")
        return container_limit(tmp_path, tmp_path / "own")

    return read


def test_the_least_limit_of_all_groups_above_holds(groups: Callable[..., int | None]) -> None:
    assert groups("0::/pods/one\n", memory_max="max\n", pods__memory_max="900\n", pods__one__memory_max="max\n") == 900


def test_in_a_container_the_own_group_is_the_root(groups: Callable[..., int | None]) -> None:
    assert groups("0::/machine/only/the/host/knows\n", memory_max="700\n") == 700


def test_version_one_and_no_limit_at_all(groups: Callable[..., int | None]) -> None:
    assert groups("5:memory:/pods/one\n2:cpu:/x\n", memory__pods__one__memory_limit="9223372036854771712\n") is None
    assert groups("5:memory:/pods/one\n", memory__pods__one__memory_limit="500\n") == 500
    assert groups("nonsense") is None


@pytest.fixture
def manager(tmp_path: Path, eventually: Eventually) -> Iterator[Manager]:
    with running_manager(manager_config(tmp_path)) as running:
        eventually(running.leads, "it leads")
        yield running


def test_apps_that_a_worker_has_no_memory_for_wait_with_the_reason_and_go_where_there_is_room(
    tmp_path: Path, manager: Manager, eventually: Eventually
) -> None:
    """A real worker that measures itself: this process is larger than the memory that it may use."""
    full, spark = FakeSpark(), FakeSpark()
    more = {"SPDIST__SPARK__MEMORY_LIMIT": "64m"}
    small = Worker(worker_config(tmp_path, [manager.url], "worker-1", **more), launcher=full)
    large = Worker(worker_config(tmp_path, [manager.url], "worker-2"), launcher=spark)
    small.start()
    try:
        manager.deploy(APP, replace=False)

        def reason() -> str:
            return str(manager.app_status("Trades")["reason"])

        eventually(lambda: "waits for memory: no worker has room (worker-1: " in reason(), "it waits and says why")
        assert manager.app_status("Trades")["state"] == "WAITING"
        assert full.runtimes == []
        large.start()
        eventually(lambda: manager.app_status("Trades")["state"] == "RUNNING", "it runs where there is room")
        assert {group["worker"] for group in manager.app_status("Trades")["groups"]} == {"worker-2"}
        caller = Caller("admin", PASSWORD)
        assert caller.call("GET", f"{large.url}/statistics").body["ready"] is True
        caller.close()
    finally:
        large.stop()
        small.stop()
