"""Anything that has a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from spdist.language.ast.nodes import Node
from spdist.language.types import Type

__all__ = [
    "UNIT_MS",
    "Binary",
    "BinaryOp",
    "EventIndex",
    "EventTime",
    "Expression",
    "FunctionCall",
    "In",
    "IsNull",
    "IsNullEvent",
    "Literal",
    "Not",
    "StreamRef",
    "TimeLiteral",
    "Variable",
]


@dataclass(frozen=True, slots=True)
class Expression(Node):
    """Anything that has a value."""


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant; ``value`` is a str, int, float or bool."""

    value: str | int | float | bool
    type: Type


@dataclass(frozen=True, slots=True)
class TimeLiteral(Expression):
    """``1 hour 30 min``: the written ``(amount, unit)`` pairs, unit in singular canonical form (year … millisecond)."""

    parts: tuple[tuple[int, str], ...]

    @property
    def milliseconds(self) -> int:
        """The length in ms; a month counts 30 days and a year 365."""
        return sum(amount * UNIT_MS[unit] for amount, unit in self.parts)


UNIT_MS = {
    "year": 365 * 86_400_000,
    "month": 30 * 86_400_000,
    "week": 7 * 86_400_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}


@dataclass(frozen=True, slots=True)
class StreamRef(Node):
    """A stream named in a query: ``S``, inner ``#S`` or fault ``!S``."""

    name: str
    inner: bool = False
    fault: bool = False

    @property
    def id(self) -> str:
        """The name with its mark: ``S``, ``#S`` or ``!S``."""
        return ("#" if self.inner else "!" if self.fault else "") + self.name


@dataclass(frozen=True, slots=True)
class EventIndex(Node):
    """``[2]``, ``[last]`` or ``[last - 1]`` behind a pattern reference: 0-based, or counted back from the last."""

    position: int
    from_last: bool = False


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    """An attribute: ``a``, ``S.a``, ``e1[0].a``, ``#I.a``, ``!S.a``."""

    name: str
    stream: StreamRef | None = None
    index: EventIndex | None = None


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """``ns:name(args)``: also an aggregator, a window (in `SingleInput`), a stream function; ``star`` for ``f(*)``."""

    name: str
    args: tuple[Expression, ...] = ()
    namespace: str | None = None
    star: bool = False

    @property
    def id(self) -> str:
        """``ns:name`` or ``name``."""
        return f"{self.namespace}:{self.name}" if self.namespace else self.name


BinaryOp = Choice["or", "and", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"]


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """``left op right``."""

    op: BinaryOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """``not operand``."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """``operand is null`` for a value."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNullEvent(Expression):
    """``e1 is null`` or ``e1[1] is null``: the pattern element has no event there."""

    stream: StreamRef
    index: EventIndex | None = None


@dataclass(frozen=True, slots=True)
class EventTime(Expression):
    """``eventTimestamp(e1)``: the time of the event of one source of several, in ms."""

    stream: StreamRef


@dataclass(frozen=True, slots=True)
class In(Expression):
    """``condition in Table``."""

    operand: Expression
    table: str
