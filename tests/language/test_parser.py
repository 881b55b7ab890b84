from __future__ import annotations

import pytest

from spdist.errors import SiddhiSyntaxError
from spdist.language import ast
from spdist.language.parsing.parser import parse, parse_expression, parse_on_demand
from spdist.language.types import Schema, Type

STREAMS = "define stream A (id string, v int); define stream B (id string, v int);\n"


def query(text: str) -> ast.Query:
    element = parse(STREAMS + text).elements[0]
    assert isinstance(element, ast.Query)
    return element


def selected(expression: str) -> ast.Expression:
    return query(f"from A select {expression} as x insert into Out").select.items[0].expression


def var(name: str, stream: str | None = None, index: ast.EventIndex | None = None) -> ast.Variable:
    return ast.Variable(name, ast.StreamRef(stream) if stream else None, index)


def refused(text: str) -> SiddhiSyntaxError:
    with pytest.raises(SiddhiSyntaxError) as caught:
        parse(text)
    assert caught.value.span is not None
    return caught.value


def test_all_samples_are_read(sample: str) -> None:
    app = parse(sample)
    assert app.definitions
    assert all(node.span is not None for node in app.walk())


def test_spans_cover_the_text_of_their_nodes() -> None:
    text = "define stream S (a int);\nfrom S[a > 5]\nselect a + 1 as b insert into Out;"
    found = parse(text).elements[0]
    assert isinstance(found, ast.Query)
    assert isinstance(found.input, ast.SingleInput)
    condition = found.input.before[0]
    item = found.select.items[0]
    assert [text[node.span.start : node.span.end] for node in (condition, item, found.output) if node.span] == [
        "[a > 5]",
        "a + 1 as b",
        "insert into Out",
    ]
    assert item.span is not None
    assert (item.span.line, item.span.column, item.span.end_line, item.span.end_column) == (3, 8, 3, 18)


def test_columns_count_after_any_kind_of_line_end() -> None:
    assert refused("define stream S (a int);\r\nfrom S select").span.line == 2  # type: ignore[union-attr]
    assert refused("define stream S (a int);\rfrom S[ select").span.line == 2  # type: ignore[union-attr]


# --- names and words


@pytest.mark.parametrize(
    "word", ["select", "FROM", "last", "min", "order", "window", "stream", "all", "app", "is", "null"]
)
def test_keywords_are_names_where_no_keyword_fits(word: str) -> None:
    app = parse(f"define stream {word} ({word} int); from {word} select {word} as {word} insert into {word};")
    element = app.elements[0]
    assert isinstance(element, ast.Query)
    assert element.input == ast.SingleInput(ast.StreamRef(word))
    assert element.select.items == (ast.SelectItem(var(word), word),)


@pytest.mark.parametrize("word", ["every", "not", "from", "or", "true", "false"])
def test_backticks_make_a_name_of_any_word(word: str) -> None:
    app = parse(f"define stream `{word}` (`{word}` int); from `{word}` select `{word}` as x insert into Out;")
    element = app.elements[0]
    assert isinstance(element, ast.Query)
    assert element.input == ast.SingleInput(ast.StreamRef(word))
    assert element.select.items[0].expression == var(word)


def test_names_keep_their_case_and_keywords_have_none() -> None:
    upper = parse("DEFINE STREAM S (A INT); FROM S#WINDOW.length(2) SELECT A, SUM(A) AS t INSERT ALL EVENTS INTO Out;")
    lower = parse("define stream S (A int); from S#window.length(2) select A, SUM(A) as t insert all events into Out;")
    assert upper == lower
    assert upper != parse(
        "define stream S (a int); from S#window.length(2) select a, SUM(a) as t insert all events into Out;"
    )


def test_a_keyword_is_a_whole_word() -> None:
    element = query("from A select fromage, selection, notes, trueish insert into Out")
    assert [item.name for item in element.select.items] == ["fromage", "selection", "notes", "trueish"]


