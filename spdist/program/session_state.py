"""The sessions that a window of a program holds as the operators have them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.operators.base import Arrival
from spdist.program.parts import QueryText
from spdist.program.running import Running
from spdist.program.shape import Sessions

__all__ = ["load_sessions", "session_slots", "stored_sessions"]


def load_sessions(running: Running, query: QueryText, window: Sessions, sessions: dict[Any, Any], numbers: Any) -> None:
    """Note the times of sessions, whose events are there already.

    Parameters
    ----------
    running, query, window
        The program, and the window.
    sessions : dict
        By key, as the operators have them.
    numbers : numpy.ndarray
        The number of each.
    """
    prefix, kernels = query.name, running.compiled.kernels
    running.reserve(f"ends {prefix}", len(sessions))
    arrays = running.arrays
    names = numpy.asarray(running.texts.numbers(pa.array([str(key) for key in sessions], pa.string())))
    for number, (key, (current, _)), name in zip(numbers.tolist(), sessions.items(), names.tolist(), strict=True):
        held, start, end, _, late = current
        arrays[f"{prefix}_start"][number], arrays[f"{prefix}_end"][number] = start, end
        arrays[f"{prefix}_text"][number] = name
        if late > 0:
            arrays[f"{prefix}_last"][number] = arrays[f"{prefix}_head"][number] + late - 1
        if held:
            null = int(key is None and window.key is not None)
            kernels.timer_set(arrays[f"{prefix}_ends"], end, null, number)


def session_slots(running: Running, query: QueryText, window: Sessions) -> int:
    """Return how many numbers sessions have."""
    return 1 if window.key is None else int(running.arrays[f"{query.name}_s_k_meta"][0])


def _keys(running: Running, query: QueryText, window: Sessions) -> tuple[Any, list[Any]]:
    """Return the numbers of all sessions, and their keys."""
    if window.key is None:
        return numpy.zeros(1, numpy.int64), [None]
    table = f"{query.name}_s_k"
    slots = running.arrays[f"{table}_slots"]
    numbers = numpy.sort(slots[slots >= 0])
    words = running.arrays[f"{table}_keys"].reshape(-1, 2)[numbers]
    texts = running.texts.texts(words[:, 0]).to_pylist()
    return numbers, [None if null else text for text, null in zip(texts, words[:, 1].tolist(), strict=True)]


def stored_sessions(running: Running, query: QueryText, window: Sessions, held: Sequence[list[Arrival]]) -> Any:
    """Return the sessions by key, given the events of each number."""
    prefix, arrays = query.name, running.arrays
    numbers, keys = _keys(running, query, window)
    found: dict[Any, Any] = {}
    for number, key in zip(numbers.tolist(), keys, strict=True):
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
        found[key] = [[held[number], start, end, end, late], [[], 0, 0, 0, -1]]
    return found
