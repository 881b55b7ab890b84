"""The call out of compiled code, as the text of programs has it; only imported where there is numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["called"]


@intrinsic
def called(_typing: Any, _callback: Any, _site: Any, _begin: Any, _end: Any) -> Any:
    """Call a function of C by its address, with three whole numbers; it returns one.

    The address is an argument, so machine code in the cache is that of all processes and of all apps in them.
    """
    number = types.int64

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word] * 3).as_pointer())
        return builder.call(function, arguments[1:])

    return number(number, number, number, number), code
