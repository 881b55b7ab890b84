"""Which mapping a ``@map(type='…')`` names, and what holds for all that read what others have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from spdist.errors import ErrorKind, MappingError, SiddhiAppError, UndefinedNameError
from spdist.extension import lookup
from spdist.language.checking.expressions import located
from spdist.language.checking.scope import suggestion
from spdist.mapping.base import Event, Lost, MapSetting, SinkMapper, SourceMapper
from spdist.mapping.bounds import MAX_TOLD, shown
from spdist.mapping.csv_payloads import CsvSink, CsvSource
from spdist.mapping.json_payloads import JsonSink, JsonSource
from spdist.mapping.keyvalue_payloads import KeyValueSink, KeyValueSource
from spdist.mapping.passing import PassSink, PassSource
from spdist.mapping.text_payloads import TextSink, TextSource
from spdist.mapping.xml_payloads import XmlSink, XmlSource

__all__ = ["GuardedMapper", "is_mapped", "sink_mapper", "source_mapper"]

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
    type = setting.text("type", _PASS)
    return type in _SINKS or lookup("mapping", type) is not None


def sink_mapper(setting: MapSetting) -> SinkMapper:
    """Return the mapping of a sink; raises UndefinedNameError where there is none of that type."""
    return _made(_known(_SINKS, "sink", setting), setting)


def source_mapper(setting: MapSetting) -> GuardedMapper:
    """Return the mapping of a source; raises UndefinedNameError where there is none of that type."""
    return GuardedMapper(setting, _made(_known(_SOURCES, "source", setting), setting))


def _made(kind: Callable[[MapSetting], Mapper], setting: MapSetting) -> Mapper:
    """Return a mapping; what is wrong with its options is placed at its ``@map``, where nothing says it better."""
    try:
        return kind(setting)
    except SiddhiAppError as error:
        for one in (error, *error.errors):
            located(one, None if setting.annotation is None else setting.annotation.span)
        raise


class GuardedMapper:
    """A source's mapping whose payloads were written by others: none of them can harm more than itself.

    Whatever goes wrong while a payload is read, that payload cannot be read: the only error is MappingError. Of the
    events that are left out, the first `MAX_TOLD` are told of one by one and the others together; where the payload as
    a whole cannot be read none of them is.

    Parameters
    ----------
    setting : MapSetting
        The stream, and how large a payload may be.
    mapper : SourceMapper
        What reads it.

    State
    -----
    That of the mapping.
    """

    def __init__(self, setting: MapSetting, mapper: SourceMapper) -> None:
        self.mapper = mapper
        self._setting = setting
        self._largest = setting.max_bytes

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the chunks that a payload holds; see `SourceMapper`. Raises MappingError and nothing else."""
        left_out: list[MappingError] = []
        try:
            if isinstance(payload, str | bytes | bytearray) and len(payload) > self._largest:
                raise ValueError(f"it is larger than {self._largest} bytes")
            # Collected and not told yet: of a payload that fails as a whole nobody is to learn of single events.
            chunks = self.mapper.read(payload, properties, now, left_out.append)
        except MappingError:
            raise
        except Exception as error:
            # A ValueError is worded for people by who raised it; of others the class is half of the message.
            told = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise self._setting.bad(f"this cannot be read ({told[:500]}): {shown(payload)}") from error
        for one in left_out[:MAX_TOLD]:
            lost(one)
        if (more := len(left_out) - MAX_TOLD) > 0:
            rest = self._setting.bad(
                f"{more} more events of the payload are left out; the last: {left_out[-1].message}"
            )
            rest.events = more
            lost(rest)
        return chunks

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        return self.mapper.snapshot()

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.mapper.restore(state)


def _known(
    known: dict[str, Callable[[MapSetting], Mapper]], side: Literal["source", "sink"], setting: MapSetting
) -> Callable[[MapSetting], Mapper]:
    """Return what makes a mapping of a type, for one side: built in, or else registered."""
    type = setting.text("type", _PASS)
    if type in known:
        return known[type]
    registered = lookup("mapping", type)
    made: Callable[[MapSetting], Mapper] | None = getattr(registered and registered.implementation, side, None)
    if made is None:
        span = None if setting.annotation is None else setting.annotation.span
        told = f"there is no mapping '{type}' of a {side}"
        raise UndefinedNameError(told, span=span, hint=suggestion(type, known), code=ErrorKind.UNKNOWN_EXTENSION)
    return made
