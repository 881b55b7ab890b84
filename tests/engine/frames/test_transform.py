"""An app over DataFrames of a user's own Spark session, batch and streaming."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spdist
from spdist.engine.local.app import LocalApp
from spdist.engine.spark.session import _end_jvm
from spdist.errors import EngineError, MappingError, SpdistError, StateError
from spdist.extension import catalog, function, signature
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Type

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
START = 1_700_000_000_000
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
}
SHOP = """
@app:name('Shop')
define stream Orders (item string, qty int);
define stream Returns (item string, qty int);
partition with (item of Orders, item of Returns) begin
    @info(name='sums') from Orders#window.time(3 sec) select item, sum(qty) as total insert into Totals;
    @info(name='kept') from every e1=Orders -> not Returns[qty >= e1.qty] for 2 sec
    select e1.item as item, e1.qty as qty insert into Kept;
end;
"""
SHOP_COLUMNS = "ts long, seq int, item string, qty int"
Event = tuple[int, tuple[Any, ...]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as a user has it, but quick to start."""
    place = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        builder = SparkSession.Builder().master("local[2]")
        settings = SETTINGS | {"spark.local.dir": f"{place}/local", "spark.sql.warehouse.dir": f"{place}/warehouse"}
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    _end_jvm()


# ------------------------------------------------------------------------------------------------- what is put in
def orders(count: int) -> list[tuple[int, int, str | None, int]]:
    """Time, number, item and quantity: few items and one without a name, some at one time."""
    return [(START + n // 2 * 700, n, None if n % 11 == 5 else f"i{n * 7 % 5}", n % 4) for n in range(count)]


def returns(count: int) -> list[tuple[int, int, str | None, int]]:
    return [(START + n * 1900 + 100, n, f"i{n % 6}", n % 3) for n in range(count)]


def events(rows: Iterable[tuple[Any, ...]]) -> list[Event]:
    return [(ts, tuple(row)) for ts, _, *row in rows]


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], ddl: str = SHOP_COLUMNS) -> DataFrame:
    """Rows in no order, in several partitions."""
    return spark.createDataFrame(sorted(rows, key=lambda row: row[1] * 7919 % 101), ddl).repartition(3)


def write(rows: Sequence[tuple[Any, ...]], place: Path, number: int) -> None:
    """Write a file, later than those before."""
    place.mkdir(exist_ok=True)
    kinds = {"ts": pa.int64(), "seq": pa.int32(), "item": pa.string(), "qty": pa.int32()}
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
    path = place / f"{number}.parquet"
    parquet.write_table(pa.table(arrays, list(kinds)), path)
    os.utime(path, (1_000_000 + number, 1_000_000 + number))


def files(spark: SparkSession, place: Path) -> DataFrame:
    """A stream of them, one in each micro-batch."""
    place.mkdir(exist_ok=True)
    return spark.readStream.schema(SHOP_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(place))


# ------------------------------------------------------------------------------------------------ what comes out
def out(result: DataFrame) -> list[Event]:
    """The rows of a result for one output, in the order of their numbers in each shard."""
    names = result.columns[:-2]
    found = result.select(*names, F.unix_millis("event_time").alias("event_time"), "event_id").collect()
    assert len({row.event_id for row in found}) == len(found)
    return [(row.event_time, tuple(row[name] for name in names)) for row in sorted(found, key=number_of)]


def number_of(row: Any) -> tuple[str, int]:
    shard, number = row.event_id.rsplit("-", 1)
    return shard, int(number)


def by_item(found: Iterable[Event]) -> dict[Any, list[Event]]:
    made: dict[Any, list[Event]] = {}
    for event in found:
        made.setdefault(event[1][0], []).append(event)
    return made


def run_query(result: DataFrame, place: Path, checkpoint: Path) -> str:
    """Run a streaming query into files until it has seen all files, and return how its last batch was run."""
    writer = result.writeStream.format("parquet").option("path", str(place))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return str(query._jsq.explainInternal(False))  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------- batch
