"""Who leads: the decision of one manager about the leader row it has just read. Pure.

The leader row lives in the database (`spdist.cluster.coordination.store`); one row per group of managers. Three things
make it safe:

* every leadership has a **term**, and the row changes hands only by compare-and-swap on the whole row as it was read.
  So two leaders in one term cannot exist, whatever clocks and networks do;
* the **database's clock** alone says how old a heartbeat is; the managers' wall clocks play no part;
* a leader holds a **lease** on its own steady clock, counted from *before* the call that renewed it was sent, and
  shorter than what the database grants by a margin. It has stopped acting when somebody else may begin, even if it
  cannot reach the database.

Source: keys and formula (maximum age = interval x retry) of the RDBMS coordination strategy of WSO2 carbon-coordination
2.1; leases after Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism" (1989); terms as in Raft (2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spdist.clock import Clock
from spdist.errors import ConfigError

__all__ = [
    "Acquire",
    "Ballot",
    "ElectionTiming",
    "Follow",
    "LeaderRow",
    "LeaderStore",
    "Lease",
    "Renew",
    "decide",
    "hold_election",
]


@dataclass(frozen=True, slots=True)
class ElectionTiming:
    """The times of an election, all from two keys of ``cluster.config.strategyConfig``.

    Every manager of a group must have the same values.

    Parameters
    ----------
    heartbeat_interval_ms : int
        ``heartbeatInterval``, >= 20.
    heartbeat_max_retry : int
        ``heartbeatMaxRetry``, >= 1.

    Raises
    ------
    ConfigError
        A value is out of range.
    """

    heartbeat_interval_ms: int
    heartbeat_max_retry: int

    def __post_init__(self) -> None:
        if self.heartbeat_interval_ms < 20:
            raise ConfigError(
                f"cluster.config.strategyConfig.heartbeatInterval is {self.heartbeat_interval_ms}: 20 ms is the least",
                hint="WSO2 ships 1000",
            )
        if self.heartbeat_max_retry < 1:
            raise ConfigError(
                f"cluster.config.strategyConfig.heartbeatMaxRetry is {self.heartbeat_max_retry}: 1 is the least",
                hint="WSO2 ships 2",
            )

    @property
    def max_age_ms(self) -> int:
        """How old a leader's heartbeat may become, by the database's clock, before others may take over."""
        return self.heartbeat_interval_ms * self.heartbeat_max_retry

    @property
    def margin_ms(self) -> int:
        """How much sooner a leader stops: covers clocks that run at different speed (10 %) and rounding."""
        return max(2, self.max_age_ms // 10)

    @property
    def lease_ms(self) -> int:
        """How long a leader may act after it sent a renewal that succeeded."""
        return self.max_age_ms - self.margin_ms

    @property
    def round_ms(self) -> int:
        """How often a manager takes part: the interval, or half the lease so that one renewal may fail."""
        return min(self.heartbeat_interval_ms, self.lease_ms // 2)


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """The leader row as it was read.

    Parameters
    ----------
    group_id : str
        Whose leader (``cluster.config.groupId``).
    node_id : str
        Id of the manager (``wso2.carbon.id``) that took the term.
    term : int
        Number of the leadership, from 1, growing.
    last_heartbeat : int
        When it was last renewed: ms since epoch by the database's clock; 0 after a resignation.
    url : str
        Base URL at which that manager is reached.
    """

    group_id: str
    node_id: str
    term: int
    last_heartbeat: int
    url: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A leadership as its holder sees it: `term`, and until when it may act on its own steady clock."""

    term: int
    until_ms: int

    @classmethod
    def granted(cls, term: int, sent_ms: int, timing: ElectionTiming) -> Lease:
        """Return the lease that a successful call gives.

        Parameters
        ----------
        term : int
            The term that was taken or renewed.
        sent_ms : int
            Steady time **before** the call was sent. The database's count began later, so ours ends sooner.
        timing : ElectionTiming
            The group's times.
        """
        return cls(term, sent_ms + timing.lease_ms)

    def valid(self, steady_ms: int) -> bool:
        """Return True while the holder may act."""
        return steady_ms < self.until_ms

    def ended(self) -> Lease:
        """Return the lease of a holder that gave up its term: it is not renewed, only succeeded by a new term."""
        return Lease(self.term, 0)


@dataclass(frozen=True, slots=True)
class Renew:
    """I lead: renew `term`."""

    term: int


@dataclass(frozen=True, slots=True)
class Acquire:
    """Nobody leads: try to replace exactly the row `expected` (None: there is none yet) with the next term."""

    expected: LeaderRow | None

    @property
    def term(self) -> int:
        """The term that will be mine if the swap succeeds."""
        return 1 if self.expected is None else self.expected.term + 1


