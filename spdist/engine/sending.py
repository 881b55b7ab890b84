"""Where a group instance's task sends what the user's sinks have put out, after the batch has become durable."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

from spdist.config.allowed import Allowed
from spdist.engine.stopping import StopFlag
from spdist.language.types import Schema
from spdist.operators.faults import error_text
from spdist.transports.base import Transport
from spdist.transports.outlets import Outlets, Surroundings

__all__ = ["open_outlets", "why_waiting"]

_NAME = "waiting.json"


def open_outlets(
    app: str,
    schemas: Mapping[str, Schema],
    transport: Transport,
    state_directory: str,
    stop_flag: StopFlag,
    allowed: Allowed,
    group: str = "",
) -> Outlets:
    """Return the outlets of a group instance.

    Parameters
    ----------
    app : str
        Name of the app.
    schemas : mapping
        Attributes of its streams.
    transport : Transport
        Of the embedded topics.
    state_directory : str
        Of the instance: while a sink waits for its receiver, ``waiting.json`` there says so.
    stop_flag : StopFlag
        Of the query: it says when nobody is to wait any more.
    allowed : Allowed
        The secrets and files that the app may refer to.
    group : str
        Name of the instance's group.
    """
    note = Path(state_directory) / _NAME

    def waiting(why: str | None) -> None:
        with contextlib.suppress(OSError):
            if why is None:
                note.unlink(missing_ok=True)
            else:
                note.write_text(json.dumps({"why": why, "at": int(time.time() * 1000)}), encoding="utf-8")

    waiting(None)
    stopped = stop_flag.waits_no_more
    return Outlets(Surroundings(app, transport, schemas, error_text, stopped, waiting, allowed, group))


def why_waiting(state_directory: str | Path) -> str | None:
    """Return for what a sink of the instance with this state waits; None where none does."""
    try:
        told = json.loads((Path(state_directory) / _NAME).read_text(encoding="utf-8"))
        return str(told["why"])
    except (OSError, ValueError, KeyError):
        return None
