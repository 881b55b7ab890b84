"""What an app keeps rows in, as far as it has a typed form: tables and named windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation, CheckedApp, CheckedPartition, CheckedQuery
from spdist.program.read_shape import LoopWindow
from spdist.program.tables.shape import LoopTable, tables_of
from spdist.program.windows.named_shape import windows_of

__all__ = ["LoopStores", "stores_named", "stores_of"]

_Element = CheckedQuery | CheckedPartition | CheckedAggregation


@dataclass(frozen=True)
class LoopStores:
    """The tables and named windows of an app.

    Parameters
    ----------
    tables : mapping of str to LoopTable
        The tables that have a typed form.
    windows : mapping of str to LoopWindow
        The named windows that have one.
    why : mapping of str to str
        Why the others have none.
    """

    tables: Mapping[str, LoopTable]
    windows: Mapping[str, LoopWindow]
    why: Mapping[str, str]

    @property
    def typed(self) -> set[str]:
        """The names of those that have a typed form."""
        return {*self.tables, *self.windows}

    def without(self, why: Mapping[str, str]) -> LoopStores:
        """Return them with some that have no typed form for these reasons."""
        tables = {id: table for id, table in self.tables.items() if id not in why}
        windows = {id: window for id, window in self.windows.items() if id not in why}
        return LoopStores(tables, windows, {**why, **self.why})

    def windows_of(self, element: _Element) -> tuple[LoopWindow, ...]:
        """Return the windows with a typed form that an element names."""
        named = stores_named((element,), set(self.windows))
        return tuple(window for id, window in self.windows.items() if id in named)


def stores_of(checked: CheckedApp) -> LoopStores:
    """Return the tables and named windows of an app that its queries name."""
    named = stores_named(checked.elements, {*checked.tables, *checked.windows})
    tables, no_table = tables_of(checked, named)
    windows, no_window = windows_of(checked, named)
    return LoopStores(tables, windows, {**no_table, **no_window})


def stores_named(elements: Iterable[_Element], stores: set[str]) -> set[str]:
    """Return those of some tables and named windows that elements write, read, join or look into."""
    found: set[str] = set()
    for element in elements:
        queries = element.queries if isinstance(element, CheckedPartition) else (element,)
        found |= {source.stream_id for one in queries for source in one.scope.sources}
        found |= {one.target for one in queries if isinstance(one, CheckedQuery)}
        found |= {node.table for node in _text(element).walk() if isinstance(node, ast.In)}
    return found & stores


def _text(element: _Element) -> ast.Node:
    if isinstance(element, CheckedPartition):
        return element.partition
    return element.query if isinstance(element, CheckedQuery) else element.definition
