"""Replays written cases on the local engine: an app, what is sent to it, and what comes out, all in virtual time.

A case is a dictionary (usually a line of a ``.jsonl`` file):

- ``app``: the SiddhiQL text; ``start``: the clock when it starts, ms; ``observe``: stream names, ``{"query": name}``
- ``events``: ``{"stream": S, "timestamp": T, "data": [...]}``, ``{"stream": S, "batch": [{"timestamp", "data"}]}``,
  ``{"advance": T}``, ``{"persist": true}``, ``{"restart": true}``, ``{"restore": "last"}``
- ``expected``: what `run_case` is to return

A value is read as its attribute's declared type; ``{"$int": 3}``, likewise ``$long``, ``$float``, ``$double``,
``$bool``, ``$string``, states another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spdist.engine.local import LocalApp
from spdist.errors import SiddhiAppError, UnsupportedFeatureError
from spdist.extension import catalog
from spdist.functions.numbers import float32
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.language.types import Schema, Type

__all__ = ["run_case"]

Case = Mapping[str, Any]
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "long": int,
    "float": lambda value: float32(float(value)),
    "double": float,
    "bool": bool,
    "string": str,
    "object": lambda value: value,
}


def _value(value: Any, type: Type) -> Any:
    if value is None:
        return None
    if isinstance(value, dict) and len(value) == 1:
        ((name, stated),) = value.items()
        if name[:1] == "$" and name[1:] in _READERS:
            return _READERS[name[1:]](stated)
    return _READERS[type.value](value)


def _row(data: list[Any], schema: Schema) -> tuple[Any, ...]:
    return tuple(_value(value, type) for value, type in zip(data, schema.types, strict=True))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(part) for part in value), key=repr)
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


class _Replay:
    """One case at work."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.checked = check(parse(case["app"]), catalog(), case["app"])
        self.step = -1
        self.saved = b""
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.queries: dict[str, list[dict[str, Any]]] = {}
        self.app = self._made()

    def _made(self) -> LocalApp:
        app = LocalApp(self.checked)
        for watched in self.case["observe"]:
            if isinstance(watched, str):
                app.subscribe(watched, self._stream_observer(self.streams.setdefault(watched, [])))
            else:
                name = watched["query"]
                app.subscribe_query(name, self._query_observer(self.queries.setdefault(name, [])))
        return app

    def _stream_observer(self, seen: list[dict[str, Any]]) -> Any:
        def see(timestamp: int, row: tuple[Any, ...]) -> None:
            seen.append({"timestamp": timestamp, "data": _plain(row), "i": self.step})

        return see

    def _query_observer(self, seen: list[dict[str, Any]]) -> Any:
        def events(arrivals: list[tuple[int, tuple[Any, ...]]]) -> list[dict[str, Any]]:
            return [{"timestamp": timestamp, "data": _plain(row)} for timestamp, row in arrivals]

        def see(timestamp: int, current: Any, expired: Any) -> None:
            chunk = {"timestamp": timestamp, "current": events(current), "expired": events(expired), "i": self.step}
            seen.append(chunk)

        return see

    def run(self) -> dict[str, Any]:
        self.app.start(self.case["start"])
        for step, event in enumerate(self.case["events"]):
            self.step = step
            self._take(event)
        return {"streams": self.streams, "queries": self.queries}

    def _take(self, event: Mapping[str, Any]) -> None:
        if "stream" in event:
            schema = self.checked.streams[event["stream"]]
            if "batch" in event:
                arrivals = [(item["timestamp"], _row(item["data"], schema)) for item in event["batch"]]
                self.app.send_chunk(event["stream"], arrivals)
            else:
                self.app.send(event["stream"], event["timestamp"], _row(event["data"], schema))
        elif "advance" in event:
            self.app.advance(event["advance"])
        elif "persist" in event:
            self.saved = self.app.snapshot()
        elif "restart" in event:
            clock = self.app.clock
            self.app = self._made()
            self.app.start(clock)
        elif "restore" in event:
            self.app.restore(self.saved)
        else:
            raise UnsupportedFeatureError(f"a step {sorted(event)} is not supported yet")


def run_case(case: Case) -> dict[str, Any]:
    """Replay a case.

    Parameters
    ----------
    case : mapping
        See above.

    Returns
    -------
    dict
        ``streams``: for each observed stream its events ``{"timestamp", "data", "i"}``; ``queries``: for each observed
        query its chunks ``{"timestamp", "current", "expired", "i"}``; ``i`` is the step during which they came out. For
        an app that is refused: ``{"error": {"type", "message"}}``.

    Raises
    ------
    UnsupportedFeatureError
        The case needs what is not run (yet).
    """
    try:
        replay = _Replay(case)
    except UnsupportedFeatureError:
        raise
    except SiddhiAppError as error:
        return {"error": {"type": type(error).__name__, "message": str(error)}}
    return replay.run()
