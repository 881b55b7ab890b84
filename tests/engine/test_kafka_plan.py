"""Which messages of Kafka make a batch, and what a query does while the brokers are away."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.spark.source import KafkaPlan, LogReader, Planned, SourceSettings, ranges_of
from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.kafka.options import KafkaInput, KafkaSettings
from spdist.transports.log import LogTransport

BROKERS = KafkaSettings("127.0.0.1:1")


class Brokers:
    """Brokers that know where partitions begin and end."""

    def __init__(self, **extents: tuple[int, int]) -> None:
        self.there = {(name.partition("_")[0], int(name.partition("_")[2])): extent for name, extent in extents.items()}
        self.away = False

    def extents(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        if self.away:
            raise TransportUnavailableError("Kafka at 127.0.0.1:1 does not answer while reading (NoBrokersAvailable)")
        return {place: self.there[place] for place in places}

    def ends(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {place: end for place, (_, end) in self.extents(places).items()}


def plan(brokers: Brokers, most: int = 100, packed: bool = False, **start: dict[int, int]) -> KafkaPlan:
    inputs = {topic: KafkaInput(BROKERS, topic, packed=packed, users=not packed) for topic in start}
    asked: Any = {repr((BROKERS, [])): brokers}
    return KafkaPlan(inputs, start, most, asked)


def test_a_batch_has_what_is_there() -> None:
    planned = plan(Brokers(t_0=(0, 7), t_1=(0, 3)), t={0: 2, 1: 3}).plan({"t": {"0": 2, "1": 3}})
    assert planned == Planned({"t": {"0": 7, "1": 3}}, 5, 0)
    assert list(ranges_of({"t": {"0": 2, "1": 3}}, planned.ends)) == [("t", 0, 2, 7)]


def test_of_more_each_partition_has_its_share() -> None:
    planned = plan(Brokers(t_0=(0, 900), t_1=(0, 100), u_0=(0, 0)), t={0: 0, 1: 0}, u={0: 0}).plan(
        {"t": {"0": 0, "1": 0}, "u": {"0": 0}}
    )
    assert planned == Planned({"t": {"0": 90, "1": 10}, "u": {"0": 0}}, 100, 900)


def test_messages_that_hold_many_events_are_few() -> None:
    planned = plan(Brokers(t_0=(0, 900)), most=5000, packed=True, t={0: 0}).plan({"t": {"0": 0}})
    assert planned == Planned({"t": {"0": 5}}, 5, 895)


def test_who_reads_a_topic_first_begins_with_what_is_kept() -> None:
    planned = plan(Brokers(t_0=(1000, 1005)), most=2, t={0: 0}).plan({"t": {"0": 0}})
    assert planned == Planned({"t": {"0": 1002}}, 2, 3)
    nothing = plan(Brokers(t_0=(1000, 1000)), t={0: 0}).plan({"t": {"0": 0}})
    assert nothing == Planned({"t": {"0": 0}}, 0, 0)


def test_a_topic_that_was_made_anew_ends_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, now = Brokers(t_0=(0, 4)), 100.0
    monkeypatch.setattr("spdist.engine.spark.source.time.monotonic", lambda: now)
    planning = plan(brokers, t={0: 10})
    assert planning.plan({"t": {"0": 10}}) is None  # its new leader may not know yet
    now = 116.0
    with pytest.raises(TransportError, match="'t' was made anew: it ends with message 3, and 9 was read"):
        planning.plan({"t": {"0": 10}})
    brokers.there["t", 0] = 0, 12
    assert planning.plan({"t": {"0": 10}}) == Planned({"t": {"0": 12}}, 2, 0)


def test_brokers_are_waited_for_as_long_as_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, now = Brokers(t_0=(0, 4)), 100.0
    monkeypatch.setattr("spdist.engine.spark.source.time.monotonic", lambda: now)
    planning, start = plan(brokers, t={0: 1}), {"t": {"0": 1}}
    brokers.away = True
    assert planning.plan(start) is None
    now = 114.0
    assert planning.plan(start) is None
    brokers.away = False
    assert planning.plan(start) is not None
    brokers.away = True
    now = 120.0
    assert planning.plan(start) is None
    now = 135.1
    with pytest.raises(TransportUnavailableError):
        planning.plan(start)


@pytest.mark.parametrize(
    ("users", "patience_ms", "properties", "waits_ms"),
    [
        (False, 1_000, {}, 60_000),
        (False, 300_000, {}, 300_000),
        (True, 300_000, {}, 15_000),
        (True, 1_000, {"default.api.timeout.ms": "5000"}, 5_000),
    ],
)
def test_how_long_brokers_are_waited_for(
    users: bool, patience_ms: int, properties: dict[str, str], waits_ms: int
) -> None:
    settings = KafkaSettings("127.0.0.1:1", patience_ms=patience_ms, properties=properties)
    assert KafkaInput(settings, "t", users=users).patience_ms == waits_ms


def test_what_is_read_goes_to_the_source_in_a_file_that_is_private(tmp_path: Path) -> None:
    secured = KafkaSettings("127.0.0.1:1", properties={"sasl.jaas.config": 'password="p"'})
    written = KafkaPlan({"a": KafkaInput(secured, "t", keys=True)}, {"a": {0: 3, 1: 4}}, 70)
    file = written.write(tmp_path / "kafka")
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    assert KafkaPlan.read(file) == written


# ------------------------------------------------------------------------------------------------- as part of a source
def source(tmp_path: Path, planning: KafkaPlan, live: bool = False) -> LogReader:
    log = LogTransport(tmp_path / "log")
    settings = SourceSettings(str(log.directory), {}, {}, live, False, 1000, 100, str(tmp_path / "stop"))
    return LogReader(settings, log, planning)


def at(offset: int, tick: int, behind: int = 0) -> dict[str, Any]:
    return {"topics": {}, "tick": tick, "kafka": {"t": {"0": offset}}, "behind": behind}


def test_messages_wake_a_query_and_the_time_of_their_batch_is_now(tmp_path: Path) -> None:
    brokers = Brokers(t_0=(0, 5))
    reader = source(tmp_path, plan(brokers, most=3, t={0: 5}))
    assert reader.initialOffset() == at(5, 0)
    assert reader.plan(at(5, 0), 50_000) == at(5, 1)
    assert reader.plan(at(5, 1), 50_000) is None
    brokers.there["t", 0] = 0, 9
    assert reader.plan(at(5, 1), 60_000) == at(8, 60_000, behind=1)
    assert reader.plan(at(8, 60_000, behind=1), 59_000) == at(9, 60_001)


def test_time_stands_still_while_nobody_knows_what_waits(tmp_path: Path) -> None:
    brokers = Brokers(t_0=(0, 5))
    reader = source(tmp_path, plan(brokers, t={0: 5}), live=True)
    assert reader.plan(at(5, 50_000), 51_000) == at(5, 51_000)
    brokers.away = True
    assert reader.plan(at(5, 51_000), 90_000) is None


def test_brokers_are_asked_less_often_while_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = 100.0, list[float]()
    monkeypatch.setattr("spdist.engine.spark.source.time.monotonic", lambda: now)
    monkeypatch.setattr("spdist.engine.spark.source.time.sleep", pauses.append)
    brokers = Brokers(t_0=(0, 5))
    reader = source(tmp_path, plan(brokers, t={0: 5}))
    for moment in (100.0, 101.0, 200.0):
        now = moment
        reader.read(at(5, 1))
    assert pauses == pytest.approx([0.0, 0.01, 0.05])
    brokers.there["t", 0] = 0, 9
    _, end = reader.read(at(5, 1))
    assert end["kafka"] == {"t": {"0": 9}}
    now = 200.5
    reader.read(end)
    assert pauses[3:] == pytest.approx([0.005])
    assert len(pauses) == 4
