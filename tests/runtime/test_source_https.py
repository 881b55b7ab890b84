"""HTTP sources and sinks over TLS, against each other and against servers that ask for a certificate."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from spdist.config.allowed import Allowed
from spdist.connectors.http.sink import HttpSink
from spdist.connectors.sending import SendError
from spdist.transports.delivery import Delivery
from spdist.transports.sockets.tls import VERIFY_CLIENT, server_context
from tests.runtime.test_sources import Fed, fed
from tests.transports.certificates import authority, certificate, foreign_client, greeted, old
from tests.transports.receiver import Receiver

__all__ = ["fed"]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Certificates, those of node and user with their keys in one file, where apps may read them."""
    place = tmp_path / "keys"
    authority(place)
    for name in ("node", "ann"):
        (place / f"{name}.pem").write_bytes(b"".join((place / f"{name}.{end}").read_bytes() for end in ("crt", "key")))
    return place


def send(url: str, keys: Path, **options: str) -> None:
    given = {"publisher.url": url, **{name.replace("_", "."): value for name, value in options.items()}}
    sink = HttpSink(given, Allowed((keys,)))
    try:
        sink.send([Delivery("http", 0, 0, "S", given, '{"event":{"k":"a","n":1}}', "App-1", 1)])
    finally:
        sink.close()


def test_a_sink_sends_to_a_source_over_tls(fed: Callable[..., Fed], keys: Path) -> None:
    one = fed(
        f"@source(type='http', receiver.url='https://127.0.0.1:0/x', https.keystore.file='{keys}/node.pem', "
        "@map(type='json'))"
    )
    assert one.url.startswith("https://")
    send(one.url, keys, https_truststore_file=f"{keys}/ca.crt")
    assert one.rows() == [("a", 1)]
    with pytest.raises(SendError, match="CERTIFICATE_VERIFY_FAILED"):
        send(one.url, keys)
    port = urlsplit(one.url).port
    assert port is not None
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version|EOF"):
        greeted(old(foreign_client(keys)), port)
    assert one.rows() == [("a", 1)]


def test_a_sink_shows_its_certificate_to_a_receiver_that_asks(keys: Path) -> None:
    receiver = Receiver()
    context = server_context(certificate(keys, "node"), keys / "ca.crt", VERIFY_CLIENT["require"])
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    url = f"https://127.0.0.1:{receiver.server.server_port}/in"
    try:
        send(url, keys, https_truststore_file=f"{keys}/ca.crt", https_keystore_file=f"{keys}/ann.pem")
        with pytest.raises(SendError):
            send(url, keys, https_truststore_file=f"{keys}/ca.crt")
        assert len(receiver.got) == 1
    finally:
        receiver.close()
