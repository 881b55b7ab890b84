"""What people read when they have made a typical mistake: what is wrong, where, and how to repair it."""

from __future__ import annotations

from pathlib import Path

import pytest

import spdist
from spdist.errors import SiddhiAppError, SiddhiSyntaxError, SiddhiTypeError

ORDERS = "define stream Orders (item string, qty int, price double);\n"
OUT = " select item insert into Out;"
LIST = "Hint: Put ',' in front of '{}' if it is one more of a list"
DEFINE = "Hint: Define it in front of the queries: define table Stock (a int, b string); there is no table yet."


def said(text: str) -> list[str]:
    """The message without its place, what is marked, and the rest."""
    with pytest.raises(SiddhiAppError) as caught:
        spdist.check(ORDERS + text)
    return lines_of(caught.value)


def lines_of(error: SiddhiAppError) -> list[str]:
    message, line, carets, *rest = str(error).splitlines()
    marked = line[carets.index("^") : carets.rindex("^") + 1]
    return [message.partition(" (line")[0], marked, *rest]


@pytest.mark.parametrize(
    ("text", "message", "marked", "hint"),
    [
        (
            "from Orders[item > 5]" + OUT,
            "'>' does not compare string with int",
            "item > 5",
            "Hint: Compare numbers: convert(item, 'int').",
        ),
        (
            "from Orders[item == 5]" + OUT,
            "'==' does not compare string with int",
            "item == 5",
            "Hint: Write '5' in quotes to compare texts, or convert(item, 'int') to compare numbers.",
        ),
        (
            "from Orders[qty > '5']" + OUT,
            "'>' does not compare int with string",
            "qty > '5'",
            "Hint: Write 5 without quotes.",
        ),
        (
            "from Orders[qty == 'five']" + OUT,
            "'==' does not compare int with string",
            "qty == 'five'",
            "Hint: A number is compared with a number; convert(qty, 'string') is its text.",
        ),
        (
            "from Orders[(qty > 5) == 'true']" + OUT,
            "'==' does not compare bool with string",
            "(qty > 5) == 'true'",
            "Hint: A bool is compared with true or false, without quotes.",
        ),
        (
            "from Orders[qty and item == 'a']" + OUT,
            "'and' needs a bool, this is an int",
            "qty",
            "Hint: Compare it with something, such as qty != 0.",
        ),
        (
            "from Orders join Stock on Orders.item == Stock.item" + OUT,
            "There is no stream, table, window or aggregation 'Stock'",
            "Stock",
            "Hint: Define it in front of the queries: define stream Stock (a int, b string) or define table Stock "
            "(a int, b string); there is Orders.",
        ),
        ("from Orders[item == 'a' in Stock]" + OUT, "There is no table 'Stock'", "Stock", DEFINE),
        ("from Orders update Stock on Stock.item == item;", "There is no table 'Stock'", "Stock", DEFINE),
        ("from Orders delete Stock on Stock.item == item;", "There is no table 'Stock'", "Stock", DEFINE),
        (
            "from Orders#window.length(1, 2, 3)" + OUT,
            "'length' does not take (int, int, int)",
            "length(1, 2, 3)",
            "Hint: it is written as length(window.length), for example length(10); window.length is an int",
        ),
        (
            "from Orders#window.externalTime(qty, 5 sec)" + OUT,
            "'timestamp' is long, not int",
            "externalTime(qty, 5 sec)",
            "Hint: it is written as externalTime(timestamp, window.time), for example externalTime(timestamp, 5 sec); "
            "timestamp is an attribute of type long, window.time is a time",
        ),
        (
            "from Orders select count(*) as n insert into Out;",
            "'count' does not take (string, int, double)",
            "count(*)",
            "Hint: In SiddhiQL this is written count().",
        ),
    ],
)
def test_what_an_app_means_wrongly(text: str, message: str, marked: str, hint: str) -> None:
    assert said(text) == [message, marked, hint]


@pytest.mark.parametrize("word", ["tumbling", "TUMBLE", "hop", "hopping", "sliding", "count", "rows", "global"])
def test_windows_of_other_languages_are_recognised(word: str) -> None:
    message, _, hint = said(f"from Orders#window.{word}(5 sec){OUT}")
    assert message == f"There is no window '{word}'"
    assert any(form in hint for form in ("#window.timeBatch(5 sec)", "#window.time(5 sec)", "#window.length(100)")) or (
        word == "global"
    )


@pytest.mark.parametrize("form", ["timeBatch(5 sec)", "lengthBatch(100)", "time(5 sec)", "length(100)"])
def test_the_windows_that_hints_name_are_there(form: str) -> None:
    spdist.check(f"{ORDERS}from Orders#window.{form}{OUT}")


