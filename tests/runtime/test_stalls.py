"""An event that does not come to an end: it is told, the groups beside it go on, and its group is stopped soon."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from spdist.config.sections import ScriptSettings
from spdist.engine.local.app import LocalApp
from spdist.engine.shards.state import Segment
from spdist.engine.spark.session import SparkHost
from spdist.engine.spark.stalls import StandingWatch, _seen, why_standing
from spdist.extension import allow_scripts, catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.groups import plan
from spdist.runtime.group import GroupRuntime
from spdist.transports.base import Record
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport
from tests.runtime.group_processes import workers
from tests.runtime.host_settings import HostSettings, settings_in
from tests.runtime.shared_spark import SHARED_SPARK

Eventually = Callable[..., object]

INPUT = Schema.of([("k", "string"), ("v", "long")])
#: The second group only makes the planner publish `Out`; it is not run.
APP = """
@app:name('App') @app:playback define stream S (k string, v long);
define function slow[python] return string {
    while data[0] == 'stuck':
        pass
    return data[0]
};
@info(name='slowly') @dist(execGroup='a') from S#window.length(2) select slow(k) as k, v insert into Out;
@dist(execGroup='last') from Out select * insert into End;
"""


@pytest.fixture
def host(tmp_path: Path) -> SparkHost:
    plain = settings_in(tmp_path, slow_event_ms=1000)
    return SHARED_SPARK.host(
        HostSettings(plain.spark, plain.transports, plain.state_persistence, ScriptSettings(python_enabled=True))
    )


@pytest.mark.spark
def test_an_event_that_stands_still_is_told_and_its_group_stops_within_seconds(
    host: SparkHost, eventually: Eventually
) -> None:
    groups: dict[str, GroupRuntime] = {}
    log = LogTransport(host.log_directory)
    for name in ("Stuck", "Beside"):
        app = parse(APP.replace("'App'", f"'{name}'"))
        (work,) = [a for a in plan(app, check(app, catalog(True))).assignments() if not a.group.endswith("-last")]
        log.ensure(f"{name}.S", 1)
        groups[name] = GroupRuntime(work, host, "worker-1")
        groups[name].start()
    stuck, beside = groups["Stuck"], groups["Beside"]
    try:
        for name, group in groups.items():
            assert group.wait(300), group.status()
            Feed(log, f"{name}.S", INPUT).send([(1000, ("a", 1)), (2000, ("b", 2))])
        eventually(lambda: all(g.status().events_in == 2 for g in groups.values()), "both have begun", 200)
        assert stuck.status().waiting is None
        feed = Feed(log, "Stuck.S", INPUT)
        feed.send([(3000, ("c", 3)), (4000, ("stuck", 4)), (5000, ("d", 5))])
        eventually(lambda: stuck.status().waiting is not None, "it is told", 200)
        told = str(stuck.status().waiting)
        assert stuck.status().state == "RUNNING"
        for part in ("event of 4000 ms", "stream 'S'", "Stuck.S partition 0 up to offset", "1 s in query 'slowly'"):
            assert part in told, told
        Feed(log, "Beside.S", INPUT).send([(6000, ("e", 6))])
        eventually(lambda: beside.status().events_in == 3, "the group beside goes on", 200)
        before = workers(stuck.name)
        began = time.monotonic()
        assert not stuck.stop(30)
        assert time.monotonic() - began < 10
        assert stuck.status().state == "STOPPED"
        # Spark's daemon, which makes others, may be left.
        eventually(lambda: workers(stuck.name) < before, "the process that ran it is gone", 60)
        Feed(log, "Beside.S", INPUT).send([(7000, ("f", 7))])
        eventually(lambda: beside.status().events_in == 4, "the group beside still goes on", 200)
        assert beside.status().waiting is None
        assert [row[0] for _, row in read_events(log, "Beside.Out", INPUT)][:3] == ["a", "b", "e"]
    finally:
        for group in groups.values():
            group.kill()
        log.close()


def test_the_watch_tells_an_event_once_it_takes_long_and_takes_it_back(tmp_path: Path, eventually: Eventually) -> None:
    allow_scripts(True)
    try:
        text = "define stream S (k string, v long); @info(name='slowly') from S[held(k)] select k insert into Out;"
        app = LocalApp(check(parse(f"define function held[python] return bool {{ return True }}; {text}"), catalog()))
    finally:
        allow_scripts(False)
    released, entered = threading.Event(), threading.Event()

    def wait(_at: int, row: tuple[object, ...]) -> None:
        if row[0] == "slow":
            entered.set()
            assert released.wait(60)

    app.subscribe("Out", wait)
    watch = StandingWatch(tmp_path, 0.2)

    def batch() -> None:
        with watch.batch(3):
            app.send("S", 1, ("quick", 1))
            app.send("S", 2, ("slow", 2))

    thread = threading.Thread(target=batch)
    thread.start()
    try:
        assert entered.wait(60)
        eventually(lambda: why_standing(tmp_path), "it is told", 20)
        told = str(why_standing(tmp_path))
        assert told.startswith("batch 3 stands: the event of 2 ms")
        assert told.endswith("takes longer than 0.2 s in query 'slowly'")
    finally:
        released.set()
        thread.join()
    eventually(lambda: why_standing(tmp_path) is None, "it is taken back", 20)


def test_quick_events_are_not_told(tmp_path: Path) -> None:
    app = LocalApp(check(parse("define stream S (v int); from S[v > 1] select v insert into Out;"), catalog()))
    watch = StandingWatch(tmp_path, 0.2)
    with watch.batch(1):
        end = time.monotonic() + 1
        at = 0
        while time.monotonic() < end:
            at += 1
            app.send("S", at, (at,))
    assert why_standing(tmp_path) is None


@pytest.mark.parametrize("ahead", [True, False])
def test_offsets_that_are_told_are_those_of_records_however_many_events_these_have(ahead: bool) -> None:
    records = (
        Record("S", 0, b"p", 40, offset=7),
        Record("S", 0, b"p", 900, offset=8),
        Record("T", 1, b"", 0, offset=3),
    )

    def add(record: Record) -> FrameType | None:
        return sys._getframe()

    def finish(segment: Segment) -> FrameType | None:
        return sys._getframe()

    frame = add(records[1]) if ahead else finish(Segment(2, "me", 1, 0, {}, records))
    assert _seen(5, frame).told(2) == "batch 5 stands: an event at S partition 0 up to offset 8 takes longer than 2 s"
