"""What becomes of groups and topics when another version of an app is deployed."""

from __future__ import annotations

from collections.abc import Callable

from spdist.planning.topology import Topology

Planned = Callable[[str], Topology]
CLEAN = "@dist(execGroup='clean') from S[v > 1] select k, v insert into Mid;"
SUMS = "@dist(execGroup='sums') from Mid#window.length({}) select k, sum(v) as n insert into Sums;"
LAST = "@dist(execGroup='last') from Sums select k insert into End;"


def test_nothing_changes(planned: Planned) -> None:
    change = planned(CLEAN + SUMS.format(3)).diff(planned(f"{CLEAN}\n-- a remark\n{SUMS.format(3)}"))
    assert not change
    assert str(change) == "nothing changes: 2 groups and 2 topics stay"


def test_another_query_costs_its_group_the_state(planned: Planned) -> None:
    change = planned(CLEAN + SUMS.format(3)).diff(planned(CLEAN + SUMS.format(4)))
    assert change.keeps == ("App-clean",)
    assert change.changes == (("App-sums", "other queries or definitions"),)
    assert change.kept_topics == ("App.S", "App.Mid")
    assert "App-sums starts anew: other queries or definitions" in repr(change)


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
