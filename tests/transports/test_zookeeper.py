"""Brokers are found where only a ZooKeeper is given."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist.errors import TransportError, TransportUnavailableError
from spdist.services.java import find_java
from spdist.services.kafka import answers
from spdist.services.maven import Coordinate, jars
from spdist.services.process import HOST, ServerProcess, free_port
from spdist.transports.base import Record
from spdist.transports.kafka import zookeeper
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.kafka.transport import KafkaTransport

LOGGING = Coordinate("org.slf4j", "slf4j-simple", "1.7.36", transitive=False)


class Old:
    """A ZooKeeper, and a Kafka 3.9 that registers there, as clusters were before Kafka 4."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.zookeeper_port, self.kafka_port = free_port(), free_port()
        self.processes: list[ServerProcess] = []

    def start(self) -> None:
        java = find_java("ZooKeeper")
        path = os.pathsep.join(
            map(str, jars("kafka-with-zookeeper", [Coordinate("org.apache.kafka", "kafka_2.13", "3.9.1"), LOGGING]))
        )
        run = [java, "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
        run += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.4lw.commands.whitelist=ruok"]
        zoo = self.place / "zoo.cfg"
        zoo.write_text(
            f"tickTime=500\ndataDir={self.place}/zoo\nclientPort={self.zookeeper_port}\nclientPortAddress={HOST}\n"
            "admin.enableServer=false\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.processes.append(ServerProcess("ZooKeeper", [*run, main, str(zoo)], self.place / "zoo.log"))
        self.processes[0].wait_until(self.ruok, 60)
        settings = {
            "broker.id": 7,
            "zookeeper.connect": f"{HOST}:{self.zookeeper_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.kafka_port}",
            "log.dirs": f"{self.place}/data",
            "offsets.topic.replication.factor": 1,
        }
        file = self.place / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.processes.append(ServerProcess("Kafka", [*run, "kafka.Kafka", str(file)], self.place / "kafka.log"))
        self.processes[1].wait_until(lambda: answers(HOST, self.kafka_port), 90)

    def ruok(self) -> bool:
        try:
            with socket.create_connection((HOST, self.zookeeper_port), 1.0) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    servers = Old(tmp_path_factory.mktemp("old"))
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.mark.slow
def test_a_broker_is_found_in_its_zookeeper_and_used(old: Old) -> None:
    settings = KafkaSettings("", zookeeper_urls=f"{HOST}:{old.zookeeper_port}", replication=1)
    assert zookeeper.bootstrap_servers(settings) == f"{HOST}:{old.kafka_port}"
    transport = KafkaTransport(settings)
    assert transport.ensure("A.S", 2) == 2
    transport.append([Record("A.S", 1, b"x", 1, "p", 0, 5)])
    assert transport.read("A.S", 1, 0) == [Record("A.S", 1, b"x", 1, "p", 0, 5, 0)]
    transport.close()
    encrypted = KafkaSettings("", {"security.protocol": "SASL_SSL"}, zookeeper_urls=settings.zookeeper_urls)
    with pytest.raises(TransportError, match="no Kafka broker that speaks SASL_SSL"):
        zookeeper.bootstrap_servers(encrypted)
    elsewhere = KafkaSettings("", zookeeper_urls=f"{settings.zookeeper_urls}/elsewhere")
    with pytest.raises(TransportUnavailableError):
        zookeeper.bootstrap_servers(elsewhere)


def test_what_is_set_is_not_looked_up() -> None:
    assert zookeeper.bootstrap_servers(KafkaSettings("a:1", zookeeper_urls="nowhere:1")) == "a:1"


def test_a_zookeeper_that_does_not_answer_is_said() -> None:
    port = free_port()
    with pytest.raises(TransportUnavailableError, match=f"ZooKeeper at {HOST}:{port} does not answer"):
        zookeeper.bootstrap_servers(KafkaSettings("", zookeeper_urls=f"{HOST}:{port}", patience_ms=300))


@pytest.mark.parametrize(
    ("broker", "protocol", "address"),
    [
        (
            {"endpoints": ["IN://a:1", "OUT://[::1]:2"], "listener_security_protocol_map": {"OUT": "SSL"}},
            "SSL",
            "[::1]:2",
        ),
        ({"endpoints": ["SASL_SSL://a:1"], "host": None, "port": -1}, "PLAINTEXT", None),
        ({"endpoints": [], "host": "a", "port": 9092}, "PLAINTEXT", "a:9092"),
    ],
)
def test_the_address_with_the_right_protocol_is_taken(
    broker: dict[str, Any], protocol: str, address: str | None
) -> None:
    assert zookeeper._address(broker, protocol) == address
