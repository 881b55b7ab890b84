"""What a group instance takes in addition to events: commands, and what it answers, as two streams no app can define.

Both travel like any stream, in topics of their own: a command has its place in the order of the events, and an answer
that is put out again after a failure has the id it had.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from spdist.errors import ErrorKind, MappingError, TransportError
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.transports.base import Record, Transport
from spdist.transports.payloads.payload import Payload

__all__ = [
    "ANSWERS",
    "COMMANDS",
    "SCHEMAS",
    "SCRIPT",
    "answers_topic",
    "ask",
    "commands_topic",
    "read_command",
    "text_row",
]

#: Commands to an app that otherwise runs as it always does.
COMMANDS = "spdist:commands"
#: Commands to an app whose time is that of its script.
SCRIPT = "spdist:script"
ANSWERS = "spdist:answers"

_PAUSE_S = 0.02
_TEXT = Schema.of([("json", "string")])
SCHEMAS: Mapping[str, Schema] = {COMMANDS: _TEXT, SCRIPT: _TEXT, ANSWERS: _TEXT}


def text_row(value: Any) -> tuple[str]:
    """Return a command or answer, as JSON values, as the row of its event."""
    return (json.dumps(value),)


def read_command(row: Sequence[Any]) -> dict[str, Any]:
    """Return the command of an event.

    Raises
    ------
    MappingError
        It is no JSON object.
    """
    try:
        command = json.loads(row[0])
    except (TypeError, ValueError) as error:
        raise MappingError(f"a command is no JSON: {error}") from error
    if not isinstance(command, dict):
        raise MappingError(f"a command is a JSON object, this is none: {row[0]}")
    return command


def commands_topic(instance: str) -> str:
    """Return the topic of the commands to a group instance."""
    return f"{instance}.commands"


def answers_topic(instance: str) -> str:
    """Return the topic of the answers of a group instance."""
    return f"{instance}.answers"


def ask(transport: Transport, instance: str, query: str, timeout_s: float = 30.0) -> dict[str, Any]:
    """Put a query on demand to a running group instance and return its answer, ``{"rows", "schema"}`` or ``{"error"}``.

    The answer is of the state after the batch that the query comes in.

    Parameters
    ----------
    transport : Transport
        Where its topics are.
    instance : str
        Its name.
    query : str
        Such as ``from T on a > 1 select *``.
    timeout_s : float
        How long to wait.

    Raises
    ------
    TransportError
        The instance takes no commands, or does not answer in time (`ErrorKind.UNANSWERED`).
    """
    commands, answers = commands_topic(instance), answers_topic(instance)
    if not transport.partitions(commands):
        raise TransportError(
            f"{instance} takes no questions",
            hint="only running groups with a table, a named window or an aggregation do",
        )
    # Before the question is put: else its answer may already be behind the place from which answers are read.
    offset = transport.end_offsets(answers).get(0, 0)
    id, payload = uuid.uuid4().hex, Payload(_TEXT)
    asked = Events.of([(0, text_row({"id": id, "query": query}))])
    transport.append([Record(commands, 0, payload.encode(asked), 1)])
    pace, deadline_s = threading.Event(), time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        for record in transport.read(answers, 0, offset):
            offset = record.offset + 1
            for (text,) in payload.decode(record.value).rows if record.count else ():
                answer: dict[str, Any] = json.loads(text)
                # Others ask the same instance: their answers stand in the same topic.
                if answer.pop("id", None) == id:
                    return answer
        pace.wait(_PAUSE_S)
    message = f"{instance} did not answer within {timeout_s:g} s"
    raise TransportError(message, hint="does a worker run it?", code=ErrorKind.UNANSWERED)
