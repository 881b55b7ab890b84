"""Annotations that mean something, with their elements, for completion; which of them fit is the checker's word."""

from __future__ import annotations

from typing import Final

from spdist.language.transport_names import MAPPINGS, SECRETS, SINKS, SOURCES, STRATEGIES

__all__ = ["ANNOTATIONS", "APP_ANNOTATIONS", "VALUES"]

#: ``@name``, and the elements that it usually has.
ANNOTATIONS: Final[dict[str, tuple[str, ...]]] = {
    "async": ("buffer.size", "workers", "batch.size.max"),
    "attributes": (),
    "cache": ("size", "cache.policy", "retention.period", "purge.interval"),
    "destination": (),
    "dist": ("execGroup", "parallel"),
    "distribution": ("strategy", "partitionKey"),
    "index": (),
    "info": ("name",),
    "map": ("type",),
    "OnError": ("action",),
    "PartitionById": ("enable",),
    "payload": (),
    "primaryKey": (),
    "purge": ("enable", "interval", "idle.period"),
    "retentionPeriod": ("sec", "min", "hours", "days", "months", "years"),
    "sink": ("type", "on.error"),
    "source": ("type",),
    "store": ("type",),
}
#: ``@app:name``.
APP_ANNOTATIONS: Final[dict[str, tuple[str, ...]]] = {
    "clock": ("max.jump",),
    "description": (),
    "name": (),
    "playback": ("idle.time", "increment"),
    "statistics": ("interval",),
    "transportChannelCreationEnabled": (),
}


def _connected(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(kind for kind in kinds if kind in SECRETS or kind == "embedded")


#: What an element may be, by annotation and element in lower case.
VALUES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("source", "type"): tuple(kind for kind in _connected(SOURCES) if kind != "embedded"),
    ("sink", "type"): _connected(SINKS),
    ("store", "type"): ("duckdb", "rdbms"),
    ("map", "type"): tuple(kind for kind in MAPPINGS if kind not in ("avro", "binary", "protobuf", "wso2event")),
    ("distribution", "strategy"): STRATEGIES,
    ("partitionbyid", "enable"): ("false", "true"),
    ("onerror", "action"): ("LOG", "STORE", "STREAM"),
    ("sink", "on.error"): ("LOG", "RETRY", "STORE", "STREAM", "WAIT"),
}
