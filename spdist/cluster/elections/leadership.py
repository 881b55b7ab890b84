"""Whether this server is the active one of its group: what its candidate has told it, by its own steady clock. Pure."""

from __future__ import annotations

from collections.abc import Callable

from spdist.cluster.elections.election import LeaderRow, Lease
from spdist.cluster.protocol.messages import Elected, LeaderSeen, LeaseRenewed

__all__ = ["STANDALONE", "Leadership"]

#: Of a server without others: nobody else may run its apps, so nothing is to be stopped however long it stood still.
STANDALONE = Lease(1, 1 << 45)


class Leadership:
    """The lease of a server, and who else leads; what a `cluster.elections.candidate.Candidate` tells its holder.

    Parameters
    ----------
    lease : Lease, optional
        That of a server which takes part in no election.
    changed : callable
        Called, from the candidate's threads, when there is a lease, another one, or none any more.

    State
    -----
    The lease and the leader that were told last.
    """

    def __init__(self, lease: Lease | None = None, changed: Callable[[], None] = lambda: None) -> None:
        self._lease = lease
        self._seen = LeaderSeen(None)
        #: whether a round of the election has told anything yet
        self.told = lease is not None
        self._changed = changed
        self._ended = False
        #: the last term that was given up before its lease ran out; the candidate must not go on renewing it
        self.given_up_term = 0

    def tell(self, event: Elected | LeaseRenewed | LeaderSeen) -> None:
        """Take in what came of a round of the election."""
        self.told = True
        if isinstance(event, LeaderSeen):
            self._seen = event
        else:
            self._lease = event.lease
        leader = self._seen.leader
        # What was seen before the own term was taken stays in `_seen`, so only a later term ends the lease
        if leader is not None and self._lease is not None and leader.term > self._lease.term:
            self._lease = None
        self._changed()

    def end(self) -> None:
        """Be passive for good, whatever is still told: the lease is handed back."""
        self._ended = True

    def give_up(self, term: int) -> None:
        """Note that this server must not go on in `term`."""
        self.given_up_term = max(self.given_up_term, term)

    def lease(self, now_ms: int) -> Lease | None:
        """Return the lease by which this server runs its apps at `now_ms`; None on a passive one."""
        lease = self._lease
        return lease if lease is not None and lease.valid(now_ms) and not self._ended else None

    @property
    def last_seen(self) -> LeaderRow | None:
        """The other server that was seen to be active last, whether or not it still is."""
        return self._seen.leader

    def leader(self, now_ms: int) -> LeaderRow | None:
        """Return the other server that is active as far as is known."""
        return self._seen.at(now_ms)
