"""What the tests of the commands share: a manager with a worker, and commands that reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spdist.__main__ import app
from spdist.cluster.clients.calling import LeaderClient
from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from tests.cluster.shells import PASSWORD, FakeSpark, manager_config, worker_config


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """A manager with a worker whose groups need no Spark."""
    home = tmp_path_factory.mktemp("home")
    manager = Manager(manager_config(home))
    manager.start()
    worker = Worker(worker_config(home, [manager.url]), launcher=FakeSpark())
    worker.start()
    yield manager
    worker.stop()
    manager.stop()


@pytest.fixture
def run(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., object]
) -> Iterator[Callable[..., Result]]:
    """``run("list", text="…")``: a command against the manager."""
    eventually(manager.leads, "it leads")
    monkeypatch.setenv("SPDIST_URL", manager.url)
    monkeypatch.setenv("SPDIST_PASSWORD", PASSWORD)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=text)

    yield run
    run("undeploy", "Trades", "--wait", "0")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``impatient(0.5)``: commands look for a leader for so many seconds only."""
    began = LeaderClient.__init__

    def limit(patience_s: float) -> None:
        def begin(self: LeaderClient, *given: Any, **more: Any) -> None:
            began(self, *given, **{**more, "patience_s": patience_s})

        monkeypatch.setattr(LeaderClient, "__init__", begin)

    return limit
