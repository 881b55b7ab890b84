"""What the stream processors of a program hold as the operators have it, and back: each names who knows that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdist.operators.core.state_columns import Column, StructColumn, column_of, nothing
from spdist.program.parts import QueryText
from spdist.program.processors.text import processor_of_text
from spdist.program.running.running import Running
from spdist.program.shape import Query, Read
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.timer_text import PROCESSOR

__all__ = ["ProcessorStates", "fresh_processors", "held_by_processors", "load_processors", "stored_processors"]


class ProcessorStates:
    """The state of a stream processor as operators have it: to and from the arrays of a program.

    Who says no more than the state of one key (`load`, `stored`, `dues`) has one made for each; where keys are many,
    `load_columns` and `stored_columns` in their place have the columns of all keys as they are.

    Parameters
    ----------
    processor : Processor
        The stream processor.
    """

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def load(self, running: Running, query: QueryText, front: QueryText, states: Sequence[tuple[int, Any]]) -> None:
        """Take over the states of the keys of a partition, by number; or one, of number 0.

        `front` is what is known of the stream processor, `query` the query behind it.
        """
        raise NotImplementedError

    def stored(self, running: Running, front: QueryText, number: int, dues: list[int]) -> Any:
        """Return the state of a key, given the wake-ups asked for."""
        raise NotImplementedError

    def load_columns(self, running: Running, query: QueryText, front: QueryText, numbers: Any, states: Column) -> None:
        """Take over the states of the keys of a partition, whose numbers are an array, and the wake-ups asked for."""
        own = states.values()
        self.load(running, query, front, list(zip(numbers.tolist(), own, strict=True)))
        if self.processor.timed:
            load_dues(running, front, numbers, column_of(list(map(self.dues, own))), PROCESSOR)

    def stored_columns(self, running: Running, front: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        dues = stored_dues(running, front, count, PROCESSOR) if self.processor.timed else nothing(count)
        return column_of([self.stored(running, front, number, due) for number, due in enumerate(dues.values())])

    def dues(self, state: Any) -> list[int]:
        """Return the wake-ups asked for, of a state."""
        found: list[int] = state[-1]
        return found

    def fresh(self) -> Any:
        """Return the state of a stream processor that has seen nothing."""
        raise NotImplementedError


def fresh_processors(read: Query) -> list[Any]:
    """Return the states of a query's stream processors that have seen nothing."""
    processor = read.processor if isinstance(read, Read) else None
    return [] if processor is None else [processor.states.fresh()]


def load_processors(running: Running, query: QueryText, numbers: Any, states: Column) -> None:
    """Take over what the stream processor in front of a query holds: of each key of its partition, by number."""
    for front in query.fronts:
        (own,) = states.parts(1)
        processor_of_text(front).states.load_columns(running, query, front, numbers, own)


def stored_processors(running: Running, query: QueryText, count: int) -> Column:
    """Return the states of a query's stream processors: of so many keys of its partition, by number; or one."""
    if not query.fronts:
        return nothing(count)
    fronts = [processor_of_text(front).states.stored_columns(running, front, count) for front in query.fronts]
    return StructColumn(list, fronts)


def held_by_processors(running: Running, query: QueryText) -> int:
    """Return how many events, or keys, the stream processor in front of a query holds."""
    arrays, names = running.arrays, [front.name for front in query.fronts]
    sizes = sum(int(arrays[f"{name}_size"].sum()) for name in names if f"{name}_size" in arrays)
    return sizes + sum(int(arrays[f"{name}_u_k_meta"][2]) for name in names if f"{name}_u_k_meta" in arrays)
