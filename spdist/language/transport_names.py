"""The types of sources, sinks, mappings and strategies that Siddhi and its extensions have, by name.

Being known does not mean being connected: what is not built yet runs unconnected in the local engine.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DYNAMIC", "MAPPINGS", "NEEDED", "SECRETS", "SERVICES", "SINKS", "SOURCES", "STRATEGIES"]

_BOTH: Final = (
    "embedded",
    "file",
    "googlepubsub",
    "grpc",
    "http",
    "http-request",
    "http-service",
    "inMemory",
    "jms",
    "kafka",
    "kafkaMultiDC",
    "mqtt",
    "nats",
    "prometheus",
    "rabbitmq",
    "spark",
    "sqs",
    "tcp",
)
#: Types of ``@source``.
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
#: Types of ``@sink``.
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
    "log",
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

#: Options without which a type does nothing.
NEEDED: Final[dict[str, tuple[str, ...]]] = {"inMemory": ("topic",), "spark": ("format",)}
#: Options of a sink that may differ from event to event; those of types that are not named here are not known.
DYNAMIC: Final[dict[str, tuple[str, ...]]] = {"inMemory": ("topic",), "log": (), "spark": ()}
#: Types that offer nothing to be deployed beside the app, so that ``dep:`` options mean nothing.
SERVICES: Final[dict[str, bool]] = {"inMemory": False, "log": False, "spark": False}

#: Options that may hold ``${secret:NAME}``, of each type of source, sink or store that is connected. They are used for
#: logins, and are shown nowhere.
SECRETS: Final[dict[str, tuple[str, ...]]] = {
    "duckdb": (),
    "file": (),
    "http": (
        "basic.auth.password",
        "basic.auth.username",
        "body.consumer.key",
        "body.consumer.secret",
        "consumer.key",
        "consumer.secret",
        "headers",
        "https.keystore.key.password",
        "https.keystore.password",
        "oauth.password",
        "oauth.username",
        "proxy.password",
        "proxy.username",
        "refresh.token",
    ),
    "inMemory": (),
    "kafka": ("optional.configuration",),
    "log": (),
    "nats": ("password", "token", "username"),
    "rdbms": ("password", "username"),
    # Any option of Spark.
    "spark": ("option.*",),
}
