"""How written cases are read: values by declared or stated type, steps, refused apps."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.errors import MappingError
from spdist.mapping.case_values import write_value
from spdist.replay import run_case

APP = "define stream S (i int, f float, d double, b bool, o object); @info(name='q') from S insert into Out;"


def case(*events: dict[str, Any], app: str = APP, observe: tuple[Any, ...] = ("Out",)) -> dict[str, Any]:
    return {"app": app, "start": 1000, "events": list(events), "observe": list(observe)}


def sent(*data: Any) -> list[Any]:
    (event,) = run_case(case({"stream": "S", "timestamp": 1000, "data": list(data)}))["streams"]["Out"]
    return list(event["data"])


def test_values_are_read_as_their_attributes_declare() -> None:
    row = sent(1, 0.1, 3, True, {"$long": 7})
    assert row == [1, 0.10000000149011612, 3.0, True, 7]
    assert [type(value) for value in row] == [int, float, float, bool, int]
    assert sent(None, None, None, None, None) == [None] * 5


def test_what_is_not_true_is_false() -> None:
    assert [sent(1, 1.0, 1.0, given, None)[3] for given in (1, "a", "TRUE", False)] == [False, False, True, False]


def test_a_type_may_be_stated() -> None:
    assert sent(1, {"$double": 0.1}, 1.0, True, {"$string": 3})[1::3] == [0.1, "3"]
    assert sent(1, 1.0, 1.0, True, {"a": 1})[4] == {"a": 1}


def test_output_belongs_to_the_step_during_which_it_came() -> None:
    app = "define stream S (v int); @info(name='q') from S#window.timeBatch(100) select v insert into Out;"
    steps = [{"stream": "S", "batch": [{"timestamp": t, "data": [t]} for t in (1000, 1001)]}, {"advance": 1050}]
    result = run_case(case(*steps, {"advance": 1200}, app=app, observe=("Out", {"query": "q"})))
    assert result["streams"]["Out"] == [{"timestamp": t, "data": [t], "i": 2} for t in (1000, 1001)]
    (chunk,) = result["queries"]["q"]
    assert (chunk["i"], len(chunk["current"]), chunk["expired"]) == (2, 2, [])


def test_a_restart_forgets_and_a_restore_remembers() -> None:
    app = "define stream S (v int); from S select count() as n insert into Out;"
    event = {"stream": "S", "timestamp": 1000, "data": [1]}
    steps = [event, {"persist": True}, event, {"restart": True}, event, {"restore": "last"}, event]
    result = run_case(case(*steps, app=app))
    assert [seen["data"] for seen in result["streams"]["Out"]] == [[1], [2], [1], [2]]


def test_a_refused_app_is_a_result_with_its_place() -> None:
    app = "define stream S (v int);\nfrom S select w insert into Out;"
    error = run_case(case(app=app))["error"]
    assert (error["type"], error["category"]) == ("UndefinedNameError", "unknown_attribute")
    assert (error["line"], error["column"]) == (2, 15)
    assert "'w'" in error["message"]


def test_without_a_choice_everything_is_observed() -> None:
    app = "define stream S (v int); @info(name='q') from S select v + 1 as w insert into Out; from Out insert into Z;"
    given = {"app": app, "events": [{"stream": "S", "timestamp": 7, "data": [1]}]}
    result = run_case(given)
    assert {name: [event["data"] for event in seen] for name, seen in result["streams"].items()} == {
        "S": [[1]],
        "Out": [[2]],
        "Z": [[2]],
    }
    assert list(result["queries"]) == ["q"]
    assert result["schemas"]["queries"]["q"] == [["w", "int"]]


def test_events_that_a_query_loses_are_listed_with_their_step() -> None:
    app = "define stream S (v string); from S select v + 1 as w insert into Out;"
    result = run_case(case({"stream": "S", "timestamp": 1000, "data": ["x"]}, app=app))
    assert result["streams"] == {"Out": []}
    assert [error["i"] for error in result["errors"]] == [0]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), {"$double": "NaN"}),
        (float("-inf"), {"$double": "-Infinity"}),
        ([1, (2, None)], [1, [2, None]]),
        ({3, 1}, [1, 3]),
        ({"a": {True: 1.5}}, {"a": {"true": 1.5}}),
        (b"x", {"$object": "bytes", "text": "b'x'"}),
    ],
)
def test_values_are_written_as_json_has_them(value: Any, written: Any) -> None:
    assert write_value(value) == written


@pytest.mark.parametrize(
    ("data", "said"),
    [([1], "1 values for 5"), ([1, "x", 1.0, True, None], "'f' is float"), (["a", 1, 1, True, 1], "'i' is int")],
)
def test_rows_that_do_not_fit_are_explained(data: list[Any], said: str) -> None:
    with pytest.raises(MappingError, match=said):
        run_case(case({"stream": "S", "timestamp": 1000, "data": data}))
