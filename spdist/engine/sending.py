"""Where a group instance's task sends what the user's sinks have put out, after the batch has become durable.

Beside the stop flag of a query two files tell of that: ``<stop_flag>.sending`` is there while a batch is over and what
it has put out is still being sent; once ``<stop_flag>.now`` is there, nobody waits for a receiver any more.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from spdist.language.types import Schema
from spdist.operators.faults import error_text
from spdist.transports.base import Transport
from spdist.transports.outlets import Outlets, Surroundings

__all__ = ["begin_sending", "is_sending", "open_outlets", "stop_waiting", "why_waiting"]

_NAME = "waiting.json"
_SENDING, _NOW = ".sending", ".now"


def open_outlets(
    app: str, schemas: Mapping[str, Schema], transport: Transport, state_directory: str, stop_flag: str
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
    stop_flag : str
        Of the query; once its directory is gone, nobody waits any more either.
    """
    note, stop = Path(state_directory) / _NAME, _beside(stop_flag, _NOW)

    def waiting(why: str | None) -> None:
        with contextlib.suppress(OSError):
            if why is None:
                note.unlink(missing_ok=True)
            else:
                note.write_text(json.dumps({"why": why, "at": int(time.time() * 1000)}), encoding="utf-8")

    def stopped() -> bool:
        return stop.exists() or not stop.parent.exists()

    waiting(None)
    return Outlets(Surroundings(app, transport, schemas, error_text, stopped=stopped, waiting=waiting))


def begin_sending(stop_flag: str) -> Callable[[], None]:
    """Tell that something is being sent after its batch, until what is returned is called."""
    note = _beside(stop_flag, _SENDING)

    def over() -> None:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)

    with contextlib.suppress(OSError):  # the query has ended
        note.touch()
    return over


def is_sending(stop_flag: str | Path) -> bool:
    """Whether something is being sent after its batch."""
    return _beside(stop_flag, _SENDING).exists()


def stop_waiting(stop_flag: str | Path) -> None:
    """Have nobody wait for a receiver any more: what was not sent is sent when the state is loaded again."""
    with contextlib.suppress(OSError):  # the host is gone
        _beside(stop_flag, _NOW).touch()


def _beside(stop_flag: str | Path, suffix: str) -> Path:
    path = Path(stop_flag)
    return path.with_name(path.name + suffix)


def why_waiting(state_directory: str | Path) -> str | None:
    """Return for what a sink of the instance with this state waits; None where none does."""
    try:
        told = json.loads((Path(state_directory) / _NAME).read_text(encoding="utf-8"))
        return str(told["why"])
    except (OSError, ValueError, KeyError):
        return None
