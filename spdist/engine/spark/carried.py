"""Errors that cross Spark: of an error in one of its Python processes it tells the driver only the traceback's text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from spdist.errors import SpdistError, error_codes, error_of

__all__ = ["carried_error", "carrying_errors"]

#: Begins the line of a traceback that has an error as JSON.
_MARK = "spdist-error: "


@contextmanager
def carrying_errors() -> Iterator[None]:
    """Add to errors of ours a note with their code, message and hint as data, which tracebacks show as a line."""
    try:
        yield
    except SpdistError as error:
        if not any(note.startswith(_MARK) for note in getattr(error, "__notes__", ())):
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            error.add_note(_MARK + json.dumps(told))
        raise


def carried_error(text: str) -> SpdistError | None:
    """Return the error whose note stands last in a text, with its class and code; None where there is none."""
    for line in reversed(text.splitlines()):
        _, mark, told = line.partition(_MARK)
        if not mark:
            continue
        try:
            data = json.loads(told)
        except ValueError:  # cut off on the way
            continue
        if data["code"] in error_codes():
            return error_of(data["code"], data["message"], hint=data["hint"])
    return None
