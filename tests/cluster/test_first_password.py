"""Nodes of one machine without users: the first one makes a password, the others read it, and nobody else can."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

import spdist
from spdist.cluster.clients.client import Caller
from spdist.cluster.security.access import Permission, Users
from spdist.cluster.security.first_password import with_first_user
from spdist.cluster.worker import Worker
from spdist.config import Config, load_config
from spdist.errors import ConfigError
from tests.cluster.shells import CONF, FakeSpark, running_manager, settings

Eventually = Callable[..., Any]


def nobody(home: Path, role: Literal["manager", "worker"], **more: str) -> Config:
    """The settings of a node of a test that names no user and no password."""
    text = yaml.safe_load((CONF / f"{role}.yaml").read_text())
    text["auth.configs"] = {"userManager": {"firstPasswordFile": "data/first-password"}}
    for name in ("username", "password"):
        del text["deployment.config"]["httpsInterface"][name]
    file = home / f"{role}.yaml"
    file.write_text(yaml.safe_dump(text))
    environment = settings(home, f"{role}-1", **more)
    del environment["SPDIST_PASSWORD"]
    return load_config(file, role=role, environment=environment)


def test_the_nodes_of_a_machine_share_the_password_that_the_first_one_makes(
    tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "data/first-password"
    with running_manager(nobody(tmp_path, "manager")) as manager:
        password = file.read_text().strip()
        assert len(password) >= 32 and stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [one.name for one in file.parent.iterdir()] == ["first-password"], "nothing half-made is left"
        worker = Worker(nobody(tmp_path, "worker", SPDIST_MANAGERS=manager.url), launcher=FakeSpark())
        worker.start()
        try:
            with spdist.connect(manager.url, password=password) as client:
                eventually(lambda: [one["id"] for one in client.nodes()["workers"]] == ["worker-1"], "it reports")
            for one, status in ((password, 200), ("admin", 401), ("", 401)):
                caller = Caller("admin", one)
                assert caller.call("GET", f"{worker.url}/statistics").status == status
                assert caller.call("GET", f"{manager.url}/managers/nodes").status == status
                caller.close()
        finally:
            worker.stop()
    with running_manager(nobody(tmp_path, "manager")):
        assert file.read_text().strip() == password, "a restart changes nothing"
    told = caplog.text + "".join(capfd.readouterr())
    assert str(file) in told and password not in told
    assert password not in repr(with_first_user(nobody(tmp_path, "manager")))


def test_of_nodes_that_start_together_one_makes_the_password(tmp_path: Path) -> None:
    config = nobody(tmp_path, "manager")
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: with_first_user(config), range(64)))
    assert len({one.auth.users[0].password.reveal() for one in made}) == 1
    users = Users(made[0])
    assert users.verify("admin", made[0].auth.users[0].password.reveal()) == frozenset(Permission)


def test_two_clusters_have_two_passwords(tmp_path: Path) -> None:
    found = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        found.add(with_first_user(nobody(tmp_path / name, "manager")).auth.users[0].password.reveal())
    assert len(found) == 2


def test_a_file_that_others_may_read_or_that_is_a_link_or_empty_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = nobody(tmp_path, "manager")
    with_first_user(config)
    file = tmp_path / "data/first-password"
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"may be read by others.*\n.*chmod 600"):
        with_first_user(config)
    file.chmod(0o600)
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
        with pytest.raises(ConfigError, match="belongs to another user"):
            with_first_user(config)
    file.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        with_first_user(config)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be written or read"):
        with_first_user(config)
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("no directory")
    with pytest.raises(ConfigError, match=r"(?s)cannot be written or read.*firstPasswordFile"):
        with_first_user(config)


def test_no_password_is_made_for_a_node_that_others_reach_or_that_has_users(tmp_path: Path) -> None:
    named = load_config(CONF / "manager.yaml", role="manager", environment=settings(tmp_path, "manager-1"))
    assert with_first_user(named) is named
    nobody(tmp_path, "manager")
    text = (tmp_path / "manager.yaml").read_text()
    open_to_all = {"SPDIST__HTTP__PLAIN_HTTP_ALLOWED": "true"}
    for elsewhere in (
        text.replace("- host: 127.0.0.1", "- host: 0.0.0.0"),
        text.replace("    host: 127.", "    host: 10."),
    ):
        assert elsewhere != text
        (tmp_path / "manager.yaml").write_text(elsewhere)
        for needed, more in (("httpsInterface.username", {}), ("userManager.userStore.users", CREDENTIALS)):
            with pytest.raises(ConfigError, match=f"{needed} is missing, and a"):
                environment = settings(tmp_path, "m", **open_to_all, **more)
                load_config(tmp_path / "manager.yaml", role="manager", environment=environment)
    assert not (tmp_path / "data").exists()


CREDENTIALS = {
    "SPDIST__DEPLOYMENT__HTTPS_INTERFACE__USERNAME": "admin",
    "SPDIST__DEPLOYMENT__HTTPS_INTERFACE__PASSWORD": "${env:SPDIST_PASSWORD}",
}


def test_a_worker_of_managers_elsewhere_needs_credentials(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"httpsInterface\.username is missing, and a node cannot do without it"):
        nobody(tmp_path, "worker", SPDIST_MANAGERS="https://manager.example:9543")
