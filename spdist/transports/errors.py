"""The topic that keeps what an app on Spark could not process, read or send, where it says STORE.

It is the embedded topic ``<App>.!errors``, one record of JSON for each entry: what
`spdist.operators.core.faults.ErrorStore` keeps in virtual time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from spdist.errors import MappingError
from spdist.transports.base import Record, Repeats, Transport
from spdist.transports.payloads.payload import pack_value, unpack_value

__all__ = ["append_error", "error_entry", "errors_topic", "read_errors"]

_READ = 500


def errors_topic(app: str) -> str:
    """Return the name of the topic."""
    return f"{app}.!errors"


def error_entry(
    stream: str, origin: str, cause: str, events: Iterable[tuple[int, tuple[Any, ...]]] = (), payload: Any = None
) -> str:
    """Return an entry as JSON: the stream, ``stream``, ``sink`` or ``source``, what went wrong, events or payload."""
    if isinstance(payload, bytes):
        payload = payload.decode("utf-8", "replace")
    entry: dict[str, Any] = {"stream": stream, "origin": origin, "cause": cause}
    entry["events"] = [[ts, [_packed(value) for value in row]] for ts, row in events]
    if payload is not None:
        entry["payload"] = _packed(payload)
    return json.dumps(entry)


def append_error(transport: Transport, app: str, entry: str, producer: str = "", seq: int = 0) -> None:
    """Keep an entry; `producer` and `seq` as in a record, so that it may be kept again after a failure."""
    topic = errors_topic(app)
    transport.ensure(topic, 1)
    transport.append([Record(topic, 0, entry.encode(), 1, producer, seq)])


def read_errors(transport: Transport, app: str) -> list[dict[str, Any]]:
    """Return the entries of an app, oldest first, each once: ``stream, origin, cause, events`` and ``payload``.

    Events are ``(timestamp, row)``.
    """
    topic, found, repeats, offset = errors_topic(app), [], Repeats(), 0
    if not transport.partitions(topic):
        return []
    while records := transport.read(topic, 0, offset, _READ):
        offset = records[-1].offset + 1
        for record in records:
            # An entry is a record of one event: what is not fresh is a repeat as a whole.
            if repeats.fresh(record):
                continue
            entry = json.loads(record.value)
            entry["events"] = [(ts, tuple(unpack_value(value) for value in row)) for ts, row in entry["events"]]
            if "payload" in entry:
                entry["payload"] = unpack_value(entry["payload"])
            found.append(entry)
    return found


def _packed(value: Any) -> str:
    try:
        return pack_value(value)
    except MappingError:
        return pack_value(str(value))  # better than losing the entry
