"""Topics between groups: names, partitions, who publishes and who reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from spdist.errors import ErrorKind, PlanningError, SiddhiAppError
from spdist.planning.topology import GroupInput, GroupOutput, Publishing, Strategy, Topology
from tests.error_codes import coded

Planned = Callable[[str], Topology]


def inputs(topology: Topology, group: str) -> tuple[GroupInput, ...]:
    return next(g.inputs for g in topology.groups if g.name == group)


def outputs(topology: Topology, group: str) -> tuple[GroupOutput, ...]:
    found = next(g.outputs for g in topology.groups if g.name == group)
    return tuple(replace(output, subscribers=()) for output in found)  # tested as JSON, see cases/


def topics(topology: Topology) -> dict[str, int]:
    return {t.name: t.partitions for t in topology.topics}


def test_a_stream_between_two_groups(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a', parallel='2') from S select k, v insert into Mid;
        @dist(execGroup='b') from Mid select k insert into End;
    """)
    assert topics(topology) == {"App.S": 2, "App.Mid": 1}
    assert outputs(topology, "App-a") == (GroupOutput("Mid", (Publishing(Strategy.ALL, 1, "App.Mid", 1),)),)
    assert inputs(topology, "App-b") == (
        GroupInput("Mid", Strategy.ALL, "App.Mid", 1, producers=("App-a-1", "App-a-2")),
    )
    assert outputs(topology, "App-b") == ()


def test_streams_without_producer_are_fed_from_outside(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a', parallel='3') from S select k, v insert into A;
        @dist(execGroup='b') from S select k, v insert into B;
    """)
    assert topics(topology) == {"App.S": 3}
    assert inputs(topology, "App-a") == (GroupInput("S", Strategy.ROUND_ROBIN, "App.S", 3, offered=3),)
    assert inputs(topology, "App-b") == (GroupInput("S", Strategy.ALL, "App.S", 3),)
    assigned = {a.name: a.inputs[0].partitions for a in topology.assignments()}
    assert assigned == {"App-a-1": (0,), "App-a-2": (1,), "App-a-3": (2,), "App-b-1": (0, 1, 2)}


def test_a_key_makes_a_topic_of_its_own_which_everybody_reads(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a') from S select k, v insert into Mid;
        @dist(execGroup='b', parallel='2') partition with (k of Mid) begin from Mid select k insert into B; end;
        @dist(execGroup='c', parallel='4') partition with (k of Mid) begin from Mid select k insert into C; end;
        @dist(execGroup='d', parallel='3') from Mid select k insert into D;
        @dist(execGroup='e') from Mid select k insert into E;
    """)
    assert topics(topology) == {"App.S": 1, "App.Mid.k": 4}
    publishing = Publishing(Strategy.FIELD_GROUPING, 4, "App.Mid.k", 4, "k")
    assert outputs(topology, "App-a") == (GroupOutput("Mid", (publishing,)),)
    assert [inputs(topology, f"App-{g}")[0].strategy.value for g in "bcde"] == [
        "FIELD_GROUPING",
        "FIELD_GROUPING",
        "ROUND_ROBIN",
        "ALL",
    ]
    assert {i.topic for g in topology.groups[1:] for i in g.inputs} == {"App.Mid.k"}
    shares = {a.name: a.inputs[0].partitions for a in topology.assignments()}
    assert shares["App-b-1"] == (0, 1)
    assert shares["App-b-2"] == (2, 3)
    assert [shares[f"App-d-{i}"] for i in (1, 2, 3)] == [(0,), (1,), (2, 3)]
    assert shares["App-e-1"] == (0, 1, 2, 3)


