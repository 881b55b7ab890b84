"""What windows of a program hold as the operators have it, and back.

Of a row only the attributes are there that the query reads when it leaves; the others are null.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.operators.base import Arrival
from spdist.operators.windows.sort import PLACES
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.shape import Batched, Read, Sessions, Sliding
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.nodes import events_of_nodes, fill_nodes, load_list, stored_list
from spdist.program.states.session import load_sessions, session_lists, session_slots, stored_sessions
from spdist.program.states.totals import load_bounds, stored_bounds
from spdist.program.states.unique import UniqueState, load_unique, read_unique, stored_unique, written_unique
from spdist.program.windows.kinds import FAR, Cron, Kept

__all__ = ["fresh_window", "load_window", "stored_windows"]

_NEVER = -(2**63)
#: What is known of periods of an attribute (`spdist.program.windows.external_text.ExternalBatchWriter`).
_TIMES = ("begin", "ending", "reached", "awaited", "flushed")
#: The events of each list of a window (`spdist.program.shape.Read.lists`).
_Lists = Mapping[str, Sequence[Arrival]]


def load_window(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over what the windows of a query hold: of each key of its partition, by number; or of one, of number 0."""
    if query.read.window is None:
        return
    if query.read.window.unique is not None:
        window = query.read.window
        fill = partial(fill_nodes, running, query)
        load_unique(running, query, window, [(number, read_unique(window, state)) for number, state in states], fill)
        _load_unique_dues(running, query, window, states)
        if window.time is not None:
            _look_at_times(running, query, window.time)
        return
    if isinstance(query.read.window, Sessions):
        held = session_lists(running, query, query.read.window, [(number, state[0]) for number, state in states])
    else:
        held = [(number, number, _lists(query.read, state)) for number, state in states]
    total = sum(len(events) for *_, lists in held for events in lists.values())
    running.reserve(f"nodes {query.name}", total)
    first = 0
    for name in query.read.lists:
        first = load_list(running, query, name, first, [(number, owner, lists[name]) for number, owner, lists in held])
    if query.read.lists:
        running.arrays[f"{query.name}_free"][:] = (-1, total)
    if isinstance(query.read.window, Sessions):
        load_sessions(running, query, query.read.window, [(number, state[0]) for number, state in states], held)
    elif isinstance(query.read.window, Sliding) and query.read.window.orders:
        _load_order(running, query, query.read.window, [(number, lists["head"]) for number, _, lists in held])
    _load_rest(running, query, states)
    if query.read.window.time is not None:
        _look_at_times(running, query, query.read.window.time)


def _look_at_times(running: Running, query: QueryText, place: int) -> None:
    """Raise ValueError where a window on a time attribute has a time that is left to operators."""
    arrays, prefix = running.arrays, query.name
    held = [arrays[f"{prefix}_w_{place}"][: int(arrays[f"{prefix}_free"][1])]]
    held += [arrays[name] for one in ("begin", "ending", "reached") if (name := f"{prefix}_{one}") in arrays]
    for times in held:
        if ((times >= FAR) | ((times <= -FAR) & (times != _NEVER))).any():
            raise ValueError("a time near the limits of a long")


def stored_windows(running: Running, query: QueryText, count: int) -> list[Any]:
    """Return what the windows of a query hold: those of so many keys of its partition, by number; or one."""
    assert isinstance(query.read, Read)
    window = query.read.window
    if window is not None and window.unique is not None:
        found = stored_unique(running, query, window, count, partial(events_of_nodes, running, query))
        for state, rest in zip(found, _stored_rests(running, query, count), strict=True):
            state.due = rest.due
            if rest.ending is not None:
                state.times[1] = rest.ending
        return [written_unique(query.read, state) for state in found]
    if isinstance(window, Sessions):
        held = stored_list(running, query, "head", session_slots(running, query, window, count))
        sessions, rests = stored_sessions(running, query, window, held, count), _stored_rests(running, query, count)
        return [[own, rest.due] for own, rest in zip(sessions, rests, strict=True)]
    lists = {name: stored_list(running, query, name, count) for name in query.read.lists}
    rests = _stored_rests(running, query, count)
    if isinstance(window, Sliding) and window.bound is not None:
        for rest, condition in zip(rests, stored_bounds(running, query, count), strict=True):
            rest.condition = condition
    by_key = [{name: held[number] for name, held in lists.items()} for number in range(count)]
    return [_state(query.read, own, rest) for own, rest in zip(by_key, rests, strict=True)]


def fresh_window(read: Read) -> Any:
    """Return the state of a window that has seen nothing."""
    if read.window is not None and read.window.unique is not None:
        return written_unique(read, UniqueState())
    return _state(read, {name: [] for name in read.lists}, _Rest())


