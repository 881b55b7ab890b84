"""Which queries, partitions and aggregations run together: the groups in their order, before anything is connected.

Groups stand in the order in which the text first mentions them; those of aggregations come last. An aggregation in
memory draws all that join it into its own group, whatever ``execGroup`` they ask for; one in a store leaves its readers
where they are, and they look into the store.

Source: WSO2 SP 4.x distributed deployment (groups, aggregations; behaviour, in our own words).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from spdist.errors import PlanningRule, Span
from spdist.language.ast import (
    AggregationDefinition,
    Definition,
    TableDefinition,
    TriggerDefinition,
    WindowDefinition,
    find_annotations,
)
from spdist.planning.elements import DEFAULT_GROUP, Element, Problems, QueryPart
from spdist.planning.topology import Kind

__all__ = ["Definitions", "Group", "form_groups", "kept_in_memory", "kind_of"]

#: The app's definitions by name; a stream that is only inferred from ``insert into`` is not among them.
Definitions = Mapping[str, Definition]

_KINDS: tuple[tuple[type[Definition], Kind], ...] = (
    (TableDefinition, Kind.TABLE),
    (WindowDefinition, Kind.WINDOW),
    (AggregationDefinition, Kind.AGGREGATION),
    (TriggerDefinition, Kind.TRIGGER),
)


# Compared by identity: groups are keys of mappings, which what they consist of could not be
@dataclass(frozen=True, eq=False)
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
    aggregations : tuple of AggregationDefinition
        Those that are computed here.
    receiver : bool
        Whether it is there to read a user's source.
    """

    name: str
    parallel: int
    elements: tuple[Element, ...]
    aggregations: tuple[AggregationDefinition, ...] = ()
    receiver: bool = False

    @cached_property
    def parts(self) -> tuple[QueryPart, ...]:
        """All its queries, those of partitions included."""
        return tuple(part for element in self.elements for part in element.parts)

    @cached_property
    def instances(self) -> tuple[str, ...]:
        """Names of its instances: ``<App>-<execGroup>-<i>`` with i from 1."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.parallel + 1))

    @property
    def span(self) -> Span | None:
        """Where it begins in the text."""
        return self.elements[0].node.span if self.elements else self.aggregations[0].span

    def writes(self, definitions: Definitions) -> tuple[str, ...]:
        """Return the streams that it inserts into."""
        names = dict.fromkeys(part.target.name for part in self.parts if part.target is not None)
        return tuple(name for name in names if kind_of(name, definitions) is Kind.STREAM)

    def joins(self, definitions: Definitions) -> tuple[AggregationDefinition, ...]:
        """Return the aggregations that its queries read and that are computed elsewhere."""
        named = dict.fromkeys(ref.name for part in self.parts for ref in part.inputs)
        found = [definitions.get(name) for name in named]
        own = {one.name for one in self.aggregations}
        return tuple(one for one in found if isinstance(one, AggregationDefinition) and one.name not in own)


def kind_of(name: str, definitions: Definitions) -> Kind:
    """Return what `name` is; a stream where it is only inferred."""
    definition = definitions.get(name)
    if isinstance(definition, TableDefinition) and kept_in_memory(definition):
        return Kind.INMEMORYTABLE
    return next((kind for type_, kind in _KINDS if isinstance(definition, type_)), Kind.STREAM)


def kept_in_memory(definition: Definition) -> bool:
    """Return True for a table without ``@store`` (in any spelling); an aggregation may say ``in-memory`` as well."""
    stores = find_annotations(definition.annotations, "store")
    of_table = isinstance(definition, TableDefinition)
    return not stores or (not of_table and (stores[0].get("type") or "").lower() == "in-memory")


def form_groups(
    app: str, elements: Sequence[Element], definitions: Definitions, problems: Problems
) -> tuple[Group, ...]:
    """Return the groups of `app`; what does not go together in one of them goes to `problems`."""
    together = _together(elements, definitions, problems)
    drawn = {element.position for of_one in together.values() for element in of_one}
    free = [element for element in elements if element.position not in drawn]
    members: dict[str, list[Element]] = {}
    default = _default_name(elements)
    for element in free:
        members.setdefault(element.group if element.asked else default, []).append(element)
    groups = [_group(f"{app}-{id}", of_group, problems) for id, of_group in members.items()]
    for names, joining in together.items():
        computed = tuple(one for name in names if isinstance(one := definitions[name], AggregationDefinition))
        groups.append(Group(f"{app}_aggregation-{names[0]}", 1, tuple(joining), computed))
    return tuple(groups)


def _default_name(elements: Iterable[Element]) -> str:
    """Return what the group of elements without ``execGroup`` is called: a name that nobody asks for."""
    asked = {element.group for element in elements if element.asked}
    name = DEFAULT_GROUP
    while name in asked:
        name += "_"
    return name


def _group(name: str, members: Sequence[Element], problems: Problems) -> Group:
    first = members[0]
    for element in members[1:]:
        if element.parallel != first.parallel:
            problems.add(
                f"{element.label} asks for parallel '{element.parallel}', but {first.label} of the same group "
                f"'{name}' for '{first.parallel}'",
                element.node.span,
                "write the same parallel on all queries of an execGroup (none counts as '1')",
                PlanningRule.PARALLEL_MISMATCH,
            )
    return Group(name, first.parallel, tuple(members))


def _together(
    elements: Sequence[Element], definitions: Definitions, problems: Problems
) -> dict[tuple[str, ...], list[Element]]:
    """Return aggregations with those that join them; aggregations in memory that one element joins go together."""
    aggregations = [one for one in definitions.values() if isinstance(one, AggregationDefinition)]
    in_memory = {one.name for one in aggregations if kept_in_memory(one)}
    together = {one.name: one.name for one in aggregations}

    def first(name: str) -> str:
        """Return the aggregation that stands for all that go together with `name`."""
        while together[name] != name:
            # Halves the way on each look, so that long rows of joined aggregations stay cheap
            together[name] = name = together[together[name]]
        return name

    joining: list[tuple[Element, str]] = []
    for element in elements:
        joined = list(dict.fromkeys(r.name for p in element.parts for r in p.inputs if r.name in in_memory))
        if not joined:
            continue
        joining.append((element, joined[0]))
        if element.parallel > 1:
            problems.add(
                f"{element.label} joins the in-memory aggregation '{joined[0]}' with parallel '{element.parallel}'",
                element.node.span,
                "give it parallel='1', or keep the aggregation in a store",
                PlanningRule.PARALLEL_AGGREGATION,
            )
        for name in joined:
            together[first(name)] = first(joined[0])
    groups: dict[str, tuple[list[str], list[Element]]] = {}
    for one in aggregations:
        groups.setdefault(first(one.name), ([], []))[0].append(one.name)
    for element, name in joining:
        groups[first(name)][1].append(element)
    return {tuple(names): members for names, members in groups.values()}