def test_two_keys_make_two_topics(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a') from S select k, v insert into Mid;
        @dist(execGroup='b', parallel='2') partition with (k of Mid) begin from Mid select k insert into B; end;
        @dist(execGroup='c', parallel='3') partition with (v of Mid) begin from Mid select k insert into C; end;
    """)
    assert topics(topology) == {"App.S": 1, "App.Mid.k": 2, "App.Mid.v": 3}
    assert [p.key for p in outputs(topology, "App-a")[0].publishing] == ["k", "v"]


def test_a_keyed_stream_fed_from_outside_tells_its_key_to_all_readers(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a', parallel='2') partition with (k of S) begin from S select k insert into A; end;
        @dist(execGroup='b') from S select k insert into B;
    """)
    assert topics(topology) == {"App.S.k": 2}
    assert {i.key for g in topology.groups for i in g.inputs} == {"k"}


def test_a_stream_with_two_keys_is_fed_twice_from_outside(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a', parallel='2') partition with (k of S) begin from S select k insert into A; end;
        @dist(execGroup='b', parallel='3') partition with (v of S) begin from S select k insert into B; end;
        from S select k insert into C;
    """)
    assert topics(topology) == {"App.S.k": 2, "App.S.v": 3}
    assert inputs(topology, "App-default")[0].topic == "App.S.v", "that of the last partition"


def test_a_stream_inside_a_group_is_private(planned: Planned) -> None:
    topology = planned("from S select k insert into Mid; from Mid select k insert into End;")
    assert topics(topology) == {"App.S": 1}
    assert outputs(topology, "App-default") == ()


def test_a_stream_used_inside_and_outside_its_group_goes_both_ways(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a') from S select k insert into Mid;
        @dist(execGroup='a') from Mid select k insert into End;
        @dist(execGroup='b') from Mid select k insert into Other;
    """)
    assert [i.stream for i in inputs(topology, "App-a")] == ["S"]
    assert [p.topic for p in outputs(topology, "App-a")[0].publishing] == ["App.Mid"]
    assert inputs(topology, "App-b")[0].producers == ("App-a-1",)
    assert "from Mid" in topology.groups[0].instances[0].text


def test_a_consumer_may_stand_before_its_producer(planned: Planned) -> None:
    topology = planned("""
        define stream Later (k string);
        @dist(execGroup='a') from Later select k insert into End;
        @dist(execGroup='b') from S select k insert into Later;
    """)
    assert inputs(topology, "App-a")[0].producers == ("App-b-1",)
    assert [o.stream for o in outputs(topology, "App-b")] == ["Later"]


CYCLE = """
    define stream Back (k string);
    @dist(execGroup='a') from S select k insert into There;
    @dist(execGroup='a') from Back select k insert into There;
    @dist(execGroup='b') from There select k insert into Back;
"""


def test_groups_may_feed_each_other(planned: Planned) -> None:
    topology = planned(CYCLE)
    assert inputs(topology, "App-a")[1].producers == ("App-b-1",)
    assert inputs(topology, "App-b")[0].producers == ("App-a-1",)


def test_groups_that_feed_each_other_cannot_wait_for_each_others_event_time(planned: Planned) -> None:
    head = "@app:name('App') @app:playback define stream S (k string, v int);"
    with pytest.raises(
        SiddhiAppError, match="'App-a' and 'App-b' feed each other", check=coded(ErrorKind.UNSUPPORTED)
    ) as caught:
        planned(head + CYCLE)
    assert caught.value.span is not None


def test_several_groups_produce_one_stream(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a', parallel='2') from S select k insert into Mid;
        @dist(execGroup='b') from R select k insert into Mid;
        @dist(execGroup='c') from Mid select k insert into End;
    """)
    assert inputs(topology, "App-c")[0].producers == ("App-a-1", "App-a-2", "App-b-1")


def test_a_group_reads_from_others_what_it_also_makes_itself(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a') from S select k insert into Mid;
        @dist(execGroup='b') from R select k insert into Mid;
        @dist(execGroup='b') from Mid select k insert into End;
    """)
    assert inputs(topology, "App-b")[1].producers == ("App-a-1",)
    assert outputs(topology, "App-b") == ()


