"""Cases on Spark: the same result lines as in virtual time, and nothing that one case does stops the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.local.recorder import silenced
from spdist.extension import function, signature
from spdist.language.types import Type
from spdist.replay.files import CaseLine, read_cases, replay
from spdist.replay.spark import SparkOptions, SparkReplay
from tests.replay.multisets import multisets

CASES = Path(__file__).parents[1] / "cases"
#: Of each file at most so many.
EACH = 2


@function("replaytest:here", signature("replaytest:here", ((Type.INT,), Type.INT)))
def here(value: int) -> int:
    """In this process only: Spark's do not know it, so what uses it fails the query it is in."""
    return value


def lines() -> list[CaseLine]:
    """Some cases of all areas, and all that restart, save and restore."""
    found: list[CaseLine] = []
    for file in sorted(CASES.glob("*.jsonl")):
        own = list(read_cases(file))
        found += own[:: -(-len(own) // EACH)]
        found += [line for line in own if any(f'"{word}"' in line.text for word in ("restart", "persist", "shutdown"))]
    return list(dict.fromkeys(found))


def line(name: str, **case: Any) -> CaseLine:
    app = "define stream S (v int); from S[v > 1] select v insert into Out;"
    steps = [{"stream": "S", "timestamp": t, "data": [t]} for t in (5, 6)]
    return CaseLine(name, json.dumps({"name": name, "app": app, "events": steps, "observe": ["Out"]} | case))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReplay]:
    with SparkReplay(tmp_path_factory.mktemp("replay"), jobs=2) as started:
        yield started


def results(spark: SparkReplay, given: list[CaseLine], options: SparkOptions | None = None) -> list[dict[str, Any]]:
    with silenced():
        return [json.loads(result.text) for result in spark.run(given, options)]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_what_virtual_time_gives(spark: SparkReplay) -> None:
    given = lines()
    assert len(given) > 60
    assert results(spark, given) == [json.loads(result.text) for result in replay(given)]


@pytest.mark.spark
@pytest.mark.slow
def test_queries_that_are_killed_lose_nothing_and_repeat_nothing(spark: SparkReplay) -> None:
    given = lines()[::4]
    assert results(spark, given, SparkOptions(restarts=True)) == [json.loads(one.text) for one in replay(given)]


@pytest.mark.spark
@pytest.mark.slow
def test_cases_are_split_by_key_and_go_on_after_kills(spark: SparkReplay) -> None:
    given = [
        line for file in sorted(CASES.glob("*.jsonl")) for line in read_cases(file) if "partition with" in line.text
    ]
    told: list[str] = []
    options = SparkOptions(restarts=True, shards=3, tell=told.append)
    found = results(spark, given[::4], options)
    wanted = [json.loads(one.text) for one in replay(given[::4])]
    assert [multisets(one) for one in found] == [multisets(one) for one in wanted]
    assert int(told[0].split()[0]) > 3, told


@pytest.mark.spark
def test_what_a_case_does_stops_no_other(spark: SparkReplay) -> None:
    ends_the_query = "define stream S (v int); from S select replaytest:here(v) as v insert into Out;"
    never_ends = "define trigger T at every 1 millisec; from T select triggered_time as t insert into Out;"
    given = [
        line("good"),
        line("no step", events=[{"jump": 5}]),
        line("ends the query", app=ends_the_query),
        line("refused", app="define stream"),
        line("never ends", app=never_ends, events=[{"advance": 5}, {"advance": 10**12}]),
        CaseLine("no JSON", "{"),
        line("good, too"),
    ]
    found = results(spark, given, SparkOptions(limit_s=3))
    assert [one["name"] for one in found] == [one.name for one in given]
    local = [json.loads(one.text) for one in replay([given[n] for n in (0, 1, 3, 5, 6)])]
    assert [found[n] for n in (0, 1, 3, 5, 6)] == local
    assert [found[n]["error"]["type"] for n in (2, 4)] == ["UndefinedNameError", "TimeoutError"]
