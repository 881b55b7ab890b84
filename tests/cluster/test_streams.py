"""Events of streams over REST: fed and read through real managers, each once, whatever is repeated or fails over."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.clients import requests
from spdist.cluster.clients.calling import Caller
from spdist.cluster.clients.client import LOOK_S, ClusterClient
from spdist.cluster.clients.client_async import AsyncClusterClient
from spdist.cluster.clients.feeding import FeedState
from spdist.cluster.manager import Manager
from spdist.cluster.managers.streams import StreamAccess
from spdist.cluster.protocol.cursors import read_cursor, write_cursor
from spdist.cluster.protocol.rows import from_json_row, to_json_row
from spdist.config import load_config
from spdist.errors import ClusterError, MappingError, NotFoundError, UnauthorizedError
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.transports.base import Record
from spdist.transports.feed import Feed
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload
from spdist.transports.reading import PartitionPosition, ProducerState
from tests.cluster.shells import CONF, PASSWORD, manager_config, settings, with_users

Eventually = Callable[..., Any]

TEXT = """@app:name('Trades') @app:playback
define stream Trades (symbol string, price double);
@sink(type='embedded', topic='Trades.Alerts')
define stream Alerts (symbol string, price double);
@dist(execGroup='g', parallel='2')
partition with (symbol of Trades) begin from Trades[price > 10.0] select symbol, price insert into Alerts; end;
from Alerts select symbol insert into Inner;
"""
SCHEMA = Schema.of([("symbol", "string"), ("price", "double")])
EVENTS = "/siddhi-apps/Trades/streams/Trades/events"


def trades(count: int, start: int = 0) -> list[tuple[int, tuple[str, float]]]:
    return [(1000 + n, (f"s{n % 7}", float(n))) for n in range(start, start + count)]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    home = tmp_path_factory.mktemp("home")
    path = with_users(home, CONF / "manager.yaml", {"vera": "viewer"})
    manager = Manager(load_config(path, role="manager", environment=settings(home, "manager-1")))
    manager.start()
    yield manager
    manager.stop()


@pytest.fixture
def log(manager: Manager) -> Iterator[LogTransport]:
    log = LogTransport(manager.config.transports.log.directory)
    yield log
    log.close()


@pytest.fixture
def client(manager: Manager, eventually: Eventually) -> Iterator[ClusterClient]:
    """A client of a manager with the app, whose topics are empty."""
    eventually(manager.leads, "it leads")
    with ClusterClient([manager.url], "admin", PASSWORD) as client:
        client.deploy(TEXT)
        yield client
        client.deployment("Trades").undeploy(timeout_s=0)
        manager.streams.close()
        for file in Path(manager.config.transports.log.directory).glob("*.sqlite*"):
            file.unlink()


@pytest.fixture
def http(manager: Manager) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=manager.url, auth=("admin", PASSWORD), trust_env=False) as http:
        yield http


# -------------------------------------------------------------------------------------------------------------- feeding
def test_what_is_fed_over_rest_is_what_a_feed_at_the_topics_sends(client: ClusterClient, log: LogTransport) -> None:
    feed = client.feed("Trades", "Trades", "one")
    assert feed.schema == SCHEMA
    assert feed.send(trades(30)) == 30
    feed.send(trades(5, 30))
    feed.advance(9000)
    assert feed.sent == 35
    (topic,) = {path.name.removesuffix(".sqlite") for path in log.directory.glob("*.sqlite")}
    log.ensure("Same", log.partitions(topic))
    near = Feed(log, "Same", SCHEMA, "one", "symbol")
    near.send(trades(30))
    near.send(trades(5, 30))
    near.advance(9000)

    def records(name: str) -> list[list[tuple[Any, ...]]]:
        return [
            [(r.producer, r.seq, r.count, r.clock, r.value) for r in log.read(name, part, 0)]
            for part in range(log.partitions(name))
        ]

    assert records(topic) == records("Same")
    assert client.read("Trades", "Trades") == trades(35)


def test_a_batch_that_is_sent_again_is_not_counted_twice(client: ClusterClient, http: httpx.Client) -> None:
    state = FeedState("Trades", "Trades", SCHEMA, "one")
    first, second = (state.batches(trades(10, start))[0] for start in (0, 10))
    for _ in range(2):
        answer = client.do(state.request(first))
        assert answer["accepted"] == 10
    state.answered(answer)
    for batch in (second[:4], second):  # also where it was cut elsewhere
        done = client.do(state.request(batch))
    state.answered(done)
    assert state.sent == 20
    assert client.read("Trades", "Trades") == trades(20)
    again = client.feed("Trades", "Trades", "one")
    again.send(trades(20))
    assert client.read("Trades", "Trades") == trades(20)


def test_events_without_a_producer_have_the_time_they_come_at(client: ClusterClient, http: httpx.Client) -> None:
    answer = http.post(EVENTS, json={"events": [{"data": ["IBM", 75]}, {"timestamp": 5, "data": ["IBM", None]}]})
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2})
    http.post(EVENTS, json={"events": [{"timestamp": 9, "data": ["X", 1.5]}]})
    rows = {row: ts for ts, row in client.read("Trades", "Trades")}
    assert rows[("IBM", 75.0)] > 1_700_000_000_000
    assert (rows[("IBM", None)], rows[("X", 1.5)]) == (5, 9)


def test_one_wrong_row_keeps_out_its_batch_and_all_wrong_ones_are_told(
    client: ClusterClient, http: httpx.Client
) -> None:
    rows = [["a", 1.0], ["b"], ["c", "dear"], ["d", 4], [5, 5.0]]
    answer = http.post(EVENTS, json={"events": [{"timestamp": 1, "data": row} for row in rows]})
    assert answer.status_code == 400
    assert [one["index"] for one in answer.json()["wrong"]] == [1, 2, 4]
    assert "event 2: the attribute price is of type double, 'dear' is not" in answer.json()["message"]
    assert client.read("Trades", "Trades") == []
    feed = client.feed("Trades", "Trades")
    with pytest.raises(MappingError, match=r"2 events do not fit .* event 1: .* event 2: "):
        feed.send([(1, ("a", 1.0)), (2, ("b", "x")), (3, ())])
    assert client.read("Trades", "Trades") == []


def test_values_come_by_their_names_too(client: ClusterClient, http: httpx.Client) -> None:
    events = [
        {"timestamp": 1, "event": {"price": 1, "symbol": "a"}},
        {"timestamp": 2, "data": ["b", 2]},
    ]
    assert http.post(EVENTS, json={"events": events}).json() == {"accepted": 2}
    assert client.read("Trades", "Trades") == [(1, ("a", 1.0)), (2, ("b", 2.0))]
    wrong = [{"event": {"symbol": "a"}}, {}, {"event": {"symbol": "a", "price": 1}, "data": ["a", 1]}]
    answer = http.post(EVENTS, json={"events": wrong})
    assert answer.status_code == 400
    assert [one["message"].partition(",")[0] for one in answer.json()["wrong"]] == [
        "it has the attributes (symbol)",
        "an event has its values in 'data' or in 'event'",
        "an event has its values in 'data' or in 'event'",
    ]


def test_a_number_that_no_real_is_near_is_refused(client: ClusterClient, http: httpx.Client) -> None:
    content = f'{{"events": [{{"data": ["a", 1{"0" * 400}]}}]}}'
    answer = http.post(EVENTS, content=content)
    assert (answer.status_code, [one["index"] for one in answer.json()["wrong"]]) == (400, [0])


def test_opening_a_feed_and_a_batch_with_numbers_may_be_repeated_others_not(client: ClusterClient) -> None:
    assert requests.feed("A", "S", []).repeatable
    assert not requests.feed("A", "S", ['{"data": []}']).repeatable
    state = FeedState("A", "S", SCHEMA, "one")
    (events,) = state.batches(trades(2))
    request = state.request(events, 5)
    assert request.repeatable
    assert json.loads(request.content or "") == {
        "producer": "one",
        "position": {"sent": 0, "clock": None, "seq": []},
        "advance": 5,
        "events": [{"timestamp": ts, "data": list(row)} for ts, row in trades(2)],
    }


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[]",
        '{"events": [{"data": 7}]}',
        '{"events": [{"data": [], "more": 1}]}',
        '{"events": [{"timestamp": "now", "data": ["a", 1.0]}]}',
        '{"events": [], "advance": 5}',
        '{"producer": "", "events": []}',
        '{"producer": "a\\nb", "events": []}',
        '{"producer": "a", "position": {"sent": -1}, "events": []}',
        '{"events": [{"timestamp": 9223372036854775808, "data": ["a", 1.0]}]}',
    ],
)
def test_bodies_that_are_none_are_refused(client: ClusterClient, http: httpx.Client, body: str) -> None:
    answer = http.post(EVENTS, content=body)
    assert answer.status_code == 400, answer.text
    assert "message" in answer.json()


def test_what_may_not_be_fed_or_read_says_so(client: ClusterClient, http: httpx.Client, manager: Manager) -> None:
    with pytest.raises(ClusterError, match="is not fed from outside"):
        client.feed("Trades", "Alerts")
    with pytest.raises(ClusterError, match="is not published"):
        client.read("Trades", "Inner")
    with pytest.raises(NotFoundError, match="has no stream Nothing"):
        client.read("Trades", "Nothing")
    with pytest.raises(NotFoundError, match="Other"):
        client.read("Other", "S")
    assert http.post(EVENTS, content=b" " * (1 << 20) + b"{}").status_code == 413
    viewer = Caller("vera", "vera-secret")
    assert viewer.call("GET", manager.url + EVENTS).status == 200
    assert viewer.call("POST", manager.url + EVENTS, content='{"events": []}').status == 403
    viewer.close()


# -------------------------------------------------------------------------------------------------------------- reading
def test_pages_hold_each_event_once_whatever_their_size(client: ClusterClient) -> None:
    client.feed("Trades", "Trades").send(trades(50))
    client.feed("Trades", "Trades").send(trades(23, 50))
    for limit in (1, 7, 1000):
        after, found, ended = "", [], False
        while not ended:
            page = client.events("Trades", "Trades", after, limit)
            assert len(page.events) <= limit
            found += page.events
            assert len(found) <= 73
            after, ended = page.next, page.ended
        assert sorted(found) == trades(73)
    assert list(client.tail("Trades", "Trades")) == found
    assert client.events("Trades", "Trades", after).events == []


def test_repeats_in_a_topic_are_read_once_also_between_pages(client: ClusterClient, log: LogTransport) -> None:
    """What a group publishes again after a failure, in other payloads than before."""
    log.ensure("Trades.Alerts", 1)
    payload = Payload(SCHEMA)

    def publish(start: int, count: int) -> None:
        value = payload.encode(Events.of(trades(count, start), start))
        log.append([Record("Trades.Alerts", 0, value, count, "Trades-g-1", start, 0)])

    publish(0, 6)
    page = client.events("Trades", "Alerts", limit=4)
    publish(2, 4)
    publish(3, 5)
    rest = client.events("Trades", "Alerts", page.next)
    assert page.events + rest.events == trades(8)
    publish(0, 8)
    publish(8, 1)
    assert client.events("Trades", "Alerts", rest.next).events == trades(1, 8)
    assert client.read("Trades", "Alerts") == trades(9)


def test_a_reader_waits_for_what_comes_and_no_longer_than_it_may(client: ClusterClient, eventually: Eventually) -> None:
    feed = client.feed("Trades", "Trades")
    feed.send(trades(3))
    here = client.events("Trades", "Trades", "end")
    assert (here.events, here.ended) == ([], True)
    came: list[Any] = []
    reader = threading.Thread(target=lambda: came.append(client.events("Trades", "Trades", here.next, wait_s=20)))
    reader.start()
    feed.send(trades(2, 3))
    reader.join(15)
    assert [page.events for page in came] == [trades(2, 3)]
    assert client.events("Trades", "Trades", came[0].next, wait_s=0.1).events == []


def test_of_many_readers_that_wait_one_more_is_answered_now(client: ClusterClient, manager: Manager) -> None:
    """64 wait; the next one gets an empty page, and asks again after a pause: nobody is refused."""
    client.feed("Trades", "Trades").send(trades(1))
    end = client.events("Trades", "Trades").next

    async def story() -> None:
        limits = httpx.Limits(max_connections=None)
        auth = ("admin", PASSWORD)
        async with httpx.AsyncClient(base_url=manager.url, auth=auth, trust_env=False, limits=limits) as http:

            async def wait(ms: int) -> httpx.Response:
                return await http.get(EVENTS, params={"after": end, "wait": ms}, timeout=40)

            began_s = time.monotonic()
            waiting = {asyncio.create_task(wait(30_000)) for _ in range(65)}
            done, waiting = await asyncio.wait(waiting, timeout=25, return_when=asyncio.FIRST_COMPLETED)
            assert time.monotonic() - began_s < 25
            (answer,) = [task.result() for task in done]
            assert (answer.status_code, answer.json()["events"], answer.json()["next"]) == (200, [], end)
            # Where there is something nobody waits, and each of them gets it.
            await asyncio.to_thread(client.feed("Trades", "Trades").send, trades(1, 1))
            answers = [answer.json() for answer in await asyncio.gather(*waiting)]
            assert [len(answer["events"]) for answer in answers] == [1] * 64
            # There is room again.
            began_s = time.monotonic()
            assert (await http.get(EVENTS, params={"after": answers[0]["next"], "wait": 300})).status_code == 200
            assert time.monotonic() - began_s >= 0.3

    asyncio.run(story())


def test_who_follows_while_too_many_wait_does_not_ask_all_the_time(
    client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `spdist tail` reads: a manager that answers now is not asked again now."""
    empty = client.events("Trades", "Trades", "end")
    asked: list[float] = []

    def events(*given: Any, **more: Any) -> Any:
        asked.append(time.monotonic())
        return empty

    monkeypatch.setattr(client, "events", events)
    pages = client.pages("Trades", "Trades", follow=True)
    for _ in range(3):
        next(pages)
    assert asked[2] - asked[0] >= 2 * LOOK_S


