"""Where a reader of a stream is, as a text for those who come back with it: opaque to them, checked here. Pure.

All that reading needs to go on is in it, so any manager can: nothing is kept for a reader between its requests.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spdist.errors import ClusterError
from spdist.transports.reading import PartitionPosition, Position, ProducerState

__all__ = ["read_cursor", "write_cursor"]

#: It is part of an address, of which servers read a few ten thousand bytes.
_MAX_CHARACTERS = 20_000
_MAX_BYTES = 1 << 20
_Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Producer(_Message):
    name: str
    next: _Count
    at: _Number
    order: _Number
    path: Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$", max_length=1000)]


class _PartitionCursor(_Message):
    number: _Count
    offset: _Count
    skip: _Count
    heard: list[_Producer]


class _Cursor(_Message):
    topic: str
    partitions: list[_PartitionCursor]


def write_cursor(topic: str, position: Position) -> str:
    """Return a position in a topic as a text for an address.

    Parameters
    ----------
    topic : str
        What tells this topic from all others, also from an earlier one of its name: `Transport.identity`.
    position : dict of int to PartitionPosition
        How far it was read.

    Raises
    ------
    ClusterError
        So many producers have written to it that the text would be too long.
    """
    partitions = [
        _PartitionCursor(
            number=number,
            offset=one.offset,
            skip=one.skip,
            heard=[
                _Producer(name=name, next=heard.next, at=heard.high[0], order=heard.high[1], path=heard.high[2].hex())
                for name, heard in one.heard.items()
            ],
        )
        for number, one in position.items()
    ]
    text = _Cursor(topic=topic, partitions=partitions).model_dump_json()
    cursor = base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()
    if len(cursor) > _MAX_CHARACTERS or len(text) > _MAX_BYTES:
        producers = sum(len(one.heard) for one in position.values())
        raise ClusterError(
            f"{producers} producers have written to this stream: too many for its reader to remember",
            hint="feed it with fewer names of producers, or without any",
        )
    return cursor


def read_cursor(topic: str, cursor: str) -> Position:
    """Return the position that `write_cursor` was given.

    Raises
    ------
    ClusterError
        It is no cursor, or one of another topic.
    """
    try:
        # Bounds the work for a text that is none of ours; what is cut here lacks its end below
        data = base64.b64decode(cursor[: _MAX_CHARACTERS + 4], altchars=b"-_", validate=True)
        unpacked = zlib.decompressobj()
        # A limit, as a few compressed bytes can stand for gigabytes
        text = unpacked.decompress(data, _MAX_BYTES)
        if not unpacked.eof or unpacked.unused_data:
            raise ValueError("it has another end")
        found = _Cursor.model_validate_json(text)
    except (binascii.Error, zlib.error, ValidationError, ValueError) as error:
        raise ClusterError(
            f"{cursor[:40]!r} is no cursor", hint="give back 'next' of the answer before, or leave 'after' out"
        ) from error
    if found.topic != topic:
        raise ClusterError(
            "this cursor is of another topic: the stream's topic has another name now, or was made anew",
            hint="begin again without 'after'",
        )
    return {
        one.number: PartitionPosition(
            one.offset,
            one.skip,
            {p.name: ProducerState(p.next, (p.at, p.order, bytes.fromhex(p.path))) for p in one.heard},
        )
        for one in found.partitions
    }
