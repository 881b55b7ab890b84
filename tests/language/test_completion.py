"""Completion: what the grammar takes at a place, and the names that the text defines, finished or not."""

from __future__ import annotations

import json
import random
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from spdist.extension import catalog
from spdist.language.editing.completion import Completion, complete
from spdist.language.editing.inspection import describe
from spdist.language.editing.tokens import keywords, tokens

CASES = Path(__file__).parents[1] / "cases"
APP = """%%siddhi Shop --run Trades=frame
@app:name('Shop')
define stream Trades (symbol string, price double, volume long);
@OnError(action='STREAM') define stream Orders (id string, `my qty` int);
define table Stock (symbol string, qty int);
define window Last (amount int) length(5);
define trigger Tick at every 5 sec;
define function twice[python] return int { return data[0] * 2 };
define aggregation Daily from Trades select symbol, avg(price) as mean group by symbol aggregate every sec ... year;
from Trades[price > 10]#window.time(5 sec) select symbol, avg(price) as mean, price insert into Means;
"""


def offers(typed: str, behind: str = "", app: str = APP) -> list[Completion]:
    """What is offered at the end of `typed`, behind the app."""
    return complete(app + typed + behind, len(app + typed), catalog())


def texts(typed: str, behind: str = "") -> list[str]:
    return [one.text for one in offers(typed, behind)]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", ["define", "from", "partition"]),
        ("def", ["define"]),
        ("define ", ["aggregation", "function", "stream", "table", "trigger", "window"]),
        ("from Trades sel", ["select"]),
        ("FROM Trades SEL", ["SELECT"]),
        ("from Trades select symbol gr", ["group"]),
        ("from Trades select symbol group ", ["by"]),
        ("from Trades select symbol output la", ["last"]),
        ("from Trades select symbol insert ", ["all", "current", "events", "expired", "into"]),
        ("from Trades#window.time(5 s", ["sec", "second", "seconds"]),
        ("define stream New (a ", ["bool", "double", "float", "int", "long", "object", "string"]),
        ("partition with (symbol of Trades) begin from Trades insert into A; en", ["end"]),
        ("partition with (symbol of Trades) begin from Trades insert into A; end; de", ["define"]),
    ],
)
def test_keywords_where_the_grammar_takes_them(typed: str, expected: list[str]) -> None:
    assert texts(typed) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("from T", ["Trades", "Tick"]),
        ("from Trades join S", ["Stock"]),
        ("from every e1=O", ["Orders"]),
        ("from every e1=Orders -> e2=T", ["Trades", "Tick"]),
        ("from !", ["Orders"]),
        ("from Trades insert into S", ["Stock"]),
        ("from Trades[symbol in ", ["Stock", "Last"]),
        ("partition with (symbol of T", ["Trades", "Tick"]),
        ("partition with (symbol of Trades) begin from Trades insert into #In; from #", ["In"]),
    ],
)
def test_streams_and_tables_where_they_are_read_or_written(typed: str, expected: list[str]) -> None:
    assert texts(typed) == expected


