"""What of an app keeps state, which text each part of it depends on, and what of it another version of the app keeps.

An *element* is what keeps its state as a whole: a query, a partition with all its queries, a table, a named window, an
aggregation, a trigger, a sink, a source. Its fingerprint is made of its own canonical text and of every definition that
gives that text its meaning: the attributes of the streams it reads and writes, the tables, windows and aggregations it
looks into, the functions of the app it calls, and whether only events move the clock. Two elements with one fingerprint
go on from one another's state. Not part of it is what only brings events: who writes to a stream or a table, with what
state, from which source.

Elements of two versions of an app are found in one another by id. A query with ``@info(name='…')`` is known by that
name, a partition by the first such query in it, and a definition by its own name, wherever they stand. What has no name
is known by its text, so that a query put in front of it changes nothing; of equal texts the first belongs to the first.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.format import format_node
from spdist.language.types import Schema
from spdist.planning.receivers import without
from spdist.planning.updates.change import ElementChange, ElementKind, Outcome

__all__ = [
    "AppElement",
    "app_elements",
    "compare_elements",
    "compare_fingerprints",
    "fingerprints",
]

_N = TypeVar("_N", ast.Query, ast.Partition)

#: Annotations of queries and partitions that change neither what they compute nor what they keep.
_SILENT = ("info", "dist")
#: Annotations of tables that only make them faster.
_TUNING = ("index", "dist")
#: Kinds that keep no events: they are not told of.
_ENDPOINTS = ("sink", "source")
_HASH_LENGTH = 16
#: How much of its text stands for what has no name.
_LABEL_LENGTH = 60


@dataclass(frozen=True, slots=True)
class AppElement:
    """Something in an app that keeps state.

    Parameters
    ----------
    kind : str
        ``query``, ``partition``, ``table``, ``window``, ``aggregation``, ``trigger``, ``sink`` or ``source``.
    key : str
        What finds it in this app: the name of a query (`CheckedQuery.name`) or definition; of the others the position
        among all of their kind, from 0.
    id : str
        What finds it in another version of the app.
    label : str
        For people.
    parts : tuple of (str, str)
        What its meaning depends on: what each part is, for people, and its text. Its own text comes first.
    """

    kind: ElementKind
    key: str
    id: str
    label: str
    parts: tuple[tuple[str, str], ...]

    @property
    def fingerprint(self) -> str:
        """A short text that only elements of one meaning share."""
        # NUL between the parts, so that none runs into the next one
        return _hashed("\0".join(f"{what}\0{text}" for what, text in self.parts))

    @property
    def is_outside(self) -> bool:
        """Whether its rows are in a database (``@Store``)."""
        return any(what == _STORE and text for what, text in self.parts)


_OWN, _STORE, _CLOCK = "its text", "its store", "@app:playback"
#: The type of ``@store`` that keeps an aggregation in the state of its app.
_IN_MEMORY = "in-memory"


def app_elements(checked: CheckedApp) -> tuple[AppElement, ...]:
    """Return everything in an app that keeps state: definitions, queries and partitions, sinks and sources.

    Parameters
    ----------
    checked : CheckedApp
        The app.

    Returns
    -------
    tuple of AppElement
        Those of a kind in the order of the text; no two have one id.
    """
    return _DependencyReader(checked).elements()


def fingerprints(checked: CheckedApp) -> dict[str, str]:
    """Return the fingerprint of each element of an app by its id."""
    return {element.id: element.fingerprint for element in app_elements(checked)}


def compare_elements(old: CheckedApp | None, new: CheckedApp | None) -> tuple[ElementChange, ...]:
    """Return what becomes of the elements of `old` when `new` goes on in its place.

    Sinks and sources, which keep no events, are left out.

    Parameters
    ----------
    old, new : CheckedApp or None
        Two versions of an app, or of a group of it; None where there is none.

    Returns
    -------
    tuple of ElementChange
        Those of `new` in the order of `app_elements`, then those that go.
    """
    before, after = ({} if app is None else {one.id: one for one in app_elements(app)} for app in (old, new))
    changes = [_change(before.get(id), element) for id, element in after.items()]
    changes += [ElementChange(e.id, e.kind, e.label, "removed") for id, e in before.items() if id not in after]
    return tuple(change for change in changes if change.kind not in _ENDPOINTS)


def compare_fingerprints(stored: Mapping[str, str], new: CheckedApp) -> tuple[ElementChange, ...]:
    """Return what becomes of stored elements, given their fingerprints by id, when `new` goes on; sinks and all."""
    elements = {element.id: element for element in app_elements(new)}
    changes = [
        ElementChange(
            id,
            element.kind,
            element.label,
            "new" if id not in stored else "keeps" if stored[id] == element.fingerprint else "starts empty",
        )
        for id, element in elements.items()
    ]
    gone = (id for id in stored if id not in elements)
    return (*changes, *(ElementChange(id, _kind(id), id, "removed") for id in gone))


def _kind(id: str) -> ElementKind:
    # Ids begin with their kind, and no kind is the beginning of another
    return next(kind for kind in get_args(ElementKind) if id.startswith(kind))


def _change(old: AppElement | None, new: AppElement) -> ElementChange:
    if old is None:
        outcome: Outcome = "new"
        reason = ""
    elif old.fingerprint == new.fingerprint:
        outcome, reason = "keeps", ""
    else:
        outcome, reason = "starts empty", _difference(old, new)
    if new.is_outside:
        reason = "; ".join(filter(None, (reason, "what its store holds is there")))
    return ElementChange(new.id, new.kind, new.label, outcome, reason)


def _difference(old: AppElement, new: AppElement) -> str:
    """Say what an element depends on that has changed; the most telling comes first, and is enough."""
    before, after = dict(old.parts), dict(new.parts)
    if before[_OWN] != after[_OWN]:
        return f"{_OWN} changed"
    changed = [what for what in after if what in before and before[what] != after[what]]
    return f"{changed[0]} changed" if changed else "what it reads changed"


class _DependencyReader:
    """Reads what the elements of one app depend on."""

    def __init__(self, checked: CheckedApp) -> None:
        self._checked = checked
        self._definitions = {definition.name: definition for definition in checked.app.definitions}
        self._clock = (_CLOCK, str(checked.playback))

    def elements(self) -> tuple[AppElement, ...]:
        """Return them all."""
        found = [*self._defined(), *self._executed(), *self._endpoints()]
        occurrences: Counter[str] = Counter()
        distinct = []
        for element in found:
            # The first of equal ones keeps the plain id, so that adding another one behind it changes nothing
            number = occurrences[element.id]
            occurrences[element.id] += 1
            distinct.append(element if number == 0 else replace(element, id=f"{element.id} ({number + 1})"))
        return tuple(distinct)

    # ------------------------------------------------------------------------------------------------- definitions
    def _defined(self) -> Iterator[AppElement]:
        for definition in self._checked.app.definitions:
            match definition:
                case ast.TableDefinition():
                    yield self._definition("table", definition, self._table(definition))
                case ast.WindowDefinition():
                    yield self._definition("window", definition, self._window(definition))
                case ast.AggregationDefinition():
                    yield self._definition("aggregation", definition, self._aggregation(definition))
                case ast.TriggerDefinition():
                    yield self._definition("trigger", definition, ((_OWN, _bare(definition)),))

    def _definition(
        self, kind: ElementKind, definition: ast.Definition, parts: Iterable[tuple[str, str]]
    ) -> AppElement:
        name = definition.name
        return AppElement(kind, name, f"{kind} {name}", f"{kind} '{name}'", (*parts, self._clock))

    def _table(self, table: ast.TableDefinition) -> Iterator[tuple[str, str]]:
        yield _OWN, _bare(table, *_TUNING, "store")
        yield _STORE, _store(table)

    def _window(self, window: ast.WindowDefinition) -> Iterator[tuple[str, str]]:
        yield _OWN, _bare(window)
        # A window of batches keeps the last one only for those who look into it.
        yield "whether a join looks into it", str(window.name in self._checked.joined)
        yield from self._functions(window)

    def _aggregation(self, aggregation: ast.AggregationDefinition) -> Iterator[tuple[str, str]]:
        yield _OWN, _bare(aggregation, "store", "dist")
        yield _STORE, _store(aggregation)
        yield from self._used(aggregation)

    # ------------------------------------------------------------------------------------------ queries, partitions
    def _executed(self) -> Iterator[AppElement]:
        partitions = 0
        for element in self._checked.elements:
            if isinstance(element, CheckedPartition):
                yield self._partition(element, partitions)
                partitions += 1
            else:
                yield self._query(element)

    def _query(self, checked: CheckedQuery) -> AppElement:
        query, text = checked.query, format_node(_silent(checked.query))
        parts = ((_OWN, text), *self._used(query), self._clock)
        if query.name is not None:
            return AppElement("query", checked.name, f"query {query.name}", f"query '{query.name}'", parts)
        return AppElement("query", checked.name, f"query#{_hashed(text)}", f"query `{_begun(text)}`", parts)

    def _partition(self, checked: CheckedPartition, position: int) -> AppElement:
        partition = checked.partition
        bare = replace(_silent(partition), queries=tuple(map(_silent, partition.queries)))
        text = format_node(bare)
        parts = ((_OWN, text), *self._used(partition), self._clock)
        named = next((query.name for query in partition.queries if query.name is not None), None)
        if named is not None:
            label = f"partition with query '{named}'"
            return AppElement("partition", str(position), f"partition {named}", label, parts)
        return AppElement(
            "partition", str(position), f"partition#{_hashed(text)}", f"partition `{_begun(text)}`", parts
        )

    # --------------------------------------------------------------------------------------------- sinks and sources
    def _endpoints(self) -> Iterator[AppElement]:
        numbers: Counter[str] = Counter()
        for definition in self._checked.app.definitions:
            if not isinstance(definition, ast.StreamDefinition):
                continue
            handlers = ast.find_annotations(definition.annotations, "OnError")
            schema = (f"stream '{definition.name}'", _schema(definition.schema))
            failing = ("@OnError", "\n".join(format_node(handler) for handler in handlers))
            kinds: tuple[ElementKind, ...] = ("sink", "source")
            for kind in kinds:
                for annotation in ast.find_annotations(definition.annotations, kind):
                    text = format_node(replace(annotation, annotations=without(annotation.annotations, "dist")))
                    parts = ((_OWN, text), schema, failing)
                    label = f"{kind} of stream '{definition.name}'"
                    id = f"{kind} {definition.name}#{_hashed(text)}"
                    yield AppElement(kind, str(numbers[kind]), id, label, parts)
                    numbers[kind] += 1

    # ------------------------------------------------------------------------------------------ what they depend on
    def _used(self, node: ast.Node) -> Iterator[tuple[str, str]]:
        """Yield the definitions that give `node` its meaning, each once, by name."""
        read, written = set(), set()
        for part in node.walk():
            match part:
                case ast.SingleInput() | ast.PartitionKey():
                    read.add(part.stream.id)
                case ast.In():
                    read.add(part.table)
                case ast.Output(target=ast.StreamRef() as target):
                    written.add(target.id)
        for id in sorted(read | written):
            yield from self._meaning(id, looked_into=id in read)
        yield from self._functions(node)

    def _meaning(self, id: str, looked_into: bool) -> Iterator[tuple[str, str]]:
        checked, definition = self._checked, self._definitions.get(id)
        schemas = {**checked.streams, **checked.windows, **checked.tables, **checked.aggregations}
        if looked_into and isinstance(definition, ast.WindowDefinition):
            yield f"window '{id}'", _bare(definition)
        elif looked_into and isinstance(definition, ast.TableDefinition):
            # Where rows are kept changes nothing of what is found in them
            yield f"table '{id}'", _bare(definition, *_TUNING, "store")
        elif looked_into and isinstance(definition, ast.AggregationDefinition):
            yield f"aggregation '{id}'", _bare(definition, "store", "purge", "dist")
        elif id in schemas:  # not an inner stream of a partition, which is part of its text
            kind = "stream" if id in checked.streams else "window" if id in checked.windows else "table"
            yield f"{kind} '{id}'", _schema(schemas[id])

    def _functions(self, node: ast.Node) -> Iterator[tuple[str, str]]:
        called = {part.id for part in node.walk() if isinstance(part, ast.FunctionCall)}
        for id in sorted(called & self._checked.scripts.keys()):
            yield f"function '{id}'", _bare(self._definitions[id])


def _silent(node: _N) -> _N:
    return replace(node, annotations=without(node.annotations, *_SILENT))


def _bare(definition: ast.Definition, *names: str) -> str:
    """Return the text of a definition without the annotations that are called so, in lower case."""
    return format_node(replace(definition, annotations=without(definition.annotations, *names)))


def _store(definition: ast.Definition) -> str:
    """Return where the rows of a definition are; empty where that is the state of its app."""
    stores = ast.find_annotations(definition.annotations, "store")
    return "\n".join(format_node(one) for one in stores if (one.get("type") or "").lower() != _IN_MEMORY)


def _schema(schema: Schema) -> str:
    return ", ".join(f"{name} {kind.value}" for name, kind in schema)


def _begun(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LABEL_LENGTH else f"{line[: _LABEL_LENGTH - 1]}…"


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
