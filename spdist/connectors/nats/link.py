"""A connection to a NATS server for sinks and sources of users: what they need of it, without coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from spdist.errors import TransportError
from spdist.transports.options import Options
from spdist.transports.sockets.tls import Certificate, client_context

__all__ = ["GivenMessages", "NatsLink", "NatsMessage", "NatsSourceSettings"]

T = TypeVar("T")
#: Subject, payload, headers.
Message = tuple[str, bytes, Mapping[str, str]]

_DEFAULT = "nats://localhost:4222"
_AUTH = ("", "user", "token", "tls")
_TIMEOUT_S = 10
#: Messages that wait for their confirmation at a time.
_WINDOW = 256


@dataclass(frozen=True, slots=True)
class NatsSourceSettings:
    """Where the server is and who asks.

    Parameters
    ----------
    servers : tuple of str
        ``server.urls``, with commas between them.
    username, password, token : str
        For ``auth.type`` user and token.
    trust, certificate : Path, optional
        PEM files: ``truststore.file`` and, for ``auth.type='tls'``, ``keystore.file``.
    name : str
        ``client.id``: how the server calls this client.
    """

    servers: tuple[str, ...]
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    trust: Path | None = None
    certificate: Path | None = None
    name: str = "spdist"

    @classmethod
    def of(cls, read: Options) -> NatsSourceSettings:
        """Read the options of a source or sink; raises AppValidationError where one is wrong."""
        written = read.text("server.urls") or read.text("bootstrap.servers", _DEFAULT)
        servers = tuple(one.strip() for one in written.split(",") if one.strip())
        if any(not one.startswith(("nats://", "tls://", "ws://", "wss://")) for one in servers):
            raise read.wrong("server.urls", f"is no address: '{written}'", f"For example: {_DEFAULT}")
        if read.text("streaming.cluster.id"):
            hint = "use a NATS server with JetStream: leave it out and write jetstream='true'"
            raise read.wrong("streaming.cluster.id", "asks for NATS Streaming, which is no more", hint)
        kind = read.choice("auth.type", "", _AUTH)
        return cls(
            servers,
            read.secret("username") if kind == "user" and read.needed("username", "me") else "",
            read.secret("password") if kind == "user" else "",
            read.secret("token") if kind == "token" else "",
            read.pem("truststore.file"),
            read.pem("keystore.file") if kind == "tls" else None,
            read.text("client.id", "spdist"),
        )


@dataclass(frozen=True, slots=True)
class NatsMessage:
    """A message that was received.

    Parameters
    ----------
    data : bytes
        The payload.
    headers : mapping of str to str
        Its headers.
    sequence : int
        Its place in a JetStream; 0 where there is none.
    delivery : int
        Which delivery of its durable subscription it is, counted from 1 without gaps; 0 where there is none.
    raw : Any
        What `NatsLink.acknowledge` needs; None where it was not delivered but looked up.
    """

    data: bytes
    headers: Mapping[str, str]
    sequence: int
    delivery: int
    raw: Any


@dataclass(frozen=True, slots=True)
class GivenMessages:
    """What readers of a durable subscription were given until now, whoever they are.

    Parameters
    ----------
    floor : int
        The place in the stream up to which all is acknowledged.
    sequence : int
        The place of the last message that was given.
    delivery : int
        Which delivery that was.
    """

    floor: int
    sequence: int
    delivery: int


class NatsLink:
    """One connection, opened when it is used and again after an error. Safe to use from several threads.

    Parameters
    ----------
    settings : NatsSourceSettings
        Where to.
    """

    def __init__(self, settings: NatsSourceSettings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._client: Client | None = None
        self._thread.start()

    def publish(self, messages: Sequence[Message], confirmed: bool) -> tuple[int, Exception | None]:
        """Publish in order; return how many are certainly there, and what stopped the others.

        Parameters
        ----------
        messages : sequence
            Subject, payload and headers of each.
        confirmed : bool
            Whether a JetStream must take each; else the server must have read them.
        """
        return self._run(self._publish(messages, confirmed))

    def subscribe(self, subject: str, queue: str, take: Callable[[NatsMessage], None]) -> None:
        """Call `take` on the connection's thread with each message of a subject from now on.

        Raises
        ------
        TransportError
            The server cannot be reached.
        """

        async def taken(message: Any) -> None:
            take(_message(message))

        async def begin() -> None:
            client = await self._connected()
            await client.subscribe(subject, queue=queue, cb=taken)
            # The server has the subscription when this returns: what is published from now on arrives.
            await client.flush()

        self._reached(begin())

    def pull(self, subject: str, durable: str) -> Any:
        """Return a durable JetStream subscription for `fetch`; raises TransportError where there is no such stream."""

        async def begin() -> Any:
            client = await self._connected()
            return await client.jetstream().pull_subscribe(subject, durable=durable)

        return self._reached(begin())

    def fetch(self, subscription: Any, most: int, wait_s: float) -> list[NatsMessage]:
        """Return the next messages of a subscription, at most so many; none where none come within `wait_s`."""

        async def some() -> list[NatsMessage]:
            try:
                return [_message(one) for one in await subscription.fetch(most, timeout=wait_s)]
            # No message in time is no error.
            except (TimeoutError, nats.errors.TimeoutError):
                return []

        return self._reached(some())

    def given(self, subscription: Any) -> GivenMessages:
        """Return what readers of a durable subscription were given until now; raises TransportError."""

        async def ask() -> GivenMessages:
            info = await subscription.consumer_info()
            return GivenMessages(info.ack_floor.stream_seq, info.delivered.stream_seq, info.delivered.consumer_seq)

        return self._reached(ask())

    def stored(self, subscription: Any, after: int, until: int, most: int) -> list[NatsMessage]:
        """Return messages of a durable subscription as its stream has them, whoever was given them; at most so many.

        Parameters
        ----------
        subscription : Any
            As `pull` returns it.
        after, until : int
            Places in the stream: of those behind the first, up to and with the second.
        most : int
            How many.

        Raises
        ------
        TransportError
            The server cannot be reached, or does not let this client look into the stream.
        """

        async def look() -> list[NatsMessage]:
            info = await subscription.consumer_info()
            stream, wanted = (await self._connected()).jetstream(), info.config
            subjects, place = wanted.filter_subjects or [wanted.filter_subject or ">"], after
            found: list[NatsMessage] = []
            while place < until and len(found) < most:
                # The server looks for one subject at a time: the first of all is the least of the first of each.
                each = [await _next(stream, info.stream_name, subject, place + 1) for subject in subjects]
                message = min((one for one in each if one), key=lambda one: one.sequence, default=None)
                if message is None or message.sequence > until:
                    break
                found.append(message)
                place = message.sequence
            return found

        return self._reached(look())

    def acknowledge(self, messages: Sequence[NatsMessage]) -> None:
        """Tell JetStream that messages need not come again; returns when it knows."""

        async def tell() -> None:
            # With an answer each: an acknowledgement that is lost would have the message given out again.
            await asyncio.gather(*(one.raw.ack_sync(timeout=_TIMEOUT_S) for one in messages))

        self._reached(tell())

    @property
    def connected(self) -> bool:
        """Whether the connection is there."""
        return self._client is not None and self._client.is_connected

    def close(self) -> None:
        """Close the connection and end its thread."""
        if self._loop.is_closed():
            return
        self._run(self._dropped())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()

    async def _publish(self, messages: Sequence[Message], confirmed: bool) -> tuple[int, Exception | None]:
        done = 0
        try:
            client = await self._connected()
            if not confirmed:
                # Without a confirmation none of them is certain before the flush: a failure counts none as sent.
                for subject, data, headers in messages:
                    await client.publish(subject, data, headers=dict(headers))
                await client.flush(timeout=_TIMEOUT_S)
                return len(messages), None
            stream = client.jetstream(timeout=_TIMEOUT_S)
            while done < len(messages):
                part = messages[done : done + _WINDOW]
                sent = (stream.publish(subject, data, headers=dict(headers)) for subject, data, headers in part)
                # Counted up to the first that failed; later ones that arrived are repeated, and dropped by their ids.
                for answer in await asyncio.gather(*sent, return_exceptions=True):
                    if isinstance(answer, Exception):
                        return done, answer
                    done += 1
        except (NatsError, OSError, TimeoutError, TransportError) as error:
            await self._dropped()
            return done, error
        return done, None

    async def _connected(self) -> Client:
        # The library does not connect again by itself here: what nobody waits for any more would be published then.
        if self._client is not None and not self._client.is_connected:
            await self._dropped()
        if self._client is None:
            settings = self._settings
            options: dict[str, Any] = {"user": settings.username, "password": settings.password}
            self._client = await nats.connect(
                servers=list(settings.servers),
                name=settings.name,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=_TIMEOUT_S,
                error_cb=_quiet,
                tls=_tls(settings),
                token=settings.token or None,
                **(options if settings.username else {}),
            )
        return self._client

    async def _dropped(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(NatsError, OSError, TimeoutError):
                await client.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _reached(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._run(work)
        except (NatsError, OSError, TimeoutError) as error:
            # Without the name and password that may stand in an address.
            servers = ", ".join(one.rpartition("@")[2] for one in self._settings.servers)
            raise TransportError(f"NATS at {servers}: {type(error).__name__} {error}") from error


def _message(message: Any) -> NatsMessage:
    try:
        place = message.metadata.sequence
    # A message of plain NATS has no metadata.
    except NatsError:
        return NatsMessage(message.data, message.headers or {}, 0, 0, message)
    return NatsMessage(message.data, message.headers or {}, place.stream, place.consumer, message)


async def _next(stream: JetStreamContext, name: str, subject: str, sequence: int) -> NatsMessage | None:
    """Return the first message of a subject that is at a place of a stream or behind it; None where there is none."""
    try:
        found = await stream.get_msg(name, seq=sequence, subject=subject, next=True)
    except nats.js.errors.NotFoundError:
        return None
    return NatsMessage(found.data or b"", found.headers or {}, found.seq or 0, 0, None)


async def _quiet(_error: Exception) -> None:
    """Say nothing: whoever uses the connection finds out, and says it with its own words."""


def _tls(settings: NatsSourceSettings) -> ssl.SSLContext | None:
    if settings.trust is None and settings.certificate is None:
        return None
    return client_context(settings.trust, None if settings.certificate is None else Certificate(settings.certificate))
