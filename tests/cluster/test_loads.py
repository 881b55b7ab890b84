"""From the figures in heartbeats to one number for each instance."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.cluster.leader.loads import Loads
from spdist.cluster.protocol.messages import GroupPhase, GroupReport, MemoryReport, WorkerReport


def beat(worker: str = "w1", incarnation: str = "life", **metrics: float) -> WorkerReport:
    group = GroupReport("A-g-1", "A", GroupPhase.RUNNING, "version 1", metrics=metrics)
    more: dict[str, Any] = {"memory": MemoryReport(limit=1000, used=0, per_group=1)}
    return WorkerReport(worker, f"http://{worker}", False, incarnation, 1, 1, (group,), **more)


def watch(loads: Loads, begin_s: int, seconds: int, busy: float = 0.0, events_s: float = 0.0, **metrics: float) -> None:
    """Report every second a batch that took a share of it."""
    for second in range(begin_s, begin_s + seconds + 1):
        figures = {"batches": second, "batchMs": 1000 * busy, "eventsIn": second * events_s, **metrics}
        loads.note(beat(**figures), second * 1000)


def share(loads: Loads) -> float:
    load = loads.of("A-g-1")
    assert load is not None
    return load.share


def test_the_share_of_time_in_batches_is_the_load() -> None:
    loads = Loads()
    watch(loads, 0, 30, busy=0.4)
    assert share(loads) == pytest.approx(0.4)


def test_the_scarcest_of_three_things_counts() -> None:
    for figures, wanted in [
        ({"events_s": 70_000.0, "busy": 0.1}, 0.7),
        ({"memoryBytes": 600.0, "busy": 0.1}, 0.6),
        ({}, 0.05),
    ]:
        loads = Loads()
        watch(loads, 0, 30, **figures)
        assert share(loads) == pytest.approx(wanted)


def test_a_burst_says_little_and_is_forgotten() -> None:
    loads = Loads()
    watch(loads, 0, 300, busy=0.1)
    watch(loads, 301, 5, busy=1.0)
    assert share(loads) < 0.2
    watch(loads, 310, 300, busy=0.1)
    assert share(loads) == pytest.approx(0.1, abs=0.01)


def test_a_load_is_steady_after_a_minute_on_its_worker_and_survives_a_move() -> None:
    loads = Loads()
    assert loads.of("A-g-1") is None
    watch(loads, 0, 59, busy=0.4)
    load = loads.of("A-g-1")
    assert load is not None and not load.steady
    watch(loads, 60, 1, busy=0.4)
    load = loads.of("A-g-1")
    assert load is not None and load.steady
    loads.note(beat("w2", batches=0, batchMs=0, eventsIn=0), 62_000)
    load = loads.of("A-g-1")
    assert load is not None and not load.steady and load.share == pytest.approx(0.4)


def test_instances_that_are_gone_are_forgotten_and_those_without_figures_not_known() -> None:
    loads = Loads()
    watch(loads, 0, 5)
    loads.keep({"A-g-1"})
    assert loads.of("A-g-1") is not None
    loads.keep(set())
    assert loads.of("A-g-1") is None
    loads.note(beat(), 0)
    assert loads.of("A-g-1") is None
