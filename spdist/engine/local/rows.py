"""How many rows a state holds: events in windows and patterns, rows of tables, groups of aggregations, keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, runtime_checkable

__all__ = ["HoldsRows", "count_rows"]

#: Of a longer collection only some elements are looked at: what the others hold is taken to be alike.
_LOOKED_AT = 1000


@runtime_checkable
class HoldsRows(Protocol):
    """An app, or a store, that can say how much it keeps."""

    def held_rows(self) -> int:
        """Return how many rows its state holds; of large states it is an estimate."""
        ...


def count_rows(state: Any) -> int:
    """Return how many rows there are in the plain data of a snapshot.

    A row is a tuple of values, with or without timestamp, and what a map holds for a key where that is values only.
    Lists of values, as of timers, are none.

    Parameters
    ----------
    state
        What `snapshot` methods of operators return.
    """
    if isinstance(state, tuple):
        return 1 if state and (_plain(state) or _is_row(state)) else _inside(state)
    if isinstance(state, Mapping):
        return _inside(state.values(), 1)
    return _inside(state) if isinstance(state, (list, deque, set)) else 0


def _inside(elements: Collection[Any], of_values: int = 0) -> int:
    looked_at = len(elements)
    some: Any = elements
    if looked_at > _LOOKED_AT:
        some, looked_at = islice(elements, _LOOKED_AT), _LOOKED_AT
    held = 0
    for one in some:
        held += of_values if of_values and _plain(one) else count_rows(one)
    return held if looked_at == len(elements) else round(held * len(elements) / looked_at)


def _plain(value: Any) -> bool:
    """Tell whether there is nothing but values: one, or a list of them that is not empty."""
    if isinstance(value, (list, tuple)):
        return bool(value) and not any(isinstance(one, (list, tuple, deque, dict, set)) for one in value)
    return not isinstance(value, (deque, dict, set))


def _is_row(state: Sequence[Any]) -> bool:
    """Tell whether these are times or kinds, and at the end a row."""
    return isinstance(state[-1], tuple) and not any(isinstance(one, (list, tuple, dict)) for one in state[:-1])
