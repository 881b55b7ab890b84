"""A Kafka broker on this machine: one process that is broker and controller (KRaft), from Maven's artifacts."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from spdist.errors import EngineError, ErrorKind
from spdist.services.class_archive import ClassArchive
from spdist.services.java import find_java, java_version
from spdist.services.maven import Coordinate, jars
from spdist.services.process import HOST, ServerProcess, Service, free_port

__all__ = ["BROKER_JARS", "KafkaBroker", "answers"]

#: Without a logging library a broker that fails is silent.
BROKER_JARS = (
    Coordinate("org.apache.kafka", "kafka_2.13", "4.1.0"),
    Coordinate("org.slf4j", "slf4j-simple", "1.7.36", transitive=False),
)
_FORMAT_TIMEOUT_S = 60.0
#: Small and quick to start: the serial collector.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


#: And the first compiler only, where nobody wants it to move much.
_QUICK = "-XX:TieredStopAtLevel=1"


class KafkaBroker(Service):
    """One broker.

    Parameters
    ----------
    directory : path
        For its data, settings and log; made where it is missing. Data of an earlier broker there are used.
    port : int
        Of 127.0.0.1; 0 for a free one.
    properties : mapping of str to str, optional
        Settings of the broker besides ours, which they override.
    memory : str
        Largest heap, as Java writes it.
    throughput : bool
        Whether its JVM compiles thoroughly: for much load, and not for a short life.

    Notes
    -----
    Topics are kept for ever unless `properties` say otherwise, and are not made by asking for them. Starting takes
    about 2 s, the first time in a directory 2 s more; the very first time the artifacts are fetched (43 MB).
    """

    name = "Kafka"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        port: int = 0,
        *,
        properties: Mapping[str, str] | None = None,
        memory: str = "512m",
        throughput: bool = False,
    ) -> None:
        super().__init__(directory, port)
        self._options = _JAVA_OPTIONS if throughput else (_QUICK, *_JAVA_OPTIONS)
        self._controller_port = free_port()
        self._properties = dict(properties or {})
        self._memory = memory
        self._archive: ClassArchive | None = None

    @property
    def url(self) -> str:
        """The ``bootstrapServers`` of its clients."""
        return f"{HOST}:{self.port}"

    def _launch(self) -> ServerProcess:
        java = find_java("a Kafka broker")
        found = jars("kafka-broker", BROKER_JARS)
        settings = self._write_settings()
        run = [java, f"-Xmx{self._memory}", *self._options, "-cp", os.pathsep.join(map(str, found))]
        self._archive = ClassArchive(found[0].parent / f"classes-java-{java_version(java)}.jsa")
        # StorageTool refuses to format a directory a second time. It ends first, and would fill an archive that it
        # wrote with its few classes.
        if not (self._data / "meta.properties").exists():
            format = [*run[:1], *self._archive.options(writes=False), *run[1:]]
            self._format([*format, "kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", str(settings)])
        run[1:1] = self._archive.options()
        return ServerProcess("Kafka", [*run, "kafka.Kafka", str(settings)], self.directory / "broker.log")

    def stop(self) -> None:
        """End it in order; its data stay. Safe to call twice.

        The first time on a machine this takes some seconds more: the classes are kept, so that later starts take half.
        """
        super().stop()
        if self._archive is not None:
            self._archive.keep()

    def kill(self) -> None:
        """End it immediately, as a crash would."""
        super().kill()
        if self._archive is not None:
            self._archive.drop()

    def _answers(self) -> bool:
        return answers(HOST, self.port)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _write_settings(self) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self._data),
            "auto.create.topics.enable": "false",
            "log.retention.ms": "-1",
            "file.delete.delay.ms": "1000",
            # One broker holds every copy there is.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            # Consumers of one machine need not wait for others to join their group.
            "group.initial.rebalance.delay.ms": "0",
            # One that was killed is let in again once its session has ended, which lasts 9 s otherwise.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            # Few clients: fewer threads, and memory that is asked for when it is needed.
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": "2097152",
        } | self._properties
        file = self.directory / "server.properties"
        text = "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())
        # Java reads properties files as Latin-1.
        file.write_text(text, encoding="latin-1")
        file.chmod(0o600)  # passwords of listeners may stand in it
        return file

    def _format(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FORMAT_TIMEOUT_S)
        if done.returncode:
            raise EngineError(
                f"the Kafka data in {self._data} could not be made: {(done.stdout + done.stderr)[-800:]}",
                code=ErrorKind.SERVICE,
            )


def answers(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Tell whether a Kafka broker answers there: it is asked which requests it knows (ApiVersions, version 0).

    A broker answers once it takes part in its cluster; before, connections are accepted and stay without an answer.
    """
    # int16 key (18: ApiVersions) and version, int32 correlation id, int16 length of the client's id (-1: null).
    question = struct.pack(">hhih", 18, 0, 1, -1)
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout_s) as connection:
        deadline = time.monotonic() + timeout_s
        connection.sendall(struct.pack(">i", len(question)) + question)
        got = b""
        # Size and correlation id, int32 each; what follows is not needed.
        while len(got) < 8 and time.monotonic() < deadline:
            more = connection.recv(8 - len(got))
            if not more:
                return False
            got += more
        return len(got) == 8 and struct.unpack(">ii", got)[1] == 1
    return False


def _new_id() -> str:
    """Return a cluster's id as Kafka writes it: a UUID in URL-safe base 64; none begins with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # StorageTool would take it for an option.
        if not text.startswith("-"):
            return text


def _escaped(value: str) -> str:
    """Write a value for Java's properties files: other letters than latin ones as escapes."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(c if ord(c) < 256 else "".join(f"\\u{u:04x}" for u in _utf16(c)) for c in text)


def _utf16(letter: str) -> tuple[int, ...]:
    raw = letter.encode("utf-16-be")
    return struct.unpack(f">{len(raw) // 2}H", raw)
