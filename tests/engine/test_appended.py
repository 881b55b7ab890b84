"""What may have been appended is appended again only as far as its topic does not hold it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.island.cuts import Cut
from spdist.engine.spark.appended import not_appended
from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.base import NO_CLOCK, Record
from tests.engine.memory_transport import MemoryTransport

NEVER_BACK = Cut({}, -1, NO_CLOCK)


def record(seq: int, count: int = 1, partition: int = 0, producer: str = "App", clock: int | None = None) -> Record:
    return Record("T", partition, b"", count, producer, seq, 10 * (seq + count) if clock is None else clock)


def topic(*records: Record) -> MemoryTransport:
    transport = MemoryTransport()
    transport.ensure("T", 3)
    transport.append(records)
    return transport


def ids(transport: MemoryTransport) -> Counter[tuple[int, str, int]]:
    return Counter(
        (one.partition, one.producer, one.seq + n)
        for partition in transport.topics["T"]
        for one in partition
        for n in range(one.count)
    )


@given(
    counts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=20),
    earlier=st.integers(0, 3),
    came=st.tuples(*[st.integers(0, 20)] * 3),
    others=st.integers(0, 40),
)
def test_whatever_part_of_an_append_came_through_the_rest_completes_it(
    counts: list[tuple[int, int]], earlier: int, came: tuple[int, int, int], others: int
) -> None:
    # `earlier` is 0 where the first batch of all is the one that may have come through.
    records, numbers = [record(0, earlier, partition) for partition in range(3) if earlier], [earlier] * 3
    before = len(records)
    for count, partition in counts:
        records.append(record(numbers[partition], count, partition))
        numbers[partition] += count
    again = records[before:]
    transport = topic(*records[:before])
    for partition, many in enumerate(came):
        transport.append([one for one in again if one.partition == partition][:many])
    transport.append([record(n, 1, n % 3, "another") for n in range(others)])
    missing = not_appended(transport, again, {"App": NEVER_BACK})
    assert not not_appended(topic(*records), again, {"App": NEVER_BACK})
    transport.append(missing)
    there = {place: times for place, times in ids(transport).items() if place[1] == "App"}
    assert there == dict.fromkeys(ids(topic(*records)), 1)


def test_a_promise_is_made_again_only_where_it_was_not_made() -> None:
    transport = topic(record(0), record(1, 0, clock=50))
    promises = [record(1, 0, clock=50), record(1, 0, clock=60)]
    assert not_appended(transport, promises, {"App": NEVER_BACK}) == promises[1:]


def test_what_a_producer_that_went_back_puts_out_is_not_taken_for_what_it_had_put_out_before() -> None:
    transport = topic(record(0), record(1), record(2))
    origin = Cut({"T": (1, 0, 0)}, 0, NO_CLOCK)
    assert not_appended(transport, [record(1)], {"App": origin}) == [record(1)]
    # It has put out number 1 since: what follows is known to be of now.
    transport.append([record(1)])
    assert not_appended(transport, [record(2)], {"App": origin}) == [record(2)]
    transport.append([record(2)])
    assert not_appended(transport, [record(2)], {"App": origin}) == []


def test_others_are_left_alone_and_far_back_nobody_looks() -> None:
    again = [record(1), record(7, producer="unknown")]
    assert not_appended(topic(*again), again, {"App": NEVER_BACK}) == again[1:]
    far = topic(*again, *(record(n, producer="another") for n in range(4096)))
    assert not_appended(far, again, {"App": NEVER_BACK}) == again


def test_deleted_records_count_as_missing_and_a_server_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = topic(record(0), record(1), *(record(n, producer="another") for n in range(20)))

    def deleted(name: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        if offset < 10:
            raise TransportError("records were deleted")
        return transport.topics[name][partition][offset : offset + limit]

    monkeypatch.setattr(transport, "read", deleted)
    assert not_appended(transport, [record(1)], {"App": NEVER_BACK}) == [record(1)]

    def away(*_: object) -> list[Record]:
        raise TransportUnavailableError("no answer")

    monkeypatch.setattr(transport, "read", away)
    with pytest.raises(TransportUnavailableError):
        not_appended(transport, [record(1)], {"App": NEVER_BACK})
