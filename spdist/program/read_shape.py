"""Queries over one stream: which of them have a typed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.scope import Reference
from spdist.language.types import Schema, Type
from spdist.operators.selection.aggregates import aggregates_in, totals_in
from spdist.program.expressions import NotTyped
from spdist.program.functions.expansion import Expansion, expansion_of
from spdist.program.functions.forms import CLOCKS
from spdist.program.processors.kinds import Processor
from spdist.program.processors.shape import is_processor, processor_of
from spdist.program.windows.kinds import Batched, Kept, Sliding
from spdist.program.windows.shape import events_of, filters_of, shows_snapshots, window_of

__all__ = ["WINDOWS", "LoopWindow", "Read", "read"]

#: So far in front of the numbers of queries those of named windows begin: so their timers come first.
WINDOWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Read:
    """A query over one stream.

    Parameters
    ----------
    number : int
        Its place in the app.
    checked : CheckedQuery
        The query.
    stream : str
        What it reads.
    schema : Schema
        The attributes of that.
    filters : tuple of Expression or StreamFunction
        Conditions in front of the window, and where a line is written to the log.
    window : Sliding or Batched, optional
        Its window.
    events : str
        Which events are put out: ``current``, ``expired`` or ``all``.
    behind : tuple of Expression
        Conditions behind the window: an event that does not meet them passes its totals and results by, when it enters
        and when it leaves.
    released : LoopWindow, optional
        The named window whose events it reads, those that leave it, too.
    expansion : Expansion, optional
        What stream functions make of an event of the stream, in front of the other conditions.
    processor : Processor, optional
        The stream processor behind that, with what stands between; `filters` are behind it then.
    """

    number: int
    checked: CheckedQuery
    stream: str
    schema: Schema
    filters: tuple[ast.Expression | ast.StreamFunction, ...]
    window: Kept | None
    events: str
    behind: tuple[ast.Expression, ...] = ()
    released: LoopWindow | None = None
    expansion: Expansion | None = None
    processor: Processor | None = None

    @property
    def expanded(self) -> str:
        """The prefix of the arrays of the events that stream functions make."""
        return f"x{self.number}"

    @property
    def streams(self) -> tuple[str, ...]:
        """What it reads, each once."""
        return (self.stream,)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the attributes, by place."""
        return tuple(self.schema.types)

    @property
    def star(self) -> tuple[int, ...]:
        """The places of what ``select *`` means."""
        return tuple(range(len(self.schema)))

    def place(self, reference: Reference) -> int:
        """Return the place of what a name means."""
        return reference.attribute

    @property
    def puts_out_current(self) -> bool:
        """Whether there are results for events that come."""
        return self.events != "expired"

    @property
    def puts_out_expired(self) -> bool:
        """Whether there are results for events that leave the window."""
        return self.events != "current"

    @property
    def leaving(self) -> bool:
        """Whether events can be taken off the totals again, and not only all of them at a time."""
        if self.released is not None:
            return True
        window = self.window
        return window is not None and (isinstance(window, Sliding) or self.puts_out_expired or self.takes_off)

    @property
    def takes_off(self) -> bool:
        """Whether what leaves is taken off the totals also where nobody is shown that: they may not begin anew."""
        window = self.window
        return isinstance(window, Batched) and window.takes_off and totals_in(self.checked.query.select)

    @property
    def timed(self) -> bool:
        """Whether something is done when time passes, and no event comes."""
        if self.window is not None and self.window.is_woken:
            return True
        # Who asks for what a window holds may see what operators have not let leave yet.
        told = self.waits or self.puts_out_expired or self.batches or self.shows_held
        return self.window is not None and self.window.is_timed and told

    @property
    def batches(self) -> bool:
        """Whether the window releases batches."""
        return isinstance(self.window, Batched)

    @property
    def renews(self) -> bool:
        """Whether what is put out is batches of events that come, each with totals of its own."""
        return self.batches and self.waits and not (self.puts_out_expired or self.takes_off)

    @property
    def lists(self) -> tuple[str, ...]:
        """What the window holds: the open batch or all of it, and the batch that was released last."""
        if isinstance(self.window, Sliding):
            return self.window.lists
        return (*(("head",) if self.waits else ()), *(("left",) if self.window and self.keeps_released else ()))

    @property
    def keeps_released(self) -> bool:
        """Whether the batch that was released last is kept."""
        return self.puts_out_expired or self._is_late or self.takes_off

    @property
    def _is_late(self) -> bool:
        """Whether events may join a batch that was released."""
        return isinstance(self.window, Batched) and self.window.timeout > 0

    @property
    def waits(self) -> bool:
        """Whether results for events that come are there later than they."""
        window = self.window
        if isinstance(window, Sliding):
            return window.delays or window.gathers
        return window is not None and not window.passes

    @property
    def shows_held(self) -> bool:
        """Whether all that the window holds may be asked for."""
        return False

    @property
    def is_even(self) -> bool:
        """Whether all events leave that it reads from a named window, each once, if any do, and no others."""
        looks = [node for one in self.filters for node in one.walk()]
        # By the time or a table a condition may let an event enter, but not leave, or the other way round
        times = (*CLOCKS, "eventTimestamp")
        differs = any(isinstance(node, ast.FunctionCall) and node.id in times for node in looks)
        differs = differs or any(isinstance(node, ast.In) for node in looks)
        return self.released is None or (self.released.is_even and not differs)


