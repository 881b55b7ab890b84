"""What a query selects, how often it puts that out, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from spdist.language.ast.expressions import Expression, StreamRef, TimeLiteral, Variable
from spdist.language.ast.nodes import Node

__all__ = [
    "Delete",
    "EventsKind",
    "InsertInto",
    "OrderBy",
    "Output",
    "OutputRate",
    "Return",
    "SelectItem",
    "Selection",
    "SetItem",
    "Update",
]

EventsKind = Choice["current", "expired", "all"]


@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    """``expression as alias``; alias None only where the expression is a bare attribute."""

    expression: Expression
    alias: str | None = None

    @property
    def name(self) -> str:
        """The name of the output attribute."""
        if self.alias is not None:
            return self.alias
        assert isinstance(self.expression, Variable)
        return self.expression.name


@dataclass(frozen=True, slots=True)
class OrderBy(Node):
    """``attribute asc|desc``."""

    variable: Variable
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Selection(Node):
    """``select … group by … having … order by … limit … offset …``; no items means ``select *``."""

    items: tuple[SelectItem, ...] = ()
    group_by: tuple[Variable, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderBy, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


@dataclass(frozen=True, slots=True)
class OutputRate(Node):
    """``output all|first|last every 5 events|2 sec``, ``output snapshot every 2 sec``: `events` or `time` is set."""

    kind: Choice["all", "first", "last", "snapshot"]
    events: int | None = None
    time: TimeLiteral | None = None


@dataclass(frozen=True, slots=True)
class SetItem(Node):
    """``T.a = expression``."""

    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Output(Node):
    """What happens with a query's rows; ``events`` None where no event type is written."""

    target: StreamRef | None
    events: EventsKind | None = None


@dataclass(frozen=True, slots=True)
class InsertInto(Output):
    """``insert into X``."""


@dataclass(frozen=True, slots=True)
class Delete(Output):
    """``delete T on …``."""

    on: Expression | None = None


@dataclass(frozen=True, slots=True)
class Update(Output):
    """``update T set … on …``; with ``or_insert`` it is ``update or insert into T …``."""

    set: tuple[SetItem, ...] = ()
    on: Expression | None = None
    or_insert: bool = False


@dataclass(frozen=True, slots=True)
class Return(Output):
    """``return``: parsed, never run in an app."""
