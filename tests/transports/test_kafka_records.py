"""Records of Kafka's batches: the clients read back what was written."""

from __future__ import annotations

import asyncio
import random
import threading
from functools import partial
from importlib import import_module
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import OutOfOrderSequenceNumber, PolicyViolationError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords as OtherRecords

from spdist.connectors.kafka import records
from spdist.connectors.kafka.compression import Compression
from spdist.connectors.kafka.records import OutgoingMessages, PartitionMessages, SentBatch, batches, octets
from spdist.connectors.kafka.sink import KafkaWriter, _Produce, _Records
from spdist.errors import TransportError
from spdist.mapping.json_columns import FEW
from spdist.mapping.kernels import Kernels

#: Properties of producers.
_COMPRESSIONS = [
    *({"compression.type": name} for name in ("none", "gzip", "snappy", "lz4", "zstd")),
    *({"compression.type": name, f"compression.{name}.level": "1"} for name in ("gzip", "lz4", "zstd")),
    {"compression.type": "lz4", "compression.lz4.level": "17"},
    {"compression.type": "zstd", "compression.zstd.level": "-5"},
]


def kernels(compiled: bool) -> Kernels:
    """What puts records together: the loop, or Arrow."""
    loaded = Kernels(records._compiled if compiled else partial(import_module, "none"), "")
    loaded.load()
    assert (loaded.loops is not None) == compiled
    return loaded


