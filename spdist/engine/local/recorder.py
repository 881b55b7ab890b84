"""Records what happens in a running app, as entries of its result, each with the step during which it happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.errors import SiddhiAppError, SpdistError
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Schema
from spdist.mapping.case_values import write_value
from spdist.operators.base import EXPIRED, Arrival, Event, Row

__all__ = ["Collected", "Put", "Recorder", "answer_of", "error_of", "observed_of", "silenced"]

#: Takes an entry of a result: its section (``streams``, ``queries``, ``on_demand``, ``errors``), the stream or query it
#: is of, and what happened, as JSON values.
Put = Callable[[str, str, dict[str, Any]], None]


def error_of(error: BaseException) -> dict[str, Any]:
    """Return an error as results have it: ``type``, ``category``, ``message``, and where known ``line``, ``column``.

    Of an app with several errors it is the first one.
    """
    first = error.errors[0] if isinstance(error, SiddhiAppError) else error
    found = {"type": type(first).__name__, "category": getattr(first, "category", "other"), "message": str(first)}
    if isinstance(first, SpdistError):
        told = first.to_dict()
        found |= {"message": first.message} | {key: told[key] for key in ("line", "column", "hint") if key in told}
    return found


def answer_of(app: LocalApp, text: str) -> dict[str, Any]:
    """Return what `app` answers to a query: ``rows`` and ``schema``, or ``error``; it never raises."""
    try:
        answer = app.query(text)
    except SiddhiAppError as error:
        return {"error": error_of(error)}
    except Exception as error:
        return {"error": {**error_of(error), "category": "runtime"}}
    return {"rows": [write_value(row) for row in answer.rows], "schema": _schema(answer.schema)}


def observed_of(checked: CheckedApp, case: Mapping[str, Any]) -> Sequence[Any]:
    """Return what a case observes: ``observe``, else all streams, named windows, and queries with a name of their own.

    A text names a stream or named window, ``{"query": name}`` a query.
    """
    if "observe" in case:
        observed: Sequence[Any] = case["observe"]
        return observed
    inside = (query for partition in checked.partitions for query in partition.queries)
    named = [{"query": q.name} for q in (*checked.queries, *inside) if q.query.name]
    return [*checked.streams, *checked.windows, *named]


class Recorder:
    """Watches an app and puts what it sees, by step.

    Parameters
    ----------
    put : callable
        Takes each entry.
    """

    def __init__(self, put: Put) -> None:
        self.step = -1
        self.put = put

    def watch(self, app: LocalApp, observed: Sequence[Any]) -> None:
        """Put what `app` puts out from now on.

        Raises
        ------
        UndefinedNameError
            The app has no such stream or query.
        """
        for watched in observed:
            if not isinstance(watched, str):
                app.subscribe_query(watched["query"], self._chunks(watched["query"]))
            elif watched in app.checked.windows:
                app.subscribe_window(watched, self._events(watched))
            else:
                app.subscribe(watched, self._arrivals(watched))

    def _arrivals(self, stream: str) -> Callable[[int, Row], None]:
        return lambda timestamp, row: self.put("streams", stream, {**_event(timestamp, row), "i": self.step})

    def _events(self, window: str) -> Callable[[list[Event]], None]:
        def see(events: list[Event]) -> None:
            for kind, timestamp, row in events:
                expired = {"expired": True} if kind == EXPIRED else {}
                self.put("streams", window, {**_event(timestamp, row), **expired, "i": self.step})

        return see

    def _chunks(self, query: str) -> Callable[[int, list[Arrival], list[Arrival]], None]:
        def see(timestamp: int, current: list[Arrival], expired: list[Arrival]) -> None:
            kinds = {"current": [_event(*e) for e in current], "expired": [_event(*e) for e in expired]}
            self.put("queries", query, {"timestamp": timestamp, **kinds, "i": self.step})

        return see


class Collected:
    """The result of a case, put together from its entries.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    observed : sequence
        See `observed_of`.
    """

    def __init__(self, checked: CheckedApp, observed: Sequence[Any]) -> None:
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.queries: dict[str, list[dict[str, Any]]] = {}
        self.on_demand: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.schemas: dict[str, dict[str, Any]] = {"streams": {}, "queries": {}}
        inside = (query for partition in checked.partitions for query in partition.queries)
        outputs = {query.name: query.output for query in (*checked.queries, *inside)}
        for watched in observed:
            if not isinstance(watched, str):
                self.queries[watched["query"]] = []
                if watched["query"] in outputs:
                    self.schemas["queries"][watched["query"]] = _schema(outputs[watched["query"]])
            else:
                self.streams[watched] = []
                if watched in checked.streams and watched not in checked.windows:
                    self.schemas["streams"][watched] = _schema(checked.streams[watched])

    def put(self, section: str, name: str, entry: dict[str, Any]) -> None:
        """Take an entry."""
        if section == "streams":
            self.streams[name].append(entry)
        elif section == "queries":
            self.queries[name].append(entry)
        elif section == "on_demand":
            self.on_demand.append(entry)
        else:
            self.errors.append(entry)

    def result(self) -> dict[str, Any]:
        """Return the result as `spdist.replay.cases.run_case` does."""
        return {
            "streams": self.streams,
            "queries": self.queries,
            "on_demand": self.on_demand,
            "schemas": self.schemas,
            "errors": self.errors,
        }


@contextmanager
def silenced() -> Iterator[None]:
    """Keep the log silent about events that are lost: results list them."""
    engine = logging.getLogger("spdist")
    before = engine.level
    engine.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        engine.setLevel(before)


def _event(timestamp: int, row: Row) -> dict[str, Any]:
    return {"timestamp": timestamp, "data": write_value(row)}


def _schema(schema: Schema) -> list[list[str]]:
    return [[name, kind.value] for name, kind in schema]
