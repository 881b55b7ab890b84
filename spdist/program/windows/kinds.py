"""The windows that have a typed form: what is known of each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from spdist.errors import Span
from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.language.types import Type

__all__ = [
    "CRON_RANK",
    "CRON_WINDOWS",
    "FAR",
    "JOINED",
    "NONE",
    "Batched",
    "Cron",
    "Frequent",
    "Kept",
    "Sessions",
    "Sliding",
    "Unique",
    "WindowBound",
]

#: What joins the texts of keys to one.
JOINED = "texts of keys"
#: Times from here on, and as far before 1970, are left to operators, which calculate without bounds.
FAR = 1 << 62
#: So far behind the numbers of queries those of timers of cron windows begin (`spdist.operators.windows.cron`).
CRON_RANK = 2_500_000
#: So far in front of these are those of named windows, behind cron triggers.
CRON_WINDOWS = 1 << 18
#: The length of a window that has one, and holds nothing.
NONE = -1


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


@dataclass(frozen=True)
class WindowBound:
    """The condition over what a window holds that bounds it.

    Parameters
    ----------
    text : str
        The condition, as the app has it.
    condition : Expression
        The condition.
    scope : Scope
        What its names mean: the event that enters or leaves, the first and the last one held; these have their
        timestamp behind the attributes.
    span : Span, optional
        Where the window stands.
    gathers : bool
        Whether events leave together, as a batch that ends where the condition does not hold; else the oldest ones do.
    includes : Expression, optional
        Whether the event that ends a batch belongs to it.
    passes : bool
        Whether an event is put out when it comes, and the batch only leaves together.
    """

    text: str
    condition: ast.Expression
    scope: Scope = field(compare=False)
    span: Span | None = None
    gathers: bool = False
    includes: ast.Expression | None = None
    passes: bool = False

    @cached_property
    def compared(self) -> frozenset[int]:
        """The attributes of events held that it looks at."""
        named = (self.scope.resolve(node) for node in self.condition.walk() if isinstance(node, ast.Variable))
        held, width = (1,) if self.gathers else (0, 1), len(self.scope.sources[0].schema)
        return frozenset(one.attribute for one in named if one.source in held and one.attribute < width)


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window that events leave one by one: after `length` others, or `span` ms; or come out of it then: `delays`.

    With `orders` it holds the `length` events that come first by these attributes, each ascending or descending; where
    `time` is an attribute, time is what that says of the events that come; with `unique` it has one event of each key.
    Where the length is `NONE` an event leaves as soon as it has come, and where it `resets`, all totals begin anew
    then; with a span, too, nothing ever leaves.
    With a `bound` it holds as many of the latest events as that allows, or batches of them.
    """

    length: int = 0
    span: int = 0
    delays: bool = False
    orders: tuple[tuple[int, bool], ...] = ()
    time: int | None = None
    unique: Unique | None = None
    resets: bool = False
    bound: WindowBound | None = None

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return {*(place for place, _ in self.orders), *self.times}

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return set() if self.time is None else {self.time}

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
    def compared(self) -> set[int]:
        """The attributes of events held that say which of them leave."""
        return {*self.known, *(() if self.bound is None else self.bound.compared)}

    @property
    def one_by_one(self) -> bool:
        """Whether an event that comes lets one leave at most, and time lets none."""
        return not self.span and self.bound is None

    @property
    def leaves_early(self) -> bool:
        """Whether an event may leave before it comes: it is too old, too many, or does not meet the condition."""
        return self.bound is not None or (self.unique is not None and bool(self.length or self.span))

    @property
    def gathers(self) -> bool:
        """Whether events leave together, as a batch that its condition ends, and are taken off the totals then."""
        return self.bound is not None and self.bound.gathers

    @property
    def opens(self) -> bool:
        """Whether it shows an open batch to who looks into it, and notes that."""
        return self.bound is not None and self.bound.gathers and not self.bound.passes

    @property
    def lists(self) -> tuple[str, ...]:
        """What it holds: all of it, or the open batch and the one released last; one that passes is both."""
        return ("head",) if not self.gathers else ("head", "left") if self.opens else ("left",)


@dataclass(frozen=True, slots=True)
class Sessions(Sliding):
    """A window that events leave together, once there was none of their key for `span` ms.

    Parameters
    ----------
    key : int, optional
        The place of the key; None where all events have one.
    """

    key: int | None = None


@dataclass(frozen=True, slots=True)
class Cron(Sliding):
    """A window that holds events back until a cron expression fires; those that it has released leave one by one then.

    Parameters
    ----------
    expression : str
        The expression.
    """

    expression: str = ""
    delays: bool = True

    @property
    def is_timed(self) -> bool:
        """Whether events leave it when time passes."""
        return True

    @property
    def lists(self) -> tuple[str, ...]:
        """What it holds: what waits, and what it has released last."""
        return ("head", "left")

    @property
    def is_left(self) -> bool:
        """Whether events leave it that have come."""
        return True


@dataclass(frozen=True, slots=True)
class Frequent(Sliding):
    """A window that holds the latest event of each key that comes often: of `length` keys, or of all that are counted.

    Parameters
    ----------
    counts : bool
        Whether all keys are counted that come often enough.
    share : float
        There: what part of all events those of a key must be, for them to pass.
    width : int
        There: after so many events those keys leave that came too seldom; 0: none ever does.
    """

    counts: bool = False
    share: float = 0.0
    width: int = 0

    @property
    def leaves_early(self) -> bool:
        """Whether an event may leave before it has entered the totals."""
        return self.counts

    @property
    def one_by_one(self) -> bool:
        """Whether an event that comes lets one leave at most, and time lets none."""
        return False


@dataclass(frozen=True, slots=True)
class Batched:
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
    def is_cut(self) -> bool:
        """Whether each chunk that comes is cut into pieces."""
        return self.chunked and bool(self.length)

    @property
    def keeps(self) -> bool:
        """Whether all that it has released is found for ever, where nobody is shown what leaves."""
        return not self.chunked and bool(self.length or self.span)

    @property
    def is_timed(self) -> bool:
        """Whether a batch is released when time passes."""
        return self.timeout > 0 if self.time is not None else bool(self.span)

    @property
    def counts(self) -> bool:
        """Whether it counts the events of a batch that pass immediately."""
        return self.passes and bool(self.length) and not self.chunked


#: A window.
Kept = Sliding | Batched
