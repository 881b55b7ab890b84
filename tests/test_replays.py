"""How written cases are read: values by declared or stated type, steps, refused apps."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.errors import UnsupportedFeatureError
from spdist.testing import run_case

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


def test_a_refused_app_is_a_result() -> None:
    result = run_case(case(app="define stream S (v int); from S select w insert into Out;"))
    assert result["error"]["type"] == "UndefinedNameError"
    assert "'w'" in result["error"]["message"]


def test_what_is_not_run_yet_is_said() -> None:
    with pytest.raises(UnsupportedFeatureError, match="query"):
        run_case(case({"query": "from T select *"}))
