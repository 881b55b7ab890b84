"""Which apps run as one Spark query of Columns from Kafka to Kafka, and so in Spark's real-time mode. Pure.

Such an app only filters, computes and unites; it reads and writes Kafka topics as JSON in Siddhi's default form. What
else it says is either the same to Spark or an `Obstacle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spdist.errors import AppValidationError
from spdist.java.numbers import whole_number
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp, CheckedQuery
from spdist.language.types import Schema, Type
from spdist.planning.columns.native import Obstacle
from spdist.planning.columns.stateless import query_obstacle

__all__ = ["JsonForm", "KafkaOutput", "KafkaSourceInput", "RealtimePlan", "realtime_plan"]

_SOURCE_KEYS = {
    *("type", "bootstrap.servers", "topic.list", "group.id", "threading.option", "partition.no.list"),
    "optional.configuration",
}
_SINK_KEYS = {"type", "bootstrap.servers", "topic", "key", "partition.no", "optional.configuration"}
_MAP_KEYS = {"type", "fail.on.missing.attribute", "event.grouping.enabled"}
_NO = "false"
_STARTING = "kafka.auto.offset.reset"
#: Settings of Kafka's clients that Spark takes from nobody.
_SPARKS_OWN = {
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "enable.auto.commit"),
    *("interceptor.classes", "auto.offset.reset"),
}


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A JSON mapping in Siddhi's default form.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    fails_on_missing : bool
        Whether an event without one of its attributes is left out.
    groups : bool
        Whether the events of a chunk are one array.
    """

    schema: Schema
    fails_on_missing: bool = True
    groups: bool = True


@dataclass(frozen=True, slots=True)
class KafkaSourceInput:
    """A ``@source(type='kafka')``: the stream it feeds, its topics, and of them the partitions, or None for all."""

    stream: str
    topics: tuple[str, ...]
    partitions: tuple[int, ...] | None
    form: JsonForm


@dataclass(frozen=True, slots=True)
class KafkaOutput:
    """A ``@sink(type='kafka')``: the stream it writes, its topic, and the key or partition of its records."""

    stream: str
    topic: str
    key: str | None
    partition: int | None
    form: JsonForm


@dataclass(frozen=True, slots=True)
class RealtimePlan:
    """An app as one query of Columns.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    catalog : Catalog
        The signatures of functions.
    inputs, outputs : tuple
        Its sources and sinks, in the order of the text.
    readers : dict of str to tuple of CheckedQuery
        Which queries read a stream, in the order of the text.
    source_options, sink_options : dict of str to str
        Connection settings of Spark's Kafka source and sink.
    starting : str
        Where reading begins the first time: ``earliest`` or ``latest``.
    """

    checked: CheckedApp
    catalog: Catalog
    inputs: tuple[KafkaSourceInput, ...]
    outputs: tuple[KafkaOutput, ...]
    readers: dict[str, tuple[CheckedQuery, ...]]
    source_options: dict[str, str]
    sink_options: dict[str, str]
    starting: str = "earliest"


class _ObstacleFound(Exception):
    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(str(obstacle))
        self.obstacle = obstacle


def realtime_plan(checked: CheckedApp, catalog: Catalog) -> RealtimePlan | Obstacle:
    """Return how an app runs as one query of Columns between Kafka topics, or the first thing that is against it.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    catalog : Catalog
        The signatures of functions.

    Raises
    ------
    AppValidationError
        It names a partition that can be none.
    """
    try:
        return _planned(checked, catalog.with_functions(checked.scripts))
    except _ObstacleFound as found:
        return found.obstacle


