"""Where a group instance's task sends what the user's sinks have put out, after the batch has become durable."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from spdist.config.allowed import Allowed
from spdist.connectors.sending import SinkContext, Sinks
from spdist.engine.spark.stopping import StopFlag, noted_reason
from spdist.language.types import Schema
from spdist.operators.core.faults import error_text
from spdist.transports.base import Transport

__all__ = ["open_sinks", "why_waiting"]

#: In the directory of the query's stop flag, one for each producer.
_PATTERN = "waiting-*.json"


def open_sinks(
    app: str,
    schemas: Mapping[str, Schema],
    transport: Transport,
    producer: str,
    origin: str,
    stop_flag: StopFlag,
    allowed: Allowed,
    group: str = "",
) -> Sinks:
    """Return the sinks of a group instance.

    Parameters
    ----------
    app : str
        Name of the app.
    schemas : mapping
        Attributes of its streams.
    transport : Transport
        Of the embedded topics.
    producer : str
        Name of the shard whose sinks they are.
    origin : str
        Name of its state; see `StateStore.identity`.
    stop_flag : StopFlag
        Of the query: it says when nobody is to wait any more. While a sink waits for its receiver, a note in
        the flag's directory tells.
    allowed : Allowed
        The secrets and files that the app may refer to.
    group : str
        Name of the instance's group.
    """
    note = stop_flag.directory / _PATTERN.replace("*", sha256(producer.encode()).hexdigest()[:16])

    def waiting(why: str | None) -> None:
        with contextlib.suppress(OSError):
            if why is None:
                note.unlink(missing_ok=True)
            else:
                note.write_text(json.dumps({"why": why, "at": int(time.time() * 1000)}), encoding="utf-8")

    waiting(None)
    stopped = stop_flag.waits_no_more
    context = SinkContext(app, transport, schemas, error_text, stopped, waiting, allowed, origin, group)
    return Sinks(context)


def why_waiting(directory: Path) -> str | None:
    """Return for what a sink of the query waits whose stop flag is in `directory`; None where none does."""
    return noted_reason(directory, _PATTERN)
