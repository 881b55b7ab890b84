"""The stream functions of siddhi-core: ``log`` and ``pol2Cart``.

A stream function is called with the values of its arguments and gives, for each row that goes on, the values to append.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import stream_function
from spdist.language.ast import Expression, Literal
from spdist.language.types import Schema, Type

__all__ = ["LEVELS", "told"]

_log = logging.getLogger("spdist.app")
#: Priorities of ``#log``, as levels of `logging`; none is written with ``OFF``.
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


_TEXT, _FLAG = Type.STRING, Type.BOOL
_LOGGED = ((), (_TEXT,), (_FLAG,), (_TEXT, _TEXT), (_TEXT, _FLAG), (_TEXT, _TEXT, _FLAG))


def _resolve_log(_schema: Schema, types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> Schema:
    if types not in _LOGGED:
        raise SiddhiTypeError("'log' does not take these arguments", hint="write #log('INFO', 'text', true)")
    priority = expressions[0] if types[:2] == (_TEXT, _TEXT) else None
    if priority is not None and not isinstance(priority, Literal):
        raise SiddhiTypeError("the priority of 'log' must be a constant")
    if types[-1:] == (_FLAG,) and not isinstance(expressions[-1], Literal):
        raise SiddhiTypeError("whether 'log' shows the event must be a constant")
    if priority is not None and (level := str(priority.value).upper()) not in (*LEVELS, "OFF"):
        raise SiddhiTypeError(f"'{level}' is no priority", hint=f"it is one of {', '.join((*LEVELS, 'OFF'))}")
    return Schema(())


@stream_function("log", _resolve_log)
def log(*arguments: Any) -> tuple[tuple[Any, ...], ...]:
    """Write to the log and let the event pass: ``#log([[priority, ]message][, is.event.logged])``."""
    texts = [a for a in arguments if not isinstance(a, bool)]
    level = texts[0].upper() if len(texts) > 1 else "INFO"
    if level != "OFF":
        told(LEVELS[level], texts[-1] if texts else "")
    return ((),)


def told(level: int, text: str | None) -> None:
    """Write a line of ``#log``."""
    # The text is an argument, so that a % in it is no placeholder.
    _log.log(level, "%s", text)


_REALS = frozenset({Type.DOUBLE})


def _resolve_pol2cart(_schema: Schema, types: tuple[Type, ...], _expressions: tuple[Expression, ...]) -> Schema:
    if len(types) not in (2, 3) or not set(types) <= _REALS:
        raise SiddhiTypeError("'pol2Cart' takes two or three doubles", hint="write #pol2Cart(theta, rho[, z])")
    return Schema.of([(name, Type.DOUBLE) for name in ("x", "y", "z")[: len(types)]])


@stream_function("pol2Cart", _resolve_pol2cart)
def pol2cart(theta: float, rho: float, *rest: float) -> tuple[tuple[Any, ...], ...]:
    """Append the Cartesian coordinates of a polar point (`theta` in degrees). Source: Pol2CartFunctionProcessor."""
    # Python raises where Java gives NaN
    angle = math.radians(theta) if math.isfinite(theta) else math.nan
    return ((rho * math.cos(angle), rho * math.sin(angle), *rest),)
