"""Settings of a node become the transport between groups, and what its clients need."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from spdist.config.kinds import Secret
from spdist.config.sections import Kafka, Log, Nats, Transports
from spdist.errors import ConfigError, TransportError
from spdist.transports.kafka.options import KafkaSettings, python_options
from spdist.transports.kafka.transport import KafkaTransport
from spdist.transports.log import LogTransport
from spdist.transports.nats.transport import NatsTransport
from spdist.transports.opening import TransportSettings, open_transport, transport_settings

PROPERTIES = """\
# who we are
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a=\\"b";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/ca.pem
compression.type=lz4
"""


def section(default: str = "log", kafka: Kafka | None = None, nats: Nats | None = None) -> Transports:
    return Transports(Log(Path("/the/topics")), default, kafka or Kafka(), nats or Nats())


def test_the_log_needs_nothing() -> None:
    settings = transport_settings(section())
    assert settings == TransportSettings("log", "/the/topics")
    transport = open_transport(settings)
    assert isinstance(transport, LogTransport)
    assert transport.directory == Path("/the/topics")


def test_kafka_for_python() -> None:
    kafka = Kafka(bootstrap_servers="a:9092, b:9092", properties=Secret(PROPERTIES), replication_factor=3)
    settings = transport_settings(section("kafka", kafka))
    assert "ScramLogin" not in repr(settings)
    transport = open_transport(pickle.loads(pickle.dumps(settings)))
    assert isinstance(transport, KafkaTransport)
    found = transport.settings
    assert (found.bootstrap_servers, found.replication) == ("a:9092,b:9092", 3)
    assert python_options(found.properties) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": 'a="b',
        "ssl_cafile": "/etc/ca.pem",
    }
    assert python_options(found.properties, producer=True)["compression_type"] == "lz4"
    transport.close()


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"retry.backoff.ms": "soon"}, "must be a whole number, not 'soon'"),
        ({"ssl.truststore.location": "/etc/store.jks"}, "Java key store"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "no username and password"),
    ],
)
def test_what_the_python_client_cannot_do_is_said(properties: dict[str, str], says: str) -> None:
    with pytest.raises(TransportError, match=says):
        python_options(properties)


def test_other_properties_of_the_python_client() -> None:
    properties = {
        "ssl.endpoint.identification.algorithm": "",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/k.pem",
        "ssl.key.password": "p",
        "acks": "0",
        "interceptor.classes": "x",
        "request.timeout.ms": "500",
    }
    assert python_options(properties, producer=True) == {
        "ssl_check_hostname": False,
        "ssl_certfile": "/k.pem",
        "ssl_keyfile": "/k.pem",
        "ssl_password": "p",
        "request_timeout_ms": 500,
    }


def test_nats() -> None:
    nats = Nats(urls="nats://a:1, nats://b:2", username="ann", password=Secret("pw"), trust_file=Path("/ca.pem"))
    settings = transport_settings(section("nats", nats=nats))
    assert "pw" not in repr(settings)
    transport = open_transport(settings)
    assert isinstance(transport, NatsTransport)
    found = transport.settings
    assert (found.urls, found.username, found.password) == ("nats://a:1,nats://b:2", "ann", "pw")
    assert found.ca_file == "/ca.pem"


def test_a_transport_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="no address for transport 'kafka'"):
        open_transport(TransportSettings("kafka", "/the/topics"))


def test_kafka_settings_do_not_show_passwords() -> None:
    assert "secret" not in repr(KafkaSettings("a:1", {"sasl.jaas.config": "secret"}))
