"""The routes of logins where an identity provider knows the users. WSO2's form fields and answers.

A browser logs in at the provider: it is sent there with a state and a challenge (RFC 7636), which a cookie of its own
remembers, and comes back with a code. What it gets are the provider's tokens, each in two parts: one in the body, one
in a cookie that no script can read. So a token is good at every node, and ends when the provider says so.
"""

from __future__ import annotations

import hmac
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response

from spdist.cluster.api.bearer import Bearers, divided
from spdist.cluster.api.guard import (
    ACCESS_COOKIE,
    REFRESH_COOKIE,
    RequestGuard,
    cookie_settings,
    form_body,
    whole_token,
)
from spdist.cluster.api.models import (
    AuthType,
    Done,
    ExternalLoginForm,
    LoggedIn,
    Redirection,
    answers,
    takes,
)
from spdist.cluster.protocol.wire_errors import error_body
from spdist.cluster.security.identity import NewLogin
from spdist.cluster.security.provider import random_text
from spdist.errors import ClusterError, UnauthorizedError

__all__ = ["external_login_routes"]

Json = dict[str, Any]
#: Remembers a login that is under way, and for how long, s.
_PENDING_COOKIE, _PENDING_S = "SPDISTLOGIN", 600
_EXAMPLE = {"grantType": "authorization_code", "appId": "monitoring"}
_SAID = Annotated[str, Query(max_length=4000)]


def external_login_routes(guard: RequestGuard) -> APIRouter:
    """Return the routes by which users of the identity provider of `guard` log in and out."""
    assert guard.bearers is not None
    router = APIRouter(tags=["sessions"])
    _add_ways(router, guard, guard.bearers)
    _add_logins(router, guard.bearers)
    return router


def _add_ways(router: APIRouter, guard: RequestGuard, bearers: Bearers) -> None:
    settings, identity = bearers.identity.settings, bearers.identity

    @router.get("/login/auth-type", **answers(AuthType))
    def auth_type() -> Json:
        """Tell how users log in here, and at which provider; nobody has to log in for that."""
        kind = "local" if settings.grant_type == "password" else "sso"
        scope, client = settings.login_scopes, settings.public_client_id
        return {"authType": kind, "issuer": settings.issued_by, "scope": scope, "publicClientId": client}

    @router.post("/logout/{app}", dependencies=[guard.asks(None)], **answers(Done))
    async def logout(app: str, request: Request) -> Response:
        """End the token that is shown, at this node and at the provider; its refresh token can be shown no longer."""
        if token := whole_token(request, ACCESS_COOKIE):
            await bearers.ask(lambda: identity.end(token))
        answer = JSONResponse({"type": "success", "message": "logged out"})
        for name in (ACCESS_COOKIE, REFRESH_COOKIE):
            answer.delete_cookie(name, **cookie_settings(request))
        return answer


