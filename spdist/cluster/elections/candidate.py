"""A node's part in the election: the thread that renews or tries to take the leadership, and tells who then leads.

The decision itself is `spdist.cluster.elections.election`; here are the rounds, the loading of deployments when a term
was taken, and what happens while the database is away: nothing, until the lease runs out by itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from spdist.clock import Clock
from spdist.cluster.elections.election import Ballot, ElectionTiming, LeaderStore, Lease, hold_election
from spdist.cluster.protocol.messages import AppVersion, Elected, LeaderSeen, LeaseRenewed
from spdist.errors import ClusterError, StoreUnavailableError

__all__ = ["Candidate", "ElectionStore", "Holder"]

_log = logging.getLogger("spdist.cluster.election")
#: How soon who leads tries again where the database did not answer: a short outage must not outlive the lease.
_AGAIN_MS = 100


class ElectionStore(LeaderStore, Protocol):
    """What a candidate needs of the database; `spdist.cluster.coordination.store.CoordinationStore` has it."""

    def prepare(self) -> None:
        """See to it that the tables can be used; raises a ClusterError that says why where they never will be."""
        ...

    def resign(self, term: int, node_id: str) -> None:
        """Let others take over immediately."""
        ...


class Holder(Protocol):
    """Who acts by the lease: a manager's `StateLoop`, or the `cluster.elections.leadership.Leadership` of a server."""

    @property
    def given_up_term(self) -> int:
        """The last term that the holder has given up before its lease ran out."""
        ...

    def tell(self, event: Elected | LeaseRenewed | LeaderSeen, /) -> None:
        """Take in what came of a round."""
        ...

    def give_up(self, term: int) -> None:
        """Note that the holder must not go on in `term`."""
        ...


class Candidate:
    """Takes part in the election until it is stopped.

    Parameters
    ----------
    store : ElectionStore
        The database.
    holder : Holder
        Is told of terms, renewals and other leaders.
    node_id, url : str
        Id and base URL of this node.
    clock : Clock
        Its steady reading only.
    timing : ElectionTiming
        The group's times.
    load : callable
        Reads and plans all deployments, and reads the list of workers that the term before the one it is given has
        left, and the cordons; called once for each term taken, while the lease is being renewed. What it raises gives
        the term up.
    """

    def __init__(
        self,
        store: ElectionStore,
        holder: Holder,
        node_id: str,
        url: str,
        clock: Clock,
        timing: ElectionTiming,
        load: Callable[[int], tuple[tuple[AppVersion, ...], Mapping[str, str] | None, Mapping[str, bool]]],
    ) -> None:
        self._store = store
        self._holder = holder
        self._node_id = node_id
        self._url = url
        self._clock = clock
        self._timing = timing
        self._load = load
        self._lease: Lease | None = None
        self._taken_term = 0
        self._acting_term = 0
        self._away = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spdist-election", daemon=True)
        #: why the thread ended, if by itself: the tables of the database cannot be used
        self.failure: ClusterError | None = None

    def start(self) -> None:
        """Begin with the first round."""
        self._thread.start()

    def stop(self) -> None:
        """Take part no longer; call `resign` when the holder has stopped, too."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def resign(self) -> None:
        """Hand the leadership back, if this node has one, so that another need not wait for it to run out."""
        if self._lease is not None and self._lease.valid(self._clock.steady_ms()):
            try:
                self._store.resign(self._lease.term, self._node_id)
            except ClusterError as error:
                _log.warning("could not resign, the others will notice by themselves: %s", error.message)
        # Without it the own row is a stranger's to `decide`: it is succeeded by a new term, never renewed
        self._lease = None

    def _run(self) -> None:
        while not self._stop.is_set():
            # Counted from the beginning of the round: a slow database must not stretch the time between two renewals
            next_ms = self._clock.steady_ms() + self._timing.round_ms
            try:
                if not self._prepared():
                    return
                expires_ms = self._round()
                next_ms = min(next_ms, expires_ms or next_ms)
            except ClusterError as error:
                self._miss(error)
                if self._lease is not None and self._lease.valid(self._clock.steady_ms()):
                    next_ms = min(next_ms, self._clock.steady_ms() + _AGAIN_MS)
            # The thread goes on: without it this node would neither lead nor follow ever again
            except Exception:
                _log.exception("a round of the election failed; this is a defect")
            self._stop.wait(max(0, next_ms - self._clock.steady_ms()) / 1000)

    def _prepared(self) -> bool:
        """Return False where the tables cannot be used, which a node that met them at its start would not have done.

        Raises
        ------
        StoreUnavailableError
            It is not known yet.
        """
        try:
            self._store.prepare()
        # A ClusterError, too, but one that may pass: only what never will ends the thread
        except StoreUnavailableError:
            raise
        except ClusterError as error:
            self.failure = error
        return self.failure is None

    def _round(self) -> int:
        """Hold one round, and tell the holder what came of it; return when the row of another expires, 0 if none."""
        lease = self._lease
        if lease is not None and lease.term <= self._holder.given_up_term:
            # The holder has stepped down for a reason of its own: this term must not be renewed, but succeeded.
            # One round without us lets others go first, who may fare better.
            _log.info("gives up term %d", lease.term)
            self.resign()
            return 0
        ballot = hold_election(self._store, self._node_id, self._url, self._lease, self._clock, self._timing)
        self._lease = ballot.lease
        self._note_contact()
        if ballot.leads:
            self._lead(ballot)
        elif ballot.leader is not None:
            # A row with our own name is that of an earlier life; nobody is to be sent there.
            mine = ballot.leader.node_id == self._node_id or ballot.leader.url == self._url
            self._holder.tell(LeaderSeen(None if mine else ballot.leader, ballot.expires_ms))
        return ballot.expires_ms

    def _lead(self, ballot: Ballot) -> None:
        assert ballot.lease is not None
        if ballot.lease.term != self._taken_term:
            self._taken_term = ballot.lease.term
            threading.Thread(
                target=self._take_office, args=(ballot.lease.term,), name="spdist-load", daemon=True
            ).start()
        # Not before the holder knows the term: a server that is told of a renewal runs its apps, loaded or not
        elif ballot.lease.term == self._acting_term:
            self._holder.tell(LeaseRenewed(ballot.lease))

    def _take_office(self, term: int) -> None:
        """Load what is stored, then act; the rounds go on meanwhile and keep the lease."""
        try:
            deployments, workers, cordons = self._load(term)
        except Exception as error:  # a defect, too, must not keep the cluster without a leader
            _log.error("the deployments cannot be loaded, so this node does not lead: %s", error)
            self._holder.give_up(term)
            return
        # The newest one, as the rounds have renewed it meanwhile; of another term where this one was lost while loading
        lease = self._lease
        if lease is not None and lease.term == term:
            # Before `_acting_term` is set, so that no renewal overtakes the term itself
            self._holder.tell(Elected(lease, deployments, workers, cordons))
            self._acting_term = term

    def _note_contact(self) -> None:
        if self._away:
            self._away = False
            _log.warning("the coordination database answers again")

    def _miss(self, error: ClusterError) -> None:
        """Take note that the database did not answer; who leads is not known for longer than the row says."""
        if not self._away:
            self._away = True
            _log.warning("no part in the election for now: %s", error.message)
