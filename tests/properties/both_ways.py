"""Apps that take the same events one by one and many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from spdist.engine.island.hosted import HostedApp
from spdist.mapping.columns import ColumnarRows
from spdist.transports.delivery import Deliveries

__all__ = ["both_ways", "columns", "put_out"]


class Course(Protocol):
    """An app that goes through steps: all that is seen of it, and how many runs it took at once."""

    seen: list[Any]
    at_once: int

    def step(self, kind: str, *given: Any) -> None:
        """Take a step."""


C = TypeVar("C", bound=Course)


def both_ways(
    made: Callable[[], C], few: Callable[[int], AbstractContextManager[None]], steps: Iterable[tuple[Any, ...]]
) -> C:
    """Go through steps both ways, `few` telling how few events go one by one; return the course of those at once."""
    found: list[C] = []
    steps = list(steps)
    for fewest in (10**9, 1):
        with few(fewest):
            course = made()
            for step in steps:
                course.step(*step)
        found.append(course)
    alone, together = found
    assert together.seen == alone.seen
    assert alone.at_once == 0
    return together


def columns(rows: Sequence[Any], schema: pa.Schema) -> ColumnarRows | None:
    """The rows as they are read; None where they cannot be."""
    try:
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    except UnicodeEncodeError:
        return None
    return ColumnarRows(pa.record_batch(arrays, schema=schema), lambda: None)


def put_out(app: HostedApp) -> dict[str, list[Any]]:
    """The payloads that sinks have delivered, by sink."""
    made: dict[str, list[Any]] = {}
    for one in app.take_deliveries():
        if isinstance(one, Deliveries):
            made.setdefault(one.sink, []).extend(one.payloads)
    return made
