"""An identity provider over HTTP: OpenID Connect discovery, its keys, and the calls of OAuth 2.0. The door to authlib.

What its answers mean is decided elsewhere (`spdist.cluster.security.claims`). Calls block: nodes make them in threads.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from authlib.oauth2.client import OAuth2Client

from spdist.cluster.security.claims import Keys, RefusedToken, UnknownKey, key_set, signed
from spdist.cluster.security.scim import ACCEPT, ListedUser, read_page, told_by, users_query
from spdist.config import Secret
from spdist.config.kinds import is_safe_url
from spdist.transports.sockets.tls import client_context, refusal_hint

__all__ = ["Provider", "ProviderAccess", "ProviderAway", "ProviderEndpoints", "endpoints_of", "random_text"]

_log = logging.getLogger(__name__)

T = TypeVar("T")
Json = dict[str, Any]

#: Addresses and keys are read anew after so long, and used for so long at most where the provider is away, s.
_FRESH_S, _LONGEST_S = 900.0, 7200.0
#: Between two looks for a key that is not known, s: whoever invents names of keys must not have the provider asked.
_LOOK_S = 30.0
#: After a call without an answer none is made for so long, s: everybody would wait for it.
_PAUSE_S = 3.0
#: Of users that are looked up where the provider does not filter.
_MOST_PAGES = 100
#: Errors of RFC 6749 that say nothing of a user: the settings of this client are wrong.
_OUR_FAULT = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"})


class ProviderAway(ConnectionError):
    """The identity provider does not answer, or not as one; the text says what happened."""


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """How a provider is reached, and as whom.

    Parameters
    ----------
    issuer : str
        Its address, as its tokens name it.
    client_id : str
        Whom it knows us as.
    client_secret : Secret, optional
        None for a public client.
    scopes : str
        What a login asks for, with blanks between them.
    trust_file : Path, optional
        PEM file with the authorities to trust; the system's if not given.
    connect_s, read_s : float
        For connecting, and for each wait on the network.
    jwks_url, introspection_url : str
        In place of those that the provider tells.
    asking_as : tuple of str and Secret, optional
        Who asks about tokens, where that is not the client.
    scim_url : str
        Where users are looked up (RFC 7644); empty where they are not.
    looking_as : tuple of str and Secret, optional
        Who looks them up, where that is not the client.
    """

    issuer: str
    client_id: str
    client_secret: Secret | None = None
    scopes: str = "openid"
    trust_file: Path | None = None
    connect_s: float = 5.0
    read_s: float = 10.0
    jwks_url: str = ""
    introspection_url: str = ""
    asking_as: tuple[str, Secret] | None = None
    scim_url: str = ""
    looking_as: tuple[str, Secret] | None = None


@dataclass(frozen=True, slots=True)
class ProviderEndpoints:
    """Where a provider does what; empty where it does not."""

    authorization: str
    token: str
    jwks: str
    introspection: str
    revocation: str
    secret_in_body: bool


def endpoints_of(document: Any, access: ProviderAccess) -> ProviderEndpoints:
    """Return what a discovery document says, with what `access` puts in its place.

    Raises
    ------
    ValueError
        It is of another issuer, or names an address to which no secret may go.
    """
    if not isinstance(document, dict):
        raise ValueError("its discovery document is no JSON object")
    if document.get("issuer") != access.issuer:
        raise ValueError(f"it calls itself {document.get('issuer')!r}: properties.issuer must be exactly that")
    found = {
        name: document.get(key) or ""
        for name, key in (
            ("authorization", "authorization_endpoint"),
            ("token", "token_endpoint"),
            ("jwks", "jwks_uri"),
            ("introspection", "introspection_endpoint"),
            ("revocation", "revocation_endpoint"),
        )
    }
    found["jwks"] = access.jwks_url or found["jwks"]
    found["introspection"] = access.introspection_url or found["introspection"]
    for name, url in found.items():
        if not isinstance(url, str) or (url and not is_safe_url(url.partition("?")[0])):
            raise ValueError(f"its {name} endpoint {url!r} is no https address")
    methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    in_body = "client_secret_basic" not in methods and "client_secret_post" in methods
    return ProviderEndpoints(**found, secret_in_body=in_body)


def random_text() -> str:
    """Return a text that nobody can guess: a state, a nonce, a code verifier (RFC 7636)."""
    return secrets.token_urlsafe(48)


class _OAuthError(Exception):
    """An error of RFC 6749 as the provider words it; authlib's own class takes ASCII only."""

    def __init__(self, error: object = None, description: object = None) -> None:
        super().__init__(f"{error}: {description}" if description else str(error))
        self.error = error


