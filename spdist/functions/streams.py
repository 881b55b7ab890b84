"""The stream functions of siddhi-core: ``log`` and ``pol2Cart``.

A stream function is called with the values of its arguments and gives, for each row that goes on, the values to append.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import stream_function
from spdist.language.ast import Expression
from spdist.language.types import Schema, Type

__all__: list[str] = []

_log = logging.getLogger("spdist.app")
_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def _resolve_log(_schema: Schema, types: tuple[Type, ...], _expressions: tuple[Expression, ...]) -> Schema:
    given = [t for t in types if t in (Type.STRING, Type.BOOL)]
    if len(given) != len(types) or len(types) > 3:
        raise SiddhiTypeError("'log' does not take these arguments", hint="write #log('INFO', 'text', true)")
    return Schema(())


@stream_function("log", _resolve_log)
def log(*arguments: Any) -> tuple[tuple[Any, ...], ...]:
    """Write to the log and let the event pass: ``#log([priority, ][message, ][is.event.logged])``."""
    texts = [a for a in arguments if isinstance(a, str)]
    named = texts[0].upper() in _LEVELS or texts[0].upper() == "OFF" if texts else False
    level = texts[0].upper() if named else "INFO"
    message = texts[1] if named and len(texts) > 1 else "" if named else texts[0] if texts else ""
    if level != "OFF":
        _log.log(_LEVELS[level], "%s", message)
    return ((),)


_REALS = frozenset({Type.DOUBLE})


def _resolve_pol2cart(_schema: Schema, types: tuple[Type, ...], _expressions: tuple[Expression, ...]) -> Schema:
    if len(types) not in (2, 3) or not set(types) <= _REALS:
        raise SiddhiTypeError("'pol2Cart' takes two or three doubles", hint="write #pol2Cart(theta, rho[, z])")
    return Schema.of([(name, Type.DOUBLE) for name in ("x", "y", "z")[: len(types)]])


@stream_function("pol2Cart", _resolve_pol2cart)
def pol2cart(theta: float, rho: float, *rest: float) -> tuple[tuple[Any, ...], ...]:
    """Append the Cartesian coordinates of a polar point (`theta` in degrees). Source: Pol2CartFunctionProcessor."""
    angle = math.radians(theta)
    return ((rho * math.cos(angle), rho * math.sin(angle), *rest),)
