"""Topics that a user's own sources read: which an app has, and what makes records of their messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from spdist.engine.island.intake import Mapped
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.mapping.base import TRANSPORT_PREFIX, MapSetting, mapped_attributes
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import Transport
from spdist.transports.options import options_of
from spdist.transports.rejects import Rejects

__all__ = ["kafka_endpoints", "kafka_sources", "map_setting", "mapped_topics", "wants_keys"]


def kafka_sources(checked: CheckedApp) -> Mapping[str, tuple[ast.Annotation, ...]]:
    """Return the ``@source(type='kafka')`` of each stream that has some, in the order of the text."""
    found: dict[str, list[ast.Annotation]] = {}
    for stream, source in kafka_endpoints(checked, "source"):
        found.setdefault(stream, []).append(source)
    return {stream: tuple(sources) for stream, sources in found.items()}


def kafka_endpoints(checked: CheckedApp, kind: str) -> Iterator[tuple[str, ast.Annotation]]:
    """Yield each ``@source`` or ``@sink`` of type ``kafka`` with its stream, in the order of the text.

    `kind` is ``source`` or ``sink``.
    """
    for one in checked.app.definitions:
        if isinstance(one, ast.StreamDefinition):
            for annotation in ast.find_annotations(one.annotations, kind):
                if annotation.get("type") == "kafka":
                    yield one.name, annotation


def map_setting(checked: CheckedApp, stream: str, source: ast.Annotation) -> MapSetting:
    """Return the mapping of a source."""
    return MapSetting(stream, checked.streams[stream], next(iter(source.nested("map")), None))


def wants_keys(setting: MapSetting) -> bool:
    """Tell whether a mapping looks at the keys of messages."""
    return f"{TRANSPORT_PREFIX}key" in (mapped_attributes(setting) or ())


def mapped_topics(
    assignments: Iterable[Assignment], names: Mapping[str, str], transport: Transport, scripts: bool = False
) -> dict[str, Mapped]:
    """Return what reads the users' topics of some instances, by our names of the topics.

    Parameters
    ----------
    assignments : iterable of Assignment
        The instances.
    names : mapping of str to str
        From our names of topics to Kafka's.
    transport : Transport
        Of the embedded topics, for what cannot be read.
    scripts : bool
        Whether functions that apps define in Python are known.
    """
    found: dict[str, Mapped] = {}
    for assignment in assignments:
        users = [one for one in assignment.inputs if one.into and one.topic not in found]
        if users:
            instance = CompiledInstance.of(assignment, scripts)
            for one in users:
                found[one.topic] = _mapped(instance, one, names[one.topic], transport)
    return found


def _mapped(instance: CompiledInstance, assigned: AssignedInput, name: str, transport: Transport) -> Mapped:
    assignment, checked, stream = instance.assignment, instance.checked, assigned.stream
    source = kafka_sources(checked)[stream][assigned.number]
    rejects = Rejects(transport, assignment.app, stream, options_of(source, stream), checked.streams.get(f"!{stream}"))
    return Mapped(assigned.topic, name, map_setting(checked, stream, source), rejects, live=not assignment.playback)
