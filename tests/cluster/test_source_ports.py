"""HTTP sources of a server of a group: 503 while it is passive, and the same socket when it takes over."""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from spdist.cluster.server_node import ServerNode
from spdist.cluster.servers.source_ports import SourceRole, closed_answer, kept_ports
from spdist.config import load_config
from spdist.config.allowed import Allowed
from spdist.connectors.http.addresses import HttpAddress, sources_at
from spdist.connectors.http.ports import HttpPort
from spdist.errors import TransportError
from spdist.planning.topology import Assignment
from spdist.services.process import free_port
from spdist.transports.sockets.connections import ConnectionLimits
from tests.cluster.shells import FakeRuntime
from tests.cluster.test_server_group import Pair, variables, written
from tests.transports.certificates import authority

Eventually = Callable[..., Any]

PASSIVE = SourceRole("server-2", "http://127.0.0.2:9443", known=True, active=False, leader="server-1")
ACTIVE = SourceRole("server-2", "http://127.0.0.2:9443", known=True, active=True)


# ---------------------------------------------------------------------------------------------------------- decisions
def addresses(*hosts: str) -> list[HttpAddress]:
    return [HttpAddress(host, 8280, "/in") for host in hosts]


@pytest.mark.parametrize(
    ("seen", "known", "active", "shares", "kept"),
    [
        ("", True, False, False, {"0.0.0.0", "127.0.0.2"}),
        ("http://10.0.0.1:9443", True, False, False, {"0.0.0.0", "127.0.0.2"}),
        ("http://10.0.0.1:9443", False, False, False, set()),
        ("http://127.0.0.1:9443", True, False, True, {"127.0.0.2"}),
        ("http://127.0.0.1:9443", True, True, True, {"0.0.0.0", "127.0.0.2"}),
        ("http://127.0.0.2:9444", True, False, True, set()),
    ],
)
def test_of_two_servers_on_one_machine_the_active_one_has_the_ports(
    seen: str, known: bool, active: bool, shares: bool, kept: set[str]
) -> None:
    role = SourceRole("server-2", "http://127.0.0.2:9443", known, active, seen_url=seen)
    found = kept_ports([*addresses("0.0.0.0", "127.0.0.2"), HttpAddress("h", 0, "/")], role, shares_machine=shares)
    assert {host for host, _ in found} == kept


def test_sources_of_one_port_are_kept_together() -> None:
    one, two = HttpAddress("h", 1, "/a"), HttpAddress("h", 1, "/b")
    assert kept_ports([one, two], PASSIVE, shares_machine=False) == {("h", 1): [one, two]}


def test_a_passive_server_says_who_is_active_at_any_path() -> None:
    told = {"status": "passive", "node": "server-2"}
    assert closed_answer(PASSIVE, ["/in"], "/other") == told | {
        "error": "server server-2 is passive: server-1 is active",
        "active": "server-1",
    }
    alone = SourceRole("server-2", "", known=True, active=False)
    assert closed_answer(alone, ["/in"], "/in") == told | {
        "error": "server server-2 is passive: no server is known to be active"
    }


def test_an_active_server_answers_for_its_own_sources_only() -> None:
    assert closed_answer(ACTIVE, ["/in"], "/other") is None
    assert closed_answer(ACTIVE, ["/in"], "/in") == {
        "error": "the source at /in is not running",
        "status": "inactive",
        "node": "server-2",
    }


# ------------------------------------------------------------------------------------------------------------- servers
class Sourced(FakeRuntime):
    """A group with the ports of its sources, and nothing behind them."""

    allowed = Allowed()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ports: list[tuple[HttpPort, str]] = []

    def start(self) -> None:
        async def accept(request: Request) -> Response:
            return JSONResponse({"events": len(await request.body())})

        for address in sources_at(self.assignment, self.allowed):
            port = HttpPort.shared(address, ConnectionLimits())
            port.add(address.path, accept)
            self.ports.append((port, address.path))
        super().start()

    def _close(self) -> None:
        ports, self.ports = self.ports, []
        for port, path in ports:
            port.remove(path)
            port.leave()

    def stop(self, timeout_s: float) -> None:
        self._close()
        super().stop(timeout_s)

    def kill(self) -> None:
        self._close()
        super().kill()


