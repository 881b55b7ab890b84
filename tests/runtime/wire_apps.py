"""Apps in several groups, with their events, for tests over each transport."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from spdist import run
from tests.notebooks.running import run_cells

#: Two take turns, two share the shops and three the items, one hears all of both, and one sums up.
FIVE_GROUPS = """
@app:name('FiveGroups') @app:playback
define stream Orders (id long, shop string, item string, price double);
@sink(type='embedded', topic='FiveGroups.Totals')
define stream Totals (shop string, jumps long, rise double);
@dist(execGroup='clean', parallel='2') from Orders[price > 0.0] select id, shop, item, price insert into Sound;
@dist(execGroup='shops', parallel='2') partition with (shop of Sound) begin
    from Sound#window.length(5) select id, shop, avg(price) as usual insert into Usual; end;
@dist(execGroup='items', parallel='3') partition with (item of Sound) begin
    from every e1=Sound -> e2=Sound[price > e1.price * 1.5] within 2 sec
    select e2.id as id, e2.item as item, e2.price - e1.price as rise insert into Rises; end;
@dist(execGroup='meet') from Rises#window.time(1 sec) as r join Usual#window.length(20) as u on r.id == u.id
    select u.shop as shop, r.item as item, r.rise as rise, u.usual as usual insert into Jumps;
@dist(execGroup='totals') from Jumps#window.timeBatch(5 sec)
    select shop, count() as jumps, sum(rise) as rise group by shop insert into Totals;
"""

Rows = list[tuple[int, tuple[Any, ...]]]


@dataclass(frozen=True)
class Wired:
    """An app, what comes in, until when (ms), and what comes out in virtual time."""

    text: str
    stream: str
    events: Rows
    until: int
    output: str
    expected: Rows


def five_groups(count: int) -> Wired:
    """Orders, now and then several in a millisecond, and a quarter of them not sound."""
    rng, at, events = random.Random(count), 1_000_000, []
    for number in range(count):
        at += rng.choice((0, 0, 5, 40, 100))
        price = rng.choice((0.0, 1.0, 2.0, 3.5)) * rng.randint(1, 9)
        events.append((at, (number, f"shop {rng.randrange(7)}", f"item {rng.randrange(11)}", price)))
    until = at + 20_000
    expected = run(FIVE_GROUPS, {"Orders": events}, until=until)["Totals"]
    return Wired(FIVE_GROUPS, "Orders", events, until, "Totals", expected)


@cache  # the tests of each transport run the same
def quickstart(days: int) -> Wired:
    """What the notebook runs: the first days of its month."""
    ran = run_cells("quickstart", "cluster", days=days)
    return Wired(
        ran["text"], "Departures", list(ran["result"].events["Departures"]), ran["end"], "Alerts", list(ran["expected"])
    )
