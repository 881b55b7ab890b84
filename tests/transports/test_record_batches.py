"""What brokers send is read as the client reads it, whatever way it is read; and what is damaged harms nobody."""

from __future__ import annotations

import struct
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.errors import TransportError
from spdist.mapping.kernels import Kernels
from spdist.transports.kafka import record_batches
from spdist.transports.kafka.record_batches import FetchedMessages, following_offset, messages_of
from tests.transports.kafka_batches import CODECS, Message, batch, plain, signed


@pytest.fixture(params=["one by one", "compiled"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How messages are read."""
    kernels = Kernels(record_batches._compiled if request.param == "compiled" else partial(import_module, "none"), "")
    kernels.load()
    assert (kernels.loops is not None) == (request.param == "compiled")
    monkeypatch.setattr(record_batches, "_KERNELS", kernels)
    return str(request.param)


def rows(found: FetchedMessages) -> list[tuple[int, int, bytes]]:
    return list(zip(found.offsets.to_pylist(), found.times.to_pylist(), found.values.to_pylist(), strict=True))


def read(raw: bytes, begin: int = 0, stop: int = 1 << 40, *aborted: tuple[int, int], **wants: bool) -> FetchedMessages:
    return messages_of(raw, begin, stop, aborted, **wants)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_read_whatever_compresses_them(codec: str) -> None:
    raw = batch(7, plain(b"a" * 200, b"bb"), codec) + batch(9, plain(b"c" * 300, at=5000), codec)
    assert len(raw) > 500 or codec != "none"
    assert rows(read(raw)) == [(7, 1000, b"a" * 200), (8, 1001, b"bb"), (9, 5000, b"c" * 300)]
    assert following_offset(raw, 0) == 10


def test_only_wanted_offsets_are_read() -> None:
    raw = batch(0, plain(b"a", b"b", b"c")) + batch(3, plain(b"d", b"e"))
    assert [value for *_, value in rows(read(raw, 1, 4))] == [b"b", b"c", b"d"]


def test_a_batch_that_is_not_whole_is_left_for_the_next_time() -> None:
    whole, next_one = batch(0, plain(b"a")), batch(1, plain(b"b"))
    for size in range(len(next_one)):
        raw = whole + next_one[:size]
        assert rows(read(raw)) == [(0, 1000, b"a")]
        assert following_offset(raw, 0) == 1
    assert following_offset(whole[:-1], 5) == 5


def test_keys_headers_and_what_is_missing() -> None:
    raw = batch(0, [(5, b"k", None, [("h", b"1"), ("n", None)]), (6, None, b"v", []), (7, b"", b"", [])])
    found = read(raw, keys=True)
    assert found.keys == [b"k", None, b""]
    assert [value for *_, value in rows(found)] == [b"", b"v", b""]
    assert found.headers is None
    with_headers = read(raw, headers=True).headers
    assert with_headers is not None
    assert [list(some) for some in with_headers] == [[("h", b"1"), ("n", None)], [], []]


def test_the_brokers_time_is_that_of_all() -> None:
    assert rows(read(batch(0, plain(b"a", b"b"), attributes=0x08, time=9000))) == [(0, 9000, b"a"), (1, 9000, b"b")]


def test_aborted_transactions_and_marks_are_left_out() -> None:
    def own(base: int, value: bytes, producer: int) -> bytes:
        return batch(base, plain(value), producer=producer, attributes=0x10)

    def mark(base: int, producer: int) -> bytes:
        return batch(base, [(0, b"\0\0\0\0", b"\0\0\0\0\0\0", [])], producer=producer, attributes=0x30)

    raw = b"".join((
        own(0, b"committed", 1), own(1, b"gone", 2), mark(2, 1), batch(3, plain(b"plain")), own(4, b"gone too", 2),
        mark(5, 2), own(6, b"next", 2), mark(7, 2), own(8, b"gone again", 2), mark(9, 2),
    ))  # fmt: skip
    found = read(raw, 0, 99, (2, 1), (2, 8))
    assert [value for *_, value in rows(found)] == [b"committed", b"plain", b"next"]
    assert following_offset(raw, 0) == 10
    assert len(read(raw, 8, 99, (2, 8))) == 0


def test_what_old_producers_have_written_is_read() -> None:
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(0, timestamp=4, key=None, value=b"old")
    raw = bytes(builder.build()) + batch(1, plain(b"new"))
    assert rows(read(raw)) == [(0, 4, b"old"), (1, 1000, b"new")]
    assert following_offset(raw, 0) == 2


def test_damage_is_told() -> None:
    raw = bytearray(batch(3, plain(b"abc")))
    raw[-2] ^= 1
    with pytest.raises(TransportError, match="the checksum of Kafka's batch from offset 3 on is wrong"):
        read(bytes(raw))
    assert rows(read(bytes(raw), checked=False))
    short = bytearray(batch(3, plain(b"abc")))
    struct.pack_into(">i", short, 8, 20)
    with pytest.raises(TransportError, match="a batch of 20 bytes"):
        read(bytes(short))


def test_a_codec_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = batch(0, plain(b"a" * 300), "zstd")
    monkeypatch.setattr("aiokafka.codec.has_zstd", lambda: False)
    with pytest.raises(TransportError, match="compressed by zstd") as error:
        read(raw)
    assert "cramjam" in str(error.value.hint)


messages = st.tuples(
    st.integers(0, 1 << 42),
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.lists(messages, min_size=1, max_size=8), st.sampled_from(sorted(CODECS)), st.integers(0, 5))),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_whatever_is_sent_is_what_was_written(parts: list[Any], begin: int, count: int) -> None:
    base, raw, written = 0, b"", []
    for own, codec, gap in parts:
        base += gap  # as compaction leaves them
        raw += batch(base, own, codec)
        written += [(base + number, sent, value or b"", key) for number, (sent, key, value, _) in enumerate(own)]
        base += len(own)
    found = read(raw, begin, begin + count, keys=True)
    wanted = [one for one in written if begin <= one[0] < begin + count]
    assert [(*row, key) for row, key in zip(rows(found), found.keys or (), strict=True)] == wanted
    assert following_offset(raw, 0) == (base if parts else 0)


@settings(max_examples=300, deadline=None)
@given(st.lists(messages, min_size=1, max_size=5), st.data())
def test_no_bytes_bring_it_down(own: list[Message], data: st.DataObject) -> None:
    made = bytearray(batch(3, own))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(57, len(made) - 1))
        made[place] = data.draw(st.integers(0, 255))
    try:
        found = read(signed(made))
    except TransportError:
        return
    assert sum(map(len, found.values.to_pylist())) <= len(made)
