"""The sources of the users' streams of a group instance: opened, started and stopped with its query."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from spdist.connectors.receiving import NodeContext, Source, SourceContext
from spdist.connectors.registry import connector
from spdist.errors import SpdistError
from spdist.language import ast
from spdist.planning.compiled import CompiledInstance, tree_of
from spdist.planning.topology import Assignment
from spdist.transports.base import Transport
from spdist.transports.sockets.connections import limits_of
from spdist.transports.sockets.logins import Logins

if TYPE_CHECKING:
    from spdist.config.sections import Auth
    from spdist.connectors.spark.writer import SparkWriter
    from spdist.engine.spark.session import SparkHost

__all__ = ["Sources", "source_annotations", "sources_of"]


class Sources:
    """All sources of a group instance.

    Parameters
    ----------
    assignment : Assignment
        The instance; the ``@source`` annotations in its text say what it receives.
    node : NodeContext
        Where it is.
    scripts : bool
        Whether the app may define functions in Python.
    writers : sequence of SparkWriter
        What writes for its sinks through Spark.

    Raises
    ------
    SiddhiAppError
        An option is missing or wrong; shows where.
    """

    def __init__(
        self,
        assignment: Assignment,
        node: NodeContext,
        *,
        scripts: bool = False,
        writers: Sequence[SparkWriter] = (),
    ) -> None:
        self._writers = tuple(writers)
        self._sources: list[Source] = []
        self._contexts: list[SourceContext] = []
        self._lock = threading.Lock()
        sources = source_annotations(tree_of(assignment.text))
        inputs = {
            one.stream: one
            for one in assignment.inputs
            if not one.producers and not one.drains and one.stream in sources
        }
        if not inputs:
            return
        checked = CompiledInstance.of(assignment, scripts).checked
        try:
            for stream, assigned in inputs.items():
                for number, annotation in enumerate(sources[stream]):
                    known = connector(annotation.get("type"))
                    if known is not None and known.source:
                        context = SourceContext(assignment, checked, assigned, annotation, node, number)
                        self._contexts.append(context)
                        self._sources.append(known.load(known.source)(context))
        except SpdistError as error:
            error.text = error.text or assignment.text
            raise

    def __len__(self) -> int:
        return len(self._sources)

    def start(self) -> None:
        """Begin to receive; raises SpdistError where one of them cannot, and then none does."""
        with self._lock:
            try:
                for one in (*self._writers, *self._sources):
                    one.start()
            except BaseException:
                self._stop()
                raise

    def stop(self) -> None:
        """Stop receiving. May be called twice."""
        with self._lock:
            self._stop()

    def finish(self, timeout_s: float) -> None:
        """Write what the sinks have put out, after `stop` and after the end of the query."""
        until = time.monotonic() + timeout_s
        for writer in self._writers:
            writer.finish(until)

    @property
    def problem(self) -> str | None:
        """Why nothing comes in from one of them, or goes out, at the moment; None where all is well."""
        return next((one.problem for one in (*self._sources, *self._writers) if one.problem), None)

    @property
    def rejected(self) -> Counter[str]:
        """How many payloads, and events of payloads, could not be read, by stream."""
        counted: Counter[str] = Counter()
        for context in self._contexts:
            counted[context.stream] += context.rejected
        return counted

    def _stop(self) -> None:
        """Stop all at the same time: while one waits for its server, another has a port that is wanted elsewhere."""
        with ThreadPoolExecutor(max(1, len(self)), "stop sources") as threads:
            stopped = [threads.submit(one.stop) for one in self._sources]
            for one in self._writers:
                one.stop()
        for each in stopped:
            each.result()


def sources_of(assignments: Sequence[Assignment], transport: Transport, host: SparkHost) -> tuple[Sources, ...]:
    """Return what brings in the events of the users' sources of some instances, not yet started."""
    from spdist.connectors.spark.writer import spark_writers

    config = host.config

    @cache
    def users() -> Logins | None:
        """Return the users of the node who may deploy apps: who only looks, or is a worker, may not send either."""
        auth: Auth | None = getattr(config, "auth", None)
        known = [] if auth is None else [one for one in auth.users if {auth.admin_role, "developer"} & {*one.roles}]
        return Logins({one.username: one.password.reveal() for one in known}) if known else None

    limits = limits_of(getattr(config, "listener", None))
    node = NodeContext(transport, host.log_directory, users, host.allowed, limits, host)
    scripts = config.script.python_enabled
    return tuple(
        Sources(one, node, scripts=scripts, writers=spark_writers(one, transport, host)) for one in assignments
    )


def source_annotations(tree: ast.SiddhiApp) -> dict[str, tuple[ast.Annotation, ...]]:
    """Return the ``@source`` annotations of each stream that has some, in the order of the text."""
    return {
        definition.name: found
        for definition in tree.definitions
        if isinstance(definition, ast.StreamDefinition)
        and (found := ast.find_annotations(definition.annotations, "source"))
    }