class Machines(Pair):
    """Two servers as on two machines: each has an address, the other's is not its own, and the same text of an app.

    The address of the sources is that of the server, as if each were its machine's only one.
    """

    hosts = {"server-1": "127.0.0.1", "server-2": "127.0.0.2"}  # noqa: RUF012 -- read only

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.port = free_port()
        self.tls = ""

    def start(self, name: str, interval_s: int = 1) -> ServerNode:
        host = self.hosts[name]
        apps = self.home / f"apps-{name}"
        apps.mkdir(exist_ok=True)
        options = f", https.keystore.file='{self.tls}'" if self.tls else ""
        (apps / "In.siddhi").write_text(
            f"@app:name('In') @source(type='http', receiver.url='{self.url(name)}'{options}, @map(type='json')) "
            "define stream S (v int); from S select v insert into T;"
        )
        file = written(self.home, name, interval_s)
        text = file.read_text().replace("directory: apps}", f"directory: {apps}}}")
        text += f"siddhi.files: {{directories: [{self.home / 'keys'}]}}\n"
        text = text.replace("wso2.transport.http:\n", "wso2.transport.http:\n  plainHttpAllowed: true\n")
        file.write_text(text.replace("host: 127.0.0.1", f"host: {host}"))
        config = load_config(file, role="server", environment=variables(self.home))
        node = self.nodes[name] = ServerNode(config, launcher=self.launch)
        assert node._group is not None
        self._cut(node._group._store, name)
        node.start()
        return node

    def launch(self, assignment: Assignment) -> Sourced:
        made = Sourced(assignment)
        made.allowed = Allowed((self.home / "keys",))
        return made

    def url(self, name: str) -> str:
        return f"http{'s' if self.tls else ''}://{self.hosts[name]}:{self.port}/in"

    def status(self, name: str) -> int:
        """Send a request to the source of a server, and return the status of the answer; 0 where there is none."""
        with suppress(httpx.HTTPError):
            return httpx.post(self.url(name), json={"event": {"v": 1}}, verify=False).status_code
        return 0


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    try:
        yield made
    finally:
        for node in made.nodes.values():
            node.stop()


class Knocking(threading.Thread):
    """Sends one request after the other on new connections, and counts how often there was no answer."""

    def __init__(self, machines: Machines, name: str) -> None:
        super().__init__(daemon=True)
        self._look = lambda: machines.status(name)
        self.seen: list[int] = []
        self.ending = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.ending.wait(0.002):
            self.seen.append(self._look())


def test_a_passive_server_answers_503_and_takes_over_and_back_without_refusing_a_connection(
    machines: Machines, eventually: Eventually
) -> None:
    machines.start("server-1")
    eventually(lambda: machines.status("server-1") == 200, "the first takes events")
    second = machines.start("server-2")
    eventually(lambda: machines.status("server-2") == 503, "the second refuses them")
    told = httpx.post(machines.url("server-2"), json={})
    assert told.headers["retry-after"] == "1"
    assert told.json() == {
        "error": "server server-2 is passive: server-1 is active",
        "status": "passive",
        "node": "server-2",
        "active": "server-1",
    }
    assert {httpx.request(one, machines.url("server-2")).status_code for one in ("GET", "PUT", "HEAD")} == {503}
    assert httpx.get(f"{second.url}/health").status_code == 503
    knocking = Knocking(machines, "server-2")
    machines.away.add("server-1")
    eventually(lambda: machines.status("server-2") == 200, "the second takes events")
    assert machines.status("server-1") == 503, "who was cut off does no more"
    machines.away.symmetric_difference_update({"server-1", "server-2"})
    eventually(lambda: machines.status("server-1") == 200, "the first takes over again")
    eventually(lambda: machines.status("server-2") == 503, "the second is passive again")
    knocking.ending.set()
    knocking.join()
    order = [status for before, status in zip([0, *knocking.seen], knocking.seen, strict=False) if status != before]
    assert order == [503, 200, 503], "no connection was refused"


def test_a_large_body_is_answered_before_it_has_come(machines: Machines, eventually: Eventually) -> None:
    machines.start("server-1")
    eventually(lambda: machines.active() == ["server-1"], "the first is active")
    machines.start("server-2")
    eventually(lambda: machines.status("server-2") == 503, "the second refuses events")
    with closing(http.client.HTTPConnection("127.0.0.2", machines.port, timeout=10)) as connection:
        connection.putrequest("POST", "/in")
        connection.putheader("Content-Length", str(1 << 40))
        connection.putheader("Expect", "100-continue")
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.headers["connection"]) == (503, "close")


