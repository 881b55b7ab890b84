"""The conditions of a pattern's elements, written as Python: as a whole, and taken apart for speed.

What looks at the arriving event only is tested before any partial match is; an equality between the event and an
earlier one becomes the key of an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.scope import Reference, Scope
from spdist.operators.codegen import Bindings, Frame, build, indent
from spdist.operators.expression import ExpressionWriter
from spdist.operators.finding import INDEXABLE, conjuncts, never_fail
from spdist.operators.pattern_states import ANYTHING, Condition
from spdist.operators.readers import ElementReader

__all__ = ["ConditionWriter"]


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
        key = next((k for part in early if (k := self._key(part, scope, position))), None) if indexed else None
        self._function(f"test{position}", "p, ts, row", parts, scope, position)
        self._function(f"guard{position}", "ts, row", alone, scope, position)
        if key is not None:
            equality, own, other = key
            self._event_keys[position] = scope.resolve(own).attribute
            self._value(f"partial_key{position}", "p", other, scope, position)
            self._fitting(position, [part for part in rest if part is not equality], scope)
        else:
            self._function(f"rest{position}", "p, ts, row", rest, scope, position)

    def conditions(self, count: int) -> list[Condition]:
        """Return the conditions of all elements."""
        made = build(f"{self.title} conditions", self._lines, self._bindings.names)
        names = ("test", "guard", "rest", "fitting", "partial_key")
        found = [
            Condition(event_key=self._event_keys.get(at), **{name: made.get(f"{name}{at}") for name in names})
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

    def _reader(self, scope: Scope, frame: Frame, position: int) -> ElementReader:
        return ElementReader(scope, self.catalog, frame, self._bindings, self.slots, own=position)

    def _sees_event_only(self, part: ast.Expression, scope: Scope, position: int) -> bool:
        """Tell whether a condition looks at the arriving event only."""
        for node in part.walk():
            if isinstance(node, ast.IsNullEvent | ast.In):
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
            mine, earlier = scope.resolve(own), scope.resolve(other)
            plain = not scope.sources[earlier.source].multiple and earlier.index is None
            same = mine.type is earlier.type and mine.type in INDEXABLE
            if _is_own(mine, position) and earlier.source < position and plain and same:
                return part, own, other
        return None


def _is_own(reference: Reference, position: int) -> bool:
    return reference.source == position and reference.index is None
