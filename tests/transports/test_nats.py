"""Topics in a real NATS server keep the contract of a transport."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import nats
import nats.errors
import pytest

from spdist.errors import TransportError, TransportUnavailableError
from spdist.language.types import Schema
from spdist.services.nats import NatsServer
from spdist.services.process import HOST, free_port
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.nats import transport as nats_transport
from spdist.transports.nats.settings import NatsSettings
from spdist.transports.nats.transport import NatsTransport, stream_name, subject_of
from spdist.transports.payloads.external import is_marked, read_marked
from tests.transports.deleting import delete_topic
from tests.transports.transport_contract import Delete, Factory, Make, ServerContract


def on_server(server: NatsServer, act: Callable[[Any], Any]) -> Any:
    """Do something with the server as somebody else would."""

    async def run() -> Any:
        client = await nats.connect(server.url)
        try:
            return await act(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


class TestNatsTransport(ServerContract):
    @pytest.fixture
    def factory(self, nats_server: NatsServer) -> Factory:
        return functools.partial(NatsTransport, NatsSettings(nats_server.url))

    @pytest.fixture
    def delete(self, nats_server: NatsServer) -> Delete:
        return functools.partial(delete_topic, "nats", nats_server.url, partitions=2)

    @pytest.fixture(scope="class")
    def mortal(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
        with NatsServer(tmp_path_factory.mktemp("mortal")) as server:
            yield server

    @pytest.fixture
    def opened(self, mortal: NatsServer) -> Callable[[int], Transport]:
        return lambda patience_ms: NatsTransport(NatsSettings(mortal.url, patience_ms=patience_ms))

    def test_others_see_the_subject_and_the_headers(
        self, transport: NatsTransport, topic: str, nats_server: NatsServer
    ) -> None:
        transport.ensure(topic, 2)
        transport.append([Record(topic, 1, b"payload", 3, "prö", 7, 5000)])
        message = on_server(nats_server, lambda js: js.get_msg(stream_name(topic, 1), 1))
        assert message.subject == f"spdist.{topic}.1"
        assert message.data == b"payload"
        headers = {key: value for key, value in message.headers.items() if key.startswith("spdist")}
        assert headers == {
            "spdist-producer": "pr%C3%B6",
            "spdist-seq": "7",
            "spdist-count": "3",
            "spdist-clock": "5000",
        }
        assert transport.read(topic, 1, 0)[0].producer == "prö"

    def test_outsiders_send_to_subjects_of_their_own(
        self, transport: NatsTransport, topic: str, nats_server: NatsServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        name = topic.replace(".", "_")
        transport.ensure(topic, 2)
        for _ in range(2):
            assert transport.ensure(topic, 2, [f"{name}_k_0", f"{name}_k_1"]) == 2
        on_server(nats_server, lambda js: js.publish(f"{name}_k_1", b"<events/>"))
        assert transport.end_offsets(topic) == {0: 0, 1: 1}
        assert transport.read(topic, 1, 0)[0].value.endswith(b"<events/>")
        assert transport.ensure(topic, 1, ["a", "b", "c"]) == 2
        assert transport.ensure(f"{topic}-other", 3, [f"{name}_k_0", "not a subject", "$SYS.a"]) == 3
        assert f"feed topic '{topic}-other' by the subject 'spdist.{topic}-other.0'" in caplog.text
        assert on_server(nats_server, lambda js: js.stream_info(stream_name(f"{topic}-other", 1))).config.subjects == [
            subject_of(f"{topic}-other", 1)
        ]

    def test_the_server_drops_an_append_that_is_tried_again_and_nothing_else(
        self, transport: NatsTransport, topic: str, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        transport.ensure(topic, 1)
        put, fails = nats_transport._put, [True]

        async def unheard(*args: Any) -> None:
            await put(*args)
            if fails:
                fails.pop()
                raise nats.errors.TimeoutError  # the server has it, and its answer was lost

        monkeypatch.setattr(nats_transport, "_put", unheard)
        transport.append([make(1), make(2)])
        assert not fails
        # Whoever reads it again drops it; one that went back to a revision does not.
        transport.append([make(1), make(2), make(3)])
        assert [r.seq for r in transport.read(topic, 0, 0)] == [1, 2, 1, 2, 3]
        outsider = Record(topic, 0, b"same", 1)
        transport.append([outsider, outsider])
        assert len(transport.read(topic, 0, 0)) == 7

    def test_messages_of_outsiders_and_nonsense_in_headers_are_payloads(
        self, transport: NatsTransport, topic: str, nats_server: NatsServer
    ) -> None:
        transport.ensure(topic, 1)

        async def publish(js: Any) -> None:
            await js.publish(subject_of(topic, 0), b'{"event":{"a":1}}')
            wrong = {"spdist-producer": "p", "spdist-seq": "-1", "spdist-count": "1", "spdist-clock": "0"}
            await js.publish(subject_of(topic, 0), b"\xff", headers=wrong)

        on_server(nats_server, publish)
        began_ms = int(time.time() * 1000)
        records = transport.read(topic, 0, 0)
        assert [(r.count, r.producer, r.clock, r.offset) for r in records] == [
            (1, "", NO_CLOCK, 0),
            (1, "", NO_CLOCK, 1),
        ]
        assert all(is_marked(r.value) for r in records)
        (chunk,) = read_marked(Schema.of([("a", "int")]), records[0].value, lambda _: pytest.fail("nothing is lost"))
        assert abs(chunk[0] - began_ms) < 60_000

    def test_records_that_were_deleted_are_said_and_not_skipped(
        self, transport: NatsTransport, topic: str, make: Make, nats_server: NatsServer
    ) -> None:
        transport.ensure(topic, 1)
        transport.append([make(n) for n in range(10)])
        on_server(nats_server, lambda js: js.purge_stream(stream_name(topic, 0), seq=7))
        with pytest.raises(TransportError, match="records 3 to 5 were deleted"):
            transport.read(topic, 0, 3)
        assert [r.offset for r in transport.read(topic, 0, 6)] == [6, 7, 8, 9]
        assert [r.offset for r in transport.read(topic, 0, 0)] == [6, 7, 8, 9]
        on_server(nats_server, lambda js: js.delete_msg(stream_name(topic, 0), 9))
        assert [r.offset for r in transport.read(topic, 0, 6)] == [6, 7, 9]
        assert transport.end_offsets(topic) == {0: 10}

    def test_what_was_deleted_of_a_topic_is_made_anew(
        self, transport: NatsTransport, topic: str, nats_server: NatsServer
    ) -> None:
        for gone in ([], [0, 1, 2], [0], [1]):
            for partition in gone:
                name = stream_name(topic, partition)
                on_server(nats_server, functools.partial(lambda name, js: js.delete_stream(name), name))
            assert transport.partitions(topic) == min(gone, default=0)
            assert transport.ensure(topic, 3) == 3
            other = NatsTransport(transport.settings)
            assert other.partitions(topic) == 3
            other.close()

    def test_a_record_that_is_too_large_is_refused_before_anything_is_sent(
        self, transport: NatsTransport, topic: str, make: Make
    ) -> None:
        transport.ensure(topic, 1)
        with pytest.raises(TransportError, match="larger than this NATS server takes") as caught:
            transport.append([make(1), Record(topic, 0, bytes(2 * 1024 * 1024), 1, "p", 2)])
        assert "max_payload" in str(caught.value.hint)
        assert transport.end_offsets(topic) == {0: 0}


def test_a_password_is_asked_for_and_not_shown(
    tmp_path: Any,
) -> None:
    settings = 'authorization { user: "ann", password: "s3cret" }'
    with NatsServer(tmp_path, settings=settings) as server:
        right = NatsTransport(NatsSettings(server.url, username="ann", password="s3cret"))
        assert right.ensure("T", 1) == 1
        right.close()
        wrong = NatsSettings(server.url, username="ann", password="other")
        assert "other" not in repr(wrong)
        transport = NatsTransport(wrong)
        with pytest.raises(TransportError, match="refuses") as caught:
            transport.partitions("T")
        assert "other" not in str(caught.value)
        assert not isinstance(caught.value, TransportUnavailableError)
        transport.close()


def test_nobody_there_is_said_with_what_to_do() -> None:
    transport = NatsTransport(NatsSettings(f"nats://{HOST}:{free_port()}", patience_ms=300))
    with pytest.raises(TransportUnavailableError, match="does not answer") as caught:
        transport.partitions("T")
    assert "running" in str(caught.value.hint)
    transport.close()


@pytest.mark.parametrize(
    ("topic", "subject"),
    [("App.S", "spdist.App.S.0"), ("A..S", "spdist.A-u2e--u2e-S.0"), ("a *>", "spdist.a-u20--u2a--u3e-.0")],
)
def test_names_in_nats(topic: str, subject: str) -> None:
    assert subject_of(topic, 0) == subject
