"""What a loop and the operators that it calls tell each other: the places of one small array of whole numbers."""

from __future__ import annotations

__all__ = [
    "CAUSE",
    "DUE",
    "ELEMENT",
    "FIRED",
    "FIRED_NUMBER",
    "FIRES",
    "LIMIT",
    "NESTED",
    "NEVER_DUE",
    "NEXT_DUE",
    "NEXT_ELEMENT",
    "NOW",
    "NO_ELEMENT",
    "NUMBER",
    "OWN_DUE",
    "PICKED",
    "RUNG",
    "SHARED",
    "WAKE",
]

#: The rank of the event that is processed, or before which a timer fires.
CAUSE = 0
#: Which of all that the cause puts out the next event is.
NUMBER = 1
#: The clock, ms.
NOW = 2
#: When the timer is that puts out what is put out, ms; `spdist.operators.core.junction.NO_TIMER` where an event does.
RUNG = 3
#: The time of the timer that fired last in this call, ms, and how much timers have put out at it.
FIRED = 4
FIRED_NUMBER = 5
#: Of the latest timer that has fired: the rank of its query (`NO_ELEMENT`: none fires), and when it was due, ms.
ELEMENT = 6
DUE = 7
#: Of the operators' first timer: when it is due, ms (`NEVER_DUE`: there is none), and the rank of its query.
NEXT_DUE = 8
NEXT_ELEMENT = 9
#: Until when timers are to fire, and when the loop's own first one is due, ms.
LIMIT = 10
OWN_DUE = 11
#: How many events of the chunk an element is called with, where it has conditions.
PICKED = 12
#: How many places there are.
SHARED = 13

NO_ELEMENT = -(2**62)
NEVER_DUE = 2**63 - 1

#: In the place of an element: the operators' first timer is due.
WAKE = -1
#: What `run` is given as ``fires``: whether timers fire, or that it is called by an element that was called.
FIRES = 1
NESTED = 2
