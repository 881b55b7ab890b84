"""Planning apps, as a manager does it in a process of its own: without Spark, and saying what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spdist.cluster.managers.plans import plan_text
from spdist.errors import SiddhiAppError

PLAN = """\
import json, sys
from pathlib import Path
from spdist.cluster.managers.plans import plan_text
import spdist.cluster.manager
topology = plan_text(sys.argv[1])
heavy = ("pyspark", "pyarrow", "pandas", "ipywidgets", "spdist.engine", "spdist.runtime")
print(json.dumps([[a.name for a in topology.assignments()], [m for m in heavy if m in sys.modules]]))
"""
SIDDHI = """\
@app:name('Trades')
define stream Trades (symbol string, price double);
@info(name='filter') @dist(execGroup='filter')
from Trades[price > 10.0] select symbol, price insert into Dear;
@info(name='average') @dist(execGroup='average')
from Dear#window.length(5) select symbol, avg(price) as mean insert into Means;
"""


def test_a_manager_plans_apps_without_loading_spark() -> None:
    done = subprocess.run([sys.executable, "-c", PLAN, SIDDHI], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names, heavy = json.loads(done.stdout)
    assert names == ["Trades-filter-1", "Trades-average-1"]
    assert heavy == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("define stream S (v int);", "has no name"),
        ("@app:name('../etc') define stream S (v int); from S select v insert into T;", "cannot name topics"),
        ("@app:name('a b') define stream S (v int); from S select v insert into T;", "cannot name topics"),
        ("@app:name('A') define stream S (v int); from Q select v insert into T;", "Q"),
        ("@app:name('A') define strem S (v int);", "strem"),
    ],
)
def test_what_cannot_be_planned_says_why(text: str, says: str) -> None:
    with pytest.raises(SiddhiAppError, match=says):
        plan_text(text)
