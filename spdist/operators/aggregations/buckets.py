"""The buckets of an aggregation as specialised Python: how an event changes one, how two are merged, how one is read.

A bucket of one group is a list of slots: the group's values, the values of its latest event, and *base values* that can
be merged, such as a sum and a count where an average is selected.

Source: io.siddhi.core.aggregation.BaseIncrementalValueStore and io.siddhi.core.query.selector.attribute.aggregator
.incremental, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spdist.functions.forms import Code
from spdist.java import numbers
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.checking.expressions import type_of
from spdist.language.types import Type
from spdist.operators.aggregations.time import instant
from spdist.operators.base import Row, VirtualClock
from spdist.operators.core.junction import LoopMaker
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import RowReader, key_part

__all__ = ["BucketPlan", "Buckets", "Groups"]

#: The groups of one bucket: key → slots.
Groups = dict[Any, list[Any]]

_REALS = (Type.FLOAT, Type.DOUBLE)
#: What aggregators are computed from: the kinds of their slots.
_BASES = {
    "sum": ("sum",),
    "count": ("count",),
    "avg": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
    "distinctCount": ("set",),
}


@dataclass(frozen=True, slots=True)
class _Slot:
    """One slot: `kind` is group, time, last or a base; `column` is where its value comes from in an event's row."""

    kind: str
    column: int = -1
    type: Type = Type.OBJECT


@dataclass(frozen=True, slots=True)
class Buckets:
    """The generated functions of one aggregation.

    Parameters
    ----------
    process, process_chunk : Callable
        Process an event, or those of a chunk.
    loop : Callable
        Makes what takes many single events (`spdist.operators.core.junction.LoopMaker`).
    reset : Callable
        Called with when the finest open bucket ends by the clock, and its groups, whenever these are others.
    merge : Callable
        Adds groups to groups, which stay apart from each other.
    row : Callable
        From a bucket's start and slots to a row of the aggregation.
    """

    process: Callable[[int, Row], None]
    process_chunk: Callable[[Any], None]
    loop: LoopMaker
    reset: Callable[[int, Groups | None], None]
    merge: Callable[[Groups, Groups], None]
    row: Callable[[int, Sequence[Any]], Row]


