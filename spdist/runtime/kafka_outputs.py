"""Which Kafka sinks of users Spark itself writes for, and whether their brokers answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spdist.engine.kafka_sink import KAFKA, KafkaSink, written
from spdist.language import ast
from spdist.language.parser import parse
from spdist.planning.topology import Assignment
from spdist.transports.delivery import KEEPS_EVENTS, on_error_of
from spdist.transports.kafka_options import KafkaSettings
from spdist.transports.options import Options, written_in

__all__ = ["BrokerWatch", "kafka_sink"]

#: How long a batch may take before somebody asks why, s; and how often then.
_LONG_S, _AGAIN_S = 5.0, 2.0
_LOOK_S = 0.5


def kafka_sink(assignments: Sequence[Assignment]) -> KafkaSink | None:
    """Return the cluster that Spark writes to: of those that sinks name the one with most of them; None without any.

    Sinks whose events are needed where a message fails (``on.error`` STREAM or STORE), and those to other clusters,
    send by themselves.

    Raises
    ------
    SiddhiAppError
        An option of a sink is missing or wrong.
    """
    found: dict[str, list[tuple[KafkaSettings, tuple[str, str]]]] = {}
    for assignment in assignments:
        if KAFKA in assignment.text:
            for stream, options in _sinks(assignment.text):
                if on_error_of(options) not in KEEPS_EVENTS and not any("{{" in text for text in written(options)):
                    settings = _settings(stream, options)
                    cluster = repr((settings.bootstrap_servers, sorted(settings.properties.items())))
                    found.setdefault(cluster, []).append((settings, written(options)))
    if not found:
        return None
    most = max(found.values(), key=len)
    return KafkaSink(most[0][0], frozenset(text for _, text in most))


def _sinks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield stream and options of each Kafka sink of an app, for each of its destinations."""
    for definition in parse(text).definitions:
        for sink in ast.find_annotations(definition.annotations, "sink"):
            if sink.get("type") == KAFKA:
                places = [one for chosen in sink.nested("distribution") for one in chosen.nested("destination")]
                for place in places or [sink]:
                    yield definition.name, written_in(sink, place)


def _settings(stream: str, options: Mapping[str, str]) -> KafkaSettings:
    from spdist.transports.kafka_link import KafkaAccess

    access = KafkaAccess.of(Options(options, f"the @sink of stream '{stream}'"))
    return KafkaSettings(",".join(access.servers), access.properties)


class BrokerWatch:
    """Looks whether the brokers that Spark writes to answer, where a batch takes long.

    Parameters
    ----------
    sink : KafkaSink
        Where they are.

    State
    -----
    Since when the running batch runs, and what was found last.
    """

    def __init__(self, sink: KafkaSink) -> None:
        self._servers = sink.settings.bootstrap_servers
        self._batch: Any = None
        self._since = 0.0
        self._looked = 0.0
        self._found: str | None = None

    def why(self, query: Any, batches: int) -> str | None:
        """Return why the running batch of a query that has ended so many does not end, see `trouble`."""
        try:
            # Waiting for events it is no batch.
            running = query.status["isTriggerActive"] and query.status["isDataAvailable"]
        except Exception:  # the JVM is gone
            return None
        return self.trouble(batches if running else None)

    def trouble(self, batch: int | None) -> str | None:
        """Return why the batch after number `batch` has not ended; None where nothing is known to be wrong.

        Parameters
        ----------
        batch : int, optional
            The number of the last batch that has ended; None while none runs.
        """
        from spdist.transports.kafka_link import answering

        now = time.monotonic()
        if batch is None or batch != self._batch:
            self._batch, self._since, self._found = batch, now, None
        elif now - self._since > _LONG_S and now - self._looked > _AGAIN_S:
            away = not answering(self._servers, _LOOK_S)
            self._found = f"a @sink of type 'kafka' waits: Kafka at {self._servers} does not answer" if away else None
            self._looked = time.monotonic()
        return self._found