@dataclass(frozen=True, slots=True)
class Follow:
    """Somebody else leads, or may believe so."""

    leader: LeaderRow


def decide(
    view: LeaderRow | None, lease: Lease | None, now_db_ms: int, steady_ms: int, timing: ElectionTiming
) -> Renew | Acquire | Follow:
    """Return what a manager should do about the leader row.

    Parameters
    ----------
    view : LeaderRow, optional
        The row, None where the group never had a leader.
    lease : Lease, optional
        The last lease *this process* was granted, valid or not; None if it never led. The node id in the row is not
        asked: it may belong to an earlier life of this manager, or to another one that was given the same id.
    now_db_ms : int
        The database's clock when the row was read.
    steady_ms : int
        This process's steady clock.
    timing : ElectionTiming
        The group's times.

    Returns
    -------
    Renew, Acquire or Follow
        ``Renew`` only with a valid lease. A leadership whose lease ran out is over: it is succeeded by a new term,
        immediately where the row shows that nobody else came in between.
    """
    if view is None:
        return Acquire(None)
    if lease is not None and lease.term == view.term:
        # The term is mine alone, so nobody but me can be acting in it.
        return Renew(view.term) if lease.valid(steady_ms) else Acquire(view)
    # Both are the database's times; after a resignation the second one is 0, so nobody waits
    if now_db_ms - view.last_heartbeat > timing.max_age_ms:
        return Acquire(view)
    return Follow(view)


class LeaderStore(Protocol):
    """What an election needs of the database; `spdist.cluster.coordination.store.CoordinationStore` has it."""

    def read_leader(self) -> tuple[LeaderRow | None, int]:
        """Return the leader row and the database's clock at that moment."""
        ...

    def renew(self, term: int, node_id: str) -> bool:
        """Set the heartbeat of `term` to the database's now; False if the row has another term or node."""
        ...

    def try_acquire(self, expected: LeaderRow | None, node_id: str, url: str) -> int | None:
        """Swap the row for the next term if it still equals `expected`; return that term, or None if it was lost."""
        ...


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one round of an election gave.

    The shell's part, with ``state`` its `ManagerState` and ``before`` the lease it handed in:

    * leads, in another term than ``before``: read the stored deployments, then `Elected`;
    * leads, in the same term: `LeaseRenewed`; if ``state.term`` is None after that, the leadership had ended already:
      hand in ``lease.ended()`` next time, so that it goes on in a new term;
    * does not lead: `LeaderSeen`; and `Deposed` where ``state.term`` is not None.

    Parameters
    ----------
    lease : Lease, optional
        The lease to hold from now on (keep it and hand it to the next round, even when it has run out).
    leads : bool
        True if this round took or renewed the lease.
    leader : LeaderRow, optional
        The other manager that leads, if one does: workers are redirected to it.
    expires_ms : int
        When its row will have expired unless it is renewed (steady clock): the time of the next round, if that is
        sooner than `ElectionTiming.round_ms`. 0 if nobody else leads.
    """

    lease: Lease | None
    leads: bool
    leader: LeaderRow | None
    expires_ms: int = 0


def hold_election(
    store: LeaderStore, node_id: str, url: str, lease: Lease | None, clock: Clock, timing: ElectionTiming
) -> Ballot:
    """Take part in one round: read the row, decide, and renew or try to take.

    To be called every `timing.round_ms`, and when the row of the leader expires (`Ballot.expires_ms`).

    Parameters
    ----------
    store : LeaderStore
        The database.
    node_id, url : str
        Who I am and where I am reached.
    lease : Lease, optional
        That of the round before.
    clock : Clock
        Mine; its steady reading only.
    timing : ElectionTiming
        The group's times.

    Raises
    ------
    StoreUnavailableError
        The database cannot be asked. The lease in hand stays what it is and runs out by itself.
    """
    view, now_db_ms = store.read_leader()
    # Between the two calls: a lease counts from before its renewal is sent, a row's expiry from after it was read
    sent_ms = clock.steady_ms()
    match decide(view, lease, now_db_ms, sent_ms, timing):
        case Follow(leader):
            left_ms = timing.max_age_ms - (now_db_ms - leader.last_heartbeat)
            # One ms more, as an age of exactly max_age_ms is still valid for `decide`
            return Ballot(lease, leads=False, leader=leader, expires_ms=sent_ms + left_ms + 1)
        case Renew(term):
            if store.renew(term, node_id):
                return Ballot(Lease.granted(term, sent_ms, timing), leads=True, leader=None)
        case Acquire(expected):
            taken = store.try_acquire(expected, node_id, url)
            if taken is not None:
                return Ballot(Lease.granted(taken, sent_ms, timing), leads=True, leader=None)
    # Somebody was faster; the next round will see who.
    return Ballot(lease, leads=False, leader=None)