@dataclass(frozen=True, slots=True)
class LoopWindow(Read):
    """A named window: a query over what is inserted into it, which puts out what it releases, with its kinds.

    It stands once, whoever inserts. Its target is a stream of its own, which those read who read the window.

    Parameters
    ----------
    index : tuple of int
        The attributes by which joins look into it; empty where they look at all that it holds.
    joined : bool
        Whether joins look into it.
    """

    index: tuple[int, ...] = ()
    joined: bool = False

    @property
    def keeps_released(self) -> bool:
        """Whether the batch that was released last is kept, or all that ever were; see `BatchWriter`."""
        chunked = isinstance(self.window, Batched) and self.window.chunked
        return self.puts_out_expired or self._is_late or (self.joined and not chunked)

    @property
    def shows_held(self) -> bool:
        """Whether all that the window holds may be asked for."""
        return True

    @property
    def is_even(self) -> bool:
        """Whether all events leave that enter, each once, and no others; or none at all."""
        is_even = self.window is not None and self.window.is_even
        return self.events == "current" or (self.events == "all" and is_even)


def read(
    checked: CheckedQuery,
    given: ast.SingleInput,
    number: int,
    windows: Mapping[str, LoopWindow],
    width: int | None,
) -> Read:
    """Return a query over a stream, or over one of these named windows; raises NotTyped.

    Parameters
    ----------
    checked, given, number
        The query, its input and its place in the app.
    windows : mapping of str to LoopWindow
        The named windows that have a typed form.
    width : int, optional
        How many attributes the stream has; None for an inner one and for a named window.
    """
    source = checked.scope.sources[0]
    released = windows.get(source.stream_id) if source.kind == "window" else None
    if source.kind != "stream" and (released is None or given.window is not None):
        raise NotTyped("what is not read from a stream", given.span)
    stream = source.stream_id if released is None else released.checked.target
    window = window_of(given, source.schema, checked.scope, checked.selected())
    # Without a window nothing tells what is in front of it from what is behind
    handlers = given.before if window is not None else (*given.before, *given.after)
    at = next((place for place, one in enumerate(handlers) if is_processor(one)), len(handlers))
    expansion, filters = _expanded(checked, given, handlers[:at], width, window)
    processor: Processor | None = None
    if at < len(handlers):
        if released is not None:
            raise NotTyped("a stream processor of a named window", given.span)
        processor = _processor(handlers[at], filters, checked, width)
        filters = _conditions(handlers[at + 1 :])
    events = events_of(checked)
    if events == "all" and window is None and released is None:  # none leaves
        events = "current"
    looks = [node for node in checked.query.walk() if isinstance(node, ast.In)]
    if any(isinstance(below, ast.In) for node in looks for below in node.operand.walk()):
        raise NotTyped("'in' of a table within another one", checked.query.span)
    if events == "expired" and released is not None and shows_snapshots(checked):
        raise NotTyped("a snapshot of what leaves a named window", given.span)
    made = Read(number, checked, stream, source.schema, filters, window, events, (), released, expansion, processor)
    return made if window is None or not given.after else replace(made, behind=_behind(made, window, given))


