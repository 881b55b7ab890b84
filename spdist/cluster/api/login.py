"""The routes of sessions: log in, renew, log out. WSO2's form fields and answers.

A token is answered in halves, as WSO2 does: one in the body, one in a cookie that no script can read. Who shows the
first as a bearer token, and the cookie with it, is let in; so is who shows both as one, first half first. A cookie
alone lets nobody in, so no other site can make a browser act.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from spdist.cluster.api.guard import (
    ACCESS_COOKIE,
    REFRESH_COOKIE,
    RequestGuard,
    cookie_settings,
    form_body,
    shown_token,
)
from spdist.cluster.api.models import AuthType, Done, LoggedIn, LoginForm, answers, takes
from spdist.cluster.security.sessions import TOKEN_LENGTH, Tokens
from spdist.errors import UnauthorizedError

__all__ = ["login_routes"]

Json = dict[str, Any]
_HALF = TOKEN_LENGTH // 2
_EXAMPLE = {"username": "admin", "password": "…", "grantType": "password", "rememberMe": "true"}
_ENDED = "this refresh token was used, has ended, or another node gave it"


def login_routes(guard: RequestGuard) -> APIRouter:
    """Return the routes by which users of `guard` log in and out; see `spdist.cluster.api.login_external`, too."""
    if guard.bearers is not None:
        from spdist.cluster.api.login_external import external_login_routes

        return external_login_routes(guard)
    router = APIRouter(tags=["sessions"])

    @router.get("/login/auth-type", **answers(AuthType))
    def auth_type() -> Json:
        """Tell how users log in here; nobody has to log in for that."""
        return {"authType": "local"}

    @router.post("/login/{app}", **takes(LoginForm, form=True, example=_EXAMPLE), **answers(LoggedIn, 401, 429))
    async def login(app: str, request: Request, form: Annotated[LoginForm, form_body(LoginForm)]) -> Response:
        """Log in with name and password, or renew a session with its refresh token.

        `grantType` is ``password``, or ``refresh_token``: then the refresh token is shown as a bearer token. Only with
        `rememberMe` there is one. `app` is a name that WSO2's pages give; all share their sessions. A token is good at
        the node that gave it.
        """
        if form.grant_type == "password":
            await guard.admit(request, form.username, form.password)
            return _logged_in(request, guard, guard.users.begin(form.username, renewable=form.remember_me))
        renewed = guard.users.renew(shown_token(request, REFRESH_COOKIE))
        if renewed is None:
            raise UnauthorizedError(_ENDED, hint="log in with name and password")
        request.state.username = renewed.session.username
        return _logged_in(request, guard, renewed)

    @router.post("/logout/{app}", dependencies=[guard.asks(None)], **answers(Done))
    async def logout(app: str, request: Request) -> Response:
        """End the session of the token that is shown; it lets nobody in from now on, nor does its refresh token."""
        guard.users.sessions.end(shown_token(request, ACCESS_COOKIE))
        answer = JSONResponse({"type": "success", "message": "logged out"})
        for name in (ACCESS_COOKIE, REFRESH_COOKIE):
            answer.delete_cookie(name, **cookie_settings(request))
        return answer

    return router


def _logged_in(request: Request, guard: RequestGuard, tokens: Tokens) -> Response:
    sessions = guard.users.sessions
    body: Json = {
        "authUser": tokens.session.username,
        "partialAccessToken": tokens.access[:_HALF],
        "partialRefreshToken": tokens.refresh[:_HALF] or None,
        "validityPeriod": sessions.valid_s,
    }
    answer = JSONResponse(body, headers={"Cache-Control": "no-store"})
    answer.set_cookie(ACCESS_COOKIE, tokens.access[_HALF:], max_age=sessions.valid_s, **cookie_settings(request))
    if tokens.refresh:
        answer.set_cookie(
            REFRESH_COOKIE, tokens.refresh[_HALF:], max_age=sessions.refresh_s, **cookie_settings(request)
        )
    return answer
