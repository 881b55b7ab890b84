"""What a query puts out: projection, aggregation, ``group by``, ``having``, ``order by``, ``limit`` and ``offset``.

Written as Python source once per query. A chunk gives every row; with an aggregator only the last row that qualifies,
and with ``group by`` the last one of each group, in the order in which groups first appeared.

Source: io.siddhi.core.query.selector.QuerySelector, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema
from spdist.operators.base import CURRENT, EXPIRED, RESET, Event, Row, VirtualClock
from spdist.operators.core.junction import DirectTarget
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter, Reader
from spdist.operators.expressions.readers import InputReader, ResultReader, key_part
from spdist.operators.selection.aggregates import AggregateWriter, ResetWriter, Slots, aggregates_in
from spdist.operators.selection.arrangement import arrangement, swallows_one, unselected
from spdist.operators.tables.stores import tables_of

__all__ = ["SelectClause", "SelectorOutput", "SelectorState", "SelectorWriter", "is_aggregator"]

#: Receives one result, or the results of one chunk.
ReceiveResult = Callable[[int, int, Row], None]
ReceiveResults = Callable[[list[Event]], None]


@dataclass(frozen=True, slots=True)
class SelectorOutput:
    """Where a selector's output goes: one event, or several as one chunk.

    ``direct_target`` returns, where nobody watches the query, what receives ``(timestamp, row)`` instead: a stream.
    """

    receive: ReceiveResult
    receive_chunk: ReceiveResults
    direct_target: Callable[[], DirectTarget | None] = lambda: None


class SelectorState:
    """The running totals of one selector: those of each group, or of the whole query.

    State
    -----
    ``groups``: key → slots, dropped when a group is as good as new: O(groups); ``totals``: slots where there are no
    groups; ``having``: slots of the aggregators in ``having``, under None, or in partitions by group.
    """

    __slots__ = ("groups", "having", "totals")

    def __init__(self) -> None:
        self.groups: dict[Any, list[Any]] = {}
        self.totals: list[Any] = []
        self.having: dict[Any, list[Any]] = {}

    def snapshot(self) -> Any:
        """Return the totals as plain data."""
        return [self.groups, self.totals, self.having]

    def restore(self, state: Any) -> None:
        """Take over the totals of a snapshot, in place: generated code holds these very objects."""
        groups, totals, having = state
        self.groups.clear()
        self.groups.update(groups)
        self.totals[:] = totals
        # Emptied and not dropped: generated code holds on to these lists.
        for key in self.having.keys() - having.keys():
            self.having[key].clear()
        for key, slots in having.items():
            self.having.setdefault(key, [])[:] = slots


@dataclass(frozen=True)
class SelectClause:
    """The ``select`` clause of one query, and how it is written.

    Parameters
    ----------
    title : str
        The query's name.
    clause : ast.Selection
        What the text says.
    output : Schema
        What comes out.
    target : str
        The output's name.
    catalog : Catalog
        Signatures, for the types of calls.
    reader : Callable[[Frame, Bindings], InputReader]
        Makes a reader of the query's input.
    row : str
        The parameter that generated functions call their input.
    events : str
        Which events are put out: ``current``, ``expired`` or ``all``.
    leaving : bool
        Whether events can leave one by one.
    partitioned : bool
        Whether the query stands in a partition: there aggregators of ``having`` know groups, elsewhere they do not.
    filters : tuple of Expression
        Conditions that events must meet first.
    keyed : bool
        Whether results carry the key of their group as a fourth part, for a rate limit.
    every_row : bool
        Whether a chunk gives every row and its RESETs, for a snapshot: nothing is ordered or skipped by group then.
    falls_back : bool
        See `spdist.functions.aggregators.form_of`.
    renews : bool
        Whether chunks of events hold only current ones and RESETs: those of a window that releases batches.
    """

    title: str
    clause: ast.Selection
    output: Schema
    target: str
    catalog: Catalog
    reader: Callable[[Frame, Bindings], InputReader]
    row: str
    events: str
    leaving: bool
    partitioned: bool = False
    filters: tuple[ast.Expression, ...] = ()
    keyed: bool = False
    every_row: bool = False
    falls_back: bool = True
    renews: bool = False
    bindings: Bindings = field(default_factory=Bindings)

    @cached_property
    def makers(self) -> dict[str, Callable[..., Any]]:
        """Hold the functions that were made from source, by the form of input; see `make`."""
        return {}

    @cached_property
    def results(self) -> Scope:
        """What ``having`` and ``order by`` may name."""
        scope = self.reader(Frame(), Bindings()).scope.results(self.target, self.output)
        return replace(scope, tables=tables_of(self.catalog))

    @cached_property
    def conditions_aggregate(self) -> bool:
        """Whether ``having`` has aggregators of its own."""
        return self.clause.having is not None and aggregates_in(self.clause.having)

    def make(self, form: str, state: SelectorState, sink: SelectorOutput, clock: VirtualClock) -> Callable[..., None]:
        """Return a function that takes input, keeping totals in `state` and giving results to `sink`.

        Parameters
        ----------
        form : str
            ``"event"``: ``f(timestamp, row)``, one current event as a chunk of its own; ``"arrivals"``:
            ``f([(timestamp, row), …])``, current events of one chunk; ``"events"``: ``f([(kind, timestamp, row), …])``.
        """
        maker = self.makers.get(form)
        if maker is None:
            source = SelectorWriter(self, form).source()
            maker = self.makers[form] = build(f"{self.title} {form}", source, self.bindings.names)["make"]
        function: Callable[..., None] = maker(state, sink.receive, sink.receive_chunk, clock)
        return function

    def fill(self, state: SelectorState) -> None:
        """Put the first totals into `state`, as `make` does."""
        maker = self.makers.get("fill")
        if maker is None:
            source = SelectorWriter(self, "events").filling()
            maker = self.makers["fill"] = build(f"{self.title} fill", source, self.bindings.names)["fill"]
        maker(state)


class SelectorWriter:
    """Writes one generated function of a selector, or its part of a loop (see `spdist.operators.queries.loops`).

    Parameters
    ----------
    selection : SelectClause
        What is written.
    form : str
        A form of `SelectClause.make`; or ``"each"``, for one current event inside a loop, or ``"gone"``, for one that
        has left a window there.
    emission : tuple of str
        For ``"each"``: what hands the result ``o`` over.
    """

    def __init__(self, selection: SelectClause, form: str, emission: tuple[str, ...] = ()) -> None:
        self.selection = selection
        self.clause = selection.clause
        self.form = form
        self.emission = emission or (f"emit_one({CURRENT}, ts, o)",)
        mixed = form == "events" and not selection.renews
        self.kind = "kind" if mixed else str(EXPIRED if form == "gone" else CURRENT)
        self.skip = "return" if form == "event" else "continue"
        self.grouped = bool(self.clause.group_by)
        having = (self.clause.having,) if self.clause.having is not None else ()
        self.having_aggregates = any(aggregates_in(e) for e in having)
        self.having_by_group = self.having_aggregates and self.grouped and selection.partitioned
        self.totalled = any(aggregates_in(i.expression) for i in self.clause.items)
        self.aggregated = self.having_aggregates or self.totalled
        # Whether a chunk gives one result only, or one for each group.
        self.collapses = (self.aggregated or self.grouped) and not selection.every_row
        self.parameters = f"ts, {selection.row}"
        self.parts = f"{'kind, ' if form == 'events' else ''}{self.parameters}"
        #: Whether a chunk gives all groups as they are at a moment.
        self.snapshot = selection.every_row and self.grouped
        self.swallows_one = swallows_one(self.clause, self.snapshot)
        # Results may be computed at the end of a chunk, of the last event of each group, where nobody looks at them
        # before that, and computing them could not fail.
        alike = form in ("events", "arrivals") and self.kind == str(CURRENT) and self.clause.having is None
        alike = alike and selection.events != "expired"
        shown = self.collapses and (self.grouped or not self.swallows_one)
        self.late = alike and shown and self._items_are_plain
        #: Whether results of a chunk are arranged before they are handed over.
        self.arranges = form in ("events", "arrivals") and (self.grouped or not self.collapses) and not self.snapshot
        self._row_text = "o"
        self._settling: list[str] = []
        self._no_newest = "newest = {}" if self.grouped else "newest = None"
        everywhere = "groups.values()" if self.grouped else "(totals,)"
        falls_back = selection.falls_back
        self.slots = Slots(selection.bindings, selection.leaving, "g", everywhere, falls_back=falls_back)
        # Siddhi's `min` and `max` in `having` never fall back to an earlier value.
        self.conditions = Slots(selection.bindings, selection.leaving, "h", "", falls_back=False)

    # The whole.

    def source(self) -> list[str]:
        """Return the source of ``make``, which returns the function."""
        body = self._function()  # First: it fills the slots that the other parts list
        return [
            "def make(state, emit_one, emit_many, clock):",
            *indent(self._setup()),
            *indent(self.functions()),
            *indent(body),
            "    return process",
        ]

    def filling(self) -> list[str]:
        """Return the source of ``fill``, which puts the first totals into ``state``."""
        self._function()  # Only to fill the slots
        return ["def fill(state):", *indent([*self._setup(), "return"])]

    def _setup(self) -> list[str]:
        fresh = f"[{', '.join(self.slots.initial)}]"
        setup = self.bound()
        if self.totalled and not self.grouped:
            setup += ["if not g:", f"    g[:] = {fresh}"]
        if self.having_aggregates and not self.having_by_group:
            first = f"[{', '.join(self.conditions.initial)}]"
            setup += ["h = state.having.setdefault(None, [])", "if not h:", f"    h[:] = {first}"]
        return setup

    def bound(self) -> list[str]:
        """Return what gets at the totals of ``state``."""
        lines = []
        if self.totalled:
            lines += ["groups = state.groups" if self.grouped else "g = totals = state.totals"]
        if self.having_by_group:
            lines += ["having = state.having"]
        return lines

    def functions(self) -> list[str]:
        """Return the functions that the code calls; to be asked for after the code was written."""
        lines = []
        if self.totalled and self.grouped:
            lines += ["def fresh():", f"    return [{', '.join(self.slots.initial)}]"]
        return [*lines, *self.slots.functions, *self.conditions.functions]

    def _function(self) -> list[str]:
        if self.form == "event":
            return [f"def process({self.parameters}):", *indent(self.event())]
        loop = ["for event in chunk:", f"    {self.parts} = event"] if self.late else [f"for {self.parts} in chunk:"]
        body = self.event()
        before, after = self._around()
        if self.late:
            before, after = [*before, self._no_newest], [*self._settling, *after]
        return ["def process(chunk):", *indent([*before, *loop, *indent(body), *after])]

    def _around(self) -> tuple[list[str], list[str]]:
        """Return what stands before the loop over a chunk, and what hands the results over after it."""
        if self.collapses and not self.grouped:
            if self.swallows_one:
                return [], []
            return ["last = None"], ["if last is not None:", "    emit_one(*last)"]
        rows, empty = ("list(out.values())", "{}") if self.collapses else ("out", "[]")
        arrange = arrangement(self.clause, self.selection.results, self.snapshot, self.selection.every_row)
        if arrange is None:
            return [f"out = {empty}"], ["if out:", f"    emit_many({rows})"]
        name = self.selection.bindings.bind(arrange, "arranged")
        return (
            [f"out = {empty}"],
            ["if out:", f"    out = {name}({rows})", "    if out:", "        emit_many(out)"],
        )

    # One event.

    def event(self) -> list[str]:
        """Return what is done with one event."""
        frame = Frame()
        reader = self.selection.reader(frame, self.selection.bindings)
        lines = self._filtering(frame, reader)
        mark = len(lines)  # a RESET must meet the conditions, too
        lines += self._grouping(frame, reader)
        expected = self._unless_expected()
        early = bool(expected) and self._items_are_plain and not self.having_aggregates
        items, updates = self._items(frame, reader)
        if self.late:
            self._settling = self._settled(items)
            lines[mark:mark] = self._resetting() if self.form == "events" else []
            return [*lines, *updates, f"newest{'[key]' if self.grouped else ''} = event"]
        row = self._row(items, frame, reader)
        having, refused = self._having()
        if self.form == "gone":
            nothing = early and not self.totalled and not self.selection.filters
            return [] if nothing else [*lines, *updates, *([] if early else row), *self._forgetting()]
        if early:
            # Nothing but totals is wanted of this kind, and computing its row could not fail.
            lines += [*updates, *self._forgetting(), *expected, *row, *having, *refused]
        # Its aggregators count events of all kinds: the condition is computed before any event is skipped.
        elif self.having_aggregates:
            lines += [*updates, *row, *having, *self._forgetting(), *expected, *refused]
        else:
            lines += [*updates, *row, *self._forgetting(), *expected, *having, *refused]
        if self.form == "events":
            lines[mark:mark] = self._resetting()
        return [*lines, *self._collecting()] or ["pass"]

    def _settled(self, items: list[str]) -> list[str]:
        """Return what computes the results of the newest events; `items` are those of an event."""
        frame = Frame()
        reader = self.selection.reader(frame, self.selection.bindings)
        given = zip(self.clause.items, items, strict=True)
        # What the loop has read is of the chunk's last event, so attributes are read again of each newest one.
        own = [reader.bare(i.expression) if isinstance(i.expression, ast.Variable) else text for i, text in given]
        result = [*self._row(own, frame, reader), *self._collecting()]
        if not self.grouped:
            return ["if newest is not None:", *indent([f"{self.parts} = newest", *result])]
        totals = ["g = groups[key]"] if self.totalled else []
        return ["for key, event in newest.items():", *indent([f"{self.parts} = event", *totals, *result])]

    def _filtering(self, frame: Frame, reader: Reader) -> list[str]:
        lines = []
        for condition in self.selection.filters:
            test = ExpressionWriter(reader, frame, self.selection.bindings).condition(condition)
            lines += [*frame.assignments(), f"if not {test}:", f"    {self.skip}"]
        return lines

    def _grouping(self, frame: Frame, reader: Reader) -> list[str]:
        if not self.grouped:
            return []
        parts = [key_part(reader.variable(variable), self.selection.bindings) for variable in self.clause.group_by]
        key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        lines = [*frame.assignments(), f"key = {key}"]
        if self.totalled:
            lines += ["g = groups.get(key)", "if g is None:", "    g = groups[key] = fresh()"]
        return lines

    @cached_property
    def _items_are_plain(self) -> bool:
        return all(
            isinstance(i.expression, ast.Variable | ast.Literal) or is_aggregator(i.expression)
            for i in self.clause.items
        )

    def _items(self, frame: Frame, reader: Reader) -> tuple[list[str], list[str]]:
        """Return source of each output value, and the statements that must run before."""
        values, lines = [], []
        expressions = [item.expression for item in self.clause.items]
        last_total = max((n for n, one in enumerate(expressions) if aggregates_in(one)), default=-1)
        for position, expression in enumerate(expressions):
            aggregates = self._aggregates(frame)
            writer = ExpressionWriter(reader, frame, self.selection.bindings, aggregates)
            text = reader.bare(expression) if isinstance(expression, ast.Variable) else writer.write(expression).text
            lines += [*frame.assignments(), *aggregates.updates()]
            before = not self.late and not isinstance(expression, ast.Variable | ast.Literal)
            if before and position < last_total:
                # In the order of the text: where this value fails, totals further on stay untouched.
                lines.append(f"x{position} = {text}")
                text = f"x{position}"
            values.append(text)
        return values, lines

    def _aggregates(self, frame: Frame) -> AggregateWriter:
        def reader(of: Frame) -> Reader:
            return self.selection.reader(of, self.selection.bindings)

        return AggregateWriter(self.slots, reader, frame, self.kind, self.parameters)

    def _row(self, items: list[str], frame: Frame, reader: InputReader) -> list[str]:
        row = f"({', '.join(items)}{',' if len(items) == 1 else ''})" if items else reader.everything()
        lines = [*frame.assignments(), f"o = {row}"]
        if self.arranges:
            ranks = [reader.read(name).value for name in unselected(self.clause, self.selection.results)]
            lines += [*frame.assignments(), *([f"ranks = ({', '.join(ranks)},)"] if ranks else [])]
            self._row_text = "o + ranks" if ranks else "o"
        return lines

    def _having(self) -> tuple[list[str], list[str]]:
        """Return what computes the condition, and what skips an event that does not meet it."""
        if self.clause.having is None:
            return [], []
        frame = Frame()

        def reader(of: Frame) -> Reader:
            return ResultReader(self.selection.results, self.selection.reader(of, self.selection.bindings), "o")

        aggregates = AggregateWriter(self.conditions, reader, frame, self.kind, f"{self.parameters}, o")
        writer = ExpressionWriter(reader(frame), frame, self.selection.bindings, aggregates)
        test = writer.condition(self.clause.having)
        computing = [*frame.assignments(), *aggregates.updates(), f"met = {test}"]
        if self.having_by_group:
            first = f"[{', '.join(self.conditions.initial)}]"
            computing = ["h = having.setdefault(key, [])", "if not h:", f"    h[:] = {first}", *computing]
        return computing, ["if not met:", f"    {self.skip}"]

    def _unless_expected(self) -> list[str]:
        """Return what skips events of a kind that is not put out."""
        events = self.selection.events
        if self.kind != "kind":
            return [] if events in ("all", "expired" if self.kind == str(EXPIRED) else "current") else [self.skip]
        if events == "all":
            return []
        return [f"if kind != {CURRENT if events == 'current' else EXPIRED}:", f"    {self.skip}"]

    def _forgetting(self) -> list[str]:
        """Return what drops a group whose last event has left."""
        if not (self.grouped and self.totalled and self.kind != str(CURRENT)):
            return []
        leaves = "" if self.form == "gone" else "kind and "  # CURRENT is 0
        return [f"if {leaves}{' and '.join(f'({e})' for e in self.slots.empty)}:", "    groups.pop(key, None)"]

    def _resetting(self) -> list[str]:
        """Return what a RESET does."""
        lines: list[str] = []
        if self.totalled and self.slots.all_reset:
            lines = ["groups.clear()"] if self.grouped else [f"totals[:] = [{', '.join(self.slots.initial)}]"]
        elif self.totalled:
            strict = [f"g[{slot}] = {self.slots.initial[slot]}" for slot in self.slots.resetting]
            if strict and self.grouped:
                strict = [f"for g in {self.slots.everywhere}:", *indent(strict)]
            lines = [*strict, *self._asking()]
        apart = (
            self.selection.every_row or self.clause.order_by
        )  # what stands on either side of it is ordered for itself
        if apart and not self.grouped and not self.collapses:
            lines = [*lines, f"out.append(({RESET}, ts, ()))"]
        settling = [*self._settling, self._no_newest] if self.late else []
        return [f"if kind == {RESET}:", *indent([*settling, *lines, self.skip])]

    def _asking(self) -> list[str]:
        """Return what lets a RESET ask the aggregators that are updated only when asked."""
        lines = []
        frame = Frame()
        reader = self.selection.reader(frame, self.selection.bindings)
        writer = ExpressionWriter(reader, frame, self.selection.bindings, ResetWriter(self.slots))
        for item in self.clause.items:
            if aggregates_in(item.expression) and not is_aggregator(item.expression):
                text = writer.write(item.expression).text
                lines += [*frame.assignments(), text]
        return lines

    # Handing over.

    def _collecting(self) -> list[str]:
        result = f"({self.kind}, ts, {self._row_text}{', key' if self.selection.keyed else ''})"
        if self.form in ("event", "each"):
            if self.swallows_one:
                return []
            return [f"emit_many([{result}])"] if self.selection.keyed else [*self.emission]
        if not self.collapses:
            return [f"out.append({result})"]
        return [f"out[key] = {result}" if self.grouped else f"last = {result}"]


def is_aggregator(expression: ast.Expression) -> bool:
    """Tell whether an expression is an aggregator, and not only contains one."""
    return isinstance(expression, ast.FunctionCall) and aggregates_in(
        ast.FunctionCall(expression.name, namespace=expression.namespace)
    )
