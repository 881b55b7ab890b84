"""The seven attribute types of SiddhiQL, schemas, and numeric promotion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from spdist.display import Shown, table_html

__all__ = ["Schema", "Type", "promote"]


class Type(Enum):
    """The type of an attribute or expression, as written in SiddhiQL.

    Values at run time: ``string`` str, ``int`` and ``long`` int, ``float`` and ``double`` float (a ``float`` is rounded
    to 32 bits when it is made), ``bool`` bool, ``object`` anything. Every type may be null (``None``).
    """

    STRING = "string"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOL = "bool"
    OBJECT = "object"

    @property
    def numeric(self) -> bool:
        """True for int, long, float and double."""
        return self in _RANK

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.value


_RANK = {Type.INT: 0, Type.LONG: 1, Type.FLOAT: 2, Type.DOUBLE: 3}


def promote(left: Type, right: Type) -> Type | None:
    """Return the type of arithmetic between two numbers (double > float > long > int); None where one is no number."""
    if left in _RANK and right in _RANK:
        # float wins over long, as in Java, although it holds fewer digits
        return left if _RANK[left] >= _RANK[right] else right
    return None


@dataclass(frozen=True)
class Schema(Shown):
    """Names and types of a stream's attributes, in order; a row of that stream is a tuple of the same length."""

    fields: tuple[tuple[str, Type], ...]

    @classmethod
    def of(cls, fields: Iterable[tuple[str, Type | str]]) -> Schema:
        """Build a schema from ``(name, type)`` pairs, types as `Type` or as written in SiddhiQL."""
        return cls(tuple((name, Type(kind) if isinstance(kind, str) else kind) for name, kind in fields))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(name for name, _ in self.fields)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """The attributes' types."""
        return tuple(kind for _, kind in self.fields)

    def index(self, name: str) -> int | None:
        """Return the position of attribute `name`, or None."""
        return self._positions.get(name)

    @cached_property
    def _positions(self) -> dict[str, int]:
        # The first of a name that stands twice.
        return {name: position for position, (name, _) in reversed(list(enumerate(self.fields)))}

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[tuple[str, Type]]:
        return iter(self.fields)

    def __str__(self) -> str:
        return "(" + ", ".join(f"{name} {kind}" for name, kind in self.fields) + ")"

    def __repr__(self) -> str:
        return f"Schema{self}"

    def _repr_html_(self) -> str:
        return table_html(("attribute", "type"), self.fields)
