"""What the text of ``#reorder`` calls: heaps of events by their times, and the share of a window that must be covered.

The meaning is that of `spdist.operators.windows.reorder_akslack`. Everything here is compiled together with a program;
this module is only imported where there is numba. No function raises, none allocates.
"""

from __future__ import annotations

import math

from spdist.operators.windows.reorder_akslack import WINDOW_MS
from spdist.program.machine.arithmetic import loop
from spdist.program.machine.kernels import give_back

__all__ = ["melded", "share_covered", "share_needed"]


@loop
def _is_earlier(times, came, left, right):  # type: ignore[no-untyped-def]
    return times[left] < times[right] or (times[left] == times[right] and came[left] < came[right])


@loop
def melded(first, second, times, came, left, right):  # type: ignore[no-untyped-def]
    """Make one heap of two, and return its first node: that of the least time, of equal ones the one that came first.

    -1 stands for a heap without nodes. What lies below a node is in ``left`` and ``right``; as they change places
    whenever something is put below, what is done to a heap of n nodes costs O(log n) each time, taken together.
    """
    if first < 0 or second < 0:
        return max(first, second)
    if _is_earlier(times, came, second, first):
        first, second = second, first
    top = node = first
    while True:
        below = right[node]
        right[node] = left[node]
        if below < 0:
            left[node] = second
            return top
        if _is_earlier(times, came, second, below):
            below, second = second, below
        left[node] = below
        node = below


@loop
def share_needed(node, values, after, threshold, critical_squared):  # type: ignore[no-untyped-def]
    """Return which share of a window must be covered, given the first node of a batch."""
    size, total, squares = 0, 0.0, 0.0
    first = node
    while node >= 0:
        total += values[node]
        size += 1
        node = after[node]
    mean = total / size
    node = first
    while node >= 0:
        squares += (mean - values[node]) * (mean - values[node])
        node = after[node]
    variance = squares / size
    if mean * mean == 0:
        return 0.0
    spread = critical_squared * (mean * mean + variance * variance) / (size * (mean * mean))
    low, high, least, found = 1 - threshold, 1 + threshold, 0.0, False
    for side in range(2):
        linear = 2 * threshold - 2 - spread if side == 0 else -(2 + 2 * threshold + spread)
        constant = low * low if side == 0 else high * high
        square = linear * linear - 4 * (1 + spread) * constant
        if square >= 0:
            root = (-linear - math.sqrt(square)) / (2 * (1 + spread))
            if not found or root < least:
                least = root
            found = True
    return least


@loop
def share_covered(high, first, last, number, at, after, free):  # type: ignore[no-untyped-def]
    """Return which share of the window came before its end was passed, and forget what is older."""
    low = high - WINDOW_MS
    inside, covered, before = 0, 0, -1
    entered = passed = False
    node = first[number]
    while node >= 0:
        following, time = after[node], at[node]
        entered = entered or low <= time
        passed = passed or high <= time
        if entered and low <= time <= high:
            inside += 1
            if not passed:
                covered += 1
        if time > low:
            before = node
        else:
            if before < 0:
                first[number] = following
            else:
                after[before] = following
            give_back(free, after, node)
        node = following
    last[number] = before
    return covered / inside if inside > 0 else 1.0
