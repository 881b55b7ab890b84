"""A distributed app puts out exactly what the same app puts out on one machine: same events, same order.

The groups are planned by the planner and run as islands over topics in memory. Which instance runs next, how much it
reads, how a feed packs its events and when an instance is replaced by its snapshot are chosen by chance.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spdist.engine.island.hosted import HostedApp
from spdist.engine.island.island import Island
from spdist.engine.local.app import run
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment, Topology
from spdist.transports.base import Record
from spdist.transports.feed import Feed, read_events
from tests.engine.memory_transport import MemoryTransport

INPUT = Schema.of([("k", "string"), ("v", "long")])
END = 20_000
HEAD = "@app:name('App') @app:playback define stream S (k string, v long); define stream R (k string, v long);\
 @PrimaryKey('k') define table T (k string, v long); define window W (k string, v long) time(2 sec);"
#: The last group only makes the planner publish `Out`; it is not run.
TAIL = "@dist(execGroup='last') from Out select * insert into End;"

APPS = {
    "a chain of stateless and stateful groups": """
        @dist(execGroup='a') from S[v > 2] select k, v * 2 as v insert into M;
        @dist(execGroup='b') from M#window.length(3) select k, sum(v) as v insert into Out;""",
    "two group-by time batches, the second in time with the first": """
        @dist(execGroup='a') from S#window.timeBatch(1 sec) select k, sum(v) as v group by k insert into M;
        @dist(execGroup='b') from M#window.timeBatch(1 sec) select k, sum(v) as v group by k insert into Out;""",
    "events spread by key over parallel partitions and brought together": """
        @dist(execGroup='a') from S#window.lengthBatch(4) select k, v insert into M;
        @dist(execGroup='b', parallel='2') partition with (k of M) begin
            from M select k, count() as v insert into N; end;
        @dist(execGroup='c') from every e1=N -> e2=N select e1.k as k, e2.v as v insert into Out;""",
    "chunks that an aggregating query takes as one": """
        @dist(execGroup='a') from S#window.lengthBatch(3) select k, v insert into M;
        @dist(execGroup='b') from M select k, sum(v) as v insert into Out;""",
    "a chunk whose keys are scattered": """
        @dist(execGroup='a') from S#window.lengthBatch(5) select k, v insert into M;
        @dist(execGroup='b', parallel='3') partition with (k of M) begin
            from M select k, sum(v) as v insert into Out; end;""",
    "a stream and what another group makes of it, in one pattern": """
        @dist(execGroup='a') from S[v > 1] select k, v + 100 as v insert into M;
        @dist(execGroup='b') from every e1=M -> e2=S[k == e1.k] select e1.k as k, e1.v - e2.v as v insert into Out;""",
    "a stream and what two groups in a row make of it, in one sequence": """
        @dist(execGroup='a') from S select k, v + 100 as v insert into M;
        @dist(execGroup='b') from M select k, v + 100 as v insert into N;
        @dist(execGroup='c') from every e1=N, e2=M, e3=S select e1.k as k, e1.v + e2.v - e3.v as v insert into Out;""",
    "absence across groups": """
        @dist(execGroup='a') from S[v > 3] select k, v insert into M;
        @dist(execGroup='b') from every e1=M -> not R[k == e1.k] for 1 sec
        select e1.k as k, e1.v as v insert into Out;""",
    "sliding time over two feeds and a group in between": """
        @dist(execGroup='a') from R#window.time(700 milliseconds) select k, count() as v insert all events into M;
        @dist(execGroup='b') from every e1=S -> e2=M[v > 0] within 900 milliseconds
            select e1.k as k, e1.v + e2.v as v insert into Out;""",
    "a join of a stream with what another group makes of it": """
        @dist(execGroup='a') from S[v > 1] select k, v + 100 as v insert into M;
        @dist(execGroup='b') from S#window.time(900 milliseconds) as s join M#window.length(4) as m on s.k == m.k
            select s.k as k, s.v + m.v as v insert into Out;""",
    "a table that one group keeps and looks into": """
        @dist(execGroup='a') from S#window.lengthBatch(2) select k, sum(v) as v group by k insert into M;
        @dist(execGroup='b') from M update or insert into T set T.v = T.v + v on T.k == k;
        @dist(execGroup='b') from R[(T.k == k and T.v > 3) in T] join T on R.k == T.k
            select R.k as k, R.v + T.v as v insert into Out;""",
    "limited rates over a named window": """
        @dist(execGroup='a') from S select k, v output last every 2 events insert into M;
        @dist(execGroup='b') from M insert into W;
        @dist(execGroup='b') from W select k, sum(v) as v group by k output first every 1 sec insert into Out;""",
    "stateless copies in turn, then one window": """
        @dist(execGroup='a', parallel='3') from S select k, v insert into M;
        @dist(execGroup='b') from M#window.lengthBatch(4) select k, sum(v) as v insert into Out;""",
    "a source read once for two groups, by two instances": """
        @source(type='inMemory', topic='t', @dist(parallel='2')) define stream In (k string, v long);
        @dist(execGroup='a', parallel='2') from In[v > 1] select k, v insert into M;
        @dist(execGroup='b') from every e1=In -> e2=M[k == e1.k] select e1.k as k, e1.v + e2.v as v insert into Out;""",
    "a source that one group reads itself, and a stream that it makes of it for itself and for another": """
        @source(type='inMemory', topic='t') define stream In (k string, v long);
        @dist(execGroup='a') from In#window.length(2) select k, sum(v) as v insert into M;
        @dist(execGroup='a') from M[v > 5] select k, v insert into N;
        @dist(execGroup='b') from every e1=N, e2=M select e1.k as k, e2.v as v insert into Out;""",
    "a group that reads what others put into a stream that it fills for a third": """
        @dist(execGroup='a') from S[v > 2] select k, v insert into M;
        @dist(execGroup='b') from R select k, v insert into M;
        @dist(execGroup='b') from M#window.length(3) select k, sum(v) as v insert into N;
        @dist(execGroup='c') from every e1=M -> e2=N select e1.k as k, e2.v as v insert into Out;""",
    "a sink of a stream that two groups fill, one of which hears the other": """
        @sink(type='embedded', topic='Sunk') define stream Sunk (k string, v long);
        @dist(execGroup='a') from S[v > 2] select k, v insert into Sunk;
        @dist(execGroup='b') from R select k, v insert into Sunk;
        @dist(execGroup='b') from Sunk#window.length(2) select k, sum(v) as v insert into Out;""",
    "a stream that outsiders feed, split by two keys and read whole": """
        @dist(execGroup='a', parallel='2') partition with (k of S) begin
            from S select k, count() as v insert into M; end;
        @dist(execGroup='b', parallel='3') partition with (v of S) begin
            from S select k, sum(v) as v insert into N; end;
        @dist(execGroup='c') from every e1=S, e2=M, e3=N select e1.k as k, e1.v + e2.v + e3.v as v insert into Out;""",
    "takers of turns beside a partition of fewer instances": """
        @dist(execGroup='a') from S select k, v insert into M;
        @dist(execGroup='b', parallel='2') partition with (k of M) begin
            from M#window.length(2) select k, sum(v) as v insert into N; end;
        @dist(execGroup='c', parallel='3') from M[v > 1] select k, v + 1 as v insert into N;
        @dist(execGroup='d') from N#window.lengthBatch(2) select k, sum(v) as v insert into Out;""",
    "a consumer before its producer": """
        define stream M (k string, v long);
        @dist(execGroup='a') from M#window.length(2) select k, sum(v) as v insert into Out;
        @dist(execGroup='b') from S[v > 1] select k, v insert into M;""",
    "a partition in one instance": """
        @dist(execGroup='a', parallel='2') from S select k, v insert into M;
        @dist(execGroup='b') partition with (k of M) begin
            from M#window.length(2) select k, sum(v) as v insert into Out; end;""",
    "an aggregation of what another group makes, joined in its group": """
        define stream M (k string, v long);
        define aggregation Agg from M select k, sum(v) as v group by k aggregate every sec ... min;
        @dist(execGroup='a') from S[v > 1] select k, v insert into M;
        @dist(execGroup='b') from R join Agg on R.k == Agg.k within '1970-01-01 **:**:**' per 'seconds'
            select R.k as k, Agg.v as v insert into Out;""",
    "an aggregation of a keyed stream": """
        define stream M (k string, v long);
        define aggregation Agg from M select k, sum(v) as v group by k aggregate every sec ... min;
        @dist(execGroup='a') from S select k, v insert into M;
        @dist(execGroup='b', parallel='2') partition with (k of M) begin
            from M select k, count() as v insert into N; end;
        @dist(execGroup='c') from R join Agg on R.k == Agg.k within '1970-01-01 **:**:**' per 'seconds'
            select R.k as k, Agg.v as v insert into Out;""",
    "a trigger beside the streams": """
        define trigger Tick at every 700 milliseconds;
        @dist(execGroup='a') from S select k, v insert into M;
        @dist(execGroup='a') from R select k, v insert into M;
        @dist(execGroup='a') from Tick select 'tick' as k, 1L as v insert into M;
        @dist(execGroup='b') from M#window.length(3) select k, sum(v) as v insert into Out;""",
}

