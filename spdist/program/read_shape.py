"""Queries over one stream: which of them have a typed form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.scope import Reference
from spdist.language.types import Schema, Type
from spdist.operators.selection.aggregates import aggregates_in
from spdist.program.expressions import NotTyped
from spdist.program.functions import CLOCKS
from spdist.program.windows.shape import (
    Batched,
    Kept,
    Sessions,
    Sliding,
    events_of,
    filters_of,
    shows_snapshots,
    window_of,
)

__all__ = ["Read", "read"]


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
    filters : tuple of Expression
        Conditions in front of the window.
    window : Sliding or Batched, optional
        Its window.
    events : str
        Which events are put out: ``current``, ``expired`` or ``all``.
    behind : tuple of Expression
        Conditions behind the window: an event that does not meet them passes its totals and results by, when it enters
        and when it leaves.
    """

    number: int
    checked: CheckedQuery
    stream: str
    schema: Schema
    filters: tuple[ast.Expression, ...]
    window: Kept | None
    events: str
    behind: tuple[ast.Expression, ...] = ()

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
        return self.window is not None and (isinstance(self.window, Sliding) or self.puts_out_expired)

    @property
    def timed(self) -> bool:
        """Whether something is done when time passes, and no event comes."""
        if isinstance(self.window, Sessions) or (isinstance(self.window, Sliding) and self._is_woken):
            return True
        if self.window is not None and self.window.time is not None:
            return False
        return (
            self.window is not None and bool(self.window.span) and (self.waits or self.puts_out_expired or self.batches)
        )

    @property
    def _is_woken(self) -> bool:
        """Whether events may leave by time behind others that stay: then it matters when they are looked at."""
        return self.window is not None and self.window.unique is not None and bool(self.window.span)

    @property
    def batches(self) -> bool:
        """Whether the window releases batches."""
        return isinstance(self.window, Batched)

    @property
    def renews(self) -> bool:
        """Whether what is put out is batches of events that come, each with totals of its own."""
        return self.batches and self.waits and not self.puts_out_expired

    @property
    def lists(self) -> tuple[str, ...]:
        """What the window holds: the open batch or all of it, and the batch that was released last."""
        if isinstance(self.window, Sliding):
            return ("head",)
        return (*(("head",) if self.waits else ()), *(("left",) if self.window and self.puts_out_expired else ()))

    @property
    def waits(self) -> bool:
        """Whether results for events that come are there later than they."""
        window = self.window
        return window.delays if isinstance(window, Sliding) else window is not None and not window.passes


def read(checked: CheckedQuery, given: ast.SingleInput, number: int) -> Read:
    """Return a query over a stream; raises NotTyped."""
    source = checked.scope.sources[0]
    if source.kind != "stream":
        raise NotTyped("what is not read from a stream", given.span)
    window = window_of(given, source.schema, checked.scope)
    filters = filters_of(given.before if window is not None else (*given.before, *given.after), given.span)
    events = events_of(checked)
    if events == "all" and window is None:  # none leaves
        events = "current"
    looks = [node for node in checked.query.walk() if isinstance(node, ast.In)]
    if any(isinstance(below, ast.In) for node in looks for below in node.operand.walk()):
        raise NotTyped("'in' of a table within another one", checked.query.span)
    if events != "current" and window is None:
        raise NotTyped(f"'insert {events} events' without a window", checked.query.span)
    made = Read(number, checked, source.stream_id, source.schema, filters, window, events)
    return made if window is None or not given.after else replace(made, behind=_behind(made, window, given))


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
    # They only begin anew where the conditions let the copy of an event pass that says so; it must be one that is held.
    unknown = isinstance(window, Batched) and (window.unique is not None or window.passes)
    stays = totals and isinstance(window, Batched) and made.puts_out_expired and select.group_by
    if stays or ((totals or shows_snapshots(made.checked)) and unknown):
        raise NotTyped("totals behind a filter behind such a window", given.span)
    return conditions
