"""Lists that grow with the groups of a worker: a heartbeat has them whole when they are new, then what changed. Pure.

Both sides have the lists anyway: the worker and the leader's `Member` the states of its groups, the worker what it
shall run. A digest of the whole list goes with each heartbeat, so that nothing is taken for the same that is not: what
does not fit together is refused, or sent as a whole. A leader that is new has no list, a worker that is new has no
digest; neither needs to be told.

Source: RFC 9110, entity tags and If-Match.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from spdist.cluster.protocol.messages import fingerprint
from spdist.cluster.protocol.reports import LONGEST_ERROR, ChangedGroups, GroupReport, WorkerReport
from spdist.planning.topology import Assignment

__all__ = ["KnownAssignments", "ToldGroups", "assignments_digest", "whole_groups"]


@dataclass(frozen=True, slots=True)
class KnownAssignments:
    """What a worker has of its leader's assignments.

    Parameters
    ----------
    listed : tuple of Assignment
        All of the last answer that was obeyed, in its order; none where they were not to be run any longer.
    texts : mapping of str to Assignment
        Those of the groups that are here, by their fingerprints; the leader need not send them.
    """

    listed: tuple[Assignment, ...] = ()
    texts: Mapping[str, Assignment] = field(default_factory=dict)


def assignments_digest(assignments: Iterable[Assignment]) -> str:
    """Return a hash of a list of assignments: equal for equal ones in the same order."""
    return _hash(map(fingerprint, assignments))


class ToldGroups:
    """What a worker's leader knows of its groups. Used by one thread.

    State
    -----
    The groups of the last heartbeat, and whether it was answered: O(groups).
    """

    def __init__(self) -> None:
        self._sent: Mapping[str, GroupReport] = {}
        self._answered = False

    def next(self, report: WorkerReport) -> WorkerReport:
        """Return a heartbeat without the groups that are as they were in the one before, if that was answered."""
        before, known = self._sent, self._answered
        # Not answered until that is known: after a heartbeat that got lost the next one is whole
        self._sent, self._answered = {group.name: group for group in report.groups}, False
        if not known:
            return report
        changed = tuple(group for group in report.groups if before.get(group.name) != group)
        gone = tuple(name for name in before if name not in self._sent)
        return replace(report, groups=changed, changes=ChangedGroups(gone, _groups_digest(report.groups)))

    def answered(self) -> None:
        """Note that the leader has taken in the heartbeat that `next` has returned last."""
        self._answered = True


def whole_groups(report: WorkerReport, before: Mapping[str, GroupReport]) -> WorkerReport | None:
    """Return a heartbeat with all groups of its worker, those that it leaves out as they were `before`.

    None where that is not what its sender means: it has to send them all.
    """
    if report.changes is None:
        return report
    groups = {**before, **{group.name: group for group in report.groups}}
    for name in report.changes.gone:
        groups.pop(name, None)
    found = tuple(groups.values())
    return replace(report, groups=found, changes=None) if _groups_digest(found) == report.changes.digest else None


def _groups_digest(groups: Iterable[GroupReport]) -> str:
    """Return a hash of all that groups report, in whatever order, as it arrives at the leader."""
    return _hash(map(_told, sorted(groups, key=lambda group: group.name)))


def _told(group: GroupReport) -> str:
    # As JSON brings it: figures are floats there, errors are cut, and objects have no order
    figures = [(name, float(group.metrics[name])) for name in sorted(group.metrics)]
    error = group.error[:LONGEST_ERROR]
    return json.dumps([group.name, group.app, group.state.value, group.fingerprint, error, figures])


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
