"""Which windows have a typed form, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

from spdist.errors import SiddhiAppError, Span
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema, Type
from spdist.operators.windows.condition import parsed_condition
from spdist.program.expressions import NotTyped

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
    "events_of",
    "filters_of",
    "is_listed",
    "is_queue",
    "shows_snapshots",
    "window_of",
]

_WHOLE = (Type.INT, Type.LONG)
_REALS = (Type.FLOAT, Type.DOUBLE)
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


def events_of(checked: CheckedQuery) -> str:
    """Return which results a query puts out that events can leave: a snapshot needs all, where nothing is said."""
    return checked.query.output.events or ("all" if shows_snapshots(checked) else "current")


def is_listed(window: Kept | None) -> bool:
    """Tell whether what a window holds, or has released last, is a list in the order of the operators."""
    return window is None or not (window.unique or isinstance(window, Sessions | Cron))


def is_queue(window: Kept | None) -> bool:
    """Tell whether events leave the list of a window in the order in which they came."""
    slides = window if isinstance(window, Sliding) else Sliding()
    return is_listed(window) and not (slides.orders or slides.delays or slides.gathers)


def shows_snapshots(checked: CheckedQuery) -> bool:
    """Tell whether a rate limit shows the results that stand, over and over."""
    rate = checked.query.rate
    return rate is not None and rate.kind == "snapshot"


def filters_of(handlers: Sequence[ast.Node], span: Span | None) -> tuple[ast.Expression, ...]:
    """Return the conditions that stand in front of a window; raises NotTyped where something else does."""
    filters = tuple(one.condition for one in handlers if isinstance(one, ast.Filter))
    if len(filters) < len(handlers):
        raise NotTyped("a stream function", span)
    return filters


def window_of(
    given: ast.SingleInput, schema: Schema, scope: Scope, selected: Sequence[ast.Variable] | None = None
) -> Kept | None:
    """Return the window of a query over a stream with these attributes, None without; raises NotTyped.

    `selected` are the attributes that the query selects as they are, where those are not all.
    """
    window = given.window
    if window is None:
        return None
    if window.namespace == "unique":
        return _unique(window, schema, scope)
    if window.id == "sort":
        return _sorted(window, schema)
    if window.id == "session":
        return _sessions(window, schema)
    if window.id == "cron" and isinstance(window.args[0], ast.Literal):
        return Cron(expression=str(window.args[0].value))
    if window.id in ("frequent", "lossyFrequent"):
        return _frequent(window, schema, scope, selected)
    if window.id in ("expression", "expressionBatch"):
        return Sliding(bound=_bound(window, scope))
    constants = tuple(map(_constant, window.args))
    time = schema.index(window.args[0].name) if window.args and isinstance(window.args[0], ast.Variable) else None
    found: Kept | None = None
    match window.id, constants:
        case "length", (int(length),):
            found = Sliding(length=_size(length), resets=length < 1)
        case "time", (int(span),) if span > 0:
            found = Sliding(span=span)
        case "timeLength", (int(span), int(length)) if span > 0:
            found = Sliding(length=_size(length), span=span)
        case "batch", () | (0,):
            found = Batched(passes=True, chunked=True)
        case "batch", (int(length),) if length > 0:
            found = Batched(length=length, passes=True, chunked=True)
        case "externalTime", (None, int(span)) if span > 0:
            found = Sliding(span=span, time=time)
        case "externalTimeBatch", (None, int(span), *_):
            found = _external(Batched(span=span, time=time), window.args[2:], schema)
        case "delay", (int(span),) if span > 0:
            found = Sliding(span=span, delays=True)
        case "lengthBatch", (int(length), *passes) if passes in ([], [False]) or (length >= 0 and passes == [True]):
            found = Batched(length=max(length, NONE), passes=length > 0 and passes == [True])
        case "timeBatch", (int(span), *options) if span > 0 and None not in options:
            starts = [one for one in options if isinstance(one, int) and not isinstance(one, bool)]
            found = Batched(span=span, start=starts[0] if starts else None, passes=options[-1:] == [True])
    if found is None:
        raise NotTyped(f"the window {window.id}", window.span)
    return found


def _unique(window: ast.FunctionCall, schema: Schema, scope: Scope) -> Kept:
    """Return a window with one event of each key."""
    key, *more = window.args
    constants = tuple(map(_constant, more))
    time = schema.index(more[0].name) if more and isinstance(more[0], ast.Variable) else None
    found: Kept | None = None
    match window.name, constants:
        case "ever" | "first", _:
            found = Sliding()
        case "length", (int(length),):
            found = Sliding(length=_size(length))
        case "time", (int(span),) if span > 0:
            found = Sliding(span=span)
        case "lengthBatch" | "firstLengthBatch", (int(length),) if length > 0:
            found = Batched(length=length)
        case "timeBatch" | "firstTimeBatch", (int(span), *start) if span > 0 and start != [None]:
            found = Batched(span=span, start=_start(start))
        case "timeLengthBatch", (int(span), *start, int(length)) if span > 0 and length > 0 and start != [None]:
            found = Batched(length=length, span=span, start=_start(start))
        case "externalTimeBatch", (None, int(span), *start) if span > 0 and start != [None] and len(start) < 2:
            found = Batched(span=span, start=_start(start), time=time)
    if found is None:
        raise NotTyped(f"the window {window.id}", window.span)
    first = window.name.startswith("first")
    as_text = first or not isinstance(found, Batched) or time is not None
    several = isinstance(found, Sliding) and not (found.length or found.span) and bool(more)
    # A real is looked for in a table by its text.
    real = first and isinstance(found, Batched) and type_of(key, scope, catalog(False)) in _REALS
    own = _keyed(window.args if several else (key,), window, schema, scope, joined=several or real)
    return replace(found, unique=replace(own, first=first, as_text=as_text))


def _keyed(
    keys: Sequence[ast.Expression], window: ast.FunctionCall, schema: Schema, scope: Scope, joined: bool
) -> Unique:
    """Return what makes events the only ones; where keys are `joined`, one text is made of them."""
    key = ast.FunctionCall(JOINED, tuple(keys), span=window.span) if joined else keys[0]
    type = Type.STRING if joined else type_of(key, scope, catalog(False))
    named = {node.name for node in key.walk() if isinstance(node, ast.Variable)}
    places = tuple(sorted(place for name in named if (place := schema.index(name)) is not None))
    return Unique(key, type, places)


def _frequent(
    window: ast.FunctionCall, schema: Schema, scope: Scope, selected: Sequence[ast.Variable] | None
) -> Frequent:
    """Return a window ``frequent`` or ``lossyFrequent``; for `selected` see `window_of`."""
    constants = [one.value for one in window.args if isinstance(one, ast.Literal)]
    given = [one for one in window.args if isinstance(one, ast.Variable)]
    keys = given or (list(map(ast.Variable, schema.names)) if selected is None else selected)
    types = {type_of(one, scope, catalog(False)) for one in keys}
    if not keys or Type.OBJECT in types:
        raise NotTyped(f"the window {window.id} of what is no text", window.span)
    unique = _keyed(keys, window, schema, scope, joined=len(keys) > 1 or bool(types.intersection(_REALS)))
    if window.id == "frequent":
        return Frequent(length=int(str(constants[0])), unique=unique)
    support, error = (float(str(one)) for one in constants)
    return Frequent(counts=True, share=support - error, width=ceil(1 / error) if error else 0, unique=unique)


def _external(window: Batched, given: Sequence[ast.Expression], schema: Schema) -> Batched | None:
    """Return a window ``externalTimeBatch`` with what is said of its start, timeout and times; None: not typed."""
    start, timeout, replaces = (*map(_constant, given), None, None, None)[:3]
    started = schema.index(given[0].name) if given and isinstance(given[0], ast.Variable) else None
    if given and start is None and started is None:
        return None
    return replace(
        window,
        start=start if isinstance(start, int) else None,
        started=started,
        timeout=max(timeout, 0) if isinstance(timeout, int) else 0,
        replaces=replaces is True,
    )


def _size(length: int) -> int:
    """Return how many events a window holds of which an app says how many."""
    return length if length > 0 else NONE


def _start(given: list[object]) -> int | None:
    """Return from when periods are counted, ms; None where nothing is said of that."""
    return given[0] if given and isinstance(given[0], int) else None


def _sorted(window: ast.FunctionCall, schema: Schema) -> Sliding:
    """Return a window ``sort``."""
    length, *by = window.args
    orders: list[tuple[int, bool]] = []
    for one in by:
        if isinstance(one, ast.Variable):
            place = schema.index(one.name)
            assert place is not None
            if schema.types[place] is Type.OBJECT:
                raise NotTyped("an order of objects", window.span)
            orders.append((place, False))
        elif isinstance(one, ast.Literal):
            orders[-1] = orders[-1][0], str(one.value).lower() == "desc"
    size = _constant(length)
    assert isinstance(size, int)
    return Sliding(length=_size(size), orders=tuple(orders) if size > 0 else ())


def _sessions(window: ast.FunctionCall, schema: Schema) -> Sessions:
    """Return a window ``session``."""
    gap, *more = window.args
    span = _constant(gap)
    if not isinstance(span, int) or span < 1 or (more[1:] and _constant(more[1]) != 0):
        raise NotTyped("the window session with a latency", window.span)
    return Sessions(span=span, key=schema.index(more[0].name) if more and isinstance(more[0], ast.Variable) else None)


def _bound(window: ast.FunctionCall, scope: Scope) -> WindowBound:
    """Return the condition of a window ``expression`` or ``expressionBatch``."""
    text, *options = window.args
    if not isinstance(text, ast.Literal):
        raise NotTyped(f"the window {window.id} by a text that events bring", window.span)
    try:
        condition, own = parsed_condition(str(text.value), scope.sources[0], catalog(False))
    except SiddhiAppError:  # it calls a function that the app defines
        raise NotTyped(f"the window {window.id} by what is no condition here", window.span) from None
    return WindowBound(
        str(text.value),
        condition,
        own,
        window.span,
        gathers=window.id == "expressionBatch",
        includes=options[0] if options else None,
        passes=len(options) > 1 and _constant(options[1]) is True,
    )


def _constant(value: ast.Expression) -> object:
    """Return the value of a literal that an argument of a window is; None where it is something else."""
    if isinstance(value, ast.TimeLiteral):
        return value.milliseconds
    return value.value if isinstance(value, ast.Literal) and value.type in (*_WHOLE, Type.BOOL) else None
