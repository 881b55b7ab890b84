"""Where the users' sources are read: in the one group that needs them, or in passthrough groups of their own.

A passthrough group reads one source and hands its events on under the name of the stream, so that each event comes in
once however many instances want it. It is made for a stream that several groups read, that a group of several instances
reads, or that other groups fill as well.

Source: WSO2 SP 4.x distributed deployment (receiver groups; behaviour, in our own words). Different here: one source
for each passthrough group, names that stay, and the text of annotations is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from spdist.java.numbers import whole_number
from spdist.language.ast import (
    Annotation,
    InsertInto,
    Query,
    SingleInput,
    StreamDefinition,
    StreamRef,
    find_annotations,
)
from spdist.planning.channels import topic_name
from spdist.planning.elements import Element, Problems, QueryPart
from spdist.planning.forming import Definitions, Group
from spdist.planning.subscriptions import Subscription, Subscriptions
from spdist.planning.topology import Kind, Strategy

__all__ = ["Received", "by_name", "receive", "without"]

_Owner = TypeVar("_Owner")

_PASSTHROUGH = "passthrough"


@dataclass(frozen=True)
class Received:
    """The groups with the passthrough groups before them.

    Parameters
    ----------
    groups : tuple of Group
        Passthrough groups first.
    definitions : Definitions
        Those of the app, without the sources that passthrough groups read.
    reads : mapping of str to StreamDefinition
        By passthrough group what it reads: the stream with its one source, under another name.
    subscriptions : Subscriptions
        Those of the passthrough groups added.
    own : mapping of (str, str) to str
        By group and stream, where the group itself reads the stream's sources, the topic of the embedded log into which
        a source puts what comes in.
    """

    groups: tuple[Group, ...]
    definitions: Definitions
    reads: Mapping[str, StreamDefinition]
    subscriptions: Subscriptions
    own: Mapping[tuple[str, str], str]

    @cached_property
    def writers(self) -> Mapping[str, tuple[Group, ...]]:
        """The groups that insert into a stream, by its name."""
        return by_name((group, group.writes(self.definitions)) for group in self.groups)

    @cached_property
    def readers(self) -> Mapping[str, tuple[Group, ...]]:
        """The groups that read something, by its name."""
        return by_name((group, self.subscriptions[group.name]) for group in self.groups)

    @cached_property
    def reading_sources(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the groups that themselves read the sources of a stream, by its name."""
        streams = by_name((stream, (of_group,)) for of_group, stream in self.own)
        return by_name((group.name, streams.get(group.name, ())) for group in self.groups)


def by_name(named: Iterable[tuple[_Owner, Iterable[str]]]) -> dict[str, tuple[_Owner, ...]]:
    """Return for each name its owners, in their order."""
    found: dict[str, list[_Owner]] = {}
    for owner, names in named:
        for name in names:
            found.setdefault(name, []).append(owner)
    return {name: tuple(owners) for name, owners in found.items()}


def receive(
    app: str, groups: Sequence[Group], definitions: Definitions, subscriptions: Subscriptions, problems: Problems
) -> Received:
    """Return who reads the sources of users."""
    taken = {group.name for group in groups}
    reading = by_name((group, subscriptions[group.name]) for group in groups)
    writing = by_name((group, group.writes(definitions)) for group in groups)
    known = dict(definitions)
    reads: dict[str, StreamDefinition] = {}
    subscribed = dict(subscriptions)
    passing: list[Group] = []
    own: dict[tuple[str, str], str] = {}
    for name, readers in reading.items():
        definition = definitions.get(name)
        sources = find_annotations(definition.annotations, "source") if definition else ()
        if not sources or not isinstance(definition, StreamDefinition):
            continue
        # Who reads the stream alone and fills it too hands its own events on without a topic
        others = [group for group in writing.get(name, ()) if group is not readers[0]]
        if len(readers) == 1 and readers[0].parallel == 1 and not others:
            own[readers[0].name, name] = topic_name("log", app, name)
            continue
        # Whoever else reads the stream gets it from the passthrough groups, and must not read the source again
        known[name] = replace(definition, annotations=without(definition.annotations, "source"))
        for number, source in enumerate(sources, 1):
            further = f".{number}" if number > 1 else ""
            called = f"{app}-{_PASSTHROUGH}-{name}{further}"
            while called in taken:
                # A user's own group may have that name
                called += "_"
            read = _read(definition, source, definitions)
            group = _passthrough(called, read, definition, source, problems)
            reads[called] = read
            part = group.parts[0]
            # as WSO2 counts it: each instance reads its own copy of the source
            subscribed[called] = {read.name: Subscription(Kind.STREAM, Strategy.ALL, None, 1, part)}
            own[called, read.name] = topic_name("log", app, read.name + further)
            passing.append(group)
    return Received((*passing, *groups), known, reads, subscribed, own)


def without(annotations: tuple[Annotation, ...], *names: str) -> tuple[Annotation, ...]:
    """Return the annotations that are not called so; `names` in lower case."""
    return tuple(annotation for annotation in annotations if annotation.name.lower() not in names)


def _read(definition: StreamDefinition, source: Annotation, definitions: Definitions) -> StreamDefinition:
    """Return what a passthrough group reads: the stream with one source, called ``passthrough<S>``."""
    name = _PASSTHROUGH + definition.name
    while name in definitions:
        name += "_"
    return replace(
        definition, name=name, annotations=(replace(source, annotations=without(source.annotations, "dist")),)
    )


def _passthrough(
    name: str, read: StreamDefinition, definition: StreamDefinition, source: Annotation, problems: Problems
) -> Group:
    query = Query(
        SingleInput(StreamRef(read.name)), InsertInto(StreamRef(definition.name)), span=source.span or definition.span
    )
    part = QueryPart("passthrough", query, (StreamRef(read.name),), StreamRef(definition.name), ())
    parallel = _parallel(source, definition.name, problems)
    # -1: it stands nowhere among the elements of the text
    element = Element(query, f"the @source of stream '{definition.name}'", name, True, parallel, (part,), {}, -1)
    return Group(name, parallel, (element,), receiver=True)


def _parallel(source: Annotation, stream: str, problems: Problems) -> int:
    """Return how many instances read a source: the least that its ``@dist`` annotations say, where all say it."""
    said: list[int] = []
    for dist in source.nested("dist"):
        text = dist.get("parallel") or "1"
        number = whole_number(text, 1, 9999)
        if number is None:
            problems.add(
                f"the @source of stream '{stream}': parallel '{text}' is not a whole number from 1 to 9999",
                source.span,
                "write @dist(parallel='2')",
            )
            return 1
        said.append(number)
    return min(said, default=1)
