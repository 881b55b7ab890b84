"""Generators of syntax trees: whatever SiddhiQL can write, in the form in which the parser gives it."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from spdist.language import ast
from spdist.language.types import Type

_KEYWORDS = """
app stream define table from partition window select group by order asc desc limit offset having insert delete update
set return events into output expired current snapshot for raw of as at or and in on is not within with begin end null
every last all first join inner outer right left full unidirectional years months weeks days hours minutes seconds
milliseconds false true string int long float double bool object function trigger aggregation aggregate per min sec
"""

_identifiers = st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,8}", fullmatch=True)
_quoted = st.text(st.characters(exclude_characters="`\r\n$\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
_keywords = st.sampled_from(_KEYWORDS.split()).flatmap(
    lambda word: st.sampled_from([word, word.upper(), word.capitalize()])
)
#: Anything that can be a name: identifiers, keywords in any case, and what needs backticks. "maybe" is kept free.
names = (_identifiers | _keywords | _quoted).filter(lambda name: name != "maybe")


def _writable(text: str) -> bool:
    return "${" not in text and '"""' not in text and not text.endswith('"')


#: Strings that some kind of quotes can hold.
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(_writable)

_ints = st.integers(-(2**31), 2**31 - 1)
_counts = st.integers(0, 2**31 - 1)
_float32 = st.floats(width=32, allow_nan=False).map(lambda value: struct.unpack("f", struct.pack("f", value))[0])


