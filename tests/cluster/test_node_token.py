"""Nodes that show a token of their own in place of a password: when it is renewed, and what a manager makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdist.cluster.security.node_token import IssuedToken, Need, NodeToken, need_of
from spdist.cluster.security.provider import ProviderAway
from spdist.cluster.worker import Worker
from spdist.config import Config, load_config
from spdist.errors import ConfigError, UnauthorizedError
from tests.cluster.shells import CONF, FakeSpark, deadline, running_manager, settings
from tests.identity_provider import SECRET, IdentityProvider

PROPERTIES = """\
auth.configs:
  type: external
  properties:
    issuer: {issuer}
    spClientId: spdist
    spClientSecret: ${{env:PROVIDER_SECRET}}
    nodeGrant: client_credentials
    nodeScope: {scope}
    roleMapping: [{{scope: siddhi.view, role: worker}}]
"""


@pytest.mark.parametrize("said", [None, "soon", True, -1, float("nan"), float("inf")])
def test_a_life_that_is_none_counts_as_not_said(said: object) -> None:
    assert IssuedToken.of({"access_token": "x", "expires_in": said}, 0.0) == IssuedToken.of({"access_token": "x"}, 0.0)


@pytest.mark.parametrize(("life_s", "ahead_s"), [(30, 10), (180, 60), (3600, 60)])
def test_a_token_is_renewed_a_third_of_its_life_ahead_a_minute_at_most(life_s: int, ahead_s: int) -> None:
    token = IssuedToken.of({"access_token": "secret-text", "expires_in": life_s}, 100.0)
    needs = [need_of(token, 100.0, 100.0 + life_s - left_s) for left_s in (ahead_s + 1, ahead_s, 1, 0)]
    assert needs == [Need.NOTHING, Need.AHEAD, Need.AHEAD, Need.FIRST]
    assert need_of(token, 99.0 + life_s, 100.0 + life_s) is Need.NOTHING, "the last try was a moment ago"
    assert need_of(token.refused(), 100.0, 131.0) is (Need.AHEAD if life_s > 31 else Need.FIRST)
    assert "secret-text" not in repr(token)


def test_without_the_provider_a_token_is_shown_until_it_ends(eventually: Callable[..., Any]) -> None:
    now, answers = [0.0], ["one"]

    def ask() -> dict[str, Any]:
        if not answers:
            raise ProviderAway("the identity provider is away")
        return {"access_token": answers.pop(), "expires_in": 90}

    token = NodeToken(ask, clock=lambda: now[0])
    assert token() == "one"
    now[0] = 89.0
    assert token() == "one"
    eventually(lambda: not token._asking.locked(), "the try has ended")
    now[0] = 93.0
    with pytest.raises(UnauthorizedError, match="no token to show: the identity provider is away"):
        token()
    answers.append("two")
    now[0] = 96.0
    assert token() == "two"


def config(
    home: Path, kind: Any, issuer: str, scope: str = "siddhi.view", properties: str = PROPERTIES, **more: str
) -> Config:
    text = (CONF / f"{kind}.yaml").read_text()
    text = text.replace("    username: admin\n    password: ${env:SPDIST_PASSWORD}\n", "", 1)
    place = home / f"{kind}-{scope}"
    place.mkdir()
    written = text.replace("auth.configs:\n", properties.format(issuer=issuer, scope=scope))
    (place / "deployment.yaml").write_text(written)
    environment = settings(home, f"{kind}-1", PROVIDER_SECRET=SECRET, **more)
    return load_config(place, role=kind, environment=environment)


def test_a_worker_reports_with_a_token_and_another_scope_is_refused(
    provider: IdentityProvider, tmp_path: Path, eventually: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with running_manager(config(tmp_path, "manager", provider.url)) as manager:
        eventually(manager.leads, "the manager leads")
        known = {"SPDIST_MANAGERS": manager.url}
        own = config(tmp_path, "worker", provider.url, **known)
        assert own.deployment.https_interface.password is None
        worker = Worker(own, launcher=FakeSpark())
        worker.start()
        try:
            eventually(lambda: worker.statistics()["term"] > 0, "the leader has answered")
            shown = worker._link._token
            assert shown is not None and shown() not in caplog.text
        finally:
            worker.stop()
        other = Worker(config(tmp_path, "worker", provider.url, "profile", **known), launcher=FakeSpark())
        with deadline() as stop, pytest.raises(UnauthorizedError, match="token of this node was refused by manager"):
            other.run(stop)


def test_a_grant_without_a_provider_or_a_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nodeGrant needs auth\.configs\.type: external"):
        config(tmp_path, "worker", "https://id.example", "a", SPDIST_MANAGERS="h:1", SPDIST__AUTH__TYPE="local")
    written = PROPERTIES.replace("    spClientSecret: ${{env:PROVIDER_SECRET}}\n", "")
    with pytest.raises(ConfigError, match="nodeGrant: client_credentials needs the client's secret"):
        config(tmp_path, "worker", "https://id.example", "b", written, SPDIST_MANAGERS="h:1")
