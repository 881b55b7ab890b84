"""One instance and its failures."""

from __future__ import annotations

import pytest

from spdist.cluster.leader.instances import Instance, RestartPolicy
from spdist.cluster.protocol.messages import GroupPhase
from spdist.errors import ConfigError
from tests.cluster.leader import assignment, seen

POLICY = RestartPolicy(max_restarts=2, first_delay_ms=100, max_delay_ms=250, forgive_after_ms=10_000)
FAILED = seen("A-g-1", GroupPhase.FAILED, "reason")


@pytest.fixture
def instance() -> Instance:
    return Instance(assignment("A-g-1"), worker="w1")


def test_pauses_double_up_to_the_maximum() -> None:
    assert [POLICY.delay_ms(n) for n in (1, 2, 3, 4, 1_000)] == [100, 200, 250, 250, 250]


@pytest.mark.parametrize(
    "values",
    [{"max_restarts": -1}, {"first_delay_ms": 0}, {"first_delay_ms": 10, "max_delay_ms": 9}, {"forgive_after_ms": 0}],
)
def test_policies_that_make_no_sense_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="restart policy"):
        RestartPolicy(**values)


def test_a_failure_is_counted_and_frees_the_instance(instance: Instance) -> None:
    assert instance.observe("w1", FAILED, 1_000, POLICY)
    assert (instance.failures, instance.error, instance.worker) == (1, "reason", None)
    assert (instance.retry_at_ms, instance.failed_on, instance.gave_up) == (1_100, {"w1"}, False)


def test_after_the_last_restart_it_gives_up(instance: Instance) -> None:
    for n in range(3):
        assert not instance.gave_up
        assert instance.observe(f"w{n}", FAILED, 1_000, POLICY)
    assert instance.gave_up


def test_a_failure_without_a_reason_has_a_sentence(instance: Instance) -> None:
    instance.observe("w1", seen("A-g-1", GroupPhase.FAILED), 1_000, POLICY)
    assert instance.error == "it ended without a reason"


def test_running_well_for_long_enough_clears_the_count(instance: Instance) -> None:
    instance.observe("w1", FAILED, 0, POLICY)
    instance.observe("w1", seen("A-g-1"), 1_000, POLICY)
    instance.observe("w1", seen("A-g-1"), 10_999, POLICY)
    assert instance.failures == 1
    instance.observe("w1", seen("A-g-1"), 11_000, POLICY)
    assert (instance.failures, instance.error, instance.failed_on) == (0, "", set())


def test_an_interruption_starts_that_time_anew(instance: Instance) -> None:
    instance.observe("w1", FAILED, 0, POLICY)
    instance.observe("w1", seen("A-g-1"), 1_000, POLICY)
    instance.observe("w1", None, 6_000, POLICY)
    instance.observe("w1", seen("A-g-1"), 7_000, POLICY)
    instance.observe("w1", seen("A-g-1"), 11_000, POLICY)
    assert instance.failures == 1
