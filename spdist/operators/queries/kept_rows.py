"""What people can see in the plain data of snapshots: events that are kept, and attempts of patterns to match. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from spdist.language import ast
from spdist.language.format_expressions import format_time
from spdist.operators.base import Row
from spdist.operators.patterns.absence import ABSENT
from spdist.operators.patterns.pattern import PatternPlan

__all__ = ["attempts", "labels", "rows_in", "window_parts"]

_OPEN, _LAST = "open batch", "last batch"
#: What the parts of a window's state are, where they are not all alike; None where a part holds no events.
_PARTS: Mapping[str, tuple[str | None, ...]] = {
    "batch": (_LAST,),
    "frequent": (None, ""),
    "lossyFrequent": (None, None, ""),
    "unique:length": ("",),
    "unique:time": ("",),
    "cron": (_OPEN, _LAST),
    "unique:externalTimeBatch": (None, _OPEN, _LAST),
    **dict.fromkeys(
        (
            "externalTimeBatch",
            "expressionBatch",
            "lengthBatch",
            "timeBatch",
            "unique:firstLengthBatch",
            "unique:firstTimeBatch",
            "unique:lengthBatch",
            "unique:timeBatch",
            "unique:timeLengthBatch",
        ),
        (_OPEN, _LAST),
    ),
}


def window_parts(id: str, state: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a window's state that hold events: what each is, if they differ, and its plain data."""
    parts = _PARTS.get(id)
    if parts is None:
        yield "", state
        return
    for what, part in zip(parts, state, strict=False):
        if what is not None:
            yield what, part


def rows_in(state: Any, width: int) -> Iterator[tuple[int | None, Row]]:
    """Yield the events in plain data, in its order: their times, where they have any, and their values.

    Parameters
    ----------
    state
        What `snapshot` of an operator returned.
    width : int
        How many values a row has that stands without a time.
    """
    match state:
        case (*front, tuple(row)) if isinstance(state, tuple) and all(isinstance(one, int | None) for one in front):
            times = [one for one in front if one is not None]
            yield times[-1] if times else None, row
        case tuple() if (
            width and len(state) == width and not any(isinstance(one, tuple | list | dict) for one in state)
        ):
            yield None, state
        case dict():
            for part in state.values():
                yield from rows_in(part, width)
        case tuple() | list() | deque():
            for part in state:
                yield from rows_in(part, width)


def labels(plan: PatternPlan) -> tuple[str, ...]:
    """Return what the elements of a pattern that take events are called: by their names, or else by their streams."""
    return tuple(_label(element) for element in plan.elements if isinstance(element, ast.StreamState))


def _label(element: ast.StreamState | ast.AbsentState) -> str:
    stream = element.input.stream.id
    if isinstance(element, ast.StreamState):
        return element.alias or stream
    return f"not {stream}" if element.waiting is None else f"not {stream} for {format_time(element.waiting)}"


def attempts(plan: PatternPlan, state: Any) -> Iterator[tuple[int, Row]]:
    """Yield the attempts of a pattern or sequence that have begun, each where it waits.

    Parameters
    ----------
    plan : PatternPlan
        The pattern.
    state
        What `Automaton.snapshot` returned.

    Yields
    ------
    (int, tuple)
        The time of the attempt's last event, -1 where none has come; then what it waits for, when an absence is over
        and when ``within`` ends it, in ms or None, and what each element of `labels` has captured:
        ``(timestamp, row)``, a tuple of those where it counts, or None.
    """
    (lists, stored), places = state
    within = None if plan.input.within is None else plan.input.within.milliseconds
    capturing = [slot for slot, one in zip(plan.slots, plan.elements, strict=True) if isinstance(one, ast.StreamState)]
    for slot, (pending, new, flags) in enumerate(places):
        element = plan.elements[plan.slots.index(slot)]
        waiting = element.waiting if isinstance(element, ast.AbsentState) else None
        for number in (*pending, *new):
            timestamp, _, slots = stored[number]
            # A number stands for a list of counted events, which several partial matches may share.
            captured = [tuple(lists[one]) if isinstance(one, int) else one for one in slots]
            came = [one for one in captured if one is not None and one != ABSENT]
            fires = None
            if waiting is not None and captured[slot] is None:
                # What has not begun by an event waits for the next wake-up.
                fires = timestamp + waiting.milliseconds if timestamp >= 0 else next(iter(flags[-1]), None)
            if not came and fires is None:
                continue
            first = min((one[0] if isinstance(one[0], int) else one[0][0] for one in came if one), default=None)
            expires = None if within is None or first is None else first + within
            yield timestamp, (_label(element), fires, expires, *(captured[place] for place in capturing))
