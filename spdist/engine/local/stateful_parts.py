"""What of a running app keeps its state as a whole, by the ids under which other texts of the app find it.

A state that was carried over from another text (`spdist.engine.local.state_transfer`) lacks what has changed: that
begins without state as the first thing that happens when the app goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from spdist.errors import StateError
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import VirtualClock
from spdist.operators.core.packed_columns import plain
from spdist.operators.core.state_columns import Column
from spdist.planning.updates.fingerprints import app_elements, compare_fingerprints

__all__ = ["AppParts", "Elsewhere", "StatefulPart"]

#: What goes on as it is where a state is restored in an app that runs, as in Siddhi.
_GOING_ON = ("trigger ", "sink ", "source ")


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class StatefulPart:
    """What keeps its state as a whole (`spdist.planning.updates.fingerprints.AppElement`), at work.

    Parameters
    ----------
    snapshot : callable
        Returns the state as plain data.
    restore : callable
        Takes over the state of a snapshot.
    start : callable
        Begins without state, now.
    """

    snapshot: Callable[[], Any]
    restore: Callable[[Any], None]
    start: Callable[[], None] = _nothing


class Elsewhere(Protocol):
    """Somebody else who may have the states of parts, by kind and key, as columns."""

    def snapshot(self) -> Mapping[tuple[str, str], Any]:
        """Return the states that it has."""
        raise NotImplementedError

    def wanted(self, places: Collection[tuple[str, str]]) -> Collection[tuple[str, str]]:
        """Return the parts among these whose states it would have."""
        raise NotImplementedError

    def restore(self, states: Mapping[tuple[str, str], Column]) -> bool:
        """Go on from these states, when those of all other parts are there; tells whether it has them."""
        raise NotImplementedError


class AppParts:
    """All parts of an app.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    clock : VirtualClock
        Its time, and what was drawn.
    found : mapping of (str, str) to StatefulPart
        Its parts by kind and key, in the order in which they start.

    State
    -----
    That of the parts; which ones are still to begin.
    """

    def __init__(self, checked: CheckedApp, clock: VirtualClock, found: Mapping[tuple[str, str], StatefulPart]) -> None:
        elements = app_elements(checked)
        known = {(element.kind, element.key): element.id for element in elements}
        self.fingerprints = {element.id: element.fingerprint for element in elements}
        self._checked = checked
        self._clock = clock
        self._places = {place: known[place] for place in found if place in known}
        self._parts = {id: found[place] for place, id in self._places.items()}
        self._fresh: list[str] = []
        #: Has the states of some parts in their place, where there is somebody.
        self.elsewhere: Elsewhere | None = None

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the clock and of each part, but of those that are still to begin."""
        clock, elsewhere = self._clock, {} if self.elsewhere is None else self.elsewhere.snapshot()
        held = {id: elsewhere[place] for place, id in self._places.items() if place in elsewhere}
        own = {id: part for id, part in self._parts.items() if id not in self._fresh}
        return {
            "fingerprints": self.fingerprints,
            "clock": clock.now,
            "drawn": clock.drawn,
            "sequences": dict(clock.sequences),
            "parts": {id: held[id] if id in held else part.snapshot() for id, part in own.items()},
        }

    def states(self) -> dict[tuple[str, str], Any]:
        """Return the state of each part by kind and key, but of those that are still to begin."""
        return {place: self._parts[id].snapshot() for place, id in self._places.items() if id not in self._fresh}

    def take_over(self, state: Mapping[str, Any], running: bool, clear: Callable[[], None]) -> bool:
        """Take over a state; return whether something is to begin without one, when `start_fresh` is called.

        Parameters
        ----------
        state : mapping
            See `spdist.engine.local.state_transfer.write_state`.
        running : bool
            Whether the app runs: then its clock does not go back, and triggers and sinks go on as they are.
        clear : callable
            Forgets all wake-ups.

        Raises
        ------
        StateError
            Something is to begin, in an app that runs.
        """
        parts, clock = state["parts"], self._clock
        fresh = [id for id in self._parts if id not in parts] if state["started"] else []
        if running and fresh:
            told = "this state was carried over to another text and has not gone on since"
            raise StateError(told, hint="restore it in an app that has not started")
        if running:
            # All parts are restored below: these with what they have at this moment
            parts = {**parts, **{id: one.snapshot() for id, one in self._parts.items() if id.startswith(_GOING_ON)}}
        # Before the parts: they ask for their wake-ups themselves as they are restored
        clear()
        clock.now = max(clock.now, state["clock"]) if running else state["clock"]
        clock.drawn, clock.sequences = state["drawn"], dict(state["sequences"])
        self._fresh = fresh
        self._restore(parts, state["started"] and not fresh)
        return bool(fresh)

    def _restore(self, parts: Mapping[str, Any], goes_on: bool) -> None:
        """Restore the parts; where the app has begun, those that somebody else wants are left to it."""
        columns = {place: parts[id] for place, id in self._places.items() if isinstance(parts.get(id), Column)}
        wanted = self.elsewhere.wanted(columns) if self.elsewhere is not None and goes_on and columns else ()
        left: dict[tuple[str, str], Column] = {place: column for place, column in columns.items() if place in wanted}
        others = {id for place, id in self._places.items() if place in left}
        for id, stored in parts.items():
            if id not in others:
                self._parts[id].restore(plain(stored))
        if left and (self.elsewhere is None or not self.elsewhere.restore(left)):
            for id, stored in parts.items():
                if id in others:
                    self._parts[id].restore(plain(stored))

    def start_fresh(self) -> None:
        """Begin what is still to begin, now."""
        fresh, self._fresh = self._fresh, []
        for id in fresh:
            self._parts[id].start()

    def must_be_ours(self, fingerprints: Mapping[str, str]) -> None:
        """Raise StateError unless a state with these fingerprints was made by the text of the app."""
        if fingerprints == self.fingerprints:
            return
        changes = compare_fingerprints(fingerprints, self._checked)
        differ = "; ".join(str(change) for change in changes if change.outcome != "keeps")
        raise StateError(
            f"this state was not made by the app '{self._checked.name}' as it is written now: {differ}",
            hint="restore the text that the state was made with, or go on with what has not changed: carry_over",
        )
