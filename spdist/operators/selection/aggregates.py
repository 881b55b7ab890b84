"""Aggregators inside generated code: their slots in a state, and when they are brought up to date.

An aggregator in a place that is always computed is updated by statements. One on the right of ``and`` or ``or`` is
updated only where the left side leaves the result open, and only then takes part in a RESET: Siddhi's aggregators are
updated by being asked. Those get a function of their own. Aggregators of ``having`` have a state of their own, which
knows no groups, and no RESET asks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spdist.extension import Extension, find, lookup
from spdist.functions.aggregators import form_of
from spdist.functions.forms import AggregatorForm, Code
from spdist.language import ast
from spdist.language.types import Type
from spdist.operators.base import EXPIRED, RESET
from spdist.operators.expressions.codegen import Bindings, Frame, indent
from spdist.operators.expressions.expression import ExpressionWriter, Reader

__all__ = ["AggregateWriter", "Slots", "aggregates_in", "totals_in"]


def aggregates_in(expression: ast.Expression) -> bool:
    """Tell whether an expression contains an aggregator."""
    return any(isinstance(node, ast.FunctionCall) and _known(node) is not None for node in expression.walk())


def totals_in(select: ast.Selection) -> bool:
    """Tell whether what is selected, or its ``having``, contains an aggregator."""
    having = () if select.having is None else (select.having,)
    return any(map(aggregates_in, (*(item.expression for item in select.items), *having)))


def _known(call: ast.FunctionCall) -> Extension | None:
    return lookup("aggregator", call.id)


@dataclass(slots=True)
class Slots:
    """The slots of a state, and the functions of aggregators that are updated only when asked.

    Parameters
    ----------
    bindings : Bindings
        The code's globals.
    leaving : bool
        Whether events can leave one by one.
    state : str
        The variable that holds the state: of the event's group, or of the whole query.
    everywhere : str
        Source of all states, for a RESET; empty where no RESET reaches them.
    falls_back : bool
        See `spdist.functions.aggregators.form_of`.
    """

    bindings: Bindings
    leaving: bool
    state: str
    everywhere: str
    initial: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    resetting: list[int] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    on_reset: dict[int, Code] = field(default_factory=dict)
    asked: int = 0
    falls_back: bool = True

    @property
    def all_reset(self) -> bool:
        """Whether a RESET throws the state of every aggregator away."""
        return len(self.resetting) == len(self.initial)

    def allocate(self, form: AggregatorForm, resets: bool = True) -> list[str]:
        """Take slots for an aggregator and return their source."""
        first = len(self.initial)
        names = [f"{self.state}[{first + i}]" for i in range(len(form.initial))]
        for name, value in form.names.items():
            self.bindings.require(name, value)
        self.initial += [text.format() for text in form.initial]
        self.empty.append(form.empty.format(*names))
        if resets:
            self.resetting += range(first, len(self.initial))
        return names


#: Aggregators that do not look at what a value is.
_ANYTHING = ("count", "distinctCount", "unionSet")


class AggregateWriter:
    """Writes the aggregators of one generated function (`spdist.operators.expressions.expression.Aggregates`).

    Parameters
    ----------
    slots : Slots
        Where state is; one for each generated function, filled in the same order.
    writer : Callable
        Makes a writer of arguments from a frame.
    kind : str
        Source of the event's kind: a variable, or ``"0"`` or ``"1"`` where all events are of that kind.
    parameters : str
        What the function of an aggregator that is updated when asked needs, and is called with.
    """

    def __init__(
        self, slots: Slots, reader: Callable[[Frame], Reader], frame: Frame, kind: str, parameters: str
    ) -> None:
        self.slots = slots
        self.reader = reader
        self.frame = frame
        self.kind = kind
        self.parameters = parameters
        self._lines: list[str] = []

    def knows(self, call: ast.FunctionCall) -> bool:
        """Tell whether a call is an aggregator."""
        return _known(call) is not None

    def updates(self) -> list[str]:
        """Return the statements that are due now, and forget them."""
        due, self._lines = self._lines, []
        return due

    def value(self, call: ast.FunctionCall, lazy: bool) -> Code:
        """Return the code of the aggregator's value after this event."""
        extension = find("aggregator", call.id)
        if lazy:
            return self._when_asked(extension, call)
        form, argument, type = self._written(extension, call, self.frame)
        names = self.slots.allocate(form)
        self._lines += self.frame.assignments()
        self._lines += _update(form, names, argument, self.kind)
        # By identity: equal calls at two places have slots of their own.
        self.slots.on_reset[id(call)] = Code(form.after_reset, type)
        return Code(form.result.format(*names), type, form.nullable)

    def _written(self, extension: Extension, call: ast.FunctionCall, frame: Frame) -> tuple[AggregatorForm, Code, Type]:
        reader = self.reader(frame)
        writer = ExpressionWriter(reader, frame, self.slots.bindings)
        arguments = tuple(writer.write(argument) for argument in call.args)
        form = form_of(extension, tuple(a.type for a in arguments), self.slots.leaving, self.slots.falls_back)
        if len(arguments) == 1:
            argument = arguments[0] if extension.id in _ANYTHING else writer.certain(arguments[0])
        else:
            argument = Code(f"({', '.join(a.text for a in arguments)})", Type.OBJECT, nullable=False)
        # Once into a variable: the lines of a form may name it several times.
        if not argument.atom and arguments:
            argument = Code(
                frame.local(argument.text, f"v{len(self.slots.initial)}"), argument.type, argument.nullable, True
            )
        return form, argument, reader.type_of(call)

    def _when_asked(self, extension: Extension, call: ast.FunctionCall) -> Code:
        frame = Frame()
        form, argument, type = self._written(extension, call, frame)
        names = self.slots.allocate(form, resets=False)
        state = self.slots.state
        name = f"asked_{state}{self.slots.asked}"
        self.slots.asked += 1
        reset = [f"{slot} = {text.format()}" for slot, text in zip(names, form.initial, strict=True)]
        body = [*frame.assignments(), *_update(form, names, argument, "kind"), f"return {form.result.format(*names)}"]
        if self.slots.everywhere:
            body = [
                f"if kind == {RESET}:",
                f"    for {state} in {self.slots.everywhere}:",
                *indent(reset, 2),
                f"    return {form.after_reset}",
                *body,
            ]
        self.slots.functions += [f"def {name}(kind, {state}, {self.parameters}):", *indent(body)]
        # Without a state: a RESET goes through all of them.
        self.slots.on_reset[id(call)] = Code(f"{name}({RESET}, None, {self.parameters})", type)
        # It counts the event also where the other side of an operation is null.
        return Code(f"{name}({self.kind}, {state}, {self.parameters})", type, form.nullable, fallible=True)


class ResetWriter:
    """Writes expressions as a RESET computes them: it asks every aggregator, and so resets those that it reaches."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots

    def knows(self, call: ast.FunctionCall) -> bool:
        """Tell whether a call is an aggregator."""
        return _known(call) is not None

    def value(self, call: ast.FunctionCall, lazy: bool) -> Code:
        """Return what the aggregator gives to a RESET."""
        return self.slots.on_reset[id(call)]


def _update(form: AggregatorForm, names: list[str], argument: Code, kind: str) -> list[str]:
    add = [line.format(*names, v=argument.value) for line in form.add]
    remove = [line.format(*names, v=argument.value) for line in form.remove]
    lines = add
    if kind == str(EXPIRED):
        lines = remove
    elif kind != "0":
        lines = [f"if {kind} == {EXPIRED}:", *indent(remove), "else:", *indent(add)]
    if form.skips_null and argument.nullable:
        lines = [f"if {argument.value} is not None:", *indent(lines)]
        if form.on_null:
            lines += ["else:", *indent([line.format(*names) for line in form.on_null])]
    return lines