def _lists(read: Read, state: Any) -> _Lists:
    """Return the lists of a window from its state."""
    if isinstance(read.window, Sliding) and read.window.orders:
        if any(event[1][place] is None for event in state for place, _ in read.window.orders):
            raise ValueError("a null has no place in an order")
        return {"head": state}
    if isinstance(read.window, Cron):
        return {"head": state[0], "left": state[1]}
    if isinstance(read.window, Sliding) and read.window.bound is not None:
        batch = state[1] if read.window.bound.passes else state[0]
        return {"head": batch, "left": state[1]}
    if isinstance(read.window, Sliding):
        return {"head": state[0] if read.window.span and read.window.time is None else state}
    if read.window is not None and read.window.chunked:
        return {"left": state[0]}
    return {"head": state[0], "left": state[1]}


@dataclass(slots=True)
class _Rest:
    """What a window knows besides its lists.

    Parameters
    ----------
    came : int
        How many events of a batch that passes immediately have come, or whether any has.
    reset_at : int
        The timestamp of the first of these, where somebody looks at it.
    ending : int, optional
        The end of the open period.
    latest : int
        The greatest timestamp that a wake-up was asked for.
    due : list of int
        The wake-ups asked for.
    times : list of int, optional
        Of periods of an attribute: from when they are counted, the end of the open one, the newest time, when the
        timeout is over, and whether it has released the open one.
    looked : int
        How many events of the batch that was released last, or of the open one, somebody has looked at.
    condition : list
        The text of the condition that bounds it, and its totals; null, where it has seen nothing.
    """

    came: int = 0
    reset_at: int = _NEVER
    times: list[int | None] | None = None
    ending: int | None = None
    latest: int = _NEVER
    due: list[int] = field(default_factory=list)
    looked: int = 0
    condition: list[Any] = field(default_factory=lambda: [None, []])


def _state(read: Read, lists: _Lists, rest: _Rest) -> Any:
    """Return the state of a window that has these lists."""
    window = read.window
    if window is None:
        return None
    if isinstance(window, Sessions):
        return [{}, []]
    if isinstance(window, Cron):
        return [list(lists["head"]), list(lists["left"]), rest.due]
    if isinstance(window, Sliding) and window.gathers:
        return [list(lists.get("head", ())), list(lists["left"]), [], rest.looked, rest.condition]
    if isinstance(window, Sliding):
        held = deque(lists["head"])
        if window.bound is not None:
            return [held, rest.condition]
        if window.orders:
            return list(held)
        if not window.span or window.time is not None:
            return held
        return [held, rest.latest, rest.due] if read.timed else _timed(window, held)
    batch, before = list(lists.get("head", ())), list(lists.get("left", ()))
    # The event that a RESET copies: nobody looks at more than whether there is one, and when it came.
    nothing = (None,) * len(read.schema)
    if window.chunked:
        return [before, (rest.reset_at, nothing) if rest.came else None, rest.looked]
    if window.time is not None:
        times = rest.times or [window.start or 0, None, 0, 0, False]
        return [batch, before, batch[0][1] if batch else None, times, rest.due]
    if window.span:
        copied = batch[0] if batch else (rest.reset_at, nothing) if rest.came else None
        return [batch, before, copied, rest.looked, rest.ending, rest.due]
    return [batch, before, batch[0][1] if batch else nothing if rest.came else None, rest.came, rest.looked]


def _timed(window: Sliding, held: deque[Arrival]) -> list[Any]:
    """Return the state of a time window: what it holds, the latest timestamp, and the wake-ups asked for."""
    if window.length:
        return [held, _NEVER, [timestamp + window.span for timestamp, _ in held]]
    due: list[int] = []
    latest = _NEVER
    for timestamp, _ in held:
        if timestamp > latest:
            latest = timestamp
            due.append(timestamp + window.span)
    return [held, latest, due]


# What windows know besides their lists.