# --- constants


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("10", 10, Type.INT),
        ("-2147483648", -(2**31), Type.INT),
        ("- 5", -5, Type.INT),
        ("+5", 5, Type.INT),
        ("10L", 10, Type.LONG),
        ("-9223372036854775808l", -(2**63), Type.LONG),
        ("1.5f", 1.5, Type.FLOAT),
        ("2F", 2.0, Type.FLOAT),
        (".5f", 0.5, Type.FLOAT),
        ("1e3f", 1000.0, Type.FLOAT),
        ("1.f", 1.0, Type.FLOAT),
        ("1.e3", 1000.0, Type.DOUBLE),
        ("0.1f", 0.10000000149011612, Type.FLOAT),
        ("1e39f", float("inf"), Type.FLOAT),
        ("1.5", 1.5, Type.DOUBLE),
        (".5", 0.5, Type.DOUBLE),
        ("1.5d", 1.5, Type.DOUBLE),
        ("2D", 2.0, Type.DOUBLE),
        ("1e5", 100000.0, Type.DOUBLE),
        ("1E-3", 0.001, Type.DOUBLE),
        ("TRUE", True, Type.BOOL),
        ("False", False, Type.BOOL),
        ("'it'", "it", Type.STRING),
        ('"it\'s"', "it's", Type.STRING),
        ("''", "", Type.STRING),
        ('""', "", Type.STRING),
        ('""""""', "", Type.STRING),
        ('"""two "lines"\nof \'text\'"""', "two \"lines\"\nof 'text'", Type.STRING),
        ("'-- no comment /* here'", "-- no comment /* here", Type.STRING),
    ],
)
def test_constants(text: str, value: object, kind: Type) -> None:
    literal = selected(text)
    assert isinstance(literal, ast.Literal)
    assert (literal.value, literal.type) == (value, kind)
    assert type(literal.value) is type(value)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("2147483648", 8),
        ("-2147483649", 9),
        ("9223372036854775808L", 8),
        ("9" * 5000, 8),
        ("9223372036854775808 millisec", 8),
        ("300000000 years", 8),
    ],
)
def test_a_number_that_does_not_fit_is_refused_where_it_stands(text: str, column: int) -> None:
    error = refused(f"define stream A (v int);\nfrom A\nselect {text} as x insert into Out")
    assert "does not fit" in error.message
    assert error.span is not None
    assert (error.span.line, error.span.column) == (3, column)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("5 sec", 5_000),
        ("1 minute 30 seconds", 90_000),
        ("2 min 5 millisec", 120_005),
        ("1 year 2 months 3 weeks", (365 + 60 + 21) * 86_400_000),
        ("1 hours 1 milliseconds", 3_600_001),
        ("7 DAYS", 7 * 86_400_000),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    literal = selected(text)
    assert isinstance(literal, ast.TimeLiteral)
    assert literal.milliseconds == milliseconds


@pytest.mark.parametrize("text", ["5 sec 1 min", "1 sec 2 sec", "- 5 sec", "5 ms", "1."])
def test_what_is_no_time_or_number(text: str) -> None:
    refused(f"{STREAMS} from A select {text} as x insert into Out")


# --- expressions


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a or b and c", "a or (b and c)"),
        ("a and b or c and d", "(a and b) or (c and d)"),
        ("not a == b", "(not a) == b"),
        ("not a is null", "not (a is null)"),
        ("a == b < c", "a == (b < c)"),
        ("a == b and c != d", "(a == b) and (c != d)"),
        ("a < b + c", "a < (b + c)"),
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b % c", "(a / b) % c"),
        ("T.k == k in T", "(T.k == k) in T"),
        ("a in T and b", "(a in T) and b"),
        ("not a in T", "(not a) in T"),
        ("a -5", "a - 5"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    assert parse_expression(text) == parse_expression(same)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", var("a")),
        ("S.a", var("a", "S")),
        ("e1[0].a", var("a", "e1", ast.EventIndex(0))),
        ("e1[last].a", var("a", "e1", ast.EventIndex(0, True))),
        ("e1[last - 2].a", var("a", "e1", ast.EventIndex(2, True))),
        ("#I.a", ast.Variable("a", ast.StreamRef("I", inner=True))),
        ("!S.a", ast.Variable("a", ast.StreamRef("S", fault=True))),
        ("e1[1] is null", ast.IsNullEvent(ast.StreamRef("e1"), ast.EventIndex(1))),
        ("a is null", ast.IsNull(var("a"))),
        ("f()", ast.FunctionCall("f")),
        ("f(*)", ast.FunctionCall("f", star=True)),
        ("ns:f(a, 1)", ast.FunctionCall("f", (var("a"), ast.Literal(1, Type.INT)), "ns")),
        ("min(a) is null", ast.IsNull(ast.FunctionCall("min", (var("a"),)))),
    ],
)
def test_names_and_calls(text: str, expected: ast.Expression) -> None:
    assert parse_expression(text) == expected


