"""Windows of what comes often: ``frequent``, ``lossyFrequent``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import window
from spdist.java.numbers import text_of
from spdist.java.objects import HashMap
from spdist.language.ast import Expression, Variable
from spdist.language.catalog import WindowResolver
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, Window, WindowSetting
from spdist.operators.core.parameters import is_constant

__all__ = ["FrequentWindow", "LossyFrequentWindow"]


def _resolver(name: str, form: str, *constants: Type) -> WindowResolver:
    """Return the resolver of a window of `constants` and then, if one is written, a string attribute."""

    def resolve(types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> None:
        hint = f"it is written as {name}({form}[, attribute])"
        number = len(constants)
        if types[:number] != constants or not all(map(is_constant, expressions[:number])):
            raise SiddhiTypeError(f"'{name}' begins with {' and '.join(map(str, constants))} constants", hint=hint)
        for type, expression in zip(types[number:], expressions[number:], strict=True):
            if type is not Type.STRING or not isinstance(expression, Variable) or len(types) > number + 1:
                raise SiddhiTypeError(f"'{name}' counts by one string attribute, or by all", hint=hint)

    return resolve


def _told_apart_by(setting: WindowSetting, constants: int) -> tuple[int, ...]:
    """Return the positions of the attributes behind the constants.

    Without any, those are all that the query selects as they are: Siddhi has no more of the event at hand here.
    """
    given = tuple(p for p in setting.attributes[constants:] if p is not None)
    return given or setting.selected


def _key(positions: tuple[int, ...], row: Row) -> str:
    """Return what tells events apart: the texts of the attributes, written one after the other.

    What a function behind the window appends is not there yet, and tells nothing apart.
    """
    # As in Siddhi nothing stands between the texts: ('a', 'bc') and ('ab', 'c') are one key.
    return "".join([text_of(row[p]) for p in positions if p < len(row)])


@window("frequent", _resolver("frequent", "event.count", Type.INT))
class FrequentWindow(Window):
    """Keep the latest event of each of the ``event.count`` most frequent keys (Misra and Gries).

    A new key takes one off each counter where all places are taken; keys that come to 0 expire. Where none does, the
    new event is dropped. What expires together does so in the order of the keys' hashes in Java.

    State
    -----
    ``counts``, ``latest``: by key, at most ``event.count``.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.FrequentWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.places: int = setting.constants[0]
        self.positions = _told_apart_by(setting, 1)
        self.counts, self.latest = HashMap(), HashMap()

    def process(self, timestamp: int, row: Row) -> None:
        """Release what a new key pushes out as EXPIRED, then CURRENT(new) where it is counted."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        counts, latest = self.counts, self.latest
        for timestamp, row in arrivals:
            key = _key(self.positions, row)
            if key not in counts and len(counts) >= self.places:
                self._count_down(chunk)
                if len(counts) >= self.places:
                    continue
            counts.put(key, counts.get(key, 0) + 1)
            latest.put(key, (timestamp, row))
            chunk.append((CURRENT, timestamp, row))
        if chunk:
            self.emit(chunk)

    def _count_down(self, chunk: list[Event]) -> None:
        # `items` returns a list, so keys can be deleted meanwhile.
        for key, count in self.counts.items():
            if count > 1:
                self.counts.put(key, count - 1)
            else:
                del self.counts[key]
                chunk.append((EXPIRED, self.clock.now, self.latest.pop(key)[1]))

    def contents(self) -> Iterable[Arrival]:
        """Yield the latest event of each key."""
        return (arrival for _, arrival in self.latest.items())

    def snapshot(self) -> Any:
        """Return counters and events."""
        return [self.counts, self.latest]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.counts, self.latest = state


#: A bucket that never ends, for an error bound of 0: nothing is forgotten, as in Siddhi.
_ENDLESS = 2**63


@window("lossyFrequent", _resolver("lossyFrequent", "support.threshold, error.bound", Type.DOUBLE, Type.DOUBLE))
class LossyFrequentWindow(Window):
    """Let events pass whose key makes up at least ``support.threshold`` of all, with lossy counting (Manku, Motwani).

    After each bucket of ``1 / error.bound`` events, keys that came too seldom expire, in the order of their hashes in
    Java.

    State
    -----
    ``counts``: by key how often it came, and the number of buckets before its first time; ``latest``: its latest
    event: O(1 / error.bound · log(error.bound · events)); ``total``: events so far.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.LossyFrequentWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        support, error = setting.constants[:2]
        # Lossy counting counts a key too low by at most error · total, so that much less is asked of it.
        self.share = support - error
        self.width = ceil(1 / error) if error else _ENDLESS
        self.positions = _told_apart_by(setting, 2)
        self.total = 0
        self.counts, self.latest = HashMap(), HashMap()

    def process(self, timestamp: int, row: Row) -> None:
        """Release CURRENT(new) where its key is frequent, then at the end of a bucket what is not as EXPIRED."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            self.total += 1
            # Rounded up: the first bucket is number 1.
            bucket = -(-self.total // self.width)
            key = _key(self.positions, row)
            count, before = self.counts.get(key, (0, bucket - 1))
            self.counts.put(key, (count + 1, before))
            self.latest.put(key, (timestamp, row))
            if count + 1 >= self.share * self.total:
                chunk.append((CURRENT, timestamp, row))
            if self.total % self.width == 0:
                self._forget(bucket, chunk)
        if chunk:
            self.emit(chunk)

    def _forget(self, bucket: int, chunk: list[Event]) -> None:
        for key in [key for key, (count, before) in self.counts.items() if count + before <= bucket]:
            del self.counts[key]
            chunk.append((EXPIRED, self.clock.now, self.latest.pop(key)[1]))

    def contents(self) -> Iterable[Arrival]:
        """Yield the latest event of each key."""
        return (arrival for _, arrival in self.latest.items())

    def snapshot(self) -> Any:
        """Return counters and events."""
        return [self.total, self.counts, self.latest]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.total, self.counts, self.latest = state
