"""Groups on Spark: the same results as on one machine, and what becomes of a group in the end."""

from __future__ import annotations

import importlib.util
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spdist.engine.local.app import run
from spdist.engine.shards.state import StateStore
from spdist.engine.spark.carried import carrying_errors
from spdist.engine.spark.session import SparkHost
from spdist.errors import (
    EngineError,
    ErrorKind,
    FencedError,
    SiddhiSyntaxError,
    SpdistError,
    StateError,
    TransportError,
)
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime, reason_of
from spdist.runtime.persistence import FileSystemPersistenceStore
from spdist.runtime.warm_up import warm_up
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport
from tests.runtime.group_processes import workers
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

Eventually = Callable[..., object]

INPUT = Schema.of([("k", "string"), ("v", "long")])
#: The last group only makes the planner publish `Out`; it is not run.
APP = """
@app:name('App') @app:playback define stream S (k string, v long);
@dist(execGroup='a') from S#window.timeBatch(1 sec) select k, sum(v) as v group by k insert into M;
@dist(execGroup='b', parallel='2') partition with (k of M) begin
    from M#window.length(3) select k, max(v) as v insert into Out; end;
@dist(execGroup='last') from Out select * insert into End;
"""


def events(count: int, start: int = 0) -> list[tuple[int, tuple[Any, ...]]]:
    return [(1000 + 37 * n, (f"k{n % 5}", n * n % 101)) for n in range(start, start + count)]