@pytest.fixture(params=["arrow", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How records are put together."""
    monkeypatch.setattr(records, "_KERNELS", kernels(request.param == "compiled"))
    return str(request.param)


def built(batch: SentBatch) -> bytes:
    records = _Records(batch)
    records._set_producer_state(7, 1, 40)
    assert records.record_count() == batch.count
    return b"".join(records._build())


def compressed(batch: SentBatch, properties: dict[str, str]) -> SentBatch:
    asked = Compression.of(properties)
    return batch if asked is None else asked.compressed(batch)


def squeezed(text: bytes, **properties: str) -> SentBatch:
    asked = {f"compression.{name.replace('_', '.')}": value for name, value in properties.items()}
    return compressed(SentBatch(0, 1, memoryview(text)), asked)


def read(batch: SentBatch) -> list[tuple[int, bytes | None, bytes, list[Any]]]:
    whole = built(batch)
    (found,) = [MemoryRecords(whole).next_batch()]
    assert found.validate_crc()
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 1, 40)
    each = [(one.offset, one.key, one.value, one.headers) for one in found]
    again = OtherRecords(whole).next_batch()
    assert again is not None
    assert each == [(one.offset, one.key, one.value, one.headers) for one in again]
    return each


def listed(parts: list[PartitionMessages], limit: int, compiled: bool) -> list[tuple[int, int, bytes]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(records, "_KERNELS", _WAYS[compiled])
        return [(one.begin, one.count, bytes(one.records)) for one in batches(parts, limit)]


#: By whether they are compiled.
_WAYS = {compiled: kernels(compiled) for compiled in (False, True)}
_values = st.one_of(st.binary(max_size=80), st.integers(0, 40_000).map(lambda size: b"v" * size))
_numbers = st.one_of(
    st.builds(lambda first, count: range(first, first + count), st.integers(0, 2**62), st.integers(1, 40)),
    st.builds(lambda first, count: range(first, first + count), st.sampled_from([0, 990, 999_990]), st.just(40)),
    st.lists(st.integers(0, 10**7), min_size=1, max_size=40).map(sorted),
)


@st.composite
def _messages(draw: st.DrawFn) -> OutgoingMessages:
    numbers = draw(_numbers)
    values = draw(st.lists(_values, min_size=len(numbers), max_size=len(numbers)))
    key = draw(st.sampled_from([None, b"", b"k", b"\xff" * 300]))
    source = draw(st.sampled_from([b"A-1#0:", "Ä:".encode(), b"a" * 70 + b":"]))
    return OutgoingMessages("t", None, key, values, source, numbers, 3)


@settings(deadline=None)
@given(
    st.lists(_messages(), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 5000),
    st.sampled_from(_COMPRESSIONS),
)
def test_clients_read_what_was_written(
    some: list[OutgoingMessages], step: int, limit: int, compression: dict[str, str]
) -> None:
    parts, expected, start = [], [], 0
    for one in some:
        places = range(step - 1, len(one.values), step)
        parts += [PartitionMessages(one, start, places)] if places else []
        expected += [(start + n, one.key, one.values[n], b"%b%d" % (one.source, one.numbers[n])) for n in places]
        start += len(one.values)
    sent = [listed(parts, limit, compiled) for compiled in (False, True)]
    assert sent[0] == sent[1]
    found = []
    for batch in batches(parts, limit):
        assert batch.begin == expected[len(found)][0]
        each = read(compressed(batch, compression))
        assert [offset for offset, *_ in each] == list(range(batch.count))
        assert batch.count == 1 or len(built(batch)) <= limit
        found += [(key, value, headers) for _, key, value, headers in each]
    assert found == [(key, value, [("spdist-id", id)]) for _, key, value, id in expected]


def test_what_compression_does_not_make_smaller_stays_as_it_is() -> None:
    noise = random.Random(7).randbytes(5000)
    for name, number in (("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)):
        assert squeezed(noise, type=name) == SentBatch(0, 1, memoryview(noise))
        assert squeezed(b"ab" * 5000, type=name).codec == number


def test_a_higher_level_makes_less_of_it() -> None:
    text = b"".join(b'{"event":{"symbol":"S%d","price":%d}}' % (n % 90, n * n % 9973) for n in range(3000))
    for name, least, highest in (("gzip", "1", "9"), ("lz4", "9", "12"), ("zstd", "-5", "19")):
        sizes = [len(squeezed(text, type=name, **{f"{name}_level": level}).records) for level in (least, highest)]
        assert sizes[1] < 0.95 * sizes[0], (name, sizes)
    # Of lz4 the usual level is the fast one, as Java's clients have it.
    usual = squeezed(text, type="lz4").records
    assert usual == squeezed(text, type="lz4", lz4_level="9").records != squeezed(text, type="lz4", lz4_level="8")


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"type": "lzo"}, "compression.type must be none, gzip, snappy, lz4, zstd, not 'lzo'"),
        ({"type": "gzip", "gzip_level": "10"}, "compression.gzip.level must be a whole number from 1 to 9, not '10'"),
        ({"type": "lz4", "lz4_level": "0"}, "compression.lz4.level must be a whole number from 1 to 17, not '0'"),
        ({"type": "zstd", "zstd_level": "high"}, "compression.zstd.level must be .* from -131072 to 22, not 'high'"),
    ],
)
def test_a_codec_or_level_that_is_not_there_is_refused(properties: dict[str, str], told: str) -> None:
    with pytest.raises(TransportError, match=told):
        squeezed(b"", **properties)


def test_the_loop_is_compiled_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for count in (FEW - 1, FEW):
        asked: list[int] = []
        monkeypatch.setattr(records, "_KERNELS", Kernels(partial(asked.append, 1), ""))
        messages = OutgoingMessages("t", 0, None, ["v"] * count, b"A-1#0:", range(count), 0)
        assert sum(one.count for one in batches([PartitionMessages(messages, 0, range(count))], 1 << 20)) == count
        loading = records._KERNELS._loading
        if loading is not None:
            loading.join()
        assert bool(asked) == (count == FEW)


@pytest.mark.usefixtures("way")
def test_few_batches_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large messages are, so that the first are sent while the others are made."""
    taken: list[int] = []

    class Values(list[bytes]):
        def __getitem__(self, place: Any) -> Any:
            taken.append(sum(map(len, super().__getitem__(place))))
            return super().__getitem__(place)

    for size in (10, 1000, 50_000):
        taken.clear()
        values = Values([b"v" * size] * 20_000)
        whole = PartitionMessages(OutgoingMessages("t", 0, None, values, b"A-1#0:", range(20_000), 0), 0, range(20_000))
        limit, count = 100_000, 0
        made = batches([whole], limit)
        first = next(made)
        assert len(taken) == 1
        for one in made:
            count += one.count
            assert len(taken) > 1 or count < 1024
        assert first.count + count == 20_000
        assert max(taken[1:]) < 4 * limit
        assert min(taken[1:-1]) > limit


@pytest.mark.usefixtures("way")
def test_batches_are_full_but_for_the_last_of_those_made_together() -> None:
    values = [f"n{n}" * (n % 30) for n in range(60_000)]
    whole = PartitionMessages(OutgoingMessages("t", 0, None, values, b"A-1#0:", range(60_000), 0), 0, range(60_000))
    for limit in (20_000, 1 << 18, 1 << 20):
        sent = list(batches([whole], limit))
        full = [one.count == 1 << 14 or 61 + len(one.records) + 8 * one.count > limit - 1000 for one in sent]
        assert sum(full) > 0.7 * len(sent) - 3
        assert len(sent) <= 1.2 * sum(len(one.records) for one in sent) / limit + 3
        assert [one.begin for one in sent] == [0, *accumulate(one.count for one in sent)][:-1]


def test_batches_are_made_while_those_before_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 5
    made: list[Any] = []
    on_their_way: list[asyncio.Future[None]] = []
    changed = threading.Condition()

    class Values(list[bytes]):
        def __getitem__(self, place: Any) -> Any:
            with changed:
                made.append(place)
                changed.notify_all()
            return super().__getitem__(place)

    class Producer:
        async def send_batch(self, one: Any, _topic: str, partition: int) -> asyncio.Future[None]:
            assert (one.record_count(), partition) == (1, 0)
            # The client has one more to send when it hears of the one before; and brokers the first of a producer.
            assert [sent.done() for sent in on_their_way[:-1]] == [True] * len(on_their_way[:-1])
            assert len(on_their_way) != 1 or on_their_way[0].done()
            loop = asyncio.get_running_loop()
            with changed:
                on_their_way.append(loop.create_future())
                changed.notify_all()
            self.confirming = loop.create_task(self.confirmed(on_their_way[-1], len(on_their_way)))
            return on_their_way[-1]

        async def confirmed(self, sent: asyncio.Future[None], number: int) -> None:
            if await asyncio.to_thread(self.is_ahead, number):
                sent.set_result(None)
            else:
                sent.set_exception(AssertionError(f"{len(made)} are made while the one with number {number} is sent"))

        def is_ahead(self, number: int) -> bool:
            """Wait until the client has one more, but for the first, and another one is made."""
            sent, ready = min(number + (number > 1), count), min(number + 2, count)
            with changed:
                return changed.wait_for(lambda: len(on_their_way) >= sent and len(made) >= ready, 10)

    messages = OutgoingMessages("t", 0, None, Values([b"v" * 100] * count), b"A-1#0:", range(count), 0)
    monkeypatch.setattr(records, "_FIRST", 1)
    writer: Any = SimpleNamespace(_limit=150, _compression=None)
    parts = [PartitionMessages(messages, 0, range(count))]
    monkeypatch.setattr(records, "_TOGETHER", 1.0)
    assert asyncio.run(KafkaWriter._write(writer, Producer(), "t", 0, parts)) is None  # type: ignore[arg-type]
    assert len(on_their_way) == len(made) == count


@pytest.mark.parametrize("refused", range(5))
def test_what_follows_a_batch_that_is_refused_is_not_there(refused: int) -> None:
    """Also where the client has it already; what a broker took before is."""
    sent: list[int] = []

    class Producer:
        async def send_batch(self, one: Any, _topic: str, partition: int) -> asyncio.Future[None]:
            number, told = len(sent), asyncio.get_running_loop().create_future()
            sent.append(number)

            async def answer() -> None:
                if number < refused:
                    told.set_result(None)
                else:
                    told.set_exception(PolicyViolationError() if number == refused else OutOfOrderSequenceNumber())

            self.answering = asyncio.create_task(answer())
            return asyncio.shield(told)

    messages = OutgoingMessages("t", 0, None, [b"v" * 100] * 5, b"A-1#0:", range(5), 0)
    writer: Any = SimpleNamespace(_limit=150, _compression=None)
    writer._judged = partial(KafkaWriter._judged, writer)
    parts = [PartitionMessages(messages, 0, range(5))]
    found = asyncio.run(KafkaWriter._write(writer, Producer(), "t", 0, parts))  # type: ignore[arg-type]
    assert found is not None
    assert found[0] == refused
    assert "PolicyViolationError" in str(found[1])
    assert max(sent) <= max(refused, 1 if refused else 0) + 1
    assert refused or sent == [0]


class Connection:
    """What a client writes to a broker."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        self.written += data


@pytest.mark.parametrize("compression", _COMPRESSIONS)
@pytest.mark.parametrize("transaction", [None, "t-1"])
def test_a_request_is_what_the_client_would_send(compression: dict[str, str], transaction: str | None) -> None:
    values = [b"v" * size for size in range(300)]
    whole = PartitionMessages(OutgoingMessages("t", 0, None, values, b"A-1#0:", range(300), 0), 0, range(300))
    made = [_Records(compressed(one, compression))._build() for one in batches([whole], 20_000)]
    assert len(made) > 2

    def topics(of: Any) -> Any:
        return [("t", [(0, of(made[0])), (1, of(made[1]))]), ("Ä", [(7, of(made[2]))])]

    async def written(request: ProduceRequest) -> bytes:
        connection = AIOKafkaConnection("h", 1, client_id="me")
        connection._versions = {ProduceRequest.API_KEY: (3, 7)}
        connection._writer = writer = Connection()
        connection.send(request).close()
        return writer.written

    theirs = ProduceRequest(transaction, -1, 5000, topics(b"".join))
    ours = _Produce.of(ProduceRequest(transaction, -1, 5000, topics(tuple)))
    assert asyncio.run(written(ours)) == asyncio.run(written(theirs))


@pytest.mark.parametrize(
    "payloads", [["a", "ä\n"], ["ä", "😀"], ["a", b"\xff"], ["a\n", "b"], [{"k": "ä"}], ["\x80ÿ"], ["a\ud800", "b"], []]
)
def test_octets_are_the_bytes_of_payloads(payloads: list[Any]) -> None:
    bytes_of = [one if isinstance(one, bytes) else str(one).replace("\ud800", "?").encode() for one in payloads]
    assert octets(payloads).to_pylist() == bytes_of