def _load_rest(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the counts and times of windows."""
    window, prefix, timed = query.read.window, query.name, query.read.timed
    arrays = running.arrays
    if isinstance(window, Sliding) and window.bound is not None:
        load_bounds(running, query, states)
    for number, state in states:
        if isinstance(window, Sliding) and f"{prefix}_looked" in arrays:
            arrays[f"{prefix}_looked"][number] = state[3]
        elif window is not None and f"{prefix}_looked" in arrays:
            arrays[f"{prefix}_looked"][number] = state[3 if window.span else -1]
        if isinstance(window, Batched) and window.time is not None and state[3][1] is not None:
            for name, value in zip(_TIMES if timed else _TIMES[:3], state[3], strict=False):
                arrays[f"{prefix}_{name}"][number] = value
        if isinstance(window, Batched) and window.counts:
            arrays[f"{prefix}_count"][number] = state[3]
        elif isinstance(window, Batched) and window.passes:
            copied = state[1 if window.chunked else 2]
            arrays[f"{prefix}_came"][number] = copied is not None
            if copied is not None and f"{prefix}_reset_at" in arrays:
                arrays[f"{prefix}_reset_at"][number] = copied[0]
        if not timed:
            continue
        if isinstance(window, Sliding):
            if f"{prefix}_latest" in arrays:
                arrays[f"{prefix}_latest"][number] = state[1]
        elif window is not None and window.time is None and state[4] is not None:
            arrays[f"{prefix}_ending"][0] = state[4]
        load_dues(running, query, number, state[-1], query.operator)


def _load_unique_dues(running: Running, query: QueryText, window: Kept, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the wake-ups of windows that have one event of each key."""
    for number, state in states if query.read.timed else ():
        load_dues(running, query, number, read_unique(window, state).due)


def _stored_rests(running: Running, query: QueryText, count: int) -> list[_Rest]:
    window, prefix, arrays = query.read.window, query.name, running.arrays
    rests = [_Rest() for _ in range(count)]
    if isinstance(window, Batched) and window.passes:
        for rest, came in zip(rests, arrays[f"{prefix}_count" if window.counts else f"{prefix}_came"], strict=False):
            rest.came = int(came)
    if f"{prefix}_looked" in arrays:
        for rest, looked in zip(rests, arrays[f"{prefix}_looked"], strict=False):
            rest.looked = int(looked)
    if f"{prefix}_reset_at" in arrays:
        for rest, noted in zip(rests, arrays[f"{prefix}_reset_at"], strict=False):
            rest.reset_at = int(noted)
    if isinstance(window, Batched) and window.time is not None:
        for number, rest in enumerate(rests):
            names = _TIMES if query.read.timed else _TIMES[:3]
            begin, ending, reached, *late = (int(arrays[f"{prefix}_{name}"][number]) for name in names)
            awaited, flushed = late or (0, 0)
            rest.times = None if ending == _NEVER else [begin, ending, reached, awaited, flushed != 0]
    if not query.read.timed:
        return rests
    for number, rest in enumerate(rests):
        rest.due = stored_dues(running, query, number, query.operator)
        if f"{prefix}_latest" in arrays:
            rest.latest = int(arrays[f"{prefix}_latest"][number])
    if isinstance(window, Batched) and window.timeout:
        for rest, asleep in zip(rests, arrays[f"{prefix}_asleep"], strict=False):
            if asleep and rest.times is not None and rest.times[3] is not None:
                passed = int(arrays["timers_until"][0]) - rest.times[3]
                rest.times[3] += max(0, passed // window.timeout + 1) * window.timeout
                rest.due.append(rest.times[3])
    elif isinstance(window, Batched):
        for period in range(count if window.unique is not None else 1):
            ending, asleep = int(arrays[f"{prefix}_ending"][period]), int(arrays[f"{prefix}_asleep"][period])
            if asleep:
                until = int(arrays["timers_until"][0])
                ending += max(0, (until - ending) // window.span + 1) * window.span
                rests[asleep - 1].due = [ending]
            for rest in rests if window.unique is None else rests[period : period + 1]:
                rest.ending = None if ending == _NEVER else ending
    return rests


def _load_order(
    running: Running, query: QueryText, window: Sliding, held: Sequence[tuple[int, Sequence[Arrival]]]
) -> None:
    """Note the places of the first nodes in their order, and which full lists are in it, given those of keys."""
    orders = [(PLACES[query.read.types[place]][descending], place) for place, descending in window.orders]
    for number, own in held:
        places = [[of(row[place]) for of, place in orders] for _, row in own]
        running.arrays[f"{query.name}_ordered"][number] = len(own) == window.length and places == sorted(places)
    events = [event for _, own in held for event in own]
    prefix, arrays, count = query.name, running.arrays, len(events)
    arrays[f"{prefix}_before"][:count] = numpy.arange(-1, count - 1)
    heads = arrays[f"{prefix}_head"]
    arrays[f"{prefix}_before"][heads[heads >= 0]] = -1
    for number, (place, descending) in enumerate(window.orders):
        if query.read.types[place] is Type.STRING:
            continue
        of = PLACES[query.read.types[place]][0]
        words = numpy.array([of(row[place]) for _, row in events], numpy.int64)
        arrays[f"{prefix}_p{number}"][:count] = ~words if descending else words