class _Renewed(Generic[T]):
    """A value that is read anew when it is old. Safe from several threads; one reads, the others wait for it."""

    def __init__(self, read: Callable[[], T], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._at_s = self._looked_s = -_LONGEST_S

    def get(self, older_than_s: float = _FRESH_S) -> T:
        """Return the value, one that is not older than `older_than_s` if the provider answers."""
        with self._lock:
            now_s = self._clock()
            if self._value is not None and now_s - self._at_s < older_than_s:
                return self._value
            if self._value is not None and now_s - self._looked_s < _LOOK_S:
                return self._value
            self._looked_s = now_s
            try:
                self._value, self._at_s = self._read(), now_s
            except ProviderAway:
                if self._value is None or now_s - self._at_s >= _LONGEST_S:
                    self._value = None
                    raise
            return self._value


class Provider:
    """An identity provider, and us as a client of it. Safe to use from several threads.

    Parameters
    ----------
    access : ProviderAccess
        Where it is, and who we are.
    clock : callable, optional
        Seconds that only grow.

    Raises
    ------
    TransportError
        The file with the authorities to trust cannot be used.

    State
    -----
    Addresses and keys of the provider, 15 minutes, and 2 hours where it is away.
    """

    def __init__(self, access: ProviderAccess, clock: Callable[[], float] = time.monotonic) -> None:
        self.access = access
        self._clock = clock
        self._http = httpx.Client(
            verify=client_context(access.trust_file),
            timeout=httpx.Timeout(access.read_s, connect=access.connect_s),
            headers={"Accept": "application/json"},
            # A proxy of the environment sees nothing of TLS; without TLS it would see secrets
            trust_env=access.issuer.startswith("https:"),
        )
        self._away_until_s, self._why_away = float("-inf"), ""
        self._endpoints = _Renewed(self._discover, clock)
        self._keys = _Renewed(self._read_keys, clock)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    # ------------------------------------------------------------------------------------------------ what it tells all
    def endpoints(self) -> ProviderEndpoints:
        """Return where the provider does what; raises ProviderAway where that is not known."""
        return self._endpoints.get()

    def keys(self, *, anew: bool = False) -> Keys:
        """Return the keys that sign tokens, with `anew` as they are now, if the last look is some time ago."""
        return self._keys.get(0.0) if anew else self._keys.get()

    def signed(self, token: str) -> Json:
        """Return the claims of a JWT that this provider has signed; raises RefusedToken where it has not."""
        try:
            return signed(token, self.keys())
        except UnknownKey:
            return signed(token, self.keys(anew=True))

    def _discover(self) -> ProviderEndpoints:
        parts = urlsplit(self.access.issuer)
        own = f"{self.access.issuer.rstrip('/')}/.well-known/openid-configuration"
        # RFC 8414, for a provider without OpenID Connect.
        other = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
        answer = self._send("GET", own)
        if answer.status_code == 404:
            answer = self._send("GET", other)
        try:
            return endpoints_of(self._json(answer), self.access)
        except ValueError as error:
            raise self._away(str(error)) from error

    def _read_keys(self) -> Keys:
        url = self.endpoints().jwks
        if not url:
            raise self._away("it has no keys by which a signature could be checked (jwks_uri)")
        try:
            return key_set(self._json(self._send("GET", url)))
        except ValueError as error:
            raise self._away(f"{url}: {error}") from error

    # ------------------------------------------------------------------------------------------------- about one token
    def introspect(self, token: str) -> Json | None:
        """Return what the provider says of a token (RFC 7662); None where it cannot be asked."""
        endpoints = self.endpoints()
        if not endpoints.introspection:
            return None
        other = self.access.asking_as
        auth = httpx.BasicAuth(other[0], other[1].reveal()) if other else self._auth(endpoints)
        body = self._body(endpoints, in_place=other is not None)
        answer = self._call(
            lambda client: client.introspect_token(
                endpoints.introspection, token=token, token_type_hint="access_token", body=body, auth=auth
            )
        )
        return self._json(answer)

    def revoke(self, token: str) -> None:
        """End a token at the provider (RFC 7009), where it can; raises ProviderAway where it may not for us."""
        endpoints = self.endpoints()
        if endpoints.revocation:
            auth, body = self._auth(endpoints), self._body(endpoints)
            answer = self._call(
                lambda client: client.revoke_token(endpoints.revocation, token=token, body=body, auth=auth)
            )
            if answer.status_code >= 400:
                raise self._away(f"it ends no token for this client: it answers {answer.status_code}")

    def user(self, name: str) -> ListedUser | None:
        """Return the user of that name as SCIM 2.0 lists it (RFC 7644); None where it lists no such user."""
        other, headers = self.access.looking_as, {"Accept": ACCEPT}
        auth = httpx.BasicAuth(other[0], other[1].reveal()) if other else httpx.Auth()
        if other is None:
            headers["Authorization"] = f"Bearer {self.own_token()['access_token']}"
        url, start, filtered = f"{self.access.scim_url.rstrip('/')}/Users", 1, True
        for _ in range(_MOST_PAGES):
            query = users_query(name, start, filtered=filtered)
            answer = self._send("GET", f"{url}?{query}", auth=auth, headers=headers)
            if filtered and _refuses_filters(answer):
                filtered = False
                continue
            try:
                page = read_page(self._listing(answer), name, start)
            except ValueError as error:
                raise self._away(f"{url}: {error}") from error
            if page.user is not None or page.next is None:
                return page.user
            start = page.next
        raise self._away(f"{url} has more than {_MOST_PAGES} pages of users, and does not find one by a filter")

    def _listing(self, answer: httpx.Response) -> Json:
        """Return what SCIM answers; an error is not the user's fault, but one of this node's settings, or of it."""
        if answer.status_code in (401, 403):
            who = "idpUsername and idpPassword are" if self.access.looking_as else f"client {self.access.client_id} is"
            _, detail = told_by(_body_of(answer))
            said = f" ({detail})" if detail else ""
            url = answer.request.url.copy_with(query=None)
            raise self._away(f"{url} answers {answer.status_code}{said}: {who} not allowed to look up users")
        return self._json(answer)

    # ---------------------------------------------------------------------------------------------------------- logins
    def login_url(self, redirect_uri: str, state: str, verifier: str, nonce: str) -> str:
        """Return where somebody logs in who is then sent to `redirect_uri` with a code (RFC 6749, with RFC 7636)."""
        url = self.endpoints().authorization
        if not url:
            raise self._away("nobody can log in there: it names no authorization_endpoint")
        found, _ = self._client(redirect_uri).create_authorization_url(
            url, state=state, code_verifier=verifier, nonce=nonce
        )
        return str(found)

    def redeem(self, code: str, redirect_uri: str, verifier: str, nonce: str) -> Json:
        """Return the tokens for a code of the login that began with `nonce`; raises RefusedToken where it is none."""
        tokens = self._tokens("authorization_code", redirect_uri, code=code, code_verifier=verifier)
        # Without the scope openid there is no id_token; then state and verifier are the protection
        if isinstance(proof := tokens.get("id_token"), str) and self.signed(proof).get("nonce") != nonce:
            raise RefusedToken("the identity provider answers another login")
        return tokens

    def login(self, username: str, password: str) -> Json:
        """Return the tokens of a user who has shown us a password; raises RefusedToken where it is wrong."""
        return self._tokens("password", None, username=username, password=password)

    def refresh(self, token: str) -> Json:
        """Return new tokens for a refresh token; raises RefusedToken where it is none any more."""
        return self._tokens("refresh_token", None, refresh_token=token)

    def own_token(self) -> Json:
        """Return a token of this client itself, of no user (RFC 6749, 4.4)."""
        return self._tokens("client_credentials", None)

    def _tokens(self, grant_type: str, redirect_uri: str | None, **given: str) -> Json:
        endpoints = self.endpoints()
        body, auth = self._body(endpoints), self._auth(endpoints)
        found = self._call(
            lambda client: client.fetch_token(endpoints.token, grant_type=grant_type, body=body, auth=auth, **given),
            redirect_uri,
        )
        if not isinstance(found.get("access_token"), str):
            raise self._away("its answer holds no access token")
        return dict(found)

    # ------------------------------------------------------------------------------------------------------------ calls
    def _client(self, redirect_uri: str | None = None) -> Any:
        client = OAuth2Client(
            self._http,
            client_id=self.access.client_id,
            scope=self.access.scopes,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )
        client.oauth_error_class = _OAuthError
        return client

    def _auth(self, endpoints: ProviderEndpoints) -> httpx.Auth:
        secret = self.access.client_secret
        if secret is None or endpoints.secret_in_body:
            return httpx.Auth()
        # RFC 6749, 2.3.1: both as in a form.
        return httpx.BasicAuth(quote(self.access.client_id, safe=""), quote(secret.reveal(), safe=""))

    def _body(self, endpoints: ProviderEndpoints, *, in_place: bool = False) -> str:
        """Return how we name ourselves in a body; empty where a head does."""
        secret = self.access.client_secret
        if in_place or (secret is not None and not endpoints.secret_in_body):
            return ""
        shown = f"client_id={quote(self.access.client_id, safe='')}"
        return shown if secret is None else f"{shown}&client_secret={quote(secret.reveal(), safe='')}"

    def _call(self, call: Callable[[Any], T], redirect_uri: str | None = None) -> T:
        """Have authlib make a call; what goes wrong is either the token's fault or the provider's."""
        self._check_pause()
        try:
            return call(self._client(redirect_uri))
        except _OAuthError as error:
            if error.error in _OUR_FAULT:
                raise self._away(f"it refuses this client: {error}") from error
            raise RefusedToken(f"the identity provider refused: {error}") from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        except ValueError as error:
            raise self._away(str(error)) from error

    def _send(self, method: str, url: str, **more: Any) -> httpx.Response:
        self._check_pause()
        try:
            return self._http.request(method, url, **more)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _json(self, answer: httpx.Response) -> Json:
        body = _body_of(answer) if answer.status_code == 200 else None
        if not isinstance(body, dict):
            raise self._away(
                f"{answer.request.url.copy_with(query=None)} answers {answer.status_code}, and no JSON object"
            )
        return body

    def _check_pause(self) -> None:
        if self._clock() < self._away_until_s:
            raise ProviderAway(self._why_away)

    def _unreachable(self, error: httpx.HTTPError) -> ProviderAway:
        # Of a connection without TLS the text could be anything.
        hint = refusal_hint(error) if error.request.url.scheme == "https" else ""
        away = self._away((str(error) or type(error).__name__) + (f" ({hint})" if hint else ""))
        self._away_until_s, self._why_away = self._clock() + _PAUSE_S, str(away)
        return away

    def _away(self, why: str) -> ProviderAway:
        told = f"the identity provider {self.access.issuer} cannot be used: {why}"
        _log.warning("%s", told)
        return ProviderAway(told)


def _body_of(answer: httpx.Response) -> Any:
    """Return the JSON of an answer; None where it has none."""
    try:
        return answer.json()
    except ValueError:
        return None


def _refuses_filters(answer: httpx.Response) -> bool:
    """Return whether a server says that it cannot filter (RFC 7644, 3.4.2.2 and 3.12)."""
    return answer.status_code == 501 or (answer.status_code == 400 and told_by(_body_of(answer))[0] == "invalidFilter")
