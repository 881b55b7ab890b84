"""Where functions, aggregators, windows and stream functions are registered, built-in ones and those of users.

A decorator gives a Python object a SiddhiQL name and a signature; `catalog` hands the signatures to the checker, and
the engine asks `find` for the implementation. Built-in modules are imported when they are first needed.

Examples
--------
>>> from spdist.extension import function, signature
>>> from spdist.language.types import Type
>>> @function("demo:twice", signature("demo:twice", ((Type.INT,), Type.INT)))
... def twice(value):
...     return None if value is None else 2 * value
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from spdist.errors import DuplicateDefinitionError, SiddhiTypeError, UndefinedNameError
from spdist.language.catalog import Catalog, Resolver, StreamFunctionResolver, WindowResolver
from spdist.language.types import Type

__all__ = [
    "ANY",
    "NUMERIC",
    "Extension",
    "Kind",
    "aggregator",
    "catalog",
    "find",
    "function",
    "signature",
    "stream_function",
    "window",
]

Kind = Literal["function", "aggregator", "window", "stream function"]
Decorated = TypeVar("Decorated")

#: Sets of types for `signature`.
ANY = frozenset(Type)
NUMERIC = frozenset({Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE})

# Imported by name so that the lower layer does not depend on the upper ones; each registers itself when imported.
_BUILT_IN = (
    "spdist.functions.core",
    "spdist.functions.aggregators",
    "spdist.functions.streams",
    "spdist.operators.window_length",
    "spdist.operators.window_time",
    "spdist.operators.window_external",
)


@dataclass(frozen=True, slots=True)
class Extension:
    """One registered name.

    Parameters
    ----------
    kind : Kind
        What it is in SiddhiQL.
    id : str
        ``name`` or ``ns:name``, case-sensitive.
    resolve : Callable
        The signature: see `spdist.language.catalog`.
    implementation : Any
        What the decorator stood before.
    inline : bool
        Whether the implementation gives source text to be written into generated code, instead of being called.
    """

    kind: Kind
    id: str
    resolve: Callable[..., Any]
    implementation: Any
    inline: bool = False


_REGISTERED: dict[tuple[Kind, str], Extension] = {}
_LOADED: set[str] = set()


def _load() -> None:
    for module in _BUILT_IN:
        if module not in _LOADED:
            _LOADED.add(module)
            importlib.import_module(module)


def _register(extension: Extension) -> None:
    known = _REGISTERED.get((extension.kind, extension.id))
    # Running a notebook cell twice registers its function anew; only what spdist itself brings may not be replaced.
    if known is not None and known.implementation.__module__ in _BUILT_IN:
        raise DuplicateDefinitionError(
            f"the {extension.kind} '{extension.id}' is built in and cannot be replaced",
            hint="give yours a namespace of its own, such as 'my:" + extension.id.rpartition(":")[2] + "'",
        )
    _REGISTERED[extension.kind, extension.id] = extension


def _decorator(
    kind: Kind, id: str, resolve: Callable[..., Any], inline: bool = False
) -> Callable[[Decorated], Decorated]:
    def register(implementation: Decorated) -> Decorated:
        _register(Extension(kind, id, resolve, implementation, inline))
        return implementation

    return register


def function(id: str, resolve: Resolver, *, inline: bool = False) -> Callable[[Decorated], Decorated]:
    """Register a scalar function.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``.
    resolve : Resolver
        From argument types to the result type, usually made by `signature`.
    inline : bool
        By default the function is called with the values of its arguments. It must be pure: the same arguments give the
        same result, wherever and whenever it runs. True for functions that write source text instead
        (`spdist.functions.forms.FunctionForm`).
    """
    return _decorator("function", id, resolve, inline)


def aggregator(id: str, resolve: Resolver) -> Callable[[Decorated], Decorated]:
    """Register an aggregator.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``.
    resolve : Resolver
        From argument types to the result type, usually made by `signature`.

    Notes
    -----
    What is registered is a class with static methods ``initial() -> state``, ``add(state, value) -> state``,
    ``remove(state, value) -> state`` and ``result(state) -> value``, where a state is plain data (numbers, text, lists,
    dictionaries) and several arguments arrive as a tuple. Built-in ones are functions that give the statements to be
    written into generated code (`spdist.functions.forms.AggregatorForm`).
    """
    return _decorator("aggregator", id, resolve)


def window(id: str, resolve: WindowResolver) -> Callable[[Decorated], Decorated]:
    """Register a window: a subclass of `spdist.operators.base.Window`."""
    return _decorator("window", id, resolve)


def stream_function(id: str, resolve: StreamFunctionResolver) -> Callable[[Decorated], Decorated]:
    """Register a stream function: from a row to the values that it appends."""
    return _decorator("stream function", id, resolve)


def find(kind: Kind, id: str) -> Extension:
    """Return what is registered as `kind` under `id`; raises UndefinedNameError where nothing is."""
    _load()
    known = _REGISTERED.get((kind, id))
    if known is None:
        raise UndefinedNameError(f"there is no {kind} '{id}'")
    return known


def catalog() -> Catalog:
    """Return the signatures of everything that is registered now."""
    _load()

    def of(kind: Kind) -> dict[str, Any]:
        return {id: extension.resolve for (known, id), extension in _REGISTERED.items() if known == kind}

    return Catalog(
        functions=of("function"),
        aggregators=of("aggregator"),
        windows=of("window"),
        stream_functions=of("stream function"),
    )


Accepts = Type | Collection[Type]


def signature(id: str, *overloads: tuple[tuple[Accepts, ...], Type | int], repeat: bool = False) -> Resolver:
    """Return the resolver of a function with fixed overloads.

    Parameters
    ----------
    id : str
        The function's name, for messages.
    *overloads : tuple
        ``(accepted types of each argument, result)``; the result is a type or the position of the argument whose type
        it has.
    repeat : bool
        True where the last argument of an overload may be given any number of times (at least once).

    Returns
    -------
    Resolver
        Raises SiddhiTypeError where no overload fits.
    """
    accepted = [
        (tuple(frozenset({a}) if isinstance(a, Type) else frozenset(a) for a in arguments), result)
        for arguments, result in overloads
    ]

    def resolve(types: tuple[Type, ...], *_: Any) -> Type:
        for arguments, result in accepted:
            if repeat and len(types) > len(arguments):
                arguments = arguments + (arguments[-1],) * (len(types) - len(arguments))
            if len(types) == len(arguments) and all(t in a for t, a in zip(types, arguments, strict=True)):
                return types[result] if isinstance(result, int) else result
        given = ", ".join(str(t) for t in types)
        raise SiddhiTypeError(f"'{id}' does not take ({given})", hint=f"it takes {_listing(accepted, repeat)}")

    return resolve


def _listing(overloads: list[tuple[tuple[frozenset[Type], ...], Type | int]], repeat: bool) -> str:
    def words(types: frozenset[Type]) -> str:
        return "anything" if types == ANY else "|".join(t.value for t in Type if t in types)

    tail = ", …" if repeat else ""
    return " or ".join(f"({', '.join(words(a) for a in arguments)}{tail})" for arguments, _ in overloads)