def test_a_batch_of_several_frames_and_outputs_is_what_virtual_time_gives(spark: SparkSession) -> None:
    given = {"Orders": orders(120), "Returns": returns(25)}
    expected = spdist.run(SHOP, {name: events(rows) for name, rows in given.items()}, until=START + 10**6)
    frames = {name: frame(spark, rows) for name, rows in given.items()}
    both = spdist.transform(frames, SHOP, output=["Totals", "Kept"], order="seq", until=START + 10**6).persist()
    assert both.rdd.getNumPartitions() == 2  # as many as Spark shuffles into
    for name in ("Totals", "Kept"):
        assert by_item(out(spdist.output_of(both, name))) == by_item(expected[name])
    ids = {row.event_id: row for row in both.collect()}
    again = spdist.transform(frames, SHOP, output=["Totals", "Kept"], order="seq", until=START + 10**6)
    assert {row.event_id: row for row in again.collect()} == ids
    both.unpersist()
    with pytest.raises(MappingError, match="no events of a stream 'Total'"):
        spdist.output_of(both, "Total")


def test_all_shards_end_at_the_time_of_the_last_row(spark: SparkSession) -> None:
    rows = [*orders(40), (START + 60_000, 40, "last", 1)]
    expected = spdist.run(SHOP, {"Orders": events(rows)})["Kept"]
    assert {row[0] for _, row in expected} > {"i0", "i1", "i2"}
    step = spdist.siddhi(SHOP, stream="Orders", output="Kept", order="seq", shards=4)
    found = frame(spark, rows).transform(step)
    assert by_item(out(found)) == by_item(expected)


