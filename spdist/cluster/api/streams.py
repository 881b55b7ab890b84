"""The routes of a stream's events on a manager or a server: outsiders put them in and take them out, over HTTP.

Ours: ``POST`` and ``GET /siddhi-apps/{app}/streams/{stream}/events``. The topics are reached in threads of their own,
few of them, so that a server that does not answer keeps neither heartbeats nor other requests waiting.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import Field

from spdist.cluster.api.guard import Body, RequestGuard
from spdist.cluster.api.models import Events, Fed, answers, takes
from spdist.cluster.managers.streams import END, Page
from spdist.cluster.protocol.rows import from_json_event, schema_to_json, to_json_row
from spdist.cluster.protocol.wire import Message, read_message
from spdist.cluster.protocol.wire_errors import error_body
from spdist.cluster.security.access import Permission
from spdist.errors import ClusterError, MappingError
from spdist.transports.base import NO_CLOCK

if TYPE_CHECKING:
    from spdist.cluster.managers.streams import StreamAccess
    from spdist.language.types import Schema
    from spdist.transports.feed import FeedPosition

__all__ = ["stream_routes"]

T = TypeVar("T")
Json = dict[str, Any]

_THREADS = 4
#: Readers that wait for events; one more is answered immediately, and asks again.
_WAITING = 64
_MAX_WAIT_MS = 30_000
_MAX_EVENTS = 10_000
#: A reader that waits looks this often, first and at last.
_LOOK_S, _LOOK_LATER_S = 0.02, 0.25
#: How many wrong rows are told one by one.
_TOLD = 100
#: Numbers of events without a producer go on from the time, as nobody counts them.
_APART = 1_000_003

_EXAMPLE = {"events": [{"timestamp": 1700000000000, "data": ["IBM", 75.5]}]}
_Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]


class _Event(Message):
    """One event: its values in the stream's order (``data``) or by their names (``event``)."""

    data: list[Any] | None = None
    event: dict[str, Any] | None = None
    timestamp: _Long | None = None

    def row(self, schema: Schema) -> tuple[Any, ...]:
        """Return its values; MappingError where they are not those of the stream, or given in both forms or none."""
        if self.data is not None and self.event is None:
            return from_json_event(schema, self.data)
        if self.event is not None and self.data is None:
            return from_json_event(schema, self.event)
        raise MappingError("an event has its values in 'data' or in 'event', in one of them")


class _Position(Message):
    sent: _Count = 0
    clock: _Long | None = None
    seq: Annotated[tuple[_Count, ...], Field(max_length=10_000)] = ()


class StreamNode(Protocol):
    """Whose streams they are: a manager, or a server."""

    streams: StreamAccess
    #: set when the node stops: who waits for events must not any longer
    stopping: threading.Event

    def stream_text(self, name: str) -> str:
        """Return the SiddhiQL of an app whose events are put in or asked for."""
        ...


class Batch(Message):
    """Events of one stream, which are put into it together."""

    producer: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] | None = None
    position: _Position | None = None
    events: Annotated[tuple[_Event, ...], Field(max_length=_MAX_EVENTS)] = ()
    advance: _Long | None = None


