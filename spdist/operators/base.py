"""What all operators stand on: kinds of events, and what a window is; clock and timers are in `timers`.

An *event* inside a query is ``(kind, timestamp, row)``; a *chunk* is a list of events that were released together,
which matters because an aggregating query puts out only the last result of a chunk. Between queries events are
``(timestamp, row)``: what leaves a window and is inserted into a stream is a new event there.

Source: io.siddhi.core.event.ComplexEvent (types), described in our own words.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from spdist.language.ast import FunctionCall
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.operators.timers import ALWAYS, NOT_NOW, Periodic, Rests, Timer, Timers, VirtualClock

__all__ = [
    "ALWAYS",
    "CURRENT",
    "EXPIRED",
    "NOT_NOW",
    "RESET",
    "Arrival",
    "Event",
    "Periodic",
    "Rests",
    "Row",
    "Timer",
    "Timers",
    "VirtualClock",
    "Window",
    "WindowLoop",
    "WindowSetting",
    "accept_former_names",
    "expiring",
]

#: An event that enters, one that leaves a window, and the sign to aggregators to start from nothing.
CURRENT: Final = 0
EXPIRED: Final = 1
RESET: Final = 2

Row = tuple[Any, ...]
#: Inside a query: kind, timestamp in ms, data.
Event = tuple[int, int, Row]
#: Between queries: timestamp in ms, data.
Arrival = tuple[int, Row]


@dataclass(slots=True)
class WindowSetting:
    """What a window is made from; made anew for each partition key.

    Parameters
    ----------
    constants : tuple
        The arguments' values where they are literals (time literals in ms), None where they are attributes.
    attributes : tuple[int | None, ...]
        The arguments' positions in the row where they are attributes, None where they are literals.
    expects_expired : bool
        Whether the query can put out expired events; batch windows hand none over where it cannot.
    clock : VirtualClock
        The app's time.
    timer : Callable
        Makes the window's timer from the function to wake.
    emit : Callable[[list[Event]], None]
        Takes each chunk that the window releases.
    shared : dict
        Kept once for all partition keys: what Siddhi keeps on the operator and not in the key's state.
    findable : bool
        Whether somebody looks into the window; batch windows keep the batch they released last only then, or where
        expired events are expected.
    partitioned : bool
        Whether this is the window of one partition key; Siddhi drops what it takes for empty there.
    selected : tuple[int, ...]
        The positions of the attributes that the query selects as they are; of all where no query selects.
    prepared : Any
        What `Window.prepare` gave, once for all partition keys.
    """

    constants: tuple[Any, ...]
    attributes: tuple[int | None, ...]
    expects_expired: bool
    clock: VirtualClock
    timer: Callable[[Callable[[int], None]], Timer]
    emit: Callable[[list[Event]], None]
    shared: dict[str, Any] = field(default_factory=dict)
    findable: bool = False
    partitioned: bool = False
    selected: tuple[int, ...] = ()
    prepared: Any = None


@dataclass(frozen=True, slots=True)
class WindowLoop:
    """A window written into a loop over single events (`spdist.operators.queries.loops`).

    Parameters
    ----------
    setup : tuple of str
        Lines that get at the state of ``window``; a snapshot taken over replaces it, so they run for each batch.
    lines : tuple of str
        Lines that hold the event ``new`` which came ``at`` its time, and set ``gone`` to the arrivals that leave.
    releases : bool
        Whether the lines do all that is to be done, also releasing a batch; else the new event goes on immediately.
    """

    setup: tuple[str, ...]
    lines: tuple[str, ...]
    releases: bool = False


class Window(ABC):
    """Keeps events for a while; releases them as CURRENT when they enter and as EXPIRED when they leave.

    ``slides`` is True where events leave one by one, False where they leave in batches with a RESET. ``queues`` is True
    where what is held is a queue: each CURRENT that is released has entered at its end, each EXPIRED has left at its
    head, and nothing else changes it. Indexes follow such a window; of others they are made anew.
    """

    slides: ClassVar[bool] = True

    @staticmethod
    def loop(constants: tuple[Any, ...]) -> WindowLoop | None:
        """Return how a window with these arguments is written into a loop; None where it is called instead."""
        return None

    @staticmethod
    def prepare(title: str, call: FunctionCall, scope: Scope, catalog: Catalog) -> Any:
        """Return what all windows of this call share, such as arguments that are compiled; raises where one is wrong.

        Parameters
        ----------
        title : str
            For messages and tracebacks.
        call : FunctionCall
            The window as it is written.
        scope : Scope
            What its arguments may name.
        catalog : Catalog
            Signatures.
        """
        return None

    queues: bool = False
    #: Whether somebody can look into it; in a join, what cannot be looked into is followed by what holds nothing.
    findable: ClassVar[bool] = True
    #: Whether it keeps what it has released where only current events are put out and no join looks into it.
    keeps: bool = False
    #: How many of the events held somebody has looked at; counted only where it is not None.
    looked: int | None = None

    def note_lookup(self) -> None:  # noqa: B027 - most windows need not know
        """Take note that somebody looks at everything held."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        accept_former_names(cls, {"one": "process", "many": "process_chunk", "look": "note_lookup"})

    def __init__(self, setting: WindowSetting) -> None:
        self.clock = setting.clock
        self.emit = setting.emit

    @abstractmethod
    def process(self, timestamp: int, row: Row) -> None:
        """Process one event that arrives as a chunk of its own."""

    @abstractmethod
    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Process the events of one chunk."""

    @abstractmethod
    def contents(self) -> Iterable[Arrival]:
        """Yield what the window holds now, oldest first."""

    @abstractmethod
    def snapshot(self) -> Any:
        """Return the state as plain data."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""


def accept_former_names(cls: type, names: Mapping[str, str]) -> None:
    """Let methods that a class defines under former names stand under their present ones, with a warning.

    Parameters
    ----------
    cls : type
        What somebody registers.
    names : mapping of str to str
        From former to present names.
    """
    for former, name in names.items():
        if former in vars(cls) and name not in vars(cls):
            setattr(cls, name, vars(cls)[former])
            message = f"{cls.__name__}.{former} is called {name} now"
            warnings.warn(message, DeprecationWarning, stacklevel=4)  # where the class is defined, beyond its metaclass


def expiring(held: Sequence[Arrival], looked: int | None, now: int) -> list[Event]:
    """Return what a batch window holds as EXPIRED events.

    They expire now; but those that somebody has looked at since they were released keep their own timestamps: Siddhi
    goes on with the pass over its queue that the look began.
    """
    seen = looked or 0
    return [(EXPIRED, timestamp, row) for timestamp, row in held[:seen]] + [
        (EXPIRED, now, row) for _, row in held[seen:]
    ]
