"""Apps in many groups over each transport, with its real server: exactly what virtual time gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spdist import plan
from spdist.cluster.managers.topics import fed_topic, published_topic, stream_schema
from spdist.engine.spark.session import SparkHost
from spdist.language.types import Schema, Type
from spdist.planning.topology import Strategy, Topology
from spdist.runtime.group import GroupRuntime
from spdist.transports.base import Transport
from spdist.transports.feed import Feed, read_events
from spdist.transports.opening import open_transport, transport_settings
from spdist.transports.payloads.payload import Payload
from spdist.transports.routing import java_hash
from tests.runtime.host_settings import settings_in, transports_in
from tests.runtime.parquet_files import put_file
from tests.runtime.shared_spark import SHARED_SPARK
from tests.runtime.wire_apps import Wired, five_groups, quickstart
from tests.transports.deleting import delete_topic

Eventually = Callable[..., object]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, wire: tuple[str, str]) -> SparkHost:
    root = tmp_path_factory.mktemp("wires")
    return SHARED_SPARK.host(settings_in(root, transports_in(root, *wire), max_batch_events=2000))


@pytest.fixture
def topics(host: SparkHost) -> Iterator[Transport]:
    transport = open_transport(transport_settings(host.config.transports))
    yield transport
    transport.close()


@pytest.fixture
def runtimes() -> Iterator[list[GroupRuntime]]:
    begun: list[GroupRuntime] = []
    yield begun
    for group in begun:
        group.kill()


def two_workers(topology: Topology, host: SparkHost) -> list[GroupRuntime]:
    """The instances in two queries: the first of each group in one, the others in the other."""
    work = topology.assignments()
    first = [one for one in work if one.name.endswith("-1")]
    second = [one for one in work if one not in first]
    return [GroupRuntime(some, host, f"worker-{n}", name=f"worker-{n}") for n, some in enumerate((first, second))]


@pytest.mark.parametrize(
    "wired", [partial(quickstart, 14), partial(five_groups, 1000)], ids=["quickstart", "five groups"]
)
def test_an_app_in_many_groups_gives_what_virtual_time_gives_also_where_queries_die(
    wired: Callable[[], Wired],
    host: SparkHost,
    topics: Transport,
    wire: tuple[str, str],
    runtimes: list[GroupRuntime],
    eventually: Eventually,
) -> None:
    app = wired()
    topology = plan(app.text, transport=wire[0])
    fed, out = fed_topic(topology, app.stream), published_topic(topology, app.output)
    topics.ensure(fed.name, fed.partitions)
    feed = Feed(topics, fed.name, stream_schema(app.text, app.stream), key=fed.key)
    read = lambda: read_events(topics, out.name, stream_schema(app.text, app.output))  # noqa: E731
    half = len(app.events) // 2
    (killed, left) = (two_workers(topology, host) for _ in range(2))
    runtimes += killed + left
    for workers, events in ((killed, app.events[:half]), (left, app.events[half:])):
        for worker in workers:
            worker.start()
        for at in range(0, len(events), 250):
            feed.send(events[at : at + 250])
        if workers is killed:
            eventually(lambda: any(worker.status().events_out for worker in killed), "some events went on", 150)
            for worker in workers:
                worker.kill()
    feed.advance(app.until)
    assert all(worker.wait(150) for worker in left)
    assert {worker.status().state for worker in left} == {"RUNNING"}
    eventually(lambda: topics.partitions(out.name) and len(read()) >= len(app.expected) > 0, "all came out", 150)
    assert [worker.stop(30) for worker in left] == [True, True]
    assert read() == app.expected
    assert all(where_keys_belong(topics, topology, app.text).values())


CONNECTED = """
@app:name('Connected')
@source(type='spark', format='parquet', path='in', time='at', polling.interval='50')
define stream Sold (k string, n long);
@sink(type='spark', format='parquet', path='out', id='id')
define stream Totals (k string, total long);
@dist(execGroup='sound', parallel='2') from Sold[n > 0] select k, n insert into Sound;
@dist(execGroup='totals') from Sound select k, count() as total group by k insert into Totals;
"""


def test_connectors_of_spark_in_many_groups_give_each_row_once_also_after_a_takeover(
    host: SparkHost, wire: tuple[str, str], runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    root = host.config.files.directories[0]
    (root / "in").mkdir()
    topology = plan(CONNECTED, transport=wire[0])
    assert [group.receiver for group in topology.groups] == [True, False, False]

    def totals() -> list[tuple[str, int]]:
        tables = [pq.read_table(file, partitioning=None) for file in (root / "out").glob("*.parquet")]
        return sorted((row["k"], row["total"]) for table in tables for row in table.to_pylist())

    wanted: list[tuple[str, int]] = []
    for number in range(2):
        runtimes += (groups := two_workers(topology, host))
        for group in groups:
            group.start()
        put_file(root / "in", number, [(key, 1 + n) for n in range(500) for key in "ab"], pa.int64())
        wanted += [(key, 500 * number + n) for key in "ab" for n in range(1, 501)]
        enough = (1, len(wanted))[number]
        eventually(lambda: len(totals()) >= enough, f"{enough} rows", 120)  # noqa: B023
        for group in groups:
            group.kill()
    assert totals() == sorted(wanted)


def where_keys_belong(topics: Transport, topology: Topology, text: str) -> dict[str, bool]:
    """Whether each event of a topic that is split by key is in the partition that WSO2 would choose."""
    found = {}
    for output, one in {(o.stream, p) for group in topology.groups for o in group.outputs for p in o.publishing}:
        if one.strategy is Strategy.FIELD_GROUPING:
            schema = stream_schema(text, output)
            key = schema.index(one.key or "")
            assert key is not None
            for partition in range(one.partitions):
                records = [record for record in topics.read(one.topic, partition, 0, 5000) if record.count]
                rows = [row for record in records for row in Payload(schema).decode(record.value).rows]
                place = f"{one.topic} {partition} of {one.partitions}"
                found[place] = {abs(java_hash(row[key])) % one.partitions for row in rows} == {partition}
    assert found
    return found


def test_a_topic_that_is_deleted_under_a_reader_or_replaced_is_an_error(
    host: SparkHost, topics: Transport, wire: tuple[str, str], runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    kind, url = wire
    (assignment,) = plan(
        "@app:name('Gone') define stream In (v long);"
        "@sink(type='embedded', topic='Gone.Out') define stream Out (v long); from In select v insert into Out;",
        transport=kind,
    ).assignments()
    topic = assignment.inputs[0].topic
    topics.ensure(topic, 1)
    topics.ensure("Gone.Out", 1)
    schema = Schema((("v", Type.LONG),))
    feed = Feed(topics, topic, schema)
    feed.send([(1000 + n, (n,)) for n in range(3)])
    for failing in ("deleted under it", "replaced before it starts"):
        group = GroupRuntime(assignment, host, "worker-1")
        runtimes.append(group)
        group.start()
        if failing == "deleted under it":
            eventually(lambda: len(read_events(topics, "Gone.Out", schema)) == 3, "the events came", 60)
            delete_topic(kind, url or str(host.config.transports.log.directory), topic)
        eventually(lambda: group.status().state == "FAILED", failing, 90)  # noqa: B023
        assert f"topic '{topic}' was deleted" in str(group.error)
        assert "bring the topic back" in str(group.error)
