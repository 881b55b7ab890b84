"""What holds for the topology of any app: everything is read that is published, once, under names that stay."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from spdist.errors import ErrorKind, PlanningError, SiddhiAppError
from spdist.language.format import format_app
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.pictures.drawing import to_svg, to_text
from spdist.planning.topology import Strategy, Topology

STREAMS = [f"S{i}" for i in range(5)]
DEFINITIONS = "".join(f"define stream {name} (k string, v int);\n" for name in STREAMS)


@st.composite
def apps(draw: st.DrawFn) -> str:
    """An app of up to six queries and partitions over five streams and four groups; cycles and all."""
    parallel = {group: draw(st.integers(1, 3)) for group in "abc"}
    parts = []
    for _ in range(draw(st.integers(1, 6))):
        group = draw(st.sampled_from(["a", "b", "c", ""]))
        source, target = draw(st.tuples(st.sampled_from(STREAMS), st.sampled_from(STREAMS)))
        dist = f"@dist(execGroup='{group}', parallel='{parallel[group]}') " if group else ""
        query = f"from {source}[v > 1] select k, v insert into {target};\n"
        partition = draw(st.booleans())
        parts.append(f"{dist}partition with (k of {source}) begin {query} end;\n" if partition else dist + query)
    return f"@app:name('App')\n{DEFINITIONS}{''.join(parts)}"


def planned(text: str) -> Topology:
    """Plan, or skip an app that cannot be split."""
    try:
        return plan(parse(text))
    except SiddhiAppError as error:
        assume(not (isinstance(error, PlanningError) or error.code == ErrorKind.UNSUPPORTED))
        raise


@given(apps())
def test_names_are_unique_and_follow_from_the_text(text: str) -> None:
    topology = planned(text)
    instances = [i.name for g in topology.groups for i in g.instances]
    topics = [t.name for t in topology.topics]
    assert len(set(instances)) == len(instances)
    assert len(set(topics)) == len(topics)
    assert all(name.startswith("App-") for name in instances)
    assert plan(parse(format_app(parse(text)))) == topology


@given(apps())
def test_each_group_reads_every_partition_and_each_instance_its_share(text: str) -> None:
    topology = planned(text)
    partitions = {t.name: t.partitions for t in topology.topics}
    for group in topology.groups:
        for one in group.inputs:
            assert one.partitions == partitions[one.topic]
            shares = [one.assigned(i, group.parallel) for i in range(group.parallel)]
            assert all(shares), "an instance without partitions would wait for ever"
            read = sorted(p for share in shares for p in share)
            everything = list(range(one.partitions))
            assert read == (sorted(everything * group.parallel) if one.strategy is Strategy.ALL else everything)


@given(apps())
def test_what_is_published_is_read_and_what_is_read_is_published(text: str) -> None:
    topology = planned(text)
    published = {
        (p.topic, o.stream, i.name, p.partitions)
        for g in topology.groups
        for o in g.outputs
        for p in o.publishing
        for i in g.instances
    }
    read = {
        (one.topic, one.stream, producer, one.partitions)
        for g in topology.groups
        for one in g.inputs
        for producer in one.producers
    }
    assert published == read
    used = {topic for topic, *_ in published} | {one.topic for g in topology.groups for one in g.inputs}
    assert used == {t.name for t in topology.topics}


@given(apps())
def test_nobody_reads_its_own_events_back(text: str) -> None:
    topology = planned(text)
    for group in topology.groups:
        own = {i.name for i in group.instances}
        assert all(own.isdisjoint(one.producers) for one in group.inputs)
        published = {o.stream for o in group.outputs if o.publishing}
        for assignment in topology.assignments():
            if assignment.group == group.name:
                assert all(set(i.own) == (own if i.stream in published else set()) for i in assignment.inputs)


@given(apps())
def test_every_topology_can_be_drawn(text: str) -> None:
    topology = planned(text)
    svg, lines = to_svg(topology), to_text(topology)
    for group in topology.groups:
        assert all(instance.name in svg and instance.name in lines for instance in group.instances)
