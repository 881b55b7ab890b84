"""Errors as JSON values, in WSO2's form, and back: what the answers of nodes and the outcomes of orders carry. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spdist.errors import (
    ClusterError,
    ErrorKind,
    NotFoundError,
    NotLeaderError,
    OnDemandQueryError,
    SiddhiAppError,
    Span,
    SpdistError,
    StoreUnavailableError,
    error_codes,
    error_of,
)

__all__ = ["error_body", "read_error"]

#: WSO2's word for an error, and its number where it has one; its code counts, else its class's nearest ancestor.
_WORDS: Mapping[type[SpdistError] | str, tuple[str, int | None]] = {
    SpdistError: ("error", None),
    SiddhiAppError: ("validation error", 800101),
    OnDemandQueryError: ("error", None),
    StoreUnavailableError: ("file processing error", 800102),
    NotFoundError: ("not-found", None),
    ErrorKind.CONFLICT: ("conflict", None),
}


def error_body(error: SpdistError) -> dict[str, Any]:
    """Return an error as JSON values, in WSO2's form, with our fields in addition.

    ``type`` and ``message`` are always there, as WSO2 has them: ``conflict``, ``not-found``, ``validation error``,
    ``file processing error``, else ``error``. ``code`` is WSO2's number, only where it has one: 800101 for an app that
    is wrong, 800102 for one that cannot be stored. Ours is ``error``, the stable code such as ``SP0704``; and, where
    known, ``hint``, ``line`` and ``column``, all ``errors`` found in an app, the ``leader``.
    """
    body = _told(error)
    if isinstance(error, SiddhiAppError):
        body["errors"] = [_told(one) for one in error.errors]
    if isinstance(error, NotLeaderError):
        body["leader"] = error.leader
    return body


def _told(error: SpdistError) -> dict[str, Any]:
    own = error.to_dict()
    word, number = next(_WORDS[kind] for kind in error.kinds() if kind in _WORDS)
    body = {"type": word, "message": own.pop("message"), "error": own.pop("code")}
    del own["type"]
    return body | ({} if number is None else {"code": number}) | own


def read_error(body: Any, what: str) -> SpdistError:
    """Rebuild the error that another node reported.

    Parameters
    ----------
    body : object
        The JSON value that came; anything is accepted.
    what : str
        What was asked of whom, for errors that do not explain themselves.

    Returns
    -------
    SpdistError
        Of the class with that code; a ClusterError (`ErrorKind.UNKNOWN_ERROR`) for an unknown code or another body.
    """
    if not isinstance(body, dict) or not isinstance(body.get("message"), str):
        return ClusterError(f"{what} failed: {str(body)[:300]}", code=ErrorKind.UNKNOWN_ERROR)
    # Nodes of older versions call it `code`; a cluster may be updated node by node.
    code = str(body.get("error", body.get("code")))
    if code not in error_codes():
        code = ErrorKind.UNKNOWN_ERROR
    kind = error_codes()[code]
    hint = body.get("hint")
    known: dict[str, Any] = {"hint": hint if isinstance(hint, str) else None}
    line, column = body.get("line"), body.get("column")
    if isinstance(line, int) and isinstance(column, int):
        # Only the beginning is told: one character is shown
        known["span"] = Span(line, column, line, column + 1)
    if issubclass(kind, NotLeaderError):
        known["leader"] = body.get("leader")
    found = body.get("errors")
    if issubclass(kind, SiddhiAppError) and isinstance(found, list) and len(found) > 1:
        known["errors"] = tuple(e for one in found if isinstance(e := read_error(one, what), SiddhiAppError))
    return error_of(code, body["message"], **known)