def expected(count: int) -> list[tuple[int, tuple[Any, ...]]]:
    return run(APP, {"S": events(count)})["Out"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    return SHARED_SPARK.host(settings_in(tmp_path_factory.mktemp("a checkout with spaces")))


@pytest.fixture
def runtimes() -> Iterator[list[GroupRuntime]]:
    """What a test puts here is ended with it."""
    started: list[GroupRuntime] = []
    yield started
    for group in started:
        group.kill()


def assignments(name: str, text: str = APP, shards: int = 1) -> list[Assignment]:
    """What the instances of the app, under a name of its own, must run."""
    topology = plan(parse(text.replace("@app:name('App')", f"@app:name('{name}')")), shards=shards)
    return [a for a in topology.assignments() if not a.group.endswith("-last")]


def started(host: SparkHost, runtimes: list[GroupRuntime], work: list[Assignment]) -> list[GroupRuntime]:
    groups = [GroupRuntime(assignment, host, "worker-1") for assignment in work]
    runtimes += groups
    for group in groups:
        group.start()
    for group in groups:
        assert group.wait(60)
        assert group.status().state == "RUNNING", group.status()
    return groups


def processed(groups: list[GroupRuntime], until: int) -> bool:
    statuses = [group.status() for group in groups]
    assert {status.state for status in statuses} == {"RUNNING"}, statuses
    return all(status.clock is not None and status.clock >= until for status in statuses)


@pytest.mark.spark
def test_a_host_is_warmed_up_by_a_group_that_leaves_nothing(host: SparkHost) -> None:
    assert warm_up(host, threading.Event())
    assert not host.session.streams.active
    assert not host.log_directory.exists()
    assert not host.state_location.exists()
    assert not (host.scratch / "warming").exists()


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")
def test_a_python_worker_finds_loaded_what_groups_need_and_computes_with_it(host: SparkHost) -> None:
    wanted = ["pyarrow", "spdist.engine.island.island", *(["numba"] if importlib.util.find_spec("numba") else [])]

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        missing = [name for name in wanted if name not in sys.modules]
        table = pa.Table.from_batches(list(batches))
        sums = table.group_by("k", use_threads=True).aggregate(
            [("id", "sum")]
        )  # in threads that do not last through a fork
        if "numba" in wanted:
            import numba

            assert numba.njit(lambda number: number + 1)(41) == 42
        yield pa.RecordBatch.from_pydict({"missing": [missing], "sums": [sorted(sums["id_sum"].to_pylist())]})

    frame = host.session.range(0, 1000, 1, 1).selectExpr("id", "id % 2 as k")
    (row,) = frame.mapInArrow(look, "missing array<string>, sums array<bigint>").collect()
    assert row.missing == []
    assert row.sums == [sum(range(0, 1000, 2)), sum(range(1, 1000, 2))]


@pytest.mark.spark
def test_a_host_that_is_to_be_stopped_is_not_warmed_up_any_more(
    host: SparkHost, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    ending = threading.Event()
    ending.set()
    assert not warm_up(host, ending)
    eventually(lambda: not host.session.streams.active, "nothing runs", 60)
    assert not caplog.records


@pytest.mark.spark
def test_groups_give_what_one_machine_gives_and_go_on_after_a_stop(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    work = assignments("Chain")
    log = LogTransport(host.log_directory)
    log.ensure("Chain.S", 1)
    feed = Feed(log, "Chain.S", INPUT)
    groups = started(host, runtimes, work)
    feed.send(events(150))
    feed.send(events(150, 150))
    eventually(lambda: processed(groups, events(300)[-1][0]), "all groups have processed the first events", 60)
    eventually(lambda: groups[0].status().lag == 0, "the lag is found")
    status = groups[0].status()
    assert (status.events_in, status.error) == (300, None)
    eventually(lambda: 1 <= groups[0].status().state_rows <= 40, "the rows of the open second are counted", 60)

    store = FileSystemPersistenceStore(host.state_location, 3)
    store.save(work[0].name, "1700000000000__Chain")
    eventually(lambda: groups[0].status().last_revision_ms == 1_700_000_000_000, "the revision is known", 60)
    assert [group.stop(30) for group in groups] == [True] * 3
    assert {group.status().state for group in groups} == {"STOPPED"}
    assert groups[0].status().events_in == 300
    feed.send(events(100, 300))
    groups = started(host, runtimes, work)
    eventually(lambda: processed(groups, events(400)[-1][0]), "all groups have processed the rest", 60)
    assert read_events(log, "Chain.Out", INPUT) == expected(400)
    assert groups[0].status().events_in == 400


@pytest.mark.spark
def test_many_instances_share_a_query_on_two_partitions(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    log = LogTransport(host.log_directory)
    names = [f"Small{number}" for number in range(5)]
    work = [assignment for name in names for assignment in assignments(name)]
    feeds = []
    for name in names:
        log.ensure(f"{name}.S", 1)
        feeds.append(Feed(log, f"{name}.S", INPUT))
    for begin, count in ((0, 40), (40, 60)):
        together = GroupRuntime(work, host, "worker-1", name="Small", partitions=2)
        runtimes.append(together)
        together.start()
        assert together.wait(60)
        for number, feed in enumerate(feeds):
            feed.send(events(count - number, begin))
        clock = events(begin + count - len(names) + 1)[-1][0]
        eventually(lambda group=together, until=clock: processed([group], until), "all have processed most", 60)
        for number, feed in enumerate(feeds):
            feed.send(events(number, begin + count - number))
        clock = events(begin + count)[-1][0]
        eventually(lambda group=together, until=clock: processed([group], until), "all have processed all", 60)
        assert together.stop(30)
    for name in names:
        assert read_events(log, f"{name}.Out", INPUT) == expected(100)


@pytest.mark.spark
def test_shards_on_two_partitions_give_what_one_machine_gives_however_many_there_are(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    text = """@app:name('App') @app:playback define stream S (k string, v long);
        @dist(execGroup='a') partition with (k of S) begin
            from S#window.time(200 millisec) select k, sum(v) as v insert all events into Out; end;
        @dist(execGroup='last') from Out select * insert into End;"""
    (work,) = assignments("Split", text, 3)
    assert work.shards == 3
    log = LogTransport(host.log_directory)
    topic = work.inputs[0].topic
    log.ensure(topic, 1)
    feed = Feed(log, topic, INPUT)
    for begin, shards in ((0, 1), (100, 3), (200, 3), (300, 1)):
        (group,) = started(host, runtimes, [replace(work, shards=shards)])
        for number in range(begin, begin + 80, 20):
            feed.send(events(20, number))
        until = events(begin + 80)[-1][0]
        eventually(lambda g=group, u=until: processed([g], u), "all shards have processed most", 60)
        assert group.status().events_in == begin + 80
        feed.send(events(20, begin + 80))
        group.kill()  # somewhere in the rest
    (group,) = started(host, runtimes, [replace(work, shards=3)])
    eventually(lambda: processed([group], events(400)[-1][0]), "all shards have processed all", 60)
    # A daemon of Spark's and the worker that it made: nobody takes turns.
    assert [workers(f"{work.name} {number}") for number in range(2)] == [2, 2]
    assert group.stop(30)
    assert group.status().events_in == 400

    def by_key(found: list[tuple[int, tuple[Any, ...]]]) -> dict[str, list[Any]]:
        keys: dict[str, list[Any]] = {}
        for ts, row in found:
            keys.setdefault(row[0], []).append((ts, row))
        return keys

    assert by_key(read_events(log, "Split.Out", INPUT)) == by_key(run(text, {"S": events(400)})["Out"])


@pytest.mark.spark
def test_a_group_that_is_started_elsewhere_is_fenced_here_and_says_so(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    (work, *_) = assignments("Twice")
    (old,) = started(host, runtimes, [work])
    (new,) = started(host, runtimes, [work])
    Feed(LogTransport(host.log_directory), "Twice.S", INPUT).send(events(10))
    eventually(lambda: old.status().state == "FAILED", "the old one has noticed", 60)
    assert isinstance(old.error, FencedError)
    assert "belongs to worker-1/" in str(old.status().error)
    old.kill()  # late: it must not take the state from its successor
    eventually(lambda: processed([new], events(10)[-1][0]), "the new one goes on", 60)
    Feed(LogTransport(host.log_directory), "Twice.S", INPUT).send(events(10, 10))
    eventually(lambda: processed([new], events(20)[-1][0]), "the new one goes on", 60)


@pytest.mark.spark
def test_a_killed_group_adds_nothing_any_more(host: SparkHost, runtimes: list[GroupRuntime]) -> None:
    (work, *_) = assignments("Killed")
    (group,) = started(host, runtimes, [work])
    group.kill()
    assert group.status().state == "STOPPED"
    last = StateStore(host.state_location / "Killed-a-1").last()
    assert last is not None
    assert last.owner == f"{group.owner}/ended"
    (again,) = started(host, runtimes, [work])
    assert again.stop(30)


@pytest.mark.spark
def test_a_live_group_fires_while_its_stream_is_silent(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    text = """@app:name('App') define stream S (k string, v long);
        @dist(execGroup='a') from every e1=S -> not S[k == e1.k] for 300 milliseconds
            select e1.k as k, e1.v as v insert into Out;
        @dist(execGroup='last') from Out select * insert into End;"""
    work = assignments("Live", text)
    (group,) = started(host, runtimes, work)
    log = LogTransport(host.log_directory)
    now = group.status().clock
    assert now is not None
    Feed(log, "Live.S", INPUT).send([(now, ("k", 7))])
    eventually(lambda: log.partitions("Live.Out") and read_events(log, "Live.Out", INPUT), "absence was noticed", 60)
    assert [row for _, row in read_events(log, "Live.Out", INPUT)] == [("k", 7)]


@pytest.mark.spark
def test_a_group_that_cannot_run_fails_with_the_reason(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    (work, *_) = assignments("Wrong")
    group = GroupRuntime(replace(work, text="from S select"), host, "worker-1")
    runtimes.append(group)
    group.start()
    with pytest.raises(EngineError, match="started before"):
        group.start()
    eventually(lambda: group.status().state == "FAILED", "the group has failed", 60)
    assert isinstance(group.error, SiddhiSyntaxError)
    assert group.stop(1)
    assert group.status().state == "FAILED"


def test_a_group_that_never_started_can_be_stopped_and_killed(tmp_path: Path) -> None:
    (work, *_) = assignments("Never")
    for end in (lambda group: group.stop(1), lambda group: group.kill()):
        group = GroupRuntime(work, SparkHost(settings_in(tmp_path)), "worker-1")
        assert group.status().state == "STARTING"
        end(group)
        assert group.status().state == "STOPPED"
    assert not (tmp_path / "the states").exists()


def test_what_sources_open_while_they_are_stopped_is_closed(tmp_path: Path, eventually: Eventually) -> None:
    (work, *_) = assignments("Killed")
    group = GroupRuntime(work, SparkHost(settings_in(tmp_path)), "worker-1")
    transport, closed = Opening(), threading.Event()
    group._transport, group._sources = transport, (Late(transport, closed),)  # type: ignore[assignment]
    group.kill()
    closed.set()
    eventually(lambda: transport.calls == ["close", "read", "close"], lambda: f"it is closed: {transport.calls}")


class Opening:
    """A transport that notes what it is asked for; whatever it is asked for opens it again."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def read(self) -> None:
        self.calls.append("read")

    def close(self) -> None:
        self.calls.append("close")


class Late:
    """Sources of which one reads once more while they are stopped."""

    def __init__(self, transport: Opening, closed: threading.Event) -> None:
        self._transport, self._closed = transport, closed

    def stop(self) -> None:
        assert self._closed.wait(30)
        self._transport.read()


@pytest.mark.parametrize(
    "error",
    [
        FencedError("the state in /x belongs to b now, not to a", hint="the group runs elsewhere; this copy must stop"),
        StateError("it is too large:\nby a lot", code=ErrorKind.STATE_TOO_LARGE),
        TransportError("no answer", code=ErrorKind.UNANSWERED),
    ],
)
def test_the_reason_behind_sparks_exception_is_found(error: SpdistError) -> None:
    reason = reason_of(RuntimeError(_told_by_spark(_raised(error))), "App-g-1")
    assert (type(reason), reason.code, reason.message) == (type(error), error.code, error.message)
    assert (reason.hint, reason.retryable) == (error.hint, error.retryable)


def test_an_error_that_spark_cut_off_is_told_in_a_line() -> None:
    text = _told_by_spark(_raised(FencedError("it belongs to b now")))
    reason = reason_of(RuntimeError(text[: text.index('"hint"')]), "App-g-1")
    assert (type(reason), reason.code) == (EngineError, ErrorKind.QUERY_FAILED)
    assert "FencedError: it belongs to b now" in reason.message


def _raised(error: SpdistError) -> str:
    """Return the traceback of a process in which an error passed two borders."""
    try:
        with carrying_errors(), carrying_errors():
            raise error
    except SpdistError:
        return traceback.format_exc()


def _told_by_spark(trace: str) -> str:
    """Return what Spark tells of a query that ended with a traceback."""
    return (
        "[STREAM_FAILED] Query [id = 1] terminated: org.apache.spark.api.python.PythonException: "
        f"{trace}\n\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Traceback:\n  File x\nZeroDivisionError: division by zero\n\tat org.x",
            "ZeroDivisionError: division by zero",
        ),
        ("the disk is full", "the disk is full"),
        ("", "RuntimeError"),
    ],
)
def test_a_foreign_error_is_told_in_a_line(text: str, told: str) -> None:
    reason = reason_of(RuntimeError(text), "App-g-1")
    assert (type(reason), reason.code) == (EngineError, ErrorKind.QUERY_FAILED)
    assert reason.message.startswith("group App-g-1 failed: ")
    assert told in reason.message


@pytest.mark.spark
def test_a_group_whose_state_grows_too_large_fails_and_leaves_the_others_alone(
    host: SparkHost, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    (small, *_), (other, *_) = assignments("Large"), assignments("Beside")
    log = LogTransport(host.log_directory)
    beside = started(host, runtimes, [other])
    host.config = settings_in(host.state_location.parent, max_state_bytes=1 << 20)
    try:
        group = GroupRuntime(small, host, "worker-1")
        runtimes.append(group)
        group.start()
        eventually(lambda: group.status().state == "FAILED", "it fails", 60)
    finally:
        host.config = settings_in(host.state_location.parent)
    assert isinstance(group.error, StateError)
    assert group.error.code == ErrorKind.STATE_TOO_LARGE
    Feed(log, "Beside.S", INPUT).send(events(10))
    eventually(lambda: processed(beside, events(10)[-1][0]), "the other goes on", 60)
    assert beside[0].status().memory_bytes > 1 << 20
    assert beside[0].status().state_bytes > 0
