"""Topics in NATS JetStream: each partition is a stream with one subject, a record is a message.

Streams number their messages from 1 without gaps; an offset is that number less one. The stream of partition 2 of topic
``App.S`` is ``spdist-App-u2e-S-2`` and takes the subject ``spdist.App.S.2``, and those by which outsiders know it, as
WSO2's ``App_S``. Next to the payload stand the headers
``spdist-producer`` (as in a URL), ``spdist-seq``, ``spdist-count`` and ``spdist-clock``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.base import Record
from spdist.transports.loops import end_other_tasks, run_loop
from spdist.transports.names import plain_name
from spdist.transports.nats.settings import NatsSettings
from spdist.transports.payloads.headers import CLOCK, COUNT, PRODUCER, SEQ, outsiders_record, read_numbers
from spdist.transports.sockets.tls import Certificate, client_context
from spdist.transports.topics import check_name, check_offset, check_partition, check_partitions, replaced

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.api import StreamInfo

__all__ = ["NatsTransport", "stream_name", "subject_of"]

T = TypeVar("T")

_log = logging.getLogger("spdist.transports.nats")

_MAX_NAME = 200
_CONNECT_TIMEOUT_S = 2.0
_REQUEST_TIMEOUT_S = 5.0
_PAUSE_S = 0.05
#: Messages that are asked for at a time.
_WINDOW = 64
#: The server forgets ids after this time; attempts of one append come much sooner after each other.
_DUPLICATES_S = 120.0
_STREAM_NOT_FOUND = 10059
_SUBJECTS_OVERLAP = 10065
#: What can be published to: words with dots between them, and none of the server's own.
_SUBJECT = re.compile(r"(?!\$)[^\s.*>]+(\.[^\s.*>]+)*")
_HINT = "is the server running with JetStream, and is this its address? spdist goes on where it was once it answers"


class NatsTransport:
    """The topics of one NATS system; implements `spdist.transports.base.Transport`.

    An append is not atomic over its records: where it fails or its process dies, those of a partition that had come
    before stay, and never one without those before it. Whoever appends the same records with the same ids again
    completes it. The server itself drops repeats of the last two minutes.

    Parameters
    ----------
    settings : NatsSettings
        Where the servers are.

    Notes
    -----
    Thread-safe. A copy that a forked process inherits opens connections of its own. Nothing is connected before the
    first call. All calls wait for at most about `NatsSettings.patience_ms` where no server answers. A server confirms
    what it has written to its files; it makes the disk confirm too only where its ``sync_interval`` says so.
    """

    def __init__(self, settings: NatsSettings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._counts: dict[str, int] = {}
        #: When the streams that were read were made.
        self._made: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[NatsTransport], tuple[NatsSettings]]:
        """Leave connections behind: a copy in another process opens its own."""
        return NatsTransport, (self.settings,)

    # --------------------------------------------------------------------------------------------------------- topics
    def ensure(self, topic: str, partitions: int, subjects: Sequence[str] = ()) -> int:
        """Create `topic`, or grow it to `partitions`; return its number of partitions.

        Raises
        ------
        TransportError
            The name or the number cannot be, or the server refuses.
        """
        check_partitions(topic, partitions)
        # The number of a topic's partitions is that of its streams in a row from 0. Made from the last to the first,
        # new ones appear immediately, also where several do this together.
        for partition in reversed(range(self.partitions(topic), partitions)):
            self._run(functools.partial(self._make, topic, partition), f"making topic {topic!r}")
        found = self.partitions(topic)
        for partition, subject in enumerate(subjects[:found]):
            self._run(functools.partial(_take, topic, partition, subject), f"taking subject {subject!r}")
        return found

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`, 0 where it does not exist."""
        check_name(topic)
        known = self._counts.get(topic, 0)
        found = self._run(lambda js: _count(js, topic, known), f"looking for topic {topic!r}")
        self._counts[topic] = found
        return found

    # -------------------------------------------------------------------------------------------------------- writing
    def append(self, records: Sequence[Record]) -> None:
        """Append `records`; the server has them in its files when this returns.

        Raises
        ------
        TransportUnavailableError
            The server did not confirm in time; append the same records again.
        TransportError
            A topic or partition is not there or a record is too large (then nothing was appended), or the server
            refuses a record (then none of its partition after it was appended).
        """
        by_partition: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            self._check(record.topic, record.partition)
            by_partition.setdefault((record.topic, record.partition), []).append(record)
        if records:
            largest = max(len(record.value) for record in records)  # before the first is published
            self._run(lambda js: self._fits(largest), "appending")
            self._wait(self._publish(by_partition))

    async def _publish(self, by_partition: dict[tuple[str, int], list[Record]]) -> None:
        """Publish to all partitions concurrently, and in a partition record after record: so there are no gaps."""
        nonce = uuid.uuid4().hex  # of this append alone: what a later one puts out anew is not dropped
        deadline = self._deadline()

        async def one(records: list[Record]) -> None:
            for number, record in enumerate(records):
                headers = _headers(record, f"{nonce}/{number}")
                await self._patiently(functools.partial(_put, record, headers), "appending", deadline)

        done = await asyncio.gather(*(one(records) for records in by_partition.values()), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result

    async def _fits(self, size: int) -> None:
        client = self._client
        if client is not None and size + 1024 > client.max_payload:
            raise TransportError(
                f"a record of {size} bytes is larger than this NATS server takes ({client.max_payload})",
                hint="raise max_payload in the server's configuration",
            )

    # -------------------------------------------------------------------------------------------------------- reading
    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        """Return up to `limit` records of a partition from `offset` on.

        Raises
        ------
        TransportError
            Records from `offset` on were deleted; 0 stands for the oldest that is kept.
        """
        self._check(topic, partition)
        return self._run(lambda js: self._fetch(js, topic, partition, offset, limit), f"reading topic {topic!r}")

    async def _fetch(self, js: JetStreamContext, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        name = stream_name(topic, partition)
        info = await self._known_stream(js, topic, name)
        first, end = max(0, info.state.first_seq - 1), info.state.last_seq
        check_offset(topic, partition, offset, end)
        if 0 < offset < first:
            raise TransportError(
                f"topic {topic!r} partition {partition}: records {offset} to {first - 1} were deleted",
                hint="somebody has limited or purged its stream; streams of spdist have no limits",
            )
        found: list[Record] = []
        place = max(offset, first)
        while place < end and len(found) < limit:
            window = range(place, min(end, place + min(_WINDOW, limit - len(found))))
            messages = await asyncio.gather(*(_message(js, name, number + 1) for number in window))
            found += [
                _record(topic, partition, number, message)
                for number, message in zip(window, messages, strict=True)
                if message is not None
            ]
            place = window.stop
        return found

    async def _known_stream(self, js: JetStreamContext, topic: str, name: str) -> StreamInfo:
        """Return what is known of a stream that is there; raise where it is another one than was read before."""
        from nats.js.errors import NotFoundError

        try:
            info = await js.stream_info(name)
        except NotFoundError:
            self._counts.pop(topic, None)  # of the stream that was there
            raise replaced(topic) from None
        if self._made.setdefault(name, str(info.created)) != str(info.created):
            del self._made[name]  # name and numbers are the same again: only its time tells
            raise replaced(topic)
        return info

    def identity(self, topic: str) -> str:
        """Return when the stream of the topic's first partition was made: one that is made anew has another time."""
        self._check(topic, 0)
        found = self._run(lambda js: js.stream_info(stream_name(topic, 0)), f"looking for topic {topic!r}")
        return str(found.created)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return for each partition the offset that the next record will get."""
        self._check(topic, 0)
        names = [stream_name(topic, partition) for partition in range(self.partitions(topic))]

        async def ask(js: JetStreamContext) -> list[Any]:
            return await asyncio.gather(*(js.stream_info(name) for name in names))

        found = self._run(ask, f"reading topic {topic!r}")
        return {partition: info.state.last_seq for partition, info in enumerate(found)}

    def close(self) -> None:
        """Close the connection; the next call opens it again, one under way raises TransportUnavailableError."""
        with self._lock:
            if self._pid != os.getpid():
                return
            loop, client = self._loop, self._client
            self._loop = self._client = None
            self._counts = {}
        if loop is not None:
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_ended(client), loop).result(2 * _REQUEST_TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)

    # ------------------------------------------------------------------------------------------------------- internals
    def _check(self, topic: str, partition: int) -> None:
        if self._pid != os.getpid() or not 0 <= partition < self._counts.get(topic, 0):
            check_partition(topic, partition, self.partitions(topic), f"NATS at {self.settings.urls}")

    async def _make(self, topic: str, partition: int, js: JetStreamContext) -> None:
        from nats.js.api import RetentionPolicy, StorageType, StreamConfig

        name = stream_name(topic, partition)
        config = StreamConfig(
            name=name,
            subjects=[subject_of(topic, partition)],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            num_replicas=self.settings.replicas,
            duplicate_window=_DUPLICATES_S,
            allow_direct=True,
        )
        # One that is there stays as it is, whoever made it.
        if not await _exists(js, name):
            await js.add_stream(config)

    def _deadline(self) -> float:
        return time.monotonic() + self.settings.patience_ms / 1000

    def _run(self, call: Callable[[JetStreamContext], Awaitable[T]], doing: str) -> T:
        """Call in the thread of the connection, again and again until the server answers."""
        return self._wait(self._patiently(call, doing, self._deadline()))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:  # so that whoever closes the connection ends this, too
            under_way = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return under_way.result()
        except CancelledError:
            raise TransportUnavailableError(f"the connection to NATS at {self.settings.urls} was closed") from None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():  # a fork copies no threads
            self._pid, self._loop, self._client, self._counts = os.getpid(), None, None, {}
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._connecting = asyncio.Lock()  # it belongs to the loop in which it is first waited for
            threading.Thread(target=run_loop, args=(self._loop,), name="nats", daemon=True).start()
        return self._loop

    async def _patiently(self, call: Callable[[JetStreamContext], Awaitable[T]], doing: str, deadline: float) -> T:
        """Call until the server answers; raise what it answered as an error of ours."""
        from nats import errors

        where = f"NATS at {self.settings.urls}"
        while True:
            try:
                client = await self._connected(deadline)
                return await call(client.jetstream(timeout=_REQUEST_TIMEOUT_S))
            except TransportError:
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                if isinstance(error, errors.AuthorizationError) or re.search(
                    "authoriz|permission", what, re.IGNORECASE
                ):
                    raise TransportError(
                        f"{where} refuses while {doing}: {what}", hint="see transports.nats"
                    ) from error
                if not _passes(error):
                    raise TransportError(f"{where} failed while {doing}: {what}") from error
                if time.monotonic() > deadline:
                    told = f"{where} does not answer while {doing} ({what})"
                    raise TransportUnavailableError(told, hint=_HINT) from error
                await asyncio.sleep(_PAUSE_S)

    async def _connected(self, deadline: float) -> Client:
        """Return the connection, a new one where it was lost."""
        import nats

        async with self._connecting:  # one connects and others wait for it
            if self._client is None or not self._client.is_connected:
                left = max(0.1, min(_CONNECT_TIMEOUT_S, deadline - time.monotonic()))
                options = self._options()
                self._client = await asyncio.wait_for(
                    nats.connect(
                        self.settings.urls.replace(" ", "").split(","),
                        # A connection that is lost is made anew by whoever needs it: the library's own ways publish
                        # what nobody waits for any more.
                        allow_reconnect=False,
                        connect_timeout=_CONNECT_TIMEOUT_S,
                        error_cb=_quiet,
                        name="spdist",
                        **options,
                    ),
                    left,
                )
            return self._client

    def _options(self) -> dict[str, Any]:
        s = self.settings
        given = {
            "user": s.username,
            "password": s.password,
            "token": s.token,
            "user_credentials": s.credentials_file,
            "nkeys_seed": s.nkey_seed_file,
        }
        options: dict[str, Any] = {name: value for name, value in given.items() if value}
        if s.ca_file or s.certificate_file:
            own = None
            if s.certificate_file:
                own = Certificate(Path(s.certificate_file), Path(s.key_file) if s.key_file else None)
            options["tls"] = client_context(Path(s.ca_file) if s.ca_file else None, own)
        return options


async def _ended(client: Client | None) -> None:
    """Close the connection, and end what is still asked for: nobody would answer it."""
    if client is not None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.close(), _REQUEST_TIMEOUT_S)
    await end_other_tasks()


async def _quiet(_: Exception) -> None:
    """Leave what happens to a connection to the call that notices it."""


def _passes(error: Exception) -> bool:
    """Whether an error may be gone the next time: nobody is there, or the connection was lost."""
    from nats import errors
    from nats.js import errors as js_errors

    if isinstance(error, js_errors.APIError):
        return isinstance(error, js_errors.ServiceUnavailableError | js_errors.ServerError)
    gone = (
        OSError,
        asyncio.TimeoutError,
        asyncio.CancelledError,
        errors.NoServersError,
        errors.NoRespondersError,
        errors.ConnectionClosedError,
        errors.ConnectionReconnectingError,
        errors.ConnectionDrainingError,
        errors.StaleConnectionError,
        errors.OutboundBufferLimitError,
        js_errors.NoStreamResponseError,
    )
    return isinstance(error, gone) or type(error) is errors.Error


async def _take(topic: str, partition: int, subject: str, js: JetStreamContext) -> None:
    """Let a partition take a subject of outsiders too, if it can be one and belongs to nobody."""
    from nats.js.errors import BadRequestError

    config = (await js.stream_info(stream_name(topic, partition))).config
    taken = config.subjects or []
    if subject in taken or not _SUBJECT.fullmatch(subject):
        return
    config.subjects = [*taken, subject]
    try:
        await js.update_stream(config)
    except BadRequestError as error:
        if error.err_code != _SUBJECTS_OVERLAP:
            raise
        told = "the subject %r belongs to another stream: feed topic %r by the subject %r"
        _log.warning(told, subject, topic, subject_of(topic, partition))


async def _count(js: JetStreamContext, topic: str, known: int) -> int:
    """Return how many streams a topic has in a row from 0; `known` is how many it had before."""
    # Those are asked for together: any of them may have been deleted since.
    there = await asyncio.gather(*(_exists(js, stream_name(topic, partition)) for partition in range(known)))
    if not all(there):
        return there.index(False)
    found = known
    while await _exists(js, stream_name(topic, found)):
        found += 1
    return found


async def _exists(js: JetStreamContext, name: str) -> bool:
    from nats.js.errors import NotFoundError

    try:
        await js.stream_info(name)
    except NotFoundError as error:
        if error.err_code not in (None, _STREAM_NOT_FOUND):
            raise
        return False
    return True


async def _put(record: Record, headers: dict[str, str], js: JetStreamContext) -> None:
    await js.publish(subject_of(record.topic, record.partition), record.value, headers=dict(headers))


async def _message(js: JetStreamContext, stream: str, sequence: int) -> Any:
    """Return a message, None where it was deleted."""
    from nats.js.errors import NotFoundError

    for direct in (True, False):  # any server of a cluster answers the first; it may be behind the leader
        with contextlib.suppress(NotFoundError):
            return await js.get_msg(stream, sequence, direct=direct)
    return None


def _headers(record: Record, id: str) -> dict[str, str]:
    """Return the headers of a record's message; `id` is the same each time that one append tries to publish it.

    The server must not drop what a producer puts out again under the same ids: a reader that passes over what it had
    put out before (`spdist.transports.retracted`) has nothing else.
    """
    return {
        "Nats-Msg-Id": id,
        PRODUCER: quote(record.producer),
        SEQ: str(record.seq),
        COUNT: str(record.count),
        CLOCK: str(record.clock),
    }


def _record(topic: str, partition: int, offset: int, message: Any) -> Record:
    value = message.data or b""
    numbers = read_numbers(message.headers or {})
    if numbers is None:
        sent_ms = int(message.time.timestamp() * 1000) if message.time else 0
        return outsiders_record(topic, partition, value, sent_ms, offset)
    producer, seq, count, clock = numbers
    return Record(topic, partition, value, count, unquote(producer), seq, clock, offset)


def stream_name(topic: str, partition: int) -> str:
    """Return the name of the stream of a topic's partition."""
    return f"spdist-{_within(topic, plain_name(topic))}-{partition}"


def subject_of(topic: str, partition: int) -> str:
    """Return the subject that a topic's partition takes."""
    dotted = re.fullmatch(r"[^.]+(\.[^.]+)*", topic) is not None
    return f"spdist.{_within(topic, plain_name(topic, also='.' if dotted else ''))}.{partition}"


def _within(topic: str, name: str) -> str:
    check_name(topic)
    if len(name) > _MAX_NAME:
        raise TransportError(f"{topic!r} cannot be the name of a topic", hint=f"NATS allows {_MAX_NAME} letters")
    return name
