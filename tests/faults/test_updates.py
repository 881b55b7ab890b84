"""An app is updated again and again while events come in: each is processed once, by one text, and nothing is replayed.

Over each transport, on a cluster of processes. ``SPDIST_UPDATES`` chooses how often; ``make updates`` takes twenty.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from spdist.cluster.processes.local import LocalCluster

UPDATES = int(os.environ.get("SPDIST_UPDATES", "3"))
#: Over what, where nobody asks for more.
WIRES = ["log", "kafka", "nats"] if "SPDIST_UPDATES" in os.environ else ["log"]
#: Events between two looks at the clock, and how many of them come in a second.
PACKED, PACE_S = 5, 0.02
START = 1_700_000_000_000

#: `count` never changes, beside a query that does: its number goes on. `{mark}` changes the first group, `{sum}` a
#: query of the second one, `{name}` the name of the third.
APP = """
@app:name('Ev')
define stream In (n long);
@sink(type='embedded', topic='Ev.Out') define stream Out (n long, mark int, number long);
@sink(type='embedded', topic='Ev.Sums') define stream Sums (n long, text int, ones long);
@sink(type='embedded', topic='Ev.Last') define stream Last (n long);
@info(name='mark') @dist(execGroup='one') from In select n, {mark} as mark insert into Mid;
@info(name='count') @dist(execGroup='two') from Mid select n, mark, count() as number insert into Out;
@info(name='sum') @dist(execGroup='two') from Mid select n, {sum} as text, sum(1L) as ones insert into Sums;
@dist(execGroup='{name}') from Mid select n insert into Last;
"""


def text(update: int) -> str:
    """The app after so many updates: each changes one of three things."""
    return APP.format(mark=(update + 2) // 3, sum=(update + 1) // 3, name=f"three{update // 3 % 2}")


@pytest.fixture
def cluster(tmp_path: Path, wire: tuple[str, str]) -> Iterator[LocalCluster]:
    kind, url = wire
    settings = {"SPDIST__TRANSPORTS__DEFAULT": kind}
    if kind == "kafka":
        settings["SPDIST__TRANSPORTS__KAFKA__BOOTSTRAP_SERVERS"] = url
    elif kind == "nats":
        settings["SPDIST__TRANSPORTS__NATS__URLS"] = url
    with LocalCluster(managers=1, workers=1, directory=tmp_path, settings=settings) as running:
        yield running


class Fed(threading.Thread):
    """Sends numbers until it is told to end."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(daemon=True)
        self._feed = cluster.feed("Ev", "In", "feed")
        self._end = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self._end.wait(PACE_S):
            self._feed.send([(START + n, (n,)) for n in range(self.sent, self.sent + PACKED)])
            self.sent += PACKED

    def end(self) -> int:
        self._end.set()
        self.join(30)
        return self.sent


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES, indirect=True)
def test_updated_again_and_again_each_event_is_processed_once_by_one_text(
    cluster: LocalCluster, wire: tuple[str, str], eventually: Callable[..., object]
) -> None:
    began = time.monotonic()
    cluster.deploy(text(0)).wait(timeout_s=180)
    feeding = Fed(cluster)
    feeding.start()

    def read(stream: str) -> list[tuple[int, ...]]:
        return [row for _, row in cluster.read("Ev", stream)]

    for update in range(1, UPDATES + 1):
        before = len(read("Sums"))
        eventually(lambda least=before + 100: len(read("Sums")) > least, "the text in force has put something out", 120)
        handle = cluster.deploy(text(update))
        changed = {one.id: one.outcome for each in handle.change.elements.values() for one in each}
        assert changed["query count"] == "keeps"
        assert changed["query mark"] == ("starts empty" if update % 3 == 1 else "keeps")
        assert changed["query sum"] == ("starts empty" if update % 3 == 2 else "keeps")
        handle.wait(timeout_s=180)
        print(f"{wire[0]}: update {update}, {len(read('Out')):,} of {feeding.sent:,} events", flush=True)
    sent = feeding.end()
    expected = list(range(sent))
    for stream in ("Out", "Sums", "Last"):
        eventually(lambda of=stream: len(read(of)) >= sent, f"{stream} has all {sent} events", 120)
    out, sums, last = read("Out"), read("Sums"), read("Last")

    assert [n for n, _, _ in out] == expected, "each event once, in order"
    assert all(before[1] <= after[1] for before, after in pairwise(out)), "no old event by a new text"
    assert [number for _, _, number in out] == [n + 1 for n in expected], "what did not change keeps its state"
    assert [n for n, _, _ in sums] == expected
    texts = [(version, [ones for _, _, ones in rows]) for version, rows in groupby(sums, lambda row: row[1])]
    assert [version for version, _ in texts] == list(range((UPDATES + 1) // 3 + 1))
    assert all(ones == list(range(1, len(ones) + 1)) for _, ones in texts), "what changed starts empty where it begins"
    assert sorted(n for (n,) in last) == expected, "a group that is renamed goes on where the old one ended"
    print(f"{wire[0]}: {UPDATES} updates, {sent:,} events in {time.monotonic() - began:.0f} s: 0 lost, 0 doubled")