def test_is_null_asks_for_the_event_where_the_name_is_that_of_a_source() -> None:
    element = query("from e1=A or e2=B select e1 is null as a, v is null as b, A is null as c insert into Out")
    assert [item.expression for item in element.select.items] == [
        ast.IsNullEvent(ast.StreamRef("e1")),
        ast.IsNull(var("v")),
        ast.IsNull(var("A")),
    ]
    joined = query("from A as a join B on B is null select a is null as x insert into Out").input
    assert isinstance(joined, ast.JoinInput)
    assert joined.on == ast.IsNullEvent(ast.StreamRef("B"))


# --- definitions


def test_definitions() -> None:
    app = parse(
        """@PrimaryKey('a') define table T (a string, b bool);
        define window W (a float) length(2) output expired events;
        define trigger Now at 'start'; define trigger Often at every 5 sec;
        define function f[js] return long { return {"a": 1}; };
        define aggregation G from T[b]#f() select a group by a aggregate by a every sec ... day;"""
    )
    table, window, start, often, function, aggregation = app.definitions
    assert isinstance(table, ast.TableDefinition)
    assert table.schema == Schema.of([("a", "string"), ("b", "bool")])
    assert table.annotations == (ast.Annotation("PrimaryKey", (ast.AnnotationElement(None, "a"),)),)
    assert window == ast.WindowDefinition(
        "W", (ast.Attribute("a", Type.FLOAT),), ast.FunctionCall("length", (ast.Literal(2, Type.INT),)), "expired"
    )
    assert start == ast.TriggerDefinition("Now", at="start")
    assert often == ast.TriggerDefinition("Often", every=ast.TimeLiteral(((5, "second"),)))
    assert function == ast.FunctionDefinition("f", "js", Type.LONG, ' return {"a": 1}; ')
    assert isinstance(aggregation, ast.AggregationDefinition)
    assert (aggregation.durations, aggregation.is_range) == (("second", "day"), True)
    assert aggregation.aggregate_by == var("a")


def test_annotations() -> None:
    app = parse(
        """@app:name('X') @APP:playback
        @source(type='kafka', 'topic.list'="a", @map(type='json', fail-on.x='1', @attributes('a', b='$.b')))
        @async define stream S (a int);"""
    )
    assert (app.name, app.playback) == ("X", True)
    source, asynchronous = app.definitions[0].annotations
    assert asynchronous == ast.Annotation("async")
    assert (source.get("TYPE"), source.get("topic.list")) == ("kafka", "a")
    (mapping,) = source.nested("MAP")
    assert mapping.get("fail-on.x") == "1"
    assert mapping.nested("attributes")[0].get() == "a"


# --- inputs


def test_handlers_and_window() -> None:
    found = query("from A#[v > 1][v < 9]#f(v)#window.ns:w(*)[id == 'x'] insert into Out").input
    assert isinstance(found, ast.SingleInput)
    assert [type(handler) for handler in found.before] == [ast.Filter, ast.Filter, ast.StreamFunction]
    assert found.window == ast.FunctionCall("w", namespace="ns", star=True)
    assert len(found.after) == 1


def test_joins() -> None:
    found = query(
        "from A#window.length(1) as a unidirectional left outer join B on a.v == B.v "
        "within 1L, 2L per 'days' insert into Out"
    ).input
    assert isinstance(found, ast.JoinInput)
    assert (found.kind, found.left.alias, found.left.unidirectional, found.right.alias) == (
        "left outer",
        "a",
        True,
        None,
    )
    assert [bound.value for bound in found.within if isinstance(bound, ast.Literal)] == [1, 2]
    assert found.per == ast.Literal("days", Type.STRING)


