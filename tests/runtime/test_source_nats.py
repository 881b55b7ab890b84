"""The NATS source against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nats
import pytest

from spdist.connectors.nats.link import NatsLink, NatsMessage, NatsSourceSettings
from spdist.connectors.nats.source import NatsSource, in_line
from spdist.errors import TransportError
from spdist.transports.options import Options
from tests.runtime.test_sources import Becomes, Fed, becomes
from tests.transports.test_nats_link import server

__all__ = ["becomes", "server"]

SOURCE = """@source(type='nats', destination='orders.>', server.urls='{}', auth.type='user', username='me',
    password='pw'{}, @map(type='json', @attributes(k='$.k', n='trp:sequenceNumber')))"""


@pytest.fixture
def made() -> Iterator[Callable[[Fed], Fed]]:
    kept: list[Fed] = []

    def keep(one: Fed) -> Fed:
        kept.append(one)
        return one

    yield keep
    for one in kept:
        one.close()


async def publish(server: str, *names: str, stream: bool = False, deep: int = 0) -> None:
    client = await nats.connect(server, user="me", password="pw")
    if stream:
        await client.jetstream().add_stream(name="O", subjects=["orders.>"])
    if deep:
        await client.publish("orders.x", b"[" * deep)
    for name in names:
        await client.publish("orders.x", b'{"k": "%s"}' % name.encode())
    await client.flush()
    await client.close()


def test_messages_that_come_while_it_listens_are_events(
    server: str, tmp_path: Path, made: Callable[[Fed], Fed], becomes: Becomes
) -> None:
    one = made(Fed(tmp_path, SOURCE.format(server, "")))
    one.sources.start()
    (source,) = one.sources._sources
    becomes(lambda: source._link is not None and source._link.connected, True)  # type: ignore[attr-defined]

    def heard() -> bool:
        asyncio.run(publish(server, "a"))
        return bool(one.rows())

    becomes(heard, True)
    assert set(one.rows()) == {("a", 0)}


def test_a_stream_is_read_once_over_restarts(
    server: str, tmp_path: Path, made: Callable[[Fed], Fed], becomes: Becomes
) -> None:
    asyncio.run(publish(server, "a", "b", stream=True))
    one = made(Fed(tmp_path, SOURCE.format(server, ", jetstream='true', durable.name='me'")))
    one.sources.start()
    becomes(one.rows, [("a", 1), ("b", 2)])
    one.sources.stop()
    asyncio.run(publish(server, "c", '"' * 3, "d", deep=5000))
    one.again()
    becomes(one.rows, [("a", 1), ("b", 2), ("c", 4), ("d", 6)])
    assert one.sources.rejected == {"S": 2}
    # A message whose acknowledgement was lost comes again under its number.
    one.sources._sources[0]._context.writer.append_numbered([([[(0, ("b", 2))]], 2 << 20)], 0, "nats-me")  # type: ignore[attr-defined]
    assert one.rows() == [("a", 1), ("b", 2), ("c", 4), ("d", 6)]


# ------------------------------------------------------------------------------------------------- several readers
def given(sequence: int, delivery: int) -> NatsMessage:
    return NatsMessage(b"", {}, sequence, delivery, None)


@pytest.mark.parametrize(
    ("messages", "new", "delivery", "whole"),
    [
        ([], [], 5, True),
        ([(10, 6), (12, 7)], [10, 12], 7, True),
        # One that was appended before comes again.
        ([(8, 6), (10, 7)], [10], 7, True),
        ([(9, 4), (10, 6)], [10], 6, True),
        # Another reader was given something: new, or, as far as this one knows, perhaps new.
        ([(10, 6), (12, 8), (13, 9)], [10], 6, False),
        ([(8, 7)], [], 5, False),
        # The server counts anew.
        ([(10, 1)], [], 5, False),
    ],
)
def test_nothing_is_appended_behind_a_gap(
    messages: Sequence[tuple[int, int]], new: list[int], delivery: int, whole: bool
) -> None:
    here, last, all_of_them = in_line([given(*one) for one in messages], delivery=5, appended=9)
    assert ([one.sequence for one in here], last, all_of_them) == (new, delivery, whole)


@pytest.fixture
def other(server: str) -> Iterator[NatsLink]:
    """Another reader, which acknowledges nothing, as one that stands still."""
    options = {"server.urls": server, "auth.type": "user", "username": "me", "password": "pw"}
    link = NatsLink(NatsSourceSettings.of(Options(options, "another reader")))
    yield link
    link.close()


def test_what_another_reader_was_given_keeps_its_place(
    server: str, other: NatsLink, tmp_path: Path, made: Callable[[Fed], Fed], becomes: Becomes
) -> None:
    asyncio.run(publish(server, "a", "b", "c", stream=True))
    pulled = other.pull("orders.>", "me")
    assert [one.sequence for one in other.fetch(pulled, 2, 10)] == [1, 2]
    one = made(Fed(tmp_path, SOURCE.format(server, ", jetstream='true', durable.name='me'")))
    one.sources.start()
    # Soon: the server gives them to others only when it has waited for half a minute.
    becomes(one.rows, [("a", 1), ("b", 2), ("c", 3)])
    stolen: list[Any] = []
    while len(stolen) < 3:
        asyncio.run(publish(server, "d", "e"))
        stolen += other.fetch(pulled, 1, 0.5)
    asyncio.run(publish(server, "f"))
    becomes(lambda: one.rows()[-1][0], "f")
    rows = one.rows()
    assert [number for _, number in rows] == [*range(1, len(rows) + 1)]
    assert one.sources.problem is None


def test_what_could_not_be_appended_comes_before_what_follows(
    server: str,
    tmp_path: Path,
    made: Callable[[Fed], Fed],
    becomes: Becomes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.run(publish(server, "a", "b", stream=True))
    one = made(Fed(tmp_path, SOURCE.format(server, ", jetstream='true'")))
    (source,) = one.sources._sources
    assert isinstance(source, NatsSource)
    append, failures = source._context.writer.append_numbered, [TransportError("away"), TransportError("away")]

    def sometimes(*given: Any) -> int:
        if failures:
            asyncio.run(publish(server, "later"))
            raise failures.pop()
        return append(*given)

    monkeypatch.setattr(source._context.writer, "append_numbered", sometimes)
    one.sources.start()
    becomes(one.rows, [("a", 1), ("b", 2), ("later", 3), ("later", 4)])


def test_readers_of_a_queue_group_share_the_messages_of_a_stream(
    server: str, tmp_path: Path, made: Callable[[Fed], Fed], becomes: Becomes
) -> None:
    asyncio.run(publish(server, stream=True))
    options = ", jetstream='true', durable.name='ours', queue.group.name='all'"
    both = [made(Fed(tmp_path / name, SOURCE.format(server, options))) for name in ("one", "two")]
    for one in both:
        one.sources.start()
    for _ in range(10):
        asyncio.run(publish(server, *"abcde"))
    becomes(lambda: sorted(n for one in both for _, n in one.rows()), [*range(1, 51)])


def test_that_others_read_the_subscription_is_told(
    server: str,
    other: NatsLink,
    tmp_path: Path,
    made: Callable[[Fed], Fed],
    becomes: Becomes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spdist.connectors.nats.source._OTHERS_S", 0.0)
    asyncio.run(publish(server, stream=True))
    one = made(Fed(tmp_path, SOURCE.format(server, ", jetstream='true', durable.name='me'")))
    one.sources.start()
    pulled = other.pull("orders.>", "me")

    published = 0

    def told() -> bool:
        nonlocal published
        # The other reader waits before messages come, so it is given one of them. It may be the last: no gap then.
        with ThreadPoolExecutor(1) as pool:
            fetched = pool.submit(other.fetch, pulled, 1, 5.0)
            while not fetched.done():
                asyncio.run(publish(server, "a", "b", "c"))
                published += 3
        becomes(lambda: one.rows()[-1:], [("c", published)])
        return "queue.group.name" in (one.sources.problem or "")

    becomes(told, True)
