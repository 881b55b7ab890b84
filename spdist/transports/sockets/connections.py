"""What one connection to a listener may take: uvicorn's protocols have no bound for who sends slowly, or never ends.

A connection is closed that does not send what it began within a time, or too slowly, or more of a head than anybody
needs. It is told why: 408, 431, or 503 where there are too many connections. Before TLS is agreed nothing can be told:
there it is only closed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import Counter
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any

__all__ = ["Connection", "ConnectionLimits", "Handshake", "Visitors", "drained", "limits_of"]

log = logging.getLogger(__name__)

_HEAD_ENDS = re.compile(rb"\n\r?\n")
#: The slowest that a body may come in, once it has had its first time: bytes a second.
_SLOWEST = 1024
#: How long one that is refused may go on sending, so that it reads the answer, s.
_LINGER_S = 1.0
#: So many refusals are logged one by one, then one in `_EACH`.
_FIRST, _EACH = 10, 1000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a listener grants to those who connect.

    Parameters
    ----------
    header_timeout_ms : int
        How long the head of a request may take, from when the connection is there or the head begins; and before that
        the handshake of TLS.
    idle_timeout_ms : int
        How long nothing may come within a body, or be taken of an answer. A body must have come after that time and a
        second for each KiB of it.
    max_header_bytes : int
        Of the head of a request, its first line included.
    max_headers : int
        Lines of it.
    max_connections : int
        At a time, those that are still agreeing on TLS included.
    max_connections_per_address : int
        Of them, from one address.
    """

    header_timeout_ms: int = 10_000
    idle_timeout_ms: int = 30_000
    max_header_bytes: int = 32 * 1024
    max_headers: int = 100
    max_connections: int = 1024
    max_connections_per_address: int = 512


def limits_of(settings: Any) -> ConnectionLimits:
    """Return the limits that one of the node's ``listenerConfigurations`` gives; without any the usual ones."""
    return (
        ConnectionLimits()
        if settings is None
        else ConnectionLimits(**{one.name: getattr(settings, one.name) for one in fields(ConnectionLimits)})
    )


class Visitors:
    """Who is connected to a listener.

    Parameters
    ----------
    place : str
        The listener, for the log.
    limits : ConnectionLimits
        What they may take.

    State
    -----
    A number for each address that is connected, and how many connections were refused.
    """

    def __init__(self, place: str, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.refused = 0
        self._place = place
        self._known: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a connection; return whether there is room for it."""
        known, limits = self._known, self.limits
        if known.total() >= limits.max_connections or known[address] >= limits.max_connections_per_address:
            return False
        known[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Forget a connection."""
        self._known[address] -= 1
        if not self._known[address]:
            del self._known[address]

    def refuse(self, address: str, status: HTTPStatus) -> None:
        """Count a connection that is closed before it was answered; log the first ten, and then one in a thousand."""
        self.refused += 1
        if self.refused <= _FIRST or self.refused % _EACH == 0:
            told = f"{status.value} {status.phrase}"
            log.warning("%s refuses a connection of %s, %d so far: %s", self._place, address, self.refused, told)


class Connection(asyncio.Protocol):
    """One connection: another protocol within limits.

    Parameters
    ----------
    inner : asyncio.Protocol
        uvicorn's, which knows the request that it has read last: ``cycle``, whose ``more_body`` tells whether its body
        is to come.
    visitors : Visitors
        All that are connected to the listener.
    counted : bool
        Whether it is one of them already.

    State
    -----
    The end of the head that is being read, three bytes, and some numbers.
    """

    def __init__(self, inner: Any, visitors: Visitors, *, counted: bool = False) -> None:
        self._inner = inner
        self._visitors = visitors
        self._limits = visitors.limits
        self._loop = asyncio.get_running_loop()
        self._address = ""
        self._refused = False
        self._write_paused = False
        self._counted = counted
        #: The request whose head has come last.
        self._cycle: Any = None
        #: Of the head that is being read: bytes, lines, and how it ends so far.
        self._size, self._lines, self._tail = 0, 0, b""
        #: Of the body that is being read: when it began, and its bytes.
        self._began, self._received = 0.0, 0
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, or refuse it where there are too many."""
        self._transport: Any = transport
        self._address = _address(transport)
        self._counted = self._counted or self._visitors.enter(self._address)
        if not self._counted:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        self._inner.connection_made(transport)
        self._wait(self._limits.header_timeout_ms / 1000)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._counted:
            self._counted = False
            self._visitors.leave(self._address)
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand on what has come, unless it is more than it may be."""
        if self._refused:
            return
        if not self._in_body and not self._head_fits(data):
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        self._inner.data_received(data)
        self._look(len(data))

    def eof_received(self) -> bool | None:
        """Hand on."""
        return None if self._refused else self._inner.eof_received()

    def pause_writing(self) -> None:
        """Wait for whoever does not take the answer."""
        self._write_paused = True
        self._inner.pause_writing()
        self._wait(self._limits.idle_timeout_ms / 1000)

    def resume_writing(self) -> None:
        """Go on."""
        self._write_paused = False
        self._inner.resume_writing()
        self._due = None

    @property
    def _in_body(self) -> bool:
        cycle = getattr(self._inner, "cycle", None)
        return cycle is not None and bool(cycle.more_body)

    @property
    def _answering(self) -> bool:
        cycle = getattr(self._inner, "cycle", None)
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _head_fits(self, data: bytes) -> bool:
        """Count what belongs to a head; return whether that may go on."""
        # The empty line that ends a head may come in pieces: three bytes are kept to see it.
        known = len(self._tail)
        window = self._tail + data
        found = _HEAD_ENDS.search(window)
        end = len(window) if found is None else found.end()
        self._size += end - known
        self._lines += data.count(b"\n", 0, end - known)
        self._tail = window[-3:]
        if self._due is None:
            self._wait(self._limits.header_timeout_ms / 1000)
        # The first line, and the empty one.
        return self._size <= self._limits.max_header_bytes and self._lines <= self._limits.max_headers + 2

    def _look(self, received: int) -> None:
        """See where the request is after some bytes, and how long the next ones may take."""
        now, idle_s = self._loop.time(), self._limits.idle_timeout_ms / 1000
        cycle = getattr(self._inner, "cycle", None)
        # uvicorn has made a new cycle: the head is complete.
        if cycle is not self._cycle:
            self._cycle, self._began, self._received = cycle, now, 0
            self._size, self._lines, self._tail = 0, 0, b""
            self._due = None
        if self._in_body:
            self._received += received
            # Each byte buys time, but only so much: a byte now and then does not keep the connection for ever.
            slowest_s = self._began + idle_s + self._received / _SLOWEST - now
            self._wait(min(idle_s, slowest_s))
        elif not self._size:
            self._due = None

    def _wait(self, seconds: float) -> None:
        """Close the connection after a time, unless something else is said before."""
        self._due = self._loop.time() + seconds
        # A later due time only sets `_due`: the timer that runs looks again then, instead of a new one for each piece.
        if self._timer is None or self._timer.when() > self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._due, self._expired)

    def _expired(self) -> None:
        self._timer = None
        if self._due is None or self._refused:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._expired)
        elif (self._in_body and self._inner.flow.read_paused) or (self._answering and not self._write_paused):
            self._wait(self._limits.idle_timeout_ms / 1000)  # it is this side that takes its time
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """Say why, take no more, and close the connection soon."""
        self._refused = True
        self._visitors.refuse(self._address, status)
        phrase = status.phrase.encode()
        retry = b"retry-after: 1\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else b""
        cycle = getattr(self._inner, "cycle", None)
        # In the middle of an answer another one would be taken for its body.
        if cycle is None or cycle.response_complete or not cycle.response_started:
            head = b"HTTP/1.1 %d %b\r\n%bcontent-length: %d\r\nconnection: close\r\n\r\n"
            self._transport.write(head % (status, phrase, retry, len(phrase)) + phrase)
        # Not immediately: a connection that is reset while bytes come in loses the answer.
        self._loop.call_later(_LINGER_S, self._transport.abort)


