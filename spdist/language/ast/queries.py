"""Queries, partitions, and the app as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import ClassVar

from spdist.display import Shown, number_of
from spdist.errors import SiddhiAppError
from spdist.language.ast.definitions import Definition
from spdist.language.ast.expressions import Expression, StreamRef
from spdist.language.ast.inputs import JoinInput, PatternInput, SingleInput
from spdist.language.ast.nodes import Annotation, Node, find_annotations
from spdist.language.ast.outputs import Output, OutputRate, Selection

__all__ = [
    "AnonymousInput",
    "ExecutionElement",
    "Input",
    "OnDemandQuery",
    "Partition",
    "PartitionKey",
    "Query",
    "RangeCondition",
    "SiddhiApp",
]


@dataclass(frozen=True, slots=True)
class Query(Node):
    """``from … select … insert into …``."""

    input: Input
    output: Output
    select: Selection = field(default_factory=Selection)
    rate: OutputRate | None = None
    annotations: tuple[Annotation, ...] = ()

    @property
    def name(self) -> str | None:
        """The name given by ``@info(name='…')``."""
        for info in find_annotations(self.annotations, "info"):
            return info.get("name")
        return None


@dataclass(frozen=True, slots=True)
class AnonymousInput(Node):
    """``from (from … return)``: parsed, never run (the engine refuses it too)."""

    query: Query


Input = SingleInput | JoinInput | PatternInput | AnonymousInput


@dataclass(frozen=True, slots=True)
class RangeCondition(Node):
    """``condition as 'label'``."""

    condition: Expression
    label: str


@dataclass(frozen=True, slots=True)
class PartitionKey(Node):
    """``expression of S`` (value set) or ``cond as 'a' or cond as 'b' of S`` (ranges set)."""

    stream: StreamRef
    value: Expression | None = None
    ranges: tuple[RangeCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition(Node):
    """``partition with (…) begin … end``."""

    keys: tuple[PartitionKey, ...]
    queries: tuple[Query, ...]
    annotations: tuple[Annotation, ...] = ()


ExecutionElement = Query | Partition


@dataclass(frozen=True, slots=True)
class SiddhiApp(Node, Shown):
    """A whole app: annotations, then definitions, then queries and partitions, each in the order of the text.

    Shows itself as its text, as `spdist.language.format` writes it.
    """

    #: Returns the text of an app; raises SiddhiAppError where SiddhiQL has no way to write a part of it.
    writes: ClassVar[Callable[[SiddhiApp], str]] = repr

    annotations: tuple[Annotation, ...] = ()
    definitions: tuple[Definition, ...] = ()
    elements: tuple[ExecutionElement, ...] = ()

    @property
    def name(self) -> str | None:
        """The name given by ``@app:name('…')``."""
        for annotation in find_annotations(self.annotations, "app:name"):
            return annotation.get(None) or annotation.get("name")
        return None

    @property
    def playback(self) -> bool:
        """True where ``@app:playback`` says that only events move the clock."""
        return bool(find_annotations(self.annotations, "app:playback"))

    def __str__(self) -> str:
        try:
            return type(self).writes(self)
        except SiddhiAppError:  # SiddhiQL has no way to write a part of it
            return repr(self)

    def __repr__(self) -> str:
        queries = sum(len(one.queries) if isinstance(one, Partition) else 1 for one in self.elements)
        counted = f"{number_of(len(self.definitions), 'definition')}, {number_of(queries, 'query', 'queries')}"
        return f"SiddhiApp({self.name or 'without a name'}: {counted})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class OnDemandQuery(Node):
    """A query put to a running app (``from T on … select …``, ``update T …``); `input` None for pure writes."""

    store: str | None = None
    alias: str | None = None
    on: Expression | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    select: Selection = field(default_factory=Selection)
    output: Output | None = None
