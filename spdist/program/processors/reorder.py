"""The stream processors ``reorder:kslack`` and ``reorder:akslack`` hold events back, and let them go in an order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.operators.base import CURRENT, Timer, Timers, VirtualClock
from spdist.operators.core.parameters import constant_values
from spdist.operators.core.processors import ProcessorSetting
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    nothing,
    numbers_of,
    ranges,
)
from spdist.operators.windows.reorder_akslack import WEIGHTS, AlphaKSlack
from spdist.operators.windows.reorder_kslack import TICK_MS, KSlack
from spdist.program.expressions import FLAG, NUMBER, REAL, NotTyped, Value
from spdist.program.parts import EACH, Most, QueryText, indent
from spdist.program.processors.kinds import Processor
from spdist.program.processors.shape import bounded
from spdist.program.processors.text import ProcessorWriter
from spdist.program.registry import PROCESSORS
from spdist.program.running.running import Running
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.nodes import events_of_nodes, fill_nodes, walked
from spdist.program.states.processor import ProcessorStates
from spdist.program.timer_text import PROCESSOR
from spdist.program.windows.kinds import FAR

__all__ = ["Adaption", "ReorderStates", "ReorderWriter", "Reordered"]

_OPERATORS = {"reorder:kslack": KSlack, "reorder:akslack": AlphaKSlack}
#: The times of a key, and what they are before its first event.
_TIMES = {"greatest": 0, "sent": -1, "k": 0, "tick": -1, "waits": 0}


@dataclass(frozen=True, slots=True)
class Adaption:
    """How the slack of ``reorder:akslack`` follows what comes; the names are those of its operator.

    Parameters
    ----------
    value : int
        The attribute whose values are looked at.
    batch_size : int
        After how many events the slack is adapted.
    threshold, critical_squared : float
        The error, and the critical value for how sure it is to be kept, squared.
    """

    value: int
    batch_size: int
    threshold: float
    critical_squared: float


@PROCESSORS.typed(*_OPERATORS)
@dataclass(frozen=True, slots=True)
class Reordered(Processor):
    """``reorder:kslack``, and with an `adaption` ``reorder:akslack``.

    Parameters
    ----------
    filters : tuple of Expression or StreamFunction
        What stands in front of it.
    time : int
        The attribute that events are put in the order of.
    timeout : int
        How old what is held may be at a wake-up, ms; -1: there are none.
    limit : int
        The longest slack, ms.
    discards : bool
        Whether events are dropped that are older than what was released last.
    adaption : Adaption, optional
        How the slack follows the values of an attribute.
    """

    time: int
    timeout: int
    limit: int
    discards: bool
    adaption: Adaption | None = None

    @classmethod
    def of(
        cls, call: ast.FunctionCall, filters: tuple[ast.Expression | ast.StreamFunction, ...], scope: Scope
    ) -> Reordered:
        """Return what an app says; raises NotTyped."""
        named = [scope.resolve(one).attribute if isinstance(one, ast.Variable) else None for one in call.args]
        given = _settings(call)
        adaption, time = None, named[0]
        if time is None or (isinstance(given, AlphaKSlack) and named[1] is None):
            raise NotTyped(f"{call.id} by what is no attribute", call.span)
        if isinstance(given, AlphaKSlack):
            assert named[1] is not None
            adaption = Adaption(named[1], given.batch_size, given.threshold, given.critical_squared)
        return cls(filters, time, bounded(call, given.timeout, least=-1), given.limit, given.discards, adaption)

    @property
    def writer(self) -> type[ReorderWriter]:
        """What writes it."""
        return ReorderWriter

    @property
    def states(self) -> ReorderStates:
        """What knows its state."""
        return ReorderStates(self)

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return {self.time} if self.adaption is None else {self.time, self.adaption.value}

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return {self.time}

    @property
    def timed(self) -> bool:
        """Whether something is done when time passes."""
        return self.timeout != -1

    @property
    def begins(self) -> bool:
        """Whether something of it begins with a key of a partition: its timer does."""
        return True

    @property
    def reorders(self) -> bool:
        """Whether it puts events in order, in heaps."""
        return True


def _settings(call: ast.FunctionCall) -> KSlack:
    """Return the operator, which knows what its arguments say."""
    timers = Timers(VirtualClock())
    return _OPERATORS[call.id](
        ProcessorSetting(
            constants=constant_values(call.args),
            arguments=lambda timestamp, row: (),
            clock=timers.clock,
            timer=lambda wake: Timer(timers, (0, 0, 0), wake),
            emit=lambda chunk: None,
        )
    )


class ReorderWriter(ProcessorWriter):
    """Writes what ``reorder:kslack`` and ``reorder:akslack`` do; the event's node is ``d``.

    Notes
    -----
    ``q_pre_fresh`` and ``q_pre_held`` are the first nodes of two heaps (`machine.reorder_kernels.melded`): of the
    events since the greatest time rose, and of those before; ``q_pre_at`` is the time of a node's event, and
    ``q_pre_came`` which one of all it was. With an adaption there is a list of all events that came, as nodes of
    another pool, ``q_pre_s``.
    """

    @property
    def _reordered(self) -> Reordered:
        assert isinstance(self.processor, Reordered)
        return self.processor

    def _counts(self) -> None:
        super()._counts()
        rooms = [self._nodes, *([f"nodes {self.prefix}_s"] if self._reordered.adaption is not None else [])]
        for room in rooms:
            self.whole.count(room, self.block.most)

    def _declare(self) -> None:
        arrays, prefix = self.whole.arrays, self.prefix
        for name in ("ts", "at", "came", "next", "other"):
            arrays.declare(f"{prefix}_{name}", NUMBER, self._nodes, "-1" if name in ("next", "other") else "0")
        arrays.free_list(f"{prefix}_free")
        self.query.kept = self._wanted
        self._fresh, self._held = self.own("fresh", fill="-1"), self.own("held", fill="-1")
        self._greatest, self._sent, self._k = self.own("greatest"), self.own("sent", fill="-1"), self.own("k")
        self._tick, self._waits = self.own("tick", fill="-1"), self.own("waits", dtype=FLAG)
        self._size, self._number = self.own("size"), self.own("number")

    def _melded(self, first: str, second: str) -> str:
        prefix = self.prefix
        heap = ", ".join(f"{prefix}_{name}" for name in ("at", "came", "next", "other"))
        return f"melded({first}, {second}, {heap})"

    def takes(self) -> list[str]:
        """Return what is done with an event."""
        self._declare()
        given, prefix = self._reordered, self.prefix
        time = self.attribute(given.time).text
        # In front of the test: `akslack` also looks at the events that are too late
        lines = [] if given.adaption is None else self._notes(time, given.adaption)
        if given.discards:
            lines += [f"if {time} < {self._sent}:", "    continue"]
        if self._timer is not None:
            # Whole ticks, rounded up, so that wake-ups stay in the rhythm in which they began
            again = [f"{self._tick} += (now - {self._tick} + {TICK_MS - 1}) // {TICK_MS} * {TICK_MS}"]
            again += [self._timer.asks(self._tick), f"{self._waits} = 0"]
            lines += [f"if {self._waits} != 0:", *indent(again)]
        lines += [
            f"d = allot({prefix}_free, {prefix}_next)",
            f"{prefix}_next[d] = {prefix}_other[d] = -1",
            f"{prefix}_ts[d], {prefix}_at[d], {prefix}_came[d] = {self.timestamp}, {time}, {self._number}",
            f"{self._number} += 1",
            f"{self._size} += 1",
        ]
        for place in self._wanted:
            value = self.attribute(place)
            values, nulls = self.whole.attribute(f"{prefix}_w", place, value.type, self._nodes)
            lines += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null or 'False'}"]
        lines.append(f"{self._fresh} = {self._melded(self._fresh, 'd')}")
        if given.adaption is not None:
            lines += self._adapts(time, given.adaption)
        rises = [
            f"{self._greatest} = {time}",
            # The disorder is that of what came since the greatest time rose, so before both heaps are one
            *self._widens(f"{time} - {prefix}_at[{self._fresh}]"),
            f"{self._held} = {self._melded(self._held, self._fresh)}",
            f"{self._fresh} = -1",
            *self._releases(self._held, f"{self._greatest} - {prefix}_at[{self._held}] >= {self._k}", sends=True),
        ]
        return [*lines, f"if {time} > {self._greatest}:", *indent(rises)]

    def _widens(self, span: str) -> list[str]:
        """Return what lets the slack be as long as the disorder, given source of that."""
        limit = self._reordered.limit
        if self._reordered.adaption is None:
            return [f"{self._k} = max({self._k}, min({span}, {limit}))"]
        alpha = f"{self.prefix}_adapting[3 * {self._at}]"
        return [
            f"span = {span}",
            f"if span > {self._k}:",
            f"    {self._k} = round_long(span * {alpha}) if span < {limit} else {limit}",
        ]

    def _releases(self, heap: str, test: str, sends: bool = False) -> list[str]:
        """Return what lets the first events of a heap go, as long as a condition holds."""
        prefix = self.prefix
        return [
            f"while {heap} >= 0 and {test}:",
            f"    d = {heap}",
            *([f"    {self._sent} = {prefix}_at[d]"] if sends else []),
            f"    {heap} = {self._melded(f'{prefix}_next[d]', f'{prefix}_other[d]')}",
            # What was held comes from no event of this call
            *indent(self.lets_pass(self._kept, f"{prefix}_ts[d]", "0")),
            f"    give_back({prefix}_free, {prefix}_next, d)",
            f"    {self._size} -= 1",
        ]

    def _kept(self, place: int) -> Value:
        """Return the value of an attribute of the event of node ``d``."""
        type = self.query.read.types[place]
        values, nulls = self.whole.attribute(f"{self.prefix}_w", place, type, self._nodes)
        return Value(f"{values}[d]", f"{nulls}[d] != 0", type)

    # The slack that is adapted.

    def _notes(self, time: str, adaption: Adaption) -> list[str]:
        """Return what notes the time and the value of an event."""
        arrays, prefix = self.whole.arrays, f"{self.prefix}_s"
        for name, dtype in (("at", NUMBER), ("value", REAL), ("after", NUMBER)):
            arrays.declare(f"{prefix}_{name}", dtype, f"nodes {prefix}", "-1" if name == "after" else "0")
        arrays.free_list(f"{prefix}_free")
        first, last, batch = (self.own(f"s_{name}", fill="-1") for name in ("first", "last", "batch"))
        self.own("counted")
        self.own("slack")
        arrays.declare(f"{self.prefix}_adapting", REAL, self.query.instances, "0", width=3)
        return [
            f"low = allot({prefix}_free, {prefix}_after)",
            f"{prefix}_at[low], {prefix}_value[low] = {time}, {self.attribute(adaption.value).text}",
            f"{prefix}_after[low] = -1",
            f"if {first} < 0:",
            f"    {first} = low",
            # Arrays begin with zeros, but alpha begins with 1
            f"    if {self._number} == 0:",
            f"        {self.prefix}_adapting[3 * {self._at}] = 1.0",
            "else:",
            f"    {prefix}_after[{last}] = low",
            f"{last} = low",
            f"if {batch} < 0:",
            f"    {batch} = low",
        ]

    def _adapts(self, time: str, adaption: Adaption) -> list[str]:
        """Return what adapts the slack at the end of a batch."""
        counted, slack = self.own("counted"), self.own("slack")
        first, error, before = (f"{self.prefix}_adapting[3 * {self._at}{place}]" for place in ("", " + 1", " + 2"))
        batch, pool = self.own("s_batch", fill="-1"), f"{self.prefix}_s"
        needed = f"{batch}, {pool}_value, {pool}_after, {adaption.threshold!r}, {adaption.critical_squared!r}"
        covered = f"{time} - {slack}, {pool}_first, {pool}_last, {self._at}, {pool}_at, {pool}_after, {pool}_free"
        change = f"{WEIGHTS[0]} * error + {WEIGHTS[1]} * (error - {error})"
        return [
            f"{counted} += 1",
            f"if {counted} > {adaption.batch_size}:",
            f"    error = share_needed({needed})",
            f"    error -= share_covered({covered}) if {slack} != 0 else 1.0",
            f"    alpha = abs({before} + {change})",
            f"    {first}, {error}, {before} = alpha, error, alpha",
            f"    {slack} = min(round_long(alpha * {self._k}), {self._k})",
            f"    {batch}, {counted} = -1, 0",
        ]

    # Timers.

    def wakes_with(self, query: Callable[[], list[str]]) -> list[str]:
        """Return what is done when the timer of a key is due; see `ProcessorWriter.wakes_with`."""
        assert self._timer is not None
        self._declare()
        given, prefix = self._reordered, self.prefix
        # By time `kslack` releases only what was there when the greatest time rose last, `akslack` all
        heaps = [self._held] if given.adaption is None else [self._held, self._fresh]
        old = f"due + {given.timeout}"
        released = [line for heap in heaps for line in self._releases(heap, f"{prefix}_at[{heap}] < {old}")]
        return self._timer.wakes(
            [
                f"{self._going} = 0",
                *released,
                f"{self._waits} = {' and '.join(f'{heap} < 0' for heap in heaps)}",
                f"if {self._waits} == 0:",
                f"    {self._tick} += {TICK_MS}",
                f"    {self._timer.asks(self._tick)}",
                *self._goes_on(query()),
            ]
        )

    def begins(self) -> list[str]:
        """Return what begins with the first event of a key."""
        if self._timer is None:
            return []
        self._declare()
        for room in (f"dues {self.prefix}", "timers"):
            self.whole.count(room, Most({EACH: 1}))
        asks = [f"{self._tick} = now + {self._reordered.timeout}", self._timer.asks(self._tick)]
        return [f"if {self._tick} < 0:", *indent(asks)]


class ReorderStates(ProcessorStates):
    """The state of a stream processor that puts events in order: heaps of events, times, the slack that is adapted."""

    def fresh(self) -> Any:
        """Return the state of a stream processor that has seen nothing."""
        state: list[Any] = [{}, {}, [0, -1, 0, -1, False], []]
        return state if self.processor.adaption is None else [state, [[], [], 0, 1.0, 0, [0.0, 0.0]]]

    def load_columns(self, running: Running, query: QueryText, front: QueryText, numbers: Any, states: Column) -> None:
        """Take over the events that are held, of each key of a partition, the times, and the wake-ups asked for."""
        if self.processor.adaption is not None:
            states, adapting = states.parts(2)
            _load_adapting(running, front, numbers, adapting)
        fresh, held, own, dues = states.parts(4)
        for name, values in zip(_TIMES, own.parts(5), strict=True):
            if f"{front.name}_{name}" in running.arrays:
                running.arrays[f"{front.name}_{name}"][numbers] = numbers_of(values)[0]
        # What was there when the greatest time rose last has come before all else
        _load_heaps(running, query, front, numbers, {"held": held, "fresh": fresh})
        if self.processor.timed:
            load_dues(running, front, numbers, dues, PROCESSOR)

    def stored_columns(self, running: Running, front: QueryText, count: int) -> Column:
        """Return what so many keys of a partition hold, and the wake-ups asked for."""
        arrays, prefix = running.arrays, front.name
        *times, waits = (
            numpy.full(count, first) if array is None else array[:count]
            for array, first in ((arrays.get(f"{prefix}_{name}"), first) for name, first in _TIMES.items())
        )
        heaps = [_stored_heaps(running, front, name, count) for name in ("fresh", "held")]
        own = StructColumn(list, [*map(NumberColumn, times), NumberColumn(waits != 0)])
        dues = stored_dues(running, front, count, PROCESSOR) if self.processor.timed else nothing(count)
        held = StructColumn(list, [*heaps, own, dues])
        return held if self.processor.adaption is None else StructColumn(list, [held, _adapting(running, front, count)])


def _load_heaps(
    running: Running, query: QueryText, front: QueryText, numbers: Any, heaps: Mapping[str, Column]
) -> None:
    """Take over events by their times: heaps whose nodes follow one another, in their order."""
    prefix, first, sizes = front.name, 0, numpy.zeros(len(numbers), numpy.int64)
    total = sum(int(heap.entries()[1].sizes().sum()) for heap in heaps.values())
    running.reserve(f"nodes {prefix}", total)
    arrays = running.arrays
    # Nodes in their order are a heap, of which each has only the next one below it
    arrays[f"{prefix}_next"][:total], arrays[f"{prefix}_other"][:total] = numpy.arange(1, total + 1), -1
    for name, heap in heaps.items():
        (keys, lists), owners = heap.entries(), numpy.repeat(numpy.arange(len(numbers)), heap.sizes())
        times, _ = numbers_of(keys)
        if ((times >= FAR) | (times <= -FAR)).any():
            raise ValueError("a time near the limits of a long")
        order = numpy.lexsort((times, owners))
        lists, owners, times = lists.at(order), owners[order], times[order]
        many = lists.sizes()
        owners, last = numpy.repeat(owners, many), first + int(many.sum())
        _, *event = lists.items_held().parts(3)
        events = StructColumn(tuple, event)
        if last > first:
            _looks_at_nulls(query, event[1])
            fill_nodes(running, front, first, events, numbers[owners], total=False)
        arrays[f"{prefix}_at"][first:last] = numpy.repeat(times, many)
        own = numpy.bincount(owners, minlength=len(numbers))
        begins, some = first + numpy.cumsum(own) - own, own > 0
        arrays[f"{prefix}_{name}"][numbers[some]] = begins[some]
        arrays[f"{prefix}_next"][(begins + own)[some] - 1] = -1
        first, sizes = last, sizes + own
    arrays[f"{prefix}_came"][:total] = numpy.arange(total)
    # What comes now is behind all that is held
    arrays[f"{prefix}_number"][numbers] = total
    arrays[f"{prefix}_size"][numbers] = sizes
    arrays[f"{prefix}_free"][:] = (-1, total)


def _looks_at_nulls(query: QueryText, rows: Column) -> None:
    """Raise ValueError where the window behind has no place for a null."""
    window = query.read.window
    if window is not None:
        parts = rows.parts(int(rows.sizes()[0]))
        if not all(parts[place].known().all() for place in window.known):
            raise ValueError("a window whose attribute may not be null")


def _stored_heaps(running: Running, front: QueryText, name: str, count: int) -> Column:
    """Return the events of so many heaps by their times."""
    arrays, prefix = running.arrays, front.name
    following, other = arrays[f"{prefix}_next"], arrays[f"{prefix}_other"]
    ends, (order, left) = numpy.zeros(count + 1, numpy.int64), numpy.empty((2, len(following)), numpy.int64)
    running.compiled.kernels.walk_heaps(arrays[f"{prefix}_{name}"][:count], following, other, count, order, ends, left)
    nodes, owners = order[: ends[-1]], numpy.repeat(numpy.arange(count), numpy.diff(ends))
    times = arrays[f"{prefix}_at"]
    own = numpy.lexsort((arrays[f"{prefix}_came"][nodes], times[nodes], owners))
    nodes, owners = nodes[own], owners[own]
    begins = numpy.append(True, (times[nodes][1:] != times[nodes][:-1]) | (owners[1:] != owners[:-1]))[: len(nodes)]
    firsts = numpy.flatnonzero(begins)
    event = events_of_nodes(running, front, nodes).parts(2)
    events = StructColumn(tuple, [NumberColumn(numpy.full(len(nodes), CURRENT)), *event])
    lists = ListColumn(list, NumberColumn(numpy.diff(numpy.append(firsts, len(nodes)))), events)
    sizes = numpy.bincount(owners[firsts], minlength=count)
    return MapColumn(NumberColumn(sizes), NumberColumn(times[nodes[firsts]]), lists)


# The slack that is adapted.


def _load_adapting(running: Running, front: QueryText, numbers: Any, states: Column) -> None:
    values, times, *rest, before = states.parts(6)
    prefix, sizes, looked_at = f"{front.name}_s", times.sizes(), values.sizes()
    total = int(sizes.sum())
    running.reserve(f"nodes {prefix}", total)
    arrays, some, is_open = running.arrays, sizes > 0, looked_at > 0
    arrays[f"{prefix}_free"][:] = (-1, total)
    arrays[f"{prefix}_at"][:total] = numbers_of(times.items_held())[0]
    ends = numpy.cumsum(sizes)
    # The values of the open batch are those of the events that came last
    arrays[f"{prefix}_value"][ranges(ends - looked_at, looked_at)] = numbers_of(values.items_held())[0]
    arrays[f"{prefix}_after"][:total] = numpy.arange(1, total + 1)
    arrays[f"{prefix}_after"][ends[some] - 1] = -1
    arrays[f"{prefix}_first"][numbers[some]] = (ends - sizes)[some]
    arrays[f"{prefix}_last"][numbers[some]] = ends[some] - 1
    arrays[f"{prefix}_batch"][numbers[is_open]] = (ends - looked_at)[is_open]
    counted, alpha, slack = (numbers_of(one)[0] for one in rest)
    arrays[f"{front.name}_counted"][numbers], arrays[f"{front.name}_slack"][numbers] = counted, slack
    for part, own in enumerate((alpha, *(numbers_of(one)[0] for one in before.parts(2)))):
        arrays[f"{front.name}_adapting"][3 * numbers + part] = own


def _adapting(running: Running, front: QueryText, count: int) -> Column:
    arrays, prefix = running.arrays, f"{front.name}_s"

    def listed(name: str, of: str) -> Column:
        sizes, order = walked(running, arrays[f"{prefix}_{name}"][:count], arrays[f"{prefix}_after"])
        return ListColumn(list, NumberColumn(sizes), NumberColumn(arrays[f"{prefix}_{of}"][order]))

    values, times = listed("batch", "value"), listed("first", "at")
    counted, slack = (arrays[f"{front.name}_{name}"][:count] for name in ("counted", "slack"))
    alpha, *before = arrays[f"{front.name}_adapting"][: 3 * count].reshape(-1, 3).T
    # Before the first event the loop has not written that alpha begins with 1
    fresh = (times.sizes() == 0) & (counted == 0) & (slack == 0) & (alpha == 0)
    numbers = map(NumberColumn, (counted, numpy.where(fresh, 1.0, alpha), slack))
    return StructColumn(list, [values, times, *numbers, StructColumn(list, list(map(NumberColumn, before)))])
