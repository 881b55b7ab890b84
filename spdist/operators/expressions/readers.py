"""How generated code gets at attributes: of one row, of a query's own output, of the events of a partial match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from spdist.functions.forms import Code
from spdist.java.numbers import text_of
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Reference, Scope
from spdist.language.types import Type

# Who writes expressions has a reader: so `in` is known to the writers wherever one can stand.
from spdist.operators.expressions import membership as membership
from spdist.operators.expressions.codegen import Bindings, Frame
from spdist.operators.expressions.expression import Reader

__all__ = ["ElementReader", "InputReader", "ResultReader", "RowReader", "key_part"]


class InputReader(Reader, Protocol):
    """Reads what a query reads; `frame` holds its local variables."""

    frame: Frame

    def read(self, reference: Reference) -> Code:
        """Return the code of what a name means: an attribute of one of the sources of `scope`."""
        ...


def key_part(code: Code, bindings: Bindings) -> str:
    """Return source of a part of a group's key: values are one group where Java writes them alike."""
    if code.type is Type.STRING:
        return f"('null' if {code.text} is None else {code.text})"
    if code.type in (Type.INT, Type.LONG, Type.BOOL):
        return code.text
    return f"{bindings.bind(text_of, 'text_of')}({code.text})"


class RowReader:
    """Reads the attributes of one row, each into a local variable where it is first needed.

    Parameters
    ----------
    scope : Scope
        Has one source.
    catalog : Catalog
        For the types of calls.
    frame : Frame
        The generated function's local variables.
    row : str
        The variable that holds the row.
    prefix : str
        Begins the names of the variables.
    """

    def __init__(self, scope: Scope, catalog: Catalog, frame: Frame, row: str = "row", prefix: str = "a") -> None:
        self.scope = scope
        self.catalog = catalog
        self.frame = frame
        self.row = row
        self.prefix = prefix

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute: a local variable."""
        return self.read(self.scope.resolve(variable))

    def read(self, reference: Reference) -> Code:
        """Return the code of what a name means: a local variable."""
        name = self.frame.local(f"{self.row}[{reference.attribute}]", f"{self.prefix}{reference.attribute}")
        return Code(name, reference.type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        return self.frame.known(f"{self.row}[{self.scope.resolve(variable).attribute}]")

    def everything(self) -> str:
        """Return source of the row of ``select *``."""
        return self.row

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source for ``S is null``: the event that is read is always there."""
        return "False"

    def timestamp(self) -> str:
        """Return source of the event's timestamp."""
        return "ts"

    def event_time(self, node: ast.EventTime) -> str:
        """Return source of the time of the event that is read."""
        return "ts"

    def type_of(self, call: ast.FunctionCall) -> Type:
        """Return the static type of a call."""
        return type_of(call, self.scope, self.catalog)


class ResultReader(RowReader):
    """Reads what a query puts out, and what it reads: the names of ``having`` and ``order by``.

    Parameters
    ----------
    scope : Scope
        See `Scope.results`.
    input : InputReader
        Reads the query's input.
    row : str
        The variable that holds the query's result.
    """

    def __init__(self, scope: Scope, input: InputReader, row: str) -> None:
        super().__init__(scope, input.catalog, input.frame, row, "h")
        self.input = input

    def read(self, reference: Reference) -> Code:
        """Return the code of what a name means."""
        return super().read(reference) if self.scope.is_output(reference) else self.input.read(reference)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        return self.variable(variable).value

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source that is true where the query's input has no event of that name."""
        return self.input.missing(node)

    def event_time(self, node: ast.EventTime) -> str:
        """Return source of the time of an event of the query's input."""
        return self.input.event_time(node)


def _own_event(chain: list[Any] | None, index: int, row: Any) -> Any:
    """Return the row at `index` of what an element has collected, the arriving one counted as the last."""
    held = len(chain) if chain is not None else 0
    if index < held:
        assert chain is not None
        return chain[index][1]
    return row if index == held else None


def _counted_event(chain: list[Any] | None, index: int) -> Any:
    """Return the row at `index` (negative: from the end) of what an element has collected, or None."""
    if not chain or not -len(chain) <= index < len(chain):
        return None
    return chain[index][1]


