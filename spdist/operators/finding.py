"""Conditions that look for rows in a store: taken apart into a key that an index answers, and what is left to test.

``on T.id == id and T.price > p`` looks up ``id`` and tests the price of what it finds, where the store has an index on
``id``; otherwise each row of the store is tested. Both give the same rows in the same order.

Source: io.siddhi.core.util.parser.CollectionExpressionParser, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.expressions import type_of
from spdist.language.scope import Reference, Scope
from spdist.language.types import Type
from spdist.operators.base import Arrival, VirtualClock
from spdist.operators.codegen import Bindings, Frame, build, indent
from spdist.operators.expression import ExpressionWriter, Reader
from spdist.operators.stores import Store

__all__ = ["INDEXABLE", "Equality", "Finder", "FindingPlan", "StoredReader", "conjuncts", "equalities", "never_fail"]

#: Types whose values are equal in Python where they are in Siddhi.
INDEXABLE = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)

#: From what the condition names besides the store (see `FindingPlan`) to the rows that meet it, in the store's order.
Finder = Callable[..., list[Arrival]]


def conjuncts(condition: ast.Expression | None) -> Iterator[ast.Expression]:
    """Yield the conditions that ``and`` joins; a condition without ``and`` is the only one."""
    if isinstance(condition, ast.Binary) and condition.op == "and":
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    elif condition is not None:
        yield condition


def never_fail(parts: Sequence[ast.Expression]) -> list[ast.Expression]:
    """Return the conditions in front of the first call: a call may fail, and nothing behind it is tested before it."""
    return list(takewhile(lambda part: not any(isinstance(node, ast.FunctionCall) for node in part.walk()), parts))


@dataclass(frozen=True, slots=True)
class Equality:
    """A part of a key: ``condition`` says that `attribute` of the store equals `value`, which names other sources."""

    condition: ast.Expression
    attribute: int
    value: ast.Expression


def equalities(condition: ast.Expression | None, scope: Scope, position: int, catalog: Catalog) -> list[Equality]:
    """Return the equalities of a condition that an index can answer, one for each attribute.

    Parameters
    ----------
    condition : Expression, optional
        The whole condition.
    scope : Scope
        What it may name.
    position : int
        The store, among the sources of `scope`.
    catalog : Catalog
        Signatures, for the types of expressions.
    """
    found: dict[int, Equality] = {}
    for part in never_fail(list(conjuncts(condition))):
        if not (isinstance(part, ast.Binary) and part.op == "=="):
            continue
        for stored, value in ((part.left, part.right), (part.right, part.left)):
            if not isinstance(stored, ast.Variable) or _names(value, scope, position):
                continue
            reference = scope.resolve(stored)
            if reference.source == position and _alike(reference.type, type_of(value, scope, catalog)):
                found.setdefault(reference.attribute, Equality(part, reference.attribute, value))
                break
    return list(found.values())


def _alike(left: Type, right: Type) -> bool:
    whole = (Type.INT, Type.LONG)
    return left in INDEXABLE and (left is right or (left in whole and right in whole))


def _names(expression: ast.Expression, scope: Scope, position: int) -> bool:
    """Tell whether an expression names the source at `position`, or could not be moved in front of a loop over it."""
    return any(
        isinstance(node, ast.IsNullEvent | ast.In)
        or (isinstance(node, ast.Variable) and scope.resolve(node).source == position)
        for node in expression.walk()
    )


class StoredReader:
    """Reads the attributes of a store's row, and leaves all other names to the reader around it.

    Parameters
    ----------
    scope : Scope
        Has the store among its sources.
    position : int
        The store's position there.
    catalog : Catalog
        For the types of calls.
    frame : Frame
        Variables of the loop over the store's rows.
    row : str
        The variable that holds the store's row.
    outer : Reader
        Reads everything else; its variables may stand in front of the loop.
    """

    def __init__(self, scope: Scope, position: int, catalog: Catalog, frame: Frame, row: str, outer: Reader) -> None:
        self.scope = scope
        self.position = position
        self.catalog = catalog
        self.frame = frame
        self.row = row
        self.outer = outer

    def _own(self, variable: ast.Variable) -> Reference | None:
        reference = self.scope.resolve(variable)
        return reference if reference.source == self.position else None

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute."""
        own = self._own(variable)
        if own is None:
            return self.outer.variable(variable)
        name = self.frame.local(f"{self.row}[{own.attribute}]", f"{self.row}_{own.attribute}")
        return Code(name, own.type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        own = self._own(variable)
        return self.outer.bare(variable) if own is None else self.frame.known(f"{self.row}[{own.attribute}]")

    def everything(self) -> str:
        """Return source of the store's row."""
        return self.row

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source for ``S is null``; a row of the store that is read is always there."""
        return "False" if self.scope.find(node.stream) == self.position else self.outer.missing(node)

    def timestamp(self) -> str:
        """Return source of the timestamp of the event that looks into the store."""
        return self.outer.timestamp()

    def type_of(self, call: ast.FunctionCall) -> Type:
        """Return the static type of a call."""
        return type_of(call, self.scope, self.catalog)


@dataclass(frozen=True)
class FindingPlan:
    """A search in a store, written as Python once for each index it is answered by.

    Parameters
    ----------
    title : str
        What it belongs to, for tracebacks.
    condition : Expression, optional
        Which rows; all of them where there is none.
    scope : Scope
        What the condition may name; the store is one of its sources.
    position : int
        The store's position there.
    catalog : Catalog
        Signatures.
    parameters : str
        What the search is given, as source: ``"ts, row"``.
    outer : Callable[[Frame, Bindings], Reader]
        Makes the reader of everything but the store, from `parameters`.
    """

    title: str
    condition: ast.Expression | None
    scope: Scope
    position: int
    catalog: Catalog
    parameters: str
    outer: Callable[[Frame, Bindings], Reader]

    def bind(self, store: Store, clock: VirtualClock) -> Finder:
        """Return the search in `store`: ``find(*parameters) -> list of (timestamp, row)``, in the store's order."""
        keys = equalities(self.condition, self.scope, self.position, self.catalog)
        index = store.index(tuple(key.attribute for key in keys)) if keys else None
        by_attribute = {key.attribute: key for key in keys}
        used = [] if index is None else [by_attribute[attribute] for attribute in index.attributes]
        bindings = Bindings()
        lines = self._source(used, bindings, nulls=index is not None and index.nulls)
        maker = build(f"{self.title} find", lines, bindings.names)["make"]
        finder: Finder = maker(store.contents if index is None else index.lookup, clock)
        return finder

    def _source(self, used: Sequence[Equality], bindings: Bindings, nulls: bool) -> list[str]:
        around, inside = Frame(), Frame()
        outer = self.outer(around, bindings)
        alone = all(any(part is each.condition for each in used) for part in conjuncts(self.condition))
        before, key = self._key(used, around, outer, bindings, nulls and alone)
        reader = StoredReader(self.scope, self.position, self.catalog, inside, "held", outer)
        writer = ExpressionWriter(reader, inside, bindings)
        answered = [equality.condition for equality in used]
        tests: list[str] = []
        for part in conjuncts(self.condition):
            if not any(part is condition for condition in answered):
                test = writer.condition(part)
                tests += [*inside.assignments(), f"if not {test}:", "    continue"]
        before += around.assignments()
        if not tests:
            body = [*before, f"return list(rows({key}))"]
        else:
            loop = [
                f"for arrival in rows({key}):",
                "    held = arrival[1]",
                *indent(tests),
                "    found.append(arrival)",
            ]
            body = [*before, "found = []", *loop, "return found"]
        function = [f"def find({self.parameters}):", *indent(body), "return find"]
        return ["def make(rows, clock):", *indent(function)]

    @staticmethod
    def _key(
        used: Sequence[Equality], frame: Frame, outer: Reader, bindings: Bindings, nulls: bool
    ) -> tuple[list[str], str]:
        """Return what computes the parts of the key, leaving at a null unless `nulls`, and source of the key."""
        writer = ExpressionWriter(outer, frame, bindings)
        lines: list[str] = []
        for number, equality in enumerate(used):
            code = writer.write(equality.value)
            lines += [*frame.assignments(), f"key{number} = {code.text}"]
            if code.nullable and not nulls:
                lines += [f"if key{number} is None:", "    return []"]
        names = [f"key{number}" for number in range(len(used))]
        return lines, names[0] if len(names) == 1 else f"({', '.join(names)})" if names else ""
