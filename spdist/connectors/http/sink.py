"""``@sink(type='http')``: a request for each payload, one after the other on a connection that is kept.

The header ``spdist-id`` is the same when a delivery is sent again after a failure, so that the receiver can tell. It
counts within ``spdist-origin``; deliveries of one origin come in the order of their numbers.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx

from spdist.config.allowed import SECRET, Allowed
from spdist.connectors.http import CONNECTOR
from spdist.connectors.sending import SendError, SinkContext
from spdist.errors import TransportError
from spdist.mapping.templates import Filled
from spdist.transports.delivery import Delivery
from spdist.transports.event_log import encoded, shown
from spdist.transports.options import Options
from spdist.transports.payloads.headers import ID_HEADER, ORIGIN_HEADER, header_text
from spdist.transports.sockets.tls import Certificate, client_context

__all__ = ["HttpSink", "open_sink"]


_HEADER = re.compile(r"'\s*([^':]+?)\s*:([^']*)'")
_HEADER_NAME = re.compile(r"[!#$%&*+.^_`|~0-9A-Za-z-]+")
#: What ends a header, or what no header may hold (RFC 9110, 5.5).
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
#: An address whose host ends where it is written.
_HOST = re.compile(r"https?://[^/?#\\]+[/?#]")
#: Answers to a request that may be taken another time.
_PASSING = frozenset((401, 403, 404, 408, 423, 425, 429))
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE", "HEAD", "OPTIONS")


class HttpSink:
    """Sends requests to the address in ``publisher.url``.

    Parameters
    ----------
    options : mapping of str to str
        As of Siddhi's sink: ``method``, ``headers``, ``basic.auth.*``, ``oauth.*`` with ``consumer.key``,
        ``https.truststore.file`` and ``https.keystore.file`` (PEM), ``proxy.*``, ``socket.idle.timeout`` in ms.
        Those for logins, and ``headers``, may name secrets: ``${secret:NAME}``.
    allowed : Allowed
        The secrets and files that the app may refer to.
    origin : str
        Name of the state whose outputs are sent.

    Raises
    ------
    AppValidationError
        An option is missing or wrong.
    """

    def __init__(self, options: Mapping[str, str], allowed: Allowed | None = None, origin: str = "") -> None:
        self._origin = origin
        self._read = read = Options(options, "the @sink of type 'http'", allowed=allowed or Allowed())
        address = read.needed("publisher.url", "http://localhost:8080/events")
        if not isinstance(address, Filled) and not re.match(r"https?://[^/]", address):
            raise read.wrong("publisher.url", "is no address", "For example: http://localhost:8080/events")
        headers = options.get("headers", "")
        # What the first event says is no fault of the app.
        _headers(read, headers.sample if isinstance(headers, Filled) else headers)
        auth = _auth(read)
        self._hidden = _secrets_in(read)
        self._credentials = auth is not None or bool(SECRET.search(headers))
        self._client = httpx.Client(
            auth=auth,
            verify=_trust(read),
            proxy=_proxy(read),
            timeout=read.whole("socket.idle.timeout", 6000, least=1) / 1000,
            # A redirect would send payload and credentials to an address that the app does not name.
            follow_redirects=False,
            # No proxy and no login from variables of the node, which are not the app's to use.
            trust_env=False,
        )

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send a request for each delivery, in order; any answer from 200 to 299 is success."""
        for done, delivery in enumerate(deliveries):
            try:
                answer = self._request(delivery)
            except _Unfit as error:
                raise SendError(f"{_place(delivery)}: {error}", done, lasting=True) from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                lasting = isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol))
                raise SendError(f"{_place(delivery)}: {type(error).__name__}: {error}", done, lasting) from error
            if not answer.is_success:
                # A request that is wrong stays wrong; what may be another answer later is in `_PASSING`.
                lasting = answer.status_code < 500 and answer.status_code not in _PASSING
                told = self._told(answer)
                raise SendError(f"{_place(delivery)} answers {answer.status_code} {told}".rstrip(), done, lasting)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, delivery: Delivery) -> httpx.Response:
        options = delivery.options
        origin = f"{self._origin}.{delivery.sink}.{delivery.destination}"
        headers = httpx.Headers({ID_HEADER: header_text(delivery.id), ORIGIN_HEADER: origin})
        for name, value in _headers(self._read, options.get("headers", "")):
            headers[name] = value
        url = options["publisher.url"]
        if self._credentials and isinstance(url, Filled) and not _HOST.match(url.written[0]):
            raise _Unfit("the host comes with the event, and credentials go only to a host that is written in the app")
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
        return self._client.request(method, url, headers=headers, **content)

    def _told(self, answer: httpx.Response) -> str:
        """Return the beginning of an answer, without the credentials that the receiver may repeat."""
        text = answer.text
        shown = answer.request.headers.get("Authorization", "").rpartition(" ")[2]
        # The longest first: a secret that contains another one would else be left in part.
        for hidden in sorted((*self._hidden, shown), key=len, reverse=True):
            text = text.replace(hidden, "***") if hidden else text
        return " ".join(text.split())[:200]


class _Unfit(Exception):
    """What an event says makes no request; the text says why."""


