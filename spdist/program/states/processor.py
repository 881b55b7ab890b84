"""What the stream processors of a program hold as the operators have it, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from spdist.operators.base import CURRENT, Arrival
from spdist.program.parts import QueryText
from spdist.program.processors.shape import Processor, Reordered
from spdist.program.processors.text import processor_of_text
from spdist.program.running.running import Running
from spdist.program.shape import Query, Read
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.nodes import events_of_nodes, fill_nodes
from spdist.program.states.unique import known_keys, load_keys
from spdist.program.timer_text import PROCESSOR
from spdist.program.windows.kinds import FAR

__all__ = ["fresh_processors", "held_by_processors", "load_processors", "stored_processors"]

_TIMES = ("greatest", "sent", "k", "tick", "waits")


def fresh_processors(read: Query) -> list[Any]:
    """Return the states of a query's stream processors that have seen nothing."""
    processor = read.processor if isinstance(read, Read) else None
    return [] if processor is None else [_fresh(processor)]


def _fresh(processor: Processor) -> Any:
    if not isinstance(processor, Reordered):
        return [{}, []]
    state: list[Any] = [{}, {}, [0, -1, 0, -1, False], []]
    return state if processor.adaption is None else [state, [[], [], 0, 1.0, 0, [0.0, 0.0]]]