def _add_logins(router: APIRouter, bearers: Bearers) -> None:
    settings, identity = bearers.identity.settings, bearers.identity

    @router.post(
        "/login/{app}",
        **takes(ExternalLoginForm, form=True, example=_EXAMPLE),
        **answers(LoggedIn, 401, 429, 503, other={302: {"model": Redirection, "description": "Log in at Location"}}),
    )
    async def login(
        app: str, request: Request, form: Annotated[ExternalLoginForm, form_body(ExternalLoginForm)]
    ) -> Response:
        """Log in at the identity provider, or renew a login with its refresh token.

        `grantType` is ``authorization_code``: then the answer leads to the provider, which leads back to
        ``/login/callback/{app}``. Or ``refresh_token``: then the refresh token is shown as a bearer token. Or
        ``password``, where `auth.configs.properties.grantType` says so. `app` is a name that WSO2's pages give.
        """
        if form.grant_type == "refresh_token":
            shown = whole_token(request, REFRESH_COOKIE)
            # No user can have this name: wrong refresh tokens are counted by address alone
            return _logged_in(request, await bearers.verified(request, "\0refresh", lambda: identity.renew(shown)))
        if (form.grant_type or settings.grant_type) == "authorization_code":
            return await _sent_away(bearers, request, _callback(bearers, request, app))
        if settings.grant_type != "password":
            told = ClusterError("this node takes no passwords of users", hint="log in at the identity provider: sso")
            raise HTTPException(400, error_body(told))
        found = await bearers.verified(request, form.username, lambda: identity.login(form.username, form.password))
        return _logged_in(request, found, renewable=form.remember_me)

    @router.get("/login/callback/{app}", **answers(LoggedIn, 401, 429, 503))
    async def callback(
        app: str, request: Request, code: _SAID = "", state: _SAID = "", iss: _SAID = "", error: _SAID = ""
    ) -> Response:
        """End a login that the identity provider leads back from."""
        begun, verifier, nonce = _pending(request)
        # As bytes, since compare_digest takes no text that is not ASCII. iss: RFC 9207, against a mix-up of providers
        if not hmac.compare_digest(begun.encode(), state.encode()) or (iss and iss != settings.issued_by):
            raise _strange()
        if error or not code:
            raise UnauthorizedError(f"the identity provider let nobody in: {error[:200] or 'it gave no code'}")
        back = _callback(bearers, request, app)
        found = await bearers.verified(request, "\0code", lambda: identity.redeem(code, back, verifier, nonce))
        answer = _logged_in(request, found)
        answer.delete_cookie(_PENDING_COOKIE, **_pending_settings(request))
        return answer


def _callback(bearers: Bearers, request: Request, app: str) -> str:
    """Return where the provider leads back to; it compares that with what it knows of this client."""
    base = bearers.identity.settings.base_url or str(request.base_url)
    return f"{base.rstrip('/')}/login/callback/{quote(app, safe='')}"


async def _sent_away(bearers: Bearers, request: Request, back: str) -> Response:
    state, verifier, nonce = random_text(), random_text(), random_text()
    provider = bearers.identity.provider
    where = await bearers.ask(lambda: provider.login_url(back, state, verifier, nonce))
    access = provider.access
    body = {"redirectUrl": where, "callbackUrl": back, "clientId": access.client_id, "scope": access.scopes}
    answer = JSONResponse(body, 302, {"Location": where, "Cache-Control": "no-store"})
    answer.set_cookie(_PENDING_COOKIE, f"{state}.{verifier}.{nonce}", max_age=_PENDING_S, **_pending_settings(request))
    return answer


def _strange() -> UnauthorizedError:
    told = "no login is under way in this browser, or it took longer than ten minutes"
    return UnauthorizedError(told, hint="begin again: POST /login/{app}")


def _pending(request: Request) -> tuple[str, str, str]:
    parts = request.cookies.get(_PENDING_COOKIE, "").split(".")
    if len(parts) != 3 or not all(parts):
        raise _strange()
    return parts[0], parts[1], parts[2]


def _pending_settings(request: Request) -> Json:
    # Lax, as it is the provider's page that leads back.
    return {**cookie_settings(request), "samesite": "lax", "path": "/login/callback"}


def _logged_in(request: Request, login: NewLogin, *, renewable: bool = True) -> Response:
    request.state.username = login.user.username
    (shown, kept), (again, kept_again) = divided(login.access), divided(login.refresh if renewable else "")
    body: Json = {
        "authUser": login.user.username,
        "partialAccessToken": shown,
        "partialRefreshToken": again or None,
        "validityPeriod": login.valid_s,
    }
    answer = JSONResponse(body, headers={"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    answer.set_cookie(ACCESS_COOKIE, kept, max_age=login.valid_s, **cookie_settings(request))
    if again:
        answer.set_cookie(REFRESH_COOKIE, kept_again, **cookie_settings(request))
    return answer
