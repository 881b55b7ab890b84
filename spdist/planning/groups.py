"""From ``@dist(execGroup='…', parallel='…')`` to execution groups, their child apps and the topics between them.

`plan` reads what each query and partition asks for (`elements`), forms groups (`forming`), decides how their instances
share each stream (`subscriptions`) and who reads the users' sources (`receivers`), connects them by topics (`wiring`,
`channels`) and prints the SiddhiQL of every instance from the syntax tree (`children`). All names follow from the text
alone, so planning an app again gives the same groups, instances and topics.

Source: WSO2 SP 4.x distributed deployment, behaviour described in our own words. Different here: names are stable (WSO2
draws random ones), groups are wired whatever their order, a stream may be used inside its group and published, all app
annotations reach the child apps, aggregations hear keyed streams, and all mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spdist.errors import PlanningError
from spdist.language.ast import SiddhiApp, find_annotations
from spdist.language.checking.checker import CheckedApp, check
from spdist.planning.channels import CREATION, TRANSPORTS
from spdist.planning.child_apps import Children, stand_in
from spdist.planning.compiled import checked_text
from spdist.planning.elements import DEFAULT_GROUP, Problems, read_elements
from spdist.planning.faults import check_faults, coming_back
from spdist.planning.forming import Definitions, Group, form_groups, kept_in_memory, kind_of
from spdist.planning.limits import AppLimits
from spdist.planning.receivers import Received, receive
from spdist.planning.sharding import sharding
from spdist.planning.sinks import add_sinks, sink_hosts
from spdist.planning.subscriptions import Subscriptions, check_shared, subscribe
from spdist.planning.topology import ExecutionGroup, GroupInput, Kind, Strategy, Topology, shard_names
from spdist.planning.wiring import Wiring, check_clocks, check_cycles, wire

__all__ = ["plan"]


def plan(
    app: SiddhiApp,
    checked: CheckedApp | None = None,
    transport: str = "log",
    *,
    shards: int = 1,
    limits: AppLimits | None = None,
) -> Topology:
    """Split an app into execution groups.

    Parameters
    ----------
    app : SiddhiApp
        The app; it must have a name.
    checked : CheckedApp, optional
        The same app as the checker saw it (it knows the schemas of inferred streams); checked here if it is left out.
    transport : str
        What carries the topics: ``log``, the embedded one, ``kafka`` or ``nats``.
    shards : int
        Into how many shards each group instance is split by key, where that changes no result.
    limits : AppLimits, optional
        How large the app may be.

    Returns
    -------
    Topology
        Passthrough groups, groups in the order in which the text first mentions them, groups of aggregations; equal
        apps give equal topologies.

    Raises
    ------
    PlanningError
        The app cannot be split as it asks; names the query and the group, and its class says which rule that breaks.
        ``errors`` holds everything that was found.
    SiddhiAppError
        It asks for something that is not built yet.
    SiddhiAppError
        It does not pass the checker.
    """
    if transport not in TRANSPORTS:
        raise PlanningError(f"there is no transport '{transport}'", hint=f"it is one of {', '.join(TRANSPORTS)}")
    limits = limits or AppLimits()
    limits.check_elements(app)
    if checked is None:
        from spdist.extension import catalog

        checked = check(app, catalog())
    problems = Problems()
    name = app.name or "MyApp"
    if app.name is None:
        problems.add("a distributed app needs a name", app.span, "begin it with @app:name('MyApp')")
    definitions = {definition.name: definition for definition in app.definitions}
    groups = form_groups(name, read_elements(app, problems), definitions, problems)
    subscriptions = subscribe(groups, definitions, problems)
    check_shared(groups, definitions, problems)
    problems.raise_if_any()
    limits.check_groups(groups)
    received = receive(name, groups, definitions, subscriptions, problems)
    limits.check_groups(received.groups)
    wiring = wire(name, received, transport, problems)
    add_sinks(received, wiring, problems)
    check_faults(received, wiring, problems)
    if app.playback:
        check_cycles(received.groups, wiring, problems)
        check_clocks(received.groups, wiring, problems)
    problems.raise_if_any()
    creates = [one.get() for one in find_annotations(app.annotations, CREATION)]
    topology = Topology(
        app=name,
        playback=app.playback,
        groups=_execution_groups(app, checked, received, wiring, limits),
        topics=tuple(wiring.topics.values()),
        transport=transport,
        creates_topics=not creates or (creates[0] or "").lower() == "true",
        idle_ms=checked.clock.idle_ms,
    )
    return split_groups(topology, shards, bool(checked.scripts))


def _execution_groups(
    app: SiddhiApp, checked: CheckedApp, received: Received, wiring: Wiring, limits: AppLimits
) -> tuple[ExecutionGroup, ...]:
    sinks = {(host, stream.name) for stream in wiring.streams.values() for host in sink_hosts(stream, received)}
    children = Children(app, received.definitions, received.reads, checked.streams, received.own, frozenset(sinks))
    found = []
    characters = 0
    for group in received.groups:
        inputs, outputs = wiring.inputs[group.name], wiring.outputs[group.name].values()
        crossing = [*(one.stream for one in inputs), *(one.stream for one in outputs)]
        instances = children.of(group, crossing)
        # Texts of instances differ in the name only
        characters += len(instances[0].text) * len(instances)
        limits.check_characters(characters, group)
        found.append(
            ExecutionGroup(
                name=group.name,
                parallel=group.parallel,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                instances=instances,
                receiver=group.receiver,
                why=_why(group),
                holds=_holds(group, received.definitions, received.subscriptions),
                stores=_stores(group, received.definitions),
                aggregations=tuple(one.name for one in group.aggregations),
                # With @app:playback a topic that may stay empty would hold up the clock of the group
                faults=() if app.playback else coming_back(group, received, wiring),
            )
        )
    return tuple(found)


def _holds(group: Group, definitions: Definitions, subscriptions: Subscriptions) -> tuple[GroupInput, ...]:
    """Return what the group reads without a topic: what its instances hold, and what stands in for a stream."""
    found = [
        GroupInput(name, one.strategy, "", 0, one.key, kind=one.kind, offered=one.offered)
        for name, one in subscriptions[group.name].items()
        if one.kind is not Kind.STREAM
    ]
    for aggregation in group.joins(definitions):
        assert aggregation.input is not None
        name = stand_in(aggregation.input.stream.name, group.name)
        found.append(GroupInput(name, Strategy.ALL, "", 0))
    return tuple(found)


def _stores(group: Group, definitions: Definitions) -> tuple[str, ...]:
    """Return the tables and windows that the group's queries write."""
    targets = dict.fromkeys(part.target.name for part in group.parts if part.target is not None)
    return tuple(name for name in targets if kind_of(name, definitions) is not Kind.STREAM)


