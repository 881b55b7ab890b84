"""What every route shares: who may enter, how large a body may be, and what an error looks like outside."""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, HTTPException, Request, Security, params
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.models import HTTPBase
from fastapi.responses import JSONResponse, Response
from fastapi.security.base import SecurityBase
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from spdist.cluster.api.audit import AUDIT, Audit
from spdist.cluster.api.bearer import Bearers
from spdist.cluster.api.models import FORM
from spdist.cluster.protocol.wire import MAX_BODY_BYTES, parse_message, read_message
from spdist.cluster.protocol.wire_errors import error_body
from spdist.cluster.security.access import CALLER, Permission, Users
from spdist.cluster.security.sessions import TOKEN_LENGTH
from spdist.errors import (
    ClusterError,
    ConfigError,
    ErrorKind,
    NotFoundError,
    NotLeaderError,
    SiddhiAppError,
    SpdistError,
    StaleTermError,
    StoreUnavailableError,
    TransportUnavailableError,
    UnauthorizedError,
)
from spdist.java.numbers import whole_number
from spdist.transports.sockets.guesses import GuessingQueue, TooManyGuesses
from spdist.transports.sockets.logins import WrongLogins, credentials

__all__ = [
    "ACCESS_COOKIE",
    "REFRESH_COOKIE",
    "STATUS",
    "AppText",
    "Body",
    "RequestGuard",
    "cookie_settings",
    "form_body",
    "json_body",
    "new_app",
    "shown_token",
    "whole_token",
]

_log = logging.getLogger(__name__)
_wrong_logins = WrongLogins(AUDIT)

#: Cookies with the second halves of tokens; the first is named as with WSO2.
ACCESS_COOKIE, REFRESH_COOKIE = "HID", "RHID"

#: Code or class of an error to status; the nearest ancestor of its class counts where its code is not named.
STATUS: dict[type[SpdistError] | str, int] = {
    SpdistError: 500,
    SiddhiAppError: 400,
    ConfigError: 500,
    ClusterError: 500,
    StoreUnavailableError: 503,
    TransportUnavailableError: 503,
    UnauthorizedError: 401,
    NotFoundError: 404,
    ErrorKind.CONFLICT: 409,
    StaleTermError: 409,
    NotLeaderError: 307,
    ErrorKind.NO_WORKERS: 503,
    ErrorKind.PLANNER_BUSY: 503,
    ErrorKind.BUSY: 503,
    ErrorKind.UNANSWERED: 504,
}


def new_app(title: str) -> FastAPI:
    """Return an app without routes that answers every error with its JSON; `publish` lets people read what it has."""
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Audit)
    app.add_exception_handler(SpdistError, _on_spdist_error)
    app.add_exception_handler(StarletteHTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_bug)
    return app


class _Basic(SecurityBase):
    """What the description of a route says of its guard; the guard itself reads the header."""

    model = HTTPBase(scheme="basic", description="A user of auth.configs of this node")
    scheme_name = "basic"

    async def __call__(self) -> None:
        """Let everybody pass."""


class _Bearer(_Basic):
    """The same of tokens."""

    model = HTTPBase(scheme="bearer", description="A token of a session: POST /login/{app}")
    scheme_name = "bearer"


_BASIC, _BEARER = _Basic(), _Bearer()


class RequestGuard:
    """HTTP Basic authentication (RFC 7617) against `users`, or a bearer token (RFC 6750), a session's or a provider's.

    ``Depends(guard.asks(permission))`` guards a route.
    """

    def __init__(self, users: Users) -> None:
        self.users = users
        # Hashing costs processor and memory: strangers wait in line here, known callers pass by.
        self._guesses = GuessingQueue()
        #: Those whom an identity provider knows, where there is one.
        self.bearers = None if users.identity is None else Bearers(users)

    def asks(self, permission: Permission | None) -> params.Depends:
        """Return the dependency that lets in only users with `permission`, or all users; it yields the user's name."""

        async def enter(
            request: Request, _: Annotated[None, Depends(_BASIC)], __: Annotated[None, Depends(_BEARER)]
        ) -> str:
            if _scheme(request) == "bearer":
                username, granted = await self._of_token(request)
            else:
                username, password = _credentials(request)
                granted = await self.admit(request, username, password)
            request.state.granted = granted
            if permission is not None:
                self.check(request, permission)
            # A handler that is a plain function runs in a thread, with a copy of this context
            CALLER.set(username)
            return username

        # The scope is for the description: who reads it sees which permission a route asks for.
        depends: params.Depends = Security(enter, scopes=[] if permission is None else [permission.value])
        return depends

    async def admit(self, request: Request, username: str, password: str) -> frozenset[Permission]:
        """Return what a user may do who shows a password; `request` is that user's from now on.

        Raises
        ------
        UnauthorizedError
            Name or password are wrong.
        HTTPException
            429: there were too many wrong ones before.
        """
        granted = self.users.recall(username, password)
        if granted is None:
            granted = await self._guess(request, username, password)
        if granted is None:
            _wrong_logins.add(username, _caller(request))
            raise UnauthorizedError(
                "user name or password are wrong", hint="the users are those of auth.configs of this node"
            )
        request.state.username = username
        return granted

    async def _of_token(self, request: Request) -> tuple[str, frozenset[Permission]]:
        if self.bearers is not None:
            return await self.bearers.admit(request, whole_token(request, ACCESS_COOKIE))
        found = self.users.of_token(shown_token(request, ACCESS_COOKIE))
        if found is None:
            raise UnauthorizedError(
                "this token has ended, was logged out, or another node gave it",
                hint="a token is good at the node that gave it: POST /login/{app} to this one",
            )
        request.state.username = found[0]
        return found

    def check(self, request: Request, permission: Permission) -> None:
        """Let a user go on who has been let in; HTTPException 403 if that takes a permission the user lacks."""
        if permission in request.state.granted:
            return
        message = f"user {request.state.username!r} may not do this: it takes the permission {permission.value}"
        raise HTTPException(403, error_body(UnauthorizedError(message)))

    async def _guess(self, request: Request, username: str, password: str) -> frozenset[Permission] | None:
        """Return what a user may do who has not shown this password before; None where it is wrong."""
        try:
            return await self._guesses.verified(
                username, _caller(request), partial(self.users.verify, username, password)
            )
        except TooManyGuesses as refused:
            error = UnauthorizedError(str(refused), hint="only this name from this address has to wait")
            raise HTTPException(429, error_body(error), {"Retry-After": str(refused.retry_after_s)}) from refused


