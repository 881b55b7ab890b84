"""Lazy expiry: joins whose leaving events show nothing, written into one function for each side, without timers.

Where a join puts out current events only and keeps no totals, an event that leaves a window changes nothing but what
the other side finds. Then a ``time`` window needs no wake-up: what is over is taken off when somebody next looks. Each
side is one generated function that takes off what is over, holds the event under its key, and makes the results from
the partners of the key. Both give the same as `spdist.operators.joins.join.JoinQuery`, which takes over with the first
event that comes out of order: only a timer knows when such an event leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.operators.base import CURRENT, Arrival, Row
from spdist.operators.core.handlers import Flow, StreamProcessorPlan
from spdist.operators.core.junction import DirectTarget, Receive, ReceiveChunk
from spdist.operators.core.parameters import constant_values
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.lookup import Equality, StoredReader, conjuncts, equalities
from spdist.operators.expressions.pushdown import names_store
from spdist.operators.joins.join import JoinPlan, JoinQuery
from spdist.operators.joins.sides import ROWS, SidePlan
from spdist.operators.queries.plans import Place, QueryInstance, ReceiveEvents
from spdist.operators.tables.stores import Index

__all__ = ["LazyExpiryJoin", "LazyExpiryJoinPlan"]

#: Later than every event: a side whose `latest` it is hands each event over.
_ALWAYS_LATE = 2**63
_NEVER = -(2**63)


class LazyExpiryJoinPlan(JoinPlan):
    """A query over a join, whose instances expire events lazily where they can."""

    #: Whether instances may have it.
    may_be_lazy = True

    def instance(self, place: Place) -> QueryInstance:
        """Return a new instance."""
        plain = JoinQuery(self, place)
        return (_lazy_join(self, place, plain) if self.may_be_lazy else None) or plain


@dataclass(slots=True)
class _SideRows:
    """What a side of a join with lazy expiry holds.

    Parameters
    ----------
    position : int
        0 for the left side, 1 for the right side.
    attributes : tuple of int
        Those that are the key by which the other side looks.
    wanted : int, optional
        The only attribute that is used of a partner.
    size : int
        Of the window: ms, or events.
    timed : bool
        Whether it is a window of time.

    State
    -----
    ``events``: as the window would hold them, and those that are over and not taken off yet; ``rows``: the same rows by
    key, or of each row the only value that is `wanted` of it; ``latest``: greatest timestamp so far.
    """

    position: int
    attributes: tuple[int, ...]
    wanted: int | None
    size: int
    timed: bool
    events: deque[Arrival] = field(default_factory=deque)
    rows: dict[Any, deque[Any]] = field(default_factory=dict)
    latest: list[int] = field(default_factory=lambda: [_NEVER])

    def clear(self) -> None:
        """Forget everything."""
        self.events.clear()
        self.rows.clear()
        self.latest[0] = _NEVER

    def over(self, now: int) -> None:
        """Take off what is over at `now`."""
        while self.timed and self.events and self.events[0][0] + self.size <= now:
            key = self._key(self.events.popleft()[1])
            if key is not None:
                self.rows[key].popleft()
                if not self.rows[key]:
                    del self.rows[key]

    def _hold(self, events: Sequence[Arrival]) -> None:
        """Hold `events` and nothing else."""
        self.clear()
        self.events.extend(events)
        for _, row in events:
            key = self._key(row)
            if key is not None:
                self.rows.setdefault(key, deque()).append(row if self.wanted is None else row[self.wanted])

    def _key(self, row: Row) -> Any:
        if len(self.attributes) == 1:
            return row[self.attributes[0]]
        key = tuple(row[attribute] for attribute in self.attributes)
        return None if None in key else key

    def wake_ups(self) -> list[int]:
        """Return when the window would wake: once for each timestamp."""
        return list(dict.fromkeys(timestamp + self.size for timestamp, _ in self.events))

    def snapshot(self, now: int) -> Any:
        """Return the state as the window would."""
        self.over(now)
        events = deque(self.events)
        return [events, self.latest[0], self.wake_ups()] if self.timed else events

    def restore(self, state: Any, now: int) -> bool:
        """Take over the state of a window; tells whether it is one that needs no timer."""
        if not self.timed:
            self._hold(state)
            return True
        events, latest, due = state
        self._hold(events)
        self.latest[0] = latest
        times = [timestamp for timestamp, _ in events]
        # Where wake-ups and times differ, a timer decides when a late event leaves.
        ordered = times == sorted(times) and all(time + self.size > now for time in times)
        return ordered and due == self.wake_ups() and (not times or times[-1] == latest)


def _lazy_join(plan: JoinPlan, place: Place, eager: JoinQuery) -> LazyExpiryJoin | None:
    """Return the lazy form of a join outside of partitions, given the plain one; None where it has none."""
    target = eager.limit.sink.direct_target()
    if target is None or not _may_expire_lazily(plan):
        return None
    writers = [_Writer(plan, side) for side in plan.sides]
    held: list[_SideRows | None] = []
    for side in plan.sides:
        attributes = tuple(equality.attribute for equality in writers[1 - side.position].keys)
        held.append(_held(side, attributes, writers[1 - side.position].wanted))
        timed = held[-1] is not None and held[-1].timed
        if (side.call is not None and held[-1] is None) or (timed and _fed(plan, place)):
            return None
    indexes: list[Index | None] = [None, None]
    for side, writer in zip(plan.sides, writers, strict=True):
        if side.triggers and not writer.can_find(held[1 - side.position], plan.stores):
            return None
        keys = tuple(equality.attribute for equality in writers[1 - side.position].keys)
        if side.kind == "table" and keys:  # without them nobody looks there
            indexes[side.position] = plan.stores[side.source.stream_id].index(keys)
    return LazyExpiryJoin(plan, place, eager, held, indexes, writers, target)


def _fed(plan: JoinPlan, place: Place) -> bool:
    """Tell whether events can come from inside the app, and so while timers of the same time are still to fire."""
    return any(side.kind == "stream" and place.is_fed(side.source.stream_id) for side in plan.sides)


def _held(side: SidePlan, attributes: tuple[int, ...], wanted: int | None) -> _SideRows | None:
    if side.call is None or side.call.id not in ("time", "length") or not attributes:
        return None
    size = constant_values(side.call.args)[0]
    if side.call.id == "length" and size <= 0:
        return None
    return _SideRows(side.position, attributes, wanted, size, side.call.id == "time")


def _may_expire_lazily(plan: JoinPlan) -> bool:
    """Tell whether an event that leaves shows nothing, and no expression of the query can fail."""
    select = plan.checked.query.select
    if plan.expects_expired or plan.resets or plan.same or plan.rate is not None or plan.checked.partition is not None:
        return False
    if select.group_by or select.having or select.order_by or select.limit or select.offset or plan.input.per:
        return False
    if any(side.kind not in ("stream", "table") for side in plan.sides):
        return False
    if any(isinstance(stage, StreamProcessorPlan) for side in plan.sides for stage in side.handlers):
        return False
    expressions = [item.expression for item in select.items] + list(conjuncts(plan.input.on))
    return all(_cannot_fail(expression, plan) for expression in expressions)


_SAFE = (ast.Variable, ast.Literal, ast.TimeLiteral, ast.IsNull, ast.Not, ast.Binary)
_COMPARING = ("and", "or", "==", "!=", "<", "<=", ">", ">=")
_NUMBERS = {Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE}


def _cannot_fail(expression: ast.Expression, plan: JoinPlan) -> bool:
    scope, catalog = plan.checked.scope, plan.catalog
    for node in expression.walk():
        if isinstance(node, ast.Expression) and not isinstance(node, _SAFE):
            return False
        if isinstance(node, ast.Binary) and node.op not in _COMPARING:
            types = {type_of(part, scope, catalog) for part in (node.left, node.right)}
            if not types <= _NUMBERS:
                return False
    return True


class _Writer:
    """Writes what one side does with its events."""

    def __init__(self, plan: JoinPlan, side: SidePlan) -> None:
        self.plan = plan
        self.side = side
        self.own, self.other = side.position, 1 - side.position
        self.row = ROWS[self.own]
        scope: Scope = plan.checked.scope
        self.keys: list[Equality] = equalities(plan.input.on, scope, self.other, plan.catalog)
        answered = [equality.condition for equality in self.keys]
        self.tests = [part for part in conjuncts(plan.input.on) if not any(part is each for each in answered)]
        #: The only attribute of a partner that is used; None where there are several, or none.
        self.wanted = self._wanted(scope)

    def _wanted(self, scope: Scope) -> int | None:
        items = [item.expression for item in self.plan.checked.query.select.items]
        named = (node for part in (*items, *self.tests) for node in part.walk() if isinstance(node, ast.Variable))
        used = {own.attribute for own in map(scope.resolve, named) if own.source == self.other}
        return used.pop() if len(used) == 1 and items else None

    def can_find(self, other: _SideRows | None, stores: Mapping[str, Any]) -> bool:
        """Tell whether the side finds its partners by key, or never finds any."""
        against = self.plan.sides[self.other]
        if against.kind == "table":
            index = stores[against.source.stream_id].index(tuple(e.attribute for e in self.keys)) if self.keys else None
            return index is not None and set(index.attributes) == {e.attribute for e in self.keys}
        return against.call is None or other is not None

    def source(self, held: Sequence[_SideRows | None], index: Index | None, bindings: Bindings) -> list[str]:
        """Return the functions ``process`` and ``process_chunk`` of this side."""
        own, other = held[self.own], held[self.other]
        looking = self._looking(other, index, bindings, "{row}") if self.side.triggers else []
        all_looking = self._looking(other, index, bindings, "(ts, {row})") if self.side.triggers else []
        now = ["now = clock.now"] if (own and own.timed) or (other and other.timed) else []
        off = [] if own and own.timed else ["if off:", f"    return slow({self.own}, arrivals)"]
        hold = _holding(own, self.row) if own else []
        late = _late(own) if own and own.timed else off
        # Before the event is held or looks: the timers of the plain form would have fired by now.
        over = [
            *(_taking_off(own) if own and own.timed else []),
            *(_taking_off(other) if other and other.timed else []),
        ]
        row = self.row
        single = [*now, *([line.replace("arrivals", f"((ts, {row}),)") for line in late]), *over, *hold]
        single += ["out = []", *looking, *_TELL_ONE] if looking else []
        check = late
        # All are checked before one is held: the plain form gets the whole chunk, or nothing of it.
        if own and own.timed:
            check = [f"last = latest{self.own}[0]", "for ts, _ in arrivals:", *indent(late[:2]), "    last = ts"]
            check += [f"latest{self.own}[0] = last"]
            check = [line.replace(f"ts < latest{self.own}[0]", "ts < last") for line in check]
        chunk = [*now, *check, *over, "out = []"]
        chunk += [f"for ts, {row} in arrivals:", *indent(hold or ["pass"])]
        chunk += [f"for ts, {row} in arrivals:", *indent(all_looking), *_TELL] if looking else []
        return [
            f"def process{self.own}(ts, {row}):",
            *indent(single or ["pass"]),
            f"def process_chunk{self.own}(arrivals):",
            *indent(chunk),
        ]

    def _looking(self, other: _SideRows | None, index: Index | None, bindings: Bindings, form: str) -> list[str]:
        """Return what adds an event's results to ``out``, each written as `form` says."""
        around, inside = Frame(), Frame()
        outer = self.plan.reader(around, bindings)
        partner = ROWS[self.other]
        made = StoredReader if other is None or other.wanted is None else _ValueReader
        reader = made(self.plan.checked.scope, self.other, self.plan.catalog, inside, partner, outer)
        alone = self._alone(bindings, form)
        if other is None and index is None:
            return alone
        lines, found = self._key(index, around, bindings)
        writer = ExpressionWriter(reader, inside, bindings)
        tests: list[str] = []
        for part in self.tests:
            test = writer.condition(part)
            tests += [*inside.assignments(), f"if not {test}:", "    continue"]
        values = [self._value(item.expression, reader, writer) for item in self.plan.checked.query.select.items]
        result = form.format(row=f"({''.join(f'{value}, ' for value in values)})" if values else "l + r")
        each = partner if index is None else f"_, {partner}"
        lines += around.assignments()
        assigning = inside.assignments()
        if not tests and not assigning:
            into = "out =" if form == "{row}" else "out +="
            lines += [f"found = {found}", "if found:", f"    {into} [{result} for {each} in found]"]
            return [*lines, *(["else:", *indent(alone)] if alone else [])]
        loop = [f"for {each} in ({found}) or ():", *indent([*tests, *assigning, f"out.append({result})"])]
        if not alone:
            return [*lines, *loop]
        return [*lines, "before = len(out)", *loop, "if len(out) == before:", *indent(alone)]

    def _value(self, expression: ast.Expression, reader: StoredReader, writer: ExpressionWriter) -> str:
        """Return source of a selected value; an attribute of the event itself is read once, in front of the loop."""
        if not isinstance(expression, ast.Variable):
            return writer.write(expression).text
        own = self.plan.checked.scope.resolve(expression).source == self.own
        return reader.variable(expression).text if own else reader.bare(expression)

    def _key(self, index: Index | None, frame: Frame, bindings: Bindings) -> tuple[list[str], str]:
        """Return what computes the key, and source of the partners; a null in it finds none."""
        by_attribute = {equality.attribute: equality for equality in self.keys}
        attributes = tuple(by_attribute) if index is None else index.attributes
        writer = ExpressionWriter(self.plan.reader(frame, bindings), frame, bindings)
        parts = [writer.write(by_attribute[attribute].value).text for attribute in attributes]
        lines = [*frame.assignments(), *(f"key{number} = {part}" for number, part in enumerate(parts))]
        names = [f"key{number}" for number in range(len(parts))]
        whole = names[0] if len(names) == 1 else f"({', '.join(names)})"
        if index is None:  # rows with nulls in their keys are under no key
            return lines, f"rows{self.other}.get({whole})"
        scope = self.plan.checked.scope
        if index.nulls and not any(names_store(part, scope, self.other) for part in self.tests):
            return lines, f"find{self.other}({whole})"
        given = " and ".join(f"{name} is not None" for name in names)
        return lines, f"find{self.other}({whole}) if {given} else ()"

    def _alone(self, bindings: Bindings, form: str) -> list[str]:
        """Return what adds the result of an event without partner."""
        if not self.side.outer:
            return []
        frame = Frame()
        reader = self.plan.reader(frame, bindings)
        missing = f"{ROWS[self.other]} = {reader.missing_rows[self.other]}"
        writer = ExpressionWriter(reader, frame, bindings)
        values = [writer.write(item.expression).text for item in self.plan.checked.query.select.items]
        result = form.format(row=f"({''.join(f'{value}, ' for value in values)})" if values else "l + r")
        return [missing, *frame.assignments(), f"out.append({result})"]