class BucketPlan:
    """How the buckets of one aggregation are written.

    Parameters
    ----------
    checked : CheckedAggregation
        The definition with what its names mean.
    catalog : Catalog
        Signatures.
    shared : bool
        Whether buckets are one of several shards: then the keys of what changes are told, and values of the latest
        event keep their time (the clock's, without ``aggregate by``).

    Attributes
    ----------
    group : tuple of int
        Positions of the ``group by`` attributes in the input's rows.
    shown : dict of int to int
        Where a group's attribute stands in the rows that are read: position in the input → in the output.
    timed : bool
        Whether the first slot is the time of the latest event.
    """

    def __init__(self, checked: CheckedAggregation, catalog: Catalog, shared: bool = False) -> None:
        self.checked = checked
        self.catalog = catalog
        self.shared = shared
        self.scope = checked.scope
        self.select = checked.select
        self.bindings = Bindings()
        self.slots: list[_Slot] = []
        self.computed: list[ast.Expression] = []
        self.group = tuple(self._position(variable) for variable in self.select.group_by)
        self.shown: dict[int, int] = {}
        by = checked.definition.aggregate_by
        self.by = None if by is None else self._position(by)
        self._parses_time = self.by is not None and self._types[self.by] is Type.STRING
        if self._parses_time:
            assert by is not None
            self.by = self._column(by)
        self.timed = (shared or by is not None) and any(self._keeps_time(item.expression) for item in self.select.items)
        if self.timed:
            self._slot("time", self.by)
        self.frame = Frame()
        self.outputs = [self._output(position, item) for position, item in enumerate(self.select.items, 1)]

    @property
    def group_types(self) -> tuple[Type, ...]:
        """The types of the attributes of ``group by``."""
        return tuple(self._types[column] for column in self.group)

    @property
    def _types(self) -> tuple[Type, ...]:
        return self.scope.sources[0].schema.types

    def _position(self, variable: ast.Variable) -> int:
        return self.scope.resolve(variable).attribute

    def _column(self, expression: ast.Expression) -> int:
        """Return the position of a value that is computed when an event arrives, behind the event's own."""
        self.computed.append(expression)
        return len(self._types) + len(self.computed) - 1

    def _slot(self, kind: str, column: int | None = None, type: Type = Type.OBJECT) -> str:
        slot = _Slot(kind, -1 if column is None else column, type)
        # Equal slots are one: a sum and an average of one attribute share their sum.
        if slot not in self.slots:
            self.slots.append(slot)
        return f"g[{self.slots.index(slot)}]"

    # What is selected.

    def _keeps_time(self, expression: ast.Expression) -> bool:
        """Tell whether a value must be the latest event's; results of functions are the last to come, unless shared."""
        if isinstance(expression, ast.FunctionCall):
            return self.shared and not self.is_base(expression)
        return not (isinstance(expression, ast.Variable) and self._position(expression) in self.group)

    def _output(self, position: int, item: ast.SelectItem) -> str:
        expression = item.expression
        if isinstance(expression, ast.Variable) and self._position(expression) in self.group:
            column = self._position(expression)
            self.shown.setdefault(column, position)
            return self._slot("group", column)
        if self.is_base(expression):
            return self.base(expression, whole=True).text  # type: ignore[arg-type]
        if any(self.is_base(node) for node in expression.walk()):
            reader = _SlotReader(self, self.frame)
            return ExpressionWriter(reader, self.frame, self.bindings, reader).write(expression).text
        return self.last(expression)

    def last(self, expression: ast.Expression) -> str:
        """Return source of a value of the latest event."""
        if isinstance(expression, ast.Variable):
            return self._slot("last", self._position(expression))
        return self._slot("last", self._column(expression))

    def is_base(self, node: Any) -> bool:
        """Tell whether a node is an aggregator."""
        return isinstance(node, ast.FunctionCall) and node.id in _BASES and node.id in self.catalog.aggregators

    def base(self, call: ast.FunctionCall, whole: bool) -> Code:
        """Return the code of an aggregator's value; `whole` where an average of whole numbers is one too."""
        argument = call.args[0] if call.args and call.id != "count" else None
        column = None if argument is None else self._position(argument)  # type: ignore[arg-type]
        type = Type.LONG if column is None else self._types[column]
        slots = []
        for kind in _BASES[call.id]:
            slots.append(self._slot(kind) if kind == "count" else self._slot(kind, column, type))
        if call.id == "distinctCount":
            return Code(f"len({slots[0]})", Type.LONG, nullable=False)
        if call.id != "avg":
            return Code(slots[0], type_of(call, self.scope, self.catalog), nullable=call.id != "count")
        quotient = f"{slots[0]} / {slots[1]}"
        if whole and type not in _REALS:
            quotient = f"{self.bindings.bind(numbers.divide_integers, 'divide_integers')}({slots[0]}, {slots[1]})"
        return Code(f"(None if {slots[0]} is None else {quotient})", Type.DOUBLE)

    # The source.

    def make(
        self,
        clock: VirtualClock,
        roll: Callable[[int], None],
        enter: Callable[[int], tuple[int, int, Groups]],
        touched: dict[Any, None],
    ) -> Buckets:
        """Return the functions for one running aggregation.

        Parameters
        ----------
        clock : VirtualClock
            The app's time.
        roll : Callable
            Closes the buckets that have ended at a time; calls ``reset``.
        enter : Callable
            From a time that is aggregated by to start and end of its bucket, and the bucket's groups.
        touched : dict
            Where buckets are shared, gets the keys of the groups that change.
        """
        lines = [
            "def make(clock, roll, enter, touched):",
            "    low = high = 0",
            "    end = -(1 << 63)",
            "    groups = None",
            *indent(self._functions()),
            "    return process, process_chunk, loop, reset, merge, row",
        ]
        made = build(f"{self.checked.id} buckets", lines, self.bindings.names)["make"](clock, roll, enter, touched)
        return Buckets(*made)

    def _functions(self) -> list[str]:
        kept = "nonlocal low, high, groups" if self.by is not None else "pass"
        rolling = ["if clock.now >= end:", "    roll(clock.now)"]
        update = self._update()
        process, chunk = ("add", "add_chunk") if self.computed else ("process", "process_chunk")
        lines = [
            "def reset(until, open_groups):",
            "    nonlocal low, high, end, groups",
            "    low, high, end, groups = 0, 0, until, open_groups",
            f"def {process}(ts, row):",
            *indent([kept, *rolling, *update]),
            f"def {chunk}(chunk):",
            *indent([kept, *rolling, "for ts, row in chunk:", *indent(update)]),
            *self._loop([kept, *rolling, *update]),
            "def merge(target, source):",
            "    for key, b in source.items():",
            "        g = target.get(key)",
            *indent(["if g is None:", *indent(self._copying()), "else:", *indent(self._merging() or ["pass"])], 2),
            "def row(ts, g):",
            *indent([*self.frame.assignments(), f"return (ts, {''.join(f'{text}, ' for text in self.outputs)})"]),
        ]
        return [*lines, *self._computing()]

    def _loop(self, body: list[str]) -> list[str]:
        """Return what makes a loop over events that come one by one, in which the update is written once more."""
        kept, *body = body
        computing = ["row = compute(ts, row)"] if self.computed else []
        steps = ["if heap and heap[0][0] <= ts:", "    move(ts)", "elif ts > clock.now:", "    clock.now = ts"]
        return [
            "def loop(drive):",
            "    heap, move, failed = drive.heap, drive.move, drive.failed",
            "    def process_events(timestamps, rows):",
            *indent([kept, "events = zip(timestamps, rows)", "while True:", "    try:"], 2),
            "                for ts, new in events:",
            *indent([*steps, "row = new", *computing, *body], 5),
            "                return",
            "            except Exception as error:",
            "                failed(((ts, new),), error)",
            "    return process_events",
        ]

    def _computing(self) -> list[str]:
        """Return what computes values for all events of a chunk first: where one fails, the whole chunk is lost."""
        if not self.computed:
            return []
        frame = Frame()
        writer = ExpressionWriter(RowReader(self.scope, self.catalog, frame), frame, self.bindings)
        values = [writer.write(expression).text for expression in self.computed]
        if self._parses_time:
            # A time that is text is the first value to be computed: `__init__` asks for it first.
            values[0] = f"{self.bindings.bind(instant, 'instant')}({values[0]})"
        return [
            "def compute(ts, row):",
            *indent([*frame.assignments(), f"return (*row, {', '.join(values)})"]),
            "def process(ts, row):",
            "    add(ts, compute(ts, row))",
            "def process_chunk(chunk):",
            "    add_chunk([(ts, compute(ts, row)) for ts, row in chunk])",
        ]

    def _update(self) -> list[str]:
        frame = Frame()
        lines = []
        if self.by is not None:
            time = frame.local(f"row[{self.by}]", f"a{self.by}")
            # Most events are of the bucket of the event before; only others look for theirs.
            lines += [*frame.assignments(), f"if not low <= {time} < high:", f"    low, high, groups = enter({time})"]
        lines += [*self._key(frame), *(["touched[key] = None"] if self.shared else []), "g = groups.get(key)"]
        values = [self._first(slot, frame) for slot in self.slots]
        changing = self._adding(frame)
        return [
            *lines,
            *frame.assignments(),
            "if g is None:",
            f"    groups[key] = [{', '.join(values)}]",
            *(["else:", *indent(changing)] if changing else []),
        ]

    def _key(self, frame: Frame) -> list[str]:
        parts = []
        for column in self.group:
            name = frame.local(f"row[{column}]", f"a{column}")
            parts.append(key_part(Code(name, self._types[column], atom=True), self.bindings))
        key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        return [*frame.assignments(), f"key = {key}"]

    def _first(self, slot: _Slot, frame: Frame) -> str:
        """Return source of a slot's value after its first event."""
        if slot.kind == "count":
            return "1"
        if slot.column < 0:
            return "clock.now"
        name = frame.local(f"row[{slot.column}]", f"a{slot.column}")
        return f"{{{self._member(name, slot.type)}}}" if slot.kind == "set" else name

    def _member(self, name: str, type: Type) -> str:
        """Return source of a value as a member of a set: as Java writes it, since Python takes no NaN for another."""
        return f"{self.bindings.bind(numbers.text_of, 'text_of')}({name})" if type in _REALS else name

    def _adding(self, frame: Frame) -> list[str]:
        """Return what an event changes in slots that are there."""
        latest, lines = [], []
        for position, slot in enumerate(self.slots):
            target = f"g[{position}]"
            if slot.kind == "group" and self._types[slot.column] is not Type.STRING:
                continue
            if slot.kind == "count":
                lines.append(f"{target} += 1")
                continue
            if slot.column < 0:
                latest.append(f"{target} = clock.now")
                continue
            name = frame.local(f"row[{slot.column}]", f"a{slot.column}")
            if slot.kind in ("time", "last", "group"):
                # Null and 'null' are one group, called by its latest event.
                latest.append(f"{target} = {name}")
            elif slot.kind == "set":
                lines.append(f"{target}.add({self._member(name, slot.type)})")
            else:
                lines += _folding(slot, target, name, self.bindings)
        # A late event adds to totals and leaves the values of the latest one alone.
        if latest and self.timed and self.by is not None:
            time = self.slots.index(_Slot("time", self.by))
            latest = [f"if a{self.by} >= g[{time}]:", *indent(latest)]
        return [*latest, *lines]

    def _merging(self) -> list[str]:
        """Return what adds the slots ``b`` to the slots ``g``."""
        latest, lines = [], []
        for position, slot in enumerate(self.slots):
            target, other = f"g[{position}]", f"b[{position}]"
            if slot.kind in ("time", "last") or (slot.kind == "group" and self._types[slot.column] is Type.STRING):
                latest.append(f"{target} = {other}")
            elif slot.kind == "count":
                lines.append(f"{target} += {other}")
            elif slot.kind == "set":
                lines.append(f"{target} |= {other}")
            elif slot.kind != "group":
                lines += [f"x = {other}", *_folding(slot, target, "x", self.bindings)]
        if latest and self.timed:
            time = self.slots.index(_Slot("time", -1 if self.by is None else self.by))
            latest = [f"if b[{time}] >= g[{time}]:", *indent(latest)]
        return [*latest, *lines]

    def _copying(self) -> list[str]:
        sets = [position for position, slot in enumerate(self.slots) if slot.kind == "set"]
        # `b[:]` has the very sets of the source, which stays apart.
        return ["target[key] = g = b[:]", *(f"g[{position}] = set(b[{position}])" for position in sets)]


