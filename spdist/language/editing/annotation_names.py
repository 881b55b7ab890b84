"""Annotations that mean something, with their elements, for completion; which of them fit is the checker's word."""

from __future__ import annotations

from typing import Final

from spdist.connectors.registry import sink_types, source_types, store_types
from spdist.language.transport_names import MAPPINGS, STRATEGIES

__all__ = ["ANNOTATIONS", "APP_ANNOTATIONS", "values"]

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


#: What an element may be, whatever is connected, by annotation and element in lower case.
_VALUES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("map", "type"): tuple(kind for kind in MAPPINGS if kind not in ("avro", "binary", "protobuf", "wso2event")),
    ("distribution", "strategy"): STRATEGIES,
    ("partitionbyid", "enable"): ("false", "true"),
    ("onerror", "action"): ("LOG", "STORE", "STREAM"),
    ("sink", "on.error"): ("LOG", "RETRY", "STORE", "STREAM", "WAIT"),
}


def values(annotation: str, element: str) -> tuple[str, ...]:
    """Return what an element of an annotation may be, both in lower case; empty where it may be anything."""
    if (annotation, element) == ("source", "type"):
        return source_types()
    if (annotation, element) == ("sink", "type"):
        return tuple(sorted(("embedded", *sink_types())))
    if (annotation, element) == ("store", "type"):
        return tuple(sorted(store_types()))
    return _VALUES.get((annotation, element), ())
