"""Servers of type ha under random schedules: never two active at one moment, and one that takes over in time."""

from __future__ import annotations

import pytest

from tests.properties.server_simulation import MUTANTS, Servers, run_schedule
from tests.properties.simulated_nodes import ELECTION, Violation

SCHEDULES = 150


def test_one_server_is_active_at_a_time_and_all_runs_again_after_the_faults() -> None:
    for seed in range(SCHEDULES):
        run_schedule(Servers, seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_a_mutant_is_caught(mutant: type[Servers]) -> None:
    with pytest.raises(Violation):
        for seed in range(1_000):
            run_schedule(mutant, seed)


def test_the_row_of_a_killed_server_is_taken_as_soon_as_it_has_expired() -> None:
    for seed in range(40):
        world = Servers(seed)
        world.calm = True
        world.advance(1_000)
        (first,) = world.active()
        first.crash()
        # By clocks that are 2 % off, then a look, a swap and the directory.
        world.advance(round(ELECTION.max_age_ms * 1.05) + 100)
        assert [one.name for one in world.active()] == [name for name in world.servers if name != first.name]
