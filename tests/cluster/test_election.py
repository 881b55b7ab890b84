"""The decision about the leader row, the lease, and one round with a made-up database."""

from __future__ import annotations

import pytest

from spdist.clock import ManualClock
from spdist.cluster.elections.election import (
    Acquire,
    Ballot,
    ElectionTiming,
    Follow,
    LeaderRow,
    Lease,
    Renew,
    decide,
    hold_election,
)
from spdist.errors import ConfigError, StoreUnavailableError

TIMING = ElectionTiming(heartbeat_interval_ms=1_000, heartbeat_max_retry=2)
OTHER = LeaderRow("sp", "other", term=4, last_heartbeat=50_000, url="http://other")
MINE = LeaderRow("sp", "me", term=4, last_heartbeat=50_000, url="http://me")


def test_the_times_follow_wso2s_formula_and_leave_a_margin() -> None:
    assert (TIMING.max_age_ms, TIMING.margin_ms, TIMING.lease_ms, TIMING.round_ms) == (2_000, 200, 1_800, 900)


def test_with_many_retries_a_round_is_held_every_interval() -> None:
    assert ElectionTiming(1_000, 5).round_ms == 1_000


@pytest.mark.parametrize(("interval", "retry", "key"), [(19, 2, "heartbeatInterval"), (1_000, 0, "heartbeatMaxRetry")])
def test_times_out_of_range_are_refused_by_their_key(interval: int, retry: int, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        ElectionTiming(interval, retry)


def test_without_a_row_everybody_tries() -> None:
    assert decide(None, None, 1, 1, TIMING) == Acquire(None)
    assert Acquire(None).term == 1


def test_a_fresh_leader_is_followed_up_to_the_maximum_age() -> None:
    assert decide(OTHER, None, 52_000, 0, TIMING) == Follow(OTHER)


def test_a_leader_older_than_the_maximum_age_is_replaced_in_the_next_term() -> None:
    assert decide(OTHER, None, 52_001, 0, TIMING) == Acquire(OTHER)
    assert Acquire(OTHER).term == 5


def test_my_own_wall_clock_plays_no_part() -> None:
    for steady_ms in (0, 10**15):
        assert decide(OTHER, None, 51_000, steady_ms, TIMING) == Follow(OTHER)


def test_a_leader_renews_while_its_lease_is_valid() -> None:
    lease = Lease(4, until_ms=700)
    assert decide(MINE, lease, 51_000, 699, TIMING) == Renew(4)


def test_a_leader_whose_lease_ran_out_goes_on_in_a_new_term_at_once() -> None:
    assert decide(MINE, Lease(4, until_ms=700), 51_000, 700, TIMING) == Acquire(MINE)
    assert decide(MINE, Lease(4, until_ms=700).ended(), 51_000, 1, TIMING) == Acquire(MINE)


def test_a_row_with_my_id_that_i_did_not_take_is_somebody_else() -> None:
    """An earlier life of this manager, or another one with the same wso2.carbon.id."""
    assert decide(MINE, None, 51_000, 0, TIMING) == Follow(MINE)
    assert decide(MINE, Lease(3, until_ms=10**9), 51_000, 0, TIMING) == Follow(MINE)


def test_a_resigned_leader_is_replaced_at_once() -> None:
    resigned = LeaderRow("sp", "other", 4, 0, "")
    assert decide(resigned, None, 1_700_000_000_000, 0, TIMING) == Acquire(resigned)


def test_a_lease_counts_from_before_the_call_and_ends_before_the_database_does() -> None:
    lease = Lease.granted(7, sent_ms=100, timing=TIMING)
    assert lease == Lease(7, 1_900)
    assert lease.valid(1_899)
    assert not lease.valid(1_900)


class SlowStore:
    """A database that takes its time: the clock goes on during each call."""

    def __init__(self, clock: ManualClock, row: LeaderRow | None, *, wins: bool = True, slow_ms: int = 300) -> None:
        self.clock = clock
        self.row = row
        self.wins = wins
        self.slow_ms = slow_ms
        self.down = False

    def read_leader(self) -> tuple[LeaderRow | None, int]:
        self.clock.advance(self.slow_ms)
        if self.down:
            raise StoreUnavailableError("no answer")
        return self.row, 60_000

    def renew(self, term: int, node_id: str) -> bool:
        self.clock.advance(self.slow_ms)
        return self.wins

    def try_acquire(self, expected: LeaderRow | None, node_id: str, url: str) -> int | None:
        self.clock.advance(self.slow_ms)
        return Acquire(expected).term if self.wins else None


def test_a_round_takes_an_expired_row_and_counts_the_lease_from_before_the_swap() -> None:
    clock = ManualClock(1_000)
    ballot = hold_election(SlowStore(clock, OTHER), "me", "http://me", None, clock, TIMING)
    assert ballot == Ballot(Lease(5, 1_300 + 1_800), leads=True, leader=None)


def test_a_round_renews() -> None:
    clock = ManualClock(1_000)
    ballot = hold_election(SlowStore(clock, MINE), "me", "http://me", Lease(4, 2_000), clock, TIMING)
    assert ballot == Ballot(Lease(4, 1_300 + 1_800), leads=True, leader=None)


def test_a_round_that_lost_the_swap_leads_nothing() -> None:
    clock = ManualClock(1_000)
    ballot = hold_election(SlowStore(clock, OTHER, wins=False), "me", "", None, clock, TIMING)
    assert ballot == Ballot(None, leads=False, leader=None)


def test_a_refused_renewal_ends_the_leadership_though_the_lease_is_kept_in_mind() -> None:
    clock = ManualClock(1_000)
    lease = Lease(4, 2_000)
    ballot = hold_election(SlowStore(clock, MINE, wins=False), "me", "", lease, clock, TIMING)
    assert ballot == Ballot(lease, leads=False, leader=None)


def test_a_round_that_finds_a_leader_names_it() -> None:
    clock = ManualClock()
    fresh = LeaderRow("sp", "other", 4, 59_000, "http://other")
    ballot = hold_election(SlowStore(clock, fresh), "me", "", None, clock, TIMING)
    assert ballot.leader == fresh
    # Its row is 1,000 ms old and was read at 300: at 1,301 it is older than the 2,000 ms that it may be.
    assert ballot.expires_ms == 1_301


def test_a_database_that_is_away_is_the_callers_business() -> None:
    clock = ManualClock()
    store = SlowStore(clock, None)
    store.down = True
    with pytest.raises(StoreUnavailableError):
        hold_election(store, "me", "", None, clock, TIMING)
