"""What tasks do between two batches: what a full one has put out is published while the next one runs."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spdist.clock import ManualClock
from spdist.engine.shards.memory import set_aside
from spdist.engine.shards.shards import ShardSettings
from spdist.engine.shards.state import StateStore
from spdist.engine.spark.query import QuerySettings
from spdist.engine.spark.stopping import IdleTasks
from spdist.engine.spark.tasks import _Kept
from spdist.errors import FencedError, TransportError
from spdist.planning.topology import AssignedInput
from spdist.transports.base import Record
from spdist.transports.kafka.options import KafkaInput, KafkaSettings
from tests.engine.fake_app import assignment, heard, island

BROKERS = KafkaSettings("127.0.0.1:1")
RECORD = Record("App.Out", 0, b"1", 1, "App", 0, 0)
INPUT = AssignedInput("A", "T.A", (0,))
PATIENCE_S = 10


def settings(place: Path, **kafka: KafkaInput) -> QuerySettings:
    one = assignment(INPUT, name="One")
    shard = ShardSettings(one, 0, 1, StateStore(place / "One").open("me"), str(place / "One"))
    return QuerySettings("One", (shard,), str(place / "log"), str(place / "stop"), "here", 0, 100, 5000, kafka=kafka)


def test_a_batch_is_full_where_others_must_be_waiting(tmp_path: Path) -> None:
    many = settings(tmp_path, a=KafkaInput(BROKERS, "a", users=True), b=KafkaInput(BROKERS, "b", users=True))
    assert many.is_full({"a": 2500, "b": 2499})
    assert not many.is_full({"a": 4000})
    assert not many.is_full({})
    packed = settings(tmp_path, a=KafkaInput(BROKERS, "a", packed=True), b=KafkaInput(BROKERS, "b"))
    assert packed.is_full({"a": 5})
    assert not packed.is_full({"b": 5})


def test_a_batch_that_did_something_is_followed_by_one_then_only_time_and_events_wake_the_task(tmp_path: Path) -> None:
    """The batch behind it tells in its segment that what it put out was published."""
    kept, notes = _Kept(settings(tmp_path)), IdleTasks(tmp_path)
    shards: Any = SimpleNamespace(idle_until=lambda: 7_000)
    noted = []
    for put_out, events_in in [(False, 0), (True, 0), (False, 0), (False, 3), (False, 3)]:
        kept.note_idle(0, shards, put_out, events_in)
        noted.append(notes.until(1))
    assert noted == [0, 0, 7_000, 0, 7_000]
    assert kept.shards(0).idle_until() == 0  # no state is loaded
    kept.close()


def test_what_is_published_behind_is_there_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, may_send, sent = _Kept(settings(tmp_path)), threading.Event(), []

    def append(records: list[Record]) -> None:
        assert may_send.wait(PATIENCE_S)
        sent.extend(records)

    monkeypatch.setattr(kept.transport, "append", append)
    kept.publish(kept.shards(0), [RECORD], behind=True)
    assert not sent
    may_send.set()
    kept.behind.end()
    assert sent == [RECORD]
    kept.close()


def test_what_could_not_be_published_is_put_out_again_by_shards_that_load_their_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = _Kept(settings(tmp_path))

    def append(_records: list[Record]) -> None:
        raise TransportError("no server")

    monkeypatch.setattr(kept.transport, "append", append)
    shards = kept.shards(0)
    (shard,) = shards._shards.values()
    shard.island = island(INPUT, name="One")
    kept.publish(shards, [RECORD], behind=True)
    with pytest.raises(TransportError, match="no server"):
        shards.process(1, [], heard({}), kept.behind)
    assert shard.island is None
    with pytest.raises(TransportError, match="no server"):
        kept.publish(shards, [RECORD])
    kept.publish(shards, [RECORD], behind=True)
    kept.close()  # it has been told to end, and says nothing


def test_a_process_that_stood_still_while_others_took_over_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, sent = _Kept(settings(tmp_path)), []
    monkeypatch.setattr(kept.transport, "append", sent.extend)
    shards = kept.shards(0)
    (shard,) = shards._shards.values()
    shard.ownership._clock = clock = ManualClock()
    shard.island = island(INPUT, name="One")
    clock.advance(5_000)
    kept.publish(shards, [RECORD])
    assert sent == [RECORD]  # it stood still, and nobody took over
    StateStore(tmp_path / "One").open("another")
    kept.publish(shards, [RECORD])
    clock.advance(5_000)
    with pytest.raises(FencedError, match="belongs to another"):
        kept.publish(shards, [RECORD])
    assert sent == [RECORD, RECORD]
    kept.close()


def test_what_only_keeps_itself_is_found_once_in_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdist.engine.shards.memory._LOOK_AT_ALL_EACH", 3)
    kin = type("Kin", (), {})()
    kin.itself, there = kin, weakref.ref(kin)
    try:
        set_aside(1)
        del kin
        # As Spark's worker does after each task: it does not look at what stays.
        gc.collect()
        set_aside(2)
        assert there() is not None
        set_aside(3)
        assert there() is None
    finally:
        gc.unfreeze()


def test_what_a_batch_makes_is_looked_at() -> None:
    try:
        set_aside(1)
        kin = type("Kin", (), {})()
        kin.itself, there = kin, weakref.ref(kin)
        del kin
        gc.collect()
        assert there() is None
    finally:
        gc.unfreeze()
