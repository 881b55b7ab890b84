"""Whether the Kafka topics of users are there that an app in real time reads and writes: Spark does not say which."""

from __future__ import annotations

from spdist.config.allowed import Allowed
from spdist.engine.island.messages import kafka_endpoints
from spdist.errors import TransportUnavailableError
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import Assignment
from spdist.runtime.kafka_inputs import extents_of, user_sources
from spdist.transports.options import options_of

__all__ = ["check_user_topics"]


def check_user_topics(assignment: Assignment, scripts: bool = False, allowed: Allowed | None = None) -> None:
    """See that the Kafka topics of an instance's sources and sinks are there.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    scripts : bool
        Whether functions that apps define in Python are known.
    allowed : Allowed, optional
        The secrets and files that the app may refer to; nothing by default.

    Raises
    ------
    TransportError
        A topic or partition that a source reads is not there; says which and what to do.
    TransportUnavailableError
        The brokers do not answer, or there is no topic that a sink writes, and the brokers make none by themselves.
    """
    # Kafka's client in Python takes its time to load: only where it is needed.
    from spdist.connectors.kafka.link import KafkaAccess, KafkaTopics

    for source in user_sources(assignment, scripts, allowed):
        extents_of(source.reads)
    for stream, sink in kafka_endpoints(CompiledInstance.of(assignment, scripts).checked, "sink"):
        options = options_of(sink, stream, allowed)
        topic, access = options.needed("topic", "orders"), KafkaAccess.of(options)
        topics = KafkaTopics(access, creates=True)
        try:
            there = topics.extents((topic,))[topic]
        finally:
            topics.close()
        if not there:
            raise TransportUnavailableError(
                f"{options.what}: there is no topic '{topic}' at {', '.join(access.servers)}",
                hint="create it; the group goes on then",
            )