def _time_of(units: list[str]) -> st.SearchStrategy[ast.TimeLiteral]:
    longest_first = sorted(units, key=lambda unit: -ast.UNIT_MS[unit])
    # Each has an equal share of the milliseconds that fit into long.
    amounts = [st.integers(0, (2**63 - 1) // (len(units) * ast.UNIT_MS[unit])) for unit in longest_first]
    return st.tuples(*amounts).map(lambda drawn: ast.TimeLiteral(tuple(zip(drawn, longest_first, strict=True))))


times = st.lists(st.sampled_from(list(ast.UNIT_MS)), min_size=1, max_size=4, unique=True).flatmap(_time_of)
literals = st.one_of(
    st.builds(ast.Literal, _ints, st.just(Type.INT)),
    st.builds(ast.Literal, st.integers(-(2**63), 2**63 - 1), st.just(Type.LONG)),
    st.builds(ast.Literal, _float32, st.just(Type.FLOAT)),
    st.builds(ast.Literal, st.floats(allow_nan=False), st.just(Type.DOUBLE)),
    st.builds(ast.Literal, st.booleans(), st.just(Type.BOOL)),
    st.builds(ast.Literal, strings, st.just(Type.STRING)),
)
streams = st.one_of(
    st.builds(ast.StreamRef, names),
    st.builds(ast.StreamRef, names, inner=st.just(True)),
    st.builds(ast.StreamRef, names, fault=st.just(True)),
)
_indexes = st.builds(ast.EventIndex, _counts, st.booleans())
_qualified = st.builds(ast.Variable, names, streams, st.none() | _indexes)
variables = st.builds(ast.Variable, names) | _qualified


def _tuples(strategy: st.SearchStrategy[Any], min_size: int = 0, max_size: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(strategy, min_size=min_size, max_size=max_size).map(tuple)


def _calls(arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[ast.FunctionCall]:
    namespaces = st.none() | names
    return st.builds(ast.FunctionCall, names, _tuples(arguments), namespaces) | st.builds(
        ast.FunctionCall, names, namespace=namespaces, star=st.just(True)
    )


def _larger(smaller: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operators = st.sampled_from(["or", "and", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"])
    # A bare attribute called like a source of its query is read as that source's event: "maybe" is never a source.
    nullable = st.just(ast.Variable("maybe")) | _qualified | _calls(smaller)
    return st.one_of(
        st.builds(ast.Binary, operators, smaller, smaller),
        st.builds(ast.Not, smaller),
        st.builds(ast.IsNull, nullable),
        st.builds(ast.IsNullEvent, streams, _indexes),
        st.builds(ast.In, smaller, names),
        _calls(smaller),
    )


_expressions = st.recursive(literals | times | variables, _larger, max_leaves=8)
# Deferred, as other large strategies here: their description would be longer than any example.
expressions: st.SearchStrategy[Any] = st.deferred(lambda: _expressions)

# --- annotations and definitions

_elements = st.builds(ast.AnnotationElement, st.none() | strings | _identifiers, strings)
_flat = st.builds(ast.Annotation, names, _tuples(_elements))
annotations = st.recursive(
    _flat, lambda inner: st.builds(ast.Annotation, names, _tuples(_elements), _tuples(inner)), max_leaves=4
)
app_annotations = st.builds(ast.Annotation, names.map(lambda name: f"app:{name}"), _tuples(_elements))
_annotated = _tuples(annotations, max_size=2)
attributes = st.lists(
    st.builds(ast.Attribute, names, st.sampled_from(Type)), min_size=1, max_size=4, unique_by=lambda a: a.name
).map(tuple)
_events = st.sampled_from(["current", "expired", "all"])
_calls_of_any = _calls(expressions)
_scripts = st.recursive(
    st.text(st.characters(exclude_characters="{}'\"$", exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.tuples(inner, inner).map(lambda pair: f"{pair[0]}{{{pair[1]}}}"),
    max_leaves=3,
)

# --- inputs

handlers = _tuples(st.builds(ast.Filter, expressions) | st.builds(ast.StreamFunction, _calls_of_any), max_size=2)
_plain = st.deferred(lambda: st.builds(ast.SingleInput, streams, handlers))
single_inputs = _plain | st.builds(ast.SingleInput, streams, handlers, _calls_of_any, handlers)
_join_inputs = _plain | st.builds(ast.SingleInput, streams, handlers, _calls_of_any)


@st.composite
def joins(draw: st.DrawFn) -> ast.JoinInput:
    left, right = (draw(st.builds(ast.JoinSide, _join_inputs, st.none() | names)) for _ in range(2))
    asking = draw(st.sampled_from(["left", "right", "neither"]))
    left = ast.JoinSide(left.input, left.alias, asking == "left")
    right = ast.JoinSide(right.input, right.alias, asking == "right")
    kind = draw(st.sampled_from(["inner", "left outer", "right outer", "full outer"]))
    within = draw(_tuples(expressions, max_size=2))
    per = draw(expressions) if within else None
    return ast.JoinInput(left, kind, right, draw(st.none() | expressions), within, per)


_states = st.builds(ast.StreamState, _plain, st.none() | names)
_absent = st.builds(ast.AbsentState, _plain, times)
_logical_sides: st.SearchStrategy[Any] = st.deferred(
    lambda: _states | st.builds(ast.AbsentState, _plain, st.none() | times)
)
_logical = st.builds(ast.LogicalState, _logical_sides, st.sampled_from(["and", "or"]), _logical_sides)
_counted = st.builds(ast.CountState, _states, _counts, st.none() | _counts)
_single_elements = _states | _absent | _logical | _counted


def _chain(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(ast.ChainState, _tuples(elements, min_size=2))


_nested: st.SearchStrategy[Any] = st.deferred(
    lambda: _single_elements | _chain(_single_elements | _chain(_single_elements))
)
_every = st.builds(ast.EveryState, _nested)
_elements_of_patterns = st.one_of(_single_elements, _every, _chain(_nested | _every))
_chains_of_sequences = st.builds(
    lambda first, rest: ast.ChainState((first, *rest)),
    _single_elements | st.builds(ast.EveryState, _single_elements),
    _tuples(_nested, min_size=1),
)
_withins = st.none() | times


def _is_pattern(pattern: ast.PatternInput) -> bool:
    """One stream alone, without a name and a bound, is a plain input."""
    plain = isinstance(pattern.element, ast.StreamState) and pattern.element.alias is None
    return not (plain and pattern.within is None) and _has_place(pattern)


def _has_place(pattern: ast.PatternInput) -> bool:
    """There is no place for absences in a row, nor for a sequence that begins and ends with one."""
    elements = pattern.element.elements if isinstance(pattern.element, ast.ChainState) else (pattern.element,)
    repeated = (one.element if isinstance(one, ast.EveryState) else one for one in elements)
    absent = [isinstance(one, ast.AbsentState) for one in repeated]
    return not (any(map(all, pairwise(absent))) or (pattern.kind == "sequence" and absent[0] and absent[-1]))


patterns = st.builds(ast.PatternInput, st.just("pattern"), st.deferred(lambda: _elements_of_patterns), _withins).filter(
    _is_pattern
)
sequences = st.builds(
    ast.PatternInput, st.just("sequence"), st.deferred(lambda: _chains_of_sequences), _withins
).filter(_has_place)

# --- queries

_items = st.builds(ast.SelectItem, expressions, names) | st.builds(ast.SelectItem, variables)
_limits = st.builds(ast.Literal, _ints, st.just(Type.INT)) | st.builds(
    ast.Literal, st.integers(-(2**63), 2**63 - 1), st.just(Type.LONG)
)
_selections = st.builds(
    ast.Selection,
    _tuples(_items),
    _tuples(variables, max_size=2),
    st.none() | expressions,
    _tuples(st.builds(ast.OrderBy, variables, st.booleans()), max_size=2),
    st.none() | _limits,
    st.none() | _limits,
)
selections = st.deferred(lambda: _selections)
rates = st.builds(ast.OutputRate, st.sampled_from(["all", "first", "last"]), _counts) | st.builds(
    ast.OutputRate, st.sampled_from(["all", "first", "last", "snapshot"]), time=times
)
_sets = _tuples(st.builds(ast.SetItem, variables, expressions), max_size=2)
_writes = st.one_of(
    st.builds(ast.InsertInto, streams, st.none() | _events),
    st.builds(ast.Delete, streams, st.none() | _events, st.none() | expressions),
    st.builds(ast.Update, streams, st.none() | _events, _sets, expressions, st.booleans()),
)
writes: st.SearchStrategy[Any] = st.deferred(lambda: _writes)
returns = st.builds(ast.Return, st.none(), st.none() | _events)
_rated = st.none() | rates
_inner = st.builds(ast.Query, single_inputs | joins(), returns, selections, _rated, _annotated)
_inputs = st.one_of(single_inputs, joins(), patterns, sequences, st.builds(ast.AnonymousInput, _inner))


def _sources(query_input: ast.Input) -> set[str]:
    """Return the names of a query's sources that can stand without a mark."""
    match query_input:
        case ast.SingleInput():
            return {query_input.stream.name}
        case ast.JoinInput():
            sides = (query_input.left, query_input.right)
            return {side.alias or side.input.stream.name for side in sides}
        case ast.PatternInput():
            states = [node for node in query_input.walk() if isinstance(node, ast.StreamState)]
            return {state.alias or state.input.stream.name for state in states}
    return set()


@st.composite
def queries(draw: st.DrawFn) -> ast.Query:
    query_input = draw(_inputs)
    select = draw(selections)
    sources = sorted(_sources(query_input))
    if sources and draw(st.booleans()):
        asks = ast.SelectItem(ast.IsNullEvent(ast.StreamRef(draw(st.sampled_from(sources)))), "missing")
        select = ast.Selection((*select.items, asks), select.group_by, select.having)
    return ast.Query(query_input, draw(writes | returns), select, draw(_rated), draw(_annotated))


_keys = st.builds(ast.PartitionKey, streams, expressions) | st.builds(
    ast.PartitionKey,
    streams,
    ranges=_tuples(st.builds(ast.RangeCondition, expressions, strings), min_size=1),
)
_partitions = st.builds(
    ast.Partition, _tuples(_keys, min_size=1, max_size=2), _tuples(queries(), min_size=1, max_size=2), _annotated
)
partitions = st.deferred(lambda: _partitions)
_grouped = st.builds(ast.Selection, _tuples(_items), _tuples(variables, max_size=2))
_units = st.sampled_from(list(ast.UNIT_MS))
_aggregations = st.builds(
    ast.AggregationDefinition,
    names,
    _plain,
    _grouped,
    st.none() | variables,
    _tuples(_units, min_size=1),
    st.just(False),
    annotations=_annotated,
) | st.builds(
    ast.AggregationDefinition,
    names,
    _plain,
    _grouped,
    st.none() | variables,
    _tuples(_units, min_size=2, max_size=2),
    st.just(True),
    annotations=_annotated,
)
_definitions = st.one_of(
    st.builds(ast.StreamDefinition, names, attributes, annotations=_annotated),
    st.builds(ast.TableDefinition, names, attributes, annotations=_annotated),
    st.builds(ast.WindowDefinition, names, attributes, _calls_of_any, st.none() | _events, annotations=_annotated),
    st.builds(ast.TriggerDefinition, names, times, annotations=_annotated),
    st.builds(ast.TriggerDefinition, names, at=strings, annotations=_annotated),
    st.builds(ast.FunctionDefinition, names, names, st.sampled_from(Type), _scripts, annotations=_annotated),
    _aggregations,
)
definitions: st.SearchStrategy[Any] = st.deferred(lambda: _definitions)


@st.composite
def apps(draw: st.DrawFn) -> ast.SiddhiApp:
    return ast.SiddhiApp(
        draw(_tuples(app_annotations, max_size=2)),
        draw(_tuples(definitions, min_size=1, max_size=3)),
        draw(_tuples(queries() | partitions, max_size=3)),
    )


_on_demand_queries = st.one_of(
    st.builds(
        ast.OnDemandQuery,
        names,
        st.none() | names,
        st.none() | expressions,
        st.just(()),
        st.none(),
        selections,
        st.none() | writes,
    ),
    st.builds(ast.OnDemandQuery, names, within=_tuples(expressions, 1, 2), per=expressions, select=selections),
    st.builds(ast.OnDemandQuery, select=selections, output=writes),
)


@st.composite
def on_demand_queries(draw: st.DrawFn) -> ast.OnDemandQuery:
    return draw(_on_demand_queries)
