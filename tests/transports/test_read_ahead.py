"""Reading ahead tells sizes first, and gives exactly what is there."""

from __future__ import annotations

from pathlib import Path

from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from spdist.transports.read_ahead import ReadAhead
from tests.transports.transport_contract import record


class Holey:
    """A transport whose partition has holes: only even offsets, and nothing before 4."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.reads = 0

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        self.reads += 1
        kept = [n for n in range(max(offset, 4), self.end) if n % 2 == 0]
        return [Record(topic, partition, b"xx", 1, "p", n, 0, n) for n in kept[:limit]]


def test_sizes_are_those_of_the_log(tmp_path: Path) -> None:
    log = LogTransport(tmp_path)
    log.ensure("A.S", 2)
    log.append([record(n, n % 2) for n in range(900)])
    ahead = ReadAhead(log)
    offset, seen = 0, []
    while sizes := ahead.sizes("A.S", 1, offset, 77):
        assert sizes == log.sizes("A.S", 1, offset, 77)[: len(sizes)]
        seen += ahead.read("A.S", 1, offset, len(sizes))
        offset += len(sizes)
    assert seen == log.read("A.S", 1, 0)
    # Another batch of the past, and one that was never looked at.
    assert ahead.read("A.S", 1, 3, 5) == log.read("A.S", 1, 3, 5)
    assert ahead.sizes("A.S", 1, 3, 5) == log.sizes("A.S", 1, 3, 5)
    assert ahead.read("A.S", 0, 3, 5) == log.read("A.S", 0, 3, 5)
    log.append([record(1, 1)])
    assert ahead.sizes("A.S", 1, offset) == [(1, 7)]


def test_a_batch_may_be_taken_twice(tmp_path: Path) -> None:
    log = LogTransport(tmp_path)
    log.ensure("A.S", 1)
    log.append([record(n) for n in range(10)])
    ahead = ReadAhead(log)
    ahead.sizes("A.S", 0, 0)
    assert ahead.read("A.S", 0, 0, 4) == ahead.read("A.S", 0, 0, 4) == log.read("A.S", 0, 0, 4)
    assert [r.offset for r in ahead.read("A.S", 0, 4, 6)] == list(range(4, 10))
    assert [r.offset for r in ahead.read("A.S", 0, 0, 4)] == list(range(4))


def test_holes_count_as_offsets_and_are_nothing() -> None:
    holey = Holey(end=9)
    ahead = ReadAhead(holey)  # type: ignore[arg-type]
    assert ahead.sizes("T", 0, 0) == [(0, 0)] * 4 + [(1, 2), (0, 0), (1, 2), (0, 0), (1, 2)]
    assert [r.offset for r in ahead.read("T", 0, 0, 9)] == [4, 6, 8]
    assert [r.offset for r in ahead.read("T", 0, 0, 5)] == [4]
    reads = holey.reads
    assert [r.offset for r in ahead.read("T", 0, 5, 4)] == [6, 8]
    assert holey.reads == reads
