"""The sessions that a window of a program holds as the operators have them, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from spdist.java.objects import bucket_of, concurrent_capacity
from spdist.language.types import Type
from spdist.operators.base import Arrival
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.shape import Sessions
from spdist.program.states.key_words import key_numbers

__all__ = ["load_sessions", "session_lists", "session_slots", "stored_sessions"]

#: So many buckets show all of a hash.
_ALL = 1 << 32
#: The sessions of each key of a partition, by the number of that; or of one, of number 0.
_States = Sequence[tuple[int, dict[Any, Any]]]


def session_lists(
    running: Running, query: QueryText, window: Sessions, states: _States
) -> list[tuple[int, int, Mapping[str, Sequence[Arrival]]]]:
    """Return the events of each session, behind the number that it gets, and that of its key of the partition."""
    owners = [number for number, sessions in states for _ in sessions]
    numbers = owners
    if window.key is not None and owners:
        table = f"{query.name}_s"
        running.reserve(f"groups {table}", len(owners))
        keys, nulls = running.values.taken([key for _, sessions in states for key in sessions], Type.STRING)
        words = [keys, nulls.astype(numpy.int64)]
        if query.keyed is not None:
            words.insert(0, numpy.array(owners, numpy.int64))
        numbers = key_numbers(running, f"{table}_k", numpy.stack(words, axis=1)).tolist()
    held = [current[0] for _, sessions in states for current, _ in sessions.values()]
    return [(number, owner, {"head": own}) for number, owner, own in zip(numbers, owners, held, strict=True)]


def load_sessions(
    running: Running, query: QueryText, window: Sessions, states: _States, lists: Sequence[tuple[int, int, Any]]
) -> None:
    """Note the times of sessions, whose events are there already.

    Parameters
    ----------
    running, query, window
        The program, and the window.
    states : Sequence of (int, dict)
        The sessions by key, as the operators have them.
    lists : Sequence of tuple
        What `session_lists` has returned.
    """
    prefix, kernels = query.name, running.compiled.kernels
    running.reserve(f"ends {prefix}", len(lists))
    arrays = running.arrays
    sessions = [session for _, own in states for session in own.items()]
    for owner, own in states:
        arrays[f"{prefix}_keys"][owner], arrays[f"{prefix}_capacity"][owner] = len(own), concurrent_capacity(len(own))
    for (number, owner, _), (key, (current, _)) in zip(lists, sessions, strict=True):
        held, start, end, _, late = current
        arrays[f"{prefix}_start"][number], arrays[f"{prefix}_end"][number] = start, end
        arrays[f"{prefix}_hash"][number] = bucket_of(key, _ALL)
        if query.keyed is not None:
            arrays[f"{prefix}_owner"][number] = owner
        if late > 0:
            arrays[f"{prefix}_last"][number] = arrays[f"{prefix}_head"][number] + late - 1
        if held:
            null = int(key is None and window.key is not None)
            kernels.timer_set(arrays[f"{prefix}_ends"], end, null, number)


def session_slots(running: Running, query: QueryText, window: Sessions, count: int) -> int:
    """Return how many numbers sessions have, where a partition has so many keys."""
    return count if window.key is None else int(running.arrays[f"{query.name}_s_k_meta"][0])


def _keys(running: Running, query: QueryText, window: Sessions, count: int) -> tuple[Any, list[int], list[Any]]:
    """Return the numbers of all sessions, those of their keys of the partition, and their keys."""
    if window.key is None:
        return numpy.arange(count), list(range(count)), [None] * count
    table = f"{query.name}_s_k"
    slots = running.arrays[f"{table}_slots"]
    numbers = numpy.sort(slots[slots >= 0])
    words = running.arrays[f"{table}_keys"].reshape(-1, running.program.arrays.tables[table].width)[numbers]
    texts = running.texts.texts(words[:, -2]).to_pylist()
    keys = [None if null else text for text, null in zip(texts, words[:, -1].tolist(), strict=True)]
    return numbers, [0] * len(keys) if query.keyed is None else words[:, 0].tolist(), keys


def stored_sessions(
    running: Running, query: QueryText, window: Sessions, held: Sequence[list[Arrival]], count: int
) -> list[dict[Any, Any]]:
    """Return the sessions of so many keys of a partition, by key, given the events of each number."""
    prefix, arrays = query.name, running.arrays
    numbers, owners, keys = _keys(running, query, window, count)
    found: list[dict[Any, Any]] = [{} for _ in range(count)]
    for number, owner, key in zip(numbers.tolist(), owners, keys, strict=True):
        start, end = int(arrays[f"{prefix}_start"][number]), int(arrays[f"{prefix}_end"][number])
        if not held[number] and not end:
            continue  # no event has come
        late, node = -1, int(arrays[f"{prefix}_head"][number])
        last = int(arrays[f"{prefix}_last"][number])
        for place in range(len(held[number]) if last >= 0 else 0):
            if node == last:
                late = place + 1
                break
            node = int(arrays[f"{prefix}_next"][node])
        found[owner][key] = [[held[number], start, end, end, late], [[], 0, 0, 0, -1]]
    return found
