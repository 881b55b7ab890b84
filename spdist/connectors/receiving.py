"""Brings what the users' sources receive into the embedded topics that a group instance reads.

A source runs next to its group's query, in the same process, and stops with it. What it has received counts once it is
appended to the topic: only then a sender gets its answer, and a file's position moves on.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from spdist.config.allowed import Allowed
from spdist.errors import FencedError, MappingError, SpdistError
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.mapping.base import MapSetting, SourceMapper
from spdist.mapping.bounds import shown
from spdist.mapping.payload_reader import BatchReader
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import Transport
from spdist.transports.options import Options, options_of
from spdist.transports.rejects import Rejects
from spdist.transports.sockets.connections import ConnectionLimits
from spdist.transports.sockets.logins import Logins
from spdist.transports.source_writer import Chunk, SourceWriter

if TYPE_CHECKING:
    from spdist.engine.spark.session import SparkHost

__all__ = ["Looping", "NodeContext", "ReadPayload", "Source", "SourceContext", "now_ms"]

log = logging.getLogger(__name__)


def now_ms() -> int:
    """Return the time on the wall, ms."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What sources need to know of where they are.

    Parameters
    ----------
    transport : Transport
        Of the embedded topics.
    positions : Path
        A directory for what sources must remember; it belongs to the topics.
    users : callable
        Returns who may send to sources with ``basic.auth.enabled`` that name no user of their own; None for nobody.
    allowed : Allowed
        The secrets and files that apps may refer to.
    limits : ConnectionLimits
        What those who connect to HTTP sources may take.
    host : SparkHost, optional
        With the Spark session, where there is one; it runs.
    """

    transport: Transport
    positions: Path
    users: Callable[[], Logins | None] = lambda: None
    allowed: Allowed = field(default_factory=Allowed)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    host: SparkHost | None = None


class Source(Protocol):
    """Receives for one ``@source``."""

    def start(self) -> None:
        """Begin to receive; raises SpdistError where that is not possible."""
        ...

    def stop(self) -> None:
        """Stop receiving; what has been received is appended or will be received again. May be called twice."""
        ...

    @property
    def problem(self) -> str | None:
        """Why nothing comes in at the moment; None where all is well."""
        ...


@dataclass(frozen=True, slots=True)
class ReadPayload:
    """What a payload holds: chunks of events, and why others could not be read, in a few sentences."""

    chunks: list[list[tuple[int, tuple[Any, ...]]]]
    rejected: list[str]


class SourceContext:
    """Where payloads become events of a stream.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    checked : CheckedApp
        Its app.
    assigned : AssignedInput
        The topic, of which this instance has one partition.
    annotation : Annotation
        The ``@source``.
    node : NodeContext
        Where it is.
    number : int
        Which of the sources of its stream it is, from 0.

    State
    -----
    That of the mapping.
    """

    def __init__(
        self,
        assignment: Assignment,
        checked: CheckedApp,
        assigned: AssignedInput,
        annotation: ast.Annotation,
        node: NodeContext,
        number: int = 0,
    ) -> None:
        self.node = node
        self._number = number
        self.app = assignment.app
        self.instance = assignment.name
        self.stream = assigned.stream
        self.options = options_of(annotation, assigned.stream, node.allowed)
        self.annotation = annotation
        self.schema = schema = checked.streams[assigned.stream]
        mapping = next(iter(annotation.nested("map")), None)
        setting = MapSetting(assigned.stream, schema, mapping, _size_limit(self.options))
        #: How large a payload may be, bytes.
        self.largest = setting.max_bytes
        self._reader = BatchReader(setting)
        self.mapper: SourceMapper = self._reader.mapper
        place = (node.transport, assigned.topic, min(assigned.partitions), schema)
        self.writer = SourceWriter(*place, playback=assignment.playback, unfit=self._unfit)
        faults = checked.streams.get(f"!{assigned.stream}")
        self._rejects = Rejects(node.transport, self.app, self.stream, self.options, faults)

    def kept(self, suffix: str) -> Path:
        """Return a path for what the source must remember: of this source alone, on the disk of this node."""
        # The first source of a stream has no number, so that a position stays valid when a second one is added.
        further = f".{self._number}" if self._number else ""
        name = quote(f"{self.writer.topic}.{self.instance}{further}", safe=" ")
        return self.node.positions / f"{name}.{suffix}"

    def read(self, payload: Any, properties: Mapping[str, Any], now: int) -> ReadPayload:
        """Return the events of a payload; what cannot be read is dealt with as ``on.error`` says, and told."""
        rejected: list[str] = []

        def lost(error: Exception) -> None:
            rejected.append(str(error))
            self._rejects.reject(payload, error, now)

        try:
            chunks = self.mapper.read(payload, properties, now, lost)
        except MappingError as error:
            lost(error)
            chunks = []
        return ReadPayload(chunks, rejected)

    def read_each(
        self, payloads: Sequence[Any], properties: Callable[[int], Mapping[str, Any]], now: int
    ) -> list[list[Chunk]]:
        """Return the events of each payload; `properties` are those of the payload with a number, from 0."""
        return [
            [((now, row),)] if row is not None else [*self.read(payloads[number], properties(number), now).chunks]
            for number, row in enumerate(self._reader.rows(payloads))
        ]

    def reject(self, payload: Any, why: str, now: int) -> None:
        """Deal with a payload that is not even read."""
        self._rejects.reject(payload, MappingError(f"stream '{self.stream}': {why}"), now)

    def append(self, chunks: list[Chunk], now: int) -> int:
        """Append events that nobody numbers; durable when this returns."""
        return self.writer.append(chunks, now)

    @property
    def rejected(self) -> int:
        """How many payloads, and events of payloads, could not be read since this process began."""
        return self._rejects.count

    def _unfit(self, chunk: Chunk, error: MappingError) -> None:
        error.events = len(chunk)
        self._rejects.reject(shown([row for _, row in chunk]), error, now_ms())


#: Of WSO2's HTTP source: how large a request may be.
_SIZE = re.compile(r"'\s*request\.size\.validation\.maximum\.value\s*:\s*(\d+)\s*'")


def _size_limit(options: Options) -> int | None:
    """Return how large a payload may be, as the source says it; None where it does not."""
    found = _SIZE.search(options.text("request.size.validation.configurations"))
    return None if found is None else int(found[1])


class Looping:
    """A source with a thread of its own, which calls `_turn` again and again.

    Parameters
    ----------
    name : str
        For messages.
    """

    _PAUSE_S = 0.05
    _LONGEST_PAUSE_S = 10.0

    def __init__(self, name: str) -> None:
        self._name = name
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why nothing comes in at the moment."""
        return self._problem

    def start(self) -> None:
        """Begin to receive."""
        self._begin()
        self._thread = threading.Thread(target=self._run, name=f"feed {self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop receiving, after what is being appended."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(30.0)
        # Who was replaced has nothing to save: the other one goes on from what it has found.
        with contextlib.suppress(FencedError):
            self._end()

    def _begin(self) -> None:
        """Make sure that there is something to receive from."""

    def _turn(self) -> float:
        """Receive something; return how long to wait before the next time, s."""
        raise NotImplementedError

    def _end(self) -> None:
        """Let go of files and connections."""

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                pause = self._turn()
                failures, self._problem = 0, None
            # For good: another process goes on, and to try again would only disturb it.
            except FencedError as error:
                self._problem = f"{self._name}: {error}"
                log.warning("%s", self._problem)
                return
            except (SpdistError, OSError) as error:
                failures += 1
                # The exponent is bounded, too: a float overflows after some hundred failures.
                pause = min(self._LONGEST_PAUSE_S, self._PAUSE_S * 2 ** min(failures, 10))
                self._problem = f"{self._name}: {error}"
                if failures in (1, 10) or failures % 100 == 0:
                    log.warning("%s; trying again", self._problem)
            except Exception as error:
                failures += 1
                # Nobody has foreseen it, so it is not likely to pass soon.
                pause = self._LONGEST_PAUSE_S
                self._problem = f"{self._name}: {type(error).__name__}: {error}"
                if failures == 1:
                    log.exception("%s; trying again every %g s", self._problem, pause)
            self._stopping.wait(pause)
