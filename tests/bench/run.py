"""``make bench``: what the local engine and the embedded log cost beside plain Python and plain SQLite, in one run.

Figures of one machine say little; ratios within one run say more. Each figure is the best of three rounds, and the
rounds of what is compared alternate, so that a busy moment does not hit one side only.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload

Pairs = list[tuple[int, tuple[Any, ...]]]
ROUNDS = 3
STREAM = "@app:playback define stream Trades (symbol string, price double, volume long);\n"
APPS = {
    "filter and projection": "from Trades[price > 50.0] select symbol, price insert into Out;",
    "average of the last 100": "from Trades#window.length(100) select symbol, avg(price) as p insert into Out;",
    "the same by symbol": (
        "from Trades#window.length(100) select symbol, avg(price) as p group by symbol insert into Out;"
    ),
}


def trades(count: int) -> Pairs:
    """Events of 100 symbols, one per 0.1 ms, with prices from 0 to 100."""
    return [(n // 10, (f"S{n % 100}", (n * 7919 % 1000) / 10, n)) for n in range(count)]


def rate(count: int, work: Callable[[], object]) -> float:
    """Events per second of one call of `work`."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def best(count: int, works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best rate of each of `works` over alternating rounds."""
    found = dict.fromkeys(works, 0.0)
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name] = max(found[name], rate(count, work))
    return found


def show(title: str, found: dict[str, float]) -> None:
    """Print rates, each with its ratio to the first."""
    print(f"\n{title}")
    first, base = next(iter(found.items()))
    for name, value in found.items():
        ratio = "" if name == first else f"   {value / base:6.2f} × {first}"
        print(f"  {name:<40} {value:>12,.0f} events/s{ratio}")


def engine(count: int) -> dict[str, float]:
    """A loop in plain Python, and apps in the local engine, over the same events."""
    events = trades(count)

    def loop() -> list[Any]:
        return [(ts, (symbol, price)) for ts, (symbol, price, _) in events if price > 50.0]

    timestamps, rows = [ts for ts, _ in events], [row for _, row in events]

    def app(text: str, batch: int = 1) -> Callable[[], int]:
        checked = check(parse(STREAM + text), catalog())

        def run() -> int:
            # A fresh app for each round: state must not carry over.
            local, out = LocalApp(checked), []
            local.subscribe("Out", lambda ts, row: out.append((ts, row)))
            local.start(0)
            if batch > 1:
                for at in range(0, count, batch):
                    local.send_batch("Trades", timestamps[at : at + batch], rows[at : at + batch])
            else:
                for ts, row in events:
                    local.send("Trades", ts, row)
            if not out:
                raise AssertionError("nothing came out")
            return len(out)

        return run

    works: dict[str, Callable[[], object]] = {"plain Python filter": loop}
    for name, text in APPS.items():
        works[name] = app(text)
        works[f"{name}, 1,000 at a time"] = app(text, 1000)
    return best(count, works)


def log(count: int, per_record: int, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Appends of one durable transaction each, and reads: SQLite by hand, and the embedded log."""
    payload = Payload(Schema.of([("symbol", "string"), ("price", "double"), ("volume", "long")]))
    events = trades(count)
    parts = [Events.of(events[at : at + per_record], at) for at in range(0, count, per_record)]
    values = [payload.encode(part) for part in parts]
    fresh = iter(range(1_000_000))
    files: dict[str, Path | LogTransport] = {}

    def raw() -> None:
        files["raw"] = path = folder / f"raw-{next(fresh)}.db"
        plain = sqlite3.connect(path, isolation_level=None)
        plain.execute("PRAGMA journal_mode = WAL")
        plain.execute("PRAGMA synchronous = FULL")
        plain.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, value BLOB NOT NULL)")
        for value in values:
            plain.execute("INSERT INTO records (value) VALUES (?)", (value,))
        plain.close()

    def append(encode: bool) -> Callable[[], None]:
        def run() -> None:
            files["log"] = transport = LogTransport(folder / f"log-{next(fresh)}")
            transport.ensure("T", 1)
            for number, part in enumerate(parts):
                value = payload.encode(part) if encode else values[number]
                transport.append([Record("T", 0, value, len(part), "bench", number * per_record, number)])
            transport.close()

        return run

    def read_raw() -> None:
        plain = sqlite3.connect(str(files["raw"]))
        if len(plain.execute("SELECT id, value FROM records ORDER BY id").fetchall()) != len(values):
            raise AssertionError("records are missing")
        plain.close()

    def read(decode: bool) -> Callable[[], None]:
        def run() -> None:
            transport = files["log"]
            assert isinstance(transport, LogTransport)
            offset = 0
            while records := transport.read("T", 0, offset):
                offset = records[-1].offset + 1
                if decode and any(not payload.decode(record.value).rows for record in records):
                    raise AssertionError("events are missing")
            if offset != len(values):
                raise AssertionError("records are missing")
            transport.close()

        return run

    appends = best(
        count, {"raw SQLite inserts": raw, "append": append(encode=False), "encode and append": append(encode=True)}
    )
    reads = best(
        count, {"raw SQLite select": read_raw, "read": read(decode=False), "read and decode": read(decode=True)}
    )
    return appends, reads


def main() -> None:
    """Run everything; takes about half a minute."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print(f"Python {sys.version.split()[0]}, {count:,} events, best of {ROUNDS} alternating rounds")
    show("Local engine (virtual time, one thread)", engine(count))
    with tempfile.TemporaryDirectory() as folder:
        appends, reads = log(count, 1000, Path(folder))
    show("Embedded log: appends of 1,000 events, one durable transaction each", appends)
    show("Embedded log: reads of the same", reads)


if __name__ == "__main__":
    main()
