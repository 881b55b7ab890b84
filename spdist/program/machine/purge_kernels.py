"""What the text of partitions with ``@purge`` calls: which key is idle for longest, and when that is looked at.

The meaning is that of `spdist.operators.partitions.purging`. Everything here is compiled together with a program; this
module is only imported where there is numba. No function raises, none allocates.

Notes
-----
``used`` is when each key got its last event. ``ends`` is a heap of (time, key, 0) with one entry of each key that is
there, of a time that it was used at: it is brought up to date where somebody asks for the oldest one. ``looks`` is how
many phases there are, then of each the phase and the time of the first event that had it.
"""

from __future__ import annotations

from spdist.operators.partitions.purging import MOST_PHASES
from spdist.program.machine.arithmetic import loop
from spdist.program.machine.kernels import timer_gone, timer_set

__all__ = ["longest_idle", "look_after", "look_begins"]


@loop
def look_begins(looks, phase, now):  # type: ignore[no-untyped-def]
    """Begin a series of looks; tells whether it is one of a new phase."""
    count = looks[0]
    if count >= MOST_PHASES:
        return False
    for place in range(count):
        if looks[2 * place + 1] == phase:
            return False
    looks[0], looks[2 * count + 1], looks[2 * count + 2] = count + 1, phase, now
    return True


@loop
def look_after(looks, interval, time):  # type: ignore[no-untyped-def]
    """Return the first look later than a time."""
    earliest = time + 1
    found = looks[2] + interval
    for place in range(looks[0]):
        # The remainder is never negative: from `earliest` on this is the first time of that phase.
        look = max(looks[2 * place + 2] + interval, earliest + (looks[2 * place + 1] - earliest) % interval)
        if place == 0 or look < found:
            found = look
    return found


@loop
def longest_idle(ends, used):  # type: ignore[no-untyped-def]
    """Have the key that is idle for longest be the first one of the heap, and return since when it is."""
    while ends[3] != used[ends[4]]:
        key = ends[4]
        timer_gone(ends)
        timer_set(ends, used[key], key, 0)
    return ends[3]
