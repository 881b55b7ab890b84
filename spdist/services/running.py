"""Which services there are, and which of them run: each that a person starts leaves a note in the cache directory."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from spdist.services.kafka import KafkaBroker
from spdist.services.maven import cache_directory
from spdist.services.nats import NatsServer
from spdist.services.process import Service, runs

__all__ = ["SERVICES", "Note", "note", "notes", "run_service"]


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A service that can be started.

    Parameters
    ----------
    make : callable
        From directory and port to the service.
    port : int
        Where people expect it.
    about : str
        One line for people.
    """

    make: Callable[[Path, int], Service]
    port: int
    about: str


def _kafka(directory: Path, port: int) -> KafkaBroker:
    """Return a broker for people who try things out: it creates topics that clients name."""
    return KafkaBroker(directory, port, properties={"auto.create.topics.enable": "true"})


SERVICES: dict[str, ServiceKind] = {
    "kafka": ServiceKind(_kafka, 9092, "one Kafka broker (KRaft)"),
    "nats": ServiceKind(NatsServer, 4222, "one NATS server with JetStream"),
}


@dataclass(frozen=True, slots=True)
class Note:
    """A service that runs.

    Parameters
    ----------
    name : str
        A key of `SERVICES`.
    pid : int
        Of the process that started it.
    url, directory : str
        Its address, and where its data are.
    """

    name: str
    pid: int
    url: str
    directory: str


@contextmanager
def run_service(name: str, port: int | None, directory: Path | None) -> Iterator[Service]:
    """Start a service and note that it runs; stop it at the end.

    Parameters
    ----------
    name : str
        A key of `SERVICES`.
    port : int, optional
        Of 127.0.0.1; the usual one if left out, 0 for a free one.
    directory : Path, optional
        Where its data stay; a temporary one that is removed at the end if left out.
    """
    kind = SERVICES[name]
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"spdist-{name}-")))
        service = stack.enter_context(kind.make(directory, kind.port if port is None else port))
        # Last, so it is undone first: there is a note only while the service answers.
        stack.enter_context(note(Note(name, os.getpid(), service.url, str(service.directory))))
        yield service


@contextmanager
def note(running: Note) -> Iterator[None]:
    """Leave a note for as long as the block runs."""
    file = _notes() / f"{running.name}-{running.pid}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    # In one moment: what `notes` can read only in part it would take for a broken one.
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(running)), encoding="utf-8")
    temporary.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def notes() -> list[Note]:
    """Return the services that run, and forget those whose process is gone."""
    found = []
    for file in sorted(_notes().glob("*.json")):
        try:
            one: Note | None = Note(**json.loads(file.read_text(encoding="utf-8")))
        except OSError:  # it is gone, or may be read later
            continue
        except (ValueError, TypeError):
            one = None
        if one is not None and runs(one.pid):
            found.append(one)
        else:
            file.unlink(missing_ok=True)
    return found


def _notes() -> Path:
    return cache_directory() / "services"