def test_following_goes_on_through_a_topic_that_is_not_there_yet(client: ClusterClient) -> None:
    tail = client.tail("Trades", "Trades", follow=True)
    first: list[Any] = []
    reader = threading.Thread(target=lambda: first.append(next(tail)))
    reader.start()
    client.feed("Trades", "Trades").send(trades(1))
    reader.join(15)
    assert first == trades(1)


def test_a_cursor_of_another_topic_or_none_is_refused(
    client: ClusterClient, http: httpx.Client, log: LogTransport
) -> None:
    client.feed("Trades", "Trades").send(trades(3))
    log.ensure("Trades.Alerts", 1)
    cursor = client.events("Trades", "Trades").next
    with pytest.raises(ClusterError, match="cursor is of another topic"):
        client.events("Trades", "Alerts", cursor)
    for wrong in ("nonsense", cursor[:-8], "é", "A" * 30_000):
        with pytest.raises(ClusterError):
            client.events("Trades", "Trades", wrong)
    assert http.get(EVENTS, params={"after": "nonsense"}).status_code == 400
    assert http.get(EVENTS.replace("streams/Trades", "streams/Inner")).status_code == 400
    for limit in (0, 10_001):
        with pytest.raises(ClusterError):
            client.events("Trades", "Trades", limit=limit)


