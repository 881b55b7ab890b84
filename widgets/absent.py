"""Nodes that were there a while ago and are not any more: what is lost stays visible as lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdist.cluster.clients.overview import ClusterStatus

__all__ = ["Absent", "Attendance"]

#: For how long an absent node is shown.
_SHOWN_S = 600.0


@dataclass(frozen=True, slots=True)
class Absent:
    """A manager or worker that the leader of today does not know.

    Parameters
    ----------
    id, role : str
        Who it was: ``manager`` or ``worker``.
    seen_s : float
        When it was there last (monotonic clock, s).
    groups : tuple of str
        What it had.
    """

    id: str
    role: str
    seen_s: float
    groups: tuple[str, ...] = ()


class Attendance:
    """Remembers who was there: a new leader does not know whom the one before has lost.

    State
    -----
    The nodes of the last ten minutes, without workers that have left of their own accord.
    """

    def __init__(self) -> None:
        self._known: dict[str, Absent] = {}

    def note(self, status: ClusterStatus, now_s: float) -> tuple[Absent, ...]:
        """Take in who is there at `now_s`, and return who is missing; whom the leader itself calls lost is not."""
        there = {
            **{one.id: Absent(one.id, "manager", now_s) for one in status.managers},
            **{one.id: Absent(one.id, "worker", now_s, tuple(g for g, _ in one.groups)) for one in status.workers},
        }
        expected = {id: one for id, one in self._known.items() if now_s - one.seen_s < _SHOWN_S and id not in there}
        self._known = {**expected, **there}
        for worker in status.workers:
            if worker.leaving:
                del self._known[worker.id]
        named = {worker.id for worker in status.lost}
        return tuple(one for id, one in sorted(expected.items()) if id not in named)
