"""Nodes that show each other certificates: a worker without Spark and real managers, with an authority of their own."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

import spdist
from spdist.cluster.clients.client import Caller, ClusterClient
from spdist.cluster.manager import Manager
from spdist.cluster.protocol.messages import WorkerReport
from spdist.cluster.protocol.wire import HeartbeatRequest
from spdist.cluster.worker import Worker
from spdist.cluster.workers.link import LeaderLink
from spdist.config import Config, load_config
from spdist.errors import ClusterError, ConfigError, TransportError, UnauthorizedError
from tests.cluster.shells import APP, CONF, PASSWORD, FakeSpark, running_manager, settings
from tests.transports.certificates import authority, foreign_client, greeted, old

Eventually = Callable[..., Any]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keys") / "tls"
    authority(place)
    return place


def secured(
    home: Path, keys: Path, role: Literal["manager", "worker"], node: str, *, verify: str = "require", **more: str
) -> Config:
    """The settings of a node of a test with a certificate; it asks for one."""
    text = (CONF / f"{role}.yaml").read_text(encoding="utf-8")
    listener = f"scheme: https\n      certificateFile: {keys}/node.crt\n      keyFile: {keys}/node.key"
    text = text.replace("scheme: http", f"{listener}\n      sslVerifyClient: {verify}", 1).replace(
        "scheme: http\n", "scheme: https\n"
    )
    text = text.replace("wso2.transport.http:\n", f"wso2.transport.http:\n  trustFile: {keys}/ca.crt\n")
    file = home / f"{node}.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, role=role, environment=settings(home, node, **more))


@pytest.fixture
def manager(tmp_path: Path, keys: Path, eventually: Eventually) -> Iterator[Manager]:
    with running_manager(secured(tmp_path, keys, "manager", "manager-1")) as running:
        eventually(running.leads, "it leads")
        yield running


def user(keys: Path, name: str = "ann") -> tuple[Path, Path]:
    return keys / f"{name}.crt", keys / f"{name}.key"


def test_heartbeats_and_a_failover_between_nodes_that_ask_for_certificates(
    tmp_path: Path, keys: Path, manager: Manager, eventually: Eventually
) -> None:
    spark = FakeSpark()
    with running_manager(secured(tmp_path, keys, "manager", "manager-2")) as second:
        eventually(lambda: len(manager.known_managers()) == 2, "the leader knows of the standby")
        assert manager.url.startswith("https://")
        # It is told of one manager only, and learns of the other.
        worker = Worker(secured(tmp_path, keys, "worker", "worker-1", SPDIST_MANAGERS=manager.url), launcher=spark)
        worker.start()
        try:
            with spdist.connect(
                [manager.url], "admin", PASSWORD, trust_file=keys / "ca.crt", certificate=user(keys)
            ) as client:
                manager.deploy(APP, replace=False)
                eventually(lambda: manager.app_status("Trades")["state"] == "RUNNING", "the app runs")
                assert client.apps() == ["Trades"]
                assert [one["id"] for one in client.nodes()["workers"]] == ["worker-1"]
            caller = Caller("admin", PASSWORD, trust_file=keys / "ca.crt", certificate=user(keys))
            assert caller.call("GET", f"{worker.url}/statistics").status == 200
            caller.close()
            manager.stop()
            eventually(second.leads, "the second leads")
            eventually(lambda: second.app_status("Trades")["state"] == "RUNNING", "it knows that the app runs")
            assert all(runtime.told == ["start"] for runtime in spark.runtimes), "nothing was stopped for that"
        finally:
            worker.stop()


def test_a_worker_without_a_certificate_or_of_another_authority_stays_out(
    tmp_path: Path, keys: Path, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    authority(tmp_path / "other")
    strange = secured(tmp_path, tmp_path / "other", "worker", "w1", SPDIST_MANAGERS=manager.url)
    plain = load_config(
        CONF / "worker.yaml",
        environment=settings(tmp_path, "w2", SPDIST_MANAGERS=manager.url, SPDIST__HTTP__TRUST_FILE=f"{keys}/ca.crt"),
    )
    beat = HeartbeatRequest.from_report(WorkerReport("w", "https://127.0.0.1:9", False, "life", 1, 0))
    for config, reason in ((strange, "authorities to trust must have the one"), (plain, "show one of the cluster")):
        caplog.clear()
        link = LeaderLink(config, timeout_s=5)
        with caplog.at_level(logging.WARNING):
            assert link.send(lambda: beat) is None
        link.close()
        assert reason in caplog.text and "manager does not answer" in caplog.text
    assert manager.nodes()["workers"] == []


def test_a_password_alone_does_not_let_a_user_in_and_a_certificate_alone_neither(keys: Path, manager: Manager) -> None:
    bare = ClusterClient([manager.url], "admin", PASSWORD, trust_file=keys / "ca.crt", patience_s=0.1)
    with bare, pytest.raises(ClusterError, match=r"no manager answered: .*show one of the cluster"):
        bare.apps()
    guess = ClusterClient([manager.url], "admin", "wrong", trust_file=keys / "ca.crt", certificate=user(keys))
    with guess, pytest.raises(UnauthorizedError):
        guess.apps()
    with pytest.raises(TransportError, match=r"no-such\.crt"):
        ClusterClient([manager.url], "admin", PASSWORD, certificate=keys / "no-such.crt")


def test_a_running_node_refuses_tls_1_1_and_shows_a_renewed_certificate_to_who_connects_next(
    tmp_path: Path, eventually: Eventually
) -> None:
    made = authority(tmp_path / "tls")
    config = secured(tmp_path, tmp_path / "tls", "manager", "manager-1", verify="none")
    with running_manager(config) as manager:
        place = "127.0.0.1", manager.me.https_interface.port
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version|EOF"):
            greeted(old(foreign_client(tmp_path / "tls")), place[1])
        assert ssl.get_server_certificate(place).strip() == (tmp_path / "tls/node.crt").read_text().strip()
        before = (tmp_path / "tls/node.crt").read_text()
        made.renew("node", datetime.now(UTC), 9)
        after = (tmp_path / "tls/node.crt").read_text().strip()
        assert ssl.get_server_certificate(place).strip() == after != before.strip()


def test_asking_for_certificates_needs_https_and_whom_to_trust(tmp_path: Path, keys: Path) -> None:
    secured(tmp_path, keys, "manager", "manager-1")
    file = tmp_path / "manager-1.yaml"
    text = file.read_text()
    trust = f"  trustFile: {keys}/ca.crt\n"
    for changed in (text.replace(trust, ""), text.replace("scheme: https", "scheme: http")):
        assert changed != text
        file.write_text(changed)
        with pytest.raises(
            ConfigError, match="sslVerifyClient: require, which needs scheme https, and the authorities"
        ):
            load_config(file, environment=settings(tmp_path, "manager-1"))
    file.write_text(text.replace(f"{keys}/ca.crt", f"{tmp_path}/none.crt"))
    with pytest.raises(ConfigError, match=r"manager-1\.yaml: TLS cannot be used with the authorities of .*none\.crt"):
        Manager(load_config(file, environment=settings(tmp_path, "manager-1"))).start()