class _ValueReader(StoredReader):
    """Reads the only attribute that is wanted of a partner, where that is all that is held."""

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute."""
        reference = self.scope.resolve(variable)
        if reference.source != self.position:
            return self.outer.variable(variable)
        return Code(self.row, reference.type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        return self.variable(variable).value


#: What hands over the results of a chunk, and those of one event: directly to who watches, where nobody else gets them.
_TELL = ["if out:", "    if observers:", "        shown(out)", "    else:", "        insert(out)"]
_TELL_ONE = [
    "if out:",
    "    if observers:",
    "        shown([(ts, row) for row in out])",
    "    else:",
    "        insert_rows(ts, out)",
]


def _late(held: _SideRows) -> list[str]:
    p = held.position
    return [
        f"if ts < latest{p}[0] or ts + {held.size} <= now:",
        f"    return slow({p}, arrivals)",
        f"latest{p}[0] = ts",
    ]


def _key_of(held: _SideRows, row: str) -> tuple[str, str]:
    """Return source of a row's key, and of the condition under which it has one."""
    if len(held.attributes) == 1:
        return f"{row}[{held.attributes[0]}]", "key is not None"
    parts = ", ".join(f"{row}[{attribute}]" for attribute in held.attributes)
    return f"({parts})", "None not in key"