class Handshake(asyncio.Protocol):
    """A connection on which TLS is agreed first, within the same limits: asyncio's own way counts it only afterwards.

    Parameters
    ----------
    inner : asyncio.Protocol
        What `Connection` is made of when TLS is agreed.
    visitors : Visitors
        All that are connected to the listener.
    tls : SSLContext
        What the listener asks and shows.

    State
    -----
    What comes in the moment in which TLS is agreed.
    """

    def __init__(self, inner: Any, visitors: Visitors, tls: ssl.SSLContext) -> None:
        self._inner = inner
        self._visitors = visitors
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._address = ""
        self._counted = False
        self._early: list[bytes] = []
        self._shaking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it and begin, or close it where there are too many."""
        assert isinstance(transport, asyncio.Transport)
        self._address = _address(transport)
        self._counted = self._visitors.enter(self._address)
        if self._counted:
            transport.pause_reading()  # what comes is for TLS
            self._shaking = self._loop.create_task(self._shake(transport))
        else:
            self._visitors.refuse(self._address, HTTPStatus.SERVICE_UNAVAILABLE)
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._counted:
            self._counted = False
            self._visitors.leave(self._address)

    def data_received(self, data: bytes) -> None:
        """Keep what a client has sent with the end of the handshake."""
        self._early.append(data)

    async def _shake(self, transport: asyncio.Transport) -> None:
        limit_s = self._visitors.limits.header_timeout_ms / 1000
        try:
            secured: Any = await self._loop.start_tls(
                transport, self, self._tls, server_side=True, ssl_handshake_timeout=limit_s
            )
        except OSError as error:  # of TLS, too; a client that speaks none is its own business
            if isinstance(error, ConnectionAbortedError) and self._counted:
                self._visitors.refuse(self._address, HTTPStatus.REQUEST_TIMEOUT)
            # Counted once, whoever tells of it first: `connection_lost` looks at `_counted`.
            self.connection_lost(error)
            return
        if not self._counted:
            return  # it has gone in that moment
        self._counted = False
        connection = Connection(self._inner, self._visitors, counted=True)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        # In order before anything new: both happen in the loop's thread without a wait in between.
        for data in self._early:
            connection.data_received(data)
        self._early.clear()


def _address(transport: asyncio.BaseTransport) -> str:
    return str((transport.get_extra_info("peername") or ("",))[0])


def drained(app: Any, most: int) -> Any:
    """Return an ASGI app that answers once the body has come, so that who still sends it reads the answer.

    A connection that is closed while bytes are on their way is reset, and the answer is lost. Of a larger body the rest
    is not waited for: the connection is closed.

    Parameters
    ----------
    app : ASGI app
        It may answer before it has read the body: 401, 404, 413 …
    most : int
        Bytes that are read for that and thrown away.
    """

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        over = begun = False

        async def receiving() -> Any:
            nonlocal over, begun
            begun = True
            message = await receive()
            over = over or message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start" and not over:
                # Who asks before sending sends nothing after a refusal.
                left = most if begun or (b"expect", b"100-continue") not in scope["headers"] else 0
                while not over and left > 0:
                    left -= len((await receiving()).get("body", b""))
                if not over:
                    message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await app(scope, receiving, sending)

    return answering
