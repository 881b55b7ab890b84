"""The state of a pattern whose partial matches are found by a value that an event must share with them.

Source: as `spdist.operators.patterns.states`; the index only finds faster what that would find.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any

from spdist.operators.base import Row
from spdist.operators.patterns.states import NOT_KNOWN, ElementCondition, Partial, State, waiting_order

__all__ = ["IndexedState"]


class IndexedState(State):
    """A state of a pattern that finds the partials an event may fit by a value that both must share.

    State
    -----
    ``by_key``: the waiting partials by that value; ``order``: all of them, for expiry; ``bounds``: where the condition
    has a bound, that of each value's partials, or one that is less strict.
    """

    def __init__(self, slot: int, size: int, condition: ElementCondition) -> None:
        super().__init__(slot, size, condition, strict=False)
        self.order: OrderedDict[int, Partial] = OrderedDict()
        self.by_key: dict[Any, dict[int, Partial]] = {}
        self.bounds: dict[Any, Any] = {}

    def update(self) -> None:
        """Let the partials that arrived join those that wait, in the order of their last events."""
        arrived = self.new
        if arrived:
            if len(arrived) > 1:
                arrived.sort(key=waiting_order)
            self.new = []
            self._index(arrived)

    @cached_property
    def idles(self) -> bool:
        """Return False: what waits here is not in ``pending``."""
        return False

    @property
    def _is_plain(self) -> bool:
        return True

    def _index(self, partials: Iterable[Partial]) -> None:
        assert self.condition.partial_key is not None
        bound, bounds = self.condition.bound, self.bounds
        for partial in partials:
            if not self.order:
                self.oldest = partial
                self.calm = self._span(partial)
            # By identity: several attempts may hold equal events.
            self.order[id(partial)] = partial
            key = self.condition.partial_key(partial.slots)
            # Null equals nothing: such an attempt only waits until it is too old.
            if key is not None:
                bucket = self.by_key.get(key)
                if bucket is None:
                    bucket = self.by_key[key] = {}
                bucket[id(partial)] = partial
                if bound is not None:
                    bounds[key] = bound.joined(bounds.get(key), bound.bound_of((partial,)))

    def _forget(self, partial: Partial) -> None:
        assert self.condition.partial_key is not None
        # How long those that are left stay is looked up by the next `expire`.
        if partial is self.oldest:
            self.calm = NOT_KNOWN
        del self.order[id(partial)]
        key = self.condition.partial_key(partial.slots)
        if key is not None:
            bucket = self.by_key[key]
            del bucket[id(partial)]
            if not bucket:
                del self.by_key[key]
                self.bounds.pop(key, None)

    def expire(self, time: int) -> None:
        """Drop the partials that are too old; where a repeated group holds this state, its last one starts over."""
        too_old = self.too_old
        fallen: list[Partial] = []
        for partial in self.order.values():
            if not too_old(partial, time):
                break
            fallen.append(partial)
        for partial in fallen:
            self._forget(partial)
        # What is in `pending` now is too old: the common rules apply to it and to what has just arrived.
        self.pending = fallen
        if fallen or self.new:
            super().expire(time)
        self.oldest = next(iter(self.order.values()), None)
        self.calm = self._span(self.oldest)

    def calm_span(self) -> tuple[int, int]:
        """Return from when to when nothing that waits here is too old."""
        return self.calm

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event to the partials that share its value."""
        condition = self.condition
        bucket = self.by_key.get(row[condition.event_key])  # type: ignore[index]
        if bucket is None or (condition.guard is not None and not condition.guard(timestamp, row)):
            return []
        complete: list[Partial] = []
        # A copy, as `_forget` takes what fits out of the bucket.
        fitting = list(bucket.values()) if condition.fitting is None else condition.fitting(bucket, timestamp, row)
        if condition.bound is not None and not fitting:
            # Some that were easier to fit have gone.
            self.bounds[row[condition.event_key]] = condition.bound.bound_of(bucket.values())  # type: ignore[index]
        for partial in fitting:
            self._forget(partial)
            partial.slots[self.slot] = (timestamp, row)
            self._moved(partial, timestamp)
            if self.returned:
                self.returned = False
                complete.append(partial)
        return complete

    def held(self) -> Collection[Partial]:
        """Return the partials that wait here, in order."""
        return self.order.values()

    def wait_again(self, partials: Iterable[Partial]) -> None:
        """Take over the partials that waited here."""
        self.order.clear()
        self.by_key.clear()
        self.bounds.clear()
        self.calm = NOT_KNOWN
        self._index(partials)
