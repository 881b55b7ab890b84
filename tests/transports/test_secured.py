"""Servers that ask who is there, over TLS and with logins."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdist.config import Secret
from spdist.config.allowed import Allowed
from spdist.connectors.kafka.sink import KafkaSink
from spdist.connectors.sending import SendError, SinkContext
from spdist.errors import TransportError, TransportUnavailableError
from spdist.services.kafka import KafkaBroker
from spdist.services.nats import NatsServer
from spdist.services.process import free_port
from spdist.transports.base import Record
from spdist.transports.delivery import Delivery
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.kafka.transport import KafkaTransport
from spdist.transports.log import LogTransport
from spdist.transports.nats.settings import NatsSettings
from spdist.transports.nats.transport import NatsTransport

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[str]:
    """Where a broker speaks TLS and asks for a login."""
    own = certificate / "broker.pem"
    own.write_text((certificate / "key.pem").read_text() + (certificate / "cert.pem").read_text())
    plain, secured, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
    settings = {
        "listeners": f"PLAINTEXT://{plain},SECURED://{secured},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{plain},SECURED://{secured}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
        "listener.name.secured.ssl.keystore.type": "PEM",
        "listener.name.secured.ssl.keystore.location": str(own),
        "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN} user_ann="s3cret";',
    }
    port = int(plain.partition(":")[2])
    with KafkaBroker(tmp_path_factory.mktemp("secured"), port, properties=settings):
        yield secured


def properties(certificate: Path, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate / "cert.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} username="ann" password="{password}";',
    }


def test_kafka_over_tls_with_a_login(secured: str, certificate: Path) -> None:
    transport = KafkaTransport(KafkaSettings(secured, properties(certificate, "s3cret")))
    transport.ensure("A.S", 1)
    transport.append([Record("A.S", 0, b"x", 1, "p", 0, 5)])
    assert len(transport.read("A.S", 0, 0)) == 1
    wrong = KafkaTransport(KafkaSettings(secured, properties(certificate, "wr0ng"), patience_ms=2000))
    with pytest.raises(TransportError, match=r"refuses|name, password") as caught:
        wrong.partitions("A.S")
    assert "wr0ng" not in str(caught.value)
    wrong.close()
    transport.close()


def test_a_kafka_sink_over_tls_with_a_login(secured: str, certificate: Path, tmp_path: Path) -> None:
    log, said = LogTransport(tmp_path), []
    allowed = Allowed((certificate,), secrets={"GOOD": Secret("s3cret"), "BAD": Secret("wr0ng")})
    context = SinkContext("A", log, {}, waiting=said.append, allowed=allowed)
    transport = KafkaTransport(KafkaSettings(secured, properties(certificate, "s3cret")))
    transport.ensure("sunk", 1)
    for password in ("${secret:GOOD}", "${secret:BAD}"):
        written = {"delivery.timeout.ms": "2000"} | properties(certificate, password)
        options = {
            "bootstrap.servers": secured,
            "topic": "sunk",
            "optional.configuration": ",".join(f"{name}:{value}" for name, value in written.items()),
        }
        sink = KafkaSink(options, context)
        if "GOOD" in password:
            sink.send([Delivery("kafka", 0, 0, "S", options, "a", "A-1", 1)])
        else:
            with pytest.raises(SendError, match="Kafka at"):
                sink.send([Delivery("kafka", 0, 0, "S", options, "a", "A-1", 2)])
        sink.close()
    assert [record.value[-1:] for record in transport.read("sunk", 0, 0)] == [b"a"]
    assert said and not any("wr0ng" in str(one) for one in said)
    transport.close()
    log.close()


def test_nats_over_tls(certificate: Path, tmp_path: Path) -> None:
    tls = f'tls {{ cert_file: "{certificate}/cert.pem", key_file: "{certificate}/key.pem" }}'
    with NatsServer(tmp_path, settings=tls, scheme="tls") as server:
        trusting = NatsTransport(NatsSettings(server.url, ca_file=str(certificate / "cert.pem")))
        trusting.ensure("A.S", 1)
        trusting.append([Record("A.S", 0, b"x", 1, "p", 0, 5)])
        assert len(trusting.read("A.S", 0, 0)) == 1
        trusting.close()
        strange = NatsTransport(NatsSettings(server.url, patience_ms=500))
        with pytest.raises(TransportError, match=r"(?i)certificate|does not answer"):
            strange.partitions("A.S")
        strange.close()
        nowhere = NatsTransport(NatsSettings(server.url, ca_file=str(certificate / "none.pem")))
        with pytest.raises(TransportError, match=r"authorities of .*none\.pem") as caught:
            nowhere.partitions("A.S")
        assert not isinstance(caught.value, TransportUnavailableError)
        nowhere.close()