def test_others_windows_that_hints_name_are_there() -> None:
    spdist.check(
        "define stream S (ts long, k string); from S#window.externalTimeBatch(ts, 5 sec) select k insert into A;"
    )
    spdist.check("define stream S (ts long, k string); from S#window.session(5 sec, k) select k insert into A;")
    spdist.check(
        "define stream S (k string); from S#window.time(5 sec) select k output last every 1 sec insert into A;"
    )


@pytest.mark.parametrize(
    ("text", "first", "marked", "hint"),
    [
        (
            "from Orders select item price insert into Out;",
            "Unexpected 'price'; expected ',', 'as', an operator",
            "price",
            LIST.format("price") + ", or 'as' if it names what stands before it.",
        ),
        (
            "define stream S (a string b int);",
            "Unexpected 'b'; expected ',' or ')'",
            "b",
            LIST.format("b") + ".",
        ),
        (
            "from Orders#window.sort(3 price)" + OUT,
            "Unexpected 'price'; expected ','",
            "price",
            LIST.format("price") + ".",
        ),
        (
            "SELECT item FROM Orders;",
            "Unexpected 'SELECT'",
            "SELECT",
            "Hint: SiddhiQL begins with 'from': from Stream[condition] select a, b insert into Out;",
        ),
        (
            "CREATE TABLE T (a int);",
            "Unexpected 'CREATE'",
            "CREATE",
            "Hint: SiddhiQL defines: define stream S (a int, b string); or define table T (a int, b string);",
        ),
        (
            "insert into Out select item from Orders;",
            "Unexpected 'insert'",
            "insert",
            "Hint: 'insert into' stands at the end: from Stream select a, b insert into Out;",
        ),
        (
            "from Orders where qty > 5" + OUT,
            "Unexpected 'where'",
            "where",
            "Hint: SiddhiQL filters in brackets behind the stream: from Stream[a > 5] select …; results with 'having'.",
        ),
        (
            "from Orders select item;",
            "Unexpected ';'; expected 'delete', 'insert', 'output', 'return', 'update'",
            ";",
            "Hint: Say where the events go: insert into Out;",
        ),
    ],
)
def test_what_an_app_writes_wrongly(text: str, first: str, marked: str, hint: str) -> None:
    message, found, repair = said(text)
    assert message.startswith(first)
    assert (found, repair) == (marked, hint)


@pytest.mark.parametrize("path", ["app.siddhi", "apps/app.siddhi", "/tmp/my apps/app.txt", "C:\\apps\\a.siddhi"])
def test_a_path_in_the_place_of_a_text_is_recognised(path: str) -> None:
    with pytest.raises(SiddhiSyntaxError) as caught:
        spdist.check(path)
    assert str(caught.value) == (
        f"'{path}' is a path, not the text of an app\nHint: Read the file: Path({path!r}).read_text()"
    )


def test_a_path_object_is_no_app() -> None:
    for asked in (spdist.check, spdist.parse, spdist.plan, spdist.graph):
        with pytest.raises(SiddhiTypeError, match=r"not a PosixPath: app.siddhi\nHint: read a file with Path"):
            asked(Path("app.siddhi"))  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", " \n", "-- only a remark\n"])
def test_an_empty_text_says_so(text: str) -> None:
    with pytest.raises(SiddhiSyntaxError, match="The text is empty"):
        spdist.check(text)


JOIN = """@dist(execGroup='g', parallel='2')
from Orders#window.length(3) as o join Orders#window.length(4) as b on o.item == b.item
select o.item as item insert into Out;
"""


def test_an_error_of_a_whole_query_marks_its_first_word() -> None:
    with pytest.raises(SiddhiAppError) as caught:
        spdist.plan("@app:name('A') " + ORDERS + JOIN)
    assert lines_of(caught.value)[1] == "@dist"
    with pytest.raises(SiddhiAppError) as caught:
        spdist.plan("@app:name('A') " + ORDERS + JOIN.replace("\n", " "))
    assert lines_of(caught.value)[1] == "@dist"


def test_a_missing_name_hides_nothing_else_and_each_error_shows_its_line() -> None:
    with pytest.raises(SiddhiAppError) as caught:
        spdist.plan(ORDERS + JOIN)
    assert len(caught.value.errors) == 2
    text = str(caught.value)
    assert "1. a distributed app needs a name (line 1, column 1)\ndefine stream Orders" in text
    assert "parallel '2' but is a join outside a partition" in text
    assert "(line 2, column 1)\n@dist(execGroup='g', parallel='2')\n^^^^^\nHint: put it into a partition" in text


def test_a_stream_that_an_app_has_not_got_is_listed() -> None:
    with pytest.raises(SiddhiAppError, match=r"There is no stream 'Xyz'\nHint: There is Orders, Out\."):
        spdist.run(ORDERS + "from Orders" + OUT, {"Xyz": []})
