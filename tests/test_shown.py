"""What public objects show of themselves: a repr of one line, a short text, and HTML in which nothing is unescaped."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

import spdist
from spdist.display import JSON_MIME, Listing
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.testing import VirtualApp

APP = """@app:name('Shop') @app:playback
define stream Orders (item string, qty int);
define table Stock (item string, qty int);
define window Last (item string, qty int) length(2);
define aggregation Sums from Orders select item, sum(qty) as total group by item aggregate every sec ... day;
define trigger Tick at every 5 sec;
@info(name='big') from Orders[qty > 1 and item != '<b>&'] select item, qty insert into Big;
from Orders as o join Stock as s on o.item == s.item select o.item, s.qty insert into Found;
partition with (item of Orders) begin from Orders select item insert into #Mine; from #Mine select item insert into Out;
end;
"""


def fed() -> VirtualApp:
    app = VirtualApp("define stream S (name string, v int); from S select name, v * 2 as w insert into Out;", start=0)
    app.send("S", "<b>", 1_000, at=5)
    app.send("S", None, 7, at=6)
    return app


SHOWN: dict[str, Callable[[], Any]] = {
    "SiddhiApp": lambda: spdist.parse(APP),
    "CheckedApp": lambda: spdist.check(APP),
    "Schema": lambda: spdist.check(APP).streams["Orders"],
    "AppGraph": lambda: spdist.graph(APP),
    "Explanation": lambda: spdist.explain(APP),
    "Topology": lambda: spdist.plan(APP),
    "TopologyChange": lambda: spdist.plan(APP).diff(spdist.plan(APP.replace("qty > 1", "qty > 2"))),
    "VirtualApp": fed,
}


class Balanced(HTMLParser):
    """Finds elements that are not closed, and those that no app may bring in."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag not in {"script", "b", "link", "style", "img"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass


@pytest.mark.parametrize("name", SHOWN)
def test_every_object_has_a_repr_of_one_line_and_forms_for_a_notebook(name: str) -> None:
    one = SHOWN[name]()
    assert repr(one).startswith(f"{name}(")
    assert "\n" not in repr(one)
    assert len(repr(one)) < 120
    forms, _ = DisplayFormatter().format(one)  # type: ignore[no-untyped-call]
    assert forms["text/plain"] == str(one)
    assert Balanced(forms["text/html"]).open == []


@pytest.mark.parametrize("name", ["AppGraph", "Explanation", "Topology", "TopologyChange"])
def test_what_programs_read_comes_with_it(name: str) -> None:
    one = SHOWN[name]()
    assert one._repr_mimebundle_()[JSON_MIME] == one.to_dict()


def test_a_checked_app_is_a_small_table_with_its_graph() -> None:
    app = spdist.check(APP)
    assert str(app).splitlines() == [
        "Shop (event time): 5 streams, 1 table, 1 window, 1 aggregation, 4 queries",
        "  kind         name     attributes                                     flow",
        "  stream       Orders   (item string, qty int)",
        "  trigger      Tick     (triggered_time long)",
        "  stream       Big      (item string, qty int)",
        "  stream       Found    (item string, qty int)",
        "  stream       Out      (item string)",
        "  table        Stock    (item string, qty int)",
        "  window       Last     (item string, qty int)",
        "  aggregation  Sums     (AGG_TIMESTAMP long, item string, total long)",
        "  query        big      (item string, qty int)                         Orders → Big",
        "  query        query_2  (item string, qty int)                         Orders, Stock → Found",
        "  query        query_3  (item string)                                  Orders → #Mine",
        "  query        query_4  (item string)                                  #Mine → Out",
    ]
    assert spdist.graph(APP).to_svg() in app._repr_html_()
    assert "<svg" not in check(parse(APP), catalog())._repr_html_(), "language draws nothing"


def test_attributes_of_a_wide_stream_are_cut_in_the_text_and_whole_in_the_page() -> None:
    wide = "define stream S (" + ", ".join(f"attribute_{n} string" for n in range(40)) + ");"
    app = spdist.check(wide)
    assert max(map(len, str(app).splitlines())) < 120
    assert "attribute_39" in app._repr_html_()


def test_an_app_shows_its_text() -> None:
    app = spdist.parse(APP)
    assert spdist.parse(str(app)) == app
    assert "&lt;b&gt;&amp;" in app._repr_html_()


def test_an_app_that_has_no_text_can_be_shown_all_the_same() -> None:
    odd = ast.SiddhiApp(annotations=(ast.Annotation("app:name", (ast.AnnotationElement(None, '\'"""\''),)),))
    assert str(odd) == repr(odd)


def test_a_schema_is_a_table_of_attributes() -> None:
    schema = Schema.of([("a", "int"), ("<b>", "string")])
    assert repr(schema) == "Schema(a int, <b> string)"
    assert schema._repr_html_().count("<tr>") == 3


def test_an_app_under_test_has_a_column_for_each_attribute() -> None:
    app = fed()
    assert str(app).splitlines() == [
        "SiddhiApp at 6 ms, 0 events lost",
        "  ms       stream  name      v      w",
        "   5  in   S       <b>   1,000",
        "   5  out  Out     <b>          2,000",
        "   6  in   S       null      7",
        "   6  out  Out     null            14",
    ]
    assert "1\u202f000" in app._repr_html_()


def test_an_app_under_test_in_our_time_shows_dates_and_the_last_events_only() -> None:
    app = VirtualApp("define stream S (v int); from S select v insert into Out;", start=1_700_000_000_000)
    for number in range(150):
        app.send("S", number, at=1_700_000_000_000 + number)
    assert str(app).startswith("SiddhiApp at 2023-11-14 22:13:20.149 UTC, 0 events lost, the last 200 of 300 events\n")
    assert "2023-11-14 22:13:20.149" in str(app).splitlines()[-1]
    assert len(str(app).splitlines()) == 202


def test_events_of_a_stream_that_an_update_has_changed_are_shown() -> None:
    app = fed()
    app.update("define stream S (name string, v int, more int); from S select more insert into Out;")
    assert "<b>" in str(app)
    assert "&lt;b&gt;" in app._repr_html_()


def test_changes_of_elements_are_a_table() -> None:
    app = VirtualApp("define stream S (v int); @info(name='q') from S select v insert into Out;", start=0)
    changes = app.update("define stream S (v int); @info(name='q') from S select v + 1 as v insert into Out;")
    assert str(changes).splitlines()[0].split() == ["what", "becomes", "why"]
    assert "query &#x27;q&#x27;" in changes._repr_html_()
    assert isinstance(changes, tuple)


def test_a_listing_is_a_list_that_shows_itself() -> None:
    listing = Listing(["a", "<b>"], ("name", "length"), lambda name: (name, len(name)), "names")
    assert listing == ["a", "<b>"]
    assert listing[1:] == ["<b>"]
    assert str(listing).splitlines() == ["names", "  name  length", "  a          1", "  <b>        3"]
    assert Balanced(listing._repr_html_()).open == []
