"""Lists that a cluster answers with, which show themselves as tables: journal, logs, revisions, moves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spdist.display import Listing, time_text

__all__ = ["journal_listing", "log_listing", "move_listing", "revision_listing"]

Json = dict[str, Any]

_JOURNAL = ("node", "term", "kind", "app", "group", "worker", "user", "message")
_LOGS = ("time", "node", "level", "app", "group", "message")
_MOVES = ("group", "from", "to", "reason")


def journal_listing(entries: Iterable[Json]) -> Listing[Json]:
    """Return entries of the journal, as ``GET /managers/journal`` has them."""
    return Listing(entries, ("time (UTC)", *_JOURNAL), lambda one: (time_text(one["time"]), *_fields(_JOURNAL)(one)))


def log_listing(records: Iterable[Json]) -> Listing[Json]:
    """Return log records of nodes, as ``GET /logs`` has them."""
    return Listing(records, _LOGS, _fields(_LOGS))


def move_listing(moves: Iterable[Json]) -> Listing[Json]:
    """Return moves of groups from worker to worker."""
    return Listing(moves, _MOVES, _fields(_MOVES))


def revision_listing(names: Iterable[str]) -> Listing[str]:
    """Return the names of revisions, which begin with the time at which they were kept, ms."""
    return Listing(names, ("revision", "kept at (UTC)"), lambda name: (name, _kept_at(name)))


def _kept_at(name: str) -> str:
    ms, _, _ = name.partition("__")
    return time_text(int(ms)) if ms.isdecimal() else ""


def _fields(names: Sequence[str]) -> Callable[[Json], list[object]]:
    return lambda one: [one.get(name) for name in names]