def _holding(held: _SideRows, row: str) -> list[str]:
    p = held.position
    key, has_key = _key_of(held, row)
    kept = row if held.wanted is None else f"{row}[{held.wanted}]"
    lines = [f"events{p}.append((ts, {row}))", f"key = {key}", f"if {has_key}:"]
    lines += [f"    under = rows{p}.get(key)", "    if under is None:", f"        rows{p}[key] = deque(({kept},))"]
    lines += ["    else:", f"        under.append({kept})"]
    if held.timed:
        return lines
    return [*lines, f"if len(events{p}) > {held.size}:", *indent(_dropping(held))]


def _taking_off(held: _SideRows) -> list[str]:
    p = held.position
    return [f"while events{p} and events{p}[0][0] + {held.size} <= now:", *indent(_dropping(held))]


def _dropping(held: _SideRows) -> list[str]:
    p = held.position
    key, has_key = _key_of(held, "gone")
    lines = [f"gone = events{p}.popleft()[1]", f"key = {key}", f"if {has_key}:", f"    under = rows{p}[key]"]
    return [*lines, "    if len(under) > 1:", "        under.popleft()", "    else:", f"        del rows{p}[key]"]


class LazyExpiryJoin:
    """An instance of a join that expires events lazily (`spdist.operators.queries.plans.QueryInstance`).

    State
    -----
    The rows of both sides by key, and in order; once an event came out of order, that of `JoinQuery`, for good. A
    snapshot is the same in both forms.
    """

    def __init__(
        self,
        plan: JoinPlan,
        place: Place,
        eager: JoinQuery,
        held: list[_SideRows | None],
        indexes: list[Index | None],
        writers: list[_Writer],
        target: DirectTarget,
    ) -> None:
        self.clock = place.clock
        self.eager = eager
        self.held = held
        self.sink = eager.limit.sink
        #: Holds something once the plain form has taken over.
        self.off: list[bool] = []
        bindings = Bindings()
        lines = [line for writer in writers for line in writer.source(held, indexes[writer.other], bindings)]
        names: dict[str, Any] = {
            "deque": deque,
            "clock": place.clock,
            "slow": self._slow,
            "off": self.off,
            "observers": plan.observers,
            "shown": self._shown,
            "insert": target.receive_chunk,
            "insert_rows": target.receive_rows,
        }
        for position, (one, index) in enumerate(zip(held, indexes, strict=True)):
            if one is not None:
                names |= {f"events{position}": one.events, f"rows{position}": one.rows, f"latest{position}": one.latest}
            if index is not None:
                names[f"find{position}"] = index.lookup
        made = build(f"{plan.name} lazy", lines, bindings.names)
        made.update(names)
        self.event_receivers: Mapping[str, ReceiveEvents] = {}
        self.receivers: dict[str, tuple[Receive, ReceiveChunk]] = {}
        for side in plan.sides:
            if side.kind == "stream":
                flow = side.entry(
                    Flow(made[f"process{side.position}"], made[f"process_chunk{side.position}"]), place.clock
                )
                self.receivers[side.source.stream_id] = (flow.process, flow.process_chunk)

    def _shown(self, arrivals: list[Arrival]) -> None:
        self.sink.receive_chunk([(CURRENT, timestamp, row) for timestamp, row in arrivals])

    def _slow(self, position: int, arrivals: Sequence[Arrival]) -> None:
        """Let the plain form take over, and give it what came."""
        if not self.off:
            self.eager.restore(self.snapshot())
            self._leave()
        # Behind the handlers, which these events have passed already.
        flow = self.eager.inner[position]
        if len(arrivals) == 1:
            flow.process(*arrivals[0])
        else:
            flow.process_chunk(arrivals)

    def _leave(self) -> None:
        self.off.append(True)
        for held in self.held:
            if held is not None:
                held.clear()  # The plain form holds these rows from here on
                held.latest[0] = _ALWAYS_LATE

    def start(self) -> None:
        """Begin."""
        self.eager.start()

    def snapshot(self) -> Any:
        """Return the state as `JoinQuery` does."""
        if self.off:
            return self.eager.snapshot()
        now = self.clock.now
        *before, _, _ = self.eager.snapshot()  # Windows come last there
        return [*before, *(None if held is None else held.snapshot(now) for held in self.held)]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.off.clear()
        now = self.clock.now
        for held, stored in zip(self.held, state[-2:], strict=True):
            if held is not None and not held.restore(stored, now):
                self._leave()
                self.eager.restore(state)
                return
