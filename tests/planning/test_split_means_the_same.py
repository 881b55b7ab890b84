"""The groups of an app together do what the app does on one machine, event for event."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Type
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment, Publishing, Strategy, Topology
from spdist.transports.routing import key_partition, key_text

Event = tuple[int, tuple[Any, ...]]
APP = """@app:name('Split') @app:playback
define stream In (k string, v int);
@sink(type='embedded', topic='Split.Out') define stream Out (k string, mean double);
@dist(execGroup='clean', parallel='{clean}') from In[v >= 0] select k, v insert into Clean;
@dist(execGroup='mean', parallel='{mean}') partition with (k of Clean) begin
  from Clean#window.length(3) select k, avg(v) as mean insert into Means;
end;
@dist(execGroup='alarm') from every e1=Means[mean > 60.0] -> not Means[k == e1.k and mean < 40.0] for 50 milliseconds
select e1.k as k, e1.mean as mean insert into Out;
@dist(execGroup='alarm') from Means[mean > 99.0] select k, mean insert into Out;
"""


class Together:
    """All instances in one thread, on one clock; each event goes to the end before the next one begins."""

    def __init__(self, topology: Topology) -> None:
        self.readers: dict[tuple[str, int], list[tuple[Assignment, str]]] = defaultdict(list)
        self.apps: dict[str, LocalApp] = {}
        self.turns: dict[str, int] = defaultdict(int)
        self.sunk: list[Event] = []
        self.partitions = {topic.name: topic.partitions for topic in topology.topics}
        for assignment in topology.assignments():
            checked = check(parse(assignment.text), catalog())
            app = self.apps[assignment.name] = LocalApp(checked)
            for assigned in assignment.inputs:
                for partition in assigned.partitions:
                    self.readers[assigned.topic, partition].append((assignment, assigned.stream))
            for output in assignment.outputs:
                schema = checked.streams[output.stream]
                for publishing in output.publishing:
                    key = publishing.key and schema.index(publishing.key)
                    app.subscribe(output.stream, self.publisher(publishing, key))

    def publisher(self, publishing: Publishing, key: Any) -> Any:
        def publish(ts: int, row: tuple[Any, ...]) -> None:
            topic = publishing.topic
            if publishing.strategy is Strategy.FIELD_GROUPING:
                partition = key_partition(key_text(Type.STRING)(row[key]), publishing.partitions)
            else:
                partition = self.turns[topic] % publishing.partitions
            self.turns[topic] += 1
            self.deliver(topic, partition, ts, row)

        return publish

    def deliver(self, topic: str, partition: int, ts: int, row: tuple[Any, ...]) -> None:
        if not any(name == topic for name, _ in self.readers):
            self.sunk.append((ts, row))
        for assignment, stream in self.readers.get((topic, partition), []):
            self.apps[assignment.name].send(stream, ts, row)

    def feed(self, topic: str, events: list[Event], until: int) -> list[Event]:
        for number, (ts, row) in enumerate(events):
            for app in self.apps.values():
                app.advance(ts)
            self.deliver(topic, number % self.partitions[topic], ts, row)
        for app in self.apps.values():
            app.advance(until)
        return self.sunk


@pytest.mark.parametrize(("clean", "mean"), [(1, 1), (2, 2), (3, 2), (2, 5)])
def test_the_parts_do_what_the_whole_does(clean: int, mean: int) -> None:
    draw = random.Random(7)
    moments = sorted(draw.randrange(0, 4000) for _ in range(600))
    events = [(ts, (draw.choice("ABCDE"), draw.randrange(-20, 130))) for ts in moments]
    text = APP.format(clean=clean, mean=mean)
    expected = run(text, {"In": events}, until=5000)["Out"]
    assert len(expected) > 50
    assert Together(plan(parse(text))).feed("Split.In", events, until=5000) == expected
