"""Parameters of windows: what their arguments may be, checked when an app is checked.

Source: the ``@Parameter`` lists of Siddhi's window processors, in our own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from spdist.errors import SiddhiTypeError
from spdist.language import ast
from spdist.language.catalog import WindowResolver
from spdist.language.types import Type

__all__ = ["INTEGER", "PERIOD", "TIME", "Parameter", "attribute_positions", "constant_values", "overloads"]

#: Types of a duration: ``int`` or ``long`` ms, or a time literal (which is a ``long``).
TIME = frozenset({Type.INT, Type.LONG})
INTEGER = frozenset({Type.INT})


_EXAMPLES = {Type.INT: "10", Type.LONG: "10L", Type.BOOL: "true", Type.STRING: "'text'", Type.DOUBLE: "0.5"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, the types it takes, and whether it is a constant, an attribute, or either.

    A constant that is smaller than `least` is refused; what is no constant must be of one of the types `changing`,
    where they are given.
    """

    name: str
    types: frozenset[Type]
    given_as: Literal["constant", "attribute", "either"] = "constant"
    least: int | None = None
    changing: frozenset[Type] | None = None

    def refusal(self, type: Type, expression: ast.Expression) -> str | None:
        """Return why `expression` cannot be this parameter; None where it can."""
        if self.changing is not None and type not in self.changing and not is_constant(expression):
            return f"'{self.name}' is a constant, or a {' or '.join(t.value for t in Type if t in self.changing)}"
        if type not in self.types:
            return f"'{self.name}' is {' or '.join(t.value for t in Type if t in self.types)}, not {type}"
        if self.given_as == "constant" and not is_constant(expression):
            return f"'{self.name}' must be a constant"
        if self.given_as == "attribute" and not isinstance(expression, ast.Variable):
            return f"'{self.name}' must be an attribute"
        return None

    @property
    def kind(self) -> str:
        """What it takes, in words."""
        if self.types == TIME and self.given_as == "constant":
            return "a time"
        words = " or ".join(t.value for t in Type if t in self.types)
        if self.given_as == "attribute":
            return f"an attribute of type {words}"
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"

    @property
    def example(self) -> str:
        """Something that it takes."""
        if self.given_as != "constant":
            return self.name.rpartition(".")[2]
        return "5 sec" if self.types == TIME else next(text for t, text in _EXAMPLES.items() if t in self.types)

    def check(self, expression: ast.Expression) -> None:
        """Raise where a constant is too small."""
        (value,) = constant_values((expression,))
        if self.least is not None and value is not None and value < self.least:
            message = f"'{self.name}' is at least {self.least} ms, not {value} ms: its periods would never end"
            raise SiddhiTypeError(message, span=expression.span, hint="The shortest period is '1 millisec'.")


#: The length of periods that follow one another.
PERIOD = Parameter("window.time", TIME, least=1)


def is_constant(expression: ast.Expression) -> bool:
    """Tell whether `expression` is a literal; Siddhi takes nothing else as a constant, not even ``1 + 1``."""
    return isinstance(expression, ast.Literal | ast.TimeLiteral)


def overloads(window: str, *alternatives: tuple[Parameter, ...]) -> WindowResolver:
    """Return the resolver of a window with these parameter lists."""

    def resolve(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...]) -> None:
        reasons = []
        for parameters in alternatives:
            if len(parameters) != len(types):
                continue
            refusals = [p.refusal(t, e) for p, t, e in zip(parameters, types, expressions, strict=True)]
            if not any(refusals):
                for parameter, expression in zip(parameters, expressions, strict=True):
                    parameter.check(expression)
                return
            reasons.append(next(r for r in refusals if r))
        given = ", ".join(t.value for t in types)
        message = reasons[-1] if reasons else f"'{window}' does not take ({given})"
        raise SiddhiTypeError(message, hint=_written(window, alternatives, len(types)))

    return resolve


def _written(window: str, alternatives: tuple[tuple[Parameter, ...], ...], count: int) -> str:
    """Return how a window is written: its forms, an example with about `count` parameters, and their types."""
    forms = " or ".join(f"{window}({', '.join(p.name for p in parameters)})" for parameters in alternatives)
    nearest = min(alternatives, key=lambda parameters: abs(len(parameters) - count))
    kinds = {p.name: p.kind for parameters in alternatives for p in parameters}
    types = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
    return f"it is written as {forms}, for example {window}({', '.join(p.example for p in nearest)}); {types}"


def constant_values(expressions: tuple[ast.Expression, ...]) -> tuple[Any, ...]:
    """Return the value of each literal (time literals in ms), and None for anything else."""
    return tuple(
        e.value if isinstance(e, ast.Literal) else e.milliseconds if isinstance(e, ast.TimeLiteral) else None
        for e in expressions
    )


def attribute_positions(expressions: tuple[ast.Expression, ...], names: tuple[str, ...]) -> tuple[int | None, ...]:
    """Return the position in `names` of each attribute, and None for anything else."""
    return tuple(names.index(e.name) if isinstance(e, ast.Variable) else None for e in expressions)