def load_processors(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over what the stream processor in front of a query holds: of each key of its partition, by number."""
    for front in query.fronts:
        processor, own = processor_of_text(front), [(number, state[0]) for number, state in states]
        if not isinstance(processor, Reordered):
            for number, (passed, _) in own:
                _load_passed(running, front, number, passed)
        else:
            if processor.adaption is not None:
                for number, (_, adapting) in own:
                    _load_adapting(running, front, number, adapting)
                own = [(number, state) for number, (state, _) in own]
            _load_held(running, query, front, processor, own)
        for number, state in own if processor.timed else ():
            load_dues(running, front, number, state[-1], PROCESSOR)


def stored_processors(running: Running, query: QueryText, count: int) -> list[list[Any]]:
    """Return the states of a query's stream processors: of so many keys of its partition, by number; or one."""
    states: list[list[Any]] = [[] for _ in range(count)]
    for front in query.fronts:
        processor = processor_of_text(front)
        for number, state in enumerate(states):
            dues = stored_dues(running, front, number, PROCESSOR) if processor.timed else []
            if not isinstance(processor, Reordered):
                state.append([_passed(running, front, number), dues])
                continue
            *times, waits = [_value(running, front, name, number) for name in _TIMES]
            held = [*_held(running, front, number), [*times, bool(waits)], dues]
            state.append(held if processor.adaption is None else [held, _adapting(running, front, number)])
    return states


def held_by_processors(running: Running, query: QueryText) -> int:
    """Return how many events, or keys, the stream processor in front of a query holds."""
    arrays, names = running.arrays, [front.name for front in query.fronts]
    sizes = sum(int(arrays[f"{name}_size"].sum()) for name in names if f"{name}_size" in arrays)
    return sizes + sum(int(arrays[f"{name}_u_k_meta"][2]) for name in names if f"{name}_u_k_meta" in arrays)


def _value(running: Running, front: QueryText, name: str, number: int) -> int:
    array = running.arrays.get(f"{front.name}_{name}")
    return {"sent": -1, "tick": -1}.get(name, 0) if array is None else int(array[number])


# Events that are put in order.


def _load_held(
    running: Running, query: QueryText, front: QueryText, processor: Reordered, states: Sequence[tuple[int, Any]]
) -> None:
    """Take over the events that are held: a heap whose nodes follow one another, in their order."""
    prefix, arrays = front.name, running.arrays
    times, events, owners = list[int](), list[Arrival](), list[int]()
    for number, (fresh, held, own, _) in states:
        for heap, by_time in (("held", held), ("fresh", fresh)):
            begin = len(times)
            for time in sorted(by_time):
                times += [time] * len(by_time[time])
                events += [event[1:] for event in by_time[time]]
            owners += [number] * (len(times) - begin)
            if len(times) > begin:
                arrays[f"{prefix}_{heap}"][number] = begin
        for name, value in zip(_TIMES, own, strict=True):
            if f"{prefix}_{name}" in arrays:
                arrays[f"{prefix}_{name}"][number] = value
        arrays[f"{prefix}_size"][number] = len(times) - (owners.index(number) if number in owners else len(times))
    count, window = len(times), query.read.window
    if any(not -FAR < time < FAR for time in times):
        raise ValueError("a time near the limits of a long")
    if window is not None and any(row[place] is None for _, row in events for place in window.known):
        raise ValueError("a window whose attribute may not be null")
    running.reserve(f"nodes {prefix}", count)
    arrays = running.arrays
    fill_nodes(running, front, 0, events, owners, total=False)
    arrays[f"{prefix}_at"][:count] = times
    arrays[f"{prefix}_came"][:count] = numpy.arange(count)
    arrays[f"{prefix}_number"][[number for number, _ in states]] = count
    arrays[f"{prefix}_free"][:] = (-1, count)
    arrays[f"{prefix}_next"][:count] = numpy.arange(1, count + 1)
    arrays[f"{prefix}_other"][:count] = -1
    firsts = [int(arrays[f"{prefix}_{heap}"][number]) for number, _ in states for heap in ("fresh", "held")]
    ends = [first - 1 for first in firsts if first > 0] + [count - 1]
    if count:
        arrays[f"{prefix}_next"][ends] = -1


def _held(running: Running, front: QueryText, number: int) -> Iterator[dict[int, list[Any]]]:
    """Yield the events since the greatest time rose, and those before, by their times."""
    arrays, prefix = running.arrays, front.name
    for heap in ("fresh", "held"):
        found: dict[int, list[Any]] = {}
        nodes = sorted(
            _below(running, front, int(arrays[f"{prefix}_{heap}"][number])),
            key=lambda node: (arrays[f"{prefix}_at"][node], arrays[f"{prefix}_came"][node]),
        )
        events = events_of_nodes(running, front, numpy.array(nodes, numpy.int64))
        for node, event in zip(nodes, events, strict=True):
            found.setdefault(int(arrays[f"{prefix}_at"][node]), []).append((CURRENT, *event))
        yield found


def _below(running: Running, front: QueryText, top: int) -> list[int]:
    """Return the nodes of a heap."""
    arrays, found, left = running.arrays, list[int](), [top]
    while left:
        node = left.pop()
        if node >= 0:
            found.append(node)
            left += [int(arrays[f"{front.name}_{name}"][node]) for name in ("next", "other")]
    return found


# The slack that is adapted.


def _load_adapting(running: Running, front: QueryText, number: int, state: Any) -> None:
    values, times, counted, alpha, slack, before = state
    prefix, own = f"{front.name}_s", len(times)
    running.reserve(f"nodes {prefix}", own)
    arrays = running.arrays
    begin = int(arrays[f"{prefix}_free"][1])
    end = begin + own
    arrays[f"{prefix}_free"][1] = end
    arrays[f"{prefix}_at"][begin:end] = times
    # The values of the open batch are those of the events that came last.
    arrays[f"{prefix}_value"][end - len(values) : end] = values
    arrays[f"{prefix}_after"][begin:end] = numpy.arange(begin + 1, end + 1)
    if own:
        arrays[f"{prefix}_after"][end - 1] = -1
        arrays[f"{prefix}_first"][number], arrays[f"{prefix}_last"][number] = begin, end - 1
    if values:
        arrays[f"{prefix}_batch"][number] = end - len(values)
    arrays[f"{front.name}_counted"][number], arrays[f"{front.name}_slack"][number] = counted, slack
    arrays[f"{front.name}_adapting"][3 * number : 3 * number + 3] = [alpha, *before]


def _adapting(running: Running, front: QueryText, number: int) -> list[Any]:
    arrays, prefix = running.arrays, f"{front.name}_s"

    def listed(name: str, of: str) -> list[Any]:
        found, node = [], int(arrays[f"{prefix}_{name}"][number])
        while node >= 0:
            found.append(arrays[f"{prefix}_{of}"][node].item())
            node = int(arrays[f"{prefix}_after"][node])
        return found

    alpha, *before = arrays[f"{front.name}_adapting"][3 * number : 3 * number + 3].tolist()
    times = listed("first", "at")
    counted, slack = (_value(running, front, name, number) for name in ("counted", "slack"))
    alpha = alpha if times or counted or slack else alpha or 1.0
    return [listed("batch", "value"), times, counted, alpha, slack, before]


# Keys that passed.


def _load_passed(running: Running, front: QueryText, number: int, passed: dict[str, int]) -> None:
    unique, prefix = front.unique, front.name
    assert unique is not None
    if not passed:
        return
    numbers = load_keys(running, front, unique, list(passed), [number] * len(passed))
    arrays = running.arrays
    arrays[f"{prefix}_passed"][numbers] = list(passed.values())
    arrays[f"{prefix}_following"][numbers] = [*numbers[1:], -1]
    arrays[f"{prefix}_head"][number], arrays[f"{prefix}_head_end"][number] = numbers[0], numbers[-1]


def _passed(running: Running, front: QueryText, number: int) -> dict[str, int]:
    unique, prefix, arrays = front.unique, front.name, running.arrays
    assert unique is not None
    numbers, _, keys = known_keys(running, front, unique)
    texts, found = dict(zip(numbers.tolist(), keys, strict=True)), dict[str, int]()
    at = int(arrays[f"{prefix}_head"][number])
    while at >= 0:
        found[texts[at]] = int(arrays[f"{prefix}_passed"][at])
        at = int(arrays[f"{prefix}_following"][at])
    return found