def _planned(checked: CheckedApp, catalog: Catalog) -> RealtimePlan:
    _definitions(checked)
    for partition in checked.partitions:
        raise _ObstacleFound(
            Obstacle("the partition", "has an instance of its queries for each key", partition.partition.span)
        )
    readers: dict[str, list[CheckedQuery]] = {}
    for query in checked.queries:
        if ast.find_annotations(query.query.annotations, "dist"):
            raise _ObstacleFound(
                Obstacle(f"query '{query.name}'", "belongs to a group of a distributed app", query.query.span)
            )
        against = query_obstacle(query, checked, catalog)
        if against is not None:
            raise _ObstacleFound(against)
        source = query.query.input
        assert isinstance(source, ast.SingleInput)
        readers.setdefault(source.stream.id, []).append(query)
    _no_loops(readers)
    inputs, incoming = _all_inputs(checked)
    outputs, outgoing = _all_outputs(checked)
    fed = {one.stream for one in inputs} | {query.target for query in checked.queries}
    for stream in readers:
        if stream not in fed:
            raise _ObstacleFound(Obstacle(f"the stream '{stream}'", "has no @source of type 'kafka'"))
    if not inputs or not outputs:
        raise _ObstacleFound(Obstacle("the app", f"has no @{'sink' if inputs else 'source'} of type 'kafka'"))
    # Spark takes it as an option of its own, startingOffsets, and refuses it among Kafka's
    starting = incoming.pop(_STARTING, "earliest")
    for option in (*incoming, *outgoing):
        if option.removeprefix("kafka.") in _SPARKS_OWN:
            raise _ObstacleFound(Obstacle(f"the option '{option.removeprefix('kafka.')}'", "is set by Spark"))
    reading = {stream: tuple(queries) for stream, queries in readers.items()}
    return RealtimePlan(checked, catalog, inputs, outputs, reading, incoming, outgoing, starting)


def _definitions(checked: CheckedApp) -> None:
    for definition in checked.app.definitions:
        what = type(definition).__name__.removesuffix("Definition").lower()
        if isinstance(definition, ast.FunctionDefinition):
            continue
        if not isinstance(definition, ast.StreamDefinition):
            raise _ObstacleFound(Obstacle(f"the {what} '{definition.name}'", "is kept by the engine", definition.span))
        for annotation in ast.find_annotations(definition.annotations, "OnError"):
            if (annotation.get("action") or "LOG").upper() != "LOG":
                raise _ObstacleFound(Obstacle("@OnError", "keeps or sends on what failed", annotation.span))


def _no_loops(readers: Mapping[str, Sequence[CheckedQuery]]) -> None:
    """Refuse a stream that comes back to itself; each is followed once, without recursion, however long the way."""
    done: set[str] = set()
    for start in readers:
        path = {start: iter(readers[start])} if start not in done else {}
        while path:
            stream, queries = next(reversed(path.items()))
            following = next((query.target for query in queries if query.target not in done), None)
            if following is None:
                del path[stream]
                done.add(stream)
            elif following in path:
                raise _ObstacleFound(Obstacle(f"the stream '{following}'", "comes back to itself"))
            else:
                path[following] = iter(readers.get(following, ()))


# --- sources and sinks -------------------------------------------------------------------------------------------


def _annotations(checked: CheckedApp, name: str) -> Iterator[tuple[ast.StreamDefinition, ast.Annotation]]:
    for definition in checked.app.definitions:
        if isinstance(definition, ast.StreamDefinition):
            for annotation in ast.find_annotations(definition.annotations, name):
                if annotation.get("type") != "kafka":
                    kind = f"@{name}(type='{annotation.get('type')}')"
                    raise _ObstacleFound(
                        Obstacle(kind, "is not Kafka, which real-time mode reads and writes", annotation.span)
                    )
                yield definition, annotation


def _all_inputs(checked: CheckedApp) -> tuple[tuple[KafkaSourceInput, ...], dict[str, str]]:
    found, options = [], []
    for definition, annotation in _annotations(checked, "source"):
        _only(annotation, _SOURCE_KEYS)
        if (annotation.get("on.error") or "LOG").upper() != "LOG":
            raise _ObstacleFound(Obstacle("on.error", "keeps what could not be read", annotation.span))
        topics = _listed(annotation, "topic.list")
        key = "partition.no.list"
        partitions = tuple(_partition(text, key, definition, annotation) for text in _listed(annotation, key)) or None
        found.append(KafkaSourceInput(definition.name, topics, partitions, _form(definition, annotation)))
        options.append(_connection(annotation))
    # The one query has one reader: its options, and whether it is given topics or partitions, hold for all
    if len({frozenset(one.items()) for one in options}) > 1 or len({one.partitions is None for one in found}) > 1:
        raise _ObstacleFound(Obstacle("@source", "has other connection settings than the others"))
    return tuple(found), options[0] if options else {}


