"""For which workers a new leader waits: the list of them in the coordination database, kept by each leader. Pure.

A new leader does not know what runs where until the workers have told it, and must start nothing that may still be
running. It could wait until every worker of its predecessor has stopped by itself (`WorkerTiming.remove_after_ms`).
With the list it waits only until all of them have reported. That is as safe, because

1. a worker that is not on the list **as it may stand in the database** is given nothing (`Roster.covers`): it is
   written first. So whoever runs a group is on the list that the next leader reads, after it has taken its term;
2. the list belongs to a term. It counts only if the term before wrote it; otherwise its leader may have given work to
   others, and the new leader waits for the whole time (`EVERYBODY` stands on the list until then);
3. a report counts only if the worker has obeyed *this* leader before it was sent, which its ``known_term`` shows. From
   then on it obeys nobody older, so an answer or a heartbeat that was still on its way changes nothing;
4. it must come from the same process: another one with that id, of an earlier or a later life, says nothing about it.
   Where two may be alive the list says so (`IN_DOUBT`), and the next leader waits for the whole time;
5. a worker leaves the list only when the leader removes it: it said goodbye, or must have stopped by itself. The list
   that a leader inherits goes on in its own until its workers have reported or that time is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from spdist.cluster.leader.members import Member
from spdist.cluster.protocol.messages import Instruction, SaveWorkers, WorkerReport, WorkersSaved

__all__ = ["EVERYBODY", "IN_DOUBT", "Roster"]

#: In place of a worker's incarnation: several processes with that id may be running.
IN_DOUBT = ""
#: In place of all workers: it is not known who they are. No worker has an empty id.
EVERYBODY: Mapping[str, str] = MappingProxyType({"": IN_DOUBT})


class Roster:
    """The list of workers as a leader wants it, as it may stand in the database, and who on it has not yet reported.

    Parameters
    ----------
    term : int
        The leader's.
    known : mapping of str to str, optional
        The list that the term before has left: id to incarnation. None if it left none.
    until_ms : int
        When all of them must have stopped by themselves (steady clock).

    State
    -----
    O(workers) for each write that is under way.
    """

    def __init__(self, term: int, known: Mapping[str, str] | None, until_ms: int) -> None:
        self._term = term
        self._awaited = dict(EVERYBODY if known is None else known)
        self._until_ms = until_ms
        #: version -> the list; all that may stand in the database. Until this term has written one, it has none
        self._possible: dict[int, Mapping[str, str]] = {0: EVERYBODY}
        self._again = False

    def waits(self, now_ms: int) -> bool:
        """Return True while workers of an earlier leader may be running what they have not reported to this one."""
        return bool(self._awaited) and now_ms < self._until_ms

    def may_end_early(self, now_ms: int) -> bool:
        """Return True while it waits, and reports alone can end that."""
        return self.waits(now_ms) and IN_DOUBT not in self._awaited.values()

    def note_report(self, report: WorkerReport) -> None:
        """Take in a heartbeat."""
        # No incarnation is empty: an id that is in doubt, or not on the list, never matches
        if report.known_term == self._term and self._awaited.get(report.id, IN_DOUBT) == report.incarnation:
            del self._awaited[report.id]

    def covers(self, report: WorkerReport) -> bool:
        """Return True if the next leader will wait for the sender of `report`, whatever becomes of this one."""
        return all(
            # The empty id: EVERYBODY, inherited and written again under this term
            known is EVERYBODY or "" in known or known.get(report.id) in (report.incarnation, IN_DOUBT)
            for known in self._possible.values()
        )

    def save(self, members: Iterable[Member], now_ms: int) -> list[SaveWorkers]:
        """Return the order to write the list, if it has changed.

        Parameters
        ----------
        members : iterable of Member
            The workers that have reported to this leader.
        now_ms : int
            The steady clock.
        """
        wanted = dict(self._awaited) if now_ms < self._until_ms else {}
        for member in members:
            id, incarnation = member.report.id, member.report.incarnation
            same = wanted.get(id, incarnation) == incarnation and not member.inherited
            wanted[id] = incarnation if same else IN_DOUBT
        last = max(self._possible)
        if wanted == self._possible[last] and not self._again:
            return []
        self._again = False
        self._possible[last + 1] = wanted
        return [SaveWorkers(self._term, last + 1, wanted)]

    def saved(self, event: WorkersSaved) -> list[Instruction]:
        """Take note of what became of a list; nothing is to be done about it now.

        One that is durable has replaced those before it. One of which that is not known may stand in the database, and
        is to be written again.
        """
        if event.term != self._term:
            return []
        if event.written:
            # Later ones stay: their writes are under way and may succeed, whoever hears of it
            self._possible = {v: known for v, known in self._possible.items() if v >= event.version}
        else:
            self._again = self._again or event.version == max(self._possible)
        return []
