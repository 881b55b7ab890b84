"""``@source(type='http')``: requests whose bodies are payloads. Answers come when the events cannot be lost any more.

Sources with the same host and port share it and differ by their paths (`spdist.connectors.http.ports`). Bodies are
parsed and appended in a thread, those of one source in the order in which they came; those that wait together are
appended together.

=======  ==================================================================================
200      all is appended; the answer says what of it could not be read as events
400      nothing of it can be read as events, or its number is none
401      a password is needed
404      no source has that path
413      the body is larger than the source takes
429      too many wrong passwords: ``Retry-After`` says when the next one is looked at
503      it cannot be appended now, or too much waits: ``Retry-After`` says when to send it again; also where
         a server of a group is passive, or the source is about to begin
=======  ==================================================================================

Who numbers requests, as ``@sink(type='http')`` does (`spdist.transports.delivery`), may send them again after a
failure: where ``drop.repeats`` holds, a number counts once, whichever node took it. By default it holds where
``basic.auth.enabled`` does, for each user alone: who claims another one's numbers would keep its requests out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby, takewhile
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from spdist.connectors.http.addresses import HttpAddress
from spdist.connectors.http.ports import LATER, HttpPort
from spdist.connectors.receiving import ReadPayload, SourceContext, now_ms
from spdist.errors import MappingError, TransportError
from spdist.transports.options import Options
from spdist.transports.payloads.headers import ID_HEADER, ORIGIN_HEADER
from spdist.transports.sockets.connections import ConnectionLimits
from spdist.transports.sockets.guesses import GuessingQueue, TooManyGuesses
from spdist.transports.sockets.logins import Logins, WrongLogins, credentials
from spdist.transports.source_writer import NUMBERS_EACH, Chunk

__all__ = ["HttpSource", "open_source"]

log = logging.getLogger(__name__)
_wrong_logins = WrongLogins(log)

#: Requests of one source that may wait to be parsed and for the disk,
_MOST_WAITING = 10_000
#: and bytes of their bodies; at least two of the largest.
_MOST_BYTES = 128 << 20
#: Bytes of bodies that are parsed and appended together; one body may be larger.
_TOGETHER = 4 << 20
#: Who numbers what nobody numbers.
_NOBODY = ""
#: Digits of a number of a request: with room for the events of each, a long has it.
_MOST_DIGITS = 12


class HttpSource:
    """Receives requests for one source.

    Parameters
    ----------
    context : SourceContext
        Where events go. Options: ``receiver.url`` (on 127.0.0.1 unless it says otherwise), ``basic.auth.enabled`` with
        those users of the node who may deploy apps, or ``basic.auth.username`` and
        ``basic.auth.password='${secret:NAME}'``; ``request.size.validation.configurations`` (by default 16 MiB); for
        https ``https.keystore.file`` (PEM); ``drop.repeats``.
    users : callable
        Returns those users of the node.
    limits : ConnectionLimits
        What those who connect may take; of sources that share a port those of the first.

    Raises
    ------
    AppValidationError
        An option is wrong.
    """

    def __init__(self, context: SourceContext, users: Callable[[], Logins | None], limits: ConnectionLimits) -> None:
        read = context.options
        self._limits = limits
        self._address = HttpAddress.of(read, context.app, context.stream)
        logins = _users(read, users)
        self._route = _SourceRoute(context, logins, read.flag("drop.repeats", logins is not None))
        self._port: HttpPort | None = None

    def start(self) -> None:
        """Listen; raises TransportError where the port, or the path on it, is taken."""
        self._port = HttpPort.shared(self._address, self._limits)
        try:
            self._port.add(self._address.path, self._route.take)
        except BaseException:
            self._port.leave()
            self._port = None
            raise
        log.info("stream '%s' listens at %s%s", self._route.context.stream, self._port.url, self._address.path)

    def stop(self) -> None:
        """Finish the requests under way, and listen no more."""
        port, self._port = self._port, None
        if port is not None:
            port.remove(self._address.path)
            port.leave()

    @property
    def url(self) -> str:
        """Where it listens; the port is the real one."""
        return f"{self._port.url if self._port else ''}{self._address.path}"

    @property
    def problem(self) -> str | None:
        """Why nothing comes in at the moment."""
        return self._route.problem


@dataclass(frozen=True, slots=True)
class _WaitingRequest:
    """A request whose body has come."""

    body: bytes
    headers: Mapping[str, str]
    #: Who numbers it, and its number; nobody where it is not numbered.
    producer: str
    number: int
    answer: asyncio.Future[ReadPayload]


@dataclass(slots=True)
class _SourceRoute:
    """One source at a port, and the requests that wait for a thread that parses and appends them."""

    context: SourceContext
    logins: Logins | None
    drops_repeats: bool = False
    problem: str | None = None
    _waiting: list[_WaitingRequest] = field(default_factory=list)
    #: Bytes of bodies that have come, of requests that are not answered yet.
    _bytes: int = 0
    _writer: asyncio.Task[None] | None = None
    _guesses: GuessingQueue = field(default_factory=GuessingQueue)

    async def take(self, request: Request) -> JSONResponse:
        """Deal with one request."""
        if self.logins is not None and (refused := await self._refused(request, self.logins)):
            return refused
        body = bytearray()
        try:
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    return _told(400, "the body did not come")  # to nobody
                part, more = message.get("body", b""), message.get("more_body", False)
                body += part
                self._bytes += len(part)
                if len(body) > self.context.largest:
                    # As soon as it is too large and without the rest: `drained` of the listener sees to the connection.
                    return _told(413, f"the body is larger than {self.context.largest} bytes")
                if self._bytes > max(_MOST_BYTES, 2 * self.context.largest):
                    return _told(503, "too much waits to be read", LATER)
            read = await self._read(bytes(body), dict(request.headers), *self._numbered(request))
        except MappingError as error:
            return _told(400, str(error))
        except TransportError as error:
            self.problem = f"the @source of stream '{self.context.stream}' cannot append: {error}"
            log.warning("%s", self.problem)
            return _told(503, "it cannot be taken now", LATER)
        finally:
            # Whatever the answer is, also when the client has gone: else the room for others would shrink for good.
            self._bytes -= len(body)
        # Where a part could be read it is appended, and to send the whole again would double that: so it is a 200.
        if read.rejected and not read.chunks:
            return _told(400, "; ".join(read.rejected))
        answer: dict[str, Any] = {"events": sum(map(len, read.chunks))}
        if read.rejected:
            answer["rejected"] = read.rejected
        return JSONResponse(answer)

    def _numbered(self, request: Request) -> tuple[str, int]:
        """Return who numbers a request, and its number; nobody where repeats are not told by it.

        Raises
        ------
        MappingError
            It is numbered in a way that cannot be read: to count it twice would break a promise.
        """
        shown = credentials(request.headers.get("authorization", ""))
        # Without logins the header is anybody's claim, and names nobody.
        user = shown[0] if self.logins is not None and shown is not None else ""
        id, origin = request.headers.get(ID_HEADER, ""), request.headers.get(ORIGIN_HEADER, "")
        if not (self.drops_repeats and id):
            return _NOBODY, 0
        sender, _, number = id.rpartition(":")
        if not ((sender or origin) and number.isascii() and number.isdigit()) or len(number) > _MOST_DIGITS:
            told = (
                f"the header {ID_HEADER} is {id[:80]!r}, not a number of up to {_MOST_DIGITS} digits behind who counts"
            )
            raise MappingError(
                told, hint=f"write it like {ID_HEADER}: press-1:7, or name who counts in {ORIGIN_HEADER}"
            )
        # However long these are, a reader keeps a short text for each sender.
        # As JSON, so that no text of one name looks like the border between two.
        names = json.dumps([user, origin, sender])
        return f"http-{hashlib.sha256(names.encode()).hexdigest()[:32]}", int(number)

    async def _refused(self, request: Request, logins: Logins) -> JSONResponse | None:
        """Return the answer to somebody who may not send; None where that is not so."""
        shown = credentials(request.headers.get("authorization", ""))
        # Who has shown what is right need not wait behind those who guess.
        if shown is not None and logins.recall(*shown):
            return None
        address = request.client.host if request.client else "somewhere"
        try:
            if shown is not None and await self._guesses.verified(shown[0], address, partial(_right, logins, shown)):
                return None
        except TooManyGuesses as error:
            return _told(429, str(error), {"Retry-After": str(error.retry_after_s)})
        if shown is not None:
            _wrong_logins.add(shown[0], address)
        return _told(401, "a user name and a password are needed", {"WWW-Authenticate": 'Basic realm="spdist"'})

    async def _read(self, body: bytes, headers: Mapping[str, str], producer: str, number: int) -> ReadPayload:
        """Return what a body holds, once that is appended."""
        if len(self._waiting) >= _MOST_WAITING:
            raise TransportError("too many requests wait")
        one = _WaitingRequest(body, headers, producer, number, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        # A client that goes away cancels its own wait and not the future, which the writer will still set.
        return await asyncio.shield(one.answer)

    async def _write(self) -> None:
        """Have what waits parsed and appended, in the order in which it came, until nothing waits."""
        while self._waiting:
            taken = self._first()
            # One thread at a time keeps the order of bodies; those that come meanwhile are the next lot.
            found = await asyncio.to_thread(self._append, taken)
            if not any(isinstance(result, Exception) for result in found):
                self.problem = None
            for one, result in zip(taken, found, strict=True):
                if one.answer.done():
                    continue
                if isinstance(result, Exception):
                    one.answer.set_exception(result)
                else:
                    one.answer.set_result(result)
        self._writer = None

    def _first(self) -> list[_WaitingRequest]:
        """Return those that have waited longest, and forget them."""
        sizes = accumulate(len(one.body) for one in self._waiting)
        # A single body may be larger than all that goes together.
        count = max(1, sum(1 for _ in takewhile(lambda size: size <= _TOGETHER, sizes)))
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _append(self, taken: Sequence[_WaitingRequest]) -> list[ReadPayload | Exception]:
        """Parse some bodies and append their events; return what each holds. Runs in a thread, one at a time."""
        found: list[ReadPayload | Exception] = []
        # Runs of one producer and not all of one: the order between producers is kept.
        for producer, several in groupby(taken, lambda one: one.producer):
            found += self._append_of(producer, list(several))
        return found

    def _append_of(self, producer: str, taken: Sequence[_WaitingRequest]) -> list[ReadPayload | Exception]:
        """Do that for bodies of one producer, for all or none of them."""
        now = now_ms()
        found: list[ReadPayload | Exception] = []
        parts: list[tuple[list[Chunk], int]] = []
        for one in taken:
            try:
                read = self.context.read(one.body, one.headers, now)
            except Exception as error:  # what is wrong with it cannot be stored
                # Its own error, while the other bodies of the lot are appended.
                found.append(error)
            else:
                found.append(read)
                parts.append(([*read.chunks], one.number * NUMBERS_EACH))
        if producer == _NOBODY:  # then they make one record
            parts = [([chunk for chunks, _ in parts for chunk in chunks], 0)]
        try:
            if any(chunks for chunks, _ in parts):
                self.context.writer.append_numbered(parts, now_ms(), producer)
        except Exception as error:
            # What had nothing to append does not fail with the others: its answer is what could not be read.
            return [error if isinstance(one, ReadPayload) and one.chunks else one for one in found]
        return found


def _users(read: Options, of_node: Callable[[], Logins | None]) -> Logins | None:
    """Return who may send; None for everybody."""
    if not read.flag("basic.auth.enabled", False):
        return None
    if read.text("basic.auth.username"):
        if not read.names_secret("basic.auth.password"):
            hint = "write basic.auth.password='${secret:NAME}', with a name of siddhi.secrets in deployment.yaml"
            raise read.wrong("basic.auth.password", "is not written into an app", hint)
        return Logins({read.secret("basic.auth.username"): read.secret("basic.auth.password")})
    known = of_node()
    if known is None:
        hint = "name an admin or developer under auth.configs of the node, or write basic.auth.username and .password"
        raise read.wrong("basic.auth.enabled", "asks for users, and there are none who may send", hint)
    return known


def _right(logins: Logins, shown: tuple[str, str]) -> bool | None:
    return logins.verify(*shown) or None


def _told(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, dict(headers or {}))


def open_source(context: SourceContext) -> HttpSource:
    """Return the source of an annotation, not yet started."""
    return HttpSource(context, context.node.users, context.node.limits)
