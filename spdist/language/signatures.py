"""Signatures: which arguments a function takes, what it gives, and how that is written for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from spdist.errors import SiddhiAppError, SiddhiTypeError
from spdist.language.types import Schema, Type

__all__ = ["Accepts", "Signature", "described"]

Accepts = Type | Collection[Type]

#: So many arguments no function takes, unless it takes any number.
_TOO_MANY = 9
_BEGINNING = re.compile(r"(?:it takes|it is written as|write) #?")
_BARE = re.compile(r"(^| or )\(")


class Signature:
    """A resolver with fixed overloads; as text it is how the function is called.

    Parameters
    ----------
    id : str
        The function's name, for messages.
    overloads : sequence of tuple
        ``(accepted types of each argument, result)``; the result is a type or the position of the argument whose type
        it has.
    repeat : bool
        True where the last argument of an overload may be given any number of times (at least once).

    Examples
    --------
    >>> print(Signature("demo:twice", [((Type.INT,), Type.INT), (({Type.FLOAT, Type.DOUBLE},), 0)]))
    demo:twice(int) → int or demo:twice(float|double) → float|double
    """

    def __init__(
        self, id: str, overloads: Sequence[tuple[tuple[Accepts, ...], Type | int]], repeat: bool = False
    ) -> None:
        self._id = id
        self._repeat = repeat
        self._overloads = [
            (tuple(frozenset({a}) if isinstance(a, Type) else frozenset(a) for a in arguments), result)
            for arguments, result in overloads
        ]

    def __call__(self, types: tuple[Type, ...], *_: Any) -> Type:
        """Return the result type of a call.

        Raises
        ------
        SiddhiTypeError
            No overload takes these types.
        """
        for arguments, result in self._overloads:
            if self._repeat and len(types) > len(arguments):
                arguments = arguments + (arguments[-1],) * (len(types) - len(arguments))
            if len(types) == len(arguments) and all(t in a for t, a in zip(types, arguments, strict=True)):
                return types[result] if isinstance(result, int) else result
        given = ", ".join(str(t) for t in types)
        taken = " or ".join(self._arguments(arguments) for arguments, _ in self._overloads)
        raise SiddhiTypeError(f"'{self._id}' does not take ({given})", hint=f"it takes {taken}")

    def __str__(self) -> str:
        return " or ".join(
            f"{self._id}{self._arguments(arguments)} → "
            f"{_words(arguments[result]) if isinstance(result, int) else result}"
            for arguments, result in self._overloads
        )

    def _arguments(self, arguments: tuple[frozenset[Type], ...]) -> str:
        return f"({', '.join(map(_words, arguments))}{', …' if self._repeat else ''})"


def _words(types: frozenset[Type]) -> str:
    return "anything" if len(types) == len(Type) else "|".join(t.value for t in Type if t in types)


def described(id: str, resolve: Callable[..., Any], *, of_stream: bool = False) -> str:
    """Return how a function, aggregator, window or stream function is called.

    Parameters
    ----------
    id : str
        Its name.
    resolve : Callable
        Its entry in the catalog. One that is no `Signature` says it in the hint with which it refuses a wrong call.
    of_stream : bool
        Whether it is a stream function.

    Examples
    --------
    >>> described("demo:any", lambda types, expressions: Type.INT)
    'demo:any(…)'
    """
    if isinstance(resolve, Signature):
        return str(resolve)
    # Most refuse many arguments; those that take any number refuse none at all
    for count in (_TOO_MANY, 0):
        arguments = (Type.OBJECT,) * count, (None,) * count
        try:
            resolve(*([Schema(())] if of_stream else []), *arguments)
        except SiddhiAppError as error:
            if error.hint and "(" in error.hint:
                forms = error.hint.partition(", for example ")[0]
                return _BARE.sub(rf"\1{id}(", _BEGINNING.sub("", forms))
        except Exception:  # whatever a resolver of a user does with arguments that make no sense
            continue
    return f"{id}(…)"
