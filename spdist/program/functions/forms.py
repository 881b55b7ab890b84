"""Functions in programs: most have their form where their meaning is; those that look at nulls have it here.

The meanings are those of `spdist.functions`.
"""

from __future__ import annotations

from collections.abc import Callable

from spdist.extension import lookup
from spdist.language import ast
from spdist.language.types import Type
from spdist.operators.selection.selector import is_aggregator
from spdist.program.expressions import WRITERS, NotTyped, TypedWriter, Value, either

__all__ = ["CLOCKS", "called", "may_fail"]

#: Functions that look at the clock.
CLOCKS = ("currentTimeMillis", "time:timestampInMilliseconds")

Form = Callable[[TypedWriter, ast.FunctionCall], Value]

_NARROWED = {Type.INT: "to_int({})", Type.LONG: "to_long({})", Type.FLOAT: "f32({})"}


def called(writer: TypedWriter, node: ast.FunctionCall) -> Value:
    """Write a call of a function, and return its value; raises NotTyped where it has no typed form."""
    form = _FORMS.get(node.id, _plain)
    value = form(writer, node)
    if value.type is Type.BOOL and value.null:
        # A function that returns bool gives false for null.
        return writer.computed(f"not ({value.null}) and {value.text} != 0", "", Type.BOOL)
    return value


def may_fail(node: ast.Node) -> bool:
    """Tell whether a node is a call that may fail, or may be looked up by the number of a text, which may fail."""
    if not isinstance(node, ast.FunctionCall) or node.id in _FORMS or is_aggregator(node):
        return False
    extension = lookup("function", node.id)
    return extension is None or not isinstance(extension.typed, str) or not extension.typed or extension.refuses_null


def _plain(writer: TypedWriter, node: ast.FunctionCall) -> Value:
    """Write a function whose form stands where it is registered: of null it is null."""
    extension = lookup("function", node.id)
    typed = "" if extension is None else extension.typed
    values = [writer.write(argument) for argument in node.args] if typed else []
    if any(value.type is Type.OBJECT for value in values):
        # The loop has only the number of an object, of which a typed form knows nothing
        values, typed = [], ""
    text = typed if isinstance(typed, str) else typed(values)
    if extension is None or not text:
        found = writer.text_function(node)
        if found is None:
            raise NotTyped(f"the function {node.id}()", node.span)
        if found.fails:
            writer.fails(found.fails)
        return writer.kept(found)
    type = extension.resolve(tuple(value.type for value in values), node.args)
    null = either(*(value.null for value in values))
    if null and extension.refuses_null:
        if not writer.failing:
            raise NotTyped(f"the function {node.id}(), which may fail here", node.span)
        writer.fails(null)
        null = ""
    return writer.computed(text.format(*(value.text for value in values)), null, type)


def _chosen(writer: TypedWriter, node: ast.FunctionCall) -> Value:
    test = writer.condition(node.args[0])
    yes, its = writer.apart(node.args[1])
    no, other = writer.apart(node.args[2])
    name = writer.name()
    null = f"{name}_n" if yes.null or no.null else ""
    for head, value, lines in ((f"if {test}:", yes, its), ("else:", no, other)):
        body = [*lines, f"{name} = {value.text}", *([f"{null} = {value.null or 'False'}"] if null else [])]
        writer.lines += [head, *(f"    {line}" for line in body)]
    return Value(name, null, yes.type)


def _first(writer: TypedWriter, node: ast.FunctionCall) -> Value:
    values = [writer.write(argument) for argument in node.args]
    name = writer.name()
    last = values[-1]
    writer.lines += [f"{name} = {last.text}", f"{name}_n = {last.null or 'False'}"]
    # From the last one to the first, so what is in front has the last word, without nested branches
    for value in reversed(values[:-1]):
        indent = ""
        if value.null:
            writer.lines.append(f"if not ({value.null}):")
            indent = "    "
        writer.lines += [f"{indent}{name} = {value.text}", f"{indent}{name}_n = False"]
    return Value(name, f"{name}_n" if all(value.null for value in values) else "", last.type)


def _extreme(first: str, better: str) -> Form:
    """Return the form of ``maximum`` or ``minimum``, which begin with the least positive double, or the greatest."""

    def form(writer: TypedWriter, node: ast.FunctionCall) -> Value:
        values = [writer.write(argument) for argument in node.args]
        if len(values) == 1:
            return values[0]
        name = writer.name()
        writer.lines.append(f"{name} = {first}")
        for value in values:
            test = f"float({value.text}) {better} {name}"
            test = f"not ({value.null}) and {test}" if value.null else test
            writer.lines += [f"if {test}:", f"    {name} = float({value.text})"]
        return writer.computed(_NARROWED.get(values[0].type, "{}").format(name), "", values[0].type)

    return form


def _instance_of(asked: Type) -> Form:
    def form(writer: TypedWriter, node: ast.FunctionCall) -> Value:
        value = writer.write(node.args[0])
        if value.type is Type.OBJECT:  # Python looks into it
            return _plain(writer, node)
        text = "False" if value.type is not asked else f"not ({value.null})" if value.null else "True"
        return writer.computed(text, "", Type.BOOL)

    return form


def _timestamp(writer: TypedWriter, _node: ast.FunctionCall) -> Value:
    return Value(writer.timestamp, "", Type.LONG)


def _now(writer: TypedWriter, _node: ast.FunctionCall) -> Value:
    return Value("now", "", Type.LONG)


def _now_or_text(writer: TypedWriter, node: ast.FunctionCall) -> Value:
    return _plain(writer, node) if node.args else _now(writer, node)


_FORMS: dict[str, Form] = {
    "ifThenElse": _chosen,
    "coalesce": _first,
    "default": _first,
    # Java's Double.MIN_VALUE is the least positive double, and Siddhi begins with it
    "maximum": _extreme("5e-324", ">"),
    "minimum": _extreme("1.7976931348623157e308", "<"),
    "eventTimestamp": _timestamp,
    "currentTimeMillis": _now,
    "time:timestampInMilliseconds": _now_or_text,
    "instanceOfInteger": _instance_of(Type.INT),
    "instanceOfLong": _instance_of(Type.LONG),
    "instanceOfFloat": _instance_of(Type.FLOAT),
    "instanceOfDouble": _instance_of(Type.DOUBLE),
    "instanceOfString": _instance_of(Type.STRING),
    "instanceOfBoolean": _instance_of(Type.BOOL),
}

WRITERS[ast.FunctionCall] = called
