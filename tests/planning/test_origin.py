"""Where instances begin to read that an update of a running app brings."""

from __future__ import annotations

from collections.abc import Callable

from spdist.planning.topology import Assignment, Topology
from spdist.planning.updates.origin import Begin
from spdist.planning.updates.succession import newly_read, restored_origins, stored_origins, with_origins

Planned = Callable[[str], Topology]
CLEAN = "@dist(execGroup='clean') from S[v > 1] select k, v insert into Mid;"
SUMS = "@dist(execGroup='sums') from Mid#window.length({}) select k, sum(v) as n insert into Sums;"
ENDS = {"App.S": {0: 70}, "App.Mid": {0: 30}}


def named(assignments: tuple[Assignment, ...]) -> dict[str, Assignment]:
    return {one.name: one for one in assignments}


def updated(before: tuple[Assignment, ...], after: Topology, update: str = "u1") -> dict[str, Assignment]:
    return named(with_origins(before, after.assignments(), update, ENDS))


def test_what_goes_on_has_no_origin(planned: Planned) -> None:
    before, after = planned(CLEAN + SUMS.format(3)), planned(CLEAN + SUMS.format(4))
    assert newly_read(before.assignments(), after.assignments()) == ()
    assert tuple(updated(before.assignments(), after).values()) == after.assignments()


def test_a_new_reader_begins_at_the_end_of_a_topic(planned: Planned) -> None:
    before, after = planned(CLEAN), planned(CLEAN + "@dist(execGroup='more') from S select k insert into More;")
    assert newly_read(before.assignments(), after.assignments()) == ("App.S",)
    made = updated(before.assignments(), after)
    assert made["App-more-1"].origin.update == "u1"
    assert made["App-more-1"].origin.begins == (Begin("App.S", 0, 70, "", "u1"),)
    assert made["App-clean-1"] == before.assignments()[0]


def test_a_topic_that_is_new_is_read_from_its_beginning(planned: Planned) -> None:
    before, after = planned(CLEAN), planned(CLEAN + "@dist(execGroup='more') from Mid select k insert into More;")
    assert with_origins(before.assignments(), after.assignments(), "u1", {})[1].origin.begins == ()


def test_a_renamed_group_goes_on_where_the_old_one_ended(planned: Planned) -> None:
    before, after = planned(CLEAN), planned(CLEAN.replace("'clean'", "'tidy'"))
    made = updated(before.assignments(), after)
    assert made["App-tidy-1"].origin.begins == (Begin("App.S", 0, 70, "App-clean-1", "u1"),)


def test_more_instances_share_what_one_has_left(planned: Planned) -> None:
    before, after = planned(CLEAN), planned(CLEAN.replace("'clean'", "'clean', parallel='2'"))
    made = updated(before.assignments(), after)
    assert made["App-clean-1"].origin.begins == (Begin("App.S", 0, 70, "App-clean-1", "u1"),)
    assert made["App-clean-2"].origin.begins == (), "its partition is new"
    fewer = named(with_origins(tuple(made.values()), before.assignments(), "u2", {"App.S": {0: 90, 1: 20}}))
    assert fewer["App-clean-1"].origin.begins == (Begin("App.S", 0, 90, "App-clean-1", "u2"),)
    assert [(read.topic, read.partitions) for read in fewer["App-clean-1"].inputs] == [("App.S", (0,))]


def test_a_topic_that_no_plan_names_any_more_is_read_to_its_end(planned: Planned) -> None:
    keyed = (
        "@dist(execGroup='keyed', parallel='2') partition with (k of Mid) begin from Mid select k insert into A; end;"
    )
    before, after = planned(CLEAN + SUMS.format(3)), planned(CLEAN + SUMS.format(3) + keyed)
    sums = updated(before.assignments(), after)["App-sums-1"]
    now, left = sums.inputs
    assert not now.drains
    assert now.topic != "App.Mid"
    assert (left.topic, left.partitions, left.producers, left.drains) == ("App.Mid", (0,), (), True)
    assert sums.origin.update == "", "it keeps its state"


def test_what_the_new_attributes_cannot_read_is_not_read(planned: Planned) -> None:
    keyed = (
        "@dist(execGroup='keyed', parallel='2') partition with (k of Mid) begin from Mid select k insert into A; end;"
    )
    before = planned(CLEAN + SUMS.format(3))
    after = planned(CLEAN.replace("k, v insert", "k, v, 1 as w insert") + SUMS.format(3) + keyed)
    assert [read.drains for read in updated(before.assignments(), after)["App-sums-1"].inputs] == [False]


def test_an_instance_that_comes_back_is_another_one(planned: Planned) -> None:
    with_more = planned(CLEAN + "@dist(execGroup='more') from S select k insert into More;")
    first = updated(planned(CLEAN).assignments(), with_more, "u1")
    gone = updated(tuple(first.values()), planned(CLEAN), "u2")
    again = updated(tuple(gone.values()), with_more, "u3")
    assert (first["App-more-1"].origin.update, again["App-more-1"].origin.update) == ("u1", "u3")


def test_another_update_keeps_what_an_earlier_one_has_decided(planned: Planned) -> None:
    more = "@dist(execGroup='more') from S select k insert into More;"
    first = updated(planned(CLEAN).assignments(), planned(CLEAN + more), "u1")
    second = updated(tuple(first.values()), planned(CLEAN + more.replace("select k", "select v")), "u2")
    assert second["App-more-1"].origin == first["App-more-1"].origin


def test_origins_are_stored_beside_the_text(planned: Planned) -> None:
    after = planned(CLEAN.replace("'clean'", "'tidy'") + SUMS.format(3))
    made = with_origins(planned(CLEAN).assignments(), after.assignments(), "u1", ENDS)
    assert restored_origins(after.assignments(), stored_origins(made)) == made
    assert tuple(Assignment.from_dict(one.to_dict()) for one in made) == made
