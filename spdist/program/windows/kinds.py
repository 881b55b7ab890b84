"""What is known of a window that has a typed form: the two kinds that there are, and what each kind of its own adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema, Type

__all__ = [
    "CRON_RANK",
    "CRON_WINDOWS",
    "EARLIEST",
    "FAR",
    "JOINED",
    "NONE",
    "Batched",
    "Found",
    "Kept",
    "Sliding",
    "TypedWindow",
    "Unique",
    "WindowCall",
    "constant_of",
    "size_of",
]

#: What joins the texts of keys to one.
JOINED = "texts of keys"
#: Times from here on, and as far before 1970, are left to operators, which calculate without bounds.
FAR = 1 << 62
#: A time before all others.
EARLIEST = -(2**63)
#: So far behind the numbers of queries those of timers of cron windows begin (`spdist.operators.windows.cron`).
CRON_RANK = 2_500_000
#: So far in front of these are those of named windows, behind cron triggers.
CRON_WINDOWS = 1 << 18
#: The length of a window that has one, and holds nothing.
NONE = -1


class Found(Enum):
    """How a join finds what a window holds.

    As a list, oldest first; in the order of the buckets of its keys in a ``HashMap``; in that of a
    ``ConcurrentHashMap`` that keys never leave; or not at all.
    """

    LIST = "list"
    BUCKETS = "buckets"
    MAP = "map"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Unique:
    """What makes an event the only one of its window.

    Parameters
    ----------
    key : Expression
        The value that there is one event of.
    type : Type
        Of that.
    places : tuple of int
        The attributes that it is computed from.
    first : bool
        Whether the first event of a key stays; else the last one does.
    as_text : bool
        Whether keys are texts: null is the text that Java writes for it.
    """

    key: ast.Expression
    type: Type
    places: tuple[int, ...]
    first: bool = False
    as_text: bool = True


_WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window as an app writes it.

    Parameters
    ----------
    call : FunctionCall
        Its name and its arguments.
    schema : Schema
        The attributes of the events that come to it.
    scope : Scope
        What its arguments may name.
    selected : Sequence of int, optional
        The positions of the attributes that its query selects as they are; None: of all, as no query selects.
    """

    call: ast.FunctionCall
    schema: Schema
    scope: Scope
    selected: Sequence[int] | None = None

    @property
    def constants(self) -> tuple[Any, ...]:
        """The arguments' values where they are whole numbers, times (ms) or bools; None where they are not."""
        return tuple(map(constant_of, self.call.args))

    def place(self, argument: int) -> int | None:
        """Return the place of the attribute that an argument is; None where it is none, or is not given."""
        given = self.call.args[argument : argument + 1]
        return self.schema.index(given[0].name) if given and isinstance(given[0], ast.Variable) else None


def constant_of(value: ast.Expression) -> Any:
    """Return the value of a literal that an argument of a window is; None where it is something else."""
    if isinstance(value, ast.TimeLiteral):
        return value.milliseconds
    return value.value if isinstance(value, ast.Literal) and value.type in (*_WHOLE, Type.BOOL) else None


def size_of(length: int) -> int:
    """Return how many events a window holds of which an app says how many."""
    return length if length > 0 else NONE


