"""Results whose order within a step is free."""

from __future__ import annotations

from typing import Any


def multisets(result: dict[str, Any]) -> dict[str, Any]:
    """A result whose entries of one step are in one order."""
    return {
        section: {name: sorted(seen, key=lambda e: (e["i"], repr(e))) for name, seen in entries.items()}
        if section in ("streams", "queries")
        else entries
        for section, entries in result.items()
    }
