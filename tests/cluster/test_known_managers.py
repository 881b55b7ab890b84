"""The managers that a worker remembers over a restart: found again, and nothing that another could have written."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.cluster.workers.known_managers import KnownManagers
from spdist.cluster.workers.link import LeaderLink
from tests.cluster.shells import FakeSpark, manager_config, plan, running_manager, worker_config

Eventually = Callable[..., Any]
URLS = ("http://10.0.0.1:9543", "https://[::1]:9543")


def test_what_was_written_is_read_by_the_next_start(tmp_path: Path) -> None:
    known = KnownManagers(tmp_path / "workers", "worker/1")
    assert known.read() == ()
    known.write(URLS)
    assert KnownManagers(tmp_path / "workers", "worker/1").read() == URLS
    assert KnownManagers(tmp_path / "workers", "worker-2").read() == ()
    assert stat.S_IMODE(known.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(known.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in known.path.parent.iterdir()] == [known.path.name]


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    known = KnownManagers(tmp_path, "w")
    known.write(URLS)
    known.path.unlink()
    known.write(URLS[::-1])
    assert not known.path.exists()
    known.write(URLS[:1])
    assert known.read() == URLS[:1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"managers": ["http://10.0.0.1:9543"]}',
        '{"managers": [{"host": "a b", "port": 1}]}',
        '{"managers": [{"host": "a", "port": 0}]}',
        '{"managers": [{"host": "a", "port": 1, "password": "x"}]}',
        json.dumps({"managers": [{"host": "a", "port": port} for port in range(1, 30)]}),
    ],
)
def test_what_is_damaged_is_not_used(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    known = KnownManagers(tmp_path, "w")
    known.path.write_text(text)
    known.path.chmod(0o600)
    assert known.read() == ()
    assert f"{known.path} is not used" in caplog.text


def test_a_file_that_others_could_write_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = KnownManagers(tmp_path, "w")
    known.write(URLS)
    known.path.chmod(0o620)
    assert known.read() == ()
    assert "only its owner" in caplog.text
    known.path.chmod(0o600)
    elsewhere = known.path.rename(tmp_path / "elsewhere")
    known.path.symlink_to(elsewhere)
    assert known.read() == (), "a link is not followed"
    known.path.unlink()
    os.mkfifo(known.path, 0o600)
    assert known.read() == (), "nobody is waited for"


def test_where_it_cannot_be_written_the_worker_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "workers").write_text("in the way")
    known = KnownManagers(tmp_path / "workers", "w")
    for _ in range(3):
        known.write(URLS)
    assert caplog.text.count("are not remembered") == 1


def test_a_file_does_not_lead_away_from_tls(tmp_path: Path) -> None:
    known = KnownManagers(tmp_path, "w")
    known.write(URLS)
    link = LeaderLink(worker_config(tmp_path, ["https://127.0.0.1:9543"]), 1, known=known)
    assert link._known() == ("https://127.0.0.1:9543", URLS[1])


def test_a_worker_that_restarts_finds_managers_that_its_settings_do_not_name(
    tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    first = Manager(manager_config(tmp_path, "manager-1"), planner=plan)
    first.start()
    try:
        eventually(first.leads, "the first leads")
        config = worker_config(tmp_path, [first.url])
        with running_manager(manager_config(tmp_path, "manager-2")) as second:
            eventually(lambda: len(first.known_managers()) == 2, "the managers know of each other")
            worker = Worker(config, launcher=FakeSpark())
            known = KnownManagers(config.state_persistence.location / "workers", "worker-1")
            try:
                worker.start()
                eventually(lambda: known.read() == (second.url,), "the second is remembered")
            finally:
                worker.stop()
            assert "not-admin" not in known.path.read_text()
            first.stop()
            eventually(second.leads, "the second leads")
            worker = Worker(config, launcher=FakeSpark())
            try:
                worker.start()
                eventually(lambda: second.nodes()["workers"], "the worker has found the second")
            finally:
                worker.stop()
    finally:
        first.stop()
