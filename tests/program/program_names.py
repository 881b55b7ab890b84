"""Names of a program's text that nothing defines."""

from __future__ import annotations

import builtins
from typing import Any

__all__ = ["unknown_names"]


def unknown_names(run: Any) -> set[str]:
    """Return the names that nothing defines of a program that Python executes, none of one that is compiled.

    Python runs it until it comes there; numba does not compile it.
    """
    code = getattr(run, "__code__", None)
    return set() if code is None else {*code.co_names} - run.__globals__.keys() - {*dir(builtins)}
