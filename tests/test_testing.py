"""The test kit: what a test says is what happens, and what goes wrong is explained."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from spdist.errors import MappingError, SiddhiTypeError, StateError, UndefinedNameError
from spdist.testing import Seen, VirtualApp

SILENCE = """
define stream Requests (user string);
from every r=Requests -> not Requests[user == r.user] for 5 sec
select r.user as user insert into Silent;
"""
TOTAL = "define stream S (k string, v double); from S select k, sum(v) as total insert into Out;"


def test_absence_is_noticed_when_time_has_passed() -> None:
    app = VirtualApp(SILENCE)
    app.send("Requests", "ann", at=1000)
    app.advance(by="4 sec 999 millisec")
    app.expect_nothing("Silent")
    app.advance(by=1)
    app.expect("Silent", ("ann",))
    app.expect_nothing("Silent")
    assert app.rows("Silent") == [("ann",)]
    assert app.clock == 6000


def test_events_sent_together_are_one_chunk() -> None:
    app = VirtualApp(TOTAL)
    app.send_together("S", [("a", 1), ("a", 2.5)], at=5)
    app.expect("Out", ("a", 3.5))
    app.send("S", "b", 1)
    app.expect("Out", ("b", 4.5))
    assert app.history[-1] == Seen("Out", 5, ("b", 4.5), False)


def test_what_is_sent_is_told_from_what_a_query_inserts() -> None:
    app = VirtualApp("define stream S (v int); from S[v < 3] select v + 1 as v insert into S;")
    app.send("S", 1)
    assert [seen.row for seen in app.history if seen.sent] == [(1,)]
    app.expect("S", (3,), (2,))


def test_a_failed_expectation_shows_both_sides() -> None:
    app = VirtualApp(TOTAL)
    app.send("S", "a", 1)
    app.send("S", "b", 2)
    with pytest.raises(AssertionError) as caught:
        app.expect("Out", ("a", 1.0), ("b", 4.0), ("c", 1.0))
    assert str(caught.value).splitlines() == [
        "'Out' (k string, total double): 3 row(s) expected, 2 came out",
        "  1. ('a', 1.0)",
        "  2. expected ('b', 4.0)",
        "     found    ('b', 3.0)",
        "  3. expected ('c', 1.0)",
        "     found    nothing",
    ]


def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    app = VirtualApp(TOTAL)
    app.send("S", "a", 1)
    state = app.snapshot()
    app.send("S", "a", 1)
    app.restore(state)
    app.send("S", "a", 1)
    app.expect("Out", ("a", 1), ("a", 2), ("a", 2))


def test_an_update_is_tried_in_virtual_time() -> None:
    kept = "@info(name='total') from S select k, sum(v) as total insert into Out;"
    head = "define stream S (k string, v double); "
    app = VirtualApp(head + kept + "@info(name='last') from S select v insert into Lasts;")
    app.send("S", "a", 1)
    changes = app.update(head + "@info(name='last') from S select sum(v) as v insert into Lasts; " + kept)
    assert [str(change) for change in changes] == ["query 'last' starts empty", "query 'total' keeps its state"]
    app.send("S", "a", 2)
    app.expect("Out", ("a", 1.0), ("a", 3.0))
    app.expect("Lasts", (1.0,), (2.0,))
    with pytest.raises(UndefinedNameError):
        app.update(head + "from Nothing select v insert into Lasts;")
    app.send("S", "a", 4)
    app.expect("Out", ("a", 7.0))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("a",), "'S' is \\(k string, v double\\)"),
        ((1, 2.0), "'k' is string"),
        (("a", "2"), "'v' is double"),
        (("a", True), "'v' is double"),
    ],
)
def test_values_that_do_not_fit_are_explained(values: tuple[object, ...], said: str) -> None:
    with pytest.raises(MappingError, match=said):
        VirtualApp(TOTAL).send("S", *values)


def test_wrong_names_and_durations_are_explained() -> None:
    app = VirtualApp(TOTAL)
    with pytest.raises(UndefinedNameError, match="Did you mean 'Out'"):
        app.expect("Ouf")
    with pytest.raises(SiddhiTypeError, match="is no duration"):
        app.advance(by="5 + 3")
    with pytest.raises(TypeError, match="either"):
        app.advance()


def test_events_that_a_query_lost_are_counted() -> None:
    app = VirtualApp("define stream S (v string); from S select v + 1 as w insert into Out;")
    app.send("S", "x")
    assert app.lost == 1


def test_it_shows_itself_as_text_and_as_a_table() -> None:
    app = VirtualApp(TOTAL)
    app.send("S", "<b>", 1, at=7)
    assert str(app).splitlines() == [
        "SiddhiApp at 7 ms, 0 events lost",
        "  ms       stream  k      v  total",
        "   7  in   S       <b>  1.0",
        "   7  out  Out     <b>         1.0",
    ]
    assert "&lt;b&gt;" in app._repr_html_()
    assert "<b>" not in app._repr_html_()


STORED = """
define stream S (k string, v int);
@Store(type='duckdb', path='kept.duckdb') @PrimaryKey('k') define table T (k string, v int);
from S select k, v update or insert into T set T.v = v on T.k == k;
"""


def test_a_closed_app_has_let_go_of_its_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened() -> list[str]:
        return [file.path for file in psutil.Process().open_files() if "kept.duckdb" in file.path]

    monkeypatch.chdir(tmp_path)
    with VirtualApp(STORED) as app:
        app.send("S", "a", 1)
        assert opened()
    assert not opened()
    app.close()
    with VirtualApp(STORED) as again:
        assert again.query("from T select k, v") == [("a", 1)]


def test_a_closed_app_is_looked_at_and_not_used() -> None:
    app = VirtualApp(TOTAL)
    app.send("S", "a", 1)
    app.close()
    app.close()
    app.expect("Out", ("a", 1.0))
    assert [cause.row for cause in app.explain("Out").causes] == [("a", 1.0)]
    assert "Out" in str(app)
    clock = app.clock
    for use in (
        lambda: app.send("S", "b", 1),
        lambda: app.advance(by=1),
        lambda: app.query("from Out select k"),
        lambda: app.update(TOTAL),
        lambda: app.restore(b""),
        app.snapshot,
    ):
        with pytest.raises(StateError, match="is closed"):
            use()
    assert (app.clock, len(app.history)) == (clock, 2)
    closed = VirtualApp("@app:playback " + TOTAL)
    closed.close()
    with pytest.raises(StateError, match="is closed"):
        closed.send("S", "b", 1, at=5)


def test_an_app_is_closed_where_its_test_fails() -> None:
    with pytest.raises(AssertionError), VirtualApp(TOTAL) as app:
        app.expect("Out", ("a", 1.0))
    with pytest.raises(StateError, match="is closed"):
        app.send("S", "a", 1)


def test_a_test_takes_milliseconds() -> None:
    VirtualApp(SILENCE)  # loads the parser

    def once() -> float:
        began = time.perf_counter()
        app = VirtualApp(SILENCE)
        app.send("Requests", "ann", at=1000)
        app.advance(to=6000)
        app.expect("Silent", ("ann",))
        return time.perf_counter() - began

    assert min(once() for _ in range(10)) < 0.05