class ElementReader:
    """Reads the events of a partial match ``p``, each into a local variable where it is first needed.

    Parameters
    ----------
    scope : Scope
        The pattern's elements; for a filter, seen from its element.
    catalog : Catalog
        For the types of calls.
    frame : Frame
        The generated function's local variables.
    bindings : Bindings
        The code's globals.
    slots : Sequence[int]
        The slot of each element.
    own : int, optional
        For a filter: the position of its element, whose event is the arriving ``row``.
    """

    def __init__(
        self,
        scope: Scope,
        catalog: Catalog,
        frame: Frame,
        bindings: Bindings,
        slots: Sequence[int],
        own: int | None = None,
    ) -> None:
        self.scope = scope
        self.catalog = catalog
        self.frame = frame
        self.bindings = bindings
        self.slots = slots
        self.own = own

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute of an event, or of the list of a counted element's values."""
        return self.read(self.scope.resolve(variable))

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        reference = self.scope.resolve(variable)
        if reference.multiple:
            return self._values(reference)
        return self.frame.known(f"{self._row(reference)}[{reference.attribute}]")

    def read(self, reference: Reference, first: bool = False) -> Code:
        """Return the code of what a name means; of a counted element `first` or the last event, where none is named."""
        if reference.multiple:
            return Code(self._values(reference), Type.OBJECT, nullable=False)
        source = f"{self._row(reference, first)}[{reference.attribute}]"
        name = f"a{reference.source}_{reference.attribute}{_suffix(reference.index, first)}"
        return Code(self.frame.local(source, name), reference.type, atom=True)

    def _row(self, reference: Reference, first: bool = False) -> str:
        """Return the variable that holds an event's row, or a row of nulls where there is no event."""
        position, index = reference.source, reference.index
        counted = self.scope.sources[position].multiple
        if position == self.own and index is None:
            return "row"
        if index is None and counted:
            index = ast.EventIndex(0, from_last=not first)
        slot = f"p[{self.slots[position]}]"
        nothing = self.bindings.constant((None,) * len(self.scope.sources[position].schema))
        if not counted and position != self.own:
            if index is not None and index.position:
                return nothing  # there is only one event
            held = self.frame.local(slot, f"s{position}")
            return self.frame.local(f"{held}[1] if {held} is not None else {nothing}", f"e{position}")
        assert index is not None
        return self.frame.local(f"{self._indexed(slot, position, index)} or {nothing}", f"e{position}{_suffix(index)}")

    def _indexed(self, slot: str, position: int, index: ast.EventIndex) -> str:
        if position == self.own and not index.from_last:
            return f"{self.bindings.bind(_own_event, 'own_event')}({slot}, {index.position}, row)"
        # Seen from its own filter, the last event is the one before the arriving one.
        at = -1 - index.position if index.from_last else index.position
        return f"{self.bindings.bind(_counted_event, 'counted_event')}({slot}, {at})"

    def _values(self, reference: Reference) -> str:
        slot = f"p[{self.slots[reference.source]}]"
        return f"[event[1][{reference.attribute}] for event in {slot} or ()]"

    def everything(self) -> str:
        """Return source of the row of ``select *``."""
        return f"({''.join(f'{self.read(reference, first=True).value}, ' for reference in self.scope.star())})"

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source that is true where an element has no event, or none at the index given."""
        position = self.scope.find(node.stream)
        if position == self.own and node.index is None:
            return "False"
        slot = f"p[{self.slots[position]}]"
        if not self.scope.sources[position].multiple or node.index is None:
            return "True" if node.index is not None and node.index.position else f"({slot} is None)"
        return f"({self._indexed(slot, position, node.index)} is None)"

    def timestamp(self) -> str:
        """Return source of the timestamp of the event that came last."""
        return "ts"

    def event_time(self, node: ast.EventTime) -> str:
        """Return source of the time of an element's event.

        Of those that were counted it is the last one in a filter, and the first one where matches are selected.
        """
        position = self.scope.find(node.stream)
        if position == self.own:
            return "ts"
        slot = f"p[{self.slots[position]}]"
        counted = self.scope.sources[position].multiple
        return f"{slot}[{0 if self.own is None else -1}][0]" if counted else f"{slot}[0]"

    def type_of(self, call: ast.FunctionCall) -> Type:
        """Return the static type of a call."""
        return type_of(call, self.scope, self.catalog)


def _suffix(index: ast.EventIndex | None, first: bool = False) -> str:
    if index is None:
        return "_first" if first else ""
    return f"_last{index.position or ''}" if index.from_last else f"_{index.position}"
