"""Users in a file: ``spdist user`` writes it, nodes that run follow, and nobody reads a password out of it."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from spdist.__main__ import app
from spdist.cluster.security.access import ROLES, Users
from spdist.cluster.security.user_file import StoredUser, change_users, read_users
from spdist.config import Config, load_config
from spdist.errors import ConfigError
from spdist.transports.sockets.logins import hashed, is_hash
from tests.cluster.shells import CONF, PASSWORD, running_manager, settings

Eventually = Callable[..., Any]
SECRET = "ann-secret-1"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The settings of a manager with the user admin, and a users file that is not there yet."""
    text = (CONF / "manager.yaml").read_text()
    file = tmp_path / "deployment.yaml"
    file.write_text(text.replace("  userManager:\n", "  userManager:\n    usersFile: own/users.json\n"))
    return file


def config_of(conf: Path) -> Config:
    return load_config(conf, role="manager", environment=settings(conf.parent, "manager-1"))


def run(conf: Path, *arguments: str, password: str = SECRET) -> Result:
    environment = {**settings(conf.parent, "manager-1"), "COLUMNS": "200"}
    return CliRunner(env=environment).invoke(app, ["user", *arguments, "--conf", str(conf)], input=f"{password}\n")


def test_users_are_added_listed_changed_and_removed(conf: Path) -> None:
    file = conf.parent / "own/users.json"
    added = run(conf, "add", "ann", "--roles", "developer, viewer")
    assert added.exit_code == 0 and "ann was added" in added.output, added.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SECRET not in file.read_text() and SECRET not in added.output
    listed = run(conf, "list", "--json").output
    assert '"ann"' in listed and '"admin"' in listed and "scrypt" not in listed
    users = Users(config_of(conf))
    assert users.verify("ann", SECRET) == ROLES["developer"] and users.verify("ann", "wrong") is None
    assert run(conf, "passwd", "ann", password="another-secret").exit_code == 0
    assert users.recall("ann", SECRET) is None and users.verify("ann", SECRET) is None
    assert users.verify("ann", "another-secret") == ROLES["developer"]
    assert run(conf, "remove", "ann").exit_code == 0
    assert users.recall("ann", "another-secret") is None and users.verify("ann", "another-secret") is None
    assert users.verify("admin", PASSWORD) is not None


def test_a_running_node_follows_and_tokens_end_with_the_password(conf: Path, eventually: Eventually) -> None:
    with running_manager(config_of(conf)) as manager:
        eventually(manager.leads, "the manager leads")
        with httpx.Client(base_url=manager.url, trust_env=False) as http:
            own = ("ann", SECRET)
            assert http.get("/siddhi-apps", auth=own).status_code == 401
            assert run(conf, "add", "ann").exit_code == 0
            assert http.get("/siddhi-apps", auth=own).status_code == 200
            assert http.delete("/siddhi-apps/X", auth=own).status_code == 403
            form = {"username": "ann", "password": SECRET, "rememberMe": "true"}
            body = http.post("/login/x", data=form).json()
            token, refresh = (
                {"Authorization": f"Bearer {body[key]}"} for key in ("partialAccessToken", "partialRefreshToken")
            )
            assert http.get("/siddhi-apps", headers=token).status_code == 200
            assert run(conf, "passwd", "ann", password="another-secret").exit_code == 0
            assert http.get("/siddhi-apps", headers=token).status_code == 401
            assert http.post("/login/x", data={"grantType": "refresh_token"}, headers=refresh).status_code == 401
            assert http.get("/siddhi-apps", auth=own).status_code == 401
            assert http.get("/siddhi-apps", auth=("ann", "another-secret")).status_code == 200
            assert run(conf, "remove", "ann").exit_code == 0
            assert http.get("/siddhi-apps", auth=("ann", "another-secret")).status_code == 401
            assert http.get("/siddhi-apps", auth=("admin", PASSWORD)).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "password", "says"),
    [
        (("add", "admin"), SECRET, "there is a user 'admin' already"),
        (("add", "a:b"), SECRET, "has a colon"),
        (("add", " "), SECRET, "is empty"),
        (("add", "x" * 65), SECRET, "longer than 64"),
        (("add", "bob", "--roles", "king"), SECRET, "the role 'king'"),
        (("add", "bob"), "short", "at least 8"),
        (("remove", "bob"), SECRET, "there is no user 'bob'"),
        (("passwd", "bob"), SECRET, "there is no user 'bob'"),
        (("passwd", "admin"), SECRET, "is a user of"),
    ],
)
def test_what_cannot_be_done_is_said(conf: Path, arguments: tuple[str, ...], password: str, says: str) -> None:
    done = run(conf, *arguments, password=password)
    assert done.exit_code in (1, 2) and says in " ".join(done.output.replace("│", " ").split()), done.output
    assert not (conf.parent / "own/users.json").exists()


def test_a_name_is_added_once_and_settings_must_name_the_file(conf: Path) -> None:
    assert run(conf, "add", "ann").exit_code == 0
    before = (conf.parent / "own/users.json").read_bytes()
    assert "already" in run(conf, "add", "ann").output
    assert (conf.parent / "own/users.json").read_bytes() == before
    conf.write_text((CONF / "manager.yaml").read_text())
    refused = run(conf, "list")
    assert refused.exit_code == 2 and "usersFile" in refused.output


def test_who_adds_users_together_loses_none(tmp_path: Path) -> None:
    file, user = tmp_path / "users.json", StoredUser(password=hashed("x"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: change_users(file, lambda known: {**known, f"user-{n}": user}), range(40)))
    assert len(read_users(file)) == 40 and [one.name for one in tmp_path.iterdir()] == ["users.json"]


def test_a_file_that_is_wrong_stops_a_start_and_changes_nothing_later(
    conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = conf.parent / "own/users.json"
    assert run(conf, "add", "ann").exit_code == 0
    users, good = Users(config_of(conf)), file.read_text()
    for text, says in (
        ("{", "is damaged"),
        ('{"users": {"ann": {"password": "geheim"}}}', "'ann' is no user"),
        ('{"users": {"ann": {"password": 3}}}', "users.ann.password"),
        (good.replace("ann", "a:b"), "'a:b' is no user"),
        (good.replace("ann", "admin"), "names, too: admin"),
        (good.replace("16384", "1073741824"), "'ann' is no user"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=says) as caught:
            Users(config_of(conf))
        assert "geheim" not in str(caught.value)
        caplog.clear()
        for _ in range(3):
            assert users.verify("ann", SECRET) == ROLES["viewer"]
            users.recall("ann", SECRET)
        assert [one.levelno for one in caplog.records] == [logging.ERROR], "it is told once"
    file.write_text(good)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="may be read by others"):
        Users(config_of(conf))
    file.unlink()
    assert users.recall("ann", SECRET) is None and users.verify("ann", SECRET) is None, "no file, no users of it"


def test_a_node_may_have_users_of_the_file_alone(tmp_path: Path, conf: Path) -> None:
    text = conf.read_text()
    start, end = text.index("    userStore:\n"), text.index("transports:")
    conf.write_text(f"{text[:start]}\n{text[end:]}")
    with pytest.raises(ConfigError, match="`spdist user add`"):
        Users(config_of(conf))
    assert run(conf, "add", "ann", "--roles", "admin").exit_code == 0
    assert Users(config_of(conf)).verify("ann", SECRET)


def test_what_is_a_hash() -> None:
    one = hashed("x")
    assert is_hash(one) and one != hashed("x")
    for wrong in ("", "x", one[:-8], one.replace("scrypt", "md5"), f"{one}$eA=="):
        assert not is_hash(wrong)
