"""Partitions: the same queries once for each value of a key, or for each range that an event falls into.

Streams with a key go to the instance of their key, which is made when the key first comes; streams without one go to
every instance there is. Inner streams connect the queries of one instance.

Source: io.siddhi.core.partition.PartitionRuntimeImpl and PartitionStreamReceiver, described in our own words.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

from spdist.java.numbers import text_of, text_of_float32
from spdist.java.objects import set_order
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedPartition
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.types import Schema, Type
from spdist.operators.base import Arrival, Event, Row, Timer, VirtualClock
from spdist.operators.core.junction import Junction, LoopMaker, Receive, ReceiveChunk, Receiver
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import RowReader
from spdist.operators.partitions.purging import PurgeTimes, purging_of
from spdist.operators.queries.loops import by_key
from spdist.operators.queries.plans import Place, QueryInstance, QueryPlan, ReceiveEvents, without_kinds
from spdist.operators.queries.query import SingleStreamPlan, plan_query
from spdist.operators.tables.stores import Store, tables_of
from spdist.operators.windows.sliding_columns import plain_keys

__all__ = ["PartitionPlan", "PartitionRuntime"]

#: From an event to the keys of the instances it belongs to, in order; a null key gives none.
Keys = Callable[[int, Row], tuple[str, ...]]


class PartitionPlan:
    """What is known of a partition before any event comes.

    Parameters
    ----------
    checked : CheckedPartition
        The partition with what its names mean.
    position : int
        Its position among the app's partitions.
    ranks : Sequence[int]
        The place in the app of each query, then of the partition itself.
    streams : Mapping[str, Schema]
        The app's streams and named windows.
    catalog : Catalog
        Signatures.
    stores : Mapping[str, Store]
        What the app keeps rows in, by id.
    """

    def __init__(
        self,
        checked: CheckedPartition,
        position: int,
        ranks: Sequence[int],
        streams: Mapping[str, Schema],
        catalog: Catalog,
        stores: Mapping[str, Store],
    ) -> None:
        self.name = f"partition_{position}"
        self.inner = tuple(checked.inner)
        self.queries: list[QueryPlan] = [
            plan_query(query, rank, catalog, stores) for query, rank in zip(checked.queries, ranks, strict=False)
        ]
        self.rank = ranks[-1]
        self.keys = {id: self._compiled_keys(key, streams[id], catalog) for id, key in checked.keys.items()}
        #: Streams whose events may have several keys, and where the key is a string attribute, its position.
        self.ranged = frozenset(id for id, key in checked.keys.items() if key.value is None)
        self.attributes = {
            id: schema.names.index(key.value.name)
            for id, key in checked.keys.items()
            if isinstance(key.value, ast.Variable)
            and key.value.name in (schema := streams[id]).names
            and schema.types[schema.names.index(key.value.name)] is Type.STRING
        }
        self.purge_interval, self.idle_period = purging_of(checked.partition)
        outer = [id for plan in self.queries for id in plan.inputs if id not in checked.inner]
        #: What it reads of the app; the named windows among it.
        self.inputs: tuple[str, ...] = tuple(dict.fromkeys(outer))
        self.windows = frozenset(id for id in self.inputs if id in stores)

    def _compiled_keys(self, key: ast.PartitionKey, schema: Schema, catalog: Catalog) -> Keys:
        scope = Scope((AttributeSource(key.stream.id, key.stream.id, schema),), tables=tables_of(catalog))
        frame, bindings = Frame(), Bindings()
        writer = ExpressionWriter(RowReader(scope, catalog, frame), frame, bindings)
        if key.value is not None:
            body = self._value_key(writer, key.value)
        else:
            body = ["keys = ()"]
            for part in key.ranges:
                test = writer.condition(part.condition)
                body += [*frame.assignments(), f"if {test}:", f"    keys += ({part.label!r},)"]
            body.append("return keys")
        lines = ["def make(clock):", *indent(["def keys_of(ts, row):", *indent(body), "return keys_of"])]
        # Keys must not depend on when they are asked for, so the clock that functions see stands still.
        made: Keys = build(f"{self.name} key", lines, bindings.names)["make"](VirtualClock())
        return made

    @staticmethod
    def _value_key(writer: ExpressionWriter, expression: ast.Expression) -> list[str]:
        code = writer.write(expression)
        lines = [*writer.frame.assignments(), f"key = {code.text}"]
        if code.nullable:
            lines += ["if key is None:", "    return ()"]
        if code.type is Type.STRING and code.exact:
            return [*lines, "return (key,)"]
        written = text_of_float32 if code.type is Type.FLOAT else text_of
        return [*lines, f"return ({writer.bind(written, 'text_of')}(key),)"]


_NO_STREAMS: dict[str, Junction] = {}


class PartitionInstance:
    """The queries of one key (`spdist.operators.queries.query.Place`)."""

    def __init__(self, runtime: PartitionRuntime, number: int) -> None:
        self.clock = runtime.clock
        self.failures = runtime.place.failures
        self.number = number
        self.used = runtime.clock.now
        self._outer = runtime.place
        self._timers: list[Timer] | None = None
        self._plan = runtime.plan
        self.inner = (
            {id: runtime.place.inner_junction(id) for id in runtime.plan.inner} if runtime.plan.inner else _NO_STREAMS
        )
        self.queries: tuple[QueryInstance, ...] = tuple(plan.instance(self) for plan in runtime.plan.queries)
        if self.inner:
            for query in self.queries:
                for stream_id, (receive, receive_chunk) in query.receivers.items():
                    if stream_id in self.inner:
                        self.inner[stream_id].subscribe(Receiver(receive, receive_chunk))

    @cached_property
    def entries(self) -> dict[str, tuple[list[Receive], list[ReceiveChunk]]]:
        """What takes the events of a stream: single ones, and chunks."""
        entries: dict[str, tuple[list[Receive], list[ReceiveChunk]]] = {id: ([], []) for id in self._plan.inputs}
        for query in self.queries:
            for stream_id, (receive, receive_chunk) in query.receivers.items():
                if stream_id not in self.inner:
                    entries[stream_id][0].append(receive)
                    entries[stream_id][1].append(receive_chunk)
        return entries

    @cached_property
    def event_entries(self) -> dict[str, list[ReceiveEvents]]:
        """What takes the chunks of a named window."""
        entries: dict[str, list[ReceiveEvents]] = {id: [] for id in self._plan.windows}
        for query in self.queries:
            for stream_id, (_, receive_chunk) in query.receivers.items():
                if stream_id in entries:
                    entries[stream_id].append(without_kinds(receive_chunk))
            for window_id, receive in query.event_receivers.items():
                entries[window_id].append(receive)
        return entries

    def junction(self, stream_id: str) -> Junction:
        """Return an inner stream of this key, or a stream of the app."""
        return self.inner.get(stream_id) or self._outer.junction(stream_id)

    def inner_junction(self, stream_id: str) -> Junction:
        """Return a new inner stream."""
        return self._outer.inner_junction(stream_id)

    def is_fed(self, stream_id: str) -> bool:
        """Tell whether events of a stream can come from inside the app."""
        return stream_id in self.inner or self._outer.is_fed(stream_id)

    def timer(self, rank: tuple[int, int], wake: Callable[[int], None], key: int = 0) -> Timer:
        """Return a timer of an operator of this key."""
        timer = self._outer.timer(rank, wake, self.number)
        if self._timers is None:
            self._timers = []
        self._timers.append(timer)
        return timer

    def start(self) -> None:
        """Begin: waiting elements of patterns count from now."""
        for query in self.queries:
            query.start()

    def end(self) -> None:
        """Forget all wake-ups."""
        for timer in self._timers or ():
            timer.cancel()


class PartitionRuntime:
    """A partition at work.

    Parameters
    ----------
    plan : PartitionPlan
        The compiled partition.
    place : Place
        The app.

    State
    -----
    One instance for each key that came, for ever; with ``@purge`` for each key that came in the idle period.

    Notes
    -----
    When idle keys are looked for is in `PurgeTimes`; a wake-up is asked for only where a look can find one.
    """

    def __init__(self, plan: PartitionPlan, place: Place) -> None:
        self.plan = plan
        self.place = place
        self.clock: VirtualClock = place.clock
        self.instances: dict[str, PartitionInstance] = {}
        #: Of a partition with ``@purge`` the same, those that got an event longest ago first.
        self._by_use: OrderedDict[str, PartitionInstance] = OrderedDict()
        self._in_order: tuple[PartitionInstance, ...] | None = None
        self.created = 0
        self.purge = place.timer((plan.rank, 0), self._purge)
        self.looks = PurgeTimes(plan.purge_interval)
        self.receivers: Mapping[str, tuple[Receive, ReceiveChunk]] = {
            id: self._receiver(id) for id in plan.inputs if id not in plan.windows
        }
        self.event_receivers = {id: self._event_receiver(id) for id in plan.inputs if id in plan.windows}

    @property
    def loops(self) -> Mapping[str, LoopMaker]:
        """What takes many single events of a stream faster than `receivers` do, by stream id."""
        # Each event must then be noted as its key's latest use, which loops do not.
        if self.plan.idle_period is not None:
            return {}
        return {id: maker for id in self.plan.keys if (maker := self._loop(id)) is not None}

    def _loop(self, stream_id: str) -> LoopMaker | None:
        readers = [i for i, plan in enumerate(self.plan.queries) if stream_id in plan.inputs]
        query = self.plan.queries[readers[0]] if len(readers) == 1 else None
        # An event in several ranges belongs to several instances.
        if stream_id in self.plan.ranged or not isinstance(query, SingleStreamPlan):
            return None
        plan, inner = query.loop, query.checked.target in self.plan.inner
        if plan is None:
            return None
        finding = by_key(self.plan.attributes.get(stream_id), readers[0], inner)
        names = {"instances": self.instances, "create": self._create, "keys": self.plan.keys[stream_id]}
        sink = None if inner else query.sink(self.place)
        return lambda drive: plan.keyed(finding, names, sink, drive)

    def _receiver(self, stream_id: str) -> tuple[Receive, ReceiveChunk]:
        keys = self.plan.keys.get(stream_id)
        if keys is None:
            return self._broadcasting(stream_id)
        instances, create, purges = self.instances, self._create, self.plan.idle_period is not None
        use = self._use

        def receive(timestamp: int, row: Row) -> None:
            for key in keys(timestamp, row):
                instance = instances.get(key) or create(key)
                if purges:
                    use(key, instance)
                for entry in instance.entries[stream_id][0]:
                    entry(timestamp, row)

        def send(key: str, run: list[Arrival]) -> None:
            instance = instances.get(key) or create(key)
            if purges:
                use(key, instance)
            for entry in instance.entries[stream_id][1]:
                entry(run)

        def receive_chunk(arrivals: Sequence[Arrival]) -> None:
            current: str | None = None
            run: list[Arrival] = []
            for arrival in arrivals:
                for key in keys(*arrival):
                    # As in Siddhi a chunk is cut where the key changes: what has one key is not gathered.
                    if key != current:
                        if current is not None:
                            send(current, run)
                        current, run = key, []
                    run.append(arrival)
            if current is not None:
                send(current, run)

        return receive, receive_chunk

    def _event_receiver(self, window_id: str) -> ReceiveEvents:
        """Return what takes the chunks of a named window: runs of one key go to its instance, as those of a stream."""
        keys = self.plan.keys.get(window_id)

        def everywhere(chunk: list[Event]) -> None:
            for instance in self._all():
                for receive in instance.event_entries[window_id]:
                    receive(chunk)

        if keys is None:
            return everywhere
        keys_of = keys

        def by_key(chunk: list[Event]) -> None:
            keyed = [(key, event) for event in chunk for key in keys_of(event[1], event[2])]
            for key, run in groupby(keyed, key=itemgetter(0)):
                instance = self.instances.get(key) or self._create(key)
                if self.plan.idle_period is not None:
                    self._use(key, instance)
                events = [event for _, event in run]
                for receive in instance.event_entries[window_id]:
                    receive(events)

        return by_key

    def _broadcasting(self, stream_id: str) -> tuple[Receive, ReceiveChunk]:
        def receive(timestamp: int, row: Row) -> None:
            for instance in self._all():
                for entry in instance.entries[stream_id][0]:
                    entry(timestamp, row)

        def receive_chunk(arrivals: Sequence[Arrival]) -> None:
            for instance in self._all():
                for entry in instance.entries[stream_id][1]:
                    entry(arrivals)

        return receive, receive_chunk

    def _all(self) -> tuple[PartitionInstance, ...]:
        """Return the instances in the order in which they get what has no key."""
        if self._in_order is None:
            self._in_order = tuple(self.instances[key] for key in set_order(self.instances))
        return self._in_order

    def _create(self, key: str) -> PartitionInstance:
        instance = self.instances[key] = self._made(self.created)
        self._in_order = None
        self.created += 1
        instance.start()
        return instance

    def _made(self, number: int) -> PartitionInstance:
        return PartitionInstance(self, number)

    def _use(self, key: str, instance: PartitionInstance) -> None:
        """Note that a key got an event, and see to it that idle keys are looked for."""
        instance.used = self.clock.now
        self._by_use[key] = instance
        self._by_use.move_to_end(key)
        # Only a series of looks with a new phase can bring the next look forward.
        if not self.looks.note(instance.used) and self.purge.due:
            return
        due = self._next_purge()
        if not self.purge.due or due < self.purge.due[0]:
            self.purge.cancel()
            self.purge.notify_at(due)

    def _next_purge(self) -> int:
        """Return the first look at which the key that is idle for longest would be found so."""
        assert self.plan.idle_period is not None
        return self.looks.after(next(iter(self._by_use.values())).used + self.plan.idle_period)

    def _purge(self, due: int) -> None:
        period = self.plan.idle_period
        assert period is not None
        # Sorted by use, so the first key that is not idle ends it; a list, as its items are deleted meanwhile.
        for key, instance in list(takewhile(lambda item: item[1].used + period < due, self._by_use.items())):
            del self.instances[key], self._by_use[key]
            instance.end()
        self._in_order = None
        if self.instances:
            self.purge.notify_at(self._next_purge())

    def snapshot(self) -> Any:
        """Return the states of all keys, by key."""
        keys: Any = {
            key: [instance.number, instance.used, [query.snapshot() for query in instance.queries]]
            for key, instance in self.instances.items()
        }
        return [keys, self.created, self.looks.snapshot(), self.purge.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        keys, self.created, looks, due = state
        keys = plain_keys(keys)
        self.looks.restore(looks)
        # In place: receivers and loops hold on to this dictionary.
        self.instances.clear()
        self._in_order = None
        for key, (number, used, queries) in keys.items():
            instance = self.instances[key] = self._made(number)
            instance.used = used
            for query, stored in zip(instance.queries, queries, strict=True):
                query.restore(stored)
        if self.plan.idle_period is not None:
            self._by_use = OrderedDict(sorted(self.instances.items(), key=lambda item: item[1].used))
        self.purge.restore(due)
