"""Lists of what SiddhiQL can call: functions, aggregators, windows, each with how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spdist.display import Listing
from spdist.errors import NotFoundError
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import suggestion
from spdist.language.signatures import described

__all__ = ["functions", "windows"]


Row = tuple[str, str, str]


def functions(known: Catalog, pattern: str = "") -> Listing[Row]:
    """Return functions, aggregators and stream functions with `pattern` in their names, in any case.

    Raises
    ------
    NotFoundError
        None has; says which is near.
    """
    kinds: dict[str, Mapping[str, Callable[..., Any]]] = {
        "function": known.functions,
        "aggregator": known.aggregators,
        "stream function": known.stream_functions,
    }
    return _listing(kinds, pattern, "function")


def windows(known: Catalog, pattern: str = "") -> Listing[Row]:
    """Return windows with `pattern` in their names, in any case; raises NotFoundError where none has."""
    return _listing({"window": known.windows}, pattern, "window")


def _listing(kinds: Mapping[str, Mapping[str, Callable[..., Any]]], pattern: str, what: str) -> Listing[Row]:
    found = [
        (id, kind, described(id, resolve, of_stream=kind == "stream function"))
        for kind, known in kinds.items()
        for id, resolve in known.items()
        if pattern.lower() in id.lower()
    ]
    if not found:
        names = [id for known in kinds.values() for id in known]
        raise NotFoundError(f"no {what} has '{pattern}' in its name", hint=suggestion(pattern, names))
    return Listing(sorted(found, key=lambda row: row[0].lower()), ("name", "kind", "is called"), lambda row: row)
