"""What Spark does with frames, without Spark: rows go through the same steps, in whatever order and processes."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StructType

from spdist.engine.frames.fitting import FrameRequest
from spdist.engine.frames.plan import FramePlan, plan_frames
from spdist.engine.frames.routing import route
from spdist.engine.frames.shards import FrameShards
from spdist.engine.frames.spark_types import spark_type
from spdist.engine.frames.state import FrameDirectory, QueryStart
from spdist.engine.frames.transforming import run_shards
from spdist.engine.shards.shard import SnapshotPolicy
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.columns import ARROW

#: Number of the stream, time in ms, place among the rows of one time, values.
Given = tuple[int, int, int, tuple[Any, ...]]
Came = dict[str, list[tuple[int, tuple[Any, ...]]]]


def planned(text: str, streams: Sequence[str], outputs: Sequence[str], shards: int, **asked: Any) -> FramePlan:
    """A plan for frames with columns ``ts`` and ``seq``."""
    checked = check(parse(text), catalog(), text)
    frames = {name: columns(checked.streams[name]) for name in streams}
    request = FrameRequest(time="ts", order="seq", output=outputs, shards=shards, **asked)
    return plan_frames(checked, text, frames, request, lambda: shards)


def columns(schema: Schema) -> StructType:
    made = StructType().add("ts", LongType()).add("seq", LongType())
    for name, kind in schema:
        made.add(name, spark_type(kind))
    return made


def order_of(plan: FramePlan) -> list[str]:
    return ["stream", *(f"order_{number}_0" for number in range(len(plan.inputs)))]


def wire(plan: FramePlan, rows: Sequence[Given]) -> Any:
    """The rows in the form that `Wire` gives them."""
    fields: dict[str, tuple[Any, list[Any]]] = {
        "time": (pa.int64(), [ts * 1000 for _, ts, _, _ in rows]),
        "stream": (pa.int8(), [number for number, *_ in rows]),
    }
    for place, one in enumerate(plan.inputs):
        fields[f"order_{place}_0"] = (pa.int64(), [seq if number == place else None for number, _, seq, _ in rows])
        for at, (_, kind) in enumerate(one.schema):
            own = [row[at] if number == place else None for number, *_, row in rows]
            fields[f"value_{place}_{at}"] = (ARROW[kind], own)
    return pa.record_batch({name: pa.array(values, kind) for name, (kind, values) in fields.items()})


def routed(plan: FramePlan, rows: Sequence[Given], draw: random.Random) -> list[Any]:
    """The rows after the step in front of the shuffle, out of several tasks."""
    if plan.shards == 1:
        return cut(wire(plan, rows), draw)
    tasks: dict[int, list[Given]] = defaultdict(list)
    for row in rows:
        tasks[draw.randrange(3)].append(row)
    batches = [batch for own in tasks.values() for batch in route(plan, iter(cut(wire(plan, own), draw)))]
    draw.shuffle(batches)
    return batches


def cut(batch: Any, draw: random.Random) -> list[Any]:
    """A batch in parts, at least one of them with rows where there are any."""
    made, begin = [batch.slice(0, 0)], 0
    while begin < batch.num_rows:
        size = draw.randrange(1, 12)
        made.append(batch.slice(begin, size))
        begin += size
    return made


def run_as_batch(plan: FramePlan, rows: Sequence[Given], draw: random.Random) -> list[Any]:
    """Everything that comes out of a batch, of one partition of Spark after the other."""
    shuffled = list(rows)
    draw.shuffle(shuffled)
    batches = routed(plan, shuffled, draw)
    together = draw.random() < 0.3  # Spark may put partitions together
    if not batches:
        return list(run_shards(plan, iter(())))
    made = []
    for partition in range(1 if together else plan.shards):
        table = pa.Table.from_batches(batches)
        if plan.shards > 1 and not together:
            table = table.filter(pc.equal(table["shard"], partition))
        keys = [(name, "ascending") for name in ("time", *order_of(plan))]
        table = table.take(pc.sort_indices(table, sort_keys=keys)).combine_chunks()
        parts = [part for batch in table.to_batches() for part in cut(batch, draw)]
        made += run_shards(plan, iter(parts))
    return made


class Query:
    """A streaming query over shards whose tasks run in several processes, and which is started anew now and then."""

    def __init__(self, plan: FramePlan, place: Path, draw: random.Random) -> None:
        self.plan = plan
        self.home = FrameDirectory(place, plan.name)
        self.draw = draw
        self.batch = 0
        self.run = 0
        place.mkdir(parents=True, exist_ok=True)
        (place / "metadata").write_text('{"id":"q"}')
        self.processes: list[FrameShards] = []

    def start(self) -> QueryStart:
        return QueryStart("q", f"run {self.run}", self.batch)

    def restart(self) -> None:
        self.run += 1
        self.processes = []

    def process(self) -> FrameShards:
        """Any process of this start."""
        if len(self.processes) < 2:
            self.processes.append(FrameShards(self.plan, self.home, self.start(), SnapshotPolicy(segments=3, pause=0)))
        return self.draw.choice(self.processes)

    def micro_batch(self, rows: Sequence[Given]) -> list[Any]:
        """What a micro-batch puts out, which may have been tried before, in part or whole."""
        while self.draw.random() < 0.3:
            self._run(rows, whole=self.draw.random() < 0.5)
            if self.draw.random() < 0.5:
                self.restart()
        made = self._run(rows, whole=True)
        self.batch += 1
        return made

    def _run(self, rows: Sequence[Given], whole: bool) -> list[Any]:
        shuffled = list(rows)
        self.draw.shuffle(shuffled)
        batches, made = routed(self.plan, shuffled, self.draw), []
        for shard in self.draw.sample(range(self.plan.shards), self.plan.shards):
            own = batches if self.plan.shards == 1 else [b.filter(pc.equal(b["shard"], shard)) for b in batches]
            made += self.process().process(self.start(), order_of(self.plan), own)
            if not whole:
                break
        return made


def came(plan: FramePlan, batches: Iterable[Any]) -> Came:
    """The events of each output in order; no id is there twice."""
    found: Came = {name: [] for name, _ in plan.outputs}
    ids: Counter[str] = Counter()
    for batch in batches:
        assert batch.schema.names == plan.result().names
        for name, time, id, row in _read(plan, batch):
            found[name].append((time, row))
            ids[id] += 1
    assert not [id for id, times in ids.items() if times > 1]
    return found


def _read(plan: FramePlan, batch: Any) -> Iterator[tuple[str, int, str, tuple[Any, ...]]]:
    times = batch[plan.event_time].cast(pa.int64()).to_pylist()
    ids = batch[plan.event_id].to_pylist()
    if not plan.together:
        ((name, schema),) = plan.outputs
        values = [batch[attribute].to_pylist() for attribute in schema.names]
        for time, id, *row in zip(times, ids, *values, strict=True):
            yield name, time // 1000, id, tuple(row)
        return
    for place, name in enumerate(batch["stream"].to_pylist()):
        yield name, times[place] // 1000, ids[place], tuple(batch[name][place].as_py().values())


def by_stream(streams: Sequence[str], rows: Iterable[Given]) -> Mapping[str, list[tuple[int, tuple[Any, ...]]]]:
    """The rows as `spdist.run` takes them, those of one time in their order."""
    made: dict[str, list[tuple[int, tuple[Any, ...]]]] = {name: [] for name in streams}
    for number, ts, _, row in sorted(rows, key=lambda one: one[2]):
        made[streams[number]].append((ts, row))
    return made
