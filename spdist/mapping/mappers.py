"""Which mapping a ``@map(type='…')`` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spdist.errors import UnknownExtensionError
from spdist.language.scope import suggestion
from spdist.mapping.base import MapSetting, SinkMapper, SourceMapper
from spdist.mapping.csv_payloads import CsvSink, CsvSource
from spdist.mapping.json_payloads import JsonSink, JsonSource
from spdist.mapping.keyvalue_payloads import KeyValueSink, KeyValueSource
from spdist.mapping.passing import PassSink, PassSource
from spdist.mapping.text_payloads import TextSink, TextSource
from spdist.mapping.xml_payloads import XmlSink, XmlSource

__all__ = ["is_mapped", "sink_mapper", "source_mapper"]

Mapper = TypeVar("Mapper")

_PASS = "passThrough"
_SINKS: dict[str, Callable[[MapSetting], SinkMapper]] = {
    "csv": CsvSink,
    "json": JsonSink,
    "keyvalue": KeyValueSink,
    _PASS: PassSink,
    "text": TextSink,
    "xml": XmlSink,
}
_SOURCES: dict[str, Callable[[MapSetting], SourceMapper]] = {
    "csv": CsvSource,
    "json": JsonSource,
    "keyvalue": KeyValueSource,
    _PASS: PassSource,
    "text": TextSource,
    "xml": XmlSource,
}


def is_mapped(setting: MapSetting) -> bool:
    """Tell whether the type of mapping is one that is built."""
    return setting.text("type", _PASS) in _SINKS


def sink_mapper(setting: MapSetting) -> SinkMapper:
    """Return the mapping of a sink; raises UnknownExtensionError where there is none of that type."""
    return _known(_SINKS, setting)(setting)


def source_mapper(setting: MapSetting) -> SourceMapper:
    """Return the mapping of a source; raises UnknownExtensionError where there is none of that type."""
    return _known(_SOURCES, setting)(setting)


def _known(known: dict[str, Callable[[MapSetting], Mapper]], setting: MapSetting) -> Callable[[MapSetting], Mapper]:
    type = setting.text("type", _PASS)
    if type not in known:
        span = None if setting.annotation is None else setting.annotation.span
        raise UnknownExtensionError(f"there is no mapping '{type}'", span=span, hint=suggestion(type, known))
    return known[type]
