"""Tables in programs: what queries write, and what those see who ask, is what operators write and show."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.programs import state as programmed_state
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Type
from spdist.operators.tables.table import Table
from spdist.program.expressions import Value
from spdist.program.joins import text as joins_text
from spdist.program.joins.text import JoinWriter
from spdist.program.machine.compiler import interpreted
from spdist.program.queries import result_text
from spdist.program.running import forgetting
from spdist.program.tables import change_text, text
from spdist.program.tables.change_text import ChangeText
from spdist.program.tables.text import TableIndex, TableText
from tests.program.drawn_apps import START_MS, STREAM
from tests.program.table_apps import JOINED, LOOKED, MEMBERS, NUMBERED, TABLES, asked_of, drawn_table_app
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")


@pytest.mark.parametrize("group", range(3))
def test_a_drawn_app_has_the_same_tables_with_its_program(group: int) -> None:
    out = typed = 0
    for seed in range(12 * group, 12 * group + 12):
        random = Random(seed)
        text = drawn_table_app(random)
        checked = checked_app(text)
        own = Watched(checked, interpreted).app.programmed
        assert own is not None
        assert own.compile() is not None, own.reason
        assert own.program is not None
        typed += len(own.program.shape.tables)
        # A primary key that is a number must not be null.
        whole = seed % 3 == 0 or bool(own.program.known)
        try:
            with patch.object(forgetting, "_FEW", 4 if seed % 2 else 10_000):
                out += alike(checked, random, interpreted, steps=12, whole=whole, asks=asked_of(text))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert typed > 2
    assert out > 200


def same(app: str, checked: CheckedApp, *seeds: int, steps: int = 20) -> int:
    """Check an app of tables with its program."""
    asks, whole = asked_of(app), app is NUMBERED
    return sum(alike(checked, Random(seed), interpreted, steps=steps, whole=whole, asks=asks) for seed in seeds)


@pytest.mark.parametrize("app", [TABLES, NUMBERED, MEMBERS, LOOKED, JOINED])
def test_an_app_has_the_same_tables_with_its_program(app: str) -> None:
    assert same(app, checked_app(app), *range(2)) > 50


def mutants() -> dict[str, Any]:
    """Return changes of what is written for tables."""

    def unmoved(self: TableText, row: str, values: Any) -> list[str]:
        return self.stores(row, values)

    found, moves = TableText.found, TableText.moves

    def taken(self: TableText, row: str, values: Any) -> list[str]:
        return [line.replace("elif ", "elif False and ") for line in moves(self, row, values)]

    def unknown(self: TableText, index: Any, keys: Any, nulls: bool, *more: Any) -> list[str]:
        return found(self, index, keys, False, *more)

    rank = text.key_rank

    def unordered(*given: Any) -> tuple[list[str], list[str], str]:
        return (*rank(*given)[:2], "0")

    def with_16_buckets(*given: Any) -> tuple[list[str], list[str], str]:
        grows, *more = rank(*given)
        return grows[:1], *more

    def nowhere(*_: Any) -> Value:
        return Value("False", "", Type.BOOL)

    def one_zero(value: Value) -> str:
        return f"key_bits({value.text} + 0.0)" if value.type is Type.DOUBLE else value.text

    assigned, nodes = ChangeText._assigned, programmed_state.nodes_meeting

    return {
        "nulls in an index": patch.object(TableIndex, "without", lambda self, values: ""),
        "a changed key": patch.object(TableText, "changes", unmoved),
        "a key that is taken": patch.object(TableText, "moves", taken),
        "the order of set": patch.object(ChangeText, "_assigned", lambda self, output: assigned(self, output)[::-1]),
        "what stays": patch.object(ChangeText, "_staying", lambda self, output: set(self._search.index)),
        "rows of before": patch.object(programmed_state, "_reloaded", lambda *given: True),
        "rows that a query asks for": patch.object(programmed_state, "nodes_meeting", lambda *given: nodes(*given)[1:]),
        "where nothing is found": patch.object(JoinWriter, "_missing", lambda self, node: "False"),
        "the order of a map": patch.object(text, "key_rank", unordered),
        "the buckets of a map": patch.object(text, "key_rank", with_16_buckets),
        "the parts of a key": patch.object(text, "behind", lambda before, text: before),
        "the zeros of a key": patch.object(text, "key_word", one_zero),
        "in having": patch.object(result_text, "contained", nowhere),
        "in a change": patch.object(change_text, "contained", nowhere),
        "what a join tests": patch.object(joins_text, "tested", lambda conditions, writer, body: body),
        "conditions beside a key": patch.object(change_text, "tested", lambda conditions, writer, body: body),
        "null keys": patch.object(TableText, "found", unknown),
        "texts": patch.object(forgetting, "_indexed_rows", lambda running: iter(())),
    }


@pytest.mark.parametrize("name", list(mutants()))
def test_the_law_finds_a_mutant(name: str) -> None:
    apps = {app: checked_app(app) for app in (JOINED, TABLES, NUMBERED, MEMBERS, LOOKED)}
    with patch.object(forgetting, "_FEW", 4), mutants()[name]:
        for checked in apps.values():
            own = Watched(checked, interpreted).app.programmed
            assert own is not None
            assert own.compile() is not None
        with pytest.raises((AssertionError, IndexError)):
            for seed, app in product(range(3), apps):
                same(app, apps[app], seed, steps=12)


def started(app: str) -> list[Watched]:
    """Return an app run by its operators, and by its program."""
    apps = [Watched(checked_app(app)), Watched(checked_app(app), interpreted)]
    for one in apps:
        one.begin()
        one.app.start(START_MS)
    return apps


def row(sym: str | None, volume: int | None, ok: bool = True) -> tuple[Any, ...]:
    return (sym, "k", 1.5, 0.5, volume, 2, ok)


def most_rows() -> None:
    """Check the order of a table that had many rows; it is that of a map, which never becomes smaller."""
    apps = started(
        f"""{STREAM} @PrimaryKey('sym') define table T (sym string, volume int);
        from S[ok] select sym, volume insert into T;
        from S[not ok] select volume as least delete T on T.volume >= least;"""
    )
    events = [(START_MS + n, row(f"{n * n} rows", n)) for n in range(40)]
    for one in apps:
        one.run([*events, (START_MS + 40, row("", 6, ok=False))])
        one.app.restore(one.app.snapshot())
    plain, other = (one.app.query("from T select *").rows for one in apps)
    assert len(plain) == 6
    assert other == plain


def test_a_table_that_had_many_rows_keeps_its_order() -> None:
    most_rows()
    deletes = TableText.deletes

    def unkept(self: TableText, row: str) -> list[str]:
        return [line for line in deletes(self, row) if "max(" not in line]

    with patch.object(TableText, "deletes", unkept), pytest.raises(AssertionError):
        most_rows()


def merged_chunks() -> None:
    """Check a chunk of which one event adds a row, and another one finds that and one of before."""
    apps = started(
        f"""{STREAM} define table T (sym string, volume int);
        from S#window.lengthBatch(2) select sym, volume
        update or insert into T on T.sym == sym and T.volume < volume;"""
    )
    for one in apps:
        one.run([(START_MS + n, row("a", volume)) for n, volume in enumerate((5, 4, 3, 7, 9, 1, 1, 2))])
    plain, other = (one.app.query("from T select volume").rows for one in apps)
    assert plain == [(9,), (9,), (9,), (2,), (1,)]
    assert other == plain


def test_rows_of_a_chunk_meet_before_they_go_into_the_table() -> None:
    merged_chunks()
    with patch.object(ChangeText, "_by_key", lambda self, output: True), pytest.raises(AssertionError):
        merged_chunks()


KEPT = f"""{STREAM} @PrimaryKey('volume') define table T (volume int, sym string);
from S select volume, sym insert into T;
from S select sym, volume insert into Out;"""


def test_a_row_whose_key_is_taken_is_refused_and_told(caplog: pytest.LogCaptureFixture) -> None:
    _, other = started(KEPT)
    other.run([(START_MS, row("a", 1)), (START_MS, row("b", 1)), (START_MS, row("c", 2))])
    assert "table 'T' keeps its row with a primary key and refuses another one" in caplog.text
    assert other.app.held_rows() == 2
    assert other.app.query("from T select sym").rows == [("a",), ("c",)]
    other.app.restore(other.app.snapshot())
    assert other.app.query("from T select sym").rows == [("a",), ("c",)]


def test_a_key_that_is_null_and_must_not_be_brings_the_operators_back() -> None:
    apps = started(KEPT)
    for one in apps:
        for number, volume in enumerate((1, None, 2)):
            one.chunk([(START_MS + number, row("a", volume))], START_MS + number)
    plain, other = apps
    assert other.chunks == plain.chunks
    own = other.app.programmed
    assert own is not None
    assert not own.active
    assert other.app.query("from T select *").rows == plain.app.query("from T select *").rows == [(1, "a"), (2, "a")]


def test_what_a_question_writes_that_is_of_another_type_leaves_the_table_to_the_operators() -> None:
    apps = started(KEPT)
    for one in apps:
        one.chunk([(START_MS, row("a", 1))], START_MS)
        one.app.query("update T set T.sym = 'b' on T.volume == 1")
        one.app.query("update T set T.volume = 3000000000L on true")
        one.chunk([(START_MS + 1, row("c", 1))], START_MS + 1)
    plain, other = apps
    asked = "from T select *"
    assert other.app.query(asked).rows == plain.app.query(asked).rows == [(1, "c"), (3_000_000_000, "b")]
    own = other.app.programmed
    assert own is not None
    assert own.reason == "a table has a value that is not of its type"


def test_a_table_that_someone_uses_who_is_called_stays_with_the_operators() -> None:
    called = "from S#window.time(0) select sym, volume insert into T;"
    apps = started(
        f"""{STREAM} define table T (sym string, volume int); define table L (sym string);
        from S[ok] select sym, volume update or insert into T on T.sym == sym;
        from S select sym update or insert into L on L.sym == sym; {called}"""
    )
    for one in apps:
        one.run([(START_MS + n, row("abc"[n % 3], n)) for n in range(9)])
        one.chunks += [(asked, list(one.app.query(asked).rows)) for asked in ("from T", "from L")]
    own = apps[1].app.programmed
    assert own is not None and own.program is not None
    assert list(own.program.shape.tables) == ["L"]
    assert apps[1].chunks == apps[0].chunks


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ("from T on T.volume == 7 select sym", 1),
        ("from T on sym == 'a' and volume > 5 select count() as n", 2),
        ("from T on volume < 3 or volume == 9 select *", 4),
        ("from T on maximum(volume, 1) == 7 select *", 10),
        ("from T on sym == '\ud800' or volume == 7 select *", 1),
        ("from T select sym", 10),
        ("update T set T.sym = 'z' on T.volume == 7", 10),
        ("from L select sym", 0),
        ("from L on (L.sym == 'a' and T.volume == 7) in T select sym", 10),
    ],
)
def test_a_question_is_lent_what_it_may_find_and_no_other_tables(asked: str, rows: int) -> None:
    apps = started(
        f"""{STREAM} @PrimaryKey('volume') define table T (sym string, volume int);
        define table L (sym string); from S select sym, volume insert into T; from S select sym insert into L;"""
    )
    lent, restore = list[int](), Table.restore

    def counted(self: Table, state: Any) -> None:
        restore(self, state)
        lent.append(len(self) if self.id == "T" else 0)

    for one in apps:
        one.run([(START_MS + n, row("abc"[n % 3], n)) for n in range(10)])
    with patch.object(Table, "restore", counted):
        plain, other = (one.app.query(asked).rows for one in apps)
    assert other == plain
    assert max(lent, default=0) == rows
