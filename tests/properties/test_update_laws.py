"""An instance whose text changes between starts: what was read before is the old text's, what is read after the new's.

Wherever it is killed, in however many shards it is before and after: each event is processed once, by one of the texts,
and what is published has ids that nothing else ever has.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.shards.layout import current_layout, kept_assignment
from spdist.engine.shards.state import Positions, StateStore, state_directory
from spdist.errors import FencedError, StateError
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.planning.topology import (
    AssignedInput,
    AssignedOutput,
    Assignment,
    Publishing,
    Strategy,
)
from spdist.runtime.kafka_inputs import KafkaReads
from spdist.runtime.persistence import FileSystemPersistenceStore
from spdist.runtime.shard_states import InstanceState
from spdist.transports.base import Record, Repeats
from spdist.transports.payloads.payload import Payload
from tests.properties.test_move_laws import Instance, breaking_at, read_all
from tests.properties.test_sharding_laws import Killed

NAME = "App-g-1"
IN = Schema.of([("k", "string"), ("v", "long")])
HEAD = "@app:name('App-g-1') @app:playback define stream S (k string, v long); define stream R (k string, v long); "
FILTER = "@info(name='filter') from S[v >= {}] select k, v insert into Passed; "
TOTAL = "@info(name='total') from S select k, {} as n insert into Totals; "
LAST = (
    "partition with (k of S) begin @info(name='last') from S#window.length(3) select k, sum(v) as s insert into "
    "Lasts; end; "
)
OTHER = (
    "partition with (k of S) begin @info(name='other') from S#window.lengthBatch({}) select k, max(v) as m insert into "
    "Others; end; "
)
SCHEMAS = {
    "Passed": Schema.of([("k", "string"), ("v", "long")]),
    "Totals": Schema.of([("k", "string"), ("n", "long")]),
    "Lasts": Schema.of([("k", "string"), ("s", "long")]),
    "Others": Schema.of([("k", "string"), ("m", "long")]),
}


def version(*queries: str, shards: int = 1, reads: Sequence[str] = ("S",), head: str = HEAD) -> Assignment:
    """An instance with these queries, that publishes whatever they write."""
    text = head + "".join(queries)
    outputs = tuple(
        AssignedOutput(stream, (Publishing(Strategy.ALL, 1, f"App.{stream}", 1),))
        for stream in SCHEMAS
        if f"into {stream};" in text
    )
    inputs = tuple(AssignedInput(stream, f"App.{stream}", (0,), ("feed",)) for stream in reads)
    return Assignment(NAME, "App", "App-g", text, True, inputs, outputs, shards=shards)


def fed(seed: int, topics: Sequence[str] = ("App.S",), count: int = 80) -> dict[str, list[Record]]:
    """Records of a feed, some events twice in other cuts, as after a failure."""
    draw, found = random.Random(seed), {}
    for topic in topics:
        now, events = 1000, []
        for number in range(count):
            now += draw.choice([0, 1, 5, 20])
            events.append((now, (draw.choice("abcd"), number)))
        whole, records, at = Events.of(events), [], 0
        while at < count:
            begin = max(0, at - draw.randrange(4)) if draw.random() < 0.3 else at
            end = min(count, at + draw.randrange(1, 6))
            value = Payload(IN).encode(whole.part(begin, end))
            records.append(Record(topic, 0, value, end - begin, "feed", begin, int(whole.at[end - 1]), len(records)))
            at = end
        records.append(Record(topic, 0, b"", 0, "feed", at, 9000, len(records)))
        found[topic] = records
    return found


class Updated(Instance):
    """An instance that goes on with another version with each start."""

    def __init__(self, root: Path, seed: int, topics: dict[str, list[Record]]) -> None:
        super().__init__(root, seed, topics=topics)
        for stream in SCHEMAS:
            self.log.ensure(f"App.{stream}", 1)

    def positions(self) -> Positions:
        """Where the state is now, of all shards together."""
        return InstanceState(self.assignment, self.root / "states").positions()

    def run(self, one: Assignment, last: bool) -> Positions:
        """Start a version, through crashes while it takes the state over; return where it began."""
        self.assignment = one
        while True:
            try:
                shards = self.start(one.shards, breaking_at(self.draw.randrange(1, 16)))
                break
            except Killed:
                continue
        at = self.positions()
        self.batches(shards, last)
        return at

    def rows(self, stream: str) -> list[tuple[Any, ...]]:
        """What a reader sees of a stream, which drops repeats by their ids."""
        repeats, payload, found = Repeats(), Payload(SCHEMAS[stream]), []
        for record in read_all(self.log, f"App.{stream}"):
            skip = repeats.fresh(record)
            if skip < record.count:
                found += payload.decode(record.value, skip).rows
        return found

    def ids(self) -> None:
        """See to it that what has one id is one event, in all topics."""
        known: dict[tuple[str, str, int], Any] = {}
        for stream, schema in SCHEMAS.items():
            for record in read_all(self.log, f"App.{stream}"):
                rows = Payload(schema).decode(record.value).rows if record.count else []
                for number, row in enumerate(rows):
                    assert known.setdefault((stream, record.producer, record.seq + number), row) == row


def events_of(records: Sequence[Record]) -> list[tuple[str, int]]:
    repeats, found = Repeats(), []
    for record in records:
        skip = repeats.fresh(record)
        if skip < record.count:
            found += Payload(IN).decode(record.value, skip).rows
    return found


def sliding(rows: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    """What `LAST` puts out, by key."""
    held: dict[str, list[int]] = {}
    sums: dict[str, list[int]] = {}
    for k, v in rows:
        held[k] = [*held.get(k, []), v][-3:]
        sums.setdefault(k, []).append(sum(held[k]))
    return sums


def tops(rows: Sequence[tuple[str, int]], size: int) -> dict[str, list[int]]:
    """What `OTHER` puts out, by key."""
    keyed: dict[str, list[int]] = {}
    for k, v in rows:
        keyed.setdefault(k, []).append(v)
    each = {k: [max(v[n : n + size]) for n in range(0, len(v) - size + 1, size)] for k, v in keyed.items()}
    return {k: found for k, found in each.items() if found}


def by_key(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for k, value in rows:
        found.setdefault(k, []).append(value)
    return found


def joined(*parts: dict[str, list[int]]) -> dict[str, list[int]]:
    return {k: [v for part in parts for v in part.get(k, [])] for k in sorted({k for part in parts for k in part})}


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("before", "after"), [(0, 60), (60, 0)])
def test_a_changed_filter_sees_what_comes_after_the_update_and_nothing_twice(
    seed: int, before: int, after: int, tmp_path: Path
) -> None:
    topics = fed(seed)
    instance = Updated(tmp_path, seed, topics)
    instance.run(version(FILTER.format(before)), last=False)
    at = instance.run(version(FILTER.format(after)), last=True)["App.S"][0]
    events = events_of(topics["App.S"])
    position = len(events_of(topics["App.S"][:at]))
    expected = [row for n, row in enumerate(events) if row[1] >= (before if n < position else after)]
    assert instance.rows("Passed") == expected
    instance.ids()


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_that_was_none_before_adds_up_only_what_comes(seed: int, tmp_path: Path) -> None:
    topics = fed(seed)
    instance = Updated(tmp_path, seed, topics)
    instance.run(version(TOTAL.format("v")), last=False)
    at = instance.run(version(TOTAL.format("sum(v)")), last=True)["App.S"][0]
    values = [v for _, v in events_of(topics["App.S"])]
    position = len(events_of(topics["App.S"][:at]))
    sums = [sum(values[position : n + 1]) for n in range(position, len(values))]
    assert [n for _, n in instance.rows("Totals")] == [*values[:position], *sums]


@pytest.mark.parametrize("seed", range(8))
def test_updates_of_shards_between_kills_lose_and_double_nothing(seed: int, tmp_path: Path) -> None:
    """`LAST` never changes; what stands around it does, and in how many shards all of it is."""
    topics = fed(seed)
    instance = Updated(tmp_path, seed, topics)
    steps = [
        version(FILTER.format(0), LAST, OTHER.format(2), shards=[1, 3][seed % 2]),
        version(OTHER.format(3), LAST, shards=[3, 2][seed % 2]),
        version(LAST, FILTER.format(40), OTHER.format(3), shards=[2, 1][seed % 2]),
        version(OTHER.format(2), FILTER.format(40), LAST, shards=[1, 3][seed % 2]),
    ]
    starts = [instance.run(step, last=step is steps[-1]).get("App.S", {0: 0})[0] for step in steps]
    events = events_of(topics["App.S"])
    one, two, three = (len(events_of(topics["App.S"][:at])) for at in starts[1:])
    assert by_key(instance.rows("Lasts")) == joined(sliding(events)), "unchanged through all of it"
    others = joined(tops(events[:one], 2), tops(events[one:three], 3), tops(events[three:], 2))
    assert by_key(instance.rows("Others")) == others
    passed = [*events[:one], *(row for row in events[two:] if row[1] >= 40)]
    assert by_key(instance.rows("Passed")) == joined(by_key(passed))
    instance.ids()


@pytest.mark.parametrize("write", range(1, 10))
def test_a_crash_at_any_write_of_an_update_leaves_one_text_whole(write: int, tmp_path: Path) -> None:
    topics = fed(3)
    instance = Updated(tmp_path, 3, topics)
    old, new = version(LAST, OTHER.format(2)), version(OTHER.format(3), LAST)
    instance.run(old, last=False)
    instance.assignment = new
    try:
        instance.start(1, breaking_at(write))
    except Killed:
        made_by = kept_assignment(current_layout(state_directory(tmp_path / "states", NAME)).directory)
        assert made_by in (old, new)
    at = instance.run(new, last=True)["App.S"][0]
    events = events_of(topics["App.S"])
    position = len(events_of(topics["App.S"][:at]))
    assert by_key(instance.rows("Lasts")) == sliding(events)
    assert by_key(instance.rows("Others")) == joined(tops(events[:position], 2), tops(events[position:], 3))


def test_an_update_says_what_became_of_each_element(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    instance = Updated(tmp_path, 1, fed(1))
    instance.run(version(LAST, OTHER.format(2)), last=False)
    caplog.set_level(logging.INFO, "spdist.runtime.shard_states")
    instance.run(version(LAST, OTHER.format(3), TOTAL.format("v")), last=False)
    assert {record.message for record in caplog.records if "query" in record.message} == {
        f"{NAME}: partition with query 'last' keeps its state",
        f"{NAME}: partition with query 'other' starts empty",
        f"{NAME}: query 'total' is new",
    }


def test_nothing_is_taken_over_by_one_who_was_told_another_text(tmp_path: Path) -> None:
    instance = Updated(tmp_path, 1, fed(1))
    instance.run(version(LAST), last=False)
    state = InstanceState(version(TOTAL.format("v")), tmp_path / "states")
    with pytest.raises(FencedError, match="another text"):
        state.open("me", KafkaReads((state.assignment,), {}))


def test_no_segment_is_replayed_through_another_text(tmp_path: Path) -> None:
    instance = Updated(tmp_path, 1, fed(1))
    instance.run(version(LAST), last=False)
    store = StateStore(state_directory(tmp_path / "states", NAME))
    opening = store.open("somebody", assignment="another")
    (shard,) = instance.start(1)
    wrong = replace(shard, opening=replace(shard.opening, assignment="another"))
    assert opening.number < shard.opening.number
    with pytest.raises(StateError, match="was processed by another app"):
        instance.batches((wrong,), last=True)


@pytest.mark.parametrize("shards", [1, 3])
def test_what_waits_is_processed_by_the_old_text_where_the_new_one_does_not_read_it(
    shards: int, tmp_path: Path
) -> None:
    """R has been read far beyond S, and waits for it; then nobody reads R any more."""
    topics = fed(2, ("App.S", "App.R"))
    instance = Updated(tmp_path, 2, topics)
    both = "partition with (k of R) begin @info(name='r') from R select k, v insert into Passed; end; "
    old = version(LAST, both, reads=("S", "R"))
    instance.topics = {"App.S": topics["App.S"][:5], "App.R": topics["App.R"][:20]}
    instance.run(old, last=True)
    waiting = len(events_of(topics["App.R"][:20]))
    assert len(instance.rows("Passed")) < waiting
    instance.topics = {"App.S": topics["App.S"]}
    instance.run(version(LAST, shards=shards), last=True)
    assert sorted(instance.rows("Passed")) == sorted(events_of(topics["App.R"][:20]))
    assert by_key(instance.rows("Lasts")) == sliding(events_of(topics["App.S"]))


def test_what_waits_goes_on_waiting_where_the_new_text_reads_it(tmp_path: Path) -> None:
    topics = fed(2, ("App.S", "App.R"))
    instance = Updated(tmp_path, 2, topics)
    both = "@info(name='r') from R[v >= {}] select k, v insert into Passed; "
    instance.topics = {"App.S": topics["App.S"][:5], "App.R": topics["App.R"][:20]}
    instance.run(version(LAST, both.format(0), reads=("S", "R")), last=True)
    seen = len(instance.rows("Passed"))
    instance.topics = topics
    instance.run(version(LAST, both.format(70), reads=("S", "R")), last=True)
    events = events_of(topics["App.R"])
    assert instance.rows("Passed") == [*events[:seen], *(row for row in events[seen:] if row[1] >= 70)]
    assert by_key(instance.rows("Lasts")) == sliding(events_of(topics["App.S"]))


def test_of_a_topic_with_other_attributes_the_old_text_reads_what_is_there(tmp_path: Path) -> None:
    topics = fed(4)
    instance = Updated(tmp_path, 4, topics)
    instance.topics = {"App.S": topics["App.S"][:10]}
    instance.run(version(TOTAL.format("v")), last=True)
    wider = HEAD.replace("S (k string, v long)", "S (k string, v long, w long)")
    instance.topics = topics
    instance.run(version(TOTAL.format("v + w"), head=wider), last=True)
    assert [n for _, n in instance.rows("Totals")] == [v for _, v in events_of(topics["App.S"])]


def test_what_a_group_before_still_puts_out_in_its_old_form_is_read(tmp_path: Path) -> None:
    """It is updated after this one: an attribute that comes later is null, one that goes is left out."""
    topics = fed(4)
    instance = Updated(tmp_path, 4, topics)
    other = HEAD.replace("S (k string, v long)", "S (w long, v long)")
    body = "@info(name='total') from S select ifThenElse(w is null, 'none', 'some') as k, v as n insert into Totals; "
    instance.run(version(body, head=other), last=True)
    assert instance.rows("Totals") == [("none", v) for _, v in events_of(topics["App.S"])]


def test_a_revision_of_another_text_and_of_other_shards_is_gone_back_to(tmp_path: Path) -> None:
    topics = fed(5)
    instance = Updated(tmp_path, 5, topics)
    revisions = FileSystemPersistenceStore(tmp_path / "states", 5)
    old, new = version(LAST, OTHER.format(2), shards=3), version(LAST, OTHER.format(3), FILTER.format(0))
    instance.run(old, last=False)
    revisions.save(NAME, "1000__App")
    at = instance.positions()["App.S"][0]
    instance.run(new, last=False)
    revisions.restore(NAME, "1000__App")
    assert instance.positions()["App.S"][0] == at
    assert instance.run(new, last=True)["App.S"][0] == at
    events = events_of(topics["App.S"])
    position = len(events_of(topics["App.S"][:at]))
    numbers = [record.seq for record in read_all(instance.log, "App.Passed") if record.count]
    assert max(numbers) >= 1 << 40, "above all that was published before the restore"
    again = [
        row
        for record in read_all(instance.log, "App.Passed")
        if record.seq >= 1 << 40
        for row in (Payload(SCHEMAS["Passed"]).decode(record.value).rows if record.count else [])
    ]
    assert again == events[position:], "what the new text makes of all since the revision"
    whole = joined(sliding(events))
    found = by_key(instance.rows("Lasts"))
    assert all(found[k][-len(sums) :][-3:] == sums[-3:] for k, sums in whole.items())


def test_an_update_before_anything_has_come_and_back_again(tmp_path: Path) -> None:
    topics = fed(6)
    instance = Updated(tmp_path, 6, topics)
    for one in (version(LAST), version(OTHER.format(2)), version(LAST, shards=2)):
        instance.assignment = one
        instance.start(one.shards)
    instance.run(version(LAST), last=True)
    assert by_key(instance.rows("Lasts")) == sliding(events_of(topics["App.S"]))


def test_numbers_go_on_in_a_topic_that_was_not_published_to_for_a_while(tmp_path: Path) -> None:
    topics = fed(7)
    instance = Updated(tmp_path, 7, topics)
    for queries in ((FILTER.format(0), LAST), (LAST,)):
        instance.run(version(*queries), last=False)
    at = instance.run(version(FILTER.format(0)), last=True)["App.S"][0]
    events = events_of(topics["App.S"])
    position = len(events_of(topics["App.S"][:at]))
    rows = instance.rows("Passed")
    assert rows[len(rows) - len(events) + position :] == events[position:]
    instance.ids()
