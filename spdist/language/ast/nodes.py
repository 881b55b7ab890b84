"""What all nodes have, and annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from spdist.errors import Span

__all__ = ["Annotation", "AnnotationElement", "Node", "find_annotations"]


#: By kind of node: the names of what it consists of, without its place.
_PARTS: dict[type, tuple[str, ...]] = {}


def _parts(kind: type[Node]) -> tuple[str, ...]:
    # `fields` makes its tuple anew for each call, and walks ask for every node
    if kind not in _PARTS:
        _PARTS[kind] = tuple(part.name for part in fields(kind) if part.name != "span")
    return _PARTS[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything that stands in an app's text."""

    span: Span | None = field(default=None, compare=False, repr=False)

    def children(self) -> Iterator[Node]:
        """Yield the nodes directly below this one, in the order of the text."""
        for name in _parts(type(self)):
            value = getattr(self, name)
            if isinstance(value, Node):
                yield value
            elif isinstance(value, tuple):
                yield from (item for item in value if isinstance(item, Node))

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes below it, depth first."""
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class AnnotationElement(Node):
    """``key='value'`` or a positional ``'value'`` (key None) inside an annotation."""

    key: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """``@name(key='value', @nested(...))``. For ``@app:name(...)`` the name is ``app:name``."""

    name: str
    elements: tuple[AnnotationElement, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    def get(self, key: str | None = None) -> str | None:
        """Return the value of element `key` (case-insensitive), or the first positional value for None; else None."""
        for element in self.elements:
            if (element.key.lower() if element.key else None) == (key.lower() if key else None):
                return element.value
        return None

    def nested(self, name: str) -> tuple[Annotation, ...]:
        """Return the nested annotations called `name` (case-insensitive)."""
        return find_annotations(self.annotations, name)


def find_annotations(annotations: tuple[Annotation, ...], name: str) -> tuple[Annotation, ...]:
    """Return the annotations called `name`; names compare case-insensitively."""
    return tuple(a for a in annotations if a.name.lower() == name.lower())
