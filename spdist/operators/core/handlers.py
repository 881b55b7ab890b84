"""Filters, stream functions and stream processors in front of a window or a selector.

Source: io.siddhi.core.query.processor.filter.FilterProcessor and stream.function.StreamFunctionProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spdist.extension import find, is_registered
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.operators.base import CURRENT, Arrival, Event, Row, VirtualClock
from spdist.operators.core.arguments import MakeArguments, compile_arguments
from spdist.operators.core.parameters import constant_values
from spdist.operators.core.processors import Processors, ProcessorSetting
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent, when_needed
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import RowReader

__all__ = ["FilterPlan", "Flow", "StreamFunctionPlan", "StreamProcessorPlan", "plan_handlers"]


@dataclass(frozen=True, slots=True)
class Flow:
    """Where events go next: one event, the events of a chunk, a chunk with kinds; None where those do not occur."""

    process: Callable[[int, Row], None]
    process_chunk: Callable[[Sequence[Arrival]], None]
    process_events: Callable[[list[Event]], None] | None = None


@dataclass(frozen=True)
class FilterPlan:
    """Conditions that events must meet, written as Python once."""

    title: str
    conditions: tuple[ast.Expression, ...]
    scope: Scope
    catalog: Catalog

    @cached_property
    def _makers(self) -> dict[str, Any]:
        return {}

    def _made(self, form: str, target: Any, clock: VirtualClock) -> Any:
        """Return the function of a form, written when it is first asked for."""
        if form not in self._makers:
            bindings = Bindings()
            source = self._source(form, bindings)
            self._makers[form] = build(f"{self.title} filter", source, bindings.names)["make"]
        return self._makers[form](target, clock)

    def _source(self, form: str, bindings: Bindings) -> list[str]:
        frame = Frame()
        writer = ExpressionWriter(RowReader(self.scope, self.catalog, frame), frame, bindings)
        skip = "return" if form == "event" else "continue"
        tests: list[str] = []
        for condition in self.conditions:
            test = writer.condition(condition)
            tests += [*frame.assignments(), f"if not {test}:", f"    {skip}"]
        if form == "event":
            body = ["def process(ts, row):", *indent([*tests, "go_on(ts, row)"])]
        else:
            event = "(kind, ts, row)" if form == "events" else "(ts, row)"
            loop = [f"for {event[1:-1]} in chunk:", *indent([*tests, f"passed.append({event})"])]
            body = ["def process(chunk):", *indent(["passed = []", *loop, "if passed:", "    go_on(passed)"])]
        return ["def make(go_on, clock):", *indent([*body, "return process"])]

    def before(self, target: Flow, clock: VirtualClock, _processors: Processors | None = None) -> Flow:
        """Return a flow that lets what meets the conditions go on to `target`."""
        # Many streams deliver only single events: the form for chunks is compiled when one comes.
        process_chunk = when_needed(lambda: self._made("arrivals", target.process_chunk, clock))
        if target.process_events is None:
            return Flow(self._made("event", target.process, clock), process_chunk)
        process = when_needed(lambda: self._made("event", target.process, clock))
        return Flow(process, process_chunk, self._made("events", target.process_events, clock))


@dataclass(frozen=True)
class _CallPlan:
    """A handler that is called: ``#name(arguments)``."""

    title: str
    call: ast.FunctionCall
    scope: Scope
    catalog: Catalog

    @cached_property
    def _arguments(self) -> MakeArguments:
        return compile_arguments(f"{self.title} {self.call.id}", self.call.args, self.scope, self.catalog)


class StreamFunctionPlan(_CallPlan):
    """A stream function: appends attributes to each row, and may give none or several rows for one."""

    def before(self, target: Flow, clock: VirtualClock, _processors: Processors | None = None) -> Flow:
        """Return a flow that appends the function's values and goes on to `target`."""
        function = find("stream function", self.call.id).implementation
        arguments = self._arguments(clock)
        forward = target.process_events

        def rows(timestamp: int, row: Row) -> list[Row]:
            return [(*row, *added) for added in function(*arguments(timestamp, row))]

        def process(timestamp: int, row: Row) -> None:
            made = rows(timestamp, row)
            if len(made) == 1:
                target.process(timestamp, made[0])
            elif made:
                target.process_chunk([(timestamp, each) for each in made])

        def process_chunk(arrivals: Sequence[Arrival]) -> None:
            made = [(timestamp, each) for timestamp, row in arrivals for each in rows(timestamp, row)]
            if made:
                target.process_chunk(made)

        def process_events(chunk: list[Event]) -> None:
            made = [(kind, timestamp, each) for kind, timestamp, row in chunk for each in rows(timestamp, row)]
            # Without kinds there is nothing but CURRENT behind, and this is not called.
            if made and forward is not None:
                forward(made)

        return Flow(process, process_chunk, None if forward is None else process_events)


class StreamProcessorPlan(_CallPlan):
    """A stream processor: a handler with state, made anew for each instance of a query."""

    def before(self, target: Flow, clock: VirtualClock, processors: Processors | None = None) -> Flow:
        """Return a flow that goes through a new processor, which is added to `processors`, and on to `target`."""
        assert processors is not None  # the checker refuses it in front of an aggregation

        def emit(chunk: list[Event]) -> None:
            if target.process_events is not None:
                target.process_events(chunk)
            # In front of a window all events are CURRENT, so kinds can be left out.
            elif len(chunk) == 1:
                target.process(*chunk[0][1:])
            else:
                target.process_chunk([(timestamp, row) for _, timestamp, row in chunk])

        processor = find("stream processor", self.call.id).implementation(
            ProcessorSetting(
                constants=constant_values(self.call.args),
                arguments=self._arguments(clock),
                clock=clock,
                timer=processors.timer,
                emit=emit,
            )
        )
        processors.made.append(processor)
        return Flow(
            lambda timestamp, row: processor.process_events([(CURRENT, timestamp, row)]),
            lambda arrivals: processor.process_events([(CURRENT, timestamp, row) for timestamp, row in arrivals]),
            None if target.process_events is None else processor.process_events,
        )


Plan = FilterPlan | StreamFunctionPlan | StreamProcessorPlan


def plan_handlers(title: str, handlers: Sequence[ast.Handler], scope: Scope, catalog: Catalog) -> list[Plan]:
    """Return the plans of handlers in order; filters that stand together are one."""
    plans: list[Plan] = []
    conditions: list[ast.Expression] = []

    def close() -> None:
        if conditions:
            plans.append(FilterPlan(title, tuple(conditions), scope, catalog))
            conditions.clear()

    for handler in handlers:
        if isinstance(handler, ast.Filter):
            conditions.append(handler.condition)
        else:
            close()
            kind = StreamProcessorPlan if is_registered("stream processor", handler.call.id) else StreamFunctionPlan
            plans.append(kind(title, handler.call, scope, catalog))
    close()
    return plans
