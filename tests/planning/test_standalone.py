"""A whole app as one instance."""

from __future__ import annotations

import pytest

from spdist.errors import ErrorKind, PlanningError, SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.channels import topic_name
from spdist.planning.standalone import standalone_assignment, standalone_topology
from spdist.planning.topology import Assignment
from tests.error_codes import coded


def planned(text: str, shards: int = 1, transport: str = "log", owner: str = "") -> Assignment:
    return standalone_assignment(check(parse(text), catalog(), text), text, shards, transport, owner)


def test_sources_and_streams_that_nobody_writes_come_in_and_embedded_sinks_go_out() -> None:
    one = planned(
        """@app:name('A') @source(type='http', @map(type='json')) define stream S (k string);
        define stream T (k string);
        @sink(type='embedded', topic='A.Results') @sink(type='log') define stream O (k string);
        @dist(execGroup='x', parallel='3') from S insert into O; from T insert into Inner; from Inner insert into O;"""
    )
    assert [(i.stream, i.topic, i.partitions) for i in one.inputs] == [("S", "A.S", (0,)), ("T", "A.T", (0,))]
    assert [(o.stream, [p.topic for p in o.publishing]) for o in one.outputs] == [("O", ["A.Results"])]
    assert (one.name, one.app, one.receiver, one.playback, one.shards) == ("A", "A", True, False, 1)


@pytest.mark.parametrize(
    ("transport", "fed"),
    [("log", ("A.T", "log", ())), ("kafka", ("A.T", "kafka", ())), ("nats", ("A_T", "nats", ("A_T",)))],
)
def test_outsiders_find_a_stream_where_the_transport_has_it(transport: str, fed: tuple[str, str, object]) -> None:
    one = planned(
        """@app:name('A') @source(type='http', @map(type='json')) define stream S (k string);
        define stream T (k string); from S insert into O; from T insert into O;""",
        transport=transport,
    )
    # What a feeder brings is read as it is written, by ours.
    assert [(i.topic, i.transport, i.subjects) for i in one.inputs] == [("A.S", "log", ()), fed]


@pytest.mark.parametrize(("transport", "scope"), [("kafka", "east.A"), ("nats", "east_A")])
def test_who_shares_brokers_has_topics_of_his_own(transport: str, scope: str) -> None:
    one = planned(
        """@app:name('A') @source(type='http', @map(type='json')) define stream S (k string);
        define stream T (k string); @OnError(action='STREAM') @sink(type='embedded', topic='Found') @sink(type='http', publisher.url='http://h',
        on.error='STREAM', @map(type='json')) define stream O (k string);
        from S insert into O; from T insert into O; from !O insert into Lost;""",
        transport=transport,
        owner="east",
    )
    fed = topic_name(transport, scope, "T")
    assert [i.topic for i in one.inputs] == [f"{scope}.S", fed, f"{scope}.!O"]
    assert [p.topic for o in one.outputs for p in o.publishing] == ["east.Found"]
    assert (one.name, one.app, one.group) == ("A", "A", scope)
    assert {topic.name for topic in standalone_topology(one).topics} == {f"{scope}.S", fed, "east.Found"}


def test_what_cannot_be_sent_comes_back_as_an_input() -> None:
    text = """@app:name('A') {} define stream S (k string);
        @OnError(action='STREAM') @sink(type='http', publisher.url='http://h', on.error='STREAM', @map(type='json'))
        define stream O (k string); from S insert into O; from !O insert into Lost;"""
    assert ("!O", "A.!O") in [(i.stream, i.topic) for i in planned(text.format("")).inputs]
    # In playback it would hold up all others.
    assert [i.stream for i in planned(text.format("@app:playback")).inputs] == ["S"]


def test_types_that_are_not_built_are_shown_all_at_once() -> None:
    with pytest.raises(
        SiddhiAppError, match="a source of type 'jms' is not built yet", check=coded(ErrorKind.UNSUPPORTED)
    ) as error:
        planned("@source(type='jms') define stream S (k string);\n@sink(type='email') define stream O (k string);")
    assert [one.span.line for one in error.value.errors if one.span] == [1, 2]


def test_an_app_that_keeps_events_of_all_keys_together_is_not_split() -> None:
    with pytest.raises(PlanningError, match="cannot be split into 2 shards"):
        planned("define stream S (k string); from S#window.length(5) select k, count() as n insert into O;", 2)
    text = """define stream S (k string); partition with (k of S) begin
        from S#window.length(5) select k, count() as n insert into O; end;"""
    assert planned(text, 2).shards == 2


def test_an_app_into_which_nothing_comes_is_refused() -> None:
    with pytest.raises(PlanningError, match="nothing comes into the app"):
        planned("define table T (k string);")
    assert planned("define trigger T at every 1 sec; from T insert into O;").inputs == ()
