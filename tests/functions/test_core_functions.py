"""The functions of siddhi-core where recorded cases do not reach: identity, replays, and what is refused."""

from __future__ import annotations

from uuid import UUID

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

STREAM = "define stream S (i int, l long, f float, d double, s string, b bool, o object);"
DRAWING = "@app:name('Draws') define stream S (v int); from S select UUID() as u insert into Out;"


def drawn(identity: str | None = None, times: tuple[int, ...] = (1000, 1000, 1001)) -> list[str]:
    app = LocalApp(check(parse(DRAWING), catalog()), identity)
    seen: list[str] = []
    app.subscribe("Out", lambda _ts, row: seen.append(row[0]))
    for time in times:
        app.send("S", time, (1,))
    return seen


def test_uuids_differ_within_an_app_and_repeat_in_a_replay() -> None:
    first = drawn()
    assert len(set(first)) == 3
    assert all(UUID(text).version == 4 for text in first)
    assert drawn() == first


def test_what_is_never_null_ends_a_choice() -> None:
    # Python would warn of code that asks whether a number is there, and a user would read it.
    app = f"{STREAM} from S select coalesce(2, i) as a, default(3, 0) as b, coalesce(i, 4, i) as c insert into Out;"
    assert run(app, {"S": [(1, (None,) * 7), (2, (1, *(None,) * 6))]})["Out"] == [(1, (2, 3, 4)), (2, (2, 3, 1))]


def test_copies_of_an_app_draw_other_uuids() -> None:
    assert not set(drawn("Draws-1")) & set(drawn("Draws-2"))


def test_uuids_do_not_repeat_after_a_restart_from_a_snapshot() -> None:
    app = LocalApp(check(parse(DRAWING), catalog()))
    app.send("S", 1000, (1,))
    snapshot = app.snapshot()
    seen: list[str] = []
    for _ in range(2):
        copy = LocalApp(check(parse(DRAWING), catalog()))
        copy.restore(snapshot)
        copy.subscribe("Out", lambda _ts, row: seen.append(row[0]))
        copy.send("S", 1000, (1,))
    assert seen == [drawn(times=(1000, 1000))[1]] * 2


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("coalesce(i, l)", "must be of one type"),
        ("coalesce()", "at least one argument"),
        ("ifThenElse(i, 1, 2)", "a condition and two values"),
        ("ifThenElse(b, 1, 'x')", "must be of one type"),
        ("default(i, l)", "must be a constant"),
        ("convert(i, 'integer')", "does not know the type 'integer'"),
        ("convert(i, s)", "the name of a type"),
        ("convert(o, 'int')", "only be converted to 'string'"),
        ("cast(i)", "the name of a type"),
        ("maximum(i, s)", "maximum"),
        ("instanceOfLong(i, l)", "does not take (int, long)"),
        ("sizeOfSet(s)", "does not take (string)"),
        ("eventTimestamp(i)", "does not take (int)"),
    ],
)
def test_wrong_arguments_are_refused_where_they_stand(expression: str, told: str) -> None:
    text = f"{STREAM} from S select {expression} as x insert into Out;"
    with pytest.raises(SiddhiAppError) as caught:
        check(parse(text), catalog(), text)
    (error,) = caught.value.errors
    assert told in error.message
    assert error.span is not None
    assert text[error.span.start : error.span.end] == expression


def test_objects_tell_what_they_hold() -> None:
    items = "instanceOfInteger(o) as i, instanceOfLong(o) as l, instanceOfDouble(o) as d"
    text = f"{STREAM} from S select {items} insert into Out;"
    rows = [(1, 2, 1.0, 1.0, "", True, value) for value in (5, 2**40, 0.5, "x", None)]
    out = run(text, {"S": list(enumerate(rows))})["Out"]
    assert [row for _, row in out] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (False, False, False),
        (False, False, False),
    ]