def _caller(request: Request) -> str:
    return request.client.host if request.client else "somewhere"


def _credentials(request: Request) -> tuple[str, str]:
    shown = credentials(request.headers.get("authorization", ""))
    if shown is None:
        raise UnauthorizedError("this takes a user name and a password (HTTP Basic authentication), or a bearer token")
    return shown


def _scheme(request: Request) -> str:
    return request.headers.get("authorization", "").partition(" ")[0].lower()


def shown_token(request: Request, cookie: str) -> str:
    """Return the bearer token of a request, completed by its second half where that is in `cookie`; empty for none."""
    if _scheme(request) != "bearer":
        return ""
    shown = request.headers["authorization"].partition(" ")[2].strip()
    # A whole token stands by itself: the browser's cookie may be of another session
    return shown if len(shown) >= TOKEN_LENGTH else shown + request.cookies.get(cookie, "")


def whole_token(request: Request, cookie: str) -> str:
    """Return the same of a token of an identity provider, which may have any length."""
    if _scheme(request) != "bearer":
        return ""
    shown, rest = request.headers["authorization"].partition(" ")[2].strip(), request.cookies.get(cookie, "")
    # Who shows it whole and sends the cookie as well must not have its end twice
    return shown if shown.endswith(rest) else shown + rest


def cookie_settings(request: Request) -> dict[str, Any]:
    """Return how cookies with parts of tokens are set: no script reads them, and no other site has them sent."""
    return {"httponly": True, "secure": request.url.scheme == "https", "samesite": "strict", "path": "/"}


async def _read_body(request: Request) -> bytes:
    """Return the body; a larger one than `MAX_BODY_BYTES` is refused before it is in memory."""
    declared = request.headers.get("content-length", "")
    body = bytearray()
    # A length that is too large is refused unread; one that is missing or untrue is found by counting
    length = whole_number(declared)
    if length is None or length <= MAX_BODY_BYTES:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                break
        else:
            return bytes(body)
    raise HTTPException(413, f"a body may have {MAX_BODY_BYTES} bytes")


async def _read_app_text(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/plain":
        raise HTTPException(415, f"a Siddhi app is sent as text/plain, not as {kind or 'nothing'}")
    try:
        text = (await _read_body(request)).decode()
    except UnicodeDecodeError as error:
        raise SiddhiAppError(f"the app is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if not text.strip():
        raise SiddhiAppError("the app is empty")
    return text


def json_body(kind: type[BaseModel], hint: str | None = None) -> Any:
    """Return the dependency that reads the body, JSON, as a `kind`; `hint` is for those who send another."""

    async def read(request: Request) -> BaseModel:
        body = await _read_body(request)
        try:
            return read_message(kind, body, hint)
        except ClusterError as error:
            raise HTTPException(400, error_body(error)) from error

    return Depends(read)


def form_body(kind: type[BaseModel]) -> Any:
    """Return the dependency that reads the body, a form of a browser, as a `kind`."""

    async def read(request: Request) -> BaseModel:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != FORM:
            raise HTTPException(415, f"this is sent as {FORM}, not as {media or 'nothing'}")
        try:
            fields = parse_qsl((await _read_body(request)).decode(), keep_blank_values=True, max_num_fields=100)
            return parse_message(kind, dict(fields), None)
        except (ValueError, ClusterError) as error:
            told = error if isinstance(error, ClusterError) else ClusterError(f"the body is no form: {error}")
            raise HTTPException(400, error_body(told)) from error

    return Depends(read)


Body = Annotated[bytes, Depends(_read_body)]
AppText = Annotated[str, Depends(_read_app_text)]


async def _on_spdist_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SpdistError)
    status = next(STATUS[kind] for kind in error.kinds() if kind in STATUS)
    headers = {}
    if isinstance(error, UnauthorizedError):
        basic, bearer = 'Basic realm="spdist", charset="UTF-8"', 'Bearer realm="spdist", error="invalid_token"'
        headers["WWW-Authenticate"] = bearer if _scheme(request) == "bearer" else basic
    if isinstance(error, NotLeaderError):
        # There is nowhere to redirect to; the same request may succeed in a moment
        if error.leader is None:
            status = 503
        else:
            query = f"?{request.url.query}" if request.url.query else ""
            headers["Location"] = f"{error.leader}{request.url.path}{query}"
    if status == 503:
        headers["Retry-After"] = "1"
    return JSONResponse(error_body(error), status, headers)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    detail: object = error.detail
    kind = NotFoundError if error.status_code == 404 else ClusterError
    body = detail if isinstance(detail, dict) else error_body(kind(f"{request.url.path}: {detail}"))
    return JSONResponse(body, error.status_code, error.headers)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    return JSONResponse(error_body(ClusterError(f"{request.url.path}: {found}")), 400)


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # to nobody


async def _on_bug(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    told = SpdistError("this node failed to answer", hint="its log has the details")
    return JSONResponse(error_body(told), 500)
