"""HAProxy in front of servers: who gets a request, and what the example in ``deploy/`` says."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from spdist.errors import EngineError
from spdist.services.haproxy import Backend, HAProxy, proxy_settings

EXAMPLE = Path(__file__).parents[2] / "deploy/haproxy/haproxy.cfg"
DEBIAN = "/usr/sbin"


def test_the_example_is_what_is_made_for_two_machines() -> None:
    addresses = [(f"10.0.0.{n}:8006", f"10.0.0.{n}:9443") for n in (1, 2)]
    backends = [Backend(f"server-{n}", *both) for n, both in enumerate(addresses, 1)]
    secure = "check-ssl verify required ca-file /etc/spdist/tls/ca.crt"
    assert EXAMPLE.read_text() == proxy_settings("0.0.0.0:8006", backends, secure)


def test_who_has_no_haproxy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(EngineError, match="no haproxy on this machine") as caught:
        HAProxy(tmp_path, []).start()
    assert "apt install haproxy" in str(caught.value)


@contextmanager
def answering(name: str, health: int, events: int = 200) -> Iterator[str]:
    """A server, at host:port, that is as healthy as `health` says, and answers events with `events` and its name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health if self.path == "/health" else events)
            self.end_headers()
            self.wfile.write(name.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


needs_haproxy = pytest.mark.skipif(
    not (shutil.which("haproxy") or shutil.which("haproxy", path=DEBIAN)), reason="there is no haproxy: apt install it"
)


@needs_haproxy
def test_requests_go_in_turn_to_who_is_healthy(tmp_path: Path, eventually: object) -> None:
    states = {"a": 200, "b": 200, "passive": 503}
    with ExitStack() as stack:
        addresses = {name: stack.enter_context(answering(name, health)) for name, health in states.items()}
        backends = [Backend(name, address, address) for name, address in addresses.items()]
        proxy = stack.enter_context(HAProxy(tmp_path, backends))

        def answers() -> set[str]:
            return {httpx.get(proxy.url).text for _ in range(6)}

        assert callable(eventually)
        eventually(lambda: answers() == {"a", "b"}, "who is not healthy gets nothing")


@needs_haproxy
def test_what_a_server_refuses_that_has_just_become_passive_goes_to_another_where_it_is_numbered(
    tmp_path: Path, eventually: object
) -> None:
    with ExitStack() as stack:
        addresses = {
            "active": stack.enter_context(answering("active", 200)),
            "passive": stack.enter_context(answering("passive", 200, 503)),
        }
        proxy = stack.enter_context(
            HAProxy(tmp_path, [Backend(name, address, address) for name, address in addresses.items()])
        )

        def answers(headers: dict[str, str]) -> set[tuple[int, str]]:
            got = [httpx.get(proxy.url, headers=headers) for _ in range(6)]
            return {(one.status_code, one.text) for one in got}

        assert callable(eventually)
        eventually(lambda: answers({}) == {(200, "active"), (503, "passive")}, "its sender is told")
        assert answers({"spdist-id": "sender:7"}) == {(200, "active")}
