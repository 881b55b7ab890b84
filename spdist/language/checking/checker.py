"""Whether an app means something: every name known, every expression typed; reports all that is wrong in one go.

Names become known in the order in which Siddhi makes them known: definitions, then streams as queries write to them.
What could not be understood makes no further errors.

Source: io.siddhi.core.util.parser, verified on the engine.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from spdist.errors import AppValidationError, DuplicateDefinitionError, SiddhiAppError, UndefinedNameError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.annotations import check_app_annotations, check_partition_annotations
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery, ClockSetting
from spdist.language.checking.definitions import check_definitions
from spdist.language.checking.expressions import MOST_ERRORS
from spdist.language.checking.names import Names, TooManyErrors
from spdist.language.checking.queries import check_query
from spdist.language.checking.scope import AttributeSource, Scope, suggestion
from spdist.language.types import Schema

__all__ = ["CheckedApp", "CheckedPartition", "CheckedQuery", "check"]

_UNNAMED = "SiddhiApp"


def check(app: ast.SiddhiApp, catalog: Catalog, text: str = "") -> CheckedApp:
    """Return `app` with its names and types.

    Parameters
    ----------
    app : SiddhiApp
        What `spdist.language.parsing.parser.parse` returned.
    catalog : Catalog
        The functions, aggregators and windows there are.
    text : str, optional
        The text it came from, for the errors.

    Returns
    -------
    CheckedApp
        What the engine runs.

    Raises
    ------
    SiddhiAppError
        Something is wrong; ``errors`` holds all of it, in the order of the text, where it is no more than a hundred
        errors. A single error is raised as itself.
    """
    names = Names(catalog)
    clock = ClockSetting()
    elements: tuple[CheckedQuery | CheckedPartition, ...] = ()
    with contextlib.suppress(TooManyErrors):
        clock = check_app_annotations(names, app)
        check_definitions(names, app)
        elements = _Elements(names).check(app.elements)
    if names.errors:
        raise _together(names.errors, text)
    return CheckedApp(
        app,
        app.name or _UNNAMED,
        app.playback,
        names.streams,
        names.tables,
        names.windows,
        names.aggregations,
        elements,
        names.aggregated,
        names.scripts,
        clock,
    )


class _Elements:
    """Goes through queries and partitions, giving them their names and numbers."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._query_names: set[str] = set()
        self._count = 0
        self._partitions = 0

    def check(self, elements: Sequence[ast.ExecutionElement]) -> tuple[CheckedQuery | CheckedPartition, ...]:
        checked: list[CheckedQuery | CheckedPartition | None] = []
        for element in elements:
            if isinstance(element, ast.Query):
                checked.append(self._query(element, self._names, None))
            else:
                checked.append(self._partition(element))
        return tuple(element for element in checked if element is not None)

    def _query(self, query: ast.Query, names: Names, partition: int | None) -> CheckedQuery | None:
        for repeated in ast.find_annotations(query.annotations, "info")[1:]:
            names.refuse(DuplicateDefinitionError, f"'@{repeated.name}' is written twice", repeated.span)
        # Named queries are counted too: Siddhi's query_<n> is the place among all
        self._count += 1
        name = query.name or f"query_{self._count}"
        if name in self._query_names:
            hint = "Names of queries, also of those in partitions, are unique in an app."
            names.refuse(AppValidationError, f"There is another query '{name}'", query.span, hint)
        self._query_names.add(name)
        return check_query(names, query, name, partition)

    def _partition(self, partition: ast.Partition) -> CheckedPartition:
        check_partition_annotations(self._names, partition)
        keys = self._keys(partition)
        inner: dict[str, Schema] = {}
        # A copy that shares what is defined and what is wrong; inner streams, and which are unknown, are its own
        inside = dataclasses.replace(self._names, inner=inner, unknown=set(self._names.unknown))
        queries = [self._query(query, inside, self._partitions) for query in partition.queries]
        # Inner streams end with the partition; another one may define the same names
        self._names.unknown |= {name for name in inside.unknown if not name.startswith("#")}
        self._partitions += 1
        written = {id: self._names.written_out(key) for id, key in keys.items()}
        return CheckedPartition(partition, written, inner, tuple(query for query in queries if query is not None))

    def _keys(self, partition: ast.Partition) -> dict[str, ast.PartitionKey]:
        keys: dict[str, ast.PartitionKey] = {}
        for key in partition.keys:
            stream = key.stream.id
            if stream in keys:
                self._names.refuse(AppValidationError, f"'{stream}' has two partition keys", key.span)
            keys[stream] = key
            self._check_key(key)
        return keys

    def _check_key(self, key: ast.PartitionKey) -> None:
        names, stream = self._names, key.stream.id
        schema = names.streams.get(stream) or names.windows.get(stream)
        if schema is None:
            if stream not in names.unknown:
                hint = suggestion(stream, (*names.streams, *names.windows))
                names.refuse(UndefinedNameError, f"There is no stream or window '{stream}'", key.stream.span, hint)
            return
        scope = Scope((AttributeSource(stream, stream, schema),), tables=names.all_tables())
        if key.value is not None:
            names.type_of(key.value, scope)
            names.no_aggregator(key.value, "partition keys")
        for condition in key.ranges:
            names.condition(condition.condition, scope, "A range of a partition")
            names.no_aggregator(condition.condition, "partition keys")


def _together(errors: Sequence[SiddhiAppError], text: str) -> SiddhiAppError:
    """Return one error for all that was found, in the order of the text."""
    for error in errors:
        error.text = error.text or text or None
    # They were found in the order of the checks: definitions, then queries
    ordered = sorted(errors, key=lambda error: error.span.start if error.span else -1)
    if len(ordered) == 1:
        return ordered[0]
    least = "at least " if len(ordered) >= MOST_ERRORS else ""
    return SiddhiAppError.of_all(f"The app has {least}{len(ordered)} errors", ordered)
