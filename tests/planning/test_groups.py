"""Which groups an app is split into, what they are called, and what their child apps say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spdist.errors import PlanningError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment, ExecutionGroup, Topology

Planned = Callable[[str], Topology]


def group(topology: Topology, name: str) -> ExecutionGroup:
    return next(g for g in topology.groups if g.name == name)


def test_elements_without_exec_group_share_the_default_group(planned: Planned) -> None:
    topology = planned("from S select k insert into A; from R select k insert into B;")
    assert [g.name for g in topology.groups] == ["App-default"]
    assert [i.name for i in topology.groups[0].instances] == ["App-default-1"]


def test_groups_stand_in_the_order_in_which_the_text_first_mentions_them(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='b') from S select k insert into A;
        from S select k insert into B;
        @dist(execGroup='a') from S select k insert into C;
        @dist(execGroup='b') from R select k insert into D;
    """)
    assert [g.name for g in topology.groups] == ["App-b", "App-default", "App-a"]


def test_names_of_annotations_and_elements_ignore_case(planned: Planned) -> None:
    topology = planned("@DIST(EXECGROUP='g', Parallel='2') from S select k insert into A;")
    assert topology.groups[0].name == "App-g"
    assert [i.name for i in topology.groups[0].instances] == ["App-g-1", "App-g-2"]


def test_planning_again_gives_the_same(planned: Planned) -> None:
    body = """
        @dist(execGroup='g', parallel='3') from S[v > 1] select k, v insert into A;
        @dist(execGroup='h', parallel='2') partition with (k of A) begin
          from A#window.length(3) select k, sum(v) as total insert into B;
        end;
        from B select k insert into C;
    """
    assert planned(body) == planned(body)


def test_each_group_says_why_it_is_there(planned: Planned) -> None:
    topology = planned("""
        @info(name='first') @dist(execGroup='g', parallel='2') partition with (k of S) begin
          from S select k insert into #A; from #A select k insert into B;
        end;
        @info(name='second') from B select k insert into C;
        @info(name='third') from B select k insert into D;
    """)
    assert [g.why for g in topology.groups] == [
        "partition 1 (with query 'query_1') asks for execGroup 'g'; 2 instances share the events, split by S.k",
        "query 'second' and query 'third' ask for no execGroup, so 'default' takes them",
    ]


def test_a_child_app_has_its_own_name_the_app_annotations_and_only_what_it_needs() -> None:
    text = """@app:name('Whole') @app:playback @app:description('what it does')
        define stream Unused (x int);
        @sink(type='embedded', topic='Whole.Out')
        define stream Out (k string, total long);
        define stream S (k string, v int);
        @dist(execGroup='first') from S[v > 0] select k, v * 2 as w insert into Mid;
        @info(name='sums') @dist(execGroup='second') from Mid select k, sum(w) as total group by k insert into Out;
    """
    topology = plan(parse(text))
    child = parse(topology.groups[1].instances[0].text)
    assert child.name == "Whole-second-1"
    assert child.playback
    assert [a.name.lower() for a in child.annotations] == ["app:name", "app:playback", "app:description"]
    assert {d.name: [a.name for a in d.annotations] for d in child.definitions} == {"Out": [], "Mid": []}
    assert [[a.name for a in e.annotations] for e in child.elements] == [["info"]]


def test_child_apps_pass_the_checker_and_keep_the_schemas(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a') from S select k, v * 1.5 as x, v is null as missing insert into Mid;
        @dist(execGroup='b') from Mid select k, x, missing insert into End;
    """)
    for instance in (i for g in topology.groups for i in g.instances):
        checked = check(parse(instance.text), catalog())
        assert str(checked.streams["Mid"]) == "(k string, x double, missing bool)"


def test_partition_of_another_stream_than_it_reads_still_has_the_definition(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='g') partition with (k of S, k of R) begin from S select k insert into A; end;
    """)
    assert {d.name for d in parse(topology.groups[0].instances[0].text).definitions} == {"S", "R"}


def test_assignments_cross_the_wire(planned: Planned) -> None:
    topology = planned("""
        @dist(execGroup='a', parallel='2') from S select k, v insert into Mid;
        @dist(execGroup='b', parallel='2') partition with (k of Mid) begin from Mid select k insert into End; end;
    """)
    assignments = topology.assignments()
    assert [a.name for a in assignments] == ["App-a-1", "App-a-2", "App-b-1", "App-b-2"]
    assert tuple(Assignment.from_dict(a.to_dict()) for a in assignments) == assignments


def test_an_app_without_a_name_is_refused() -> None:
    with pytest.raises(PlanningError, match="needs a name"):
        plan(parse("define stream S (v int); from S select v insert into T;"))


def test_a_transport_that_nobody_knows_is_refused() -> None:
    app = parse("@app:name('A') define stream S (v int); from S select v insert into T;")
    with pytest.raises(PlanningError, match="no transport 'pigeon'"):
        plan(app, transport="pigeon")


def test_what_a_sink_cannot_send_comes_back_to_its_group(planned: Planned) -> None:
    topology = planned("""
        @OnError(action='STREAM') @sink(type='http', publisher.url='http://localhost:1/x', on.error='STREAM',
        @map(type='json')) define stream Out (k string);
        @dist(execGroup='a', parallel='2') from S select k insert into Out;
        @dist(execGroup='a', parallel='2') from !Out select k insert into Failed;
    """)
    first, second = topology.assignments()
    assert [(one.stream, one.topic, one.partitions) for one in first.inputs] == [
        ("S", "App.S", (0,)),
        ("!Out", "App.!Out", (0,)),
    ]
    assert [one.stream for one in second.inputs] == ["S"]
