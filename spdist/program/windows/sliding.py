"""The windows of the latest events: ``length``, ``time``, ``timeLength``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spdist.operators.base import Arrival
from spdist.program.expressions import Value
from spdist.program.registry import WINDOWS
from spdist.program.shape import Read
from spdist.program.states.window import Lists, ListStates, Rest
from spdist.program.windows.kinds import EARLIEST, Sliding, WindowCall, size_of
from spdist.program.windows.text import WindowWriter

__all__ = ["Latest", "PassingWriter", "SlidingStates"]


@WINDOWS.typed("length", "time", "timeLength")
@dataclass(frozen=True, slots=True)
class Latest(Sliding):
    """A window that holds the latest events."""

    @classmethod
    def of(cls, given: WindowCall) -> Latest | None:
        """Return what an app says."""
        match given.call.id, given.constants:
            case "length", (int(length),):
                # Siddhi's LengthWindowProcessor sends a RESET behind each event that it cannot hold
                return cls(length=size_of(length), resets=length < 1)
            case "time", (int(span),) if span > 0:
                return cls(span=span)
            case "timeLength", (int(span), int(length)) if span > 0:
                return cls(length=size_of(length), span=span)
        return None

    @property
    def writer(self) -> type[WindowWriter]:
        """What writes it."""
        return PassingWriter if self.is_empty else WindowWriter

    @property
    def states(self) -> SlidingStates:
        """What knows its state."""
        return SlidingStates(self)


class PassingWriter(WindowWriter):
    """Writes what happens in a window that holds nothing; see `WindowWriter`. An event has a node while it passes."""

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        # `length(0)` expires an event with its own timestamp, `sort` of length 0 with the clock
        return f"{self.prefix}_ts[d]" if self.window.resets else "now"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event be there."""
        return self._holds(read, timestamp)

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets the new event leave."""
        return self._left(leaving) if self.window.is_left else self._frees()

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return nothing: none is there any more."""
        return []


class SlidingStates(ListStates):
    """The state of a window that events leave one by one, oldest first: those held, and what timers know."""

    names = ("latest",)

    def lists(self, state: Any) -> Lists:
        """Return what is held."""
        return {"head": state[0] if self.window.span else state}

    def noted(self, state: Any) -> Mapping[str, int | None]:
        """Return the greatest timestamp that a wake-up was asked for."""
        return {"latest": state[1]} if self.window.span else {}

    def state(self, read: Read, lists: Lists, rest: Rest) -> Any:
        """Return the operator's state."""
        held = deque(lists["head"])
        if not self.window.span:
            return held
        # A program without timers has noted no wake-ups, but operators need them: they follow from what is held
        return [held, rest.noted.get("latest", EARLIEST), rest.due] if read.timed else self._timed(held)

    def _timed(self, held: deque[Arrival]) -> list[Any]:
        """Return what is held, the latest timestamp, and the wake-ups asked for."""
        span = self.window.span
        if self.window.length:
            # `timeLength` asks for each event, `time` only for one that is later than all before it
            return [held, EARLIEST, [timestamp + span for timestamp, _ in held]]
        due: list[int] = []
        latest = EARLIEST
        for timestamp, _ in held:
            if timestamp > latest:
                latest = timestamp
                due.append(timestamp + span)
        return [held, latest, due]
