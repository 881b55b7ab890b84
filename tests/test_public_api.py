"""What ``import spdist`` offers, and what a notebook does with an app before there is a cluster."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spdist
from spdist.errors import MappingError, PlanningError, SiddhiSyntaxError, UndefinedNameError

TEXT = """@app:name('Doubles') @app:playback
define stream S (v int);
from S[v > 1] select v * 2 as twice insert into Out;
"""

PUBLIC = [
    "AsyncClusterClient",
    "CheckedApp",
    "ClusterClient",
    "Config",
    "Deployment",
    "Feed",
    "LocalCluster",
    "LocalServers",
    "Result",
    "Schema",
    "SiddhiApp",
    "SpdistError",
    "Topology",
    "aggregator",
    "check",
    "connect",
    "connect_async",
    "exit_value",
    "explain",
    "function",
    "graph",
    "job_parameters",
    "load_config",
    "output_of",
    "parse",
    "plan",
    "run",
    "siddhi",
    "stop_signal",
    "to_events",
    "to_frame",
    "transform",
    "why",
    "window",
]


def test_these_names_are_public_and_no_others() -> None:
    assert spdist.__all__ == PUBLIC
    assert sorted(dir(spdist)) == sorted([*PUBLIC, "__version__"])


def test_the_version_is_that_of_the_installation() -> None:
    assert re.match(r"\d+\.\d+", spdist.__version__)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(spdist, name)
    assert found.__doc__
    assert found.__name__ == name
    assert getattr(importlib.import_module(found.__module__), name) is found


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spdist.nothing  # noqa: B018


def test_running_an_app_in_virtual_time_loads_no_spark() -> None:
    code = f"import sys, spdist; print(spdist.run({TEXT!r}, {{'S': [(5, (3,))]}})); assert 'pyspark' not in sys.modules"
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "{'Out': [(5, (6,))]}"), done.stderr


def test_from_text_or_from_a_tree() -> None:
    tree = spdist.parse(TEXT)
    assert spdist.check(tree).streams == spdist.check(TEXT).streams
    assert spdist.plan(tree) == spdist.plan(TEXT)
    events = {"S": [(1, (1,)), (2, (2,))]}
    assert spdist.run(tree, events) == spdist.run(TEXT, events) == {"Out": [(2, (4,))]}


def test_until_lets_time_pass_after_the_last_event() -> None:
    text = TEXT + "from every e1=S -> not S for 10 sec select e1.v as v insert into Quiet;"
    events = {"S": [(1000, (1,))]}
    assert spdist.run(text, events)["Quiet"] == []
    assert spdist.run(text, events, until=60_000)["Quiet"] == [(11_000, (1,))]


def test_rows_may_name_their_values() -> None:
    text = "define stream S (item string, qty int); from S select qty, item insert into Out;"
    assert spdist.run(text, {"S": [(1, {"qty": 2, "item": "tea"})]}) == {"Out": [(1, (2, "tea"))]}


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ((1, ("tea",)), r"stream 'S': row 0: the stream is \(item string, qty int\), this does not fit: \('tea',\)"),
        ((1, {"item": "tea"}), "this does not fit"),
        ((1, {"item": "tea", "qty": 2, "price": 1.0}), "this does not fit"),
        ((1, "te"), "this does not fit: 'te'"),
        ((1, ("tea", "two")), "'qty' is int, this is not: 'two'"),
        ((1, ("tea", 2**31)), "'qty' is int"),
        (("now", ("tea", 2)), "row 0: 'now' in 'time' is no time"),
        (("tea", 2, 3), "is a pair"),
    ],
)
def test_rows_that_do_not_fit_their_stream_are_refused(event: Any, message: str) -> None:
    text = "define stream S (item string, qty int); from S select qty, item insert into Out;"
    with pytest.raises(MappingError, match=message):
        spdist.run(text, {"S": [event]})


def test_events_of_a_stream_that_is_not_there_are_refused() -> None:
    with pytest.raises(UndefinedNameError, match="'T'"):
        spdist.run(TEXT, {"T": [(1, (1,))]})


def test_errors_show_their_line() -> None:
    with pytest.raises(SiddhiSyntaxError, match="line 1"):
        spdist.parse("define strem S (v int);")
    with pytest.raises(UndefinedNameError) as caught:
        spdist.check(TEXT.replace("v > 1", "w > 1"))
    assert "from S[w > 1]" in str(caught.value)
    parallel = TEXT.replace("from S[v > 1]", "@dist(execGroup='g', parallel='2') from S#window.length(2)")
    with pytest.raises(PlanningError) as refused:
        spdist.plan(parallel)
    assert "from S#window.length(2)" in str(refused.value)


def test_functions_in_python_need_no_permission_where_nothing_is_run() -> None:
    text = "@app:name('A') define function f[python] return int { return 1 }; define stream S (a int);"
    text += "from S select f() as b insert into Out;"
    assert "f" in str(spdist.explain(text)) + str(spdist.graph(text)) + str(spdist.plan(text))
    with pytest.raises(spdist.SpdistError, match="is not run unless that is allowed"):
        spdist.run(text, {})


def test_connecting_needs_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPDIST_PASSWORD", raising=False)
    with pytest.raises(spdist.SpdistError, match="needs a password"):
        spdist.connect("http://127.0.0.1:9543")
    with pytest.raises(spdist.SpdistError, match="needs a password"):
        spdist.connect_async("http://127.0.0.1:9543")
    monkeypatch.setenv("SPDIST_PASSWORD", "secret")
    with spdist.connect("http://127.0.0.1:9543") as client:
        assert repr(client) == "ClusterClient(http://127.0.0.1:9543)"
