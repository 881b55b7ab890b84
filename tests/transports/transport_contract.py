"""What every transport promises; a transport's tests subclass it and make the transport."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdist.errors import TransportError
from spdist.transports.base import NO_CLOCK, Record, Transport

Factory = Callable[[], Transport]


def record(number: int, partition: int = 0, topic: str = "A.S", producer: str = "p") -> Record:
    return Record(topic, partition, f"value {number}".encode(), 1, producer, number, 1000 + number)


def append_many(factory: Factory, producer: str, count: int) -> None:
    transport = factory()
    for number in range(count):
        transport.append([record(number, 0, producer=producer), record(number, 1, producer=producer)])
    transport.close()


class TransportContract:
    """Subclasses give `factory`: something that can be called in any process and opens the same topics each time."""

    @pytest.fixture
    def factory(self, tmp_path: Any) -> Factory:
        raise NotImplementedError

    @pytest.fixture
    def transport(self, factory: Factory) -> Iterator[Transport]:
        transport = factory()
        yield transport
        transport.close()

    def test_it_is_a_transport(self, transport: Transport) -> None:
        assert isinstance(transport, Transport)

    def test_a_record_comes_back_as_it_went_with_its_offset(self, transport: Transport) -> None:
        transport.ensure("A.S", 1)
        transport.append([Record("A.S", 0, b"\x00\xff", 3, "p-1", 7, NO_CLOCK), Record("A.S", 0, b"", 0, "", 0, 5)])
        assert transport.read("A.S", 0, 0) == [
            Record("A.S", 0, b"\x00\xff", 3, "p-1", 7, NO_CLOCK, 0),
            Record("A.S", 0, b"", 0, "", 0, 5, 1),
        ]

    def test_a_partition_keeps_the_order_of_appends(self, transport: Transport) -> None:
        transport.ensure("A.S", 2)
        for start in range(0, 30, 3):
            transport.append([record(n, n % 2) for n in range(start, start + 3)])
        assert [r.seq for r in transport.read("A.S", 0, 0)] == list(range(0, 30, 2))
        assert [r.seq for r in transport.read("A.S", 1, 0)] == list(range(1, 30, 2))
        assert [r.offset for r in transport.read("A.S", 1, 0)] == list(range(15))
        assert transport.end_offsets("A.S") == {0: 15, 1: 15}

    def test_reading_starts_at_any_offset_and_ends_at_the_limit(self, transport: Transport) -> None:
        transport.ensure("A.S", 1)
        transport.append([record(n) for n in range(10)])
        assert [r.offset for r in transport.read("A.S", 0, 4, limit=3)] == [4, 5, 6]
        assert [r.offset for r in transport.read("A.S", 0, 8, limit=100)] == [8, 9]
        assert transport.read("A.S", 0, 10) == []

    def test_a_reader_far_behind_reads_everything_again(self, transport: Transport, factory: Factory) -> None:
        transport.ensure("A.S", 1)
        for start in range(0, 5000, 500):
            transport.append([record(n) for n in range(start, start + 500)])
        late, offset, seen = factory(), 0, []
        while records := late.read("A.S", 0, offset, limit=700):
            seen += [r.seq for r in records]
            offset = records[-1].offset + 1
        late.close()
        assert seen == list(range(5000))

    def test_topics_grow_and_never_shrink(self, transport: Transport) -> None:
        assert transport.partitions("A.S") == 0
        assert transport.ensure("A.S", 2) == 2
        transport.append([record(1, 1)])
        assert transport.ensure("A.S", 4) == 4
        assert transport.ensure("A.S", 1) == 4
        assert transport.partitions("A.S") == 4
        assert transport.end_offsets("A.S") == {0: 0, 1: 1, 2: 0, 3: 0}

    def test_topics_do_not_mix(self, transport: Transport) -> None:
        transport.ensure("A.S", 1)
        transport.ensure("A.s/../T x%", 1)
        transport.append([record(1, topic="A.s/../T x%"), record(2)])
        assert [r.seq for r in transport.read("A.s/../T x%", 0, 0)] == [1]
        assert [r.seq for r in transport.read("A.S", 0, 0)] == [2]

    def test_what_is_not_there_is_named(self, transport: Transport) -> None:
        transport.ensure("A.S", 2)
        for call in (
            lambda: transport.read("Nope", 0, 0),
            lambda: transport.end_offsets("Nope"),
            lambda: transport.append([record(1, topic="Nope")]),
        ):
            with pytest.raises(TransportError, match="'Nope'"):
                call()
        with pytest.raises(TransportError, match="partitions 0 to 1, not 2"):
            transport.read("A.S", 2, 0)
        with pytest.raises(TransportError, match="partitions 0 to 1, not -1"):
            transport.append([record(1, -1)])
        with pytest.raises(TransportError, match="cannot be the name"):
            transport.ensure("", 1)
        with pytest.raises(TransportError, match="cannot have 0 partitions"):
            transport.ensure("T", 0)

    def test_an_append_that_fails_appends_nothing(self, transport: Transport) -> None:
        transport.ensure("A.S", 2)
        with pytest.raises(TransportError):
            transport.append([record(1), record(2, 7)])
        with pytest.raises(TransportError):
            transport.append([record(1), record(2, topic="Nope")])
        assert transport.end_offsets("A.S") == {0: 0, 1: 0}

    def test_several_processes_append_at_once(self, transport: Transport, factory: Factory) -> None:
        transport.ensure("A.S", 2)
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=append_many, args=(factory, f"p{n}", 40)) for n in range(3)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
            assert writer.exitcode == 0
        for partition in (0, 1):
            records = transport.read("A.S", partition, 0)
            assert [r.offset for r in records] == list(range(120))
            for producer in ("p0", "p1", "p2"):
                assert [r.seq for r in records if r.producer == producer] == list(range(40))

    def test_another_opener_sees_what_was_appended(self, transport: Transport, factory: Factory) -> None:
        transport.ensure("A.S", 1)
        transport.append([record(1)])
        other = factory()
        assert [r.seq for r in other.read("A.S", 0, 0)] == [1]
        other.append([record(2)])
        other.close()
        assert [r.seq for r in transport.read("A.S", 0, 0)] == [1, 2]
