"""How the instances of a group share its input: the strategy for each stream, and what may not be run in parallel.

Source: WSO2 SP 4.x distributed deployment (subscription strategies and validations; behaviour, in our own words).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spdist.language.ast import (
    Definition,
    JoinInput,
    PatternInput,
    Query,
    SingleInput,
    StreamDefinition,
    TableDefinition,
    WindowDefinition,
    find_annotations,
)
from spdist.planning.elements import Element, Part, Problems
from spdist.planning.topology import Strategy

__all__ = ["Definitions", "Group", "Subscription", "check_shared", "is_stream", "subscribe"]

#: The app's definitions by name; a stream that is only inferred from ``insert into`` is not among them.
Definitions = Mapping[str, Definition]


@dataclass(frozen=True, slots=True)
class Group:
    """An execution group in the making.

    Parameters
    ----------
    name : str
        ``<App>-<execGroup>``.
    parallel : int
        Number of instances.
    elements : tuple of Element
        Its queries and partitions in the order of the text.
    """

    name: str
    parallel: int
    elements: tuple[Element, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All its queries, those of partitions included."""
        return tuple(part for element in self.elements for part in element.parts)

    @property
    def instances(self) -> tuple[str, ...]:
        """Names of its instances: ``<App>-<execGroup>-<i>`` with i from 1."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.parallel + 1))

    def writes(self, definitions: Definitions) -> tuple[str, ...]:
        """Return the streams that it inserts into."""
        targets = [part.target for part in self.parts if part.target is not None and not part.target.fault]
        return tuple(dict.fromkeys(t.name for t in targets if is_stream(t.name, definitions)))


@dataclass(frozen=True, slots=True)
class Subscription:
    """How a group reads a stream; ``by`` is the query that needs it so."""

    strategy: Strategy
    key: str | None
    by: Part


def is_stream(name: str, definitions: Definitions) -> bool:
    """Return True for a stream, defined or inferred; False for a trigger, table, window or aggregation."""
    return isinstance(definitions.get(name), StreamDefinition | None)


def subscribe(group: Group, definitions: Definitions, problems: Problems) -> dict[str, Subscription]:
    """Return how `group` reads each of its streams, in the order of the text.

    One instance reads everything. Of several, each takes the share of a partition key where a partition of the group
    (this one or an earlier one) splits the stream; a partition that uses a stream it does not split reads all of it; a
    plain query takes turns.
    """
    found: dict[str, Subscription] = {}
    keyed: dict[str, str | None] = {}
    split_somewhere = {stream for element in group.elements for stream in element.keys}
    for element in group.elements:
        _note_keys(element, group, keyed, problems)
        for part in element.parts:
            free = not element.is_partition and split_somewhere.isdisjoint(ref.name for ref in part.inputs)
            if group.parallel > 1 and free:
                _check_parallel(part, group, problems)
            for ref in part.inputs:
                if ref.fault or not is_stream(ref.name, definitions):
                    continue
                new = _subscription(ref.name, element, part, group, keyed)
                _merge(ref.name, new, found, group, problems)
    return found


def _note_keys(element: Element, group: Group, keyed: dict[str, str | None], problems: Problems) -> None:
    for stream, key in element.keys.items():
        span = element.node.span
        if stream in keyed and keyed[stream] == key:
            problems.add(
                f"{element.label} splits '{stream}' by '{key}', as another partition of group '{group.name}' does",
                span,
                "put the queries of both into one partition, or give the second an execGroup of its own",
            )
        elif stream in keyed:
            problems.add(
                f"{element.label} splits '{stream}' by '{key}', but another partition of group '{group.name}' splits "
                f"it by '{keyed[stream]}': the strategies for one stream conflict",
                span,
                "give the second partition an execGroup of its own",
            )
        if key is None and group.parallel > 1 and stream not in element.ranged:
            problems.add(
                f"{element.label} of group '{group.name}' splits '{stream}' by an expression; with parallel "
                f"'{group.parallel}' it must be a bare attribute",
                span,
                "compute the value in a query first, and partition by that attribute",
            )
        keyed[stream] = key


def _subscription(
    stream: str, element: Element, part: Part, group: Group, keyed: Mapping[str, str | None]
) -> Subscription:
    if group.parallel == 1:
        return Subscription(Strategy.ALL, None, part)
    if stream in keyed:
        return Subscription(Strategy.FIELD_GROUPING, keyed[stream], part)
    return Subscription(Strategy.ALL if element.is_partition else Strategy.ROUND_ROBIN, None, part)


def _merge(stream: str, new: Subscription, found: dict[str, Subscription], group: Group, problems: Problems) -> None:
    known = found.setdefault(stream, new)
    if (known.strategy, known.key) == (new.strategy, new.key):
        return
    if known.strategy is Strategy.ROUND_ROBIN and new.strategy is Strategy.FIELD_GROUPING:
        found[stream] = new
    elif known.strategy is not new.strategy:
        problems.add(
            f"conflicting strategies for stream '{stream}' in group '{group.name}': query '{known.by.name}' reads it "
            f"{known.strategy.value}, query '{new.by.name}' {new.strategy.value}",
            new.by.query.span,
            "give one of the two queries an execGroup of its own",
        )


def _check_parallel(part: Part, group: Group, problems: Problems) -> None:
    """Refuse a plain query that keeps events: each instance would see only some of them."""
    if what := _keeps_events(part.query):
        problems.add(
            f"query '{part.name}' of group '{group.name}' has parallel '{group.parallel}' but is {what} outside a "
            "partition: each instance would see only a part of the events",
            part.query.span,
            "put it into a partition, or give it parallel='1'",
        )


def _keeps_events(query: Query) -> str:
    match query.input:
        case JoinInput():
            return "a join"
        case PatternInput(kind=kind):
            return f"a {kind}"
        case SingleInput(window=window) if window is not None:
            return f"a window ({window.id})"
    return ""


def check_shared(groups: tuple[Group, ...], definitions: Definitions, problems: Problems) -> None:
    """Check tables in memory and defined windows: they live in one instance, so only one such may use them."""
    for name, definition in definitions.items():
        kind = _shared_kind(definition)
        users = [group for group in groups if any(name in part.ids for part in group.parts)] if kind else []
        if len(users) > 1:
            names = " and ".join(f"'{group.name}'" for group in users)
            problems.add(
                f"the {kind} '{name}' is used by the groups {names}, but lives in one of them only",
                definition.span,
                "give all queries that use it the same execGroup",
            )
        for group in users:
            if group.parallel > 1:
                part = next(part for part in group.parts if name in part.ids)
                problems.add(
                    f"query '{part.name}' of group '{group.name}' uses the {kind} '{name}' with parallel "
                    f"'{group.parallel}': each instance would have one of its own",
                    part.query.span,
                    "give the group parallel='1'",
                )


def _shared_kind(definition: Definition) -> str:
    if isinstance(definition, TableDefinition) and not find_annotations(definition.annotations, "store"):
        return "in-memory table"
    return "window" if isinstance(definition, WindowDefinition) else ""
