"""``@source(type='kafka')`` beside an app that is no query of Columns: messages as payloads, each once."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from spdist.runtime.feeders import Door, Looping, Position, now_ms
from spdist.transports.inlet import NUMBERS_EACH
from spdist.transports.kafka_link import KafkaAccess, KafkaMessage, KafkaReader

__all__ = ["KafkaFeeder"]

_MOST = 1000
_WAIT_MS = 300
_RESETS = ("latest", "earliest")


class KafkaFeeder(Looping):
    """Reads topics, from where it is remembered that reading goes on; brokers are told nothing.

    Several instances share the partitions of the topics between them.

    Parameters
    ----------
    door : Door
        Where events go. Options: ``bootstrap.servers``, ``topic.list``, ``partition.no.list`` (all by default),
        ``optional.configuration``, in which ``auto.offset.reset:earliest`` begins with what is there already.
        Properties: ``topic``, ``partition``, ``key``, ``offset``, ``record.timestamp``.
    position : Path
        Where it remembers how far it has read.
    share : tuple of (int, int)
        Which of how many instances this is, from 0.
    """

    def __init__(self, door: Door, position: Path, share: tuple[int, int]) -> None:
        super().__init__(f"the @source of stream '{door.stream}'")
        self._door = door
        read = door.options
        self._topics = tuple(one.strip() for one in read.needed("topic.list", "orders").split(",") if one.strip())
        numbers = [one.strip() for one in read.text("partition.no.list").split(",") if one.strip()]
        if not all(number.isdecimal() for number in numbers):
            raise read.wrong("partition.no.list", "holds whole numbers with commas between them")
        self._numbers = {int(number) for number in numbers}
        access = KafkaAccess.of(read)
        self._first = access.properties.get("auto.offset.reset", _RESETS[0]) == "earliest"
        self._reader = KafkaReader(access)
        self._position = Position(position)
        self._share = share
        self._offsets: dict[tuple[str, int], int] = {}
        self._producer = ""

    def _begin(self) -> None:
        known = self._position.load()
        if known is not None:
            self._producer = known["producer"]
            self._offsets = {(topic, number): offset for topic, number, offset in known["offsets"]}

    def _turn(self) -> float:
        if not self._producer:
            self._producer = f"kafka-{uuid.uuid4().hex}"
            self._offsets = self._own(self._reader.ends(self._topics, first=self._first))
            self._save()
        if not self._reader.placed:
            # A partition that was added since begins with its first message.
            added = self._own(self._reader.ends(self._topics, first=True))
            self._offsets = added | {place: offset for place, offset in self._offsets.items() if place in added}
            self._reader.seek(self._offsets)
        messages = self._reader.poll(_WAIT_MS, _MOST)
        now = now_ms()
        by_place: dict[tuple[str, int], list[KafkaMessage]] = {}
        for one in messages:
            by_place.setdefault((one.topic, one.partition), []).append(one)
        for (topic, number), some in by_place.items():
            # Numbered by their offsets: what is read again after a failure is known to have been read.
            parts = [(self._read(one, now), one.offset * NUMBERS_EACH) for one in some]
            try:
                self._door.inlet.append_numbered(parts, now, f"{self._producer}-{topic}-{number}")
            except BaseException:
                self._reader.close()  # they must be read again
                raise
            self._offsets[topic, number] = some[-1].offset + 1
        if messages:
            self._save()
        return 0.0

    def _end(self) -> None:
        self._reader.close()

    def _read(self, message: KafkaMessage, now: int) -> Any:
        properties = {
            "topic": message.topic,
            "partition": str(message.partition),
            "offset": str(message.offset),
            "record.timestamp": str(message.timestamp),
        }
        if message.key is not None:
            properties["key"] = message.key.decode("utf-8", "replace")
        # An event's time is that of its message, in which ``@app:playback`` goes on; very old brokers tell none.
        sent = message.timestamp if message.timestamp > 0 else now
        return self._door.read(message.value, properties, sent).chunks

    def _own(self, offsets: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        index, count = self._share
        return {
            (topic, number): offset
            for (topic, number), offset in offsets.items()
            if number % count == index and (not self._numbers or number in self._numbers)
        }

    def _save(self) -> None:
        offsets = [[topic, number, offset] for (topic, number), offset in self._offsets.items()]
        self._position.save({"producer": self._producer, "offsets": offsets})
