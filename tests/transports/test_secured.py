"""Servers that ask who is there, over TLS and with logins."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdist.errors import TransportError, TransportUnavailableError
from spdist.services.kafka import KafkaBroker
from spdist.services.nats import NatsServer
from spdist.transports.base import Record
from spdist.transports.kafka import KafkaTransport
from spdist.transports.kafka_options import KafkaSettings
from spdist.transports.nats import NatsTransport
from spdist.transports.nats_settings import NatsSettings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    properties = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} username="broker" password="b" user_broker="b" user_ann="s3cret";'
        ),
    }
    with KafkaBroker(tmp_path_factory.mktemp("sasl"), properties=properties) as broker:
        yield broker


def settings(broker: KafkaBroker, password: str, patience_ms: int = 30_000) -> KafkaSettings:
    return KafkaSettings(
        broker.url,
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} username="ann" password="{password}";',
        },
        patience_ms=patience_ms,
    )


def test_kafka_with_a_login(broker: KafkaBroker) -> None:
    transport = KafkaTransport(settings(broker, "s3cret"))
    transport.ensure("A.S", 1)
    transport.append([Record("A.S", 0, b"x", 1, "p", 0, 5)])
    assert len(transport.read("A.S", 0, 0)) == 1
    transport.close()
    wrong = KafkaTransport(settings(broker, "wr0ng", 2000))
    with pytest.raises(TransportError, match=r"refuses|name, password") as caught:
        wrong.partitions("A.S")
    assert "wr0ng" not in str(caught.value)
    wrong.close()


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
        with pytest.raises(TransportError, match="TLS files") as caught:
            nowhere.partitions("A.S")
        assert not isinstance(caught.value, TransportUnavailableError)
        nowhere.close()
