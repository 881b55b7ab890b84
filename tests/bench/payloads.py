"""``python -m tests.bench.payloads``: from bytes to bytes, without Spark, on one core.

Two ways: JSON in the form of WSO2, through a length window that averages, to JSON again; and the Arrow payloads of one
group of queries through the next group. Each is taken apart, and stands beside the plain way (payload by payload,
event by event) in the same process; figures are the best of some rounds in processor time, and ratios say more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import pyarrow as pa

from spdist.connectors.kafka.records import octets
from spdist.engine.island.hosted import build_island
from spdist.engine.local.app import LocalApp
from spdist.engine.local.sinks import PayloadWriter
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.columns import Events, child
from spdist.mapping.json_columns import FEW, ColumnReader
from spdist.mapping.mappers import source_mapper
from spdist.mapping.payload_reader import BatchReader
from spdist.operators.base import Arrival, Row
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.program.machine.compiler import is_available
from spdist.transports.base import Record
from spdist.transports.payloads.payload import Payload
from tests.properties.single_events import one_by_one

ROUNDS = 5
RECORD = 5_000
TEN = 10
TEXT = """\
@app:playback
define stream A (symbol string, price double, volume long);
from A#window.length(50) select symbol, avg(price) as price, volume insert into Out;
"""
PASSING = """\
@app:playback
define stream A (symbol string, price double, volume long);
from A select * insert into Out;
"""
SCHEMA = Schema.of([("symbol", "string"), ("price", "double"), ("volume", "long")])
JSON = ast.Annotation("map", (ast.AnnotationElement("type", "json"),))


def rows_of(count: int) -> list[Row]:
    """Return rows that differ, with few symbols."""
    return [(f"S{n * 7919 % 100}", n * 7919 % 100_003 / 997 + 1, n) for n in range(count)]


def best(call: Callable[[], object]) -> float:
    """Return the processor time of the fastest round, s."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times)


def show(name: str, count: int, fast: float, plain: float) -> None:
    """Print events/s of both ways."""
    print(f"{name:<28}{count / fast:>13,.0f}{count / plain:>13,.0f}{plain / fast:>8.1f}×", flush=True)


def failed(number: int, *why: object) -> None:
    """Stop: nothing fails here."""
    raise AssertionError(number, *why)


class Averaging:
    """The app; what it puts out is collected."""

    def __init__(self) -> None:
        self.app = LocalApp(check(parse(TEXT), catalog(), TEXT))
        self.out: list[Arrival] = []
        self.app.subscribe("Out", lambda timestamp, row: self.out.append((timestamp, row)))
        self.app.start(0)
        self.now = 0

    def batch(self, rows: list[Row]) -> list[Arrival]:
        """Take all rows at once."""
        self.now += 1
        self.out.clear()
        self.app.send_batch("A", [self.now] * len(rows), rows)
        return self.out

    def single(self, rows: list[Row]) -> list[Arrival]:
        """Take the rows one by one."""
        self.now += 1
        self.out.clear()
        for row in rows:
            self.app.send("A", self.now, row)
        return self.out


def of_json(count: int) -> None:
    """Measure JSON to JSON."""
    setting = MapSetting("A", SCHEMA, JSON)
    reader, writer, averaging = BatchReader(setting), PayloadWriter(setting), Averaging()
    rows = rows_of(count)
    payloads = [json.dumps({"event": dict(zip(SCHEMA.names, row, strict=True))}).encode() for row in rows]
    events = [(1, row) for row in rows]
    times = [1] * count

    def read() -> list[Row]:
        return reader.read(payloads, 0, print, failed)[0]

    def read_each() -> list[Row]:
        return [row for one in payloads for chunk in reader.mapper.read(one, {}, 0, print) for _, row in chunk]

    def write_each(events: list[Arrival]) -> list[object]:
        return [payload for event in events for payload in writer.mapper.write((event,))]

    assert read() == read_each() == rows
    assert list(writer.write(times, rows, failed)) == write_each(events)
    show("json: read", count, best(read), best(read_each))
    show("json: average", count, best(lambda: averaging.batch(rows)), best(lambda: averaging.single(rows)))
    show(
        "json: write", count, best(lambda: octets(writer.write(times, rows, failed))), best(lambda: write_each(events))
    )

    def whole_batches() -> None:
        for start in range(0, count, RECORD):
            read = reader.read(payloads[start : start + RECORD], 0, print, failed)[0]
            out = averaging.batch(read)
            octets(writer.write([ts for ts, _ in out], [row for _, row in out], failed))

    whole = best(whole_batches)
    show("json: whole", count, whole, best(lambda: write_each(averaging.single(read_each()))))
    if is_available():
        of_arrays(setting, payloads)


def of_arrays(setting: MapSetting, payloads: list[bytes]) -> None:
    """Measure reading arrays of ten events as columns, by the compiled loop."""
    reader, mapper = ColumnReader(setting), source_mapper(setting)
    payloads = payloads * -(-FEW * TEN // len(payloads))  # fewer messages are not read together
    arrays = [b"[%b]" % b",".join(payloads[start : start + TEN]) for start in range(0, len(payloads), TEN)]
    messages = pa.array(arrays, pa.binary())
    while reader.read(messages).columns is None:
        pass  # until a thread has compiled the loop

    def each() -> list[Row]:
        return [row for one in arrays for chunk in mapper.read(one, {}, 0, print) for _, row in chunk]

    assert reader.read(messages).rows == each()
    show("json: read arrays of ten", len(payloads), best(lambda: reader.read(messages)), best(each))


def of_groups(count: int) -> None:
    """Measure a hop between two groups."""
    payload, records, tens = Payload(SCHEMA), [], []
    rows, paths = rows_of(count), [child(b"", place) for place in range(TEN)]
    for start in range(0, count, RECORD):
        part = rows[start : start + RECORD]
        numbers = range(start, start + len(part))
        at, places = [1000 + number // TEN for number in numbers], [number % TEN for number in numbers]
        events = Events(at, list(numbers), [b"\0"] * len(part), [0] * len(part), at, part)
        chunks = Events(at, at, [paths[place] for place in places], places, at, part)
        for into, put_out in ((records, events), (tens, chunks)):
            into.append(Record("App.A", 0, payload.encode(put_out), len(part), "App-f-1", start, at[-1]))
    read = (AssignedInput("A", "App.A", (0,), ("App-f-1",)),)
    written = (AssignedOutput("Out", (Publishing(Strategy.ALL, 1, "App.Out", 1),)),)

    def hop(text: str = PASSING, sent: list[Record] = records) -> list[object]:
        island = build_island(Assignment("App-g-1", "App", "App-g", text, True, read, written), 100)
        return [output for record in sent for output in island.process((record,), 0)]

    def average() -> list[object]:
        return hop(TEXT)

    def chunks_of_ten() -> list[object]:
        return hop(sent=tens)

    decoded = [payload.decode(record.value) for record in records]
    hops = (("groups: hop", hop), ("groups: hop and average", average), ("groups: hop, chunks of ten", chunks_of_ten))
    for name, call in hops:
        fast = best(call)
        with one_by_one():
            show(name, count, fast, best(call))
    decode = best(lambda: [payload.decode(record.value) for record in records])
    encode = best(lambda: [payload.encode(events) for events in decoded])
    print(f"{'groups: decode, encode':<28}{count / decode:>13,.0f}{count / encode:>13,.0f}")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=50_000, help="events per round")
    count = parser.parse_args().count
    print(f"{'events/s':<28}{'batch':>13}{'one by one':>13}{'ratio':>9}")
    of_json(count)
    of_groups(count)


if __name__ == "__main__":
    main()
