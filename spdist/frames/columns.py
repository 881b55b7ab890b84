"""Columns by name: what tables of all kinds have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["NamedColumns"]


@dataclass(frozen=True)
class NamedColumns:
    """NamedColumns by name.

    Parameters
    ----------
    names : sequence of str
        Of all columns.
    get : Callable
        Returns a column: an Arrow array, or what `spdist.frames.values.as_arrow` makes one of.
    index : str, optional
        The one that holds times because it is an index of datetimes.
    """

    names: Sequence[str]
    get: Callable[[str], Any]
    index: str | None = None
