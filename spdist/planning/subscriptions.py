"""How the instances of a group share its input: the strategy for each stream, and what may not be run in parallel.

Elements are looked at in the order of the text, whatever their group, as WSO2 does: the last partition of a stream that
was met gives the key by which those name its topic that read it whole or in turn.

Source: WSO2 SP 4.x distributed deployment (subscription strategies and validations; behaviour, in our own words).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spdist.errors import (
    PlanningRule,
)
from spdist.language.ast import (
    AnonymousInput,
    Input,
    JoinInput,
    JoinSide,
    PatternInput,
    SingleInput,
    TableDefinition,
    WindowDefinition,
)
from spdist.planning.elements import Element, Problems, QueryPart
from spdist.planning.forming import Definitions, Group, kept_in_memory, kind_of
from spdist.planning.topology import Kind, Strategy

__all__ = ["Subscription", "Subscriptions", "check_shared", "subscribe"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """How a group reads something.

    Parameters
    ----------
    kind : Kind
        What it is; only streams come through topics.
    strategy : Strategy
        How its events are spread over the instances.
    key : str, optional
        The attribute that splits it; for those that do not split it, the key of the last partition of that stream.
    offered : int
        Number of shares: that of the group's instances.
    by : QueryPart, optional
        The query that needs it so; None for an aggregation.
    """

    kind: Kind
    strategy: Strategy
    key: str | None
    offered: int
    by: QueryPart | None = None


#: By name of group, then by what it reads.
Subscriptions = dict[str, dict[str, Subscription]]


def subscribe(groups: Sequence[Group], definitions: Definitions, problems: Problems) -> Subscriptions:
    """Return what each of `groups` reads and how, in the order of the text.

    One instance reads everything. Of several, each takes the share of a partition key where a partition of the group
    (this one or an earlier one) splits the stream; a partition that uses a stream it does not split reads all of it; a
    plain query takes turns.
    """
    ledger = _Ledger(definitions, problems, {group.name: {} for group in groups})
    plain = [(element, group) for group in groups if not group.aggregations for element in group.elements]
    for element, group in sorted(plain, key=lambda one: one[0].position):
        ledger.add(element, group)
    # Groups of aggregations come last, as in WSO2, whatever the place of their queries in the text
    for group in groups:
        for aggregation in group.aggregations:
            assert aggregation.input is not None
            ledger.aggregate(aggregation.input.stream.name, group)
        for element in group.elements if group.aggregations else ():
            ledger.add(element, group)
    return ledger.named()


@dataclass(slots=True)
class _Ledger:
    """What is known of keys and strategies so far."""

    definitions: Definitions
    problems: Problems
    found: Subscriptions
    #: The key of the last partition of each stream, in any group.
    last: dict[str, str] = field(default_factory=dict)
    #: What the partitions of a group split, and by what.
    split: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def add(self, element: Element, group: Group) -> None:
        """Look at an element of `group`."""
        for stream, key in element.keys.items():
            self._partition(stream, key, element, group)
        for part in element.parts:
            ids = dict.fromkeys(ref.name for ref in part.inputs if not ref.fault)
            # A query over a stream that the group has split sees all events of its keys, whatever it keeps of them
            free = not element.is_partition and not any((group.name, name) in self.split for name in ids)
            if group.parallel > 1 and free:
                _check_parallel(part, group, self.definitions, self.problems)
            for name in ids:
                self._merge(name, self._subscription(name, element, part, group), group)

    def named(self) -> Subscriptions:
        """Return what was found; those that do not split a stream have the key of its last partition in any group."""
        return {
            group: {
                stream: one if one.strategy is Strategy.FIELD_GROUPING else replace(one, key=self.last.get(stream))
                for stream, one in of_group.items()
            }
            for group, of_group in self.found.items()
        }

    def aggregate(self, stream: str, group: Group) -> None:
        """Note that an aggregation of `group` reads `stream`."""
        kind = kind_of(stream, self.definitions)
        self.found[group.name][stream] = Subscription(kind, Strategy.ALL, None, group.parallel)

    def _partition(self, stream: str, key: str | None, element: Element, group: Group) -> None:
        here = group.name, stream
        if here in self.split and key is not None and self.split[here] == key:
            self.problems.add(
                f"{element.label} splits '{stream}' by '{key}', as another partition of group '{group.name}' does",
                element.node.span,
                "put the queries of both into one partition, or give the second an execGroup of its own",
                PlanningRule.REPEATED_PARTITION,
            )
        elif here in self.split and group.parallel > 1:
            self.problems.add(
                f"{element.label} splits '{stream}' by '{key}', but another partition of group '{group.name}' splits "
                f"it by '{self.split[here]}': the strategies for one stream conflict",
                element.node.span,
                "give the second partition an execGroup of its own",
                PlanningRule.CONFLICTING_STRATEGIES,
            )
        if key is None and group.parallel > 1 and stream not in element.ranged:
            self.problems.add(
                f"{element.label} of group '{group.name}' splits '{stream}' by an expression; with parallel "
                f"'{group.parallel}' it must be a bare attribute",
                element.node.span,
                "compute the value in a query first, and partition by that attribute",
                PlanningRule.PARTITION_KEY,
            )
        self.split[here] = key
        if key is not None:
            self.last[stream] = key

    def _subscription(self, name: str, element: Element, part: QueryPart, group: Group) -> Subscription:
        kind, key = kind_of(name, self.definitions), None
        # In front of all else: one instance reads everything, even of a partition
        if group.parallel == 1:
            strategy = Strategy.ALL
        elif (group.name, name) in self.split:
            strategy, key = Strategy.FIELD_GROUPING, self.split[group.name, name]
        elif kind is Kind.AGGREGATION or not element.is_partition:
            strategy = Strategy.ROUND_ROBIN
        else:
            strategy = Strategy.ALL
        return Subscription(kind, strategy, key, group.parallel, part)

    def _merge(self, name: str, new: Subscription, group: Group) -> None:
        of_group = self.found[group.name]
        known = of_group.setdefault(name, new)
        if known.strategy is new.strategy:
            return
        # WSO2's rule: a query in front of the partition takes its share by the key as well
        if known.strategy is Strategy.ROUND_ROBIN and new.strategy is Strategy.FIELD_GROUPING:
            of_group[name] = new
            return
        assert known.by is not None
        assert new.by is not None
        self.problems.add(
            f"conflicting strategies for {new.kind.value.lower()} '{name}' in group '{group.name}': "
            f"query '{known.by.name}' reads it {known.strategy.value}, query '{new.by.name}' {new.strategy.value}",
            new.by.query.span,
            "give one of the two queries an execGroup of its own",
            PlanningRule.CONFLICTING_STRATEGIES,
        )


def _check_parallel(part: QueryPart, group: Group, definitions: Definitions, problems: Problems) -> None:
    """Refuse a plain query that keeps events: each instance would see only some of them."""
    if refused := _keeps_events(part.query.input, definitions):
        what, rule = refused
        problems.add(
            f"query '{part.name}' of group '{group.name}' has parallel '{group.parallel}' but is {what} outside a "
            "partition: each instance would see only a part of the events",
            part.query.span,
            "put it into a partition, or give it parallel='1'",
            rule,
        )


def _keeps_events(read: Input, definitions: Definitions) -> tuple[str, PlanningRule] | None:
    match read:
        case JoinInput(left=left, right=right):
            # a look into what all instances share needs no other events
            if _looks_up(left, right, definitions) or _looks_up(right, left, definitions):
                return None
            return "a join", PlanningRule.PARALLEL_JOIN
        case PatternInput(kind=kind):
            return f"a {kind}", PlanningRule.PARALLEL_PATTERN
        case SingleInput(window=window) if window is not None:
            return f"a window ({window.id})", PlanningRule.PARALLEL_WINDOW_QUERY
        case AnonymousInput(query=query):
            return _keeps_events(query.input, definitions)
    return None


def _looks_up(side: JoinSide, other: JoinSide, definitions: Definitions) -> bool:
    """Return True where `other` is what all instances see alike: an aggregation, or a table kept in a store."""
    definition = definitions.get(other.input.stream.name)
    kind = kind_of(other.input.stream.name, definitions)
    if kind is Kind.AGGREGATION:
        return True
    shared = isinstance(definition, TableDefinition) and not kept_in_memory(definition)
    return shared and side.input.window is None


def check_shared(groups: Sequence[Group], definitions: Definitions, problems: Problems) -> None:
    """Check tables in memory and defined windows: they live in one instance, so only one such may use them."""
    users_of: dict[str, dict[Group, QueryPart]] = {}
    for group in groups:
        for part in group.parts:
            for name in part.ids:
                users_of.setdefault(name, {}).setdefault(group, part)
    for name, definition in definitions.items():
        of_table = isinstance(definition, TableDefinition)
        if not (of_table and kept_in_memory(definition)) and not isinstance(definition, WindowDefinition):
            continue
        kind = "in-memory table" if of_table else "window"
        users = users_of.get(name, {})
        if len(users) > 1:
            names = " and ".join(f"'{group.name}'" for group in users)
            second = list(users.values())[1]
            problems.add(
                f"the {kind} '{name}' is used by the groups {names}, but lives in one of them only",
                second.query.span,
                "give all queries that use it the same execGroup",
                PlanningRule.SHARED_TABLE if of_table else PlanningRule.SHARED_WINDOW,
            )
        for group, part in users.items():
            if group.parallel > 1:
                problems.add(
                    f"query '{part.name}' of group '{group.name}' uses the {kind} '{name}' with parallel "
                    f"'{group.parallel}': each instance would have one of its own",
                    part.query.span,
                    "give the group parallel='1'",
                    PlanningRule.PARALLEL_TABLE if of_table else PlanningRule.PARALLEL_WINDOW,
                )
