"""Islands as they are meant: each event waits by itself, and each chunk goes in by itself. Slow, and simple."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from spdist.engine.island import intake
from spdist.engine.island.hosted import HostedApp
from spdist.engine.island.island import Island
from spdist.engine.island.merge import ChannelKey, Merge
from spdist.mapping.columns import TIMER, Events, next_sibling, sort_key
from spdist.operators.base import Arrival, Row
from spdist.transports.base import NO_CLOCK
from spdist.transports.commands import text_row

__all__ = ["one_by_one"]


class _Event(NamedTuple):
    key: tuple[int, int, bytes]
    rank: int
    path: bytes
    chunk: int
    arrival: Arrival


class _Chunk(NamedTuple):
    at: int
    order: int
    path: bytes
    stream: str
    arrivals: list[Arrival]


class _SingleEvents(Merge):
    """Releases what `Merge` does, event by event."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self._waiting: dict[int, deque[_Event]] = {}

    @property
    def pending(self) -> int:
        return sum(map(len, self._waiting.values()))

    def offer(self, key: ChannelKey, events: Events | None, clock: int) -> None:
        channel = self._channel(key)
        for at, order, path, chunk, ts, row in events or ():
            channel.first = at if channel.first is None else channel.first
            channel.key = max(channel.key, (at, order, sort_key(path)))
            waiting = self._waiting.setdefault(channel.rank, deque())
            waiting.append(_Event(channel.key, channel.rank, path, chunk, (ts, row)))
        super().offer(key, None, clock)

    def close(self) -> int:
        self.reached = max([self.reached, *(one[-1].key[0] + 1 for one in self._waiting.values() if one)])
        return self.reached

    def released(self) -> Iterator[_Chunk]:
        """Yield the chunks that are due; what was put out together and still follows one another is one."""
        due = []
        limit = (self.reached, TIMER + 1, b"") if self.reached != NO_CLOCK else (NO_CLOCK, TIMER, b"")
        for waiting in self._waiting.values():
            while waiting and (len(self._by_rank) == 1 or waiting[0].key < limit):
                due.append(waiting.popleft())
        due.sort(key=lambda one: one[:2])
        chunk: _Chunk | None = None
        for number, one in enumerate(due):
            if chunk is not None and self._continues(due[number - 1], one):
                chunk.arrivals.append(one.arrival)
                continue
            if chunk is not None:
                yield chunk
            chunk = _Chunk(one.key[0], one.key[1], one.path, self._by_rank[one.rank].stream, [one.arrival])
        if chunk is not None:
            yield chunk

    def _continues(self, last: _Event, one: _Event) -> bool:
        own, other = self._by_rank[last.rank], self._by_rank[one.rank]
        return (
            one.chunk > 0
            and one.chunk == last.chunk + 1
            and (own.stream, own.producer) == (other.stream, other.producer)
            and last.key[:2] == one.key[:2]
            and next_sibling(last.path) == one.path
        )

    def snapshot(self) -> dict[str, Any]:
        state = super().snapshot()
        for channel, own in zip(state["channels"], self._channels.values(), strict=True):
            channel[-1] = [[one.key, one.path, one.chunk, one.arrival] for one in self._waiting.get(own.rank, ())]
        return state

    def restore(self, state: dict[str, Any]) -> None:
        super().restore({**state, "channels": [[*channel[:-1], []] for channel in state["channels"]]})
        for topic, partition, producer, _, _, waiting in state["channels"]:
            rank = self._channel((topic, partition, producer)).rank
            self._waiting[rank] = deque(_Event(key, rank, path, chunk, own) for key, path, chunk, own in waiting)


#: The event of a stream that is published here which others have published, while it is delivered.
_handed: list[object] = [None]


def _deliver(self: Island) -> None:
    app, merge = cast(HostedApp, self.app), cast(_SingleEvents, self._merge)
    for at, order, path, stream, arrivals in merge.released():
        self._by_timer = True
        (app.approach if order == TIMER else app.advance)(at)
        self._by_timer, self._order, self._path, self._number = False, order, path, 0
        _handed[0] = arrivals[0][1] if stream in self.echoed else None
        if not app.jumps.refuses(stream, arrivals):
            junction = app._context.junction(stream)
            if len(arrivals) == 1:
                junction.receive(*arrivals[0])
            else:
                junction.receive_chunk(arrivals)
        _handed[0] = None


def _unless_handed(
    _island: Island, alone: Callable[[int, Row], None], put: Callable[[Sequence[Arrival]], None]
) -> tuple[Callable[[int, Row], None], Callable[[Sequence[Arrival]], None]]:
    return (
        lambda ts, row: None if row is _handed[0] else alone(ts, row),
        lambda chunk: None if chunk[0][1] is _handed[0] else put(chunk),
    )


def _do_commands(self: Island) -> None:
    app = cast(HostedApp, self.app)
    for row in self.intake.take_commands():
        assert app._answer is not None
        app._answer(((app.clock, text_row(app._answered(row))),))


@contextmanager
def one_by_one() -> Iterator[None]:
    """Have islands that are made and used here deliver event by event."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(intake, "Merge", _SingleEvents))
        for function in (_deliver, _unless_handed, _do_commands):
            patches.enter_context(patch.object(Island, function.__name__, function))
        yield
