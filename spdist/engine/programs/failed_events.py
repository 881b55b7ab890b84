"""Events that a query of a program has failed on: its operators tell the error, and the stream counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spdist.engine.local.app_context import AppContext
from spdist.engine.local.elements import AppElements
from spdist.operators.base import Arrival
from spdist.operators.core.junction import StreamPart
from spdist.program.shape import Shape

__all__ = ["event_of", "lose"]


def event_of(parts: Mapping[str, StreamPart], rank: int) -> list[Arrival]:
    """Return which of all events has a rank."""
    for part in parts.values():
        place = int(part.ranks.searchsorted(rank))
        if place < len(part.ranks) and part.ranks[place] == rank:
            stamps = part.times if part.stamps is None else part.stamps
            return [(int(stamps[place]), part.rows[place])]
    raise IndexError(rank)


def lose(context: AppContext, elements: AppElements, shape: Shape, number: int, arrivals: Sequence[Arrival]) -> None:
    """Count the events of a chunk that the query with a number has failed on, with the error of its operators."""
    read = next(query for query in shape.queries if query.number == number)
    (stream,) = read.streams
    try:
        elements.query(read.checked.name).receivers[stream][1](arrivals)
    except Exception as error:
        context.junction(stream).failed(arrivals, error)
