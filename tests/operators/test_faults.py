"""What failing events leave behind: a text, or an entry in the error store."""

from __future__ import annotations

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.base import VirtualClock
from spdist.operators.core.faults import ErrorStore, error_text

TEXT = """@app:name('Shop') @OnError(action='STORE') define stream S (a string, o object);
from S select a, cast(o, 'int') + 1 as n insert into Out;"""


def made(errors: ErrorStore | None = None) -> LocalApp:
    return LocalApp(check(parse(TEXT), catalog(), TEXT), errors=errors)


def test_an_error_is_told_with_its_cause() -> None:
    try:
        try:
            raise ValueError("too long")
        except ValueError as cause:
            raise RuntimeError("cannot write it") from cause
    except RuntimeError as error:
        assert error_text(error) == "message : cannot write it\n cause :ValueError: too long"


def test_an_error_whose_text_says_nothing_is_told_with_its_class() -> None:
    assert error_text(KeyError("x")) == "message : KeyError: 'x'\n cause :null"
    assert error_text(RuntimeError()) == "message : RuntimeError\n cause :null"


def test_what_failed_can_be_looked_at() -> None:
    app = made()
    app.send("S", 1000, ("good", 1))
    app.send("S", 2000, ("bad", "text"))
    app.send_chunk("S", [(3000, ("x", 1)), (3001, ("y", "text"))])
    first, second = app.errors.entries()
    assert (first.number, first.time, first.app, first.stream, first.origin) == (1, 2000, "Shop", "S", "stream")
    assert first.events == ((2000, ("bad", "text")),)
    assert first.cause.startswith("ClassCastError: class java.lang.String cannot be cast")
    assert second.events == ((3000, ("x", 1)), (3001, ("y", "text")))
    assert app.failures.count == 0


def test_one_store_serves_several_apps_and_outlives_them() -> None:
    errors = ErrorStore()
    for time in (1, 2):
        made(errors).send("S", time, ("bad", "text"))
    assert [entry.time for entry in errors.entries(app="Shop", stream="S")] == [1, 2]
    assert errors.entries(app="Other") == []
    assert errors.entries(stream="Out") == []
    errors.discard(1)
    errors.discard(7)
    assert [entry.number for entry in errors.entries()] == [2]


def test_a_full_store_forgets_the_oldest() -> None:
    errors = ErrorStore(capacity=2)
    for time in range(4):
        errors.add(VirtualClock(time), "A", "S", "stream", ValueError("x"))
    assert len(errors) == 2
    assert [entry.number for entry in errors.entries()] == [3, 4]