def test_cursors_say_what_they_were_given_and_have_a_bound() -> None:
    position = {0: PartitionPosition(5, 2, {"a": ProducerState(7, (-(2**63), 3, b"\x01\xff"))}), 1: PartitionPosition()}
    assert read_cursor("T", write_cursor("T", position)) == position
    # What is no longer than a cursor may be, but unpacks to more than is read.
    many = {0: PartitionPosition(0, 0, {f"p{number * 7919:x}": ProducerState(number) for number in range(20_000)})}
    with pytest.raises(ClusterError, match="20000 producers"):
        write_cursor("T", many)


def test_values_cross_as_json_and_come_back_as_they_were() -> None:
    schema = Schema.of([("f", "float"), ("d", "double"), ("l", "long"), ("o", "object"), ("s", "string")])
    rows: list[tuple[Any, ...]] = [
        (math.inf, -math.inf, 2**62, {"k": [1, (2, math.inf)]}, "NaN"),
        (None, 1.5, None, [b"x", None], "é\0"),
    ]
    for row in rows:
        assert from_json_row(schema, json.loads(json.dumps(to_json_row(row), allow_nan=False))) == row
    assert math.isnan(from_json_row(schema, to_json_row((0.0, math.nan, 0, None, "")))[1])
    for wrong in ({"x": 1}, {}, {"b": 7}, [{"d": 1}]):
        with pytest.raises(MappingError, match="is no value"):
            from_json_row(schema, [0.0, 0.0, 0, wrong, ""])