def test_a_stream_is_described_by_its_attributes() -> None:
    assert offers("from Mea") == [
        Completion("Means", len(APP) + 5, "stream", "(symbol string, mean, price double)"),
    ]
    assert offers("from Trades join Dai")[0].detail == "(AGG_TIMESTAMP long, symbol string, mean)"
    assert offers("from Tic")[0].detail == "(triggered_time long)"
    assert offers("from !Or")[0].detail == "(id string, my qty int, _error object)"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("from Trades[", ["symbol", "price", "volume"]),
        ("from Orders[", ["id", "`my qty`"]),
        ("from Trades#window.externalTime(", ["symbol", "price", "volume"]),
        ("from Trades as a join Stock as b on a.", ["symbol", "price", "volume"]),
        ("from Trades as a join Stock as b on a.symbol == b.", ["symbol", "qty"]),
        ("from every e1=Trades -> e2=Orders[e1.", ["symbol", "price", "volume"]),
        ("from every e1=Trades<1:3> -> e2=Orders select e1[last].", ["symbol", "price", "volume"]),
        ("from not Trades for 5 sec and e2=Orders select e2.", ["id", "`my qty`"]),
        ("from Means select ", ["symbol", "mean", "price"]),
        ("from Trades select symbol, max(price) as top group by ", ["top", "symbol", "price", "volume"]),
        ("from Trades select max(price) as top having ", ["top", "symbol", "price", "volume"]),
        ("from Trades select symbol, price as cost update Stock on ", ["symbol", "cost"]),
        ("from Trades select symbol update Stock set Stock.", ["symbol", "qty"]),
        ("from Trades#str:tokenize(symbol, '-') select ", ["symbol", "price", "volume", "token"]),
        ("partition with (", ["symbol", "mean", "price", "id", "`my qty`", "volume"]),
        ("define window W (alpha int, beta long) externalTime(", ["alpha", "beta"]),
        ("define aggregation A from Trades select symbol, ", ["symbol", "price", "volume"]),
    ],
)
def test_attributes_of_what_a_query_reads(typed: str, expected: list[str]) -> None:
    assert [one.text for one in offers(typed) if one.kind == "attribute"] == expected


def test_what_comes_behind_the_place_counts_too() -> None:
    assert "price" in texts("from Trades select ", " insert into New;")
    assert texts("from Trades sel", " symbol insert into New;\nfrom New select symbol insert into Newer;") == ["select"]
    new = "from N", " select symbol insert into Other;\nfrom Trades select symbol insert into New;"
    assert texts(*new) == ["New", "not"]


def test_functions_and_aggregators_come_with_the_way_they_are_called() -> None:
    found = {one.text: one for one in offers("from Trades select ")}
    assert (found["sum"].kind, found["sum"].detail) == (
        "aggregator",
        "sum(int|long) → long or sum(float|double) → double",
    )
    assert (found["twice"].kind, found["twice"].detail) == ("function", "twice(…) → int")
    assert found["ifThenElse"].detail == "ifThenElse(bool, a, b)"
    assert found["math:"].kind == "namespace"
    assert offers("from Trades select math:sq")[0].detail == "math:sqrt(int|long|float|double) → double"
    assert "sum" not in {one.text for one in offers("from Trades[")}, "a filter aggregates nothing"


def test_windows_and_stream_functions_behind_their_marks() -> None:
    found = ["window", "log", "pol2Cart", "json:", "list:", "map:", "reorder:", "str:", "unique:"]
    # Other tests of the same process may have registered extensions of their own.
    assert [text for text in texts("from Trades#") if text not in ("demo:", "test:")] == found
    assert {"time", "length", "unique:"} <= set(texts("from Trades#window."))
    assert offers("from Trades#window.lengthB")[0].detail.startswith("lengthBatch(window.length) or")
    assert texts("from Trades#window.unique:le") == ["length", "lengthBatch"]
    assert texts("define window W (a int) le") == ["length", "lengthBatch"]


def test_annotations_their_elements_and_what_those_may_be() -> None:
    assert {"source", "dist", "app:name"} <= set(texts("@"))
    assert texts("@app:na") == ["name"]
    assert texts("@dist(") == ["execGroup", "parallel"]
    assert texts("@source(type='") == ["file", "http", "inMemory", "kafka", "nats", "spark"]
    assert texts("@source(type='http', @map(type='j") == ["json"]
    assert texts("@PrimaryKey('b", "') define table T (alpha int, beta int);") == ["beta"]


def test_nothing_is_offered_in_texts_comments_bodies_and_the_first_line() -> None:
    for typed in ("from Trades[symbol == 'pr", "-- fr", "/* fr", "define function f[python] return int { ret"):
        assert texts(typed) == [], typed
    assert complete(APP, 12, catalog()) == []
    assert complete("", 0, catalog()) != []


