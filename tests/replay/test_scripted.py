"""Cases through topics and islands, in one process: the same results as in virtual time, wherever batches are cut."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.island.hosted import build_island
from spdist.engine.local.recorder import silenced
from spdist.engine.shards.shards import Router, ShardSettings, island_maker
from spdist.engine.shards.state import Segment
from spdist.replay.files import CaseLine, read_cases, replay_line
from spdist.replay.prepared import Answers, PreparedCase, prepare
from spdist.replay.work import CasePlace, Topics, make_work
from spdist.transports.base import Record
from tests.replay.multisets import multisets

CASES = Path(__file__).parents[1] / "cases"
#: Of each file so many, spread over it; the steps that are no events are not many, so all of those.
STRIDE = 9
COMMANDS_OF_CASES = ('"restart"', '"restore"', '"snapshot"', '"shutdown"')


def lines() -> Iterator[CaseLine]:
    for file in sorted(CASES.glob("*.jsonl")):
        for number, line in enumerate(read_cases(file)):
            if number % STRIDE == 0 or any(command in line.text for command in COMMANDS_OF_CASES):
                yield line


def hosted(line: CaseLine, parts: int = 4, snapshots: bool = True, limit_s: float = 60.0) -> dict[str, Any]:
    """The result of a case through an island; records come again, and the island goes on elsewhere after each batch."""
    prepared = prepare(line)
    if not isinstance(prepared, PreparedCase):
        return prepared
    place = CasePlace(Topics("t"), "case-0", 3, parts=parts, limit_s=limit_s)
    work = make_work(prepared.case, prepared.checked, prepared.observed, place)
    island = build_island(work.assignment, 0)
    answers = Answers({"case-0": prepared})
    lot = random.Random(line.text)
    with silenced():
        for part in work.parts:
            again = [record for record in part if record.count and lot.random() < 0.3]
            for record in island.process([*part, *again], 1):
                assert isinstance(record, Record)
                answers.offer(record)
                if lot.random() < 0.3:
                    answers.offer(record)
            if snapshots:
                state = island.snapshot()
                island = build_island(work.assignment, 0)
                island.restore(state)
    return answers.results["case-0"]


def sharded(line: CaseLine, shards: int = 3, parts: int = 4) -> dict[str, Any]:
    """The result of a case whose events are spread by key over several islands."""
    prepared = prepare(line)
    assert isinstance(prepared, PreparedCase)
    place = CasePlace(Topics("t"), "case-0", 3, shards, parts)
    work = make_work(prepared.case, prepared.checked, prepared.observed, place)
    opening = Segment(1, "test", 0, 0, {}, opening=True)
    settings = [ShardSettings(work.assignment, index, shards, opening, "") for index in range(shards)]
    islands = [island_maker(0, False)(one) for one in settings]
    router = Router(settings)
    answers = Answers({"case-0": prepared}, {"case-0": shards})
    with silenced():
        for part in work.parts:
            routed = list(router.route(part))
            for number, island in enumerate(islands):
                for record in island.process([one for to, one in routed if to == number], 1):
                    assert isinstance(record, Record)
                    answers.offer(record)
    return answers.results["case-0"]


def given(*events: dict[str, Any], **case: Any) -> CaseLine:
    app = "define stream S (v int); define stream T (v int); from S select v insert into Out; from T insert into Out;"
    return CaseLine("a case", json.dumps({"name": "a case", "app": app, "start": 5, "events": list(events)} | case))


def sent(stream: str, timestamp: int, *data: Any) -> dict[str, Any]:
    return {"stream": stream, "timestamp": timestamp, "data": list(data)}


@pytest.mark.parametrize("line", [pytest.param(line, id=line.name) for line in lines()])
def test_islands_give_what_virtual_time_gives(line: CaseLine) -> None:
    assert hosted(line) == replay_line(line)


SPLIT = [line for file in sorted(CASES.glob("*.jsonl")) for line in read_cases(file) if "partition with" in line.text]


def splittable() -> list[CaseLine]:
    found = [(line, prepare(line)) for line in SPLIT]
    return [line for line, one in found if isinstance(one, PreparedCase) and one.splits]


def test_cases_are_split_by_key_where_their_apps_can_be() -> None:
    lines = splittable()
    assert len(lines) > 5
    for line in lines[::3]:
        assert multisets(sharded(line)) == multisets(replay_line(line)), line.name


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_events_keep_the_order_of_the_script_across_streams_at_equal_and_older_timestamps(parts: int) -> None:
    steps = [sent("ST"[n % 2], 100 - n % 3, n) for n in range(20)]
    chunk = {"stream": "T", "batch": [{"timestamp": t, "data": [t]} for t in (90, 120, 110)]}
    line = given(*steps, chunk, *steps)
    assert hosted(line, parts) == replay_line(line)
    assert [event["i"] for event in hosted(line, parts)["streams"]["Out"]] == [*range(20), 20, 20, 20, *range(21, 41)]


@pytest.mark.parametrize(
    "line",
    [
        given(sent("S", 10, 1), sent("S", 20)),
        given(sent("S", 10, 1), sent("Nope", 20, 1)),
        given(sent("S", 10, 1), {"jump": 3}),
        given(sent("S", 10, 1), {"stream": "S", "data": [1]}),
        given(sent("S", 10, 1), {"restore": "last"}, sent("S", 20)),
        given(sent("S", 10, 1), {"shutdown": True}, sent("S", 20, 1)),
        given({"advance": "soon"}),
        given(observe=["Nope"]),
        given(observe=[{"query": "nope"}]),
        given(app="define stream S (v nothing);"),
        given(app=3),
        CaseLine("no JSON", "{"),
    ],
)
def test_what_cannot_be_run_is_the_result_of_its_case(line: CaseLine) -> None:
    result = hosted(line)
    assert "error" in result
    assert result == replay_line(line)


def test_a_case_that_takes_too_long_is_given_up() -> None:
    slow = given(*[sent("S", 10 + n, n) for n in range(3000)], observe=["Out", "S"])
    assert hosted(slow, limit_s=0.001, snapshots=False)["error"]["type"] == "TimeoutError"