def test_an_app_that_cannot_be_split_runs_in_one_task(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    text = """@app:name('Joined') define stream Orders (item string, qty int);
    define stream Returns (item string, qty int); define table Seen (item string, qty int);
    from Returns insert into Seen;
    from Orders#window.length(4) join Seen on Orders.item == Seen.item and Seen.qty < 2
    select Orders.item as item, Orders.qty as qty, Seen.qty as back insert into Found;
    from Orders#window.timeBatch(2 sec) select count() as n insert into Counts;"""
    given = {"Returns": returns(12), "Orders": orders(60)}
    expected = spdist.run(text, {name: events(rows) for name, rows in given.items()})
    frames = {name: frame(spark, rows) for name, rows in given.items()}
    with caplog.at_level(logging.WARNING):
        both = spdist.transform(frames, text, output=["Found", "Counts"], order="seq").persist()
    assert re.search(r"'Joined' runs in one task at a time, as it cannot be split: query '\w+' ", caplog.text)
    for name in ("Found", "Counts"):
        assert out(spdist.output_of(both, name)) == expected[name]
    both.unpersist()


def test_equal_keys_meet_and_values_come_out_as_they_are(spark: SparkSession) -> None:
    text = """define stream S (k double, f float, b bool, s string, l long, o object);
    partition with (k of S) begin
    from S select k, f * 2 as f, b, s, count() as n, l, o, list:create(l) as made insert into Out; end;"""
    keys = [1.0, -0.0, 0.0, float("nan"), None, 2.5, 1.0, float("nan"), 2.5, -0.0]
    rows = [
        (START + n, n, key, 0.1 * n, bool(n % 2), "ö'\"" if n else None, 2**62 + n, {"a": [n, None]})
        for n, key in enumerate(keys)
    ]
    ddl = "ts long, seq int, k double, f float, b boolean, s string, l long, o map<string, array<int>>"
    given = frame(spark, rows, ddl)
    found = out(spdist.transform(given, text, shards=3))
    typed = [(ts, tuple(row)) for ts, row in zip((row[0] for row in rows), given.orderBy("seq").collect(), strict=True)]
    expected = spdist.run(text, {"S": [(ts, row[2:]) for ts, row in typed]})["Out"]
    made = [
        (ts, (*row[:6], '{"a":[' + str(row[6]["a"][0]) + ",null]}", f"[{row[5]}]"))  # objects are JSON
        for ts, row in expected
    ]
    assert Counter(map(repr, found)) == Counter(map(repr, made))
    assert len(found) == 9  # partitions pass over what has no key


@pytest.mark.parametrize(
    ("column", "unit"),
    [("at", "ms"), ("local", "ms"), ("seconds", "s"), ("micros", "us"), ("nanos", "ns"), ("day", "ms")],
)
def test_times_are_timestamps_dates_or_numbers(spark: SparkSession, column: str, unit: str) -> None:
    at = datetime.fromtimestamp(START / 1000, UTC)
    rows = [(at, START // 1000, START * 1000 + 1, "late"), (at, START // 1000, START * 1000, "early")]
    given = spark.createDataFrame(rows, "at timestamp, seconds int, micros long, s string")
    given = given.withColumns(
        {"local": F.col("at").cast("timestamp_ntz"), "nanos": F.col("micros") * 1000 + 7, "day": F.to_date("at")}
    )
    text = "define stream S (s string); from S select s insert into Out;"
    found = spdist.transform(given, text, time=column, time_unit=unit, shards=1).collect()
    day = given.select(F.col("day").cast("timestamp").alias("at")).first()
    assert day is not None
    expected = day["at"] if column == "day" else given.first()["at"]  # type: ignore[index]
    assert [row.event_time for row in found] == [expected] * 2
    if column in ("micros", "nanos"):
        assert [row.s for row in found] == ["early", "late"]


def test_rows_without_a_time_and_values_that_are_not_as_declared_are_said(spark: SparkSession) -> None:
    text = "define stream S (v long); from S select cast(v, 'int') as w insert into Out;"
    given = spark.createDataFrame([(None, 2**40)], "ts timestamp, v long")
    with pytest.raises(Exception, match=r"(?s)rows of the frame of 'S' have no time in the column 'ts'.*isNotNull"):
        spdist.transform(given, text).collect()
    given = given.withColumn("ts", F.lit(START))
    with pytest.raises(
        Exception, match=r"(?s)'w' of 'Out' is int, but what came out is 1099511627776.*convert\(w, 'int"
    ):
        spdist.transform(given, text).collect()


def test_functions_of_the_user_go_with_the_app(spark: SparkSession) -> None:
    @function("shop:shout", signature("shop:shout", ((Type.STRING,), Type.STRING)))
    def shout(text: str) -> str:
        return text.upper()

    text = """define function twice[python] return string { return data[0] * 2 };
    define stream S (s string); from S select shop:shout(twice(s)) as s insert into Out;"""
    given = spark.createDataFrame([(1, "tea")], "ts long, s string")
    assert out(spdist.transform(given, spdist.parse(text), scripts=True)) == [(1, ("TEATEA",))]
    with pytest.raises(SpdistError, match="twice"):
        spdist.transform(given, text)


def test_what_is_no_frame_of_spark_is_refused(spark: SparkSession) -> None:
    rows: Any = [(1, ("tea",))]
    with pytest.raises(MappingError, match=r"no DataFrame of Spark but a list\n.*createDataFrame"):
        spdist.transform(rows, SHOP, stream="Orders", output="Kept")
    with pytest.raises(TypeError, match="no argument 'tiem'"):
        spdist.transform(rows, SHOP, stream="Orders", output="Kept", tiem="ts")  # type: ignore[call-arg]


# --------------------------------------------------------------------------------------------------------- streams
def test_a_stream_is_what_virtual_time_gives_also_where_it_is_started_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = {"Orders": orders(90), "Returns": returns(20)}
    expected = spdist.run(SHOP, {name: events(rows) for name, rows in given.items()})
    checkpoint, place = tmp_path / "checkpoint", tmp_path / "out"

    def run(shards: int | None) -> str:
        frames = {name: files(spark, tmp_path / name) for name in given}
        asked: Any = {} if shards is None else {"shards": shards}
        both = spdist.transform(frames, SHOP, output=["Totals", "Kept"], order="seq", checkpoint=checkpoint, **asked)
        return run_query(both, place, checkpoint)

    # What one micro-batch brings of both streams is of one time.
    until = [0, START + 17_000, START + 10**6]
    for part in range(2):
        for name, rows in given.items():
            write([row for row in rows if until[part] <= row[0] < until[part + 1]], tmp_path / name, part)
        how = run(2 if part == 0 else None)
        assert how.count("ReusedExchange") == 1, "rows are shuffled once for both shards"
    written = spark.read.parquet(str(place))
    for name in ("Totals", "Kept"):
        assert by_item(out(spdist.output_of(written, name))) == by_item(expected[name])
    with pytest.raises(StateError, match="in 2 shards, not in 3"):
        run(3)


def test_late_rows_are_processed_with_the_clock_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    rows = orders(60)
    parts = [rows[20:40], rows[:20], rows[40:]]
    for number, part in enumerate(parts):
        write(part, tmp_path / "in", number)
    app = LocalApp(check(parse(SHOP), catalog(), SHOP))
    expected: list[Event] = []
    app.subscribe("Totals", lambda ts, row: expected.append((ts, row)))
    for part in parts:
        for ts, row in events(part):
            app.send("Orders", ts, row)
    checkpoint = tmp_path / "checkpoint"
    step = spdist.siddhi(SHOP, "Orders", "Totals", order="seq", shards=1, checkpoint=checkpoint)
    run_query(files(spark, tmp_path / "in").transform(step), tmp_path / "out", checkpoint)
    assert out(spark.read.parquet(str(tmp_path / "out"))) == expected


def test_steps_follow_one_another_and_steps_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Where Spark keeps state of its own in front of the app, all shards are in one step."""
    rows = orders(30)
    for part in range(2):
        write(rows[: 15 * (part + 1)], tmp_path / "in", part)
    checkpoint = tmp_path / "checkpoint"
    first = files(spark, tmp_path / "in").dropDuplicates(["seq"])
    totals = spdist.transform(first, SHOP, "Orders", "Totals", order="seq", shards=2, checkpoint=checkpoint, name="1")
    text = "define stream T (item string, total long); from T[total > 2L] select item, total insert into Large;"
    large = spdist.transform(totals, text, time="event_time", shards=1, checkpoint=checkpoint, name="2")
    run_query(large, tmp_path / "out", checkpoint)
    expected = [event for event in spdist.run(SHOP, {"Orders": events(rows)})["Totals"] if event[1][1] > 2]
    assert by_item(out(spark.read.parquet(str(tmp_path / "out")))) == by_item(expected)


def test_what_does_not_belong_together_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    write(orders(4), tmp_path / "in", 0)
    stream = files(spark, tmp_path / "in")
    with pytest.raises(EngineError, match=r"'Shop' keeps state .*\n.*checkpointLocation"):
        spdist.transform(stream, SHOP, "Orders", "Totals")
    with pytest.raises(MappingError, match="'Orders' is a stream, 'Returns' is a batch"):
        frames = {"Orders": stream, "Returns": frame(spark, returns(1))}
        spdist.transform(frames, SHOP, output="Totals", checkpoint=tmp_path)
    one = spdist.transform(stream, SHOP, "Orders", "Totals", shards=1, checkpoint=tmp_path / "one")
    with pytest.raises(StreamingQueryException, match=r"holds no checkpoint .*, not that of the running one"):
        run_query(one, tmp_path / "out", tmp_path / "two")
    other = spdist.transform(stream, SHOP, "Orders", "Totals", shards=1, checkpoint=tmp_path / "one")
    with pytest.raises(StreamingQueryException, match="two transformations of one query have the name 'Shop'"):
        run_query(one.union(other), tmp_path / "out", tmp_path / "one")


# ---------------------------------------------------------------------------------------------------------- guide
def test_the_examples_of_the_guide_run(spark: SparkSession, tmp_path: Path) -> None:
    section = (ROOT / "docs/guides/frames.md").read_text()
    section = re.sub(r'"(trades|alerts[a-z-]*)"', rf'"{tmp_path}/\1"', section)
    batch, stream = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    rows = [(datetime.fromtimestamp(START / 1000 + n, UTC), f"S{n % 2}", 100.0 + n) for n in range(20)]
    trades = spark.createDataFrame(rows, "ts timestamp, symbol string, price double")
    trades.coalesce(1).write.parquet(f"{tmp_path}/trades")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(batch, "frames.md", "exec"), names)
    expected = out(names["alerts"])
    assert expected
    exec(compile(stream, "frames.md", "exec"), names)
    assert names["query"].awaitTermination(300)
    assert by_item(out(spark.read.parquet(f"{tmp_path}/alerts"))) == by_item(expected)
