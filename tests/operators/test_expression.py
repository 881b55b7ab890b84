"""Expressions become Python once, when the app is made; what is known then is not asked again for each event."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.errors import SiddhiAppError
from spdist.extension import catalog, function, signature
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Type

STREAM = "define stream S (i int, l long, f float, d double, s string, b bool, o object);"


def values(expression: str, *rows: tuple[Any, ...]) -> list[Any]:
    out = run(f"{STREAM} from S select {expression} as x insert into Out;", {"S": list(enumerate(rows))})
    return [row[0] for _, row in out.get("Out", [])]


def row(
    i: Any = 1, long: Any = 2, f: Any = 0.5, d: Any = 1.5, s: Any = "x", b: Any = True, o: Any = None
) -> tuple[Any, ...]:
    return (i, long, f, d, s, b, o)


def generated(text: str) -> str:
    """The source that was written for an app."""
    before = set(linecache.cache)
    LocalApp(check(parse(text), catalog(), text))
    new = [name for name in linecache.cache if name.startswith("<spdist ") and name not in before]
    return "\n".join("".join(linecache.getlines(name)) for name in new)


def test_an_attribute_is_read_once_and_only_where_it_is_needed() -> None:
    source = generated(
        "define stream Once (a int, b int, c int); from Once[a > 1 and a < 9] select a + a as x, b insert into Out;"
    )
    assert source.count("row[0]") == 1
    assert "row[2]" not in source


def test_a_literal_is_part_of_the_source() -> None:
    assert "7654321" in generated("define stream Lit (a int); from Lit[a > 7654321] select a insert into Out;")


@pytest.mark.parametrize(
    ("expression", "given", "expected"),
    [
        ("i + 1", row(i=2**31 - 1), -(2**31)),
        ("l + 1", row(long=2**63 - 1), -(2**63)),
        ("i * 2", row(i=2**30), -(2**31)),
        ("0 - i", row(i=-(2**31)), -(2**31)),
        ("i / 2", row(i=-7), -3),
        ("i % 3", row(i=-7), -1),
        ("i / (i - i)", row(), None),
        ("d / 0.0", row(), None),
        ("d % 0.0", row(), None),
        ("i / 2", row(i=None), None),
        ("f + 0.1f", row(f=0.5), 0.6000000238418579),
        ("f == 0.1", row(f=0.10000000149011612), False),
        ("i == 1.0", row(i=1), True),
        ("i > 0", row(i=None), False),
        ("i != 0", row(i=None), True),
        ("not (i > 0)", row(i=None), True),
        ("i is null", row(i=None), True),
        ("b and i > 0", row(b=None), False),
        ("b or i > 0", row(b=None), True),
        ("(i + 1) * (i + 1) - l / 2", row(i=3, long=5), 14),
    ],
)
def test_values_are_javas(expression: str, given: tuple[Any, ...], expected: Any) -> None:
    (value,) = values(expression, given)
    assert value == expected
    assert type(value) is type(expected)


def test_all_operands_are_computed_before_one_that_is_null_decides() -> None:
    calls: list[int | None] = []

    @function("test:seen", signature("test:seen", ((Type.INT,), Type.INT)))
    def seen(value: int | None) -> int | None:
        calls.append(value)
        return value

    assert values("test:seen(i) + test:seen(i + 1)", row(i=1), row(i=None)) == [3, None]
    assert calls[:2] == [1, 2]
    assert seen(None) is None


def test_only_the_chosen_branch_is_computed() -> None:
    calls: list[int] = []

    @function("test:note", signature("test:note", ((Type.INT,), Type.INT)))
    def note(value: int) -> int:
        calls.append(value)
        return value

    assert values("ifThenElse(b, test:note(i), test:note(i + 100))", row(b=True), row(b=False)) == [1, 101]
    assert calls == [1, 101]
    assert values("b and test:note(i) > 0", row(b=False, i=7)) == [False]
    assert calls == [1, 101]
    assert note(3) == 3


def test_a_value_that_is_not_of_its_cast_type_costs_the_event() -> None:
    rows = [row(o=5), row(o="five"), row(o=6)]
    text = f"{STREAM} from S select cast(o, 'int') + 1 as x insert into Out;"
    app = LocalApp(check(parse(text), catalog(), text))
    seen: list[Any] = []
    app.subscribe("Out", lambda _ts, values: seen.append(values[0]))
    for time, values_ in enumerate(rows):
        app.send("S", time, values_)
    assert seen == [6, 7]
    assert app.failures.count == 1
    assert "java.lang.String cannot be cast to class java.lang.Number" in str(app.failures.latest)


@pytest.mark.parametrize("condition", ["s > 'a'", "b > true", "s == i", "i and b"])
def test_what_cannot_be_compared_is_refused(condition: str) -> None:
    text = f"{STREAM} from S[{condition}] select i insert into Out;"
    with pytest.raises(SiddhiAppError):
        check(parse(text), catalog(), text)
