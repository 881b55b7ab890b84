"""Names of a program's text that nothing defines."""

from __future__ import annotations

import builtins
from types import FunctionType
from typing import Any

__all__ = ["unknown_names"]


def unknown_names(run: Any) -> set[str]:
    """Return the names that nothing defines of a program that Python executes, none of one that is compiled.

    Python runs it until it comes there; numba does not compile it.
    """
    if not isinstance(run, FunctionType):
        return set()
    return {*run.__code__.co_names} - run.__globals__.keys() - {*dir(builtins)}
