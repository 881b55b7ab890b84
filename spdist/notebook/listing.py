"""Lists of what SiddhiQL can call: functions, aggregators, windows, each with how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from spdist.errors import NotFoundError
from spdist.language.catalog import Catalog
from spdist.language.scope import suggestion
from spdist.language.signatures import described

__all__ = ["Listing", "functions", "windows"]


@dataclass(frozen=True, slots=True)
class Listing:
    """Names with their kinds and how they are called; shows itself as a table, in a terminal as lines.

    Parameters
    ----------
    rows : tuple of (str, str, str)
        Name, kind, and how it is called.
    """

    rows: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        wide = max(len(kind) for _, kind, _ in self.rows)
        return "\n".join(f"{kind:<{wide}}  {called}" for _, kind, called in self.rows)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        def row(tag: str, *cells: str) -> str:
            return "<tr>" + "".join(f'<{tag} style="text-align:left">{cell}</{tag}>' for cell in cells) + "</tr>"

        head = row("th", "name", "kind", "is called")
        body = [
            row("td", escape(name), escape(kind), f"<code>{escape(called)}</code>") for name, kind, called in self.rows
        ]
        return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"


def functions(known: Catalog, pattern: str = "") -> Listing:
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


def windows(known: Catalog, pattern: str = "") -> Listing:
    """Return windows with `pattern` in their names, in any case; raises NotFoundError where none has."""
    return _listing({"window": known.windows}, pattern, "window")


def _listing(kinds: Mapping[str, Mapping[str, Callable[..., Any]]], pattern: str, what: str) -> Listing:
    found = [
        (id, kind, described(id, resolve, of_stream=kind == "stream function"))
        for kind, known in kinds.items()
        for id, resolve in known.items()
        if pattern.lower() in id.lower()
    ]
    if not found:
        names = [id for known in kinds.values() for id in known]
        raise NotFoundError(f"no {what} has '{pattern}' in its name", hint=suggestion(pattern, names))
    return Listing(tuple(sorted(found, key=lambda row: row[0].lower())))