def stream_routes(node: StreamNode, guard: RequestGuard) -> APIRouter:
    """Return the routes of the events of the streams of the apps of `node`."""
    router = APIRouter(prefix="/siddhi-apps/{name}/streams/{stream}/events", tags=["streams"])
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="spdist-streams")
    waiting = _WaitingReaders()

    async def apart(work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except ClusterError as error:
            if error.code != ClusterError.code:
                raise
            # A stream that is not fed or read here, or a cursor that is none: the request is wrong, not the cluster.
            raise HTTPException(400, error_body(error)) from error

    @router.post("", dependencies=[guard.asks(Permission.MANAGE)], **takes(Batch, example=_EXAMPLE), **answers(Fed))
    async def feed(name: str, stream: str, body: Body) -> Json:
        """Put events into a stream: all of them or none; the same numbers of a producer again are not counted twice."""
        return await apart(lambda: _feed(node, name, stream, body))

    @router.get("", dependencies=[guard.asks(Permission.VIEW)], **answers(Events))
    async def read(
        request: Request,
        name: str,
        stream: str,
        after: str = "",
        limit: Annotated[int, Query(ge=1, le=_MAX_EVENTS)] = 1000,
        wait: Annotated[int, Query(ge=0, le=_MAX_WAIT_MS)] = 0,
        keys: bool = False,
    ) -> Json:
        """Return events of a stream, and the cursor behind them; `after` a cursor, or `end`, and `wait` ms for one."""
        text = await apart(lambda: node.stream_text(name))

        async def look() -> Page:
            return await apart(lambda: node.streams.page(text, stream, after, limit))

        page = await look()
        with waiting.one_more() as may_wait:
            until_s, pause_s = time.monotonic() + wait / 1000 * may_wait, _LOOK_S
            while not page.entries and time.monotonic() < until_s and not node.stopping.is_set():
                # What was found is where to look next: who began at the end has a cursor now.
                after = page.next or ("" if after == END else after)
                await asyncio.sleep(min(pause_s, max(0.0, until_s - time.monotonic())))
                if await request.is_disconnected():
                    break
                pause_s = min(_LOOK_LATER_S, pause_s * 1.5)
                page = await look()
        return _page(page, keys)

    return router


class _WaitingReaders:
    """How many readers wait."""

    def __init__(self) -> None:
        self._count = 0

    @contextmanager
    def one_more(self) -> Iterator[bool]:
        """Count one that waits, and say whether it may: there may be too many already."""
        self._count += 1
        try:
            yield self._count <= _WAITING
        finally:
            self._count -= 1


def _page(page: Page, keys: bool) -> Json:
    answer: Json = {
        "events": [
            {"timestamp": one.ts, "data": to_json_row(one.row)} | ({"id": one.id} if one.id else {})
            for one in page.entries
        ],
        "next": page.next,
        "ended": page.ended,
        "schema": schema_to_json(page.schema),
    }
    if keys:
        answer["keys"] = [[at, order, path.hex(), part] for at, order, path, part in (e.key for e in page.entries)]
    return answer


def _feed(node: StreamNode, name: str, stream: str, body: bytes) -> Json:
    """Append a batch of events, all of them or none; what was appended before under the same numbers is not again."""
    # What carries events loads pandas, which a manager that is never fed does not need.
    from spdist.transports.feed import checked_row

    text = node.stream_text(name)
    batch = read_message(Batch, body, hint='write it like {"events": [{"timestamp": 1700000000000, "data": [75.5]}]}')
    now_ms = int(time.time() * 1000)
    position = _position(batch, now_ms)
    feed = node.streams.feed(text, stream, batch.producer or "", position)
    rows: list[tuple[int, tuple[Any, ...]]] = []
    wrong: list[Json] = []
    for number, event in enumerate(batch.events):
        ts = now_ms if event.timestamp is None else event.timestamp
        try:
            rows.append((ts, checked_row(feed.schema, ts, event.row(feed.schema))))
        except MappingError as error:
            wrong.append({"index": number, "message": error.message})
    if wrong:
        raise HTTPException(400, _told(wrong, len(batch.events), stream))
    accepted = feed.send(rows)
    if batch.advance is not None:
        feed.advance(batch.advance)
    answer: Json = {"accepted": accepted}
    if batch.producer:
        done = feed.position
        clock = None if done.clock == NO_CLOCK else done.clock
        answer["position"] = {"sent": done.sent, "clock": clock, "seq": list(done.seq)}
    return answer


def _position(batch: Batch, now_ms: int) -> FeedPosition:
    """Return where a feed goes on.

    Raises
    ------
    ClusterError
        Numbers without a producer.
    """
    from spdist.transports.feed import FeedPosition

    if batch.producer is None:
        if batch.position is not None or batch.advance is not None:
            raise ClusterError("'position' and 'advance' are a producer's", hint="give 'producer' a name as well")
        return FeedPosition(sent=now_ms * _APART)
    known = batch.position or _Position()
    return FeedPosition(known.sent, NO_CLOCK if known.clock is None else known.clock, known.seq)


def _told(wrong: list[Json], count: int, stream: str) -> Json:
    """Return the error of a batch: all rows that do not fit, by their index."""
    shown = "; ".join(f"event {one['index']}: {one['message']}" for one in wrong[:_TOLD])
    more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
    error = MappingError(
        f"{len(wrong)} of {count} events do not fit stream {stream}: {shown}{more}",
        hint="none of them was accepted",
    )
    return {**error_body(error), "wrong": wrong}
