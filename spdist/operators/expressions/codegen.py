"""Generated Python: the local variables of a function being written, and source text made into functions.

Each query is written once, as specialised Python, when its app is built; nothing walks a syntax tree per event. The
text stays visible: tracebacks and debuggers show the generated lines.
"""

from __future__ import annotations

import linecache
import re
from ast import Module
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from keyword import iskeyword
from math import isfinite
from types import CodeType
from typing import Any

__all__ = ["Bindings", "Frame", "build", "forget", "indent", "when_needed"]


class Bindings:
    """The globals of generated code: functions and constants under names of their own."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def bind(self, value: Any, hint: str) -> str:
        """Return a name under which generated code finds `value`."""
        for name, known in self.names.items():
            # By identity: equal values need not be alike, as 1 and True, or 0.0 and -0.0.
            if known is value:
                return name
        base = re.sub(r"\W", "_", hint, flags=re.ASCII) or "value"
        if iskeyword(base) or base[0].isdecimal():
            base = f"_{base}"
        name, number = base, 2
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names[name] = value
        return name

    def require(self, name: str, value: Any) -> None:
        """Make `value` known under exactly this name."""
        if self.names.setdefault(name, value) is not value:
            raise ValueError(f"generated code would use the name '{name}' for two things")

    def constant(self, value: Any) -> str:
        """Return source text for a constant: a literal where Python can write it, else a bound name."""
        # Infinity and NaN have no literal: `repr` writes them as names.
        if isinstance(value, float) and not isfinite(value):
            return self.bind(value, "real")
        return repr(value)


class Frame:
    """The local variables of one generated function: each value that is read gets one, where it is first needed."""

    def __init__(self) -> None:
        self._locals: dict[str, str] = {}
        self._pending: list[str] = []
        self._temporaries = 0

    def local(self, source: str, name: str) -> str:
        """Return the variable that holds `source`, assigning it before the next line written if it is new."""
        known = self._locals.get(source)
        if known is None:
            known = self._locals[source] = name
            self._pending.append(f"{name} = {source}")
        return known

    def known(self, source: str) -> str:
        """Return the variable that holds `source` where there is one, else `source` itself."""
        return self._locals.get(source, source)

    def temporary(self) -> str:
        """Return a fresh variable name for use with ``:=``."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def assignments(self) -> list[str]:
        """Return the assignments that are due now, and forget them."""
        due, self._pending = self._pending, []
        return due


def when_needed(make: Callable[[], Callable[..., None]]) -> Callable[..., None]:
    """Return a function that is made at its first call: of what an app can do, most runs use little."""
    made: Callable[..., None] | None = None

    def call(*arguments: Any) -> None:
        nonlocal made
        if made is None:
            made = make()
        made(*arguments)

    return call


def indent(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Return `lines` moved right."""
    return [f"{'    ' * levels}{line}" for line in lines]


def forget(made: Callable[..., Any]) -> None:
    """Have the source of generated code that is not needed any more take no memory; `made` is one of its functions."""
    linecache.cache.pop(made.__code__.co_filename, None)


#: What names of generated files begin with.
_PREFIX = "<spdist "


@lru_cache(maxsize=512)
def _compiled(source: str, filename: str) -> CodeType:
    return compile(source, filename, "exec")


def query_of(filename: str) -> str | None:
    """Return the name of the query whose generated code a file name stands for, None for another file."""
    title = filename[len(_PREFIX) :].rsplit(" ", 2)[0] if filename.startswith(_PREFIX) else "function"
    return None if title == "function" else title  # those that apps define are part of no query


def build(title: str, lines: Iterable[str], bindings: Mapping[str, Any], tree: Module | None = None) -> dict[str, Any]:
    """Run generated source and return what it defines.

    Parameters
    ----------
    title : str
        What the code is, for tracebacks.
    lines : Iterable[str]
        Source lines.
    bindings : Mapping[str, Any]
        The names that it uses.
    tree : Module, optional
        What is run in place of the lines, where they are only a part of it.
    """
    source = "\n".join(lines) + "\n"
    # The title holds names of the app, in which anything may stand; what no file's name may have becomes an escape.
    named = title.encode("unicode_escape").decode("ascii") if not title.isprintable() else title
    filename = f"{_PREFIX}{named} {blake2b(source.encode(), digest_size=6).hexdigest()}>"
    # Without a modification time linecache keeps the entry: tracebacks show generated lines as if from a file.
    # Split as Python counts them: strings of an app may hold what ends lines elsewhere.
    linecache.cache[filename] = (len(source), None, [f"{line}\n" for line in source[:-1].split("\n")], filename)
    # A copy: `exec` adds what the source defines, and Python's builtins.
    namespace = dict(bindings)
    exec(_compiled(source, filename) if tree is None else compile(tree, filename, "exec"), namespace)
    return namespace
