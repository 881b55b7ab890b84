"""The conditions of a pattern's elements, written as Python: as a whole, and taken apart for speed.

What looks at the arriving event only is tested before any partial match is; an equality between the event and an
earlier one becomes the key of an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Reference, Scope
from spdist.language.types import Type
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.lookup import INDEXABLE, conjuncts, never_fail
from spdist.operators.expressions.readers import ElementReader
from spdist.operators.patterns.states import ANYTHING, Bound, ElementCondition

__all__ = ["ConditionWriter", "Parts", "nested"]

_NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Parts:
    """The conditions that an element's filters ask for together.

    Parameters
    ----------
    whole : tuple of Expression
        All of them.
    alone : tuple of Expression
        Those that look at the arriving event only.
    scope : Scope
        What they may name.
    """

    whole: tuple[ast.Expression, ...]
    alone: tuple[ast.Expression, ...]
    scope: Scope


def nested(parts: Sequence[ast.Expression], writer: ExpressionWriter, frame: Frame, inside: Sequence[str]) -> list[str]:
    """Return lines that run those `inside` where all conditions hold, each computed only where those before hold."""
    lines: list[str] = []
    depth = 0
    for part in parts:
        test = writer.condition(part)
        lines += indent([*frame.assignments(), f"if {test}:"], depth)
        depth += 1
    return [*lines, *indent(inside, depth)]


@dataclass
class ConditionWriter:
    """Writes the conditions of one pattern.

    Parameters
    ----------
    title : str
        The query's name.
    scope : Scope
        The pattern's elements.
    catalog : Catalog
        Signatures.
    slots : Sequence[int]
        The slot of each element.
    """

    title: str
    scope: Scope
    catalog: Catalog
    slots: Sequence[int]
    _bindings: Bindings = field(default_factory=Bindings)
    _lines: list[str] = field(default_factory=list)
    _event_keys: dict[int, int] = field(default_factory=dict)
    _bounds: dict[int, tuple[str, int]] = field(default_factory=dict)
    #: What was added, by position.
    parts: dict[int, Parts] = field(default_factory=dict)

    def add(self, position: int, conditions: Sequence[ast.Expression], partner: int | None, indexed: bool) -> None:
        """Write the condition of an element.

        Parameters
        ----------
        position : int
            The element.
        conditions : Sequence[Expression]
            Its filters.
        partner : int, optional
            The other side of its ``and`` or ``or``.
        indexed : bool
            Whether an index may be used.
        """
        scope = self.scope.of_element(position, partner)
        parts = [part for condition in conditions for part in conjuncts(condition)]
        # A call may fail, and must then fail the event, so nothing behind one is tested before it.
        early = never_fail(parts)
        alone = [part for part in early if self._sees_event_only(part, scope, position)]
        rest = [part for part in parts if part not in alone]
        self.parts[position] = Parts(tuple(parts), tuple(alone), scope)
        key = next((k for part in early if (k := self._key(part, scope, position))), None) if indexed else None
        bound = next((b for part in early if (b := self._bound(part, scope, position))), None)
        if bound is not None:
            op, own, other = bound
            self._bounds[position] = op, scope.resolve(own).attribute
            self._edge(f"bound{position}", op, other, scope, position)
        self._function(f"test{position}", "p, ts, row", parts, scope, position)
        self._function(f"guard{position}", "ts, row", alone, scope, position)
        if key is not None:
            equality, own, other = key
            self._event_keys[position] = scope.resolve(own).attribute
            self._value(f"partial_key{position}", "p", other, scope, position)
            self._fitting(position, [part for part in rest if part is not equality], scope)
        else:
            self._function(f"rest{position}", "p, ts, row", rest, scope, position)

    def conditions(self, count: int) -> list[ElementCondition]:
        """Return the conditions of all elements."""
        made = build(f"{self.title} conditions", self._lines, self._bindings.names)
        names = ("test", "guard", "rest", "fitting", "partial_key")
        found = [
            ElementCondition(
                event_key=self._event_keys.get(at),
                bound=Bound(*self._bounds[at], made[f"bound{at}"]) if at in self._bounds else None,
                **{name: made.get(f"{name}{at}") for name in names},
            )
            for at in range(count)
        ]
        return [condition if condition.test is not None else ANYTHING for condition in found]

    def _function(
        self, name: str, parameters: str, parts: Sequence[ast.Expression], scope: Scope, position: int
    ) -> None:
        if not parts:
            return
        frame = Frame()
        writer = ExpressionWriter(self._reader(scope, frame, position), frame, self._bindings)
        body = []
        for part in parts:
            test = writer.condition(part)
            body += [*frame.assignments(), f"if not {test}:", "    return False"]
        self._lines += [f"def {name}({parameters}):", *indent([*body, "return True"])]

    def _fitting(self, position: int, parts: Sequence[ast.Expression], scope: Scope) -> None:
        """Write what picks, among partials with the event's key, those that meet the rest of the condition."""
        if not parts:
            return
        frame = Frame()
        writer = ExpressionWriter(self._reader(scope, frame, position), frame, self._bindings)
        body = []
        for part in parts:
            test = writer.condition(part)
            body += [*frame.assignments(), f"if not {test}:", "    continue"]
        loop = ["for partial in bucket.values():", *indent(["p = partial.slots", *body, "found.append(partial)"])]
        lines = ["found = []", *loop, "return found"]
        self._lines += [f"def fitting{position}(bucket, ts, row):", *indent(lines)]

    def _value(self, name: str, parameters: str, variable: ast.Variable, scope: Scope, position: int) -> None:
        frame = Frame()
        text = self._reader(scope, frame, position).variable(variable).text
        self._lines += [f"def {name}({parameters}):", *indent([*frame.assignments(), f"return {text}"])]

    def _edge(self, name: str, op: str, variable: ast.Variable, scope: Scope, position: int) -> None:
        """Write what finds the least or greatest of the numbers that partials bring; see `Bound`."""
        frame = Frame()
        text = self._reader(scope, frame, position).variable(variable).text
        self._bindings.require("inf", inf)
        least = op in (">", ">=")
        # NaN compares with nothing, so it gives no bound.
        better = f"value == value and (edge is None or value {'<' if least else '>'} edge)"
        loop = ["p = partial.slots", *frame.assignments(), f"value = {text}", f"if value is not None and {better}:"]
        lines = ["edge = None", "try:", "    for partial in partials:", *indent([*loop, "    edge = value"], 2)]
        # What is no number, although it should be: any event may fit, or fail there.
        # `+ 0` fails where there was one value only, which met no comparison, and is no number.
        lines += ["    return None if edge is None else edge + 0", "except TypeError:"]
        self._lines += [f"def {name}(partials):", *indent([*lines, f"    return {'-inf' if least else 'inf'}"])]

    def _reader(self, scope: Scope, frame: Frame, position: int) -> ElementReader:
        return ElementReader(scope, self.catalog, frame, self._bindings, self.slots, own=position)

    def _sees_event_only(self, part: ast.Expression, scope: Scope, position: int) -> bool:
        """Tell whether a condition looks at the arriving event only."""
        for node in part.walk():
            if isinstance(node, ast.IsNullEvent | ast.EventTime | ast.In):
                return False
            if isinstance(node, ast.Variable) and not _is_own(scope.resolve(node), position):
                return False
        return True

    def _key(
        self, part: ast.Expression, scope: Scope, position: int
    ) -> tuple[ast.Expression, ast.Variable, ast.Variable] | None:
        """Return an equality that can be the key of an index, and its sides: the event's, and the partial's."""
        if not (isinstance(part, ast.Binary) and part.op == "=="):
            return None
        left, right = part.left, part.right
        if not (isinstance(left, ast.Variable) and isinstance(right, ast.Variable)):
            return None
        for own, other in ((left, right), (right, left)):
            if _compares(scope.resolve(own), scope.resolve(other), scope, position, INDEXABLE):
                return part, own, other
        return None

    @staticmethod
    def _bound(part: ast.Expression, scope: Scope, position: int) -> tuple[str, ast.Variable, ast.Variable] | None:
        """Return a comparison that can be a bound: how the event's number, on the left, compares with the partial's."""
        if not (isinstance(part, ast.Binary) and part.op in _MIRRORED):
            return None
        left, right = part.left, part.right
        if not (isinstance(left, ast.Variable) and isinstance(right, ast.Variable)):
            return None
        for op, own, other in ((part.op, left, right), (_MIRRORED[part.op], right, left)):
            if _compares(scope.resolve(own), scope.resolve(other), scope, position, _NUMBERS):
                return op, own, other
        return None


def _compares(mine: Reference, earlier: Reference, scope: Scope, position: int, types: tuple[Type, ...]) -> bool:
    """Tell whether an attribute of the event meets one of the same type, of the only event of an earlier element."""
    plain = not scope.sources[earlier.source].multiple and earlier.index is None
    same = mine.type is earlier.type and mine.type in types
    return _is_own(mine, position) and earlier.source < position and plain and same


def _is_own(reference: Reference, position: int) -> bool:
    return reference.source == position and reference.index is None
