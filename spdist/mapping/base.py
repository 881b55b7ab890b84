"""What every mapping offers, and the options of its annotation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spdist.errors import MappingError, SiddhiTypeError
from spdist.java.numbers import whole_number
from spdist.language import ast
from spdist.language.types import Schema
from spdist.mapping.bounds import MAX_BYTES

__all__ = [
    "TRANSPORT_PREFIX",
    "Event",
    "Lost",
    "MapSetting",
    "SinkMapper",
    "SourceMapper",
    "mapped_attributes",
    "readable",
]

#: Timestamp in ms, data.
Event = tuple[int, tuple[Any, ...]]
#: Told why one event of a payload is left out, or several (`MappingError.events`), while the others are delivered.
Lost = Callable[[MappingError], None]

#: Marks what is not read from the payload but from the properties that came with it.
TRANSPORT_PREFIX = "trp:"


class SinkMapper(Protocol):
    """Makes payloads of events.

    State
    -----
    What it has written once and must not write again, such as a header.
    """

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return the payloads of one chunk, in order; raises MappingError where an event cannot be written."""
        ...

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        ...


class SourceMapper(Protocol):
    """Makes events of payloads.

    State
    -----
    What it has read once and must not expect again, such as a header.
    """

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the chunks that a payload holds.

        Parameters
        ----------
        payload : Any
            What the transport received.
        properties : mapping of str to Any
            What came with it (``trp:name``).
        now : int
            The timestamp of events that bear none, ms.
        lost : Callable
            Told of each event that is left out.

        Raises
        ------
        MappingError
            The payload as a whole cannot be read.
        """
        ...

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        ...


class Stateless:
    """A mapper that keeps nothing."""

    def snapshot(self) -> Any:
        """Return nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Take over nothing."""


@dataclass(frozen=True, slots=True)
class MapSetting:
    """A ``@map`` of one stream.

    Parameters
    ----------
    stream : str
        The stream's id, for messages.
    schema : Schema
        The stream's attributes.
    annotation : Annotation, optional
        ``@map(…)``; None where none is written.
    limit : int, optional
        What the transport says of how large a payload may be, bytes; its own word counts before that of the mapping.
    """

    stream: str
    schema: Schema
    annotation: ast.Annotation | None = None
    limit: int | None = None

    @property
    def max_bytes(self) -> int:
        """How large a payload may be, bytes; ``max.payload.size`` of the mapping (ours) says it for large files."""
        written = self.text("max.payload.size", str(MAX_BYTES)).strip()
        largest = whole_number(written, 1)
        if largest is None:
            span = None if self.annotation is None else self.annotation.span
            raise SiddhiTypeError(
                f"'max.payload.size' is a number of bytes, not '{written}'",
                span=span,
                hint=f"for example: max.payload.size='{4 * MAX_BYTES}'",
            )
        return largest if self.limit is None else self.limit

    def text(self, key: str, default: str) -> str:
        """Return an option."""
        value = None if self.annotation is None else self.annotation.get(key)
        return default if value is None else value

    def flag(self, key: str, default: bool) -> bool:
        """Return an option that is true or false; whatever is not ``true`` is false."""
        return self.text(key, str(default)).strip().lower() == "true"

    def nested(self, name: str) -> ast.Annotation | None:
        """Return ``@payload`` or ``@attributes``; None where it is not written or empty."""
        found = () if self.annotation is None else self.annotation.nested(name)
        return found[0] if found and found[0].elements else None

    def text_of(self, payload: Any, mapping: str) -> str:
        """Return a payload as text, for those who read texts; raises MappingError where it is none.

        Parameters
        ----------
        payload : Any
            What came: text, or bytes in UTF-8.
        mapping : str
            Who reads it, for the message.
        """
        if isinstance(payload, str):
            return payload
        if not isinstance(payload, bytes | bytearray):
            raise self.bad(f"{mapping} takes a text, not {type(payload).__name__}")
        try:
            return payload.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.bad(f"a payload of {len(payload)} bytes is no text in UTF-8: {error}") from error

    def bad(self, why: str) -> MappingError:
        """Return the error for a payload or event that does not fit."""
        return MappingError(f"stream '{self.stream}': {why}")


def readable(read: Callable[[Any], tuple[Any, ...]], elements: Iterable[Any], lost: Lost) -> list[tuple[Any, ...]]:
    """Return the rows that `read` makes of a payload's events; `lost` is told why of those that it cannot read."""
    rows = []
    for element in elements:
        try:
            rows.append(read(element))
        except MappingError as error:
            lost(error)
    return rows


def mapped_attributes(setting: MapSetting) -> tuple[str, ...] | None:
    """Return what ``@attributes`` says for each attribute of the stream, in its order; None where it is not written."""
    annotation = setting.nested("attributes")
    if annotation is None:
        return None
    if annotation.elements[0].key is None:
        return tuple(element.value for element in annotation.elements)
    return tuple(annotation.get(name) or "" for name in setting.schema.names)
