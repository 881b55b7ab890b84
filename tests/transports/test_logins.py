"""Names, salted hashes, and what the log says of wrong logins."""

from __future__ import annotations

import base64
import logging

import pytest

from spdist.transports.sockets.logins import Logins, WrongLogins, credentials


def test_passwords_are_kept_as_salted_hashes_only() -> None:
    logins = Logins({"ann": "geheim", "bob": "geheim"})
    assert logins.verify("ann", "geheim") and logins.recall("ann", "geheim")
    assert not logins.verify("ann", "gehei") and not logins.verify("eve", "geheim")
    assert not logins.recall("bob", "geheim") and not logins.recall("ann", "other")
    assert "geheim" not in repr(vars(logins))
    (one, other) = logins._hashes.values()
    assert one != other


def test_a_header_holds_a_name_and_a_password() -> None:
    def header(text: str) -> str:
        return "Basic " + base64.b64encode(text.encode()).decode()

    assert credentials(header("ä:b:c")) == ("ä", "b:c")
    for wrong in ("", "Basic", "Basic !", header("nobody"), header("a:b").replace("Basic", "Bearer"), "Basic /w=="):
        assert credentials(wrong) is None


def test_wrong_logins_are_cut_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    wrong = WrongLogins(logging.getLogger("spdist.test"), lambda: now[0])
    for number in range(1000):
        wrong.add(f"{number}\n" + "x" * 10_000, "10.0.0.1")
    assert len(caplog.messages) == 10
    assert max(map(len, caplog.messages)) < 200
    assert "\n" not in caplog.messages[0]
    now[0] = 61.0
    wrong.add("ann", "10.0.0.1")
    assert caplog.messages[10:] == [
        "990 more wrong logins were not logged",
        "user 'ann' from 10.0.0.1: wrong name or password",
    ]
