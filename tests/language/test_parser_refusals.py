"""What the parser refuses, and where it says the error is."""

from __future__ import annotations

import pytest

from spdist.errors import SiddhiSyntaxError
from spdist.language.parsing.build_expressions import MAX_DEPTH
from spdist.language.parsing.parser import parse, parse_expression

STREAMS = "define stream A (id string, v int); define stream B (id string, v int);\n"


def refused(text: str) -> SiddhiSyntaxError:
    with pytest.raises(SiddhiSyntaxError) as caught:
        parse(text)
    assert caught.value.span is not None
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("-- nothing here", 1, 16),
        ("@app:name('x')", 1, 15),
        ("from A select v insert into Out", 1, 1),
        ("define stream S (a int) define stream R (a int)", 1, 25),
        ("define stream S ()", 1, 18),
        ("define stream S (a int, a string)", 1, 25),
        ("define stream S (a int);; define stream R (a int)", 1, 25),
        ("define stream 2S (a int)", 1, 15),
        ("define stream #S (a int)", 1, 15),
        (STREAMS + "from A select v insert into Out; define stream C (a int)", 2, 34),
        (STREAMS + "from A select v + 1 insert into Out", 2, 15),
        (STREAMS + "from A select *, v insert into Out", 2, 16),
        (STREAMS + "from A select v group by v + 1 insert into Out", 2, 28),
        (STREAMS + "from A select v limit 1 + 1 insert into Out", 2, 23),
        (STREAMS + "from A select v limit 1.0 insert into Out", 2, 23),
        (STREAMS + "from A as a select v insert into Out", 2, 13),
        (STREAMS + "from A outer join B select v insert into Out", 2, 8),
        (STREAMS + "from A unidirectional join B unidirectional select v insert into Out", 2, 28),
        (STREAMS + "from A#window.length(1)[v > 1] join B select v insert into Out", 2, 6),
        (STREAMS + "from A join B within 1 sec select v insert into Out", 2, 28),
        (STREAMS + "from A#window.length(1)#window.length(2) select v insert into Out", 2, 24),
        (STREAMS + "from A#window.length(1) -> B select 1 as x insert into Out", 2, 6),
        (STREAMS + "from A -> B, A select 1 as x insert into Out", 2, 12),
        (STREAMS + "from A -> (B, A) select 1 as x insert into Out", 2, 6),
        (STREAMS + "from A+ -> B select 1 as x insert into Out", 2, 7),
        (STREAMS + "from A+ select 1 as x insert into Out", 2, 7),
        (STREAMS + "from A, every B select 1 as x insert into Out", 2, 9),
        (STREAMS + "from every (A, B) select 1 as x insert into Out", 2, 6),
        (STREAMS + "from every (every A -> B) select 1 as x insert into Out", 2, 6),
        (STREAMS + "from every (A -> B) within 1 sec -> A select 1 as x insert into Out", 2, 34),
        (STREAMS + "from A -> not B select 1 as x insert into Out", 2, 11),
        (STREAMS + "from A<2> and B select 1 as x insert into Out", 2, 6),
        (STREAMS + "from A<:> -> B select 1 as x insert into Out", 2, 7),
        (STREAMS + "from A and B and A select 1 as x insert into Out", 2, 14),
        (STREAMS + "from A select (v) is null as x insert into Out", 2, 19),
        (STREAMS + "from A select -v as x insert into Out", 2, 16),
        (STREAMS + "from A select 'a\tb' as x insert into Out", 2, 15),
        (STREAMS + "from A select v insert all into Out", 2, 28),
        (STREAMS + "from A select v output every events insert into Out", 2, 30),
        (STREAMS + "from A select v update Out set Out.v = v", 2, 41),
        (STREAMS + "from (from A select v insert into B) select v insert into Out", 2, 23),
        (STREAMS + "partition with (id of A) begin end", 2, 32),
        (STREAMS + "partition with (id of A) begin from A insert into Out;", 2, 55),
        ("define aggregation G from A select v having v > 1 aggregate every sec", 1, 29),
        ("define aggregation G from A#window.length(1) select v aggregate every sec", 1, 27),
        ("define table T (a int); from T from", 1, 32),
    ],
)
def test_refused_texts(text: str, line: int, column: int) -> None:
    span = refused(text).span
    assert span is not None
    assert (span.line, span.column) == (line, column)


def test_the_error_shows_the_line_and_a_hint() -> None:
    error = refused("define stream S (a int);\nfrom S selct a insert into Out;")
    assert str(error).splitlines()[1:] == [
        "from S selct a insert into Out;",
        "       ^^^^^",
        "Hint: Did you mean 'select'?",
    ]


def test_nesting_has_a_bound() -> None:
    deepest = MAX_DEPTH // 2
    parse_expression(f"{'(' * 500}a{')' * 500}")
    parse_expression(" or ".join(["a"] * deepest))
    with pytest.raises(SiddhiSyntaxError, match="levels deep"):
        parse_expression(" or ".join(["a"] * 5000))
    with pytest.raises(SiddhiSyntaxError, match="nested"):
        parse_expression("f(" * 5000 + "a" + ")" * 5000)
    with pytest.raises(SiddhiSyntaxError, match="nested"):
        parse("define stream A (v int); from " + "(" * 5000 + "A" + ")" * 5000 + " select v insert into Out")
