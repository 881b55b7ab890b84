"""The two sides of a join: what each keeps of its events, and how the other side's events look into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from spdist.extension import find
from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import AttributeSource, Reference, Scope
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, RESET, Arrival, Event, Row, VirtualClock, WindowSetting
from spdist.operators.core.arguments import prepared_window
from spdist.operators.core.handlers import Flow, plan_handlers
from spdist.operators.core.handlers import Plan as HandlerPlan
from spdist.operators.core.parameters import attribute_positions, constant_values
from spdist.operators.core.processors import Processors
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.lookup import Finder, FindingPlan
from spdist.operators.tables.stores import Store
from spdist.operators.windows.store import WindowStore

__all__ = ["ROWS", "TIMES", "AggregationStore", "JoinReader", "SidePlan", "plan_sides", "search"]

#: What generated code calls the rows of the left and of the right side.
ROWS = ("l", "r")
#: What it calls their times.
TIMES = ("lt", "rt")


class JoinReader:
    """Reads the attributes of a joined pair, each into a local variable where it is first needed.

    Parameters
    ----------
    scope : Scope
        The left and the right side.
    catalog : Catalog
        For the types of calls.
    frame : Frame
        The generated function's local variables.
    missing_rows : tuple[str, str]
        Source of the rows that stand for a missing left or right event.
    """

    def __init__(self, scope: Scope, catalog: Catalog, frame: Frame, missing_rows: tuple[str, str]) -> None:
        self.scope = scope
        self.catalog = catalog
        self.frame = frame
        self.missing_rows = missing_rows
        #: source of the times of the left and the right event, None where there is none
        self.times = TIMES

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute: a local variable."""
        return self.read(self.scope.resolve(variable))

    def read(self, reference: Reference) -> Code:
        """Return the code of what a name means: a local variable."""
        row = ROWS[reference.source]
        name = self.frame.local(f"{row}[{reference.attribute}]", f"{row}{reference.attribute}")
        return Code(name, reference.type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        reference = self.scope.resolve(variable)
        return self.frame.known(f"{ROWS[reference.source]}[{reference.attribute}]")

    def everything(self) -> str:
        """Return source of the row of ``select *``."""
        return "l + r"

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source that is true where a side has no event."""
        position = self.scope.find(node.stream)
        return f"({ROWS[position]} is {self.missing_rows[position]})"

    def timestamp(self) -> str:
        """Return source of the timestamp of the event that caused the pair."""
        return "ts"

    def event_time(self, node: ast.EventTime) -> str:
        """Return source of the time of a side's event; rows of tables have none."""
        return f"({self.times[self.scope.find(node.stream)]} + 0)"  # fails where there is none

    def type_of(self, call: ast.FunctionCall) -> Type:
        """Return the static type of a call."""
        return type_of(call, self.scope, self.catalog)


@dataclass(frozen=True)
class SidePlan:
    """One side of a join, compiled.

    Parameters
    ----------
    position : int
        0 for the left side, 1 for the right side.
    source : AttributeSource
        What it reads, with what handlers append.
    handlers : list of handler plans
        In front of the window. Siddhi drops those of named windows and tables, and so does this.
    call : FunctionCall, optional
        Its window.
    prepared : Any
        What the window's call gives all windows (`Window.prepare`).
    triggers : bool
        Whether its events look for partners.
    outer : bool
        Whether an event without partner comes out with nulls.
    selected : tuple of int
        The positions of its attributes that the query selects as they are.
    """

    position: int
    source: AttributeSource
    handlers: list[HandlerPlan]
    call: ast.FunctionCall | None
    prepared: Any
    triggers: bool
    outer: bool
    selected: tuple[int, ...]
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Literal["stream", "table", "window", "state"]:
        """What it reads; ``table`` also for an aggregation."""
        return self.source.kind

    @property
    def nothing(self) -> Row:
        """The row that stands for a missing event."""
        return (None,) * len(self.source.schema)

    @property
    def slides(self) -> bool:
        """Whether it has a window whose events leave one by one; that of a named window does not count."""
        return self.call is not None and bool(find("window", self.call.id).implementation.slides)

    @property
    def findable(self) -> bool:
        """Whether the other side can look into what it keeps."""
        return self.call is None or bool(find("window", self.call.id).implementation.findable)

    def window(self, setting: Callable[..., WindowSetting]) -> WindowStore:
        """Return the side's window; `setting` adds what depends on where it is made."""
        assert self.call is not None
        names = self.source.schema.names
        made = setting(
            constants=constant_values(self.call.args),
            attributes=attribute_positions(self.call.args, names),
            findable=True,
            shared=self.shared,
            selected=self.selected,
            prepared=self.prepared,
        )
        return WindowStore(find("window", self.call.id).implementation, made, self.source.schema)

    def passing(self, emit: Callable[[list[Event]], None], expects_expired: bool, clock: VirtualClock) -> Flow:
        """Return what stands for the window of a stream without one: each event leaves as soon as it has entered."""
        pass_on = self.leaving_immediately(emit, expects_expired, clock)

        def process_chunk(arrivals: Sequence[Arrival]) -> None:
            pass_on([(CURRENT, timestamp, row) for timestamp, row in arrivals])

        return Flow(lambda timestamp, row: process_chunk(((timestamp, row),)), process_chunk)

    @staticmethod
    def leaving_immediately(
        emit: Callable[[list[Event]], None], expects_expired: bool, clock: VirtualClock
    ) -> Callable[[list[Event]], None]:
        """Return what stands behind a window that nobody can look into: each event leaves as soon as it has come."""

        def pass_on(chunk: list[Event]) -> None:
            now = clock.now
            released: list[Event] = []
            for event in chunk:
                released.append(event)
                if expects_expired:
                    released.append((EXPIRED, now, event[2]))
                released.append((RESET, now, event[2]))
            emit(released)

        return pass_on

    def entry(self, flow: Flow, clock: VirtualClock, processors: Processors | None = None) -> Flow:
        """Return `flow` behind the side's handlers."""
        for stage in reversed(self.handlers):
            flow = stage.before(flow, clock, processors)
        return flow


def plan_sides(checked: CheckedQuery, join: ast.JoinInput, catalog: Catalog) -> tuple[SidePlan, SidePlan]:
    """Return the left and the right side of a join.

    Parameters
    ----------
    checked : CheckedQuery
        The query.
    join : JoinInput
        As written.
    catalog : Catalog
        Signatures.
    """
    title, scope = checked.name, checked.scope
    one_way = join.left.unidirectional or join.right.unidirectional
    outer = {"left outer": (True, False), "right outer": (False, True), "full outer": (True, True)}

    def plan(position: int, side: ast.JoinSide) -> SidePlan:
        source = scope.sources[position]
        handlers: list[HandlerPlan] = []
        if source.kind == "stream":
            # Handlers know the source by its own name only.
            own = AttributeSource(source.stream_id, source.stream_id, source.schema)
            handlers = plan_handlers(title, side.input.before, Scope((own,), tables=scope.tables), catalog)
        call = side.input.window if source.kind == "stream" else None
        prepared = None
        if call is not None:
            prepared = prepared_window(title, call, Scope((source,)), catalog)
        return SidePlan(
            position=position,
            source=source,
            handlers=handlers,
            call=call,
            prepared=prepared,
            triggers=source.kind != "table" and (side.unidirectional or not one_way),
            outer=outer.get(join.kind, (False, False))[position],
            selected=checked.selected(position),
        )

    return plan(0, join.left), plan(1, join.right)


class RangeStore(Store, Protocol):
    """A range of an aggregation, at one granularity."""

    def set_range(self, start: Any, end: Any, per: str) -> None:
        """Turn to another range: `start` and `end` as written after ``within`` (`end` None where there is one)."""
        ...


@runtime_checkable
class AggregationStore(Store, Protocol):
    """An aggregation, which is read for a range of time at one granularity."""

    def reader(self) -> RangeStore:
        """Return what can be turned from range to range."""
        ...


def search(plan: FindingPlan, join: ast.JoinInput, store: Store, clock: VirtualClock) -> Finder:
    """Return the search of one side's events in what the other side keeps: ``find(ts, row)``.

    Parameters
    ----------
    plan : FindingPlan
        The search.
    join : JoinInput
        For ``within … per …``.
    store : Store
        What the other side keeps.
    clock : VirtualClock
        The app's time.
    """
    if not (isinstance(store, AggregationStore) and join.per is not None):
        return plan.bind(store, clock)
    viewed = store.reader()
    found = plan.bind(viewed, clock)
    asked = _range(plan, join, clock)

    def find(timestamp: int, row: Row) -> list[Arrival]:
        viewed.set_range(*asked(timestamp, row))
        return found(timestamp, row)

    return find


def _range(plan: FindingPlan, join: ast.JoinInput, clock: VirtualClock) -> Callable[[int, Row], tuple[Any, Any, str]]:
    """Return what computes start, end and granularity from an event."""
    assert join.per is not None
    bindings, frame = Bindings(), Frame()
    writer = ExpressionWriter(plan.outer(frame, bindings), frame, bindings)
    parts = [writer.write(part).text for part in (*join.within, join.per)]
    if len(parts) == 2:
        parts.insert(1, "None")
    body = [f"def asked({plan.parameters}):", *indent([*frame.assignments(), f"return ({', '.join(parts)})"])]
    lines = ["def make(clock):", *indent([*body, "return asked"])]
    made: Callable[[int, Row], tuple[Any, Any, str]] = build(f"{plan.title} range", lines, bindings.names)["make"](
        clock
    )
    return made
