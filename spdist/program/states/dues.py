"""The wake-ups that operators of a query have asked for, to and from the arrays of a program's timers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from spdist.operators.core.state_columns import ListColumn, NumberColumn, nothing
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.states.nodes import walked
from spdist.program.timer_text import RATE_LIMIT, rank

__all__ = ["load_dues", "stored_dues", "window_dues"]


def load_dues(running: Running, query: QueryText, number: int, dues: Sequence[int], operator: int = 0) -> None:
    """Take over the wake-ups that an operator of a query has asked for, of a key."""
    running.reserve(f"dues {query.name}", len(dues))
    # The heap has one timer of each queue: what is asked for later waits behind it
    running.reserve("timers", 1)
    arrays, names = running.arrays, (f"due{max(0, operator) or ''}", "due_next", "due_at", "due_free")
    queue = [arrays[f"{query.name}_{name}"] for name in names]
    for due in dues:
        asked = arrays["timers"], rank(query.timer, operator), number, due
        running.compiled.kernels.due_asked(*queue, *asked)


def stored_dues(running: Running, query: QueryText, count: int, operator: int = 0) -> ListColumn:
    """Return the wake-ups that an operator of a query, or its rate limit, has asked for, in order, of so many keys."""
    prefix, arrays = query.name, running.arrays
    if operator == RATE_LIMIT:
        prefix, operator = f"{prefix}_l", 0
    # Rings of which the last node is known: the first one is behind it. Cut there, they are lists
    last, behind = arrays[f"{prefix}_due{max(0, operator) or ''}"][:count], arrays[f"{prefix}_due_next"].copy()
    first = numpy.where(last >= 0, behind[last], -1)
    behind[last[last >= 0]] = -1
    lengths, order = walked(running, first, behind)
    return ListColumn(list, NumberColumn(lengths), NumberColumn(arrays[f"{prefix}_due_at"][order]))


def window_dues(running: Running, query: QueryText, count: int) -> ListColumn:
    """Return the wake-ups that the windows of so many keys have asked for; none where the program has no timers."""
    return stored_dues(running, query, count, query.operator) if query.read.timed else nothing(count)
