"""Names of topics and consumer groups on each transport, what is put into topics, and whether those there fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spdist.errors import PlanningError
from spdist.language.parsing.parser import parse
from spdist.planning.channels import check_channels, consumer_group, payload_of, topic_name
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment, Strategy, Topology, subjects

Planned = Callable[[str], Topology]
KEYED = "@dist(execGroup='g', parallel='2') partition with (k of S) begin from S select k insert into A; end;"


def test_names() -> None:
    assert topic_name("kafka", "App", "S") == topic_name("log", "App", "S") == "App.S"
    assert topic_name("kafka", "App", "S", "k") == "App.S.k"
    assert topic_name("nats", "App", "S") == "App_S"
    assert topic_name("nats", "App", "S", "k") == "App_S_k"
    assert subjects("nats", "App_S_k", Strategy.FIELD_GROUPING, 3) == ("App_S_k_0", "App_S_k_1", "App_S_k_2")
    assert subjects("nats", "App_S", Strategy.ROUND_ROBIN, 3) == ("App_S",)
    assert subjects("kafka", "App.S.k", Strategy.FIELD_GROUPING, 3) == ("App.S.k",)


def test_whoever_is_fed_by_outsiders_on_nats_has_their_subjects() -> None:
    text = """@app:name('App') define stream S (k string); define stream R (k string);
        @dist(execGroup='a', parallel='2') partition with (k of S) begin from S select k insert into Mid; end;
        @dist(execGroup='b') from Mid select k insert into Out;
        @dist(execGroup='c') from R select k insert into Other;"""
    given = {}
    for transport in ("kafka", "nats"):
        for assignment in plan(parse(text), transport=transport).assignments():
            assert Assignment.from_dict(assignment.to_dict()) == assignment
            given |= {(transport, one.stream): one.subjects for one in assignment.inputs}
    assert {stream: names for (transport, stream), names in given.items() if transport == "nats"} == {
        "S": ("App_S_k_0", "App_S_k_1"),
        "Mid": (),
        "R": ("App_R",),
    }
    assert {names for (transport, _), names in given.items() if transport == "kafka"} == {()}


def test_consumer_groups() -> None:
    assert consumer_group("App-g", 0, Strategy.ALL) == "App-g-0"
    assert consumer_group("App-g", 1, Strategy.ALL) == "App-g-1"
    assert consumer_group("App-g", 1, Strategy.ROUND_ROBIN) == "App-g"
    assert consumer_group("App-g", 1, Strategy.FIELD_GROUPING) == "App-g"


def test_payloads() -> None:
    assert payload_of("kafka", fed=False) == payload_of("log", fed=True) == "arrow"
    assert payload_of("kafka", fed=True) == payload_of("nats", fed=True) == "xml"
    topology = plan(
        parse("""@app:name('App') define stream S (k string);
        @dist(execGroup='a') from S select k insert into Mid;
        @dist(execGroup='b') from Mid select k insert into Out;"""),
        transport="kafka",
    )
    assert {topic.name: topic.payload for topic in topology.topics} == {"App.S": "xml", "App.Mid": "arrow"}


def test_topics_that_are_missing_are_made_unless_that_is_forbidden(planned: Planned) -> None:
    check_channels(planned(KEYED), {})
    head = "@app:name('App') @app:transportChannelCreationEnabled('false') define stream S (k string);"
    forbidden = planned(head + KEYED)
    assert not forbidden.creates_topics
    with pytest.raises(PlanningError, match=r"topic 'App.S.k' with 2 partitions is missing") as caught:
        check_channels(forbidden, {})
    assert caught.value.code == "SP0315"
    check_channels(forbidden, {"App.S.k": 2})


def test_a_keyed_topic_with_too_many_partitions_does_not_fit(planned: Planned) -> None:
    with pytest.raises(PlanningError, match="has 3 partitions; the app needs 2"):
        check_channels(planned(KEYED), {"App.S.k": 3})
    check_channels(planned(KEYED), {"App.S.k": 1})
    check_channels(planned("from S select k insert into A;"), {"App.S": 3})


def test_everything_that_does_not_fit_is_said(planned: Planned) -> None:
    two = KEYED + KEYED.replace("'g'", "'h'").replace("S", "R")
    with pytest.raises(PlanningError) as caught:
        check_channels(planned(two), {"App.S.k": 3, "App.R.k": 4})
    assert len(caught.value.errors) == 2


def test_who_holds_what_queries_on_demand_ask_for(planned: Planned) -> None:
    topology = planned("""
        define table T (k string);
        define aggregation Agg from S select k, sum(v) as n group by k aggregate every sec ... hour;
        @dist(execGroup='a') from S select k insert into T;
        @dist(execGroup='b') from R select k insert into A;
    """)
    assert topology.holders("T") == ("App-a-1",)
    assert topology.holders("Agg") == ("App_aggregation-Agg-1",)
    assert topology.holders("S") == ()
