"""What every transport promises; a transport's tests subclass it and make the transport."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.island.cuts import Cut
from spdist.errors import TransportError, TransportUnavailableError
from spdist.runtime.revision_files import WentBack
from spdist.services.process import Service
from spdist.transports.base import NO_CLOCK, Record, Repeats, Transport
from spdist.transports.retracted import UndoneRecords

Factory = Callable[[], Transport]
#: ``make(number, partition, topic, producer)``: a record of the test's topic.
Make = Callable[..., Record]
#: Deletes a topic as somebody else would, who has access to the server or to the disk.
Delete = Callable[[str], None]
ROOT = Path(__file__).parents[2]


def record(number: int, partition: int = 0, topic: str = "A.S", producer: str = "p") -> Record:
    return Record(topic, partition, f"value {number}".encode(), 1, producer, number, 1000 + number)


def append_many(factory: Factory, topic: str, producer: str, count: int) -> None:
    transport = factory()
    for number in range(count):
        transport.append([record(number, 0, topic, producer), record(number, 1, topic, producer)])
    transport.close()


def whole_partition(transport: Transport, topic: str, partition: int = 0) -> list[Record]:
    records, offset = [], 0
    while found := transport.read(topic, partition, offset):
        records += found
        offset = found[-1].offset + 1
    return records


#: Appends batches of four records over two partitions until it is killed; tells each that is confirmed.
ENDLESS = """
import pickle, sys
from spdist.transports.base import Record
transport = pickle.loads(bytes.fromhex(sys.argv[1]))
number = 0
while True:
    batch = [Record(sys.argv[2], p, b"x" * 3000, 1, "p", number + n) for n in range(4) for p in range(2)]
    transport.append(batch)
    number += 4
    print(number, flush=True)
