"""The target that runs very many schedules: it finds defects, and says from which seed."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.properties import chaos_sim, cluster_mutants, server_simulation, test_election_schedules
from tests.properties.cluster_simulation import World


def test_the_real_protocol_passes_and_says_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--elections",
        "30",
        "--clusters",
        "2",
        "--servers",
        "3",
        "--no-mutants",
        "--processes",
        "0",
        "--first",
        "0",
    ]
    assert chaos_sim.main(options) == 0
    told = capsys.readouterr().out
    assert "30 schedules of the election" in told and "2 schedules of the cluster" in told and "seeds from 0" in told
    assert "3 schedules of the servers" in told and "active server is killed " in told
    assert "terms " in told and "leader stands still " in told


def test_a_defect_of_the_protocol_is_told_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with patch.dict(chaos_sim._ELECTIONS, {"": test_election_schedules.LeaseWithoutEnd}):
        options = ["--only", "election", "--elections", "50", "--no-mutants", "--processes", "0"]
        assert chaos_sim.main(options) == 1
    assert "election, seed " in capsys.readouterr().out


def test_a_mutant_that_is_not_caught_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {"AnySwap": test_election_schedules.Elections, "LeaseWithoutEnd": test_election_schedules.LeaseWithoutEnd}
    with patch.multiple(chaos_sim, _ELECTIONS=kinds, _CAUGHT_WITHIN=50):
        assert chaos_sim.main(["--only", "election", "--elections", "0", "--processes", "0"]) == 1
    told = capsys.readouterr().out
    assert "AnySwap is NOT caught by 50 schedules" in told
    assert "LeaseWithoutEnd is caught by schedule" in told


def test_every_mutant_is_run() -> None:
    kinds = {kind for kind in vars(cluster_mutants).values() if isinstance(kind, type) and issubclass(kind, World)}
    assert kinds - {World, cluster_mutants.Sleepy} == set(cluster_mutants.MUTANTS)
    assert set(chaos_sim._CLUSTERS) == {"", *(mutant.__name__ for mutant in cluster_mutants.MUTANTS)}
    assert set(server_simulation.Servers.__subclasses__()) == set(server_simulation.MUTANTS)
    assert set(test_election_schedules.Elections.__subclasses__()) == set(test_election_schedules.MUTANTS)
