"""An app as the planner sees it: its queries and partitions with what they read, write and ask for in ``@dist``.

Reading never stops at the first mistake: problems are collected, so that people see all of them together.
Source: WSO2 SP 4.x distributed deployment (where ``@dist`` is honoured, which ids a query uses).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from spdist.errors import ErrorKind, PlanningError, PlanningRule, SiddhiAppError, Span
from spdist.language.ast import (
    Annotation,
    FunctionCall,
    In,
    Partition,
    Query,
    SiddhiApp,
    SingleInput,
    StreamRef,
    Variable,
    find_annotations,
)
from spdist.language.checking.expressions import MOST_ERRORS

__all__ = ["DEFAULT_GROUP", "Element", "Problems", "QueryPart", "read_elements"]

#: What follows ``<App>-`` in the name of the group of all elements without ``execGroup``.
DEFAULT_GROUP = "default"
#: Names of groups become names of files, consumer groups and addresses.
_GROUP_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PARALLEL = re.compile(r"[1-9][0-9]{0,3}")


class Problems:
    """Collects what is wrong with an app, so that all of it can be reported together."""

    def __init__(self) -> None:
        self.found: list[SiddhiAppError] = []

    def add(self, message: str, span: Span | None, hint: str | None = None, rule: PlanningRule | None = None) -> None:
        """Note that the app cannot be split as it asks; `rule` is the one that it breaks."""
        self.found.append(PlanningError(message, span=span, hint=hint, code=rule))

    def unsupported(self, message: str, span: Span | None, hint: str | None = None) -> None:
        """Note that the app asks for something that is not built yet."""
        self.found.append(SiddhiAppError(message, span=span, hint=hint, code=ErrorKind.UNSUPPORTED))

    def raise_if_any(self) -> None:
        """Raise what was found: the one error, or a PlanningError that holds them all in ``errors``."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            more = f"; these are the first {MOST_ERRORS}" if len(self.found) > MOST_ERRORS else ""
            raise PlanningError.of_all(f"the app has {len(self.found)} problems{more}:", self.found[:MOST_ERRORS])


@dataclass(frozen=True, slots=True)
class QueryPart:
    """One query with its name, for messages, and what it uses.

    Parameters
    ----------
    name : str
        Its ``@info(name='…')`` or ``query_<n>``.
    query : Query
        The query.
    inputs : tuple of StreamRef
        What it reads, in the order of the text: streams, tables, windows, triggers; inner streams left out.
    target : StreamRef, optional
        What it writes; None for an inner stream.
    tables : tuple of str
        Tables of its ``in`` conditions.
    """

    name: str
    query: Query
    inputs: tuple[StreamRef, ...]
    target: StreamRef | None
    tables: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every name of the app that it reads or writes."""
        written = (self.target.name,) if self.target else ()
        return (*(ref.name for ref in self.inputs), *written, *self.tables)


@dataclass(frozen=True, slots=True)
class Element:
    """A top-level query or a partition: what is given to a group as a whole.

    Parameters
    ----------
    node : Query or Partition
        Where it stands.
    label : str
        ``query 'name'`` or ``partition 'n'``, for messages.
    group : str
        Its ``execGroup``, or `DEFAULT_GROUP`.
    asked : bool
        Whether it names its ``execGroup``.
    parallel : int
        Number of instances that it asks for.
    parts : tuple of QueryPart
        The query itself, or those of the partition.
    keys : mapping of str to str or None
        For a partition: stream → the attribute by whose value it is split; None where that is no bare attribute.
    position : int
        Which element of the app it is, from 0.
    """

    node: Query | Partition
    label: str
    group: str
    asked: bool
    parallel: int
    parts: tuple[QueryPart, ...]
    keys: Mapping[str, str | None] = field(default_factory=dict)
    position: int = 0

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions that it calls, among them those that the app itself defines."""
        return frozenset(node.id for node in self.node.walk() if isinstance(node, FunctionCall))

    @property
    def ranged(self) -> frozenset[str]:
        """Streams that a partition splits by ranges (refused by `read_elements`)."""
        keys = self.node.keys if isinstance(self.node, Partition) else ()
        return frozenset(key.stream.name for key in keys if key.ranges)

    @property
    def is_partition(self) -> bool:
        """True for a partition."""
        return isinstance(self.node, Partition)


