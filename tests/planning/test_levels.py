"""In which order the groups of an app hear of each other."""

from __future__ import annotations

import pytest

from spdist.cluster.managers.plans import plan_text
from spdist.planning.levels import levels

HEAD = "@app:name('L') define stream In (a int); define stream A (a int); define stream B (a int); "


def of(name: str, source: str, target: str, parallel: int = 1) -> str:
    dist = f"@dist(execGroup='{name}', parallel='{parallel}')"
    return f"{dist} from {source} select {source}.a insert into {target}; "


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (of("g", "In", "A"), [["L-g-1"]]),
        (of("y", "A", "B") + of("x", "In", "A"), [["L-x-1"], ["L-y-1"]]),
        (of("x", "In", "A", 2) + of("y", "A", "B", 2), [["L-x-1", "L-x-2"], ["L-y-1", "L-y-2"]]),
        # Who only reads what comes from outside is of the first level, wherever it stands.
        (of("x", "In", "A") + of("y", "A", "B") + of("z", "In", "B"), [["L-x-1", "L-z-1"], ["L-y-1"]]),
    ],
    ids=["one", "written the other way", "parallel", "side by side"],
)
def test_each_group_is_behind_those_whose_streams_it_reads(queries: str, expected: list[list[str]]) -> None:
    assert levels(plan_text(HEAD + queries).assignments()) == expected


def test_groups_in_a_circle_are_of_one_level_and_others_before_or_behind_them() -> None:
    text = HEAD.replace("define stream B", "define stream C (a int); define stream B")
    text += (
        of("last", "C", "Out") + of("one", "A", "B") + of("two", "B", "A") + of("three", "B", "C") + of("x", "In", "A")
    )
    assert levels(plan_text(text).assignments()) == [["L-x-1"], ["L-one-1", "L-two-1"], ["L-three-1"], ["L-last-1"]]


def test_shards_publish_for_their_instance() -> None:
    text = HEAD.replace("(a int)", "(a int, k string)") + (
        "@dist(execGroup='x') partition with (k of In) begin from In select a, k insert into A; end; "
        "@dist(execGroup='y') from A select a, k insert into B;"
    )
    assignments = plan_text(text, shards=3).assignments()
    assert assignments[1].inputs[0].producers == ("L-x-1/1", "L-x-1/2", "L-x-1/3")
    assert levels(assignments) == [["L-x-1"], ["L-y-1"]]