def _folding(slot: _Slot, target: str, value: str, bindings: Bindings) -> list[str]:
    """Return what adds a value, or a base value, to a sum, a minimum or a maximum; null changes nothing."""
    lines = [f"if {value} is not None:", f"    v = {target}"]
    if slot.kind == "sum":
        total = f"v + {value}"
        if slot.type not in _REALS:
            wrap = bindings.bind(numbers.wrap64, "wrap64")
            limits = f"{numbers.LONG_MIN} <= (t := v + {value}) <= {numbers.LONG_MAX}"
            total = f"t if {limits} else {wrap}(t)"
        return [*lines, f"    {target} = {value} if v is None else ({total})"]
    worse = ">" if slot.kind == "min" else "<"
    return [*lines, f"    if v is None or v {worse} {value}:", f"        {target} = {value}"]


class _SlotReader(RowReader):
    """Reads what an expression around aggregators names from the slots ``g`` of a bucket."""

    def __init__(self, plan: BucketPlan, frame: Frame) -> None:
        super().__init__(plan.scope, plan.catalog, frame)
        self.plan = plan

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute: its value in the latest event."""
        return Code(self.plan.last(variable), self.scope.resolve(variable).type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        return self.plan.last(variable)

    def knows(self, call: ast.FunctionCall) -> bool:
        """Tell whether a call is an aggregator."""
        return self.plan.is_base(call)

    def value(self, call: ast.FunctionCall, lazy: bool) -> Code:
        """Return the code of an aggregator's value."""
        return self.plan.base(call, whole=False)
