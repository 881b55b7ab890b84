"""The ``regex:`` functions of siddhi-execution-regex, and how functions check regular expressions that are constants.

The regular expression comes first. A null one costs the event; of a null text only ``regex:group`` does, the others are
false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError
from spdist.extension import function, signature
from spdist.java.regex.pattern import JavaPattern, java_pattern
from spdist.java.regex.syntax import JavaRegexError, UntranslatableRegexError
from spdist.language import ast
from spdist.language.types import Type

__all__ = ["checking"]

_STRING = Type.STRING


def checking(
    id: str, position: int, *overloads: tuple[tuple[Any, ...], Type | int], lenient: bool = False
) -> Callable[..., Type]:
    """Return a resolver that also reads the regular expression at `position`, where it is a constant.

    Parameters
    ----------
    id : str
        The function's name.
    position : int
        Of the argument that is a regular expression.
    *overloads : tuple
        See `spdist.extension.signature`.
    lenient : bool
        Whether a wrong one is left to fail with each event, as Siddhi does where it reads it late.

    Returns
    -------
    Callable
        Raises SiddhiTypeError for what is no regular expression, SiddhiAppError for one of Java's that cannot
        be run here.
    """
    resolve = signature(id, *overloads)

    def checked(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...] = ()) -> Type:
        result = resolve(types, expressions)
        regex = expressions[position] if len(expressions) > position else None
        if isinstance(regex, ast.Literal) and isinstance(regex.value, str):
            read_constant(regex.value, lenient)
        return result

    return checked


def read_constant(regex: str, lenient: bool = False) -> None:
    """Read a regular expression of an app's text; raises as `checking` says."""
    try:
        java_pattern(regex)
    except JavaRegexError as error:
        if not lenient:
            raise SiddhiTypeError(str(error)) from error
    except UntranslatableRegexError as error:
        raise SiddhiAppError(str(error), code=ErrorKind.UNSUPPORTED) from error


def _read(regex: str | None, id: str) -> JavaPattern:
    if regex is None:
        raise ValueError(f"'{id}' takes no null as regular expression")
    return java_pattern(regex)


_TWO = ((_STRING, _STRING), Type.BOOL)


@function("regex:find", checking("regex:find", 0, _TWO, ((_STRING, _STRING, Type.INT), Type.BOOL)))
def find(regex: str | None, text: str | None, *start: int | None) -> bool:
    """Tell whether a part of the text fits, at or behind a position. Source: FindFunctionExtension."""
    pattern = _read(regex, "regex:find")
    at = start[0] if start else 0
    if text is None or at is None:
        return False
    if not 0 <= at <= len(text):
        raise IndexError(f"there is no position {at}")
    return pattern.search(text, at) is not None


@function("regex:matches", checking("regex:matches", 0, _TWO))
def matches(regex: str | None, text: str | None) -> bool:
    """Tell whether the whole text fits. Source: MatchesFunctionExtension."""
    pattern = _read(regex, "regex:matches")
    return text is not None and pattern.fullmatch(text) is not None


@function("regex:lookingAt", checking("regex:lookingAt", 0, _TWO))
def looking_at(regex: str | None, text: str | None) -> bool:
    """Tell whether the text begins with what fits. Source: LookingAtFunctionExtension."""
    pattern = _read(regex, "regex:lookingAt")
    return text is not None and pattern.match(text) is not None


@function("regex:group", checking("regex:group", 0, ((_STRING, _STRING, Type.INT), _STRING)))
def group(regex: str | None, text: str | None, number: int | None) -> str | None:
    """Give what a group found first, null where there is none; group 0 is all of it. Source: GroupFunctionExtension."""
    pattern = _read(regex, "regex:group")
    if text is None or number is None:
        raise ValueError("'regex:group' takes no null")
    match = pattern.search(text)
    if match is None or number > pattern.groups:
        return None
    if number < 0:
        raise IndexError(f"there is no group {number}")
    found: str | None = match.group(number)
    return found
