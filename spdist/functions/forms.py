"""How functions and aggregators are written into generated code.

A `Code` is a piece of Python source for one SiddhiQL expression, together with its static type and with the conditions
under which it is null. Most functions are simply called; those here and in `core` have a form of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from spdist.language.types import Type

__all__ = ["AggregatorForm", "Code", "FunctionForm", "Null", "Site"]


@dataclass(frozen=True, slots=True)
class Null:
    """A condition under which a value is null, as source: `test` is true where it is, `negated` where it is not."""

    test: str
    negated: str


@dataclass(frozen=True, slots=True)
class Code:
    """Python source of an expression.

    Parameters
    ----------
    value : str
        Source of the value; where `nulls` is given it may be evaluated only after all of them were found false, in
        order.
    type : Type
        The static type.
    nullable : bool
        Whether the value may be None.
    atom : bool
        Whether `value` is a name or constant, so that it may be written several times.
    nulls : tuple[Null, ...]
        For values that are computed only where no operand is null: the conditions. Empty: `value` itself gives None.
    exact : bool
        Whether a value at run time is sure to be of the static type; after ``cast`` and for objects it is not.
    literal : Any
        The value, where it is a constant of the text.
    foreign : Type, optional
        The type that a value at run time is sure to have instead of the static one, after ``cast``.
    fallible : bool
        Whether computing it may fail, so that it must be computed even where something else makes the result null.
    """

    value: str
    type: Type
    nullable: bool = True
    atom: bool = False
    nulls: tuple[Null, ...] = ()
    exact: bool = True
    literal: Any = None
    foreign: Type | None = None
    fallible: bool = False

    @property
    def text(self) -> str:
        """Source that gives the value or None."""
        if not self.nulls:
            return self.value
        return f"(None if {' or '.join(n.test for n in self.nulls)} else {self.value})"


class Site(Protocol):
    """The place in generated code where a function is called."""

    def bind(self, value: Any, hint: str) -> str:
        """Return a name for `value` in generated code."""
        ...

    def temporary(self) -> str:
        """Return a fresh name for use with ``:=``."""
        ...

    def timestamp(self) -> str:
        """Return source for the event's timestamp."""
        ...

    def clock(self) -> str:
        """Return source for the app's clock (`VirtualClock`)."""
        ...

    def place(self) -> int:
        """Return where the call stands in the app's text."""
        ...


#: From the place and the arguments to the source of the call.
FunctionForm = Callable[[Site, tuple[Code, ...]], Code]


@dataclass(frozen=True, slots=True)
class AggregatorForm:
    """How an aggregator is written: statements over its slots in the state of a group.

    In all texts ``{v}`` stands for the argument and ``{0}``, ``{1}``… for the slots.

    Parameters
    ----------
    initial : tuple[str, ...]
        Source of each slot's first value.
    add, remove : tuple[str, ...]
        Statements for an event that enters and for one that leaves.
    result : str
        Source of the value now; None where it is null.
    empty : str
        Source of the condition under which the state is as good as new, so that it may be dropped.
    skips_null : bool
        Whether a null argument neither enters nor leaves.
    nullable : bool
        Whether the result may be None.
    after_reset : str
        Source of what a RESET itself gives, which conditions around an aggregator may see.
    on_null : tuple[str, ...]
        Statements for a null argument that is skipped.
    names : dict[str, Any]
        What the texts use by name.
    """

    initial: tuple[str, ...]
    add: tuple[str, ...]
    remove: tuple[str, ...]
    result: str
    empty: str
    skips_null: bool = True
    nullable: bool = True
    after_reset: str = "None"
    on_null: tuple[str, ...] = ()
    names: dict[str, Any] = field(default_factory=dict)