def test_a_group_passes_over_what_it_published_itself(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a') from S select k insert into Mid;
        @dist(execGroup='b') from R select k insert into Mid;
        @dist(execGroup='b') from Mid select k insert into End;
        @dist(execGroup='c') from Mid select k insert into Other;
    """)
    own = {a.name: {i.stream: i.own for i in a.inputs} for a in topology.assignments()}
    assert own["App-b-1"] == {"R": (), "Mid": ("App-b-1",)}
    assert own["App-c-1"] == {"Mid": ()}


def test_instances_cannot_split_what_each_of_them_produces(planned: Planned) -> None:
    with pytest.raises(PlanningError, match="reads 'Mid', which its own group 'App-g' produces with parallel '2'"):
        planned("""
            @dist(execGroup='g', parallel='2') from S select k, v insert into Mid;
            @dist(execGroup='g', parallel='2') partition with (k of Mid) begin
              from Mid select k insert into End;
            end;
        """)


def test_triggers_run_in_each_instance_and_need_no_topic(planned: Planned) -> None:
    topology = planned("""
        define trigger Every5 at every 5 sec;
        @dist(execGroup='g', parallel='2') from Every5 select triggered_time insert into Ticks;
    """)
    assert topics(topology) == {}
    assert all("define trigger Every5" in i.text for i in topology.groups[0].instances)


SINK = "@sink(type='embedded', topic='{}') define stream Out (k string);\n"


def test_a_sink_is_one_more_topic(planned: Planned) -> None:
    topology = planned(
        SINK.format("Results")
        + """
        @dist(execGroup='a', parallel='2') from S select k insert into Out;
        @dist(execGroup='b') from Out select k insert into End;
    """
    )
    publishing = (Publishing(Strategy.ALL, 1, "App.Out", 1), Publishing(Strategy.ALL, 1, "Results", 1))
    assert outputs(topology, "App-a") == (GroupOutput("Out", publishing, user_sink=True),)
    assert topics(topology) == {"App.S": 2, "App.Out": 1, "Results": 1}


def test_a_sink_on_the_topic_that_carries_the_stream_adds_nothing(planned: Planned) -> None:
    topology = planned(
        SINK.format("App.Out")
        + "@dist(execGroup='a') from S select k insert into Out; from Out select k insert into End;"
    )
    assert outputs(topology, "App-a") == (
        GroupOutput("Out", (Publishing(Strategy.ALL, 1, "App.Out", 1),), user_sink=True),
    )


def test_every_group_that_fills_a_sink_publishes_itself(planned: Planned) -> None:
    topology = planned(
        SINK.format("Results")
        + "@dist(execGroup='a') from S select k insert into Out; @dist(execGroup='b') from R select k insert into Out;"
    )
    assert [o.user_sink for g in topology.groups for o in g.outputs] == [True, True]


@pytest.mark.parametrize(
    ("definition", "error", "message"),
    [
        ("@sink(type='embedded') define stream Out (k string);", PlanningError, "names no topic"),
        (SINK.format("App.S"), PlanningError, "publishes to 'App.S', the topic of stream 'S'"),
        (SINK.format("Results").replace("Out", "Empty"), PlanningError, "no query inserts into it"),
    ],
)
def test_sinks_that_cannot_be(planned: Planned, definition: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        planned(definition + " from S select k insert into Out;")


def test_readers_of_a_key_that_outsiders_feed_have_all_its_partitions(planned: Planned) -> None:
    part = "@dist(execGroup='{}', parallel='{}') partition with (k of S) begin from S select k insert into {}; end;"
    topology = planned(part.format("a", 2, "A") + part.format("b", 4, "B"))
    assert topics(topology) == {"App.S.k": 4}
    shares = {a.name: a.inputs[0].partitions for a in topology.assignments()}
    assert [shares[f"App-a-{i}"] for i in (1, 2)] == [(0, 1), (2, 3)]
    assert [shares[f"App-b-{i}"] for i in (1, 2, 3, 4)] == [(0,), (1,), (2,), (3,)]