def _expanded(
    checked: CheckedQuery,
    given: ast.SingleInput,
    handlers: Sequence[ast.Handler],
    width: int | None,
    window: Kept | None,
) -> tuple[Expansion | None, tuple[ast.Expression | ast.StreamFunction, ...]]:
    """Return what stream functions make of an event, and what stands behind them; raises NotTyped."""
    computing = [place + 1 for place, one in enumerate(handlers) if not (isinstance(one, ast.Filter) or _logs(one))]
    last = max(computing, default=0)
    rest = _conditions(handlers[last:])
    if not last:
        return None, rest
    expansion = expansion_of(handlers[:last], checked.scope, width or 0)
    if width is None or (window is not None and any(place >= width for place in window.known)):
        raise NotTyped("a stream function here", given.span)
    return expansion, rest


def _conditions(handlers: Sequence[ast.Handler]) -> tuple[ast.Expression | ast.StreamFunction, ...]:
    """Return conditions, and what writes to the log; raises NotTyped where there is something else."""
    for one in handlers:
        if not (isinstance(one, ast.Filter) or _logs(one)):
            raise NotTyped("a stream function behind a stream processor", one.span)
    return tuple(one.condition if isinstance(one, ast.Filter) else one for one in handlers)


def _processor(
    handler: ast.Handler,
    filters: tuple[ast.Expression | ast.StreamFunction, ...],
    checked: CheckedQuery,
    width: int | None,
) -> Processor:
    """Return a stream processor, with what stands between it and what stream functions make."""
    assert isinstance(handler, ast.StreamFunction)
    made = processor_of(handler.call, filters, checked.scope)
    if width is not None and any(place >= width for place in made.known):
        raise NotTyped("a stream processor by what a stream function appends", handler.span)
    return made


def _logs(handler: ast.Handler) -> bool:
    """Tell whether a handler only writes a line to the log."""
    return isinstance(handler, ast.StreamFunction) and handler.call.id == "log"


def _behind(made: Read, window: Kept, given: ast.SingleInput) -> tuple[ast.Expression, ...]:
    """Return the conditions behind a window; raises NotTyped where one may differ between entering and leaving."""
    conditions = filters_of(given.after, given.span)
    nodes = [node for one in conditions for node in one.walk()]
    if any(isinstance(node, ast.FunctionCall) and node.id in (*CLOCKS, "eventTimestamp") for node in nodes):
        raise NotTyped("the time in a filter behind a window", given.span)
    if any(isinstance(node, ast.In) for node in nodes):
        raise NotTyped("'in' of a table in a filter behind a window", given.span)
    select = made.checked.query.select
    totals = any(aggregates_in(item.expression) for item in select.items)
    # They only begin anew where the conditions let the copy of an event pass that says so; it must be known.
    calls = any(isinstance(node, ast.FunctionCall) for node in nodes)
    unknown = isinstance(window, Batched) and window.copies and calls
    if (totals or shows_snapshots(made.checked)) and unknown:
        raise NotTyped("totals behind a filter with functions behind such a window", given.span)
    return conditions
