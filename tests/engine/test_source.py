"""Which records make a batch, and when there is one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.spark.source import LogDataSource, LogReader, SourceSettings, read_control
from spdist.engine.spark.stopping import IdleTasks
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import from_batch


@pytest.fixture
def log(tmp_path: Path) -> LogTransport:
    log = LogTransport(tmp_path / "log")
    log.ensure("A.S", 2)
    return log


def reader(log: LogTransport, tmp_path: Path, **changes: Any) -> LogReader:
    settings: dict[str, Any] = {
        "place": str(log.directory),
        "topics": {"A.S": (0, 1)},
        "start": {},
        "live": False,
        "merges": False,
        "tick_interval_ms": 1000,
        "max_batch_events": 100,
        "stop_flag": str(tmp_path / "stop"),
    }
    return LogReader(SourceSettings(**settings | changes), log)


def events(count: int, partition: int = 0, value: bytes = b"x") -> Record:
    return Record("A.S", partition, value, count, "f", 0, 5)


def at(zero: int, one: int, tick: int) -> dict[str, Any]:
    return {"topics": {"A.S": {"0": zero, "1": one}}, "tick": tick}


def test_reading_begins_at_the_start_or_where_the_state_says(log: LogTransport, tmp_path: Path) -> None:
    assert reader(log, tmp_path).initialOffset() == at(0, 0, 0)
    assert reader(log, tmp_path, start={"A.S": {1: 7}, "Other": {0: 3}}).initialOffset() == at(0, 7, 0)


def test_a_first_batch_comes_at_once_and_then_playback_waits_for_records(log: LogTransport, tmp_path: Path) -> None:
    source = reader(log, tmp_path)
    assert source.plan(at(0, 0, 0), 50_000) == at(0, 0, 1)
    assert source.plan(at(0, 0, 1), 99_000) is None
    log.append([events(0)])
    assert source.plan(at(0, 0, 1), 99_000) == at(1, 0, 1)


def test_a_live_query_wakes_for_events_at_once_for_time_now_and_then(log: LogTransport, tmp_path: Path) -> None:
    source = reader(log, tmp_path, live=True)
    assert source.plan(at(0, 0, 0), 50_000) == at(0, 0, 50_000)
    assert source.plan(at(0, 0, 50_000), 50_999) is None
    assert source.plan(at(0, 0, 50_000), 51_000) == at(0, 0, 51_000)
    log.append([events(0)])
    assert source.plan(at(0, 0, 50_000), 50_500) is None
    assert reader(log, tmp_path, live=True, merges=True).plan(at(0, 0, 50_000), 50_500) == at(1, 0, 50_500)
    log.append([events(1)])
    assert source.plan(at(0, 0, 50_000), 50_001) == at(2, 0, 50_001)


def test_time_alone_wakes_a_query_only_where_something_waits_for_it(log: LogTransport, tmp_path: Path) -> None:
    source, first, second = reader(log, tmp_path, live=True, tasks=2), IdleTasks(tmp_path), IdleTasks(tmp_path)
    begin = at(0, 0, 50_000)
    first.note(0, None)
    assert source.plan(begin, 51_000) == at(0, 0, 51_000)  # the other task has said nothing
    second.note(1, 53_500)
    assert source.plan(begin, 53_499) is None
    assert source.plan(begin, 53_500) == at(0, 0, 53_500)
    second.note(1, None)
    assert source.plan(begin, 59_999) is None
    assert source.plan(begin, 60_000) == at(0, 0, 60_000)  # its clock is shown now and then
    second.note(1, 0)
    assert source.plan(begin, 50_999) is None
    assert source.plan(begin, 51_000) == at(0, 0, 51_000)
    log.append([events(1)])
    second.note(1, None)
    assert source.plan(begin, 50_001) == at(1, 0, 50_001)


def test_ticks_go_on_when_the_clock_is_set_back(log: LogTransport, tmp_path: Path) -> None:
    log.append([events(1)])
    assert reader(log, tmp_path, live=True).plan(at(0, 0, 50_000), 40_000) == at(1, 0, 50_001)


def test_a_batch_is_bounded_by_events_shared_between_partitions(log: LogTransport, tmp_path: Path) -> None:
    log.append([events(10, 0) for _ in range(50)] + [events(10, 1) for _ in range(3)])
    source = reader(log, tmp_path)
    assert source.plan(at(0, 0, 1), 0) == at(5, 3, 1)
    assert source.plan(at(5, 3, 1), 0) == at(10, 3, 1)
    assert reader(log, tmp_path, max_batch_events=1).plan(at(0, 0, 1), 0) == at(1, 1, 1)  # never nothing


def test_a_batch_is_bounded_by_bytes(log: LogTransport, tmp_path: Path) -> None:
    big = b"x" * 3_000_000
    for _ in range(6):
        log.append([events(1, 0, big)])
    assert reader(log, tmp_path).plan(at(0, 0, 1), 0) == at(3, 0, 1)


def test_more_records_than_one_read_returns_are_planned_and_read(log: LogTransport, tmp_path: Path) -> None:
    log.append([events(1) for _ in range(2500)])
    source = reader(log, tmp_path, max_batch_events=100_000)
    end = source.plan(at(0, 0, 1), 0)
    assert end == at(2500, 0, 1)
    control, *records = [r for batch in source.batches(at(0, 0, 1), end) for r in from_batch(batch)]
    assert [r.offset for r in records] == list(range(2500))
    assert read_control(control) == (1, {"A.S": {0: 2500, 1: 0}})


def test_what_was_read_can_be_copied_and_read_again_without_being_kept(log: LogTransport, tmp_path: Path) -> None:
    log.append([events(1)])
    source = reader(log, tmp_path)
    batches, end = source.read(source.initialOffset())
    kept = copy.copy(batches)
    assert [b.num_rows for b in kept] == [1, 1]
    assert list(kept) == []
    assert [b.num_rows for b in copy.copy(batches)] == [1, 1]
    assert [b.num_rows for b in source.readBetweenOffsets(at(0, 0, 0), end)] == [1, 1]
    assert source.read(end)[1] == end


def test_where_nothing_is_there_one_question_looks_again_and_finds_what_comes_meanwhile(
    log: LogTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, pauses, happens = reader(log, tmp_path), list[float](), dict[int, Callable[[], object]]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        happens.get(len(pauses), lambda: None)()

    monkeypatch.setattr("spdist.engine.spark.source.time.sleep", pause)
    start = at(0, 0, 1)
    assert source.read(start)[1] == start
    # Spark asks again after another one of these: nothing waits for longer than where each look is a question.
    assert pauses == [0.025] * 3
    happens[5] = lambda: log.append([events(1)])
    assert source.read(start)[1] == at(1, 0, 1)
    happens[7] = (tmp_path / "stop").touch
    assert source.read(at(1, 0, 1))[1] == at(1, 0, 1)
    assert len(pauses) == 7
    assert (tmp_path / "stop.seen").exists()


def test_after_the_stop_flag_no_batch_begins_and_that_is_confirmed(log: LogTransport, tmp_path: Path) -> None:
    log.append([events(1)])
    source = reader(log, tmp_path)
    (tmp_path / "stop").touch()
    batches, end = source.read(source.initialOffset())
    assert (list(batches), end) == ([], source.initialOffset())
    assert (tmp_path / "stop.seen").exists()


def test_settings_travel_as_options(log: LogTransport, tmp_path: Path) -> None:
    settings = reader(log, tmp_path, start={"A.S": {1: 7}}).settings
    options = settings.to_options()
    assert all(isinstance(value, str) for value in options.values())
    assert SourceSettings.from_options(options) == settings
    assert json.loads(options["settings"])["place"] == str(log.directory)
    assert LogDataSource(options).simpleStreamReader(None).settings == settings
