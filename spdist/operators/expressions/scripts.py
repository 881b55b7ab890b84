"""Runs the functions that an app defines itself; see `spdist.language.scripts`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from spdist.java import numbers
from spdist.language.javascript import JavaScript
from spdist.language.scripts import JAVASCRIPT, Script
from spdist.language.types import Type
from spdist.operators.expressions.codegen import build

__all__ = ["script_function"]

_RESULTS: dict[Type, Callable[[Any], Any]] = {
    Type.INT: numbers.as_int,
    Type.LONG: numbers.as_long,
    Type.FLOAT: numbers.as_float,
    Type.DOUBLE: numbers.as_double,
    Type.BOOL: numbers.sure_bool,
    Type.STRING: numbers.text_of,
}


@lru_cache(maxsize=256)
def script_function(script: Script) -> Callable[[list[Any]], Any]:
    """Return the function of a script: from the list of its arguments to a value of its type.

    A number becomes one of the declared type, anything becomes a string; what is no number where one is declared fails
    the event, and so does whatever the script raises.
    """
    body = _javascript(script) if script.language == JAVASCRIPT else _python(script)
    convert = _RESULTS.get(script.returns)
    if convert is None:
        return body

    def call(data: list[Any]) -> Any:
        result = body(data)
        return None if result is None else convert(result)

    return call


def _javascript(script: Script) -> Callable[[list[Any]], Any]:
    return JavaScript(script.name, script.body, script.returns is Type.STRING)


def _python(script: Script) -> Callable[[list[Any]], Any]:
    built = build(f"function {script.name}", script.body.split("\n"), {}, script.tree())
    body: Callable[[list[Any]], Any] = built[script.name]
    return body
