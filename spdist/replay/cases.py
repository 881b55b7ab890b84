"""One written case: an app, what is sent to it, and what came out, all in virtual time.

A case is a dictionary (usually a line of a ``.jsonl`` file):

- ``app``: the SiddhiQL text; ``start``: the clock when it starts, ms (that of the first step if missing)
- ``observe``: what is recorded: a text names a stream or named window, ``{"query": name}`` a query; without it all
  streams, named windows, and queries with a name of their own
- ``events``, the steps: ``{"stream": S, "timestamp": T, "data": [...]}``, ``{"stream": S, "batch": [{"timestamp",
  "data"}]}``, ``{"advance": T}``, ``{"query": text}``, ``{"persist": true}``, ``{"restart": true}``,
  ``{"restore": "last"}``, ``{"restart": true, "restore": "last"}`` (another process goes on with the state),
  ``{"snapshot": name}``, ``{"restore_snapshot": name}``, ``{"shutdown": true}``
- ``config``: ``{"properties": {"aggTimeZone": zone}}``, where it is not GMT
- ``expected`` is for those who compare
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spdist.engine.local import LocalApp
from spdist.errors import SiddhiAppError, SpdistError, StateError
from spdist.extension import catalog
from spdist.language.checked import CheckedApp
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.language.scope import undefined
from spdist.language.types import Schema
from spdist.operators.base import EXPIRED, Arrival, Event, Row
from spdist.replay.values import read_row, write_value

__all__ = ["error_of", "run_case"]

Case = Mapping[str, Any]


def run_case(case: Case) -> dict[str, Any]:
    """Replay a case.

    Parameters
    ----------
    case : mapping
        See above.

    Returns
    -------
    dict
        ``streams``: for each observed stream its events ``{"timestamp", "data", "i"}``, with ``"expired": True`` for
        what left a named window; ``queries``: for each observed query its chunks ``{"timestamp", "current", "expired",
        "i"}``; ``on_demand``: ``{"i", "query", "rows", "schema"}`` or ``{"i", "query", "error"}``; ``schemas``:
        ``{"streams", "queries"}`` of what is observed; ``errors``: events that were lost because a query failed on
        them, ``{"i", "message"}``. ``i`` is the step during which it happened, -1 the start. For an app that is
        refused: ``{"error": …}`` as `error_of` gives it.

    Raises
    ------
    MappingError
        A row does not fit its stream.
    """
    try:
        checked = check(parse(case["app"]), catalog(), case["app"])
        replay = _Replay(checked, case)
    except SiddhiAppError as error:
        return {"error": error_of(error)}
    return replay.run()


def error_of(error: Exception) -> dict[str, Any]:
    """Return an error as results have it: ``type``, ``category``, ``message``, and where known ``line``, ``column``.

    Of an app with several errors it is the first one.
    """
    first = error.errors[0] if isinstance(error, SiddhiAppError) else error
    found = {"type": type(first).__name__, "category": getattr(first, "category", "other"), "message": str(first)}
    if isinstance(first, SpdistError):
        told = first.to_dict()
        found |= {"message": first.message} | {key: told[key] for key in ("line", "column", "hint") if key in told}
    return found


class _Recorder:
    """What is seen of an app, by step."""

    def __init__(self) -> None:
        self.step = -1
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.queries: dict[str, list[dict[str, Any]]] = {}
        self.schemas: dict[str, dict[str, Any]] = {"streams": {}, "queries": {}}

    def watch(self, app: LocalApp, observed: Sequence[Any]) -> None:
        """Record what `app` puts out from now on."""
        checked = app.checked
        for watched in observed:
            if not isinstance(watched, str):
                name = watched["query"]
                app.subscribe_query(name, self._chunks(self.queries.setdefault(name, [])))
                self.schemas["queries"][name] = _schema(_outputs(checked)[name])
            elif watched in checked.windows:
                app.subscribe_window(watched, self._events(self.streams.setdefault(watched, [])))
            else:
                app.subscribe(watched, self._arrivals(self.streams.setdefault(watched, [])))
                self.schemas["streams"][watched] = _schema(checked.streams[watched])

    def _arrivals(self, seen: list[dict[str, Any]]) -> Callable[[int, Row], None]:
        return lambda timestamp, row: seen.append({**_event(timestamp, row), "i": self.step})

    def _events(self, seen: list[dict[str, Any]]) -> Callable[[list[Event]], None]:
        def see(events: list[Event]) -> None:
            for kind, timestamp, row in events:
                expired = {"expired": True} if kind == EXPIRED else {}
                seen.append({**_event(timestamp, row), **expired, "i": self.step})

        return see

    def _chunks(self, seen: list[dict[str, Any]]) -> Callable[[int, list[Arrival], list[Arrival]], None]:
        def see(timestamp: int, current: list[Arrival], expired: list[Arrival]) -> None:
            kinds = {"current": [_event(*e) for e in current], "expired": [_event(*e) for e in expired]}
            seen.append({"timestamp": timestamp, **kinds, "i": self.step})

        return see


def _event(timestamp: int, row: Row) -> dict[str, Any]:
    return {"timestamp": timestamp, "data": write_value(row)}


def _schema(schema: Schema) -> list[list[str]]:
    return [[name, kind.value] for name, kind in schema]


def _outputs(checked: CheckedApp) -> dict[str, Schema]:
    inside = (query for partition in checked.partitions for query in partition.queries)
    return {query.name: query.output for query in (*checked.queries, *inside)}


class _Replay:
    """One case at work."""

    def __init__(self, checked: CheckedApp, case: Case) -> None:
        self.checked = checked
        self.case = case
        self.recorder = _Recorder()
        self.saved: dict[str, bytes] = {}
        self.on_demand: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.app: LocalApp | None = self._made()

    def _made(self) -> LocalApp:
        properties = self.case.get("config", {}).get("properties", {})
        app = LocalApp(self.checked, time_zone=properties.get("aggTimeZone", "GMT"))
        self.recorder.watch(app, self._observed())
        return app

    def _observed(self) -> Sequence[Any]:
        if "observe" in self.case:
            observed: Sequence[Any] = self.case["observe"]
            return observed
        inside = (query for partition in self.checked.partitions for query in partition.queries)
        named = [{"query": q.name} for q in (*self.checked.queries, *inside) if q.query.name]
        return [*self.checked.streams, *self.checked.windows, *named]

    def run(self) -> dict[str, Any]:
        steps = self.case.get("events", [])
        self._start(self._first_time(steps))
        for number, step in enumerate(steps):
            self.recorder.step = number
            self._guarded(self._take, step)
        seen = self.recorder
        return {
            "streams": seen.streams,
            "queries": seen.queries,
            "on_demand": self.on_demand,
            "schemas": seen.schemas,
            "errors": self.errors,
        }

    def _first_time(self, steps: Sequence[Case]) -> int:
        if self.case.get("start") is not None:
            return int(self.case["start"])
        for step in steps:
            for holder in (step, *step.get("batch", ())[:1]):
                if "timestamp" in holder or "advance" in holder:
                    return int(holder.get("timestamp", holder.get("advance")))
        return 0

    def _start(self, now: int) -> None:
        self._guarded(self._running.start, now)

    @property
    def _running(self) -> LocalApp:
        if self.app is None:
            raise StateError("the app was shut down", hint='start it again with the step {"restart": true}')
        return self.app

    def _guarded(self, call: Callable[[Any], None], argument: Any) -> None:
        """Do a step, and note the events that were lost in it."""
        before = 0 if self.app is None else self.app.failures.count
        call(argument)
        if self.app is not None and self.app.failures.count > before:
            self.errors.append({"i": self.recorder.step, "message": self.app.failures.latest})

    def _take(self, step: Case) -> None:
        if "stream" in step:
            self._send(step)
        elif "advance" in step:
            self._running.advance(step["advance"])
        elif "query" in step:
            self.on_demand.append({"i": self.recorder.step, "query": step["query"], **self._answer(step["query"])})
        elif "persist" in step or "snapshot" in step:
            self.saved[step.get("snapshot", "last")] = self._running.snapshot()
        elif "restart" in step:
            self._restart(step.get("restore"))
        elif "restore" in step or "restore_snapshot" in step:
            self._restore(step.get("restore_snapshot", step.get("restore")))
        elif "shutdown" in step:
            self.app = None
        else:
            raise StateError(f"there is no step {sorted(step)}")

    def _send(self, step: Case) -> None:
        stream = step["stream"]
        schema = self._schema_of(stream)
        if "batch" in step:
            arrivals = [(item["timestamp"], read_row(item["data"], schema)) for item in step["batch"]]
            self._running.send_chunk(stream, arrivals)
        else:
            self._running.send(stream, step["timestamp"], read_row(step["data"], schema))

    def _schema_of(self, stream: str) -> Schema:
        schema = self.checked.streams.get(stream)
        if schema is None:
            raise undefined("stream", stream, None, self.checked.streams)
        return schema

    def _restart(self, restored: str | None) -> None:
        clock = self._running.clock
        self.app = self._made()
        if restored is not None:
            self._restore(restored)
        self._start(clock)

    def _restore(self, name: str) -> None:
        if name not in self.saved:
            raise StateError(f"nothing was saved as '{name}' before")
        self._running.restore(self.saved[name])

    def _answer(self, text: str) -> dict[str, Any]:
        try:
            answer = self._running.query(text)
        except SiddhiAppError as error:
            return {"error": error_of(error)}
        except Exception as error:
            return {"error": {**error_of(error), "category": "runtime"}}
        return {"rows": [write_value(row) for row in answer.rows], "schema": _schema(answer.schema)}