# ------------------------------------------------------------------------------------------------------------- failover
def test_feeding_and_reading_go_on_at_the_manager_that_takes_over(tmp_path: Path, eventually: Eventually) -> None:
    first, second = (Manager(manager_config(tmp_path, f"manager-{number}")) for number in (1, 2))
    first.start()
    try:
        eventually(first.leads, "the first leads")
        second.start()
        with ClusterClient([first.url, second.url], "admin", PASSWORD) as client:
            client.deploy(TEXT)
            feed = client.feed("Trades", "Trades")
            feed.send(trades(10))
            page = client.events("Trades", "Trades", limit=4)
            first.stop()
            feed.send(trades(10, 10))
            assert second.leads()
            rest = client.events("Trades", "Trades", page.next)
            assert sorted(page.events + rest.events) == client.read("Trades", "Trades") == trades(20)
    finally:
        first.stop()
        second.stop()


def test_a_manager_that_stops_keeps_no_reader_waiting(tmp_path: Path, eventually: Eventually) -> None:
    manager = Manager(manager_config(tmp_path))
    manager.start()
    try:
        eventually(manager.leads, "it leads")
        looked = threading.Event()
        page = StreamAccess.page

        def look(*given: Any) -> Any:
            looked.set()
            return page(manager.streams, *given)

        manager.streams.page = look  # type: ignore[method-assign]
        with ClusterClient([manager.url], "admin", PASSWORD, patience_s=0.1) as client:
            client.deploy(TEXT)
            ended: list[Any] = []
            reader = threading.Thread(target=lambda: ended.append(client.events("Trades", "Trades", wait_s=30).events))
            reader.start()
            assert looked.wait(15)
            manager.stop()
            reader.join(4)
            assert ended == [[]]
    finally:
        manager.stop()