"""


class TransportContract:
    """Subclasses give `factory`: something that can be called in any process and opens the same topics each time."""

    @pytest.fixture
    def factory(self, tmp_path: Any) -> Factory:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        """Servers are shared: each test has topics of its own."""
        return f"A{uuid.uuid4().hex}.S"

    @pytest.fixture
    def make(self, topic: str) -> Make:
        return functools.partial(record, topic=topic)

    @pytest.fixture
    def transport(self, factory: Factory) -> Iterator[Transport]:
        transport = factory()
        yield transport
        transport.close()

    def test_it_is_a_transport(self, transport: Transport) -> None:
        assert isinstance(transport, Transport)

    def test_a_record_comes_back_as_it_went_with_its_offset(self, transport: Transport, topic: str) -> None:
        transport.ensure(topic, 1)
        transport.append([Record(topic, 0, b"\x00\xff", 3, "p-1", 7, NO_CLOCK), Record(topic, 0, b"", 0, "", 0, 5)])
        assert transport.read(topic, 0, 0) == [
            Record(topic, 0, b"\x00\xff", 3, "p-1", 7, NO_CLOCK, 0),
            Record(topic, 0, b"", 0, "", 0, 5, 1),
        ]

    def test_a_partition_keeps_the_order_of_appends(self, transport: Transport, topic: str, make: Make) -> None:
        transport.ensure(topic, 2)
        for start in range(0, 30, 3):
            transport.append([make(n, n % 2) for n in range(start, start + 3)])
        assert [r.seq for r in transport.read(topic, 0, 0)] == list(range(0, 30, 2))
        assert [r.seq for r in transport.read(topic, 1, 0)] == list(range(1, 30, 2))
        assert [r.offset for r in transport.read(topic, 1, 0)] == list(range(15))
        assert transport.end_offsets(topic) == {0: 15, 1: 15}

    def test_reading_starts_at_any_offset_and_ends_at_the_limit(
        self, transport: Transport, topic: str, make: Make
    ) -> None:
        transport.ensure(topic, 1)
        transport.append([make(n) for n in range(10)])
        assert [r.offset for r in transport.read(topic, 0, 4, limit=3)] == [4, 5, 6]
        assert [r.offset for r in transport.read(topic, 0, 8, limit=100)] == [8, 9]
        assert transport.read(topic, 0, 10) == []

    def test_nothing_is_read_from_behind_the_end(self, transport: Transport, topic: str, make: Make) -> None:
        transport.ensure(topic, 2)
        transport.append([make(n) for n in range(3)])
        with pytest.raises(TransportError, match=r"partition 0 ends at offset 3, but 4 records of it were read"):
            transport.read(topic, 0, 4)
        with pytest.raises(TransportError, match="partition 1 ends at offset 0"):
            transport.read(topic, 1, 1)

    def test_what_a_producer_had_put_out_before_it_went_back_is_told_from_what_comes(
        self, transport: Transport, topic: str, make: Make
    ) -> None:
        transport.ensure(topic, 2)
        transport.append([make(number, partition) for number in range(4) for partition in range(2)])
        transport.append([make(9, 1, producer="q")])
        went_back = WentBack({"p": Cut({topic: (2, 3)}, 0, 1002)}, frozenset({topic, f"{topic}.never"}))
        undone = UndoneRecords(went_back.undone(transport))
        transport.append([make(number, partition) for number in range(2, 5) for partition in range(2)])
        read = [record for partition in range(2) for record in whole_partition(transport, topic, partition)]
        left = [(record.partition, record.producer, record.seq) for record in read if not undone.covers(record)]
        first = [(0, "p", number) for number in (0, 1, 2, 3, 4)]
        assert left == [
            *first,
            *((1, "p", number) for number in (0, 1, 2)),
            (1, "q", 9),
            *((1, "p", n) for n in (2, 3, 4)),
        ]
        assert not undone, "what was read is known no more"

    def test_a_topic_that_is_made_anew_has_another_identity(
        self, transport: Transport, factory: Factory, topic: str, make: Make, delete: Delete
    ) -> None:
        transport.ensure(topic, 1)
        first = transport.identity(topic)
        transport.append([make(0)])
        assert transport.ensure(topic, 2) == 2
        other = factory()
        assert first == transport.identity(topic) == other.identity(topic) != ""
        other.close()
        delete(topic)
        with pytest.raises(TransportError, match=re.escape(repr(topic))):
            transport.read(topic, 0, 1)
        again = factory()
        again.ensure(topic, 1)
        assert again.identity(topic) != first
        again.append([make(n) for n in range(5)])
        again.close()

    def test_a_reader_far_behind_reads_everything_again(
        self, transport: Transport, factory: Factory, topic: str, make: Make
    ) -> None:
        transport.ensure(topic, 1)
        for start in range(0, 5000, 500):
            transport.append([make(n) for n in range(start, start + 500)])
        late, offset, seen = factory(), 0, []
        while records := late.read(topic, 0, offset, limit=700):
            seen += [r.seq for r in records]
            offset = records[-1].offset + 1
        late.close()
        assert seen == list(range(5000))

    def test_topics_grow_and_never_shrink(self, transport: Transport, topic: str, make: Make) -> None:
        assert transport.partitions(topic) == 0
        assert transport.ensure(topic, 2) == 2
        transport.append([make(1, 1)])
        assert transport.ensure(topic, 4) == 4
        assert transport.ensure(topic, 1) == 4
        assert transport.partitions(topic) == 4
        assert transport.end_offsets(topic) == {0: 0, 1: 1, 2: 0, 3: 0}

    def test_topics_do_not_mix(self, transport: Transport, topic: str, make: Make) -> None:
        other = f"{topic}.s/../T x%"
        transport.ensure(topic, 1)
        transport.ensure(other, 1)
        transport.append([make(1, topic=other), make(2)])
        assert [r.seq for r in transport.read(other, 0, 0)] == [1]
        assert [r.seq for r in transport.read(topic, 0, 0)] == [2]

    def test_what_is_not_there_is_named(self, transport: Transport, topic: str, make: Make) -> None:
        transport.ensure(topic, 2)
        for call in (
            lambda: transport.read("Nope", 0, 0),
            lambda: transport.end_offsets("Nope"),
            lambda: transport.append([make(1, topic="Nope")]),
        ):
            with pytest.raises(TransportError, match="'Nope'"):
                call()
        with pytest.raises(TransportError, match="partitions 0 to 1, not 2"):
            transport.read(topic, 2, 0)
        with pytest.raises(TransportError, match="partitions 0 to 1, not -1"):
            transport.append([make(1, -1)])
        with pytest.raises(TransportError, match="cannot be the name"):
            transport.ensure("", 1)
        with pytest.raises(TransportError, match="cannot have 0 partitions"):
            transport.ensure("T", 0)

    def test_an_append_that_fails_appends_nothing(self, transport: Transport, topic: str, make: Make) -> None:
        transport.ensure(topic, 2)
        with pytest.raises(TransportError):
            transport.append([make(1), make(2, 7)])
        with pytest.raises(TransportError):
            transport.append([make(1), make(2, topic="Nope")])
        assert transport.end_offsets(topic) == {0: 0, 1: 0}

    def test_several_processes_append_at_once(self, transport: Transport, factory: Factory, topic: str) -> None:
        transport.ensure(topic, 2)
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=append_many, args=(factory, topic, f"p{n}", 40)) for n in range(3)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
            assert writer.exitcode == 0
        for partition in (0, 1):
            records = transport.read(topic, partition, 0)
            assert [r.offset for r in records] == list(range(120))
            for producer in ("p0", "p1", "p2"):
                assert [r.seq for r in records if r.producer == producer] == list(range(40))

    def test_another_opener_sees_what_was_appended(
        self, transport: Transport, factory: Factory, topic: str, make: Make
    ) -> None:
        transport.ensure(topic, 1)
        transport.append([make(1)])
        other = factory()
        assert [r.seq for r in other.read(topic, 0, 0)] == [1]
        other.append([make(2)])
        other.close()
        assert [r.seq for r in transport.read(topic, 0, 0)] == [1, 2]

    def test_several_threads_append_through_one_transport(
        self, transport: Transport, factory: Factory, topic: str
    ) -> None:
        transport.ensure(topic, 2)
        share = functools.partial(append_many, lambda: Shared(transport), topic)
        threads = [threading.Thread(target=share, args=(f"p{n}", 20)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        records = transport.read(topic, 1, 0)
        assert len(records) == 60
        for producer in ("p0", "p1", "p2"):
            assert [r.seq for r in records if r.producer == producer] == list(range(20))

    def test_topics_grow_under_several_hands(self, factory: Factory, topic: str) -> None:
        wanted = [3, 5, 2, 4]
        grown: list[int] = []

        def grow(partitions: int) -> None:
            transport = factory()
            grown.append(transport.ensure(topic, partitions))
            transport.close()

        threads = [threading.Thread(target=grow, args=(partitions,)) for partitions in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        last = factory()
        assert last.partitions(topic) == 5
        assert len(grown) == 4
        assert set(last.end_offsets(topic)) == set(range(5))
        last.close()

    def test_after_a_writer_is_killed_the_same_ids_complete_its_batch(
        self, transport: Transport, topic: str, eventually: Callable[..., object]
    ) -> None:
        transport.ensure(topic, 2)
        command = [sys.executable, "-c", ENDLESS, pickle.dumps(transport).hex(), topic]
        writer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        try:
            eventually(lambda: transport.end_offsets(topic)[1] > 25, "the writer has begun")
        finally:
            writer.kill()
            printed, _ = writer.communicate()
        confirmed = int(printed.split()[-1])
        came = [whole_partition(transport, topic, p) for p in range(2)]
        for records in came:
            # No record without those before it, and nothing that was confirmed is missing.
            assert [r.seq for r in records] == list(range(len(records)))
            assert len(records) >= confirmed
        again = [Record(topic, p, b"x" * 3000, 1, "p", n) for n in range(confirmed, confirmed + 8) for p in range(2)]
        transport.append(again)
        for partition in range(2):
            repeats, seen = Repeats(), []
            for one in whole_partition(transport, topic, partition):
                if not repeats.fresh(one):
                    seen.append(one.seq)
            assert seen == list(range(max(confirmed + 8, len(came[partition]))))

    def test_large_records_and_many_at_once_keep_their_order(self, transport: Transport, topic: str) -> None:
        transport.ensure(topic, 1)
        large = bytes(range(256)) * 3000
        records = [Record(topic, 0, large if n % 7 == 0 else b"small", 1, "p", n) for n in range(50)]
        transport.append(records)
        came = whole_partition(transport, topic)
        assert [r.seq for r in came] == list(range(50))
        assert came[49].value == large

    def test_after_close_the_next_call_works(self, transport: Transport, topic: str, make: Make) -> None:
        transport.ensure(topic, 1)
        transport.close()
        transport.append([make(1)])
        transport.close()
        transport.close()
        assert transport.end_offsets(topic) == {0: 1}

    def test_a_call_that_a_close_interrupts_ends(self, transport: Transport, topic: str, make: Make) -> None:
        """A group that is killed closes the transport while its sources still use it."""
        transport.ensure(topic, 1)
        transport.append([make(number) for number in range(200)])
        ended, failed = threading.Event(), list[BaseException]()

        def read() -> None:
            while not ended.is_set():
                try:
                    transport.read(topic, 0, 0)
                except TransportUnavailableError:
                    pass
                except BaseException as error:
                    failed.append(error)
                    return

        threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            ended.wait(0.03)
            transport.close()
        ended.set()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert not failed
        assert len(transport.read(topic, 0, 0)) == 200

    def test_an_append_of_nothing_is_nothing(self, transport: Transport) -> None:
        transport.append([])


class Shared:
    """A transport that threads share: closing it is left to its owner."""

    def __init__(self, transport: Transport) -> None:
        self.append = transport.append

    def close(self) -> None:
        pass


class ServerContract(TransportContract):
    """What transports promise whose topics a server keeps. Subclasses give `mortal`, a server of the class's own."""

    @pytest.fixture(scope="class")
    def mortal(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
        raise NotImplementedError

    @pytest.fixture
    def opened(self, mortal: Service) -> Callable[[int], Transport]:
        """``opened(patience_ms)``: a transport to `mortal`."""
        raise NotImplementedError

    def test_a_server_that_comes_back_has_everything_and_waiting_appends_arrive(
        self, mortal: Service, opened: Callable[[int], Transport], topic: str, make: Make
    ) -> None:
        transport = opened(60_000)
        transport.ensure(topic, 1)
        transport.append([make(n) for n in range(10)])
        mortal.kill()
        waiting = threading.Thread(target=transport.append, args=([make(n) for n in range(10, 20)],))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        mortal.start()
        waiting.join(60)
        assert not waiting.is_alive()
        assert [r.seq for r in transport.read(topic, 0, 0)] == list(range(20))
        assert transport.partitions(topic) == 1
        transport.close()

    def test_a_server_that_stays_away_is_said_and_the_same_append_is_good_later(
        self, mortal: Service, opened: Callable[[int], Transport], topic: str, make: Make
    ) -> None:
        transport = opened(1500)
        transport.ensure(topic, 1)
        transport.append([make(0)])
        assert transport.read(topic, 0, 0)
        mortal.stop()
        try:
            for call in (
                lambda: transport.append([make(1), make(2)]),
                lambda: transport.read(topic, 0, 0),
                lambda: transport.end_offsets(topic),
                lambda: transport.ensure(topic, 2),
                lambda: opened(300).partitions(topic),
            ):
                with pytest.raises(TransportUnavailableError) as caught:
                    call()
                assert str(mortal.port) in str(caught.value)
                assert caught.value.hint
        finally:
            mortal.start()
        patient = opened(30_000)
        patient.append([make(1), make(2)])
        repeats = Repeats()
        fresh = [r.seq for r in whole_partition(patient, topic) if not repeats.fresh(r)]
        assert fresh == [0, 1, 2]
        patient.close()
        transport.close()
