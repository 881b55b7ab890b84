"""The types of sources, sinks, mappings and strategies that Siddhi and its extensions have, by name.

Those of sources and sinks that are connected are in the registry of connectors; the others are known, and run
unconnected in the local engine.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MAPPINGS", "SINKS", "SOURCES", "STRATEGIES"]

_BOTH: Final = (
    "embedded",
    "googlepubsub",
    "grpc",
    "http-request",
    "http-service",
    "jms",
    "kafkaMultiDC",
    "mqtt",
    "prometheus",
    "rabbitmq",
    "sqs",
    "tcp",
)
#: Types of ``@source`` that no connector here reads.
SOURCES: Final = (
    *_BOTH,
    "cdc",
    "email",
    "fileeventlistener",
    "grpc-call-response",
    "grpc-service",
    "http-call-response",
    "http-response",
    "imap",
    "kafka-replay-response",
    "pop3",
    "s3",
    "sse",
    "twitter",
    "websocket",
    "websubhub",
    "wso2event",
)
#: Types of ``@sink`` that no connector here sends.
SINKS: Final = (
    *_BOTH,
    "elasticsearch",
    "email",
    "grpc-call",
    "grpc-service-response",
    "http-call",
    "http-response",
    "http-service-response",
    "kafka-replay-request",
    "s3",
    "slack",
    "sns",
    "sse-server",
    "websocket",
    "websocket-server",
    "wso2event",
)
#: Types of ``@map``.
MAPPINGS: Final = ("avro", "binary", "csv", "json", "keyvalue", "passThrough", "protobuf", "text", "wso2event", "xml")
#: Strategies of ``@distribution``.
STRATEGIES: Final = ("broadcast", "partitioned", "roundRobin")
