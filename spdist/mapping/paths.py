"""Paths into the JSON of a payload, by the reader of `spdist.java.json.path`: what is missing is no error here."""

from __future__ import annotations

from typing import Any

from spdist.java.json.path import JsonPath, PathError

__all__ = ["MISSING", "find"]

#: What a path gives where it leads nowhere.
MISSING = object()


def find(path: JsonPath, tree: Any) -> Any:
    """Return what is at `path` in a parsed JSON text, a list where it may name several places, or `MISSING`."""
    if tree is None:
        return MISSING
    try:
        return path.read(tree, tree)
    except PathError:
        return MISSING
