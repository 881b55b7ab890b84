"""What becomes of groups and topics when another version of an app is deployed."""

from __future__ import annotations

import json
from collections.abc import Callable

from spdist.planning.topology import Topology
from spdist.planning.updates.change import TopologyChange

Planned = Callable[[str], Topology]
CLEAN = "@dist(execGroup='clean') from S[v > 1] select k, v insert into Mid;"
SUMS = "@dist(execGroup='sums') from Mid#window.length({}) select k, sum(v) as n insert into Sums;"
LAST = "@dist(execGroup='last') from Sums select k insert into End;"


def test_nothing_changes(planned: Planned) -> None:
    change = planned(CLEAN + SUMS.format(3)).diff(planned(f"{CLEAN}\n-- a remark\n{SUMS.format(3)}"))
    assert not change
    assert str(change) == "nothing changes: 2 groups and 2 topics stay"


def told(change: TopologyChange, group: str) -> list[tuple[str, str, str]]:
    return [(one.label, one.outcome, one.reason) for one in change.elements[group]]


def test_another_query_changes_its_group(planned: Planned) -> None:
    change = planned(CLEAN + SUMS.format(3)).diff(planned(CLEAN + SUMS.format(4)))
    assert change.keeps == ("App-clean",)
    assert change.changes == (("App-sums", "other queries or definitions"),)
    assert change.kept_topics == ("App.S", "App.Mid")
    assert [one.outcome for one in change.elements["App-sums"]] == ["new", "removed"], (
        "a query without name is its text"
    )


def test_a_query_that_stays_keeps_its_state_in_a_group_that_changes(planned: Planned) -> None:
    named = "@info(name='sums') " + SUMS
    tops = SUMS.format(5).replace("sum(v) as n insert into Sums", "max(v) as n insert into Tops")
    change = planned(CLEAN + named.format(3) + tops).diff(planned(CLEAN + named.format(4) + tops))
    label = "query `from Mid#window.length(5) select k, max(v) as n insert into…`"
    assert told(change, "App-sums") == [("query 'sums'", "starts empty", "its text changed"), (label, "keeps", "")]
    assert "  ~ App-sums changes: other queries or definitions\n      query 'sums' starts empty" in str(change)
    assert f"      {label} keeps its state" in str(change)
    assert change.to_dict()["elements"]["App-sums"][0]["outcome"] == "starts empty"
    assert TopologyChange.from_dict(json.loads(json.dumps(change.to_dict()))) == change


def test_with_more_instances_keys_are_somewhere_else(planned: Planned) -> None:
    body = "partition with (k of S) begin @info(name='p') from S select k, sum(v) as n insert into Sums; end;"
    one = planned(f"@dist(execGroup='sums') {body}")
    change = one.diff(planned(f"@dist(execGroup='sums', parallel='2') {body}"))
    assert told(change, "App-sums") == [("partition with query 'p'", "starts empty", "2 instances instead of 1")]


def test_a_new_group_and_its_topic(planned: Planned) -> None:
    change = planned(CLEAN + SUMS.format(3)).diff(planned(CLEAN + SUMS.format(3) + LAST))
    assert change.added == ("App-last",)
    assert change.added_topics == ("App.Sums",)
    assert dict(change.changes) == {"App-sums": "other queries or definitions"}, "it publishes, and defines, Sums now"


def test_a_group_that_goes(planned: Planned) -> None:
    change = planned(CLEAN + SUMS.format(3) + LAST).diff(planned(CLEAN + SUMS.format(3)))
    assert (change.removed, change.removed_topics) == (("App-last",), ("App.Sums",))
    assert change.to_dict()["topics"]["keep"] == ["App.S", "App.Mid"]


def test_more_instances(planned: Planned) -> None:
    change = planned(CLEAN).diff(planned(CLEAN.replace("'clean'", "'clean', parallel='2'")))
    assert change.changes == (("App-clean", "2 instances instead of 1"),)
    assert (change.removed_topics, change.added_topics) == (("App.S",), ("App.S",)), "it has two partitions now"


def test_a_reader_with_a_key_moves_the_topic(planned: Planned) -> None:
    keyed = (
        "@dist(execGroup='keyed', parallel='2') partition with (k of Mid) begin from Mid select k insert into A; end;"
    )
    change = planned(CLEAN + SUMS.format(3)).diff(planned(CLEAN + SUMS.format(3) + keyed))
    assert dict(change.changes) == {
        "App-clean": "it publishes to other topics",
        "App-sums": "it reads other topics",
    }
