"""The operators of elements without a typed form, as the loop of a program calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spdist.engine.local.app_context import AppContext
from spdist.engine.local.elements import AppElements
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import Receive, ReceiveChunk
from spdist.operators.queries.query import SingleStreamPlan, SingleStreamQuery
from spdist.operators.selection.selector import SelectorOutput
from spdist.program.called import Called
from spdist.program.expressions import NotTyped
from spdist.program.read_shape import WINDOWS
from spdist.program.shape import Shape, streams_of
from spdist.program.timer_text import rank

__all__ = ["CalledOperators", "asked_again"]

_ONCE = "a function failed on it once, but not when it was asked for the error"


class CalledOperators:
    """Elements that are called, by what their streams deliver to (`spdist.program.running.mixed.Operators`).

    Parameters
    ----------
    context : AppContext
        The app's streams, clock and timers.
    elements : AppElements
        Its operators.
    shape : Shape
        Its elements.
    reading : mapping of str to int
        How many of them each stream delivers to.

    Raises
    ------
    NotTyped
        A stream delivers to something else.

    State
    -----
    None of its own.
    """

    def __init__(self, context: AppContext, elements: AppElements, shape: Shape, reading: Mapping[str, int]) -> None:
        self._context = context
        self._elements = elements
        self._receivers: dict[tuple[str, tuple[str, ...]], tuple[Receive, ReceiveChunk]] = {}
        for stream, count in reading.items():
            readers = [element for element in shape.elements if stream in streams_of(element)]
            if len(readers) != count:
                raise NotTyped(f"the stream {stream}, which others read")
            receivers = context.junction(stream).first(count)
            for element, receiver in zip(readers, receivers, strict=True):
                if isinstance(element, Called):
                    self._receivers[stream, element.names] = receiver.receive, receiver.receive_chunk

    def receiver(self, element: Called, stream: str) -> tuple[Receive, ReceiveChunk]:
        """Return what takes the events of a stream for an element: single ones, and chunks."""
        found = self._receivers.get((stream, element.names))
        # Else a query of the loop, with what it has failed on
        return found or asked_again(self._context, self._elements, element.names[0], stream)

    def failed(self, stream: str, arrivals: Sequence[Arrival], error: Exception) -> None:
        """Do with events that an element failed on what the stream says."""
        self._context.junction(stream).failed(arrivals, error)

    def set_clock(self, now: int) -> None:
        """Let it be `now`, ms: the clock never goes back."""
        clock = self._context.clock
        if now > clock.now:
            clock.now = now

    @property
    def first_timer(self) -> tuple[int, int] | None:
        """When the first timer is due, ms, and the rank of its query; None where there is none."""
        timers = self._context.timers
        due = timers.next_due
        if due is None:
            return None
        query, operator, _ = timers.heap[0][1]
        # Timers of named windows have no query but their own place: as elements they stand in front of all queries.
        return due, rank(query if query >= 0 else operator - 1 - WINDOWS)

    def begin_step(self) -> None:
        """Begin a step of the clock."""
        self._context.timers.begin_step()

    def fire_first(self, until: int, alone: bool) -> int:
        """Wake what is due first, and return the clock after it, ms; see `Timers.fire_first`."""
        self._context.timers.fire_first(None if alone else until)
        return self._context.clock.now


def asked_again(context: AppContext, elements: AppElements, name: str, stream: str) -> tuple[Receive, ReceiveChunk]:
    """Return what takes events that a query has failed on in the loop, and raises the error of its operators.

    Such a query only filters and projects, so another instance does the same. Where its functions do not fail again,
    nothing goes out, as the loop has lost these events already.
    """
    plan = elements.plans[name]
    assert isinstance(plan, SingleStreamPlan)
    nothing = SelectorOutput(lambda *_: None, lambda *_: None)
    one, many = SingleStreamQuery(plan, context, nothing).receivers[stream]

    def receive(timestamp: int, row: Row) -> None:
        one(timestamp, row)
        raise RuntimeError(_ONCE)

    def receive_chunk(arrivals: Sequence[Arrival]) -> None:
        many(arrivals)
        raise RuntimeError(_ONCE)

    return receive, receive_chunk
