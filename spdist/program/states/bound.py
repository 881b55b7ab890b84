"""The conditions that bound windows of a program: their aggregators as the operators have them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.shape import Sliding
from spdist.program.states.totals import packed, unpack

__all__ = ["load_bounds", "stored_bounds"]


def load_bounds(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the aggregators of a window's condition, of each key of the partition, by number."""
    for number, state in states:
        _, totals = state[-1]
        unpack(running, query, query.bounding, number, totals)


def stored_bounds(running: Running, query: QueryText, count: int) -> list[Any]:
    """Return the text of a window's condition with its aggregators, of so many keys of the partition."""
    window = query.read.window
    assert isinstance(window, Sliding) and window.bound is not None
    return [[window.bound.text, slots] for slots in packed(running, query.bounding, numpy.arange(count))]
