"""Conditions that look for rows in a store: taken apart into a key that an index answers, and what is left to test.

``on T.id == id and T.price > p`` looks up ``id`` and tests the price of what it finds, where the store has an index on
``id``; otherwise each row of the store is tested. Both give the same rows in the same order. A store that looks for
rows itself, such as a database, is asked for those that may meet the condition
(`spdist.operators.expressions.pushdown`).

Source: io.siddhi.core.util.parser.CollectionExpressionParser, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Reference, Scope
from spdist.language.types import Type
from spdist.operators.base import Arrival, VirtualClock
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter, Reader
from spdist.operators.expressions.pushdown import conjuncts, names_store, never_fail, push
from spdist.operators.tables.stores import Searchable, Store

__all__ = [
    "INDEXABLE",
    "Asked",
    "Equality",
    "Finder",
    "FindingPlan",
    "StoredReader",
    "ask",
    "conjuncts",
    "equalities",
    "never_fail",
]

#: Types whose values are equal in Python where they are in Siddhi.
INDEXABLE = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)

#: From what the condition names besides the store (see `FindingPlan`) to the rows that meet it, in the store's order.
Finder = Callable[..., list[Arrival]]


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
            if not isinstance(stored, ast.Variable) or names_store(value, scope, position):
                continue
            reference = scope.resolve(stored)
            if reference.source == position and _alike(reference.type, type_of(value, scope, catalog)):
                # A second equality for an attribute is left to be tested of what the first one finds.
                found.setdefault(reference.attribute, Equality(part, reference.attribute, value))
                break
    return list(found.values())


def _alike(left: Type, right: Type) -> bool:
    whole = (Type.INT, Type.LONG)
    return left in INDEXABLE and (left is right or (left in whole and right in whole))


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

    def event_time(self, node: ast.EventTime) -> str:
        """Return source of the time of the store's event, or of one that looks into it; rows of tables have none."""
        return "arrival[0]" if self.scope.find(node.stream) == self.position else self.outer.event_time(node)

    def type_of(self, call: ast.FunctionCall) -> Type:
        """Return the static type of a call."""
        return type_of(call, self.scope, self.catalog)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a store is asked for, for one condition.

    Parameters
    ----------
    rows : Callable
        Gives the rows to look at, in the store's order, from the key where there are `values`.
    values : tuple of Expression
        The parts of the key; they name other sources.
    answered : tuple of Expression
        Conditions that hold for all of these rows.
    nulls : bool
        Whether null finds null, where nothing else is asked of a row.
    exact : bool
        Whether the rows are those whose attributes equal the key; otherwise it is a tuple for `Searchable.search`.
    """

    rows: Callable[..., Iterable[Arrival]]
    values: tuple[ast.Expression, ...] = ()
    answered: tuple[ast.Expression, ...] = ()
    nulls: bool = False
    exact: bool = True

    def rest(self, condition: ast.Expression | None) -> list[ast.Expression]:
        """Return what is left to test of a condition."""
        return [part for part in conjuncts(condition) if not any(part is each for each in self.answered)]

    def key(self, names: Sequence[str]) -> str:
        """Return source of what `rows` is given, from variables with the values."""
        if not self.exact:
            return f"({', '.join(names)},)"
        return names[0] if len(names) == 1 else f"({', '.join(names)})" if names else ""


def ask(store: Store, condition: ast.Expression | None, scope: Scope, position: int, catalog: Catalog) -> Asked:
    """Return what to ask `store` for, which stands at `position` in `scope`, to find what meets `condition`."""
    keys = equalities(condition, scope, position, catalog)
    index = store.index(tuple(key.attribute for key in keys)) if keys else None
    if index is not None:
        by_attribute = {key.attribute: key for key in keys}
        used = [by_attribute[attribute] for attribute in index.attributes]
        values = tuple(key.value for key in used)
        return Asked(index.lookup, values, tuple(key.condition for key in used), index.nulls)
    if isinstance(store, Searchable):
        pushed = push(condition, scope, position, catalog)
        if pushed is not None:
            return Asked(store.search(pushed.test), pushed.values, exact=False)
    return Asked(store.contents)


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
        asked = ask(store, self.condition, self.scope, self.position, self.catalog)
        bindings = Bindings()
        lines = self._source(asked, bindings)
        maker = build(f"{self.title} find", lines, bindings.names)["make"]
        finder: Finder = maker(asked.rows, clock)
        return finder

    def _source(self, asked: Asked, bindings: Bindings) -> list[str]:
        around, inside = Frame(), Frame()
        outer = self.outer(around, bindings)
        rest = asked.rest(self.condition)
        nulls = asked.nulls and not any(names_store(part, self.scope, self.position) for part in rest)
        before, key = self._key(asked, around, outer, bindings, nulls)
        reader = StoredReader(self.scope, self.position, self.catalog, inside, "held", outer)
        writer = ExpressionWriter(reader, inside, bindings)
        tests: list[str] = []
        for part in rest:
            test = writer.condition(part)
            tests += [*inside.assignments(), f"if not {test}:", "    continue"]
        # What tests read of the event stands in front of the loop, so it is read once.
        before += around.assignments()
        if not tests:
            # A copy: what a store returns is valid only until it changes, and callers change it.
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
    def _key(asked: Asked, frame: Frame, outer: Reader, bindings: Bindings, nulls: bool) -> tuple[list[str], str]:
        """Return what computes the parts of the key, leaving at a null that finds nothing, and source of the key."""
        writer = ExpressionWriter(outer, frame, bindings)
        lines: list[str] = []
        for number, value in enumerate(asked.values):
            code = writer.write(value)
            lines += [*frame.assignments(), f"key{number} = {code.text}"]
            if code.nullable and not nulls and asked.exact:
                lines += [f"if key{number} is None:", "    return []"]
        return lines, asked.key([f"key{number}" for number in range(len(asked.values))])
