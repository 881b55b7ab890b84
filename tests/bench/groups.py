"""``make bench-groups``: events per second through one group and through three in a chain, over each transport.

Each group is a Spark query of its own and computes the same: a filter and an average over a window. Once some events
have gone through all of them, the others are appended to the first topic, and the time counts from then to when the
last group has put out all. The real servers are processes of this machine. One group alone is measured before and after
the chain, and the better of both counts.

Figures of one machine say little; the ratio says more. Three groups compute three times as much on the same cores: on
few cores the chain cannot reach the rate of one group alone.

Examples: ``python -m tests.bench.groups``; ``… --count 50000 kafka``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from spdist import plan
from spdist.engine.spark.session import SparkHost
from spdist.language.types import Schema
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.services.kafka import KafkaBroker
from spdist.services.nats import NatsServer
from spdist.transports.base import Record, Transport
from spdist.transports.feed import Feed
from spdist.transports.opening import open_transport, transport_settings
from tests.runtime.host_settings import settings_in, transports_in

INPUT = Schema.of([("k", "string"), ("v", "long"), ("mean", "double")])
GROUP = "@dist(execGroup='g{n}') from S{n}[v >= 0]#window.length(100) select k, v, avg(v) as mean insert into S{next};"
#: Makes the planner publish what the group before it puts out; it is not run.
LAST = "@dist(execGroup='last') from S{n} select * insert into End;"
#: Events in a record that is fed, and with how many the groups are warmed up.
PACKED, WARM = 5000, 20_000
PATIENCE_S = 240.0


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="make bench-groups", description="measure groups in a chain")
    parser.add_argument("kinds", nargs="*", help="log, kafka, nats; by default all")
    parser.add_argument("--count", type=int, default=400_000, help="events")
    parser.add_argument("--batch", type=int, default=20_000, help="events in a batch at most, where that is known")
    parser.add_argument("--cores", type=int, default=2)
    chosen = parser.parse_args()
    print(f"{'events/s':<10}{'one group':>14}{'three':>14}  three to one")
    for kind in chosen.kinds or ("log", "kafka", "nats"):
        with _host(kind, chosen) as host:
            alone, three, again = (
                _rate(host, f"{kind}{run}", kind, groups, chosen.count) for run, groups in enumerate((1, 3, 1))
            )
        alone = max(alone, again)
        print(f"{kind:<10}{alone:>14,.0f}{three:>14,.0f}  {three / alone:.2f}×", flush=True)


@contextmanager
def _host(kind: str, chosen: argparse.Namespace) -> Iterator[SparkHost]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spdist-bench-")))
        url = ""
        if kind != "log":
            server = {"kafka": KafkaBroker, "nats": NatsServer}[kind](home / "server")
            url = stack.enter_context(server).url
        # Of Kafka's topics Spark counts the messages.
        batch = max(1, chosen.batch // PACKED) if kind == "kafka" else chosen.batch
        settings = settings_in(
            home, transports_in(home, kind, url), max_batch_events=batch, cores=chosen.cores, driver_memory="1g"
        )
        yield stack.enter_context(SparkHost(settings))


def _work(name: str, kind: str, groups: int) -> list[Assignment]:
    text = f"@app:name('{name}') @app:playback define stream S0 (k string, v long, mean double);"
    text += "".join(GROUP.format(n=n, next=n + 1) for n in range(groups)) + LAST.format(n=groups)
    return [one for one in plan(text, kind).assignments() if not one.group.endswith("-last")]


class _Recorder:
    """Keeps what a feed sends, so that encoding it takes no time of the run."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def partitions(self, topic: str) -> int:
        return 1

    def append(self, records: Sequence[Record]) -> None:
        self.records += records


def _rate(host: SparkHost, name: str, kind: str, groups: int, count: int) -> float:
    """Return events per second until the last group has put them out."""
    work = _work(name, kind, groups)
    warm, rest = _fed(work[0].inputs[0].topic, WARM), _fed(work[0].inputs[0].topic, count, WARM)
    transport = open_transport(transport_settings(host.config.transports))
    transport.ensure(work[0].inputs[0].topic, 1)
    running = [GroupRuntime(one, host, "bench") for one in work]
    try:
        for group in running:
            group.start()
        transport.append(warm)
        _until(running, WARM)
        began = time.monotonic()
        transport.append(rest)
        _until(running, WARM + count)
        return count / (time.monotonic() - began)
    finally:
        for group in running:
            group.stop()
        transport.close()


def _fed(topic: str, count: int, after: int = 0) -> list[Record]:
    recorder = _Recorder()
    feed = Feed(cast(Transport, recorder), topic, INPUT, producer="feed")
    for at in range(0, after + count, PACKED):
        numbers = range(at, min(after + count, at + PACKED))
        feed.send((1_000_000 + n, (f"k{n % 100}", n % 997, 0.0)) for n in numbers)
    return [record for record in recorder.records if record.seq >= after]


def _until(groups: list[GroupRuntime], count: int) -> None:
    pace, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while (statuses := [group.status() for group in groups])[-1].events_out < count:
        if failed := [status for status in statuses if status.state == "FAILED"]:
            sys.exit(f"{failed[0].name} failed: {failed[0].error}")
        if time.monotonic() > deadline:
            sys.exit(f"only {statuses[-1].events_out:,} of {count:,} events after {PATIENCE_S:.0f} s")
        pace.wait(0.02)


if __name__ == "__main__":
    main()
