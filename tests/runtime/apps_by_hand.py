"""A planned app whose groups run batch by batch, with real state, topics and revisions, and without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spdist.cluster.managers.plans import plan_text
from spdist.config.sections import Log, Transports
from spdist.engine.shards.shard import SnapshotPolicy
from spdist.engine.shards.shards import HostedShards, Router, ShardSettings, island_maker, lowest_positions
from spdist.engine.spark.query import QuerySettings
from spdist.engine.spark.source import control_record
from spdist.engine.spark.tasks import Arrivals
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.planning.levels import levels
from spdist.planning.topology import Assignment
from spdist.runtime.command_topics import commanded
from spdist.runtime.kafka_inputs import KafkaReads, reads_before
from spdist.runtime.persistence import FileSystemPersistenceStore
from spdist.runtime.shard_states import InstanceState
from spdist.runtime.topics import ensure_topics
from spdist.transports.base import Record, Repeats
from spdist.transports.commands import ANSWERS, COMMANDS, SCHEMAS, answers_topic, commands_topic, text_row
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload
from spdist.transports.retracted import Undone

__all__ = ["App", "Group"]


class Group:
    """One start of a group instance on its state."""

    def __init__(self, app: App, name: str) -> None:
        self.app, self.name = app, name
        assignment = app.assignments[name]
        state = InstanceState(assignment, app.states)
        app.starts += 1
        reads = KafkaReads((assignment,), {})
        state.begun()
        opened: tuple[ShardSettings, ...] = state.open(f"start {app.starts}", app.reads_before(state, reads))
        if not state.fits:
            state.move(app.settings(name, opened), reads, app.topics.read)
            opened = state.open(f"start {app.starts}", reads)
        self._shards = HostedShards(
            dict(enumerate(opened)), island_maker(0, False), SnapshotPolicy(app.snapshot_every, pause=0)
        )
        self._router = Router(opened)
        begun = lowest_positions(opened)
        self._at = {
            (one.topic, number): begun.get(one.topic, {}).get(number, 0)
            for one in assignment.inputs
            for number in one.partitions
        }
        self._batch = 0

    def run(self, tick: int, limit: int = 1000) -> None:
        """Run one batch at the time `tick`, ms, of up to `limit` records a partition, and publish what it gives."""
        batch: list[Record] = []
        for place, offset in self._at.items():
            records = self.app.topics.read(*place, offset, limit)
            batch += records
            if records:
                self._at[place] = records[-1].offset + 1
        positions: dict[str, dict[int, int]] = {}
        for (topic, number), offset in self._at.items():
            positions.setdefault(topic, {})[number] = offset
        said = Arrivals()
        said.apply_control(control_record(tick, positions))
        outputs = self._shards.process(self._batch, self._router.route(batch), said)
        self.app.topics.append([one for one in outputs if isinstance(one, Record)])
        self._batch += 1


class App:
    """An app with its topics and the states of its groups in one directory."""

    def __init__(self, root: Path, text: str, snapshot_every: int = 3, shards: int = 1) -> None:
        self.root, self.states, self.snapshot_every = root, root / "states", snapshot_every
        self.topics = LogTransport(root / "topics")
        self.assignments: dict[str, Assignment] = {}
        self.store = FileSystemPersistenceStore(self.states, revisions_to_keep=5)
        self.starts = self._fed = 0
        self.groups: dict[str, Group] = {}
        self.deploy(text, shards)

    def deploy(self, text: str, shards: int = 1) -> None:
        """Run `text` from now on, in so many shards."""
        self.assignments = {one.name: commanded(one) for one in plan_text(text, shards=shards).assignments()}
        ensure_topics(self.topics, list(self.assignments.values()))
        self.start(*self.assignments)

    def settings(self, name: str, shards: tuple[ShardSettings, ...]) -> QuerySettings:
        """Return the query of some shards that nobody runs but a move."""
        stop = str(self.root / "stop")
        return QuerySettings(name, shards, str(self.root / "topics"), stop, "unused", 0, 100, 1000)

    def reads_before(self, state: InstanceState, reads: KafkaReads) -> KafkaReads:
        """Return what the instance read that made a state."""
        return reads_before(state, reads, Transports(Log(self.root)))

    def start(self, *names: str) -> None:
        """Start groups, or start them anew."""
        for name in names:
            self.groups[name] = Group(self, name)

    @property
    def levels(self) -> list[list[str]]:
        """The groups in the order in which events go through them."""
        return levels(list(self.assignments.values()))

    def backup(self, revision: str, between: Callable[[], None] = lambda: None) -> None:
        """Keep a revision of all groups as the leader has it done; `between` is called between any two groups."""
        for level in reversed(self.levels):
            for name in level:
                self.store.save(name, revision)
                between()

    def restore(self, revision: str) -> None:
        """Go back as the leader has it done."""
        undone: list[Undone] = []
        for level in self.levels:
            new = [self.store.restore(name, revision, undone).undone(self.topics) for name in level]
            undone += [one for of_instance in new for one in of_instance]
            self.start(*level)

    def feed(self, stream: str, schema: Schema, *events: tuple[int, tuple[Any, ...]]) -> None:
        """Append events, given with their timestamps, as a feeder does."""
        read = (one for assignment in self.assignments.values() for one in assignment.inputs)
        topic = next(one.topic for one in read if one.stream == stream)
        value = Payload(schema).encode(Events.of(list(events)))
        self.topics.append([Record(topic, 0, value, len(events), "feed", self._fed)])
        self._fed += len(events)

    def ask(self, name: str, query: str, tick: int) -> list[list[Any]]:
        """Put a query on demand to a group, run a batch of it at the time `tick`, and return the rows of the answer."""
        asked = Payload(SCHEMAS[COMMANDS]).encode(Events.of([(0, text_row({"id": tick, "query": query}))]))
        self.topics.append([Record(commands_topic(name), 0, asked, 1)])
        self.groups[name].run(tick)
        answers = (json.loads(text) for (text,) in self.rows(answers_topic(name), SCHEMAS[ANSWERS]))
        found: list[list[Any]] = next(one["rows"] for one in answers if one["id"] == tick)
        return found

    def rows(self, topic: str, schema: Schema) -> list[tuple[Any, ...]]:
        """Return what a reader sees who drops repeats by their ids."""
        repeats, found = Repeats(), []
        for number, end in self.topics.end_offsets(topic).items():
            at = 0
            while at < end and (records := self.topics.read(topic, number, at)):
                for record in records:
                    if (skip := repeats.fresh(record)) < record.count:
                        found += Payload(schema).decode(record.value, skip).rows
                at = records[-1].offset + 1
        return found
