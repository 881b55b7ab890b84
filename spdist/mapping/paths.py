"""Paths into JSON: ``$.a.b[0]['c d']``, ``[*]``, ``..name``; the part of JsonPath that mappings use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["MISSING", "Path"]

#: What a path gives where it leads nowhere.
MISSING = object()

_STEP = re.compile(
    r"""\.\.(?P<deep>[^.\[\]]+) | \.?\[\s*(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<index>-?\d+)|(?P<each>\*))\s*\]
    | \.(?P<all>\*) | \.?(?P<length>length\(\)) | \.?(?P<name>[^.\[\]]+)""",
    re.VERBOSE,
)

Step = Callable[[Any], Iterator[Any]]


class Path:
    """A compiled path.

    Parameters
    ----------
    text : str
        With or without the ``$`` at its beginning.

    Raises
    ------
    ValueError
        The text is no such path.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        body = text.strip().removeprefix("$")
        self._steps: list[Step] = []
        #: Whether it may lead to several places; what it gives is a list then.
        self.many = False
        at = 0
        while at < len(body):
            found = _STEP.match(body, at)
            if found is None:
                raise ValueError(f"'{text}' is no path")
            self._steps.append(self._step(found))
            at = found.end()

    def _step(self, found: re.Match[str]) -> Step:
        parts = found.groupdict()
        if parts["index"] is not None:
            return _at(int(parts["index"]))
        if parts["length"] is not None:
            return lambda tree: iter([len(tree)] if isinstance(tree, list | dict) else [])
        self.many = self.many or bool(parts["deep"] or parts["each"] or parts["all"])
        if parts["deep"] is not None:
            return _below(parts["deep"])
        if parts["each"] or parts["all"]:
            return _children
        name = next(parts[kind] for kind in ("single", "double", "name") if parts[kind] is not None)
        return _named(name)

    def find(self, tree: Any) -> Any:
        """Return what is at the path in a parsed JSON text, or `MISSING`."""
        found = [tree]
        for step in self._steps:
            found = [value for part in found for value in step(part)]
        if self.many:
            return found
        return found[0] if found else MISSING


def _named(name: str) -> Step:
    return lambda tree: iter([tree[name]] if isinstance(tree, dict) and name in tree else [])


def _at(index: int) -> Step:
    return lambda tree: iter([tree[index]] if isinstance(tree, list) and -len(tree) <= index < len(tree) else [])


def _children(tree: Any) -> Iterator[Any]:
    return iter(tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ())


def _below(name: str) -> Step:
    def find(tree: Any) -> Iterator[Any]:
        if isinstance(tree, dict) and name in tree:
            yield tree[name]
        for child in _children(tree):
            yield from find(child)

    return find
