"""Instances that an update brings: nothing before it is theirs, and nothing of what others had left is lost."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from spdist.errors import FencedError
from spdist.mapping.columns import Events
from spdist.planning.topology import Assignment
from spdist.planning.updates.origin import Begin, Origin
from spdist.runtime.shard_states import InstanceState
from spdist.transports.base import Record
from spdist.transports.payloads.payload import Payload
from tests.properties.test_update_laws import FILTER, IN, LAST, NAME, TOTAL, Updated, events_of, fed, version

#: Behind all that is there.
FAR = 1_000_000


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


def brought(one: Assignment, name: str, update: str, *begins: Begin) -> Assignment:
    begins = tuple(replace(begin, update=update) for begin in begins)
    return replace(one, name=name, group=name.rpartition("-")[0], origin=Origin(update, begins))


@pytest.mark.parametrize("seed", range(3))
def test_a_renamed_group_goes_on_where_the_old_one_ended(seed: int, tmp_path: Path) -> None:
    topics = fed(seed)
    instance = Updated(tmp_path, seed, topics)
    instance.assignment = version(FILTER.format(0))
    running = instance.start(1)
    instance.batches(running, last=False)
    new = brought(version(FILTER.format(60)), "App-h-1", "u1", Begin("App.S", 0, FAR, NAME))
    at = instance.run(new, last=True)["App.S"][0]
    with pytest.raises(FencedError):
        instance.batches(running, last=True)
    events = events_of(topics["App.S"])
    position = len(events_of(topics["App.S"][:at]))
    # Also what the old one had not published when it was killed.
    assert instance.rows("Passed") == [*events[:position], *(row for row in events[position:] if row[1] >= 60)]
    instance.ids()


@pytest.mark.parametrize("offset", [0, 7, 20])
def test_a_new_instance_begins_where_the_update_says(offset: int, tmp_path: Path) -> None:
    topics = fed(1)
    instance = Updated(tmp_path, 1, topics)
    new = brought(version(TOTAL.format("sum(v)")), NAME, "u1", Begin("App.S", 0, offset))
    instance.run(new, last=False)
    instance.run(new, last=True)
    values = [v for _, v in events_of(topics["App.S"][offset:])]
    assert [n for _, n in instance.rows("Totals")] == [sum(values[: n + 1]) for n in range(len(values))]


def one_by_one(count: int = 60) -> dict[str, list[Record]]:
    """A record for each event, and none of them twice."""
    events = [Events.of([(1000 + n, ("k", n))]) for n in range(count)]
    return {
        "App.S": [
            Record("App.S", 0, Payload(IN).encode(one), 1, "feed", n, 1000 + n, n) for n, one in enumerate(events)
        ]
    }


def test_an_instance_that_comes_back_starts_empty_and_numbers_on(tmp_path: Path) -> None:
    """With other instances beside it keys are somewhere else: also one that was there has nothing of what it had."""
    instance = Updated(tmp_path, 2, one_by_one())
    queries = version(TOTAL.format("sum(v)"))
    instance.run(queries, last=False)
    first = instance.run(brought(queries, NAME, "u1", Begin("App.S", 0, FAR, NAME)), last=False)["App.S"][0]
    ended = instance.positions()["App.S"][0]
    second = instance.run(brought(queries, NAME, "u2", Begin("App.S", 0, ended + 5)), last=True)["App.S"][0]
    assert second == ended + 5
    lives = (range(first), range(first, ended), range(second, 60))
    assert [n for _, n in instance.rows("Totals")] == [n for life in lives for n in itertools.accumulate(life)]
    instance.ids()


def test_who_follows_leaves_alone_whom_it_followed(tmp_path: Path) -> None:
    """The one it follows goes on with another topic, and is not fenced off when the new one starts again."""
    instance = Updated(tmp_path, 3, fed(3))
    instance.run(version(LAST), last=False)
    state = InstanceState(replace(version(LAST, reads=("R",)), shards=1), tmp_path / "states")
    ended = InstanceState(version(LAST), tmp_path / "states").positions()["App.S"]
    new = brought(version(FILTER.format(0)), "App-h-1", "u1", Begin("App.S", 0, FAR, NAME))
    assert InstanceState(new, tmp_path / "states").begun()["App.S"] == ended
    instance.assignment, instance.topics = state.assignment, {"App.R": fed(3, ("App.R",))["App.R"]}
    instance.log.ensure("App.R", 1)
    instance.log.append(instance.topics["App.R"])
    running = instance.start(1)
    assert InstanceState(new, tmp_path / "states").begun()["App.S"] == ended, "also when that one has gone on"
    instance.batches(running, last=True)