@dataclass(frozen=True, slots=True)
class TypedWindow:
    """A window with a typed form: what its app says of it, who writes it, and who knows its state.

    Each kind has a class of its own, below `Sliding` or `Batched`, in one file with what that names
    (`spdist.program.registry`).
    """

    @classmethod
    def of(cls, given: WindowCall) -> Kept | None:
        """Return what an app says; None, or raises NotTyped with the reason, where that has no typed form."""
        raise NotImplementedError

    @property
    def writer(self) -> type[Any]:
        """What writes it in a query: a `WindowWriter`, or a `BatchWriter` where results are later than events."""
        raise NotImplementedError

    @property
    def states(self) -> Any:
        """What takes its state over from operators, and gives it back: a `WindowStates`."""
        raise NotImplementedError

    @property
    def fires_last(self) -> bool:
        """Whether its timers fire behind those of all windows that do not say so."""
        return False

    @property
    def is_woken(self) -> bool:
        """Whether events may leave by time behind others that stay: then it matters when they are looked at."""
        return False

    @property
    def regroups(self) -> bool:
        """Whether the groups of events that leave are looked for then: they may be gone, or never have been."""
        return False

    @property
    def rooms(self) -> tuple[str, ...]:
        """The rooms in which each event may take a place, besides its node; ``{}`` is the prefix of its query."""
        return ()

    @property
    def is_joined(self) -> bool:
        """Whether it may stand on a side of a join."""
        return True

    @property
    def shares_period(self) -> bool:
        """Whether its open period is one for all keys of a partition."""
        return False

    @property
    def lists_keys(self) -> bool:
        """Whether the list of a window with one event of each key is that of all of these."""
        return False

    def next_after(self, now: int) -> int | None:
        """Return when a window that asks for it fires next, ms; None where it never does."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sliding(TypedWindow):
    """A window that events leave one by one: after `length` others, or `span` ms.

    Where `time` is an attribute, time is what that says of the events that come; with `unique` it has one event of each
    key. Where the length is `NONE` an event leaves as soon as it has come, and where it `resets`, all totals begin anew
    then; with a span, too, nothing ever leaves.
    """

    length: int = 0
    span: int = 0
    time: int | None = None
    unique: Unique | None = None
    resets: bool = False

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return self.times

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return set() if self.time is None else {self.time}

    @property
    def compared(self) -> set[int]:
        """The attributes of events held that say which of them leave."""
        return self.known

    @property
    def delays(self) -> bool:
        """Whether events come out of it when others leave it: later than they come."""
        return False

    @property
    def is_timed(self) -> bool:
        """Whether events leave it when time passes."""
        return bool(self.span) and self.time is None and not self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return self.length == NONE and self.unique is None

    @property
    def is_left(self) -> bool:
        """Whether events leave it that have come."""
        return not (self.delays or (self.is_empty and self.span))

    @property
    def is_even(self) -> bool:
        """Whether all events leave that come, each once, and no others."""
        return self.unique is None and not self.delays

    @property
    def is_queue(self) -> bool:
        """Whether what a join finds is a list that events leave in the order in which they came."""
        return self.found is Found.LIST and self.unique is None and not self.gathers

    @property
    def found(self) -> Found:
        """How a join finds what it holds."""
        # Only `unique:ever` and `unique:first` keep their keys for ever, so they alone show Siddhi's map of them
        return Found.MAP if self.unique is not None and not (self.length or self.span) else Found.LIST

    @property
    def found_in(self) -> str:
        """Which of its lists that is."""
        return "head"

    @property
    def one_by_one(self) -> bool:
        """Whether an event that comes lets one leave at most, and time lets none."""
        return not self.span

    @property
    def leaves_early(self) -> bool:
        """Whether an event may leave before it comes: it is too old, too many, or does not meet the condition."""
        return False

    @property
    def asks_again(self) -> bool:
        """Whether events that it holds ask for a wake-up once more when they are woken."""
        return False

    @property
    def gathers(self) -> bool:
        """Whether events leave together, as a batch, and are taken off the totals then."""
        return False

    @property
    def opens(self) -> bool:
        """Whether it shows an open batch to who looks into it, and notes that."""
        return False

    @property
    def lists(self) -> tuple[str, ...]:
        """What it holds: all of it, or the open batch and the one released last; one that passes is both."""
        return ("head",)


@dataclass(frozen=True, slots=True)
class Batched(TypedWindow):
    """A window that events leave together: after `length` of them, or `span` ms.

    Parameters
    ----------
    length, span : int
        How many events are a batch, or how long it is open; where nothing is said each event is one, and leaves as soon
        as it has come. `NONE`: there is never one.
    start : int, optional
        A time from which periods are counted, ms; else from the first event.
    started : int, optional
        The attribute of the first event that says from which time.
    timeout : int
        For how long no event may open a new period until the open one is released, ms; 0: for ever.
    replaces : bool
        Whether the attribute that says what time it is becomes the end of the period.
    passes : bool
        Whether an event is put out when it comes, and the batch only leaves together.
    time : int, optional
        The attribute that says what time it is.
    chunked : bool
        Whether each chunk that comes is a batch, cut into pieces of `length` where that is given.
    unique : Unique, optional
        What a batch has one event of.
    """

    length: int = 0
    span: int = 0
    start: int | None = None
    passes: bool = False
    time: int | None = None
    chunked: bool = False
    unique: Unique | None = None
    started: int | None = None
    timeout: int = 0
    replaces: bool = False

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return self.times

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return {place for place in (self.time, self.started) if place is not None}

    @property
    def compared(self) -> set[int]:
        """The attributes of events held that say which of them leave."""
        return self.known

    @property
    def is_even(self) -> bool:
        """Whether all events leave that come, each once, and no others."""
        return self.unique is None

    @property
    def is_queue(self) -> bool:
        """Whether what a join finds is a list that events leave in the order in which they came."""
        return self.found is Found.LIST and self.unique is None

    @property
    def regroups(self) -> bool:
        """Whether the groups of events that leave are looked for then: they are gone with the piece of a chunk."""
        return self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether each chunk that comes is cut into pieces."""
        return self.chunked and bool(self.length)

    @property
    def keeps(self) -> bool:
        """Whether what it has released is found, where nobody is shown what leaves."""
        # `batch` keeps its last chunk only to let it expire, as in Siddhi: else a join finds nothing of it
        return not self.chunked and bool(self.length or self.span)

    @property
    def takes_off(self) -> bool:
        """Whether what leaves is taken off totals also where nobody is shown that, as in Siddhi."""
        return self.unique is not None and self.time is None

    @property
    def replaces_released(self) -> bool:
        """Whether that is what was released last, and not all that ever was."""
        return self.unique is not None or self.time is not None

    @property
    def found(self) -> Found:
        """How a join finds what it holds."""
        # What is still open is a HashMap in Siddhi, what was released is a list
        return Found.BUCKETS if self.found_in == "head" else Found.LIST

    @property
    def found_in(self) -> str:
        """Which of its lists that is: what was released, or keys that wait until there are enough."""
        return "head" if self.unique is not None and not self.span else "left"

    @property
    def is_timed(self) -> bool:
        """Whether a batch is released when time passes."""
        return self.timeout > 0 if self.time is not None else bool(self.span)

    @property
    def copies(self) -> bool:
        """Whether the event that a sign copies which lets totals begin anew may be gone, or changed, by then."""
        return self.passes or self.unique is not None or self.timeout > 0 or self.replaces

    @property
    def counts(self) -> bool:
        """Whether it counts the events of a batch that pass immediately."""
        return self.passes and bool(self.length) and not self.chunked


#: A window.
Kept = Sliding | Batched
