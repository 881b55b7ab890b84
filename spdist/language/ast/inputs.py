"""What stands behind ``from``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from spdist.language.ast.expressions import Expression, FunctionCall, StreamRef, TimeLiteral
from spdist.language.ast.nodes import Node

__all__ = [
    "AbsentState",
    "ChainState",
    "CountState",
    "EveryState",
    "Filter",
    "Handler",
    "JoinInput",
    "JoinSide",
    "LogicalState",
    "PatternInput",
    "SingleInput",
    "StateElement",
    "StreamFunction",
    "StreamState",
]


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """``[condition]``."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class StreamFunction(Node):
    """``#ns:name(args)``."""

    call: FunctionCall


Handler = Filter | StreamFunction


@dataclass(frozen=True, slots=True)
class SingleInput(Node):
    """``S[filter]#fn()#window.w()[filter]``; also a side of a join and an element of a pattern."""

    stream: StreamRef
    before: tuple[Handler, ...] = ()
    window: FunctionCall | None = None
    after: tuple[Handler, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinSide(Node):
    """One source of a join."""

    input: SingleInput
    alias: str | None = None
    unidirectional: bool = False


@dataclass(frozen=True, slots=True)
class JoinInput(Node):
    """``left <kind> join right on … within …, … per …``."""

    left: JoinSide
    kind: Choice["inner", "left outer", "right outer", "full outer", "outer"]
    right: JoinSide
    on: Expression | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None


@dataclass(frozen=True, slots=True)
class StateElement(Node):
    """An element of a pattern or sequence."""


@dataclass(frozen=True, slots=True)
class StreamState(StateElement):
    """``e1=S[filter]``."""

    input: SingleInput
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class CountState(StateElement):
    """``e1=S<min:max>``; ``max`` None: unbounded. In sequences ``+``, ``*``, ``?`` are (1, None), (0, None), (0, 1)."""

    element: StreamState
    min: int
    max: int | None


@dataclass(frozen=True, slots=True)
class AbsentState(StateElement):
    """``not S[filter] for t``; ``waiting`` None where no ``for`` is written (only as a side of a logical element)."""

    input: SingleInput
    waiting: TimeLiteral | None = None


@dataclass(frozen=True, slots=True)
class LogicalState(StateElement):
    """``left and right`` / ``left or right``."""

    left: StreamState | AbsentState
    op: Choice["and", "or"]
    right: StreamState | AbsentState


@dataclass(frozen=True, slots=True)
class EveryState(StateElement):
    """``every element``; in a sequence only its first element is one."""

    element: StateElement


@dataclass(frozen=True, slots=True)
class ChainState(StateElement):
    """``a -> b -> c`` (pattern) or ``a, b, c`` (sequence): at least two elements; inside another one in parentheses."""

    elements: tuple[StateElement, ...]


@dataclass(frozen=True, slots=True)
class PatternInput(Node):
    """A whole pattern (``->``) or sequence (``,``) with its trailing ``within``, which bounds all of it."""

    kind: Choice["pattern", "sequence"]
    element: StateElement
    within: TimeLiteral | None = None
