"""Filters and stream functions in front of a window or a selector.

Source: io.siddhi.core.query.processor.filter.FilterProcessor and stream.function.StreamFunctionProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spdist.extension import find
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.scope import Scope
from spdist.operators.base import Arrival, Event, Row, VirtualClock
from spdist.operators.codegen import Bindings, Frame, build, indent
from spdist.operators.expression import ExpressionWriter
from spdist.operators.readers import RowReader

__all__ = ["FilterPlan", "Flow", "StreamFunctionPlan", "plan_handlers"]


@dataclass(frozen=True, slots=True)
class Flow:
    """Where events go next, in each of the forms in which they come; None where that form does not occur."""

    one: Callable[[int, Row], None]
    many: Callable[[Sequence[Arrival]], None]
    events: Callable[[list[Event]], None] | None = None


@dataclass(frozen=True)
class FilterPlan:
    """Conditions that events must meet, written as Python once."""

    title: str
    conditions: tuple[ast.Expression, ...]
    scope: Scope
    catalog: Catalog

    @cached_property
    def _makers(self) -> dict[str, Any]:
        bindings = Bindings()
        lines = [line for form in ("one", "many", "events") for line in self._source(form, bindings)]
        return build(f"{self.title} filter", lines, bindings.names)

    def _source(self, form: str, bindings: Bindings) -> list[str]:
        frame = Frame()
        writer = ExpressionWriter(RowReader(self.scope, self.catalog, frame), frame, bindings)
        skip = "return" if form == "one" else "continue"
        tests: list[str] = []
        for condition in self.conditions:
            test = writer.condition(condition)
            tests += [*frame.assignments(), f"if not {test}:", f"    {skip}"]
        if form == "one":
            body = ["def take(ts, row):", *indent([*tests, "go_on(ts, row)"])]
        else:
            event = "(kind, ts, row)" if form == "events" else "(ts, row)"
            loop = [f"for {event[1:-1]} in chunk:", *indent([*tests, f"passed.append({event})"])]
            body = ["def take(chunk):", *indent(["passed = []", *loop, "if passed:", "    go_on(passed)"])]
        return [f"def make_{form}(go_on, clock):", *indent([*body, "return take"])]

    def before(self, target: Flow, clock: VirtualClock) -> Flow:
        """Return a flow that lets what meets the conditions go on to `target`."""
        makers = self._makers
        events = None if target.events is None else makers["make_events"](target.events, clock)
        return Flow(makers["make_one"](target.one, clock), makers["make_many"](target.many, clock), events)


@dataclass(frozen=True)
class StreamFunctionPlan:
    """A stream function: appends attributes to each row, and may give none or several rows for one."""

    title: str
    call: ast.FunctionCall
    scope: Scope
    catalog: Catalog

    @cached_property
    def _arguments(self) -> Any:
        bindings, frame = Bindings(), Frame()
        writer = ExpressionWriter(RowReader(self.scope, self.catalog, frame), frame, bindings)
        values = "".join(f"{writer.write(argument).text}, " for argument in self.call.args)
        body = ["def arguments(ts, row):", *indent([*frame.assignments(), f"return ({values})"]), "return arguments"]
        return build(f"{self.title} {self.call.id}", ["def make(clock):", *indent(body)], bindings.names)["make"]

    def before(self, target: Flow, clock: VirtualClock) -> Flow:
        """Return a flow that appends the function's values and goes on to `target`."""
        function = find("stream function", self.call.id).implementation
        arguments = self._arguments(clock)
        forward = target.events

        def rows(timestamp: int, row: Row) -> list[Row]:
            return [(*row, *added) for added in function(*arguments(timestamp, row))]

        def one(timestamp: int, row: Row) -> None:
            made = rows(timestamp, row)
            if len(made) == 1:
                target.one(timestamp, made[0])
            elif made:
                target.many([(timestamp, each) for each in made])

        def many(arrivals: Sequence[Arrival]) -> None:
            made = [(timestamp, each) for timestamp, row in arrivals for each in rows(timestamp, row)]
            if made:
                target.many(made)

        def events(chunk: list[Event]) -> None:
            made = [(kind, timestamp, each) for kind, timestamp, row in chunk for each in rows(timestamp, row)]
            if made and forward is not None:
                forward(made)

        return Flow(one, many, None if forward is None else events)


Plan = FilterPlan | StreamFunctionPlan


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
            plans.append(StreamFunctionPlan(title, handler.call, scope, catalog))
    close()
    return plans