A, B = ast.SingleInput(ast.StreamRef("A")), ast.SingleInput(ast.StreamRef("B"))
E1, E2 = ast.StreamState(A, "e1"), ast.StreamState(B, "e2")
SECOND = ast.TimeLiteral(((1, "second"),))


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("e1=A", E1),
        ("every A", ast.EveryState(ast.StreamState(A))),
        ("e1=A -> e2=B", ast.ChainState((E1, E2))),
        ("(e1=A -> e2=B)", ast.ChainState((E1, E2))),
        ("every (e1=A -> e2=B) -> A", ast.ChainState((ast.EveryState(ast.ChainState((E1, E2))), ast.StreamState(A)))),
        ("every e1=A and e2=B", ast.EveryState(ast.LogicalState(E1, "and", E2))),
        ("e1=A<2:5>", ast.CountState(E1, 2, 5)),
        ("e1=A<2:>", ast.CountState(E1, 2, None)),
        ("e1=A<:5>", ast.CountState(E1, 0, 5)),
        ("e1=A<3>", ast.CountState(E1, 3, 3)),
        ("not A for 1 sec", ast.AbsentState(A, SECOND)),
        ("not A and e2=B", ast.LogicalState(ast.AbsentState(A), "and", E2)),
        ("e1=A or not B for 1 sec", ast.LogicalState(E1, "or", ast.AbsentState(B, SECOND))),
        (
            "A -> (B -> A)",
            ast.ChainState((ast.StreamState(A), ast.ChainState((ast.StreamState(B), ast.StreamState(A))))),
        ),
    ],
)
def test_patterns(text: str, element: ast.StateElement) -> None:
    found = query(f"from {text} select 1 as x insert into Out").input
    assert found == ast.PatternInput("pattern", element)
    bounded = query(f"from {text} within 1 sec select 1 as x insert into Out").input
    assert bounded == ast.PatternInput("pattern", element, SECOND)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("every e1=A, e2=B", (ast.EveryState(E1), E2)),
        ("e1=A+, e2=B", (ast.CountState(E1, 1, None), E2)),
        ("e1=A*, e2=B?", (ast.CountState(E1, 0, None), ast.CountState(E2, 0, 1))),
        ("e1=A<2:3>, (e2=B, e1=A)", (ast.CountState(E1, 2, 3), ast.ChainState((E2, E1)))),
        ("e1=A and e2=B, not A for 1 sec", (ast.LogicalState(E1, "and", E2), ast.AbsentState(A, SECOND))),
    ],
)
def test_sequences(text: str, elements: tuple[ast.StateElement, ...]) -> None:
    found = query(f"from {text} within 1 sec select 1 as x insert into Out").input
    assert found == ast.PatternInput("sequence", ast.ChainState(elements), SECOND)


@pytest.mark.parametrize(
    "text",
    [
        "not A for 1 sec -> e2=B -> not A for 1 sec",
        "e1=A -> not B for 1 sec -> e2=B -> not A for 1 sec",
        "every (e1=A -> not B for 1 sec) -> e2=B",
        "(not A and e2=B), e1=A",
        "every ((not A for 1 sec and e2=B)), e1=A",
        "(e1=A and e2=B), not A for 1 sec, e3=B",
        "e1=A, not B for 1 sec, e2=B, not A for 1 sec",
    ],
)
def test_order_of_absences_and_brackets(text: str) -> None:
    assert isinstance(query(f"from {text} select 1 as x insert into Out").input, ast.PatternInput)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not A for 1 sec -> not B for 1 sec", "Absences stand in a row"),
        ("e1=A -> not A for 1 sec -> not B for 1 sec", "Absences stand in a row"),
        ("every not A for 1 sec -> not B for 1 sec -> e1=A", "Absences stand in a row"),
        ("not A for 1 sec, e2=B, not A for 1 sec", "Absences stand in a row"),
        ("e1=A, not A for 1 sec, not B for 1 sec", "Absences stand in a row"),
        ("(e1=A and e2=B), e3=A", "begin with a bracket"),
        ("every (e1=A or e2=B), e3=A", "begin with a bracket"),
        ("(e1=A, e2=B)", "begin with a bracket"),
    ],
)
def test_refused_order_of_absences_and_brackets(text: str, message: str) -> None:
    with pytest.raises(SiddhiSyntaxError, match=message):
        query(f"from {text} select 1 as x insert into Out")


