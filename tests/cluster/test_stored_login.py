"""Logins in a private file: whose token is shown to whom, and that one process at a time renews it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.cluster.security.stored_login import LoginFile, StoredLogin, StoredToken, credential
from spdist.commands.login import code_of
from spdist.errors import ConfigError, UnauthorizedError

LOGIN = StoredLogin(
    managers=("http://m1:1", "http://m2:2"), username="ann", issuer="https://127.0.0.1:9", client_id="cli", scope="s",
    access="old", refresh="r1", ends_s=1000.0,
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> LoginFile:
    return LoginFile(tmp_path / "spdist" / "logins.json")


def test_a_token_is_shown_to_those_managers_only_that_its_login_names(file: LoginFile) -> None:
    assert file.find(["http://m1:1"]) is None
    file.keep(LOGIN)
    other = LOGIN.model_copy(update={"managers": ("http://n:1",), "username": "bob"})
    file.keep(other)
    assert file.find(["http://m2:2/"]) == LOGIN and file.find(["http://m1:1", "http://m2:2"]) == LOGIN
    assert file.find(["http://m1:1", "http://evil"]) is None
    newer = LOGIN.model_copy(update={"managers": ("http://m1:1",)})
    file.keep(newer)
    assert file.find(["http://m1:1"]) == newer and file.find(["http://m2:2"]) is None, "one login for a manager"
    file.remove(["http://n:1"])
    assert file.find(["http://n:1"]) is None


def test_the_file_is_for_its_owner_only_and_never_shown(file: LoginFile) -> None:
    file.keep(LOGIN)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert "old" not in repr(LOGIN) and "r1" not in repr(LOGIN)
    file.path.chmod(0o644)
    with pytest.raises(ConfigError, match="read by others"):
        file.find(["http://m1:1"])
    file.path.chmod(0o600)
    file.path.write_text('{"logins": [{"access": "s3cret"}]}')
    with pytest.raises(ConfigError, match="is damaged") as caught:
        file.find(["http://m1:1"])
    assert "s3cret" not in str(caught.value)


def test_what_another_process_has_renewed_is_not_renewed_again(file: LoginFile) -> None:
    file.keep(LOGIN.model_copy(update={"access": "new", "refresh": "r2", "ends_s": 9000.0}))
    token = StoredToken(file, LOGIN, clock=lambda: 990.0)
    assert token() == "new" and token.login.refresh == "r2"


def test_a_token_is_good_until_it_ends_though_the_provider_is_away(file: LoginFile) -> None:
    file.keep(LOGIN)
    assert StoredToken(file, LOGIN, clock=lambda: 999.0)() == "old"
    with pytest.raises(UnauthorizedError, match="the login of ann has ended: the identity provider"):
        StoredToken(file, LOGIN, clock=lambda: 1000.0)()
    forever = LOGIN.model_copy(update={"refresh": ""})
    with pytest.raises(UnauthorizedError, match="it cannot be renewed"):
        StoredToken(file, forever, clock=lambda: 1000.0)()


def test_a_password_goes_before_a_token(file: LoginFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.path.parents[1]))
    for name in ("SPDIST_PASSWORD", "SPDIST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert credential(["http://m1:1"], "admin") is None
    file.keep(LOGIN.model_copy(update={"ends_s": 1e12}))
    for name, value, shown in ((None, "", "old"), ("SPDIST_TOKEN", "tok3n", "tok3n"), ("SPDIST_PASSWORD", "pw", "")):
        if name is not None:
            monkeypatch.setenv(name, value)
        found = credential(["http://m1:1"], "admin")
        assert found is not None and (found.bearer() if found.bearer else "") == shown
        assert not value or value not in repr(found)
    found = credential(["http://m1:1"], "vera", "given")
    assert found is not None and (found.username, found.password, found.bearer) == ("vera", "given", None)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "in time"),
        ({"code": "c"}, "another login"),
        ({"code": "c", "state": "t"}, "another login"),
        ({"code": "c", "state": "s", "iss": "https://evil"}, "another login"),
        ({"state": "s", "error": "access_denied"}, "let nobody in: access_denied"),
        ({"state": "s"}, "gave no code"),
    ],
)
def test_a_browser_that_comes_back_from_elsewhere_brings_no_code(said: dict[str, str] | None, why: str) -> None:
    with pytest.raises(UnauthorizedError, match=why):
        code_of(said, "s", "https://id")
    assert code_of({"code": "c", "state": "s", "iss": "https://id"}, "s", "https://id") == "c"
