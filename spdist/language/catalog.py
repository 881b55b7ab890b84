"""What the checker knows of functions, aggregators and windows: signatures as values, no implementations.

The catalog is handed to the checker as an argument, so the language does not import what implements it
(`spdist.extension` fills it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spdist.language.ast import Expression
from spdist.language.types import Schema, Type

#: From argument types and argument expressions to the result type (of ``cast`` and ``convert`` a constant names it);
#: raises SiddhiTypeError (message and hint only: the checker adds the span).
Resolver = Callable[[tuple[Type, ...], tuple[Expression, ...]], Type]
#: Checks the arguments of a window: their types, and the expressions, since some must be constants.
WindowResolver = Callable[[tuple[Type, ...], tuple[Expression, ...]], None]
#: From input schema, argument types and argument expressions of a stream function to the attributes it appends.
StreamFunctionResolver = Callable[[Schema, tuple[Type, ...], tuple[Expression, ...]], Schema]


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Signatures by id (``name`` or ``ns:name``, case-sensitive).

    ``stream_processors`` are those of ``stream_functions`` that keep state. ``stores`` are the tables of the app that
    is compiled, by id, which ``in`` looks into; the checker knows only their schemas, and leaves them alone.
    ``mappings`` are those besides the built-in ones. ``scripts`` tells whether apps may define functions in Python.
    Two are equal where they are the same object, so that it can be a key.
    """

    functions: Mapping[str, Resolver] = field(default_factory=dict)
    aggregators: Mapping[str, Resolver] = field(default_factory=dict)
    windows: Mapping[str, WindowResolver] = field(default_factory=dict)
    stream_functions: Mapping[str, StreamFunctionResolver] = field(default_factory=dict)
    stream_processors: frozenset[str] = frozenset()
    stores: Mapping[str, Any] = field(default_factory=dict)
    mappings: frozenset[str] = frozenset()
    scripts: bool = False

    def with_functions(self, own: Mapping[str, Resolver]) -> Catalog:
        """Return it with the functions that an app defines, which come before others of their names."""
        return replace(self, functions={**self.functions, **own})
