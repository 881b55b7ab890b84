"""Syntax tree to canonical SiddhiQL: one clause per line, so that ``parse(format_app(app)) == app``.

Apps of execution groups are made as trees and printed by this; nothing builds SiddhiQL from templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spdist.errors import SiddhiAppError
from spdist.language import ast
from spdist.language.format_expressions import (
    format_call,
    format_expression,
    format_stream,
    format_time,
    list_of,
    name,
    string,
    unit,
)
from spdist.language.parsing.places import VARIABLE

__all__ = ["format_app", "format_node"]

#: Longer lines are broken where that helps.
_WIDTH = 100
_INDENT = "    "
_KEY = re.compile(r"[A-Za-z_][A-Za-z_0-9]*([.:\-][A-Za-z_][A-Za-z_0-9]*)*\Z")
_QUANTIFIERS = {(1, None): "+", (0, None): "*", (0, 1): "?"}


def format_app(app: ast.SiddhiApp) -> str:
    """Return the canonical text of `app`.

    Parameters
    ----------
    app : SiddhiApp
        Parsed or made.

    Returns
    -------
    str
        SiddhiQL that `spdist.language.parsing.parser.parse` reads as an equal tree.

    Raises
    ------
    SiddhiAppError
        SiddhiQL has no way to write something in it, such as a string with all kinds of quotes.
    """
    blocks = [[line for annotation in app.annotations for line in _annotation(annotation, of_app=True)]]
    blocks.append([line for definition in app.definitions for line in _closed(_definition(definition))])
    blocks += [_closed(_element(element)) for element in app.elements]
    return _readable("\n\n".join("\n".join(block) for block in blocks if block) + "\n", app)


def format_node(node: ast.Node) -> str:
    """Return the canonical text of a part of an app: a definition, query, partition, expression, annotation …."""
    match node:
        case ast.SiddhiApp():
            return format_app(node)
        case ast.Expression():
            lines = [format_expression(node)]
        case ast.StreamRef():
            lines = [format_stream(node)]
        case ast.Definition():
            lines = _definition(node)
        case ast.Query() | ast.Partition():
            lines = _element(node)
        case ast.OnDemandQuery():
            lines = _on_demand(node)
        case ast.Annotation():
            lines = _annotation(node, of_app=node.name.startswith("app:"))
        case ast.SingleInput() | ast.JoinInput() | ast.PatternInput() | ast.AnonymousInput():
            lines = _input(node)
        case ast.Output():
            lines = _output(node)
        case _:
            raise SiddhiAppError(f"A {type(node).__name__} has no text of its own", span=node.span)
    return _readable("\n".join(lines), node)


def _readable(text: str, node: ast.Node) -> str:
    variable = VARIABLE.search(text)
    if variable:
        raise SiddhiAppError(f"The parser would replace '{variable.group()}', which is part of a text", span=node.span)
    return text


# Everything below returns lines. A line is indented as a whole: a text in three quotes may go over several lines of the
# file, and must stay as it is.


def _indented(lines: Iterable[str]) -> list[str]:
    return [_INDENT + line for line in lines]


def _closed(lines: list[str], end: str = ";") -> list[str]:
    return [*lines[:-1], lines[-1] + end]


def _fold(head: str, parts: list[str], tail: str = "") -> list[str]:
    """Return ``head part, part tail`` as one line, or with a line for each part where that would be too long."""
    line = f"{head}{list_of(parts)}{tail}"
    if len(line) <= _WIDTH or not parts:
        return [line]
    return [head.rstrip(), *_indented([*(f"{part}," for part in parts[:-1]), parts[-1]]), *([tail] if tail else [])]


# --- annotations -----------------------------------------------------------------------------------------------------


def _annotation(annotation: ast.Annotation, *, of_app: bool = False) -> list[str]:
    called = annotation.name
    mark = f"@app:{name(called.removeprefix('app:'))}" if of_app else f"@{name(called)}"
    pairs = [_pair(element) for element in annotation.elements]
    nested = [_annotation(inner) for inner in annotation.annotations]
    if not pairs and not nested:
        return [mark]
    line = f"{mark}({list_of([*pairs, *(' '.join(inner) for inner in nested)])})"
    if len(line) <= _WIDTH and all(len(inner) == 1 for inner in nested):
        return [line]
    together = list_of(pairs)
    own = [[together]] if len(together) <= _WIDTH else [[pair] for pair in pairs]
    parts = [*(own if pairs else []), *nested]
    body = [line for part in parts[:-1] for line in _closed(part, ",")] + parts[-1]
    return [f"{mark}(", *_indented(body), ")"]


def _pair(element: ast.AnnotationElement) -> str:
    value = string(element.value)
    if element.key is None:
        return value
    return f"{element.key if _KEY.match(element.key) else string(element.key)}={value}"


# --- definitions -----------------------------------------------------------------------------------------------------


def _definition(definition: ast.Definition) -> list[str]:
    lines = [line for annotation in definition.annotations for line in _annotation(annotation)]
    called = name(definition.name)
    match definition:
        case ast.StreamDefinition():
            lines += _fold(f"define stream {called} (", _attributes(definition.attributes), ")")
        case ast.TableDefinition():
            lines += _fold(f"define table {called} (", _attributes(definition.attributes), ")")
        case ast.WindowDefinition():
            window = format_call(definition.window) if definition.window is not None else ""
            events = f" output {_events(definition.output)}" if definition.output else ""
            tail = f") {window}{events}"
            lines += _fold(f"define window {called} (", _attributes(definition.attributes), tail)
        case ast.TriggerDefinition(every=every, at=at):
            when = f"every {format_time(every)}" if every is not None else string(at or "")
            lines.append(f"define trigger {called} at {when}")
        case ast.FunctionDefinition(language=language, returns=returns, body=body):
            lines.append(f"define function {called}[{name(language)}] return {returns} {{{body}}}")
        case ast.AggregationDefinition():
            lines += [f"define aggregation {called}", *_indented(_aggregation(definition))]
    return lines


def _attributes(attributes: tuple[ast.Attribute, ...]) -> list[str]:
    return [f"{name(attribute.name)} {attribute.type}" for attribute in attributes]


def _aggregation(definition: ast.AggregationDefinition) -> list[str]:
    lines = [f"from {_source(definition.input)}"] if definition.input is not None else []
    lines += _selection(definition.select or ast.Selection())
    by = f" by {format_expression(definition.aggregate_by)}" if definition.aggregate_by is not None else ""
    durations = (" ... " if definition.is_range else ", ").join(unit(duration) for duration in definition.durations)
    return [*lines, f"aggregate{by} every {durations}"]


def _events(events: str) -> str:
    return f"{events} events"


# --- queries and partitions ------------------------------------------------------------------------------------------


def _element(element: ast.ExecutionElement) -> list[str]:
    lines = [line for annotation in element.annotations for line in _annotation(annotation)]
    if isinstance(element, ast.Partition):
        lines += _fold("partition with (", [_partition_key(key) for key in element.keys], ")")
        queries = [line for query in element.queries for line in _closed(_element(query))]
        return [*lines, "begin", *_indented(queries), "end"]
    first, *rest = _input(element.input)
    lines += [f"from {first}", *rest, *_selection(element.select)]
    if element.rate is not None:
        lines.append(_rate(element.rate))
    return lines + _output(element.output)


def _partition_key(key: ast.PartitionKey) -> str:
    if key.value is not None:
        return f"{format_expression(key.value)} of {format_stream(key.stream)}"
    ranges = " or ".join(f"{format_expression(part.condition)} as {string(part.label)}" for part in key.ranges)
    return f"{ranges} of {format_stream(key.stream)}"


def _on_demand(query: ast.OnDemandQuery) -> list[str]:
    lines = []
    if query.store is not None:
        lines.append(f"from {name(query.store)}" + (f" as {name(query.alias)}" if query.alias is not None else ""))
        lines += _conditions(query.on, query.within, query.per)
    if query.store is not None or query.select != ast.Selection():
        lines += _selection(query.select)
    return lines + (_output(query.output) if query.output is not None else [])


def _conditions(on: ast.Expression | None, within: tuple[ast.Expression, ...], per: ast.Expression | None) -> list[str]:
    lines = [f"on {format_expression(on)}"] if on is not None else []
    if within:
        lines.append(f"within {list_of(format_expression(bound) for bound in within)}")
    if per is not None:
        lines.append(f"per {format_expression(per)}")
    return lines


# --- inputs ----------------------------------------------------------------------------------------------------------


def _input(query_input: ast.Input) -> list[str]:
    match query_input:
        case ast.SingleInput():
            return [_source(query_input)]
        case ast.JoinInput():
            kind = "join" if query_input.kind == "inner" else f"{query_input.kind} join"
            conditions = _conditions(query_input.on, query_input.within, query_input.per)
            return [_side(query_input.left), *_indented([f"{kind} {_side(query_input.right)}", *conditions])]
        case ast.PatternInput():
            return _pattern(query_input)
        case ast.AnonymousInput(query=query):
            return ["(", *_indented(_element(query)), ")"]


def _source(single: ast.SingleInput) -> str:
    window = f"#window.{format_call(single.window)}" if single.window is not None else ""
    return f"{format_stream(single.stream)}{_handlers(single.before)}{window}{_handlers(single.after)}"


def _handlers(handlers: tuple[ast.Handler, ...]) -> str:
    return "".join(
        f"[{format_expression(handler.condition)}]"
        if isinstance(handler, ast.Filter)
        else f"#{format_call(handler.call)}"
        for handler in handlers
    )


def _side(side: ast.JoinSide) -> str:
    alias = f" as {name(side.alias)}" if side.alias is not None else ""
    return f"{_source(side.input)}{alias}{' unidirectional' if side.unidirectional else ''}"


def _pattern(pattern: ast.PatternInput) -> list[str]:
    within = [f"within {format_time(pattern.within)}"] if pattern.within is not None else []
    line = " ".join([_state(pattern.element, pattern.kind), *within])
    if len(line) <= _WIDTH or not isinstance(pattern.element, ast.ChainState):
        return [line]
    elements = [_inside(element, pattern.kind) for element in pattern.element.elements]
    if pattern.kind == "sequence":
        first, *rest = [*(f"{element}," for element in elements[:-1]), elements[-1]]
    else:
        first, *rest = [elements[0], *(f"-> {element}" for element in elements[1:])]
    return [first, *_indented([*rest, *within])]


def _state(state: ast.StateElement, kind: str) -> str:
    match state:
        case ast.StreamState(alias=alias):
            return f"{name(alias)}={_source(state.input)}" if alias is not None else _source(state.input)
        case ast.CountState():
            return _state(state.element, kind) + _count(state, kind)
        case ast.AbsentState(waiting=waiting):
            return f"not {_source(state.input)}" + (f" for {format_time(waiting)}" if waiting is not None else "")
        case ast.LogicalState():
            return f"{_state(state.left, kind)} {state.op} {_state(state.right, kind)}"
        case ast.EveryState():
            return f"every {_inside(state.element, kind)}"
        case ast.ChainState():
            joint = ", " if kind == "sequence" else " -> "
            return joint.join(_inside(element, kind) for element in state.elements)
    raise AssertionError(f"no text for {type(state).__name__}")


def _inside(state: ast.StateElement, kind: str) -> str:
    """Return an element of a chain or of ``every``; a chain there stands in parentheses."""
    return f"({_state(state, kind)})" if isinstance(state, ast.ChainState) else _state(state, kind)


def _count(count: ast.CountState, kind: str) -> str:
    if kind == "sequence" and (count.min, count.max) in _QUANTIFIERS:
        return _QUANTIFIERS[count.min, count.max]
    if count.min == count.max:
        return f"<{count.min}>"
    return f"<{count.min}:{'' if count.max is None else count.max}>"


# --- selection, rate, output -----------------------------------------------------------------------------------------


def _selection(select: ast.Selection) -> list[str]:
    lines = _fold("select ", [_item(item) for item in select.items] or ["*"])
    if select.group_by:
        lines.append(f"group by {list_of(format_expression(variable) for variable in select.group_by)}")
    if select.having is not None:
        lines.append(f"having {format_expression(select.having)}")
    if select.order_by:
        lines.append(f"order by {list_of(_order(order) for order in select.order_by)}")
    for word, constant in (("limit", select.limit), ("offset", select.offset)):
        if constant is not None:
            lines.append(f"{word} {format_expression(constant)}")
    return lines


def _item(item: ast.SelectItem) -> str:
    text = format_expression(item.expression)
    return text if item.alias is None else f"{text} as {name(item.alias)}"


def _order(order: ast.OrderBy) -> str:
    return format_expression(order.variable) + (" desc" if order.descending else "")


def _rate(rate: ast.OutputRate) -> str:
    kind = "" if rate.kind == "all" else f" {rate.kind}"
    every = format_time(rate.time) if rate.time is not None else f"{rate.events} events"
    return f"output{kind} every {every}"


def _output(output: ast.Output) -> list[str]:
    target = format_stream(output.target) if output.target is not None else ""
    events = f" for {_events(output.events)}" if output.events else ""
    match output:
        case ast.InsertInto(events=kind):
            return [f"insert {_events(kind)} into {target}" if kind else f"insert into {target}"]
        case ast.Delete(on=on):
            return [f"delete {target}{events}", *_indented(_conditions(on, (), None))]
        case ast.Update(on=on):
            head = f"{'update or insert into' if output.or_insert else 'update'} {target}{events}"
            sets = [f"{format_expression(item.variable)} = {format_expression(item.expression)}" for item in output.set]
            return [head, *_indented((_fold("set ", sets) if sets else []) + _conditions(on, (), None))]
        case ast.Return(events=kind):
            return [f"return {_events(kind)}" if kind else "return"]
    raise AssertionError(f"no text for {type(output).__name__}")
