"""The wake-ups that operators of a query have asked for, to and from the arrays of a program's timers."""

from __future__ import annotations

from typing import Any

import numpy

from spdist.operators.core.state_columns import Column, ListColumn, NumberColumn, nothing, numbers_of
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.states.nodes import walked
from spdist.program.timer_text import RATE_LIMIT, rank

__all__ = ["asked_again", "load_dues", "next_wakes", "stored_dues", "window_dues", "with_due"]


def load_dues(running: Running, query: QueryText, numbers: Any, dues: Column, operator: int = 0) -> None:
    """Take over the wake-ups that an operator of a query, or its rate limit, has asked for, a list for each key.

    Parameters
    ----------
    running, query : Running, QueryText
        The program, and the query.
    numbers : numpy.ndarray
        Of the keys.
    dues : Column
        Their lists.
    operator : int
        Which operator.
    """
    prefix, timer, own = query.name, query.timer, operator
    if operator == RATE_LIMIT:
        prefix, timer, own = f"{prefix}_l", query.read.number, 0
    sizes, (times, _) = dues.sizes(), numbers_of(dues.items_held())
    running.reserve(f"dues {prefix}", len(times))
    # The heap has one timer of each queue: what is asked for later waits behind it
    running.reserve("timers", int((sizes > 0).sum()))
    names = (f"due{max(0, own) or ''}", "due_next", "due_at", "due_free")
    queue = [*(running.arrays[f"{prefix}_{name}"] for name in names), running.arrays["timers"]]
    asked = numpy.repeat(numbers, sizes), times.astype(numpy.int64)
    running.compiled.kernels.dues_asked(*queue, rank(timer, operator), *asked)


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


def asked_again(running: Running, dues: ListColumn, times: Any, asleep: Any, span: int) -> tuple[Any, ListColumn]:
    """Let keys that sleep ask for their wake-ups again, which operators would have asked for all the time.

    Parameters
    ----------
    running, dues
        The program, and the wake-ups asked for.
    times : numpy.ndarray
        Of each key when it would have been woken first.
    asleep : numpy.ndarray of bool
        Which of them sleep.
    span : int
        After how many ms each of their wake-ups would have asked for the next one.

    Returns
    -------
    tuple
        Of each key when it is woken next, behind all that has fired where it sleeps; and the wake-ups.
    """
    times = times.copy()
    times[asleep] = next_wakes(running, times[asleep], span)
    return times, with_due(dues, asleep, times[asleep])


def next_wakes(running: Running, times: Any, span: int) -> Any:
    """Return when what would have been woken then, and every `span` ms since, is woken next, behind all that fired."""
    return times + numpy.maximum(0, (int(running.arrays["timers_until"][0]) - times) // span + 1) * span


def with_due(dues: ListColumn, those: Any, times: Any) -> ListColumn:
    """Return wake-ups with one more of some keys: of which, an array of bools, and when, one time for each of them."""
    if not those.any():
        return dues
    sizes, (asked, _) = dues.sizes(), numbers_of(dues.items_held())
    asked = numpy.insert(asked.astype(numpy.int64), numpy.cumsum(sizes)[those], times)
    return ListColumn(list, NumberColumn(sizes + those), NumberColumn(asked))
