"""``@sink(type='http')``: a request for each payload, one after the other on a connection that is kept.

The header ``spdist-id`` is the same when a delivery is sent again after a failure, so that the receiver can tell.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from spdist.transports.delivery import ID_HEADER, Delivery
from spdist.transports.event_log import encoded, shown
from spdist.transports.options import Options
from spdist.transports.outlets import SendError

__all__ = ["HttpOutlet"]


_HEADER = re.compile(r"'\s*([^':]+?)\s*:([^']*)'")
#: Answers to a request that may be taken another time.
_PASSING = frozenset((401, 403, 404, 408, 423, 425, 429))
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE", "HEAD", "OPTIONS")


class HttpOutlet:
    """Sends requests to the address in ``publisher.url``.

    Parameters
    ----------
    options : mapping of str to str
        As of Siddhi's sink: ``method``, ``headers``, ``basic.auth.*``, ``oauth.*`` with ``consumer.key``,
        ``https.truststore.file`` and ``https.keystore.file`` (PEM), ``proxy.*``, ``socket.idle.timeout`` in ms.
        Passwords may be ``env:NAME`` for an environment variable, or ``file:path``.

    Raises
    ------
    AppValidationError
        An option is missing or wrong.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        read = Options(options, "the @sink of type 'http'")
        address = read.needed("publisher.url", "http://localhost:8080/events")
        if not re.match(r"https?://[^/]", address):
            raise read.wrong("publisher.url", "is no address", "For example: http://localhost:8080/events")
        self._client = httpx.Client(
            auth=_auth(read),
            verify=_trust(read),
            proxy=_proxy(read),
            timeout=read.whole("socket.idle.timeout", 6000, least=1) / 1000,
            follow_redirects=False,
            trust_env=False,
        )

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send a request for each delivery, in order; any answer from 200 to 299 is success."""
        for done, delivery in enumerate(deliveries):
            try:
                answer = self._request(delivery)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                lasting = isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol))
                raise SendError(f"{_place(delivery)}: {type(error).__name__}: {error}", done, lasting) from error
            if not answer.is_success:
                lasting = answer.status_code < 500 and answer.status_code not in _PASSING
                told = " ".join(answer.text.split())[:200]
                raise SendError(f"{_place(delivery)} answers {answer.status_code} {told}".rstrip(), done, lasting)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, delivery: Delivery) -> httpx.Response:
        options = delivery.options
        headers = httpx.Headers({ID_HEADER: _ascii(delivery.id)})
        headers.update({name: value.strip() for name, value in _HEADER.findall(options.get("headers", ""))})
        payload = delivery.payload
        content: dict[str, Any] = {}
        if isinstance(payload, dict):
            content["data"] = {name: shown(value) for name, value in payload.items()}
        else:
            content["content"] = encoded(payload)
            headers.setdefault("Content-Type", _kind_of(payload))
        method = (options.get("method") or "POST").upper()
        if method not in _METHODS:
            raise httpx.UnsupportedProtocol(f"there is no method '{method}'")
        return self._client.request(method, options["publisher.url"], headers=headers, **content)


class _OAuth(httpx.Auth):
    """Gets a token when there is none, and a new one when the old one is refused."""

    requires_response_body = True

    def __init__(self, read: Options) -> None:
        self._url = read.needed("token.url", "https://localhost:9443/oauth2/token")
        in_body = bool(read.text("body.consumer.key"))
        prefix = "body." if in_body else ""
        key, secret = read.text(f"{prefix}consumer.key"), read.secret(f"{prefix}consumer.secret")
        self._basic = None if in_body else httpx.BasicAuth(key, secret)
        self._form = {"scope": read.text("oauth.scope", "default")}
        if in_body:
            self._form |= {"client_id": key, "client_secret": secret}
        if read.text("oauth.username"):
            self._form |= {"grant_type": "password", "username": read.text("oauth.username")}
            self._form["password"] = read.secret("oauth.password")
        elif read.text("refresh.token"):
            self._form |= {"grant_type": "refresh_token", "refresh_token": read.secret("refresh.token")}
        else:
            self._form["grant_type"] = "client_credentials"
        self._token = ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with a token."""
        fresh = not self._token
        if fresh:
            yield from self._renew()
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code == 401 and not fresh:
            yield from self._renew()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _renew(self) -> Generator[httpx.Request, httpx.Response, None]:
        asking = httpx.Request("POST", self._url, data=self._form)
        if self._basic is not None:
            asking = next(self._basic.auth_flow(asking))
        answer = yield asking
        try:
            found = answer.json()
            self._token = found["access_token"]
        except (ValueError, KeyError, TypeError):
            self._token = ""
            raise httpx.ProtocolError(f"{self._url} gives no token: status {answer.status_code}") from None
        if "refresh_token" in found and self._form["grant_type"] == "refresh_token":
            self._form["refresh_token"] = found["refresh_token"]


def _auth(read: Options) -> httpx.Auth | None:
    if read.text("basic.auth.username"):
        return httpx.BasicAuth(read.text("basic.auth.username"), read.secret("basic.auth.password"))
    if read.text("consumer.key") or read.text("body.consumer.key") or read.text("token.url"):
        return _OAuth(read)
    return None


def _trust(read: Options) -> ssl.SSLContext:
    trusted, own = read.pem("https.truststore.file"), read.pem("https.keystore.file")
    context = ssl.create_default_context(cafile=None if trusted is None else str(trusted))
    context.check_hostname = read.flag("hostname.verification.enabled", True)
    if own is not None:
        password = read.secret("https.keystore.key.password") or read.secret("https.keystore.password")
        try:
            context.load_cert_chain(own, password=password or None)
        except (ssl.SSLError, OSError) as error:
            raise read.wrong("https.keystore.file", f"cannot be used: {error}") from error
    return context


def _proxy(read: Options) -> httpx.Proxy | None:
    host = read.text("proxy.host")
    if not host:
        return None
    user = read.text("proxy.username")
    auth = (user, read.secret("proxy.password")) if user else None
    return httpx.Proxy(f"http://{host}:{read.whole('proxy.port', 8080, least=1)}", auth=auth)


def _kind_of(payload: Any) -> str:
    """Return the content type: what the payload looks like, as its mapping is not known here."""
    text = payload.lstrip()[:1] if isinstance(payload, str) else ""
    if text in ("{", "["):
        return "application/json"
    return "application/xml" if text == "<" else "text/plain; charset=utf-8"


def _place(delivery: Delivery) -> str:
    """Return where a delivery goes, without what may be secret in an address."""
    parts = urlsplit(delivery.options["publisher.url"])
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
