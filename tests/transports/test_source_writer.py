"""What comes in is numbered and timed the same, however many events came together."""

from __future__ import annotations

import pytest

from spdist.errors import MappingError
from spdist.language.types import Schema
from spdist.transports.payloads.payload import Payload
from spdist.transports.source_writer import Chunk, SourceWriter
from tests.engine.memory_transport import MemoryTransport

SCHEMA = Schema.of([("k", "string")])
SINGLE: list[Chunk] = [[(5, ("a",))], [(3, ("b",))], [(9, ("c",))]]


@pytest.mark.parametrize("playback", [True, False])
def test_single_events_are_as_those_of_larger_chunks(playback: bool) -> None:
    def appended(chunks: list[Chunk]) -> list[object]:
        transport = MemoryTransport()
        transport.ensure("T", 1)
        writer = SourceWriter(transport, "T", 0, SCHEMA, playback=playback)
        assert writer.append(chunks, 7, "me", 40) == 3
        assert writer.append(chunks[:1], 6, "me", 43) == 1
        assert writer.append([], 6) == 0
        records = transport.topics["T"][0]
        return [(record.seq, list(Payload(SCHEMA).decode(record.value))) for record in records]

    found = appended(SINGLE)
    assert found == appended([*SINGLE, []])
    at = [5, 5, 9, 9] if playback else [7, 7, 7, 7]
    assert [event[:2] for _, events in found for event in events] == list(zip(at, range(4), strict=True))


@pytest.mark.parametrize("chunk", [[(2**63, ("late",))], [(4, ("fits",)), (2**63, ("late",))]])
def test_a_time_that_cannot_travel_takes_none_along(chunk: Chunk) -> None:
    transport = MemoryTransport()
    unfit: list[Chunk] = []
    transport.ensure("T", 1)
    writer = SourceWriter(transport, "T", 0, SCHEMA, playback=True)
    with pytest.raises(MappingError, match="cannot travel"):
        writer.append([SINGLE[0], chunk], 7)
    kept = SourceWriter(transport, "T", 0, SCHEMA, playback=True, unfit=lambda one, _error: unfit.append(one))
    assert kept.append([SINGLE[0], chunk, SINGLE[2]], 7) == 2
    assert unfit == [chunk]


def test_a_chunk_that_is_left_out_is_told_once_however_often_the_append_is_tried() -> None:
    transport = MemoryTransport()
    unfit: list[Chunk] = []
    late: Chunk = [(2**63, ("late",))]
    writer = SourceWriter(transport, "T", 0, SCHEMA, playback=True, unfit=lambda one, _error: unfit.append(one))
    with pytest.raises(KeyError):  # the topic is not there
        writer.append([SINGLE[0], late], 7)
    transport.ensure("T", 1)
    assert writer.append([SINGLE[0], late], 7) == 1
    assert unfit == [late]
    assert writer.append([late], 7) == 0
    assert unfit == [late, late]