def read_elements(app: SiddhiApp, problems: Problems) -> tuple[Element, ...]:
    """Return the elements of `app` in the order of the text; what is wrong with their ``@dist`` goes to `problems`."""
    # One count for the whole app: Siddhi numbers unnamed queries, those of partitions too, in the order of the text
    numbers = count(1)
    elements = []
    partitions = 0
    for node in app.elements:
        if isinstance(node, Partition):
            partitions += 1
            elements.append(_partition(node, f"partition {partitions}", numbers, problems))
        else:
            part = _part(node, next(numbers))
            label = f"query '{part.name}'"
            group, asked, parallel = _dist(node.annotations, label, problems)
            elements.append(Element(node, label, group, asked, parallel, (part,)))
    return tuple(replace(element, position=position) for position, element in enumerate(elements))


def _part(query: Query, number: int) -> QueryPart:
    sides = [node for node in query.input.walk() if isinstance(node, SingleInput)]
    target = query.output.target
    return QueryPart(
        name=query.name or f"query_{number}",
        query=query,
        inputs=tuple(side.stream for side in sides if not side.stream.inner),
        # what is inserted into a fault stream `!S` goes to `S`
        target=None if target is None or target.inner else replace(target, fault=False),
        tables=tuple(node.table for node in query.walk() if isinstance(node, In)),
    )


def _partition(node: Partition, label: str, numbers: Iterator[int], problems: Problems) -> Element:
    parts = tuple(_part(query, next(numbers)) for query in node.queries)
    if parts:
        label = f"{label} (with query '{parts[0].name}')"
    group, asked, parallel = _dist(node.annotations, label, problems)
    for part in parts:
        for dist in find_annotations(part.query.annotations, "dist"):
            problems.add(
                f"query '{part.name}' stands inside a partition and cannot have a @dist of its own",
                dist.span or part.query.span,
                f"write @dist before the partition: all of it goes to one group ('{group}')",
                PlanningRule.DIST_IN_PARTITION,
            )
    keys: dict[str, str | None] = {}
    for key in node.keys:
        if key.ranges:
            problems.add(
                f"{label} of group '{group}' splits '{key.stream.id}' by ranges; only values can be distributed",
                key.span or node.span,
                "compute the range's label in a query first, and partition by that attribute",
                PlanningRule.PARTITION_KEY,
            )
        # Other expressions are refused where the group turns out to have several instances
        keys[key.stream.name] = key.value.name if isinstance(key.value, Variable) else None
    return Element(node, label, group, asked, parallel, parts, keys)


def _dist(annotations: tuple[Annotation, ...], label: str, problems: Problems) -> tuple[str, bool, int]:
    """Return group, whether it was asked for, and parallelism."""
    found = find_annotations(annotations, "dist")
    if not found:
        return DEFAULT_GROUP, False, 1
    dist = found[0]
    if len(found) > 1:
        problems.add(f"{label} has {len(found)} @dist annotations", found[1].span, "write one")
    for element in dist.elements:
        if (element.key or "").lower() not in ("execgroup", "parallel"):
            problems.add(
                f"{label}: @dist has no '{element.key or element.value}'",
                element.span or dist.span,
                "it takes execGroup='…' and parallel='…'",
            )
    group = dist.get("execGroup")
    if group is not None and not _GROUP_NAME.fullmatch(group):
        problems.add(
            f"{label}: execGroup '{group}' cannot name files and topics",
            dist.span,
            "use up to 100 letters, digits, '_', '-' and '.', not beginning with '-' or '.'",
        )
    parallel = dist.get("parallel") or "1"
    if not _PARALLEL.fullmatch(parallel):
        problems.add(
            f"{label}: parallel '{parallel}' is not a whole number from 1 to 9999", dist.span, "write parallel='2'"
        )
        # Reading goes on with what does least, to find the other mistakes as well
        parallel = "1"
    return group or DEFAULT_GROUP, bool(group), int(parallel)
