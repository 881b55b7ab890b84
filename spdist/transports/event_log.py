"""What ``@sink(type='log')`` writes: a line for each payload, on the logger ``spdist.events``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from spdist.mapping.passing import ChunkPayload

__all__ = ["shown", "write_log"]

events_log = logging.getLogger("spdist.events")

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def write_log(options: Mapping[str, str], default_prefix: str, payload: Any) -> None:
    """Write one payload; `options` are those of the sink: ``priority`` and ``prefix``."""
    level = _LEVELS.get((options.get("priority") or "INFO").upper())
    if level is not None:
        events_log.log(level, "%s : %s", options.get("prefix") or default_prefix, shown(payload))


def encoded(payload: Any) -> bytes:
    """Return a payload as bytes: those that it is, or its text; half a character is a question mark, as in Java."""
    return payload if isinstance(payload, bytes) else shown(payload).encode(errors="replace")


def shown(payload: Any) -> str:
    """Return a payload as text; events as Siddhi prints them."""
    if not isinstance(payload, ChunkPayload):
        return str(payload)
    events = [f"Event{{timestamp={ts}, data={list(row)}, isExpired=false}}" for ts, row in payload]
    return events[0] if len(events) == 1 else f"[{', '.join(events)}]"
