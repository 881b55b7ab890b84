"""Groups of an app whose shards are run by hand on stored states and the embedded log: as Spark does, without it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spdist.cluster.managers.topics import fed_topic
from spdist.engine.island.hosted import build_island
from spdist.engine.replay.shard_log import ShardLog, shard_log
from spdist.engine.shards.layout import ShardLayout, assignment_hash, current_layout, keep_assignment, open_layout
from spdist.engine.shards.shard import Shard, SnapshotPolicy
from spdist.engine.shards.shards import Router, ShardSettings
from spdist.engine.shards.state import state_directory
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.compiled import CompiledInstance
from spdist.planning.groups import plan
from spdist.planning.pictures.graph import app_graph
from spdist.planning.topology import Assignment, Topology, shard_names
from spdist.runtime.command_topics import commanded
from spdist.runtime.stored_inputs import StoredInputs, read_files, stored, stored_inputs
from spdist.transports.base import Record
from spdist.transports.delivery import Deliveries, Delivery
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport

__all__ = ["HandRun"]

Arrival = tuple[int, tuple[Any, ...]]


class HandRun:
    """The groups of an app.

    Parameters
    ----------
    directory : Path
        Topics are in ``topics`` there, states in ``state``.
    text : str
        The app.
    shards : int
        Of each instance that can be split.
    segments : int or mapping of str to int
        After so many there is a snapshot; some groups may have numbers of their own.
    location : Path, optional
        Where states are instead.
    topology : Topology, optional
        Its groups; those of a cluster if left out.
    """

    def __init__(
        self,
        directory: Path,
        text: str,
        shards: int = 1,
        segments: int | Mapping[str, int] = 1000,
        location: Path | None = None,
        topology: Topology | None = None,
    ) -> None:
        self.location = location or directory / "state"
        self.topology = topology or plan(parse(text), shards=shards)
        self.topics = LogTransport(directory / "topics")
        for topic in self.topology.topics:
            self.topics.ensure(topic.name, topic.partitions)
        self._feeds: dict[str, Feed] = {}
        #: What the users' sinks have put out so far.
        self.delivered: list[Delivery] = []
        self.groups = [
            _Group(self, commanded(one), segments if isinstance(segments, int) else segments.get(one.group, 1000))
            for one in self.topology.assignments()
        ]

    def feed(self, stream: str, schema: Schema) -> Feed:
        """Return the feed into a stream from outside, always the same one."""
        if stream not in self._feeds:
            topic = fed_topic(self.topology, stream)
            self._feeds[stream] = Feed(self.topics, topic.name, schema, f"feed of {stream}", topic.key)
        return self._feeds[stream]

    def log(self, producer: str, directory: Path) -> ShardLog:
        """Return what is kept of a shard, fetched as clients do: in pages of a few bytes, each through JSON values."""
        group = next(one for one in self.groups if producer in one.producers)
        name, shard = group.assignment.name, group.producers.index(producer)
        kept = StoredInputs.from_dict(json.loads(json.dumps(stored_inputs(self.location, name).to_dict())))
        files: dict[str, bytes] = {}
        while left := kept.shards[shard].files[len(files) :]:
            contents = read_files(self.location, name, kept.layout, shard, left, 2000)
            files |= dict(zip(left, contents, strict=False))
        return shard_log(kept.assignment, CompiledInstance.of(kept.assignment).checked, *stored(directory, files), 0)

    def run(self, tick: int = 0) -> None:
        """Run a batch of each group, in their order."""
        for group in self.groups:
            group.run(tick)

    def read(self, stream: str, schema: Schema) -> list[Arrival]:
        """Return the events of a published stream."""
        return read_events(self.topics, f"{self.topology.app}.{stream}", schema)


class _Group:
    def __init__(self, of: HandRun, assignment: Assignment, segments: int) -> None:
        self.assignment = assignment
        self._topics, self._delivered = of.topics, of.delivered
        for one in assignment.inputs:
            of.topics.ensure(one.topic, 1 + max(one.partitions))
        for topic in (put.topic for one in assignment.outputs for put in one.publishing):
            of.topics.ensure(topic, max(1, of.topics.partitions(topic)))
        layout: ShardLayout = current_layout(state_directory(of.location, assignment.name), assignment.shards)
        openings = open_layout(
            layout, f"by hand {uuid.uuid4().hex}", {}, assignment_hash(keep_assignment(layout, assignment))
        )
        settings = [
            ShardSettings(assignment, n, layout.count, opening, str(of.location / assignment.name / place))
            for n, (opening, place) in enumerate(zip(openings, layout.places, strict=True))
        ]
        self._router = Router(settings)
        self._shards = [
            Shard(store, opening, lambda one=one: build_island(one.published(), 0), SnapshotPolicy(segments, pause=0))  # type: ignore[misc]
            for store, opening, one in zip(layout.stores, openings, settings, strict=True)
        ]
        self.producers = shard_names(assignment.name, layout.count)
        self.written = {link.target for link in app_graph(CompiledInstance.of(assignment).checked).links}
        self._offsets: dict[str, dict[int, int]] = {}
        self._batch = 0

    def run(self, tick: int) -> None:
        came: list[Record] = []
        for topic, partition in sorted(self.assignment.places):
            known = self._offsets.setdefault(topic, {})
            new = self._topics.read(topic, partition, known.get(partition, 0))
            known[partition] = known.get(partition, 0) + len(new)
            came += new
        shares: list[list[Record]] = [[] for _ in self._shards]
        for number, record in self._router.route(came):
            shares[number].append(record)
        for shard, share in zip(self._shards, shares, strict=True):
            outputs = shard.process(self._batch, share, tick, self._offsets)
            self._topics.append([one for one in outputs if isinstance(one, Record)])
            for one in outputs:
                self._delivered += one if isinstance(one, Deliveries) else [one] if isinstance(one, Delivery) else []
        self._batch += 1