def _headers(read: Options, text: str) -> list[tuple[str, str]]:
    """Return the headers in a text as it was written: what an event has put into one stays there."""
    # Headers are found in what the app has written: a quote in a value of an event begins no other header.
    written, values = (text.written, text.values) if isinstance(text, Filled) else ((text,), ())
    whole, places = "".join(written), list(accumulate(map(len, written)))[:-1]
    found, inside = [], 0
    for one in _HEADER.finditer(whole):
        name, (start, end) = one[1], one.span(2)
        within = [number for number, place in enumerate(places) if start <= place <= end]
        cuts = [start, *(places[number] for number in within), end]
        own = [values[number] for number in within]
        inside += len(own)
        value = read.expanded("headers", Filled.of([whole[a:b] for a, b in pairwise(cuts)], own)).strip()
        if not _HEADER_NAME.fullmatch(name):
            raise read.wrong("headers", f"has '{name}', which is no name of a header")
        if any(map(_CONTROL.search, own)):
            raise _Unfit(f"the header {name} would hold a control character, by what the event says")
        if _CONTROL.search(value):
            raise read.wrong("headers", f"has a control character in {name}, or its secret has")
        found.append((name, value))
    # A value outside of any header, or in a name, has no place.
    if inside < len(values) or (whole.strip() and not found):
        raise read.wrong("headers", "cannot be read", "For example: headers=\"'Name: value','Other: {{attribute}}'\"")
    return found


def _secrets_in(read: Options) -> tuple[str, ...]:
    """Return the secrets that the options of a sink name."""
    named = {one[0] for key in CONNECTOR.secrets for one in SECRET.finditer(read.text(key))}
    return tuple(read.allowed.expand(one) for one in named)


class _OAuth(httpx.Auth):
    """Gets a token when there is none, and a new one when the old one is refused."""

    requires_response_body = True

    def __init__(self, read: Options) -> None:
        self._url = read.needed("token.url", "https://localhost:9443/oauth2/token")
        in_body = bool(read.text("body.consumer.key"))
        prefix = "body." if in_body else ""
        key, secret = read.secret(f"{prefix}consumer.key"), read.secret(f"{prefix}consumer.secret")
        self._basic = None if in_body else httpx.BasicAuth(key, secret)
        self._form = {"scope": read.text("oauth.scope", "default")}
        if in_body:
            self._form |= {"client_id": key, "client_secret": secret}
        if read.text("oauth.username"):
            self._form |= {"grant_type": "password", "username": read.secret("oauth.username")}
            self._form["password"] = read.secret("oauth.password")
        elif read.text("refresh.token"):
            self._form |= {"grant_type": "refresh_token", "refresh_token": read.secret("refresh.token")}
        else:
            self._form["grant_type"] = "client_credentials"
        self._token = ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with a token."""
        # One retry with a new token only where the old one may have expired; a new one that is refused stays refused.
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
        # Servers may give each refresh token for one use (OAuth 2, RFC 6749, section 6).
        if "refresh_token" in found and self._form["grant_type"] == "refresh_token":
            self._form["refresh_token"] = found["refresh_token"]


def _auth(read: Options) -> httpx.Auth | None:
    if read.text("basic.auth.username"):
        return httpx.BasicAuth(read.secret("basic.auth.username"), read.secret("basic.auth.password"))
    if read.text("consumer.key") or read.text("body.consumer.key") or read.text("token.url"):
        return _OAuth(read)
    return None


def _trust(read: Options) -> ssl.SSLContext:
    trusted, own = read.pem("https.truststore.file"), read.pem("https.keystore.file")
    certificate = None
    if own is not None:
        password = read.secret("https.keystore.key.password") or read.secret("https.keystore.password")
        certificate = Certificate(own, password=password)
    try:
        context = client_context(trusted, certificate)
    except TransportError as error:
        wrong = "https.truststore.file" if own is None else "https.keystore.file"
        raise read.wrong(wrong, f"cannot be used: {error.message}") from error
    context.check_hostname = read.flag("hostname.verification.enabled", True)
    return context


def _proxy(read: Options) -> httpx.Proxy | None:
    host = read.text("proxy.host")
    if not host:
        return None
    user = read.secret("proxy.username")
    auth = (user, read.secret("proxy.password")) if user else None
    try:
        return httpx.Proxy(f"http://{host}:{read.whole('proxy.port', 8080, least=1)}", auth=auth)
    except (httpx.InvalidURL, ValueError) as error:
        raise read.wrong("proxy.host", f"is no host: '{host}'", "For example: proxy.example.org") from error


def _kind_of(payload: Any) -> str:
    """Return the content type: what the payload looks like, as its mapping is not known here."""
    text = payload.lstrip()[:1] if isinstance(payload, str) else ""
    if text in ("{", "["):
        return "application/json"
    return "application/xml" if text == "<" else "text/plain; charset=utf-8"


def _place(delivery: Delivery) -> str:
    """Return where a delivery goes, without what may be secret in an address."""
    try:
        parts = urlsplit(delivery.options["publisher.url"])
    except ValueError:  # what an event says may be anything
        return "the receiver"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def open_sink(options: Mapping[str, str], context: SinkContext) -> HttpSink:
    """Return the sink of a destination."""
    return HttpSink(options, context.allowed, context.origin)