# ---------------------------------------------------------------------------------------------------------------- async
def test_the_same_with_await(client: ClusterClient, manager: Manager) -> None:
    async def story() -> None:
        async with AsyncClusterClient([manager.url], "admin", PASSWORD) as other:
            assert repr(other) == f"AsyncClusterClient({manager.url})"
            assert await other.apps() == ["Trades"]
            assert (await other.deploy(TEXT)).name == "Trades"
            assert await other.app_text("Trades") == TEXT
            assert (await other.wait("Trades", "WAITING", 10)).version == 2
            assert (await other.status()).apps[0].name == "Trades"
            assert (await other.topology("Trades"))["name"] == "Trades"
            feed = await other.feed("Trades", "Trades")
            assert await feed.send(trades(5)) == 5
            await feed.advance(5000)
            tail = other.tail("Trades", "Trades", follow=True)
            assert [await anext(tail) for _ in range(5)] == trades(5)
            assert await other.read("Trades", "Trades") == trades(5)
            assert [event async for event in other.tail("Trades", "Trades")] == trades(5)
            with pytest.raises(NotFoundError):
                await other.undeploy("Other")
        async with AsyncClusterClient([manager.url], "admin", "wrong") as stranger:
            with pytest.raises(UnauthorizedError):
                await stranger.nodes()

    asyncio.run(story())
