"""What an app defines."""

from __future__ import annotations

from dataclasses import dataclass, field

from spdist.language.ast.expressions import FunctionCall, TimeLiteral, Variable
from spdist.language.ast.inputs import SingleInput
from spdist.language.ast.nodes import Annotation, Node
from spdist.language.ast.outputs import EventsKind, Selection
from spdist.language.types import Schema, Type

__all__ = [
    "AggregationDefinition",
    "Attribute",
    "Definition",
    "FunctionDefinition",
    "StreamDefinition",
    "TableDefinition",
    "TriggerDefinition",
    "WindowDefinition",
]


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """``name type`` in a definition."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Definition(Node):
    """``define ...``."""

    name: str
    annotations: tuple[Annotation, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class _WithAttributes(Definition):
    attributes: tuple[Attribute, ...] = ()

    @property
    def schema(self) -> Schema:
        """Names and types in order."""
        return Schema(tuple((a.name, a.type) for a in self.attributes))


@dataclass(frozen=True, slots=True)
class StreamDefinition(_WithAttributes):
    """``define stream S (a string)``."""


@dataclass(frozen=True, slots=True)
class TableDefinition(_WithAttributes):
    """``define table T (a string)``."""


@dataclass(frozen=True, slots=True)
class WindowDefinition(_WithAttributes):
    """``define window W (a string) time(1 min) output all events``; ``output`` None where it was not written."""

    window: FunctionCall | None = None
    output: EventsKind | None = None


@dataclass(frozen=True, slots=True)
class TriggerDefinition(Definition):
    """``define trigger T at every 5 sec`` (``every`` set) or ``at 'start'`` / ``at '<cron>'`` (``at`` set)."""

    every: TimeLiteral | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionDefinition(Definition):
    """``define function f[language] return type { body }``."""

    language: str = ""
    returns: Type = Type.OBJECT
    body: str = ""


@dataclass(frozen=True, slots=True)
class AggregationDefinition(Definition):
    """``define aggregation A from S select … group by … aggregate by ts every sec ... year``.

    ``durations`` holds what was written (singular canonical units); with ``is_range`` two entries, first and last.
    """

    input: SingleInput | None = None
    select: Selection | None = None
    aggregate_by: Variable | None = None
    durations: tuple[str, ...] = ()
    is_range: bool = False
