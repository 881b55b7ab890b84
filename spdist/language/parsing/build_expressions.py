"""Parse trees to expressions: the first of three layers that make the syntax tree (then inputs, then apps)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from spdist.errors import SiddhiSyntaxError, Span
from spdist.language import ast
from spdist.language.parsing.places import Places
from spdist.language.types import Type

__all__ = ["MAX_DEPTH", "Branch", "ExpressionBuilder"]

#: How deep a text may nest: recursion here, in the checker and in compiled code stays well within Python's limits.
MAX_DEPTH = 150

_INT_RANGE = {Type.INT: 2**31, Type.LONG: 2**63}
_UNITS = ("millisecond", "year", "month", "week", "day", "hour", "minute", "second")
_UNIT_PREFIXES = {"millisec": "millisecond", "min": "minute", "sec": "second"}


class Branch(Protocol):
    """What is used of a parse tree's node. A child is a branch, or a token: a str with type and place."""

    @property
    def data(self) -> str:
        """The name of the rule."""

    @property
    def children(self) -> list[Any]:
        """What it consists of; keywords and punctuation are left out."""

    @property
    def meta(self) -> Any:
        """Its place."""


class ExpressionBuilder:
    """Turns branches of expressions into nodes; every rule of the grammar has the method of its name.

    Parameters
    ----------
    places : Places
        For the nodes' spans.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._depth = 0
        #: Names of the sources of the query that is being built: `e1 is null` asks for the event, not for an attribute.
        self._sources: frozenset[str] = frozenset()

    # --- walking -----------------------------------------------------------------------------------------------------

    def build(self, branch: Branch) -> Any:
        """Return what `branch` stands for: a node, or for helper rules a plain value."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(branch, f"This is nested more than {MAX_DEPTH} levels deep", "Split it over several queries.")
        method: Callable[[Branch], Any] = getattr(self, "_" + branch.data)
        # Without `finally`: what is refused ends the whole build
        built = method(branch)
        self._depth -= 1
        return built

    def parts(self, branch: Branch) -> dict[str, Any]:
        """Return the branches directly below `branch`, built, by the name of their rule (the last of a name counts)."""
        return {child.data: self.build(child) for child in branch.children if _is_branch(child)}

    def all(self, branch: Branch) -> tuple[Any, ...]:
        """Return everything below `branch` that is no token, built, in order."""
        return tuple(self.build(child) for child in branch.children if _is_branch(child))

    def span(self, place: Any) -> Span:
        """Return the place of a branch or a token."""
        if _is_branch(place):
            meta = place.meta
            return self._places.span(0, 0) if meta.empty else self._places.span(meta.start_pos, meta.end_pos)
        return self._places.span(place.start_pos, place.end_pos)

    def fail(self, place: Any, message: str, hint: str | None = None) -> NoReturn:
        """Refuse what stands at `place`."""
        raise SiddhiSyntaxError(message, span=self.span(place), hint=hint, text=self._places.written)

    # --- small things ------------------------------------------------------------------------------------------------

    def name(self, leaf: Any) -> str:
        """Return a name without its backticks."""
        name = str(leaf).strip("`")
        if "\0" in name:
            self.fail(leaf, "A name cannot have a NUL character", "names become names of topics and files")
        return name

    def string(self, leaf: Any) -> str:
        """Return a string without its quotes; there are no escapes."""
        text = str(leaf)
        return text[3:-3] if text.startswith('"""') else text[1:-1]

    def integer(self, leaf: Any, kind: Type = Type.INT, sign: str = "") -> int:
        """Return a whole number, refused where it does not fit into 32 bits (64 bits for a long)."""
        digits = sign + str(leaf).rstrip("lL")
        bound = _INT_RANGE[kind]
        # Python refuses to convert thousands of digits; twenty are too many already.
        if len(digits.lstrip("+-").lstrip("0")) > 20 or not -bound <= int(digits) < bound:
            hint = "Write it as a long, with L behind it." if kind is Type.INT else None
            self.fail(leaf, f"The number {_shortened(digits)} does not fit into {kind}", hint)
        return int(digits)

    def unit(self, leaf: Any) -> str:
        """Return a time unit in singular canonical form."""
        word = str(leaf).lower()
        # Words in the plural and in full begin with these; only then come the short ones
        for unit in _UNITS:
            if word.startswith(unit):
                return unit
        return next(unit for prefix, unit in _UNIT_PREFIXES.items() if word.startswith(prefix))

    def tokens(self, branch: Branch, *kinds: str) -> list[Any]:
        """Return the tokens directly below `branch`, of the given kinds if any are given."""
        return [child for child in branch.children if not _is_branch(child) and (not kinds or child.type in kinds)]

    # --- constants ---------------------------------------------------------------------------------------------------

    def _number(self, branch: Branch) -> ast.Literal:
        *signs, leaf = branch.children
        sign = str(signs[0]) if signs else ""
        kind = Type[leaf.type]
        value: int | float
        if kind in _INT_RANGE:
            value = self.integer(leaf, kind, sign)
        else:
            value = float(sign + str(leaf).rstrip("fFdD"))
            value = _as_float32(value) if kind is Type.FLOAT else value
        return ast.Literal(value, kind, span=self.span(branch))

    def _text(self, branch: Branch) -> ast.Literal:
        return ast.Literal(self.string(branch.children[0]), Type.STRING, span=self.span(branch))

    def _true(self, branch: Branch) -> ast.Literal:
        return ast.Literal(True, Type.BOOL, span=self.span(branch))

    def _false(self, branch: Branch) -> ast.Literal:
        return ast.Literal(False, Type.BOOL, span=self.span(branch))

    def _time(self, branch: Branch) -> ast.TimeLiteral:
        amounts, units = branch.children[::2], branch.children[1::2]
        pairs = zip(amounts, units, strict=True)
        parts = tuple((self.integer(amount, Type.LONG), self.unit(unit)) for amount, unit in pairs)
        lengths = [ast.UNIT_MS[unit] for _, unit in parts]
        if any(left <= right for left, right in itertools.pairwise(lengths)):
            self.fail(branch, "The parts of a time must go from long to short units", "For example: 1 min 30 sec")
        time = ast.TimeLiteral(parts, span=self.span(branch))
        if time.milliseconds >= _INT_RANGE[Type.LONG]:
            self.fail(branch, f"The number of milliseconds, {time.milliseconds}, does not fit into long")
        return time

    # --- names and calls ---------------------------------------------------------------------------------------------

    def _stream(self, branch: Branch) -> ast.StreamRef:
        *marks, name = branch.children
        mark = marks[0].type if marks else None
        inner, fault = mark == "INNER_MARK", mark == "FAULT_MARK"
        return ast.StreamRef(self.name(name), inner, fault, span=self.span(branch))

    def _index(self, branch: Branch) -> ast.EventIndex:
        numbers = self.tokens(branch, "INT")
        position = self.integer(numbers[0]) if numbers else 0
        return ast.EventIndex(position, bool(self.tokens(branch, "LAST")), span=self.span(branch))

    def _variable(self, branch: Branch) -> ast.Variable:
        *stream, name = branch.children
        parts = [self.build(child) for child in stream if _is_branch(child)]
        return ast.Variable(self.name(name), *parts, span=self.span(branch))

    def _call(self, branch: Branch) -> ast.FunctionCall | ast.EventTime:
        names = [self.name(leaf) for leaf in self.tokens(branch, "NAME")]
        arguments = self.all(branch)
        if names == ["eventTimestamp"] and len(arguments) == 1 and self._is_source(arguments[0]):
            return ast.EventTime(self._named(arguments[0]), span=self.span(branch))
        return ast.FunctionCall(
            names[-1],
            arguments,
            names[0] if len(names) == 2 else None,
            bool(self.tokens(branch, "STAR")),
            span=self.span(branch),
        )

    # --- operators ---------------------------------------------------------------------------------------------------

    def _binary(self, branch: Branch) -> ast.Binary:
        left, operator, right = branch.children
        operation: Any = str(operator).lower()
        return ast.Binary(operation, self.build(left), self.build(right), span=self.span(branch))

    def _not(self, branch: Branch) -> ast.Not:
        return ast.Not(self.build(branch.children[0]), span=self.span(branch))

    def _is_null(self, branch: Branch) -> ast.IsNull | ast.IsNullEvent:
        operand = self.build(branch.children[0])
        if self._is_source(operand):
            return ast.IsNullEvent(self._named(operand), span=self.span(branch))
        return ast.IsNull(operand, span=self.span(branch))

    def _is_source(self, node: ast.Expression) -> bool:
        """Tell whether a bare name is that of a source, which is taken before an attribute of that name."""
        return isinstance(node, ast.Variable) and node.stream is None and node.name in self._sources

    @staticmethod
    def _named(node: ast.Variable) -> ast.StreamRef:
        return ast.StreamRef(node.name, span=node.span)

    def _is_null_event(self, branch: Branch) -> ast.IsNullEvent:
        stream, index = self.all(branch)
        return ast.IsNullEvent(stream, index, span=self.span(branch))

    def _in_table(self, branch: Branch) -> ast.In:
        operand, table = branch.children
        return ast.In(self.build(operand), self.name(table), span=self.span(branch))


def _is_branch(part: Any) -> bool:
    return hasattr(part, "children")


def _shortened(digits: str) -> str:
    return digits if len(digits) <= 24 else f"{digits[:20]}…"


def _as_float32(value: float) -> float:
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        # struct refuses what Java's Float.parseFloat takes for infinite
        return float("inf") if value > 0 else float("-inf")
    return rounded
