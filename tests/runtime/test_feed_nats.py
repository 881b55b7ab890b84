"""The NATS source against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest

from tests.runtime.test_feeders import Becomes, Fed, becomes
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
    one.feeders.start()
    (feeder,) = one.feeders._feeders
    becomes(lambda: feeder._link is not None and feeder._link.connected, True)  # type: ignore[attr-defined]

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
    one.feeders.start()
    becomes(one.rows, [("a", 1), ("b", 2)])
    one.feeders.stop()
    asyncio.run(publish(server, "c", '"' * 3, "d", deep=5000))
    one.again()
    becomes(one.rows, [("a", 1), ("b", 2), ("c", 4), ("d", 6)])
    assert one.feeders.rejected == {"S": 2}
    # A message whose acknowledgement was lost comes again under its number.
    one.feeders._feeders[0]._door.inlet.append_numbered([([[(0, ("b", 2))]], 2 << 20)], 0, "nats-me")  # type: ignore[attr-defined]
    assert one.rows() == [("a", 1), ("b", 2), ("c", 4), ("d", 6)]
