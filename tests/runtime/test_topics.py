"""Topics are made before a group runs, unless the app says that they are made by somebody else."""

from __future__ import annotations

import pytest

from spdist.errors import PlanningError
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.runtime.topics import ensure_topics
from tests.engine.memory_transport import MemoryTransport

TEXT = """@app:name('App') {} define stream S (k string);
@source(type='inMemory', topic='t') define stream In (k string);
@dist(execGroup='a', parallel='2') from S select k insert into Mid;
@dist(execGroup='b') from Mid select k insert into Out;
@dist(execGroup='b') from In select k insert into Out;"""


def test_topics_are_made() -> None:
    transport = MemoryTransport()
    ensure_topics(transport, plan(parse(TEXT.format(""))).assignments())
    assert {name: len(partitions) for name, partitions in transport.topics.items()} == {
        "App.S": 2,
        "App.Mid": 1,
        "App.In": 1,
    }


def test_topics_that_may_not_be_made_must_be_there() -> None:
    transport = MemoryTransport()
    assignments = plan(parse(TEXT.format("@app:transportChannelCreationEnabled('false')"))).assignments()
    with pytest.raises(PlanningError, match=r"'App.S' with 1 partitions is missing"):
        ensure_topics(transport, assignments)
    transport.ensure("App.S", 2)
    transport.ensure("App.Mid", 1)
    ensure_topics(transport, assignments)
    assert transport.partitions("App.In") == 1, "a feeder's own"
