from __future__ import annotations

import pytest

from spdist.errors import SiddhiAppError
from spdist.language import ast
from spdist.language.format import format_app, format_node
from spdist.language.parsing.parser import parse, parse_expression, parse_on_demand
from spdist.language.types import Type


def test_samples_come_back(sample: str) -> None:
    app = parse(sample)
    text = format_app(app)
    assert parse(text) == app
    assert format_app(parse(text)) == text


def test_one_clause_per_line() -> None:
    text = (
        "@app:name('X') @async define stream S(a string,b int); define table T(a string); @info(name='q') from "
        "S[b>5]#window.length(2) select a,sum(b) as t group by a having t>1 order by t desc limit 1 output last every "
        "5 sec insert all events into O; from S select a update or insert into T set T.a=a on T.a==a"
    )
    assert format_app(parse(text)) == (
        """@app:name('X')

@async
define stream S (a string, b int);
define table T (a string);

@info(name='q')
from S[b > 5]#window.length(2)
select a, sum(b) as t
group by a
having t > 1
order by t desc
limit 1
output last every 5 sec
insert all events into O;

from S
select a
update or insert into T
    set T.a = a
    on T.a == a;
"""
    )


def test_long_lines_are_broken() -> None:
    columns = ", ".join(f"attribute_number_{i} string" for i in range(6))
    text = (
        f"@source(type='kafka', topic.list='a', bootstrap.servers='localhost:9092', group.id='abcdefgh', "
        f"threading.option='single.thread', @map(type='json')) define stream S ({columns}); "
        "from every e1=S[attribute_number_1 == 'x' and attribute_number_2 == 'y'] -> e2=S[attribute_number_1 == "
        "e1.attribute_number_1] within 1 min select e1.attribute_number_1 as a insert into Out"
    )
    formatted = format_app(parse(text))
    assert parse(formatted) == parse(text)
    assert max(map(len, formatted.splitlines())) <= 100
    assert "\n    -> e2=S[" in formatted
    assert "\n    within 1 min\n" in formatted


def test_partitions_are_indented_and_texts_of_several_lines_stay_as_they_are() -> None:
    text = 'define stream S (a string); partition with (a of S) begin from S select """x\ny""" as b insert into #O; end'
    formatted = format_app(parse(text))
    assert formatted.splitlines()[2:] == [
        "partition with (a of S)",
        "begin",
        "    from S",
        '    select """x',
        'y""" as b',
        "    insert into #O;",
        "end;",
    ]
    assert parse(formatted) == parse(text)


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("((a))or(b and(c))", "a or b and c"),
        ("(a or b) and c", "(a or b) and c"),
        ("a - (b - c) - d", "a - (b - c) - d"),
        ("(a * b) + c", "a * b + c"),
        ("not (a and b)", "not (a and b)"),
        ("not a == b", "(not a) == b"),
        ("not (a == b)", "not (a == b)"),
        ("not not a", "not not a"),
        ("T.k == k in T", "(T.k == k) in T"),
        ("a in T or b", "a in T or b"),
        ("(a == b) == c", "a == b == c"),
        ("a == (b == c)", "a == (b == c)"),
        ("a - -5", "a - -5"),
        ("`from` + `select` + `a b`", "`from` + select + `a b`"),
        ("5 SECONDS", "5 sec"),
        ("1 minute 2 milliseconds", "1 min 2 millisec"),
        ("10l + 1.50 + 1.50f + 1e39f", "10L + 1.5 + 1.5f + 1e999f"),
        ("0.1f", "0.1f"),
        ('a == "it\'s"', 'a == "it\'s"'),
        ("e1[last-1].a is null", "e1[last - 1].a is null"),
    ],
)
def test_expressions(text: str, formatted: str) -> None:
    assert format_node(parse_expression(text)) == formatted


@pytest.mark.parametrize("text", ["plain", "it's", 'say "x" now', "two\nlines", "", "tab\there", '"quoted" it\'s'])
def test_strings_find_their_quotes(text: str) -> None:
    literal = ast.Literal(text, Type.STRING)
    assert parse_expression(format_node(literal)) == literal


@pytest.mark.parametrize(
    "node",
    [
        ast.Literal("both ' and \"", Type.STRING),
        ast.Literal('a """ b', Type.STRING),
        ast.Literal("${HOME}", Type.STRING),
        ast.Variable("a`b"),
        ast.Variable(""),
        ast.IsNull(ast.Literal(1, Type.INT)),
        ast.EventIndex(1),
    ],
)
def test_what_siddhiql_cannot_write_is_refused(node: ast.Node) -> None:
    with pytest.raises(SiddhiAppError):
        format_node(node)


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("from T as t on t.a == 1 select a order by a", "from T as t\non t.a == 1\nselect a\norder by a"),
        ("from T", "from T\nselect *"),
        ("delete T on a == 1", "delete T\n    on a == 1"),
        ("select 1 as a insert into T", "select 1 as a\ninsert into T"),
    ],
)
def test_on_demand_queries(text: str, formatted: str) -> None:
    assert format_node(parse_on_demand(text)) == formatted


def test_parts_of_an_app_have_a_text() -> None:
    app = parse("@app:name('X') @async define stream S (a int); from S -> S within 1 sec select 1 as b insert into #O")
    (query,) = app.elements
    assert isinstance(query, ast.Query)
    parts = [app.annotations[0], app.definitions[0], query.input, query.output, ast.StreamRef("S", fault=True)]
    assert [format_node(part) for part in parts] == [
        "@app:name('X')",
        "@async\ndefine stream S (a int)",
        "S -> S within 1 sec",
        "insert into #O",
        "!S",
    ]
