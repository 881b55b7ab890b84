"""The kinds of sources that numbers come into an app by, and who sends to each as its users would."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import nats
from kafka import KafkaProducer

from spdist.connectors.kafka.link import create_topics
from spdist.connectors.nats.link import NatsLink, NatsSourceSettings

__all__ = ["WAYS_IN", "IslandPlaces", "WayIn"]

PORT = 8280
NAME = "numbers"


@dataclass(frozen=True, slots=True)
class IslandPlaces:
    """What is around the servers.

    Parameters
    ----------
    addresses : tuple of str
        The servers'.
    kafka, nats, http : str
        IslandPlaces brokers, a NATS server and a receiver of requests are.
    files : Path
        The directory that apps of all servers may use.
    """

    addresses: tuple[str, ...]
    kafka: str
    nats: str
    http: str
    files: Path


@dataclass(frozen=True, slots=True)
class WayIn:
    """One kind of source.

    Parameters
    ----------
    options : str
        Those of the ``@source``.
    send : callable
        Sends one number, and tells whether it cannot be lost any more.
    stop : callable
        Lets go of connections.
    """

    options: str
    send: Callable[[int], bool]
    stop: Callable[[], None]


def _over_http(where: IslandPlaces) -> WayIn:
    """As a client behind a load balancer: to one server after the other, under the same number until one has it."""
    client, targets = httpx.Client(timeout=1.0), [*where.addresses]

    def send(number: int) -> bool:
        headers = {"spdist-origin": "sender", "spdist-id": str(number)}
        with contextlib.suppress(httpx.HTTPError):
            if client.post(f"http://{targets[0]}:{PORT}/in", content=_event(number), headers=headers).is_success:
                return True
        targets.append(targets.pop(0))
        return False

    options = f"receiver.url='http://0.0.0.0:{PORT}/in', drop.repeats='true'"
    return WayIn(options, send, client.close)


def _over_kafka(where: IslandPlaces) -> WayIn:
    create_topics(where.kafka, {NAME: 1})
    producer = KafkaProducer(bootstrap_servers=where.kafka, acks="all")

    def send(number: int) -> bool:
        producer.send(NAME, _event(number)).get(timeout=30)
        return True

    return WayIn(f"bootstrap.servers='{where.kafka}', topic.list='{NAME}'", send, producer.close)


def _over_nats(where: IslandPlaces) -> WayIn:
    async def make_stream() -> None:
        client = await nats.connect(where.nats)
        await client.jetstream().add_stream(name=NAME, subjects=[NAME])
        await client.close()

    asyncio.run(make_stream())
    link = NatsLink(NatsSourceSettings((where.nats,)))

    def send(number: int) -> bool:
        # The server drops a message that it has.
        done, _ = link.publish([(NAME, _event(number), {"Nats-Msg-Id": str(number)})], confirmed=True)
        return done == 1

    options = f"server.urls='{where.nats}', destination='{NAME}', jetstream='true'"
    return WayIn(options, send, link.close)


def _in_a_file(where: IslandPlaces) -> WayIn:
    file = (where.files / f"{NAME}.jsonl").open("ab")

    def send(number: int) -> bool:
        file.write(_event(number) + b"\n")
        file.flush()
        return True

    options = f"file.uri='{NAME}.jsonl', mode='LINE', tailing='true', file.polling.interval='100'"
    return WayIn(options, send, file.close)


def _event(number: int) -> bytes:
    return json.dumps({"event": {"n": number}}).encode()


#: By the type of the ``@source``.
WAYS_IN: dict[str, Callable[[IslandPlaces], WayIn]] = {
    "http": _over_http,
    "kafka": _over_kafka,
    "nats": _over_nats,
    "file": _in_a_file,
}