def test_a_statement_that_is_wrong_before_the_place_is_read_from_its_clause_on() -> None:
    assert "price" in texts("from Trades[price = 5] select ")
    assert "by" in texts("from Trades[price = 5] select symbol group ")
    broken = APP.replace("define table Stock (", "define table Stock ((")
    assert "select" in [one.text for one in offers("from Trades ", app=broken)]


def test_a_word_is_described_and_else_what_is_called_around_it() -> None:
    def said(typed: str) -> str | None:
        return describe(APP + typed, len(APP + typed), catalog())

    assert said("from Trades select price") == "attribute price: double"
    assert said("from Trades#window.time(5 sec") == "window time: time(window.time)"
    assert said("from Trades select str:concat(twice(1), 'a") == said("from Trades select str:concat(")
    assert said("from Trades") == "stream Trades: (symbol string, price double, volume long)"
    assert said("from Trades select") is None
    assert describe(APP, 12, catalog()) is None


# --- the conformance cases know where which word may stand ----------------------------------------------------------


def apps() -> list[str]:
    lines = [line for file in sorted(CASES.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [text for line in lines if (text := json.loads(line).get("app"))]


def is_new(before: str, behind: str) -> bool:
    """Whether a word between these tokens is a name that is made up there, so that nobody could offer it."""
    defines = ("as", "into", "stream", "table", "window", "trigger", "function", "aggregation")
    return before.lower() in defines or behind == "=" or keywords().get(behind.lower()) == "TYPE"


def test_the_words_of_the_cases_are_offered_where_they_stand() -> None:
    drawn = random.Random(7)
    asked, missed = 0, []
    for text in apps():
        found = [token for token in tokens(text) if token.kind != "comment"]
        sides = zip(found, found[1:], [*found[2:], found[-1]], strict=False)
        known = [one for a, one, b in sides if one.kind == "word" and not is_new(a.text, b.text)]
        for token in drawn.sample(known, min(1, len(known))):
            asked += 1
            given = {one.text.lower().rstrip(":") for one in complete(text, token.start + 1, catalog())}
            if token.text.lower() not in given:
                missed.append((text[max(0, token.start - 40) : token.start], token.text))
    assert asked > 1000
    assert len(missed) < asked / 100, missed


def test_no_place_of_any_text_is_an_error() -> None:
    drawn = random.Random(8)
    for text in drawn.sample(apps(), 300):
        cut = drawn.randrange(len(text))
        for broken in (text[:cut], text[cut:], text.replace(";", "", 1), text[: cut // 2] + text[cut:]):
            complete(broken, drawn.randrange(len(broken) + 1), catalog())


def test_two_hundred_lines_take_less_than_fifty_milliseconds() -> None:
    one = """define stream S%d (symbol string, price double, volume long, ok bool);
from S%d[price > 10 and volume < 100]#window.time(10 sec)
select symbol, avg(price) as ap, sum(volume) as sv, str:concat(symbol, 'x') as sx
group by symbol having ap > 5 insert into Out%d;
"""
    text = "".join(re.sub("%d", str(n), one) for n in range(50)) + "from S3 as a join S4 as b on a."
    assert len(text.splitlines()) > 200
    complete(text, len(text), catalog())
    times_s = []
    for _ in range(5):
        began_s = time.process_time()
        assert [one.text for one in complete(text, len(text), catalog())] == ["symbol", "price", "volume", "ok"]
        times_s.append(time.process_time() - began_s)
    assert min(times_s) < 0.05


def test_the_order_is_that_of_the_place() -> None:
    kinds = [one.kind for one in offers("from Trades select ")]
    changes = [kind for last, kind in pairwise(["", *kinds]) if kind != last]
    assert changes[:3] == ["attribute", "aggregator", "namespace"]
    assert changes[-1] == "keyword"
