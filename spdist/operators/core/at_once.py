"""What is common to those who take many events at once, and keep state in columns meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from spdist.operators.base import Row
from spdist.operators.core.junction import Loop, ReceiveMany, ReceiveOne

__all__ = ["Settling"]


class Settling(ABC):
    """Takes events at once (`operators.core.junction.TakesParts`); who takes them one by one finds a plain state.

    State
    -----
    ``ahead``: whether there is something in columns that is not in the plain state.
    """

    ahead = False
    #: So many events are still to go one by one, before it is worth while to look at all of the state.
    _owed = 0

    def _is_worth_while(self, count: int, fewest: int) -> bool:
        """Tell whether so many events are worth to go over to columns, if the state is not there already."""
        if self.ahead:
            return True
        self._owed -= count
        return self._owed <= 0 and count >= fewest

    @abstractmethod
    def settle(self) -> None:
        """Give what is in columns back, for events that go one by one; it is not `ahead` any more."""

    @abstractmethod
    def take(self, parts: Any) -> bool:
        """Take events; see `spdist.operators.core.junction.TakesParts`."""

    def around(self, loop: Loop) -> Loop:
        """Return a loop that settles before it begins."""

        def take(timestamps: Iterable[int], rows: Iterable[Row]) -> None:
            if self.ahead:
                self.settle()
            loop(timestamps, rows)

        return take

    def receivers(self, one: ReceiveOne, many: ReceiveMany) -> tuple[ReceiveOne, ReceiveMany]:
        """Return receivers that settle before they receive."""

        def settled_one(timestamp: int, row: Row) -> None:
            if self.ahead:
                self.settle()
            one(timestamp, row)

        return settled_one, self.settled(many)

    def settled(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a function that settles before it is called."""

        def settled(given: Any) -> None:
            if self.ahead:
                self.settle()
            call(given)

        return settled
