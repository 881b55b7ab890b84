"""The users' sinks: which group writes them, and those that are topics of the embedded log.

Every group that fills a stream with a ``@sink`` publishes it itself, each instance what it made. A stream that only
outsiders feed is put out by the first group that reads it.
"""

from __future__ import annotations

from spdist.errors import Span
from spdist.language.ast import Annotation, find_annotations
from spdist.planning.elements import Problems
from spdist.planning.forming import Definitions
from spdist.planning.receivers import Received
from spdist.planning.topology import GroupOutput, Publishing, Strategy, Topic
from spdist.planning.wiring import Stream, Wiring

__all__ = ["EMBEDDED", "add_sinks", "sink_hosts"]

#: The type of sinks that are topics of the embedded log.
EMBEDDED = "embedded"


def sink_hosts(stream: Stream, received: Received, *, embedded: bool = False) -> tuple[str, ...]:
    """Return the names of the groups that put out what comes to `stream`, each event once.

    Those that make it, or the one that reads the source. If one of them hears all others as well, that one alone; not
    for a topic of the embedded log (`embedded`), where a group passes over what others have published.
    """
    own = received.reading_sources.get(stream.name, ())
    makers = [group.name for group in stream.producers]
    # Groups whose instances together see each event once
    whole = [g.name for g, s in stream.readers if g.parallel == 1 or s.strategy is not Strategy.ALL]
    making = set(makers)
    hearing = [name for name in whole if name in making]
    if hearing and not embedded:
        return (hearing[0],)
    return tuple(dict.fromkeys([*makers, *own])) or tuple(whole[:1])


def add_sinks(received: Received, wiring: Wiring, problems: Problems) -> None:
    """Add the users' sinks to the outputs of the groups."""
    definitions = received.definitions
    for stream in wiring.streams.values():
        definition = definitions.get(stream.name)
        sinks = find_annotations(definition.annotations if definition else (), "sink")
        if not sinks:
            continue
        hosts = sink_hosts(stream, received, embedded=any(sink.get("type") == EMBEDDED for sink in sinks))
        topics = [topic for sink in sinks if (topic := _topic(stream, sink, hosts, problems))]
        publishing = [Publishing(Strategy.ALL, 1, topic, 1) for topic in dict.fromkeys(topics)]
        for one in publishing:
            _own_topic(stream, one.topic, wiring, definitions, problems)
        if not hosts and stream.readers:
            problems.add(
                f"every group that reads stream '{stream.name}' has several instances that see all of it: each would "
                "publish to its @sink",
                sinks[0].span,
                "copy the stream in a query with parallel='1', and put the @sink on the copy",
            )
        for host in hosts:
            known = wiring.outputs[host].pop(stream.name, GroupOutput(stream.name))
            # a sink on the topic that carries the stream anyway adds nothing
            more = tuple(one for one in publishing if one.topic not in {p.topic for p in known.publishing})
            output = GroupOutput(stream.name, known.publishing + more, True, known.subscribers)
            wiring.outputs[host][stream.name] = output


def _topic(stream: Stream, sink: Annotation, hosts: tuple[str, ...], problems: Problems) -> str | None:
    """Return the topic of the embedded log that a sink names."""
    kind, topic, span = sink.get("type"), sink.get("topic"), sink.span
    if kind != EMBEDDED:
        return None
    if not topic:
        problems.add(f"the @sink of stream '{stream.name}' names no topic", span, "write topic='MyApp.Results'")
    elif not hosts:
        problems.add(
            f"stream '{stream.name}' has a @sink, but no query inserts into it",
            span,
            "insert into it, or put the @sink on a stream that a query fills",
        )
    else:
        return topic
    return None


def _own_topic(stream: Stream, topic: str, wiring: Wiring, definitions: Definitions, problems: Problems) -> None:
    owner = wiring.owners.setdefault(topic, stream.name)
    if owner != stream.name:
        problems.add(
            f"the @sink of stream '{stream.name}' publishes to '{topic}', the topic of stream '{owner}'",
            _span(definitions, stream.name),
            "give the sink a topic of its own",
        )
    wiring.topics.setdefault(topic, Topic(topic, 1))


def _span(definitions: Definitions, name: str) -> Span | None:
    definition = definitions.get(name)
    return definition.span if definition else None