def _all_outputs(checked: CheckedApp) -> tuple[tuple[KafkaOutput, ...], dict[str, str]]:
    found, options = [], []
    for definition, annotation in _annotations(checked, "sink"):
        _only(annotation, _SINK_KEYS)
        if annotation.nested("distribution"):
            raise _ObstacleFound(Obstacle("@distribution", "sends in turn", annotation.span))
        topic, key, number = (annotation.get(name) for name in ("topic", "key", "partition.no"))
        if topic is None or any("{{" in text for text in (topic, key, number) if text is not None):
            raise _ObstacleFound(Obstacle("@sink", "has an option that differs from event to event", annotation.span))
        partition = _partition(number, "partition.no", definition, annotation) if number else None
        found.append(KafkaOutput(definition.name, topic, key, partition, _form(definition, annotation)))
        options.append(_connection(annotation))
    if len({frozenset(one.items()) for one in options}) > 1:
        raise _ObstacleFound(Obstacle("@sink", "has other connection settings than the others"))
    return tuple(found), options[0] if options else {}


def _only(annotation: ast.Annotation, known: set[str]) -> None:
    for element in annotation.elements:
        key = (element.key or "").lower()
        if key not in known and not (key.startswith("is.binary") and element.value.lower() == _NO):
            raise _ObstacleFound(Obstacle(f"the option '{element.key}'", "is the engine's matter", annotation.span))


def _listed(annotation: ast.Annotation, key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in (annotation.get(key) or "").split(",") if part.strip())


def _partition(text: str, key: str, definition: ast.StreamDefinition, annotation: ast.Annotation) -> int:
    number = whole_number(text, 0)
    if number is None:
        place = {(one.key or "").lower(): one.span for one in annotation.elements}[key]
        what = f"'{key}' of the @{annotation.name} of stream '{definition.name}'"
        raise AppValidationError(
            f"{what} has '{text}', which is no partition",
            span=place or annotation.span,
            hint="Partitions are whole numbers from 0 on.",
        )
    return number


def _connection(annotation: ast.Annotation) -> dict[str, str]:
    """Return the settings of Spark's connector: what Kafka's clients know, with ``kafka.`` in front."""
    options = {"kafka.bootstrap.servers": annotation.get("bootstrap.servers") or ""}
    for pair in (annotation.get("optional.configuration") or "").split(","):
        key, colon, value = pair.partition(":")
        if colon:
            options[f"kafka.{key.strip()}"] = value.strip()
    return options


def _form(definition: ast.StreamDefinition, annotation: ast.Annotation) -> JsonForm:
    mapping = next(iter(annotation.nested("map")), None)
    if mapping is None or mapping.get("type") != "json":
        raise _ObstacleFound(Obstacle(f"the mapping of '{definition.name}'", "is not json", annotation.span))
    for element in mapping.elements:
        if (element.key or "").lower() not in _MAP_KEYS:
            raise _ObstacleFound(
                Obstacle(f"the option '{element.key}' of @map", "is the mapper's matter", mapping.span)
            )
    if mapping.annotations:
        raise _ObstacleFound(Obstacle(f"@{mapping.annotations[0].name}", "is a form of the app's own", mapping.span))
    schema = definition.schema
    # In the default form a member `event` is the envelope around the attributes
    if Type.OBJECT in schema.types or "event" in schema.names:
        raise _ObstacleFound(Obstacle(f"the stream '{definition.name}'", "has an attribute that only the mapper reads"))

    def flag(key: str) -> bool:
        value = mapping.get(key)
        return value is None or value.strip().lower() == "true"

    return JsonForm(schema, flag("fail.on.missing.attribute"), flag("event.grouping.enabled"))
