"""Deletes topics as somebody does who has access to the server, or to the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import nats
from kafka import KafkaAdminClient

from spdist.transports.kafka.transport import kafka_topic
from spdist.transports.nats.transport import stream_name

__all__ = ["delete_topic"]


def delete_topic(kind: str, place: str, topic: str, partitions: int = 1) -> None:
    """Delete a topic; `place` is the server's address, or the directory of the log."""
    if kind == "log":
        for path in Path(place).glob(f"{quote(topic, safe='')}.sqlite*"):
            path.unlink()
    elif kind == "kafka":
        admin = KafkaAdminClient(bootstrap_servers=place)
        admin.delete_topics([kafka_topic(topic)])
        admin.close()
    else:
        asyncio.run(_delete_streams(place, [stream_name(topic, number) for number in range(partitions)]))


async def _delete_streams(url: str, names: list[str]) -> None:
    client = await nats.connect(url)
    for name in names:
        await client.jetstream().delete_stream(name)
    await client.close()
