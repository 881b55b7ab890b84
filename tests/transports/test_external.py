"""Payloads of outsiders become events, the same ones however often they are read."""

from __future__ import annotations

import logging

import pytest

from spdist.errors import MappingError
from spdist.language.types import Schema
from spdist.mapping.columns import Events, child
from spdist.transports.payloads.external import is_marked, mark
from spdist.transports.payloads.payload import Payload

SCHEMA = Schema.of([("name", "string"), ("size", "long")])
PAYLOAD = Payload(SCHEMA)
CHUNKED = Events(
    at=[5000, 5000],
    order=[3 << 16] * 2,
    path=[child(b"", 0), child(b"", 1)],
    chunk=[0, 1],
    ts=[5000, 5000],
    rows=[("a", 1), ("b", 2)],
)


@pytest.mark.parametrize(
    "value",
    [
        b'[{"event":{"name":"a","size":1}},{"event":{"name":"b","size":2}}]',
        b"<events><event><name>a</name><size>1</size></event><event><name>b</name><size>2</size></event></events>",
    ],
)
def test_json_and_xml_are_chunks_at_the_time_of_their_message(value: bytes) -> None:
    marked = mark(value, 5000, 3)
    assert PAYLOAD.decode(marked) == CHUNKED
    assert PAYLOAD.decode(marked) == CHUNKED


def test_one_event_is_a_chunk_of_its_own() -> None:
    marked = mark(b' \n{"event":{"name":"a","size":1}}', 5000, 3)
    assert PAYLOAD.decode(marked) == Events([5000], [3 << 16], [b""], [0], [5000], [("a", 1)])


def test_arrow_and_nothing_are_not_marked() -> None:
    arrow = PAYLOAD.encode(CHUNKED)
    assert mark(arrow, 5000, 3) is arrow
    assert not is_marked(mark(b"", 5000, 3))


def test_events_that_do_not_fit_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    value = b'[{"event":{"name":"a"}},{"event":{"name":"b","size":2}}]'
    with caplog.at_level(logging.WARNING):
        assert PAYLOAD.decode(mark(value, 5000, 0)).rows == [("b", 2)]
    assert "drops what it cannot read, 1 so far" in caplog.text
    assert len(PAYLOAD.decode(mark(b"[]", 5000, 0))) == 0


def test_a_payload_whose_events_are_all_left_out_is_told_once() -> None:
    schema = Schema.of([("s", "string"), ("i", "int"), ("d", "double"), ("b", "bool"), ("o", "object")])
    lost: list[Exception] = []
    payload = Payload(schema, lost.append, foreign=True)
    assert len(payload.decode(mark(b'[{"event":{"s":"a"}}]', 5000, 0))) == 0
    assert len(lost) == 1
    usual = payload.encode(Events.of([(1, (None,) * 5)]))
    assert payload.read(mark(b"[]", 5000, 0)).schema == payload.read(usual).schema


@pytest.mark.parametrize(
    "value", [b"a,1", b"\xfe\x00", b'{"event":', b"<events>", b'{"event":{"name":"a","size":"large"}}']
)
def test_what_cannot_be_read_is_an_error_of_mapping(value: bytes) -> None:
    with pytest.raises(MappingError):
        PAYLOAD.decode(mark(value, 5000, 0))
