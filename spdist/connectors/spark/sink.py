"""``@sink(type='spark')``: events on their way to the one who writes them through Spark.

Tasks of Spark cannot write through Spark themselves. So they append what is to be written to an embedded topic, and the
process with the session writes it from there, batch by batch (`spdist.connectors.spark.writer`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from spdist.connectors.sending import SinkContext
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.transports.base import Record, Transport
from spdist.transports.delivery import EVENT_BITS, Delivery
from spdist.transports.payloads.payload import Payload

__all__ = ["SparkSink", "open_sink", "spark_topic"]


class SparkSink:
    """Appends events to the topic of their sink.

    Parameters
    ----------
    group : str
        The group whose sink it is: all its instances append to one topic.
    transport : Transport
        Of the embedded topics.
    schemas : mapping of str to Schema
        Attributes of the app's streams.

    State
    -----
    The name of each topic that is there.
    """

    def __init__(self, group: str, transport: Transport, schemas: Mapping[str, Schema]) -> None:
        self._group = group
        self._transport = transport
        self._schemas = schemas
        self._topics: dict[str, str] = {}

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Append the events; they cannot be lost when this returns."""
        records = []
        for one in deliveries:
            topic = self._topics.get(one.stream)
            if topic is None:
                topic = spark_topic(self._group, one.stream, one.options)
                self._transport.ensure(topic, 1)
                self._topics[one.stream] = topic
            # Numbers of events leave room between deliveries, however payloads are cut.
            events, first = Events.of(one.payload), one.seq << EVENT_BITS
            for count, value in Payload(self._schemas[one.stream]).encode_within(events):
                records.append(Record(topic, 0, value, count, one.producer, first))
                first += count
        if records:
            self._transport.append(records)

    def close(self) -> None:
        """Do nothing: the transport belongs to others."""


def spark_topic(group: str, stream: str, options: Mapping[str, str]) -> str:
    """Return the embedded topic with what is to be written for a sink.

    Parameters
    ----------
    group : str
        The group that has the sink.
    stream : str
        The stream.
    options : mapping of str to str
        Those of the sink, keys in lower case. Where they name another format or path it is another sink.
    """
    place = [options.get("format", "").lower(), options.get("path", "")]
    if not place[1]:
        # As `SparkConnector.identity`: without a path the options say which place it is.
        place += [f"{key}={options[key]}" for key in sorted(options) if key.startswith("option.")]
    return f"spark.{group}.{stream}.{hashlib.sha256(json.dumps(place).encode()).hexdigest()[:12]}"


def open_sink(_options: Mapping[str, str], context: SinkContext) -> SparkSink:
    """Return the sink of a destination."""
    return SparkSink(context.group, context.transport, context.schemas)
