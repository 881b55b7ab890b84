"""What holds for plans of apps with all they may define: sources, sinks, aggregations, triggers, tables and windows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checker import check
from spdist.language.format import format_app, format_node
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import ExecutionGroup, Topology

STREAMS = [f"S{i}" for i in range(4)]
SOURCE = "@source(type='inMemory', topic='t{}'{}) "
ANNOTATIONS = [
    "",
    "",
    SOURCE.format(1, ""),
    SOURCE.format(1, ", @dist(parallel='2')") + SOURCE.format(2, ""),
    "@sink(type='log') ",
    SOURCE.format(1, "") + "@sink(type='log') ",
]
TOTALS = "define aggregation {} from {} select k, sum(v) as n group by k aggregate every sec ... hour;\n"
JOIN = "from {} as s join {} as a on s.k == a.k within '1970-**-** **:**:**' per 'hours' select s.k as k, s.v as v"


@st.composite
def apps(draw: st.DrawFn) -> str:
    """An app of up to six queries and partitions that use whatever it defines."""
    definitions = [f"{draw(st.sampled_from(ANNOTATIONS))}define stream {s} (k string, v int);\n" for s in STREAMS]
    definitions.append("define trigger Tick at every 5 sec;\ndefine table T (k string, v int);\n")
    stream = st.sampled_from(STREAMS)
    store = draw(st.sampled_from(["", "@Store(type='rdbms') "]))
    definitions += [store + TOTALS.format("Agg1", draw(stream)), TOTALS.format("Agg2", draw(stream))]
    parallel = {group: draw(st.sampled_from([1, 1, 2, 3])) for group in "abc"}
    parts = []
    for _ in range(draw(st.integers(1, 6))):
        group = draw(st.sampled_from(["a", "b", "c", ""]))
        dist = f"@dist(execGroup='{group}', parallel='{parallel[group]}') " if group else ""
        source, target = draw(stream), draw(st.sampled_from([*STREAMS, "T", "Inferred"]))
        query = draw(
            st.sampled_from(
                [
                    f"from {source}[v > 1] select k, v",
                    f"from {source} select k, v",
                    f"from {source}[(T.k == k) in T] select k, v",
                    "from Tick select 'x' as k, 1 as v",
                    JOIN.format(source, "Agg1"),
                    JOIN.format(source, "Agg2"),
                ]
            )
        )
        query = f"{query} insert into {target};\n"
        in_partition = f"{dist}partition with (k of {source}) begin {query} end;\n"
        parts.append(in_partition if draw(st.booleans()) else dist + query)
    return f"@app:name('App') @app:description('whole')\n{''.join(definitions)}{''.join(parts)}"


def planned(text: str) -> Topology:
    """Plan, or skip an app that cannot be split."""
    try:
        return plan(parse(text))
    except SiddhiAppError:
        assume(False)
        raise


def reads(group: ExecutionGroup) -> Counter[str]:
    """Count how often queries of a group name each stream, from the text of its first instance."""
    app = parse(group.instances[0].text)
    nodes = (node for element in app.elements for node in element.walk())
    return Counter(node.stream.name for node in nodes if isinstance(node, ast.SingleInput))


def writes(group: ExecutionGroup) -> set[str]:
    app = parse(group.instances[0].text)
    nodes = (node for element in app.elements for node in element.walk())
    return {node.target.name for node in nodes if isinstance(node, ast.Output) and node.target is not None}


@given(apps())
@settings(max_examples=20)
def test_every_child_app_checks_and_is_printed_as_it_is_read(text: str) -> None:
    for group in planned(text).groups:
        for instance in group.instances:
            checked = check(parse(instance.text), catalog(), instance.text)
            assert checked.name == instance.name
            assert format_app(checked.app) == instance.text
            assert "@dist" not in instance.text
            assert "@app:description" in instance.text


@given(apps())
@settings(max_examples=20)
def test_every_query_runs_in_one_group(text: str) -> None:
    app, topology = parse(text), planned(text)
    children = [parse(g.instances[0].text).elements for g in topology.groups if not g.receiver]
    run = [format_node(element) for elements in children for element in elements]
    assert Counter(run) == Counter(format_node(replace(element, annotations=())) for element in app.elements)


@given(apps())
@settings(max_examples=20)
def test_every_stream_that_crosses_groups_has_exactly_the_readers_it_needs(text: str) -> None:
    topology = planned(text)
    for producer in topology.groups:
        published = {p.topic for output in producer.outputs for p in output.publishing}
        for reader in (group for group in topology.groups if group is not producer):
            inputs = {one.stream: one for one in reader.inputs}
            aggregated = {
                one.input.stream.name
                for one in parse(reader.instances[0].text).definitions
                if isinstance(one, ast.AggregationDefinition) and one.name in reader.aggregations and one.input
            }
            for stream in writes(producer) & {*STREAMS, "Inferred"}:
                needed = stream in reads(reader) or stream in aggregated
                assert needed == (stream in inputs)
                if needed:
                    one = inputs[stream]
                    assert {i.name for i in producer.instances} <= set(one.producers)
                    assert one.topic in published


@given(apps())
@settings(max_examples=20)
def test_every_source_is_read_once_and_every_sink_written_where_its_stream_is_made(text: str) -> None:
    topology = planned(text)
    texts = [instance.text for group in topology.groups for instance in group.instances[:1]]
    for definition in parse(text).definitions:
        for source in ast.find_annotations(definition.annotations, "source"):
            name = definition.name.removeprefix("passthrough")
            holding = [
                one
                for child in texts
                for d in parse(child).definitions
                if d.name.removeprefix("passthrough") == name
                for one in ast.find_annotations(d.annotations, "source")
                if one.get("topic") == source.get("topic")
            ]
            assert len(holding) <= 1
    for group in topology.groups:
        sunk = {output.stream for output in group.outputs if output.user_sink}
        child = parse(group.instances[0].text)
        assert sunk == {d.name for d in child.definitions if ast.find_annotations(d.annotations, "sink")}


@given(apps())
@settings(max_examples=15)
def test_text_that_does_not_matter_does_not_matter(text: str) -> None:
    topology = planned(text)
    other = text.replace("\n", "  -- a remark\n\n") + "/* the end */"
    other = other.replace(
        "define trigger", "define stream Unused (x int); define window Unread (x int) length(3);\ndefine trigger"
    )
    assert planned(other) == topology
    assert planned(format_app(parse(text))) == topology
    assert planned(text).to_dict() == topology.to_dict()
    assert not topology.diff(planned(other))


@given(apps())
@settings(max_examples=20)
def test_the_plan_of_the_app_of_a_group_is_that_app(text: str) -> None:
    for group in planned(text).groups:
        if any(one.topic == "" and one.stream not in ("Tick", "T", *group.aggregations) for one in group.holds):
            continue  # it has a copy of an aggregation, which gets a group of its own
        child = group.instances[0]
        (again,) = plan(parse(child.text)).groups
        (instance,) = again.instances
        assert instance.text.replace(instance.name, child.name) == child.text
