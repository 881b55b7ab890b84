"""The audit log: who has asked this node to change something, from where, and what came of it.

Records of the logger ``spdist.audit``, with the fields ``user``, ``address``, ``method``, ``path``, ``app`` and
``outcome``, the status; each node writes its own. Heads, bodies and queries never get there. Reading is not recorded
unless it was refused, nor are heartbeats and fed events, of which there are many a second. Wrong passwords are, by
`spdist.transports.sockets.logins.WrongLogins`, some in a minute.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["AUDIT", "Audit", "Audited", "audited"]

#: Where the records go.
AUDIT = logging.getLogger("spdist.audit")
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_MANY = frozenset({"/resourceManager/heartbeat", "/siddhi-apps/{app}/streams/{stream}/events"})
#: A read that logs somebody in.
_CALLBACK = "/login/callback/{app}"
_APPS = "/siddhi-apps/"
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Audited:
    """A request that is recorded; texts are empty where they do not apply.

    Parameters
    ----------
    user, address : str
        Who has asked, and from where.
    method, path : str
        What for, without the query.
    app : str
        The app that it is about.
    outcome : int
        The status of the answer.
    """

    user: str
    address: str
    method: str
    path: str
    app: str
    outcome: int


def audited(scope: Mapping[str, object], status: int, location: str) -> Audited | None:
    """Return what is recorded of a request; None for nothing.

    Parameters
    ----------
    scope : mapping
        The request as ASGI has it, after it was answered.
    status : int
        Of the answer.
    location : str
        Its header, which names an app that was deployed.
    """
    state, params, client = scope.get("state"), scope.get("path_params"), scope.get("client")
    user = str(state.get("username", "")) if isinstance(state, dict) else ""
    route = str(getattr(scope.get("route"), "path", ""))
    method, path = str(scope["method"]), str(scope["path"])
    reads = method in _READS and route != _CALLBACK
    if not user or (status < 400 and (reads or route in _MANY)) or (reads and status != 403):
        return None
    known = params if isinstance(params, dict) and f"{route}/".startswith(_APPS) else {}
    app = str(known.get("name") or known.get("app") or "")
    if not app and status < 300 and location.startswith(_APPS):
        app = unquote(location.removeprefix(_APPS))
    address = str(client[0]) if isinstance(client, tuple | list) and client else ""
    return Audited(user, address, method, path[:_LONGEST], app[:_LONGEST], status)


class Audit:
    """ASGI middleware that records requests; see `audited`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and record what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # An exception that passes here is answered further out, with 500
        status, location = 500, ""

        async def seen(message: Message) -> None:
            nonlocal status, location
            if message["type"] == "http.response.start":
                status = message["status"]
                location = dict(message.get("headers", ())).get(b"location", b"").decode("latin-1")
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            if (one := audited(scope, status, location)) is not None:
                level = logging.WARNING if status == 403 else logging.INFO
                told = "user %r from %s: %s %r: %d"
                AUDIT.log(level, told, one.user, one.address, one.method, one.path, one.outcome, extra=asdict(one))
