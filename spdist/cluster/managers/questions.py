"""Queries on demand to running groups: which of them keeps what a query names, and what it answers.

A node reads no query of more than 20,000 characters, which takes it a few ms; a query waits in the thread of its
request only, and few of them may. Source: ``POST /stores/query`` of WSO2 SP 4.x (paths, bodies, status codes).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spdist.cluster.managers.slots import CallerSlots
from spdist.errors import EngineError, ErrorKind, NotFoundError, OnDemandQueryError, SpdistError

if TYPE_CHECKING:
    from spdist.planning.topology import Topology
    from spdist.transports.base import Transport
    from spdist.transports.opening import TransportSettings

__all__ = ["QueryAnswer", "Question", "Questions", "holders_of", "kept_elements"]

#: Characters of a query that the node's own process may read.
_LONGEST = 20_000
#: How long a server of topics may take before a question fails.
_PATIENCE_MS = 5000


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """What a group has answered: rows, and name and type of each attribute."""

    records: list[list[Any]]
    schema: list[list[str]]

    def to_dict(self, *, details: bool = False) -> dict[str, Any]:
        """Return WSO2's ``records`` and, where they are asked for, ``details``."""
        body: dict[str, Any] = {"records": self.records}
        if details:
            body["details"] = [{"name": name, "dataType": kind} for name, kind in self.schema]
        return body


@dataclass(frozen=True, slots=True)
class Question:
    """A query on demand: its text, the table, window or aggregation it names, and whether it changes that."""

    text: str
    element: str
    changes: bool

    @classmethod
    def read(cls, text: str) -> Question:
        """Return what `text` asks.

        Raises
        ------
        SiddhiAppError
            It is empty, too long, or does not follow the grammar.
        """
        from spdist.language.parsing.parser import parse_on_demand

        if not text.strip():
            raise OnDemandQueryError("the query is empty", hint="write it like: from T select *")
        if len(text) > _LONGEST:
            raise OnDemandQueryError(f"the query has {len(text)} characters, more than {_LONGEST}")
        asked = parse_on_demand(text)
        target = asked.output.target if asked.output is not None else None
        # A query without `from` names only the table that it changes
        return cls(text, asked.store or (target.name if target is not None else ""), asked.output is not None)


def holders_of(topology: Topology, element: str) -> tuple[str, ...]:
    """Return the group instances of an app that keep `element`.

    Raises
    ------
    NotFoundError
        There are none.
    """
    holders = topology.holders(element)
    if not holders:
        raise NotFoundError(f"no group of app {topology.app} holds a table, window or aggregation {element}")
    return holders


@lru_cache(64)
def kept_elements(text: str) -> frozenset[str]:
    """Return the tables, windows and aggregations of the app of a group instance; state: those of 64 texts."""
    from spdist.language import ast
    from spdist.language.parsing.parser import parse

    kept = (ast.TableDefinition, ast.WindowDefinition, ast.AggregationDefinition)
    return frozenset(one.name for one in parse(text).definitions if isinstance(one, kept))


class Questions:
    """Puts queries to group instances over their topics, and waits for the answers. Safe from several threads.

    Parameters
    ----------
    settings : TransportSettings
        Where the topics are.
    timeout_s : float
        How long a group may take to answer.
    most : int
        How many questions may be under way; each keeps a thread waiting.

    State
    -----
    The questions under way, and one transport, opened by the first of them.
    """

    def __init__(self, settings: TransportSettings, timeout_s: float = 20.0, most: int = 8) -> None:
        self._settings = settings.with_patience(_PATIENCE_MS)
        self._timeout_s = timeout_s
        self._slots = CallerSlots(most, "queries on demand")
        self._lock = threading.Lock()
        self._transport: Transport | None = None

    def ask(self, instance: str, query: str) -> QueryAnswer:
        """Return what a running group instance answers to `query`.

        Raises
        ------
        ClusterError
            Too many others are being asked.
        OnDemandQueryError
            The query means nothing in the app.
        EngineError
            It failed while it ran.
        TransportError
            The instance takes no questions, its topics cannot be reached, or there was no answer in time
            (`ErrorKind.UNANSWERED`).
        """
        from spdist.transports.commands import ask

        with self._slots:
            told = ask(self._topics(), instance, query, self._timeout_s)
        if "error" in told:
            raise _failure(instance, told["error"])
        return QueryAnswer(told["rows"], told["schema"])

    def close(self) -> None:
        """Let go of files and connections; what is under way fails. May be called twice."""
        with self._lock:
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _topics(self) -> Transport:
        from spdist.transports.opening import open_transport

        with self._lock:
            if self._transport is None:
                self._transport = open_transport(self._settings)
            return self._transport


def _failure(instance: str, told: dict[str, Any]) -> SpdistError:
    message = f"{instance}: {told.get('message')}"
    if told.get("category") == "runtime":
        return EngineError(message, code=ErrorKind.QUERY_FAILED)
    return OnDemandQueryError(message, hint=told.get("hint"))