def test_a_single_stream_without_name_and_bound_is_no_pattern() -> None:
    assert query("from A select v insert into Out").input == A
    assert query("from (A) select v insert into Out").input == A


# --- selection, rate, output


def test_selection_clauses() -> None:
    select = query(
        "from A select id, v + 1 as w group by id, A.v having w > 1 "
        "order by w desc, id asc limit 3 offset 1L insert into Out"
    ).select
    assert [item.name for item in select.items] == ["id", "w"]
    assert select.group_by == (var("id"), var("v", "A"))
    assert select.order_by == (ast.OrderBy(var("w"), True), ast.OrderBy(var("id"), False))
    assert (select.limit, select.offset) == (ast.Literal(3, Type.INT), ast.Literal(1, Type.LONG))


def test_select_star_is_no_selection() -> None:
    assert query("from A select * insert into Out").select == query("from A insert into Out").select == ast.Selection()


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("output every 3 events", ast.OutputRate("all", 3)),
        ("output first every 3 events", ast.OutputRate("first", 3)),
        ("output last every 1 sec", ast.OutputRate("last", time=SECOND)),
        ("output snapshot every 1 sec", ast.OutputRate("snapshot", time=SECOND)),
    ],
)
def test_rates(text: str, rate: ast.OutputRate) -> None:
    assert query(f"from A select v {text} insert into Out").rate == rate


OUT = ast.StreamRef("Out")
ON = ast.Binary("==", var("v", "Out"), var("v"))
SET = (ast.SetItem(var("v", "Out"), var("v")),)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("insert into Out", ast.InsertInto(OUT)),
        ("insert events into Out", ast.InsertInto(OUT, "current")),
        ("insert all events into #Out", ast.InsertInto(ast.StreamRef("Out", inner=True), "all")),
        ("delete Out", ast.Delete(OUT)),
        ("delete Out for expired events on Out.v == v", ast.Delete(OUT, "expired", ON)),
        ("update Out set Out.v = v on Out.v == v", ast.Update(OUT, None, SET, ON)),
        ("update or insert into Out on Out.v == v", ast.Update(OUT, on=ON, or_insert=True)),
        ("return", ast.Return(None)),
        ("return all events", ast.Return(None, "all")),
    ],
)
def test_outputs(text: str, output: ast.Output) -> None:
    assert query(f"from A {text}").output == output


def test_partitions() -> None:
    partition = parse(
        STREAMS
        + """@info(name='p') partition with (id of A, v < 5 as 'low' or v >= 5 as 'high' of B)
        begin from A insert into #I; @info(name='q') from #I insert into Out; end"""
    ).elements[0]
    assert isinstance(partition, ast.Partition)
    by_value, by_range = partition.keys
    assert by_value == ast.PartitionKey(ast.StreamRef("A"), var("id"))
    assert [condition.label for condition in by_range.ranges] == ["low", "high"]
    assert [element.name for element in partition.queries] == [None, "q"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from T", ast.OnDemandQuery("T")),
        ("from T as t on t.a > 1 select a limit 2", None),
        ("from G within 1L, 2L per 'days' select *", None),
        ("select 1 as a insert into T", None),
        ("delete T on a == 1", ast.OnDemandQuery(output=ast.Delete(ast.StreamRef("T"), on=parse_expression("a == 1")))),
        ("update T set T.a = 1 on T.b == 2", None),
        ("select 1 as a update or insert into T set T.a = 1 on T.b == 2", None),
    ],
)
def test_on_demand_queries(text: str, expected: ast.OnDemandQuery | None) -> None:
    found = parse_on_demand(text)
    assert expected is None or found == expected
    assert (found.store is None) == (not text.startswith("from"))


def test_variables_are_replaced_and_named_where_missing() -> None:
    app = parse("define stream S (a int); from S[a == ${limit}] insert into ${out};", {"limit": "42", "out": "Big"})
    element = app.elements[0]
    assert isinstance(element, ast.Query)
    assert element.output == ast.InsertInto(ast.StreamRef("Big"))
    with pytest.raises(SiddhiSyntaxError) as caught:
        parse("define stream ${a} (a int);\nfrom ${b} insert into Out;")
    assert [error.span.line for error in caught.value.errors if error.span] == [1, 2]
