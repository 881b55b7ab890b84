"""Timers of a program: of each query and key of its partition a queue of wake-ups, and one heap of all queues.

As in `spdist.operators.timers`: a wake-up that is asked for later waits behind the ones asked for before it, and among
those that are due at the same time the query written first is first, then the key that came first. One that was asked
for too late fires behind others that are due later: what has fired last in that order is kept, so it is known what has.
"""

from __future__ import annotations

from spdist.program.arrays import Arrays
from spdist.program.expressions import NUMBER
from spdist.program.parts import QueryText, indent

__all__ = ["NEVER", "OPERATORS", "PROCESSOR", "RATE_LIMIT", "TimerWriter", "declares_timers", "fired", "latest", "rank"]

#: A time before all others.
NEVER = "-9223372036854775808"
#: So many operators of a query may have timers.
OPERATORS = 64
#: Among the timers of a query those of its rate limit are last, for all keys; those of a stream processor are first.
RATE_LIMIT, PROCESSOR = OPERATORS - 2, -1


def rank(query: int, operator: int = 0) -> int:
    """Return which is first among timers that are due at the same time, and have the same key."""
    # One more, as the place of a stream processor is -1
    return query * OPERATORS + operator + 1


def latest(arrays: Arrays) -> tuple[str, str]:
    """Return source of when the timer was due that is the latest of those that have fired, and of its rank."""
    return ("shared[DUE]", "shared[ELEMENT]") if "shared" in arrays.declared else ("last", "last_block")


def _notes(arrays: Arrays, block: str) -> list[str]:
    """Return what notes that a timer of a rank fires, which is ``due``."""
    last, last_block = latest(arrays)
    later = f"if due > {last} or (due == {last} and {block} > {last_block}):"
    return [later, f"    {last}, {last_block} = due, {block}"]


def declares_timers(arrays: Arrays) -> None:
    """Declare the heap of all queues, and until when timers have fired."""
    arrays.declare("timers", NUMBER, "timers", width=3)
    arrays.declare("timers_until", NUMBER, "1", NEVER)


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
    operator : int
        Its place among those of the query that have timers, each with a queue of its own; `RATE_LIMIT` for its limit.
    """

    def __init__(self, arrays: Arrays, query: QueryText, key: str, operator: int = 0) -> None:
        self._arrays = arrays
        self._number = rank(query.read.number if operator == RATE_LIMIT else query.timer, operator)
        self._prefix = prefix = f"{query.name}_l" if operator == RATE_LIMIT else query.name
        self._queue = f"{prefix}_due{operator if 0 < operator < RATE_LIMIT else ''}"
        self._key = key
        arrays.declare(self._queue, NUMBER, query.instances, "-1")
        for name in ("due_next", "due_at"):
            arrays.declare(f"{prefix}_{name}", NUMBER, f"dues {prefix}", "-1")
        arrays.free_list(f"{prefix}_due_free")
        declares_timers(arrays)

    def asks(self, due: str, key: str = "") -> str:
        """Return what asks for a wake-up."""
        nodes = ", ".join(f"{self._prefix}_{name}" for name in ("due_next", "due_at", "due_free"))
        return f"due_asked({self._queue}, {nodes}, timers, {self._number}, {key or self._key}, {due})"

    def is_only(self) -> str:
        """Return the condition under which no other wake-up waits behind the one that is done."""
        return f"{self._prefix}_due_next[{self._queue}[{self._key}]] == {self._queue}[{self._key}]"

    def wakes(self, body: list[str]) -> list[str]:
        """Return what is done when the first wake-up of the key is due, given what is done for each."""
        last = f"{self._queue}[{self._key}]"
        at = f"{self._prefix}_due_at[{self._prefix}_due_next[{last}]]"
        return [
            f"while {last} >= 0 and {at} <= now:",
            f"    due = {at}",
            # Others that are due at this time may fire later, so only what was due before is known to have
            "    if due - 1 > until:",
            "        until = due - 1",
            *indent([*_notes(self._arrays, str(self._number)), *body]),
            # Behind all that is done: a wake-up asked for meanwhile waits in the queue, and must set no second timer
            f"    due_done({self._queue}, {self._prefix}_due_next, {self._prefix}_due_free, {self._key})",
            f"if {last} >= 0:",
            f"    timer_set(timers, {at}, {self._number}, {self._key})",
        ]


def fired(blocks: dict[int, list[str]]) -> list[str]:
    """Return what wakes all that is due before a chunk, given what wakes each operator, by its rank."""
    choices: list[str] = []
    for number, lines in blocks.items():
        choices += [f"if block == {number}:", *indent(lines)]
    return [
        "while fires != 0 and timers[0] > 0 and timers[3] <= until_of[c]:",
        "    due, block, key = timers[3], timers[4], timers[5]",
        "    timer_gone(timers)",
        "    if due > now:",
        "        now = due",
        # Results of timers are numbered anew with each time of the clock
        "    if now != fired:",
        "        fired, fired_number = now, 0",
        "    number, rung = fired_number, now",
        *indent(choices),
        "    fired_number = number",
        "if fires != 0 and until_of[c] > until:",
        "    until = until_of[c]",
    ]
