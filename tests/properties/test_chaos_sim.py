"""The target that runs very many schedules: it finds defects, and says from which seed."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.properties import chaos_sim, test_election_schedules, test_manager_state_machine


def test_the_real_protocol_passes_and_says_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--elections", "30", "--clusters", "2", "--no-mutants", "--processes", "0", "--first", "7"]
    assert chaos_sim.main(options) == 0
    told = capsys.readouterr().out
    assert "30 schedules of the election" in told and "2 schedules of the cluster" in told and "seeds from 7" in told


def test_a_defect_of_the_protocol_is_told_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with patch.object(test_election_schedules, "Elections", test_election_schedules.LeaseWithoutEnd):
        options = ["--only", "election", "--elections", "50", "--no-mutants", "--processes", "0"]
        assert chaos_sim.main(options) == 1
    assert "election, seed " in capsys.readouterr().out


def test_a_mutant_that_is_not_caught_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    harmless = {"AnySwap": test_election_schedules.Elections}
    with (
        patch.multiple(test_election_schedules, **harmless),
        patch.multiple(chaos_sim, _ELECTION_MUTANTS=("AnySwap", "LeaseWithoutEnd"), _CAUGHT_WITHIN=50),
    ):
        assert chaos_sim.main(["--only", "election", "--elections", "0", "--processes", "0"]) == 1
    told = capsys.readouterr().out
    assert "AnySwap is NOT caught by 50 schedules" in told
    assert "LeaseWithoutEnd is caught by schedule" in told


def test_every_mutant_of_the_cluster_is_run() -> None:
    worlds = {
        name
        for name, kind in vars(test_manager_state_machine).items()
        if isinstance(kind, type) and issubclass(kind, test_manager_state_machine.World)
    }
    assert worlds - {"World"} == set(chaos_sim._CLUSTER_MUTANTS)
