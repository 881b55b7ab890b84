"""What outsiders put into a topic with a client of their own: JSON or XML in WSO2's default form instead of Arrow.

A transport marks such a payload with what the server knows of it: its time and its offset. So it means the same events,
with the same timestamps and in the same order, however often it is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.types import Schema
from spdist.mapping.base import Event, Lost, MapSetting
from spdist.mapping.mappers import source_mapper
from spdist.mapping.payload_reader import BatchReader, Failed

__all__ = ["ExternalReader", "is_marked", "mark", "read_marked"]

_MARK = b"spdist outside 1\0"
_PLACE = struct.Struct(">qq")
#: How an Arrow stream begins.
_ARROW = b"\xff\xff\xff\xff"
#: Offsets are apart by this much as orders, so that chunks of one payload have orders of their own.
_CHUNKS = 1 << 16
_HEAD = len(_MARK) + _PLACE.size
#: What messages call the stream: whose topic it is, who drops the payload says.
_STREAM = "of outsiders"
#: Which mapping reads a payload, by its first character.
_KINDS = {"{": "json", "[": "json", "<": "xml"}


def mark(value: bytes, time_ms: int, offset: int) -> bytes:
    """Return an outsider's payload with the time and the offset of its message; Arrow and nothing stay as they are.

    Parameters
    ----------
    value : bytes
        As it came.
    time_ms : int
        When the server or the sender says that it was sent, ms.
    offset : int
        Of the message in its partition.
    """
    # An Arrow stream of an outsider has its times in its columns.
    if not value or value.startswith(_ARROW):
        return value
    return _MARK + _PLACE.pack(time_ms, offset) + value


def is_marked(value: bytes) -> bool:
    """Tell whether `mark` has made this."""
    return value.startswith(_MARK)


def _setting(schema: Schema, kind: str) -> MapSetting:
    return MapSetting(_STREAM, schema, ast.Annotation("map", (ast.AnnotationElement("type", kind),)))


def read_marked(schema: Schema, value: bytes, lost: Lost) -> list[tuple[int, int, list[Event]]]:
    """Return the chunks of a marked payload: its time, the order of each chunk, and its events.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    value : bytes
        What `mark` has returned.
    lost : Callable
        Told of events that do not fit, which are left out.

    Raises
    ------
    MappingError
        The payload is neither JSON nor XML.
    """
    time_ms, offset = _PLACE.unpack_from(value, len(_MARK))
    payload = value[_HEAD:]
    try:
        # Clients of other systems may write a mark of byte order, which is no JSON.
        text = payload.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MappingError(f"a payload of {len(payload)} bytes is neither Arrow nor text: {error}") from error
    kind = _KINDS.get(text.lstrip()[:1])
    if kind is None:
        raise MappingError(
            f"a payload that begins with {text[:20]!r} is neither JSON nor XML nor Arrow",
            hint="send WSO2's default form: {'event': {…}} or <events><event>…</event></events>",
        )
    chunks = source_mapper(_setting(schema, kind)).read(text, {}, time_ms, lost)
    return [(time_ms, offset * _CHUNKS + min(number, _CHUNKS - 1), chunk) for number, chunk in enumerate(chunks)]


class ExternalReader:
    """Reads many marked payloads of one stream, faster than `read_marked` reads each.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._reader = BatchReader(_setting(schema, "json"))

    def read(self, values: Sequence[bytes], lost: Lost, failed: Failed) -> Iterator[tuple[int, int, list[Event]]]:
        """Yield what `read_marked` returns for each payload; `failed` is told the number of one that cannot be read."""
        rows = self._reader.rows([value[_HEAD:] for value in values])
        # All heads in one pass over one piece of bytes.
        places = _PLACE.iter_unpack(b"".join([value[len(_MARK) : _HEAD] for value in values]))
        for number, (row, (time_ms, offset)) in enumerate(zip(rows, places, strict=True)):
            if row is not None:
                yield time_ms, offset * _CHUNKS, [(time_ms, row)]
                continue
            try:
                chunks = read_marked(self._schema, values[number], lost)
            except MappingError as error:
                failed(number, error)
            else:
                yield from chunks
