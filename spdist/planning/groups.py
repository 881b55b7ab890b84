"""From ``@dist(execGroup='…', parallel='…')`` to execution groups, their child apps and the topics between them.

`plan` reads what each query and partition asks for (`elements`), forms groups, decides how their instances share each
stream (`subscriptions`), connects them by topics (`wiring`) and prints the SiddhiQL of every instance from the syntax
tree. All names follow from the text alone, so planning an app again gives the same groups, instances and topics.

Source: WSO2 SP 4.x distributed deployment, behaviour described in our own words. Different here: names are stable (WSO2
draws random ones for the default group), groups are wired whatever their order, a stream may be used inside its group
and published, all app annotations reach the child apps, and all mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from spdist.errors import PlanningError, UnsupportedFeatureError
from spdist.language.ast import (
    AggregationDefinition,
    Annotation,
    AnnotationElement,
    Attribute,
    Definition,
    SiddhiApp,
    StreamDefinition,
    find_annotations,
)
from spdist.language.checker import CheckedApp, check
from spdist.language.format import format_app
from spdist.planning.elements import DEFAULT_GROUP, Element, Problems, read_elements
from spdist.planning.subscriptions import Definitions, Group, check_shared, subscribe
from spdist.planning.topology import ExecutionGroup, GroupInstance, Topology
from spdist.planning.wiring import Wiring, check_cycles, wire

__all__ = ["plan"]


def plan(app: SiddhiApp, checked: CheckedApp | None = None, transport: str = "log") -> Topology:
    """Split an app into execution groups.

    Parameters
    ----------
    app : SiddhiApp
        The app; it must have a name.
    checked : CheckedApp, optional
        The same app as the checker saw it (it knows the schemas of inferred streams); checked here if it is left out.
    transport : str
        What carries the topics: ``log``, the embedded one.

    Returns
    -------
    Topology
        Groups in the order in which the text first mentions them; equal apps give equal topologies.

    Raises
    ------
    PlanningError
        The app cannot be split as it asks; names the query and the group. ``errors`` holds everything that was found.
    UnsupportedFeatureError
        It asks for something that is not built yet.
    SiddhiAppError
        It does not pass the checker.
    """
    if app.name is None:
        raise PlanningError("a distributed app needs a name", span=app.span, hint="begin it with @app:name('MyApp')")
    if transport != "log":
        raise UnsupportedFeatureError(f"topics on transport '{transport}' are not built yet", hint="use 'log'")
    if checked is None:
        from spdist.extension import catalog

        checked = check(app, catalog())
    problems = Problems()
    definitions = {definition.name: definition for definition in app.definitions}
    groups = _form_groups(app.name, read_elements(app, problems), problems)
    _check_features(groups, definitions, problems)
    check_shared(groups, definitions, problems)
    subscriptions = {group.name: subscribe(group, definitions, problems) for group in groups}
    problems.raise_if_any()
    wiring = wire(app.name, groups, subscriptions, definitions, problems)
    if app.playback:
        check_cycles(groups, wiring, problems)
    problems.raise_if_any()
    return Topology(
        app=app.name,
        playback=app.playback,
        groups=tuple(_execution_group(group, app, checked, wiring) for group in groups),
        topics=tuple(wiring.topics.values()),
    )


def _form_groups(app: str, elements: tuple[Element, ...], problems: Problems) -> tuple[Group, ...]:
    members: dict[str, list[Element]] = {}
    for element in elements:
        members.setdefault(element.group, []).append(element)
    groups = []
    for id, of_group in members.items():
        first = of_group[0]
        name = f"{app}-{id}"
        for element in of_group[1:]:
            if element.parallel != first.parallel:
                problems.add(
                    f"{element.label} asks for parallel '{element.parallel}', but {first.label} of the same group "
                    f"'{name}' for '{first.parallel}'",
                    element.node.span,
                    "write the same parallel on all queries of an execGroup (none counts as '1')",
                )
        groups.append(Group(name, first.parallel, tuple(of_group)))
    return tuple(groups)


def _check_features(groups: tuple[Group, ...], definitions: Definitions, problems: Problems) -> None:
    """Refuse what has no place in a topology yet; each branch is where that place will be made."""
    read = {ref.name for group in groups for part in group.parts for ref in part.inputs}
    for name, definition in definitions.items():
        if isinstance(definition, AggregationDefinition):
            problems.unsupported(
                f"aggregation '{name}' cannot be distributed yet: it needs a group of its own",
                definition.span,
                "run the app in one process, or aggregate with a time window",
            )
        for source in find_annotations(definition.annotations, "source") if name in read else ():
            problems.unsupported(
                f"stream '{name}' has a @source, which needs a passthrough group; that is not built yet",
                source.span,
                "leave the @source out and feed the stream's topic from outside",
            )
    if len(groups) > 1:
        for part in (part for group in groups for part in group.parts):
            refs = [*part.inputs, *([part.target] if part.target else [])]
            for ref in (ref for ref in refs if ref.fault):
                problems.unsupported(
                    f"query '{part.name}' uses the fault stream '{ref.id}', which does not leave its instance yet",
                    ref.span or part.query.span,
                    "give all queries of the app the same execGroup",
                )


# --- groups as values
def _execution_group(group: Group, app: SiddhiApp, checked: CheckedApp, wiring: Wiring) -> ExecutionGroup:
    crossing = [*(i.stream for i in wiring.inputs[group.name]), *(o.stream for o in wiring.outputs[group.name])]
    definitions = _definitions(group, app, checked, crossing)
    elements = tuple(
        replace(element.node, annotations=_without(element.node.annotations, "dist")) for element in group.elements
    )
    instances = []
    for name in group.instances:
        called = Annotation("app:name", (AnnotationElement(None, name),))
        child = SiddhiApp((called, *_without(app.annotations, "app:name")), definitions, elements)
        instances.append(GroupInstance(name, format_app(child)))
    return ExecutionGroup(
        name=group.name,
        parallel=group.parallel,
        inputs=tuple(wiring.inputs[group.name]),
        outputs=tuple(wiring.outputs[group.name]),
        instances=tuple(instances),
        why=_why(group),
    )


def _definitions(group: Group, app: SiddhiApp, checked: CheckedApp, crossing: Iterable[str]) -> tuple[Definition, ...]:
    """Return what the group's queries need defined: the app's definitions, then inferred streams that cross its border.

    Sources and sinks are left out: the topology says what each instance reads and publishes.
    """
    used = {name for part in group.parts for name in part.ids}
    used |= {stream for element in group.elements for stream in element.keys}
    used |= {name for element in group.elements for name in element.functions}
    found = [
        replace(definition, annotations=_without(definition.annotations, "source", "sink"))
        for definition in app.definitions
        if definition.name in used
    ]
    defined = {definition.name for definition in app.definitions}
    for name in dict.fromkeys(crossing):
        if name not in defined:
            schema = checked.streams[name]
            found.append(StreamDefinition(name, tuple(Attribute(field, kind) for field, kind in schema)))
    return tuple(found)


def _without(annotations: tuple[Annotation, ...], *names: str) -> tuple[Annotation, ...]:
    return tuple(annotation for annotation in annotations if annotation.name.lower() not in names)


def _why(group: Group) -> str:
    """Say in a sentence why the group is there and how its instances share the work."""
    labels = [element.label for element in group.elements]
    listed = labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
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
