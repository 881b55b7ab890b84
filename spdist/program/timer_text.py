"""Timers of a program: of each query and key of its partition a queue of wake-ups, and one heap of all queues.

As in `spdist.operators.timers`: a wake-up that is asked for later waits behind the ones asked for before it, and among
those that are due at the same time the query written first is first, then the key that came first.
"""

from __future__ import annotations

from spdist.program.arrays import Arrays
from spdist.program.expressions import NUMBER
from spdist.program.parts import QueryText, indent

__all__ = ["LIMIT", "NEVER", "TimerWriter", "fired"]

#: A time before all others.
NEVER = "-9223372036854775808"
#: Among the timers of a query those of its rate limit are last, for all keys: their numbers in the heap begin here.
LIMIT = 1 << 40


class TimerWriter:
    """Writes what asks for the wake-ups of a query, and what is done then.

    Parameters
    ----------
    arrays : Arrays
        Where arrays are declared.
    query : QueryText
        The query.
    key : str
        Source of the number of the partition's key.
    limit : bool
        Whether it is the query's rate limit that is woken, and not its window.
    """

    def __init__(self, arrays: Arrays, query: QueryText, key: str, limit: bool = False) -> None:
        self._number = query.read.number
        self._limit = limit
        self._prefix = prefix = f"{query.name}_l" if limit else query.name
        self._key = key
        arrays.declare(f"{prefix}_due", NUMBER, query.instances, "-1")
        for name in ("due_next", "due_at"):
            arrays.declare(f"{prefix}_{name}", NUMBER, f"dues {prefix}", "-1")
        arrays.free_list(f"{prefix}_due_free")
        arrays.declare("timers", NUMBER, "timers", width=3)
        arrays.declare("timers_until", NUMBER, "1", NEVER)

    def asks(self, due: str, key: str = "") -> str:
        """Return what asks for a wake-up."""
        queue = ", ".join(f"{self._prefix}_{name}" for name in ("due", "due_next", "due_at", "due_free"))
        asked = f"{queue}, timers, {self._number}, {key or self._key}, {due}"
        return f"due_asked_as({asked}, {self._rank})" if self._limit else f"due_asked({asked})"

    @property
    def _rank(self) -> str:
        """Source of the number of the key in the heap."""
        return f"{self._key} + {LIMIT}" if self._limit else self._key

    def is_only(self) -> str:
        """Return the condition under which no other wake-up waits behind the one that is done."""
        return f"{self._prefix}_due_next[{self._prefix}_due[{self._key}]] == {self._prefix}_due[{self._key}]"

    def wakes(self, body: list[str]) -> list[str]:
        """Return what is done when the first wake-up of the key is due, given what is done for each."""
        last = f"{self._prefix}_due[{self._key}]"
        at = f"{self._prefix}_due_at[{self._prefix}_due_next[{last}]]"
        return [
            f"while {last} >= 0 and {at} <= now:",
            f"    due = {at}",
            "    if due - 1 > until:",
            "        until = due - 1",
            *indent(body),
            f"    due_done({self._prefix}_due, {self._prefix}_due_next, {self._prefix}_due_free, {self._key})",
            f"if {last} >= 0:",
            f"    timer_set(timers, {at}, {self._number}, {self._rank})",
        ]


def fired(blocks: dict[tuple[int, bool], list[str]]) -> list[str]:
    """Return what wakes all that is due until ``at[c]``, given what wakes each query, and each rate limit of one."""
    choices: list[str] = []
    for (number, limit), lines in blocks.items():
        test = f"key >= {LIMIT}" if limit else f"key < {LIMIT}"
        choices += [f"if block == {number} and {test}:", *indent([*([f"key -= {LIMIT}"] if limit else []), *lines])]
    return [
        "while fires != 0 and timers[0] > 0 and timers[3] <= at[c]:",
        "    due, block, key = timers[3], timers[4], timers[5]",
        "    timer_gone(timers)",
        "    if due > now:",
        "        now = due",
        "    if now != fired:",
        "        fired, fired_number = now, 0",
        "    number, rung = fired_number, now",
        *indent(choices),
        "    fired_number = number",
        "if fires != 0 and at[c] > until:",
        "    until = at[c]",
    ]
