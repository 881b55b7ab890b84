"""The window ``expression``: it holds as many of the latest events as a condition over them allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import window
from spdist.language.ast import Expression, FunctionCall, Literal
from spdist.language.catalog import Catalog, WindowResolver
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, VirtualClock, Window, WindowSetting
from spdist.operators.core.arguments import MakeArguments, compile_arguments
from spdist.operators.expressions.codegen import forget
from spdist.operators.windows.condition import Holds, WindowCondition, compile_condition

__all__ = ["MOST_CONDITIONS", "ConditionalWindow", "ExpressionWindow", "resolver"]


def resolver(name: str, *options: tuple[str, bool]) -> WindowResolver:
    """Return the resolver of a window of an expression's text and optional bools: name, and whether it is constant."""

    def resolve(types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> None:
        form = "".join(f"[, {option}" for option, _ in options) + "]" * len(options)
        hint = f"it is written as {name}('expression'{form})"
        if not 1 <= len(types) <= 1 + len(options) or types[0] is not Type.STRING:
            raise SiddhiTypeError(f"'{name}' takes the text of an expression", hint=hint)
        for type, expression, (option, constant) in zip(types[1:], expressions[1:], options, strict=False):
            if type is not Type.BOOL or (constant and not isinstance(expression, Literal)):
                raise SiddhiTypeError(f"'{option}' of '{name}' is a {'constant ' if constant else ''}bool", hint=hint)

    return resolve


#: So many conditions that came with events stay compiled.
MOST_CONDITIONS = 256


@dataclass(slots=True)
class Prepared:
    """What all windows of one call share: the arguments, and the conditions compiled so far, by text."""

    title: str
    source: AttributeSource
    catalog: Catalog
    arguments: MakeArguments
    conditions: dict[str, WindowCondition] = field(default_factory=dict)

    def condition(self, text: str) -> WindowCondition:
        """Return the condition of a text, compiled where it is new; of many the one used longest ago is forgotten."""
        known = self.conditions.pop(text, None) or compile_condition(self.title, text, self.source, self.catalog)
        # Put back at the end: a dict keeps its order, so the first key is the one used longest ago.
        self.conditions[text] = known
        if len(self.conditions) > MOST_CONDITIONS:
            forget(self.conditions.pop(next(iter(self.conditions))).make)
        return known


def prepared(title: str, call: FunctionCall, scope: Scope, catalog: Catalog) -> Prepared:
    """Compile the arguments of a window, and its condition where that is a constant."""
    made = Prepared(title, scope.sources[0], catalog, compile_arguments(title, call.args, scope, catalog))
    if isinstance(call.args[0], Literal):
        made.condition(str(call.args[0].value))
    return made


class ChangingCondition:
    """The condition of one window, which may change with each event.

    State
    -----
    ``text``, and ``totals``: the state of its aggregators.

    Notes
    -----
    An event that brings null, or a text that is no condition, is lost; the window goes on by the text before, as in
    Siddhi.
    """

    def __init__(self, shared: Prepared, clock: VirtualClock) -> None:
        self.shared = shared
        self.clock = clock
        self.text: str | None = None
        self.totals: list[Any] = []
        self.holds: Holds
        self._fresh: Callable[[], list[Any]]

    def turn_to(self, text: str | None) -> bool:
        """Go on with another text, over nothing; False where it is the same."""
        if text is None:
            hint = "an event brings the text of a condition, such as 'count() <= 20'"
            raise SiddhiTypeError(f"the condition of '{self.shared.title}' is null", hint=hint)
        if text == self.text:
            return False
        condition = self.shared.condition(text)
        self.text, self.totals, self._fresh = text, condition.fresh(), condition.fresh
        self.holds = condition.make(self.totals, self.clock)
        return True

    def reset(self) -> None:
        """Start over nothing."""
        if self.text is not None:
            # In place: the compiled test holds on to this list.
            self.totals[:] = self._fresh()

    def snapshot(self) -> Any:
        """Return text and totals."""
        return [self.text, self.totals]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        # A text that counts as unchanged would keep the test over the totals from before.
        self.text = None
        text, totals = state
        if text is not None:
            self.turn_to(text)
            self.totals[:] = totals


class ConditionalWindow(Window):
    """A window that a condition over its events bounds, whose text may come with each event.

    State
    -----
    The condition's text and totals.
    """

    prepare = staticmethod(prepared)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.condition = ChangingCondition(setting.prepared, setting.clock)
        self.arguments = setting.prepared.arguments(setting.clock)

    def process(self, timestamp: int, row: Row) -> None:
        """Process an event as `process_chunk` does several."""
        self.process_chunk(((timestamp, row),))


@window("expression", resolver("expression"))
class ExpressionWindow(ConditionalWindow):
    """Keep the latest events as long as ``expression`` holds over them; where it does not, the oldest ones expire.

    The text may come with each event; where it changes, the events held are taken in anew one by one.

    State
    -----
    ``held``: as many events as the condition allows; the condition's totals.

    Notes
    -----
    Siddhi shares totals between the keys of a partition, and loses them when it is restored; here each key has its own.
    Source: io.siddhi.core.query.processor.stream.window.ExpressionWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.held: deque[Arrival] = deque()

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """For each event release what must leave as EXPIRED, then CURRENT(new); all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            (text,) = self.arguments(timestamp, row)
            if self.condition.turn_to(text) and self.held:
                before, self.held = self.held, deque()
                for arrival in before:
                    self._enter(arrival, chunk)
            self._enter((timestamp, row), chunk)
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)

    def _enter(self, arrival: Arrival, chunk: list[Event]) -> None:
        held, holds, now = self.held, self.condition.holds, self.clock.now
        held.append(arrival)
        if holds(CURRENT, *arrival, *held[0], *arrival):
            return
        while held:
            # May take off the new event too, where it does not hold even alone.
            oldest = held.popleft()
            chunk.append((EXPIRED, now, oldest[1]))
            # The last one that leaves has no other as first event: it stands for it.
            if holds(EXPIRED, *oldest, *(held[0] if held else oldest), *arrival):
                return

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held, oldest first."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held and the condition's state."""
        return [self.held, self.condition.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.held, condition = state
        self.condition.restore(condition)
