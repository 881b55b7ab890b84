"""Names of a program's text that nothing defines."""

from __future__ import annotations

import builtins
import symtable
from functools import lru_cache
from typing import Any


@lru_cache(16)
def unknown_names(source: str) -> set[str]:
    """Names of a program that nothing defines: Python would run it until it comes there, numba does not compile it."""
    module = symtable.symtable(source, "<program>", "exec")
    names: dict[str, Any] = {}
    exec("\n".join(line for line in source.splitlines() if line.startswith("from ")), names)
    known = {*names, *dir(builtins), *(one.get_name() for one in module.get_children())}
    functions = (symbol for one in module.get_children() for symbol in one.get_symbols())
    return {symbol.get_name() for symbol in functions if symbol.is_global() and symbol.get_name() not in known}