def _why(group: Group) -> str:
    """Say in a sentence why the group is there and how its instances share the work."""
    labels = [element.label for element in group.elements]
    if group.receiver:
        return f"{labels[0]} is read here once for all groups that need it"
    listed = labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}" if labels else ""
    if group.aggregations:
        names = " and ".join(f"'{one.name}'" for one in group.aggregations)
        what = "aggregation" if len(group.aggregations) == 1 else "aggregations"
        kept = "in memory" if kept_in_memory(group.aggregations[0]) else "in a store"
        joined = f", with {listed}, which join{'s' if len(labels) == 1 else ''} it" if labels else ""
        return f"{what} {names} {'is' if len(group.aggregations) == 1 else 'are'} kept {kept} here{joined}"
    verb = "asks" if len(labels) == 1 else "ask"
    first = group.elements[0]
    if any(element.asked for element in group.elements):
        sentence = f"{listed} {verb} for execGroup '{first.group}'"
    else:
        sentence = f"{listed} {verb} for no execGroup, so '{DEFAULT_GROUP}' takes them"
    if group.parallel == 1:
        return sentence
    keys = [f"{stream}.{key}" for element in group.elements for stream, key in element.keys.items()]
    share = f"split by {', '.join(dict.fromkeys(keys))}" if keys else "taking turns"
    return f"{sentence}; {group.parallel} instances share the events, {share}"


# Which groups of a topology are split into shards, and whom their readers then wait for.


def split_groups(topology: Topology, shards: int, scripts: bool = False) -> Topology:
    """Split the instances of those groups into `shards` parts whose results do not change by that.

    Parameters
    ----------
    topology : Topology
        As planned, each instance in one shard.
    shards : int
        How many; 1 returns `topology`.
    scripts : bool
        Whether the app defines functions itself.
    """
    if shards == 1:
        return topology
    split = [replace(group, shards=shards) if _possible(group, scripts) else group for group in topology.groups]
    names = {one.name: shard_names(one.name, group.shards) for group in split for one in group.instances}

    # Each shard publishes under a name of its own, and readers wait for every name
    def waited_for(producers: tuple[str, ...]) -> Iterator[str]:
        for name in producers:
            yield from names[name]

    groups = [
        replace(group, inputs=tuple(replace(one, producers=tuple(waited_for(one.producers))) for one in group.inputs))
        for group in split
    ]
    return replace(topology, groups=tuple(groups))


def _possible(group: ExecutionGroup, scripts: bool) -> bool:
    # What reads a user's source takes what comes, in one place.
    if group.receiver:
        return False
    checked = checked_text(group.instances[0].text, scripts or None)
    return sharding(checked, [one.stream for one in group.inputs]).possible