def test_over_tls_it_shows_the_certificate_of_the_source(machines: Machines, eventually: Eventually) -> None:
    keys = machines.home / "keys"
    authority(keys)
    pem = keys / "node.pem"
    pem.write_bytes((keys / "node.crt").read_bytes() + (keys / "node.key").read_bytes())
    machines.tls = str(pem)
    machines.start("server-1")
    eventually(lambda: machines.status("server-1") == 200, "the first takes events")
    machines.start("server-2")
    eventually(lambda: machines.status("server-2") == 503, "the second refuses them")
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    with (
        socket.create_connection(("127.0.0.2", machines.port), timeout=5) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as secured,
    ):
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    machines.nodes.pop("server-1").stop()
    eventually(lambda: machines.status("server-2") == 200, "the second takes events")


def test_a_port_that_is_in_use_is_told_once_and_tried_again(
    machines: Machines, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    machines.start("server-1")
    eventually(lambda: machines.active() == ["server-1"], "the first is active")
    with socket.create_server(("127.0.0.2", machines.port)), caplog.at_level(logging.WARNING):
        second = machines.start("server-2")
        said = f"cannot listen on 127.0.0.2:{machines.port}"
        eventually(lambda: said in caplog.text, "it is told")
        looks: list[int] = []
        role = second._role
        eventually(lambda: looks.append(role().active) or len(looks) > 60, "some looks later")
        assert caplog.text.count(said) == 1
        assert second.passive.startswith("server-1 is active")
    eventually(lambda: machines.status("server-2") == 503, "it listens when it can")


def test_servers_of_one_address_leave_the_port_to_the_active_one(
    machines: Machines, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    machines.hosts = dict.fromkeys(machines.hosts, "127.0.0.1")
    first = machines.start("server-1")
    eventually(lambda: machines.status("server-1") == 200, "the first takes events")
    machines.start("server-2")
    left = f"127.0.0.1:{machines.port} is left to the active server, which is on this machine"
    eventually(lambda: left in caplog.text, "the second does not listen there")
    first.stop()
    eventually(lambda: machines.status("server-2") == 200, "it does when it is active")


def test_nobody_waits_for_ever_for_one_who_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdist.connectors.http.ports._ENDING_S", 0.2)
    address = HttpAddress("127.0.0.1", free_port(), "/in")
    port = HttpPort.shared(address, ConnectionLimits())
    stop, stopping, ended = port._listener.stop, threading.Event(), threading.Event()
    monkeypatch.setattr(port._listener, "stop", lambda: (stopping.set(), ended.wait(10), stop()))
    leaving = threading.Thread(target=port.leave)
    leaving.start()
    assert stopping.wait(10)
    try:
        with pytest.raises(
            TransportError, match=rf"127\.0\.0\.1:{address.port}: the source .* does not end; waited 0\.2 s"
        ):
            HttpPort.shared(address, ConnectionLimits())
    finally:
        ended.set()
        leaving.join()
    HttpPort.shared(address, ConnectionLimits()).leave()  # the next attempt has it


def test_who_begins_while_the_last_one_leaves_gets_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    address = HttpAddress("127.0.0.1", free_port(), "/in")
    port = HttpPort.shared(address, ConnectionLimits())
    stop, stopping, answered = port._listener.stop, threading.Event(), threading.Event()

    def finishes_requests() -> None:
        stopping.set()
        answered.wait(10)
        stop()

    monkeypatch.setattr(port._listener, "stop", finishes_requests)
    leaving = threading.Thread(target=port.leave)
    leaving.start()
    assert stopping.wait(10)
    other = HttpPort.shared(HttpAddress("127.0.0.1", free_port(), "/in"), ConnectionLimits())
    other.leave()  # others need not wait
    threading.Timer(0.2, answered.set).start()
    again = HttpPort.shared(address, ConnectionLimits())
    assert httpx.post(again.url + "/in").status_code == 404
    again.leave()
    leaving.join()
    with closing(socket.create_server(("127.0.0.1", address.port))):
        pass