#: (time since the event before, which stream, key, value). Feeds share no numbering: no two streams at one time.
arrivals = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from("SR"), st.sampled_from("xyz"), st.integers(0, 9)), max_size=25
)


def events_of(steps: list[tuple[int, str, str, int]]) -> list[tuple[str, int, tuple[Any, ...]]]:
    made, at, before = [], 1000, None
    for gap, stream, key, value in steps:
        at += gap if stream == before else max(1, gap)
        made.append((stream, at, (key, value)))
        before = stream
    return made


@cache
def planned(app: str) -> Topology:
    return plan(parse(HEAD + app + TAIL))


@cache
def checked(text: str) -> CheckedApp:
    return check(parse(text), catalog(), text)


def built(assignment: Assignment) -> Island:
    app = checked(assignment.text)
    return Island(assignment, HostedApp(app), app.streams, merge_wait_ms=0)


class Instance:
    """One group instance with its reading positions."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.island = built(assignment)
        self.positions = {(i.topic, partition): 0 for i in assignment.inputs for partition in i.partitions}

    def left(self, transport: MemoryTransport) -> int:
        return sum(transport.end_offsets(topic)[p] - at for (topic, p), at in self.positions.items())

    def step(self, transport: MemoryTransport, rng: random.Random) -> None:
        records: list[Record] = []
        for (topic, partition), offset in self.positions.items():
            taken = transport.read(topic, partition, offset, rng.choice([0, 1, 2, 100]))
            self.positions[topic, partition] = offset + len(taken)
            records += taken
        transport.append(self.island.process(records, 0))
        if rng.random() < 0.2:
            snapshot = self.island.snapshot()
            self.island = built(self.assignment)
            self.island.restore(snapshot)


def distributed(app: str, events: list[tuple[str, int, tuple[Any, ...]]], rng: random.Random) -> Any:
    topology = planned(app)
    transport = MemoryTransport()
    for topic in topology.topics:
        transport.ensure(topic.name, topic.partitions)
    instances = [Instance(a) for a in topology.assignments() if a.group != "App-last"]
    keys = {i.topic: i.key for group in topology.groups for i in group.inputs}
    feeds = {
        topic: (assigned.stream.removeprefix("passthrough"), Feed(transport, topic, INPUT, key=keys[topic]))
        for instance in instances
        for assigned in instance.assignment.inputs
        if not assigned.producers
        for topic in [assigned.topic]
    }
    waiting = {
        topic: [(ts, row) for s, ts, row in events if s == ("S" if stream == "In" else stream)]
        for topic, (stream, _) in feeds.items()
    }
    while any(waiting.values()):
        topic = rng.choice([topic for topic, left in waiting.items() if left])
        count = rng.randint(1, 5)
        feeds[topic][1].send(waiting[topic][:count])
        waiting[topic] = waiting[topic][count:]
        rng.choice(instances).step(transport, rng)
    for _, feed in feeds.values():
        feed.advance(events[0][1] if events else 1000)  # where a stream has no events, time begins with the others
        feed.advance(END)
    while busy := [instance for instance in instances if instance.left(transport)]:
        rng.choice(busy).step(transport, rng)
    return read_events(transport, "Sunk" if "Sunk" in app else "App.Out", INPUT)


def local(app: str, events: list[tuple[str, int, tuple[Any, ...]]]) -> Any:
    sent: dict[str, list[Any]] = {"S": [], "R": []}
    for stream, ts, row in events:
        sent[stream].append((ts, row))
    if "define stream In" in app:
        sent["In"] = sent.pop("S")
    return run(HEAD + app + TAIL, sent, until=END).get("Sunk" if "Sunk" in app else "Out", [])


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), steps=arrivals)
def test_the_distributed_result_is_that_of_one_machine(app: str, seed: int, steps: Any) -> None:
    events = events_of(steps)
    assume(events or "trigger" not in app)  # without any event there is no time, on one machine
    assert distributed(app, events, random.Random(seed)) == local(app, events)
