"""A whole app as one instance, without a cluster: what it reads and what it publishes. ``@dist`` is not looked at."""

from __future__ import annotations

from collections.abc import Iterator

from spdist.connectors.registry import sink_types, source_types
from spdist.errors import ErrorKind, PlanningError, SiddhiAppError
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.planning.channels import topic_name
from spdist.planning.sharding import sharding
from spdist.planning.topology import (
    AssignedInput,
    AssignedOutput,
    Assignment,
    ExecutionGroup,
    GroupInput,
    GroupInstance,
    GroupOutput,
    Publishing,
    Strategy,
    Topic,
    Topology,
    subjects,
)

__all__ = ["standalone_assignment", "standalone_topology"]


def standalone_assignment(
    checked: CheckedApp, text: str, shards: int = 1, transport: str = "log", owner: str = ""
) -> Assignment:
    """Return the one instance of an app.

    A stream with ``@source`` has what its source brings, through a topic. Another one that no query writes is fed by
    outsiders at the topic ``<App>.<Stream>``. What ``@sink(on.error='STREAM')`` cannot send comes back through a topic,
    so that it is an input like any other.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    text : str
        Its text.
    shards : int
        Into how many shards it is split by key.
    transport : str
        What carries the topics: ``log``, ``kafka`` or ``nats``.
    owner : str
        Whose topics they are: stands in front of their names, as several may run one app over the same brokers.

    Raises
    ------
    PlanningError
        It cannot be split, or nothing comes in.
    SiddhiAppError
        A source or a sink is of a type that is not built; shows where.
    """
    app = checked.name
    scope = topic_name(transport, owner, app) if owner else app
    streams = [one for one in checked.app.definitions if isinstance(one, ast.StreamDefinition)]
    _check_types(streams, text)
    written = _written(checked)
    sourced = {one.name for one in streams if ast.find_annotations(one.annotations, "source")}
    inputs = [
        AssignedInput(one.name, f"{scope}.{one.name}", (0,))
        if one.name in sourced
        else _fed(scope, one.name, transport)
        for one in streams
        if one.name in sourced or one.name not in written
    ]
    if not inputs and not any(isinstance(one, ast.TriggerDefinition) for one in checked.app.definitions):
        raise PlanningError(f"nothing comes into the app '{app}'", hint="define a stream, with or without a @source")
    if not checked.app.playback:
        # In playback an idle stream would hold up all others: there the events are dropped, and that is said.
        inputs += [AssignedInput(f"!{name}", f"{scope}.!{name}", (0,)) for name in _coming_back(streams, checked)]
    if shards > 1 and (reasons := sharding(checked, [one.stream for one in inputs]).reasons):
        raise PlanningError(f"the app '{app}' cannot be split into {shards} shards: {'; '.join(reasons)}")
    outputs = [
        AssignedOutput(
            one.name,
            tuple(Publishing(Strategy.ALL, 1, f"{owner}.{topic}" if owner else topic, 1) for topic in topics),
        )
        for one in streams
        if (topics := dict.fromkeys(_embedded(one)))
    ]
    return Assignment(
        name=app,
        app=app,
        group=scope,
        text=text,
        playback=checked.app.playback,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        receiver=True,
        shards=shards,
        idle_ms=checked.clock.idle_ms,
    )


def standalone_topology(assignment: Assignment) -> Topology:
    """Return what `standalone_assignment` made as a topology, for those who look for the topics of its streams."""
    inputs = tuple(
        GroupInput(one.stream, Strategy.ALL, one.topic, len(one.partitions))
        for one in assignment.inputs
        if one.stream in assignment.fed_streams
    )
    group = ExecutionGroup(
        name=assignment.group,
        parallel=1,
        inputs=inputs,
        outputs=tuple(GroupOutput(one.stream, one.publishing) for one in assignment.outputs),
        instances=(GroupInstance(assignment.name, assignment.text),),
    )
    sizes = {one.topic: one.partitions for one in inputs}
    sizes |= {one.topic: one.partitions for output in assignment.outputs for one in output.publishing}
    topics = tuple(Topic(name, partitions) for name, partitions in sizes.items())
    return Topology(assignment.app, assignment.playback, (group,), topics, idle_ms=assignment.idle_ms)


def _fed(scope: str, stream: str, transport: str) -> AssignedInput:
    """Return a stream that outsiders feed, at a topic with the name that they know from WSO2 where it has no owner."""
    topic = topic_name(transport, scope, stream)
    known_as = subjects(transport, topic, Strategy.ALL, 1) if transport == "nats" else ()
    return AssignedInput(stream, topic, (0,), transport=transport, subjects=known_as)


def _written(checked: CheckedApp) -> set[str]:
    inside = (query for partition in checked.partitions for query in partition.queries)
    return {query.target for query in (*checked.queries, *inside)}


def _embedded(stream: ast.StreamDefinition) -> Iterator[str]:
    for sink in ast.find_annotations(stream.annotations, "sink"):
        if sink.get("type") == "embedded" and (topic := sink.get("topic")):
            yield topic


def _coming_back(streams: list[ast.StreamDefinition], checked: CheckedApp) -> Iterator[str]:
    for stream in streams:
        both = (*ast.find_annotations(stream.annotations, "sink"), *ast.find_annotations(stream.annotations, "source"))
        asked = any((one.get("on.error") or "").upper() == "STREAM" for one in both)
        if asked and f"!{stream.name}" in checked.streams:
            yield stream.name


def _check_types(streams: list[ast.StreamDefinition], text: str) -> None:
    wrong = [
        SiddhiAppError(
            f"a {kind} of type '{annotation.get('type')}' is not built yet",
            span=annotation.span,
            hint=f"it is one of {', '.join(known)}",
            text=text,
            code=ErrorKind.UNSUPPORTED,
        )
        for stream in streams
        for kind, known in (("source", source_types()), ("sink", tuple(sorted(("embedded", *sink_types())))))
        for annotation in ast.find_annotations(stream.annotations, kind)
        if annotation.get("type") not in known
    ]
    if wrong:
        # The first one is raised, and tells of the others
        wrong[0].errors = tuple(wrong)
        raise wrong[0]
