"""The SiddhiQL of group instances, printed from syntax trees: a group's queries with what they need defined."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from spdist.language.ast import (
    AggregationDefinition,
    Annotation,
    AnnotationElement,
    Attribute,
    Definition,
    FunctionCall,
    Node,
    SiddhiApp,
    StreamDefinition,
    StreamRef,
)
from spdist.language.format import format_app, format_node
from spdist.language.types import Schema
from spdist.planning.forming import Definitions, Group
from spdist.planning.receivers import without
from spdist.planning.sinks import EMBEDDED
from spdist.planning.topology import GroupInstance

__all__ = ["Children", "stand_in"]

_N = TypeVar("_N", bound=Node)
_NO_NAME = re.compile(r"\W")


@dataclass(frozen=True)
class Children:
    """Writes the apps of groups.

    Parameters
    ----------
    app : SiddhiApp
        The whole app.
    definitions : Definitions
        What it defines.
    reads : mapping of str to StreamDefinition
        What each passthrough group reads.
    schemas : mapping of str to Schema
        Attributes of all its streams.
    own : collection of (str, str)
        Group and stream where a group reads the stream's own sources.
    sinks : frozenset of (str, str)
        Group and stream where a group writes the stream's own sinks.
    """

    app: SiddhiApp
    definitions: Definitions
    reads: Mapping[str, StreamDefinition]
    schemas: Mapping[str, Schema]
    own: Collection[tuple[str, str]]
    sinks: frozenset[tuple[str, str]]

    @cached_property
    def _order(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self.definitions)}

    def of(self, group: Group, crossing: Iterable[str]) -> tuple[GroupInstance, ...]:
        """Return the instances of `group`; `crossing` are the streams that it reads from, or publishes to, others."""
        definitions = self._definitions(group, crossing)
        elements = tuple(replace(e.node, annotations=without(e.node.annotations, "dist")) for e in group.elements)
        first = group.instances[0]
        text = format_app(
            SiddhiApp((_called(first), *without(self.app.annotations, "app:name")), definitions, elements)
        )
        # They differ in nothing but the name, which stands at the beginning.
        named = format_node(_called(first))
        return tuple(
            GroupInstance(name, f"{format_node(_called(name))}{text[len(named) :]}") for name in group.instances
        )

    def _definitions(self, group: Group, crossing: Iterable[str]) -> tuple[Definition, ...]:
        """Return what the group's queries need defined, in the order of the app; then streams that cross its border."""
        joined = {one.name: one for one in group.joins(self.definitions)}
        aggregations = (*group.aggregations, *joined.values())
        used = {name for part in group.parts for name in part.ids}
        used |= {stream for element in group.elements for stream in element.keys}
        used |= {aggregation.name for aggregation in aggregations}
        used |= {one.input.stream.name for one in group.aggregations if one.input is not None}
        nodes = (*(element.node for element in group.elements), *aggregations)
        # An app's own functions are definitions too, and are called by their name
        used |= {call.id for node in nodes for call in node.walk() if isinstance(call, FunctionCall)}
        found: list[Definition] = [self.reads[group.name]] if group.name in self.reads else []
        for name in sorted(used & self.definitions.keys(), key=self._order.__getitem__):
            if name in joined:
                found += self._copy(joined[name], group)
            else:
                found.append(self._definition(self.definitions[name], group))
        defined = {definition.name for definition in found}
        return (*found, *(self._inferred(name) for name in dict.fromkeys(crossing) if name not in defined))

    def _definition(self, definition: Definition, group: Group) -> Definition:
        """Return a definition with those of its sources and sinks that are the group's own.

        The topology says what each instance reads and publishes.
        """
        here = group.name, definition.name
        annotations = without(definition.annotations, "dist", *(() if here in self.own else ("source",)))
        kept = [
            replace(one, annotations=without(one.annotations, "dist"))
            for one in annotations
            if one.name.lower() != "sink" or (here in self.sinks and one.get("type") != EMBEDDED)
        ]
        return replace(definition, annotations=tuple(kept))

    def _inferred(self, name: str) -> StreamDefinition:
        return StreamDefinition(name, tuple(Attribute(field, kind) for field, kind in self.schemas[name]))

    def _copy(self, aggregation: AggregationDefinition, group: Group) -> tuple[Definition, Definition]:
        """Return an aggregation as those need it who only read its store: over a stream that nobody feeds."""
        assert aggregation.input is not None
        stream = aggregation.input.stream.name
        name = stand_in(stream, group.name)
        # The inferred form has no annotations: a source would feed it, and the store would get each event twice
        dry = replace(self._inferred(stream), name=name)
        annotations = without(aggregation.annotations, "dist")
        return dry, replace(_renamed(aggregation, stream, name), annotations=annotations)


def _called(name: str) -> Annotation:
    return Annotation("app:name", (AnnotationElement(None, name),))


def stand_in(stream: str, group: str) -> str:
    """Return what stands for the stream of an aggregation in a group that only reads the aggregation's store."""
    return f"{stream}_{_NO_NAME.sub('_', group)}"


def _renamed(node: _N, old: str, new: str) -> _N:
    """Return `node` with every mention of stream `old` changed to `new`."""
    if isinstance(node, StreamRef):
        return replace(node, name=new) if node.name == old else node

    def change(value: Any) -> Any:
        if isinstance(value, Node):
            return _renamed(value, old, new)
        return tuple(map(change, value)) if isinstance(value, tuple) else value

    return replace(node, **{one.name: change(getattr(node, one.name)) for one in fields(node) if one.name != "span"})
