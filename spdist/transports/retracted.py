"""What a producer had put into a topic and does not stand by any more, since it went back to a revision.

It puts out again what follows from the revision, under the same ids but perhaps cut in another way, as time passes in
other steps. A reader that went back with it passes over what lies in the topic from the time between, and has the rest
as if that time had not been.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from spdist.transports.base import Record

__all__ = ["Undone", "UndoneRecords"]


@dataclass(frozen=True, slots=True)
class Undone:
    """The undone records of one producer in one partition.

    Parameters
    ----------
    topic, partition, producer
        Whose, and where.
    end : int
        The offset at which the producer goes on.
    seq : int
        Before `end` its events from this number on are undone.
    clock : int
        Before `end` its promises of a later time than this one are undone, ms.
    """

    topic: str
    partition: int
    producer: str
    end: int
    seq: int
    clock: int

    def covers(self, record: Record) -> bool:
        """Tell whether a record of this producer and partition is undone."""
        if record.offset >= self.end:
            return False
        return record.seq + record.count > self.seq if record.count else record.clock > self.clock


class UndoneRecords:
    """Tells which of the records that are read are undone.

    Parameters
    ----------
    undone : iterable of Undone, optional
        What is known.

    State
    -----
    An entry for each producer and partition and each time that it went back, until its `end` is read.
    """

    def __init__(self, undone: Iterable[Undone] = ()) -> None:
        self._by_place: dict[tuple[str, int, str], list[Undone]] = {}
        self.add(undone)

    def __bool__(self) -> bool:
        return bool(self._by_place)

    def add(self, undone: Iterable[Undone]) -> None:
        """Know more."""
        for one in undone:
            known = self._by_place.setdefault((one.topic, one.partition, one.producer), [])
            if one not in known:
                known.append(one)

    def covers(self, record: Record) -> bool:
        """Tell whether a record is undone; those of a partition come in the order of their offsets."""
        place = record.topic, record.partition, record.producer
        known = self._by_place.get(place)
        if known is None:
            return False
        ahead = [one for one in known if record.offset < one.end]
        if ahead:
            self._by_place[place] = ahead
        else:
            del self._by_place[place]
        return any(one.covers(record) for one in ahead)

    def snapshot(self) -> list[list[Any]]:
        """Return the state as plain data."""
        return [list(astuple(one)) for known in self._by_place.values() for one in known]

    @classmethod
    def restored(cls, state: Iterable[Iterable[Any]]) -> UndoneRecords:
        """Return what a snapshot knows."""
        return cls(Undone(*one) for one in state)
