from __future__ import annotations

import pytest

from spdist.errors import AppValidationError, SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import find_errors, is_aggregator, resolve_call, type_of, uses_aggregator
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.parsing.parser import parse_expression
from spdist.language.types import Schema, Type

COLUMNS = [
    ("i", "int"),
    ("l", "long"),
    ("f", "float"),
    ("d", "double"),
    ("s", "string"),
    ("b", "bool"),
    ("o", "object"),
]
TABLE = AttributeSource("T", "T", Schema.of([("k", "string"), ("n", "int")]), "table")
SCOPE = Scope((AttributeSource("S", "S", Schema.of(COLUMNS)),), tables=(TABLE,))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i + i", Type.INT),
        ("i / l", Type.LONG),
        ("l * f", Type.FLOAT),
        ("f - d", Type.DOUBLE),
        ("i % d", Type.DOUBLE),
        # Upstream lets these pass and drops the event when it comes.
        ("s + i", Type.INT),
        ("b + d", Type.DOUBLE),
        ("o + i", Type.INT),
        ("5 sec + i", Type.LONG),
        ("1", Type.INT),
        ("1L", Type.LONG),
        ("'x'", Type.STRING),
        ("i > d", Type.BOOL),
        ("i == l", Type.BOOL),
        ("s == 'x'", Type.BOOL),
        ("b != (i > 2)", Type.BOOL),
        ("not b", Type.BOOL),
        ("b and not b or i < 1", Type.BOOL),
        ("o is null", Type.BOOL),
        ("S is null", Type.BOOL),
        ("S[1] is null", Type.BOOL),
        ("(T.k == s and i > T.n) in T", Type.BOOL),
        ("sum(i)", Type.LONG),
        ("sum(f)", Type.DOUBLE),
        ("count()", Type.LONG),
        ("convert(s, 'float')", Type.FLOAT),
        ("coalesce(s, 'x')", Type.STRING),
        ("str:concat(s, i)", Type.STRING),
        ("sum(i) + 1.0", Type.DOUBLE),
    ],
)
def test_types(text: str, kind: Type, catalog: Catalog) -> None:
    expression = parse_expression(text)
    if text.startswith("S is"):
        expression = ast.IsNullEvent(ast.StreamRef("S"))
    assert type_of(expression, SCOPE, catalog) is kind


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("s + s", SiddhiTypeError, "s + s"),
        ("b * o", SiddhiTypeError, "b * o"),
        ("i > s", SiddhiTypeError, "i > s"),
        ("s > 'x'", SiddhiTypeError, "s > 'x'"),
        ("b >= b", SiddhiTypeError, "b >= b"),
        ("s == i", SiddhiTypeError, "s == i"),
        ("b == i", SiddhiTypeError, "b == i"),
        ("o == o", SiddhiTypeError, "o == o"),
        ("o == 2", SiddhiTypeError, "o == 2"),
        ("b and i", SiddhiTypeError, "i"),
        ("s or b", SiddhiTypeError, "s"),
        ("not i", SiddhiTypeError, "i"),
        ("not b == i", SiddhiTypeError, "not b == i"),
        ("i in T", SiddhiTypeError, "i"),
        ("(U.k == s) in U", UndefinedNameError, "U"),
        ("(T.k == n) in T", AppValidationError, "n"),
        ("x + 1", UndefinedNameError, "x"),
        ("R.i", UndefinedNameError, "R"),
        ("R[0] is null", UndefinedNameError, "R"),
        ("sum(s)", SiddhiTypeError, "sum(s)"),
        ("SUM(i)", UndefinedNameError, "SUM(i)"),
        ("geo:distance(i)", UndefinedNameError, "geo:distance(i)"),
        ("coalesce(s, i)", SiddhiTypeError, "coalesce(s, i)"),
    ],
)
def test_what_has_no_type(text: str, error: type[SiddhiAppError], part: str, catalog: Catalog) -> None:
    with pytest.raises(error) as caught:
        type_of(parse_expression(text), SCOPE, catalog)
    span = caught.value.span
    assert span is not None
    assert text[span.start : span.end] == part


def test_all_errors_of_an_expression_are_found_and_each_once(catalog: Catalog) -> None:
    text = "x + y > 2 and sum(z) == 'a' or not i and unknown(w) > 3"
    kind, errors = find_errors(parse_expression(text), SCOPE, catalog)
    assert kind is None
    assert [text[error.span.start : error.span.end] for error in errors if error.span] == [
        "x",
        "y",
        "z",
        "i",
        "w",
        "unknown(w)",
    ]


def test_hints_say_what_to_write(catalog: Catalog) -> None:
    hints = {}
    for text in ("s + s", "s < s", "o == 1", "SUM(i)"):
        with pytest.raises(SiddhiAppError) as caught:
            type_of(parse_expression(text), SCOPE, catalog)
        hints[text] = caught.value.hint
    assert hints == {
        "s + s": "Join strings with str:concat(a, b).",
        "s < s": "A string can only be compared with == and !=.",
        "o == 1": "Name its type first: cast(value, 'type'); "
        "of a counted element say which event: e1[0].a or e1[last].a.",
        "SUM(i)": "Did you mean 'sum'?",
    }


def test_a_star_stands_for_all_attributes(catalog: Catalog) -> None:
    call = parse_expression("f(*)")
    assert isinstance(call, ast.FunctionCall)
    types, expressions, errors = resolve_call(call, SCOPE, catalog)
    assert types == tuple(Type(kind) for _, kind in COLUMNS)
    assert [getattr(expression, "name", None) for expression in expressions] == [name for name, _ in COLUMNS]
    assert not errors


def test_aggregators_are_told_from_functions() -> None:
    both = Catalog(
        functions={"max": lambda *_: Type.INT}, aggregators={"max": lambda *_: Type.INT, "sum": lambda *_: Type.INT}
    )
    calls = {name: ast.FunctionCall(name) for name in ("max", "sum", "other")}
    assert [is_aggregator(call, both) for call in calls.values()] == [False, True, False]
    assert uses_aggregator(parse_expression("1 + sum(i)"), both)
    assert not uses_aggregator(parse_expression("1 + max(i)"), both)
