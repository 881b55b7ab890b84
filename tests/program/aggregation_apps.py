"""Random apps around aggregations, events for them, and what is seen of the aggregations."""

from __future__ import annotations

from random import Random
from typing import Any

from spdist.engine.island.hosted import HostedApp
from spdist.errors import OnDemandQueryError
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.aggregations.columns import plain
from tests.program.drawn_apps import STREAM, drawn_condition, drawn_events

__all__ = ["ADDED", "SUMMED", "drawn_aggregation_app", "seen", "timed_events"]

_NUMBERS = ("price", "rate", "volume", "total")
_ATTRIBUTES = ("sym", "kind", *_NUMBERS, "ok")
_DURATIONS = ("sec...hour", "sec...year", "sec", "sec, min", "min...day", "hour...year", "day", "month, year")
_COMPUTED = (
    "volume + 1",
    "ifThenElse(ok, price, 0.5)",
    "avg(price) * 2.0",
    "sum(volume) + count()",
    "price is null",
    "'text'",
    "max(total) - min(volume)",
    "coalesce(kind, sym)",
)
_PURGED = "@purge(enable='true', interval='3 sec', @retentionPeriod(sec='120 sec', min='24 hours', hours='all'))"

#: All kinds of slots, by a time of the events and by the clock, behind a filter, and a join that reads them.
ADDED = f"""{STREAM}
define aggregation A from S select sym, kind, avg(price) as a, min(rate) as b, max(volume) as c, distinctCount(volume)
as d, sum(total) as e, count() as f, volume as g, volume + 1 as h group by sym, rate
aggregate by total every sec...hour;
define aggregation B from S[volume > 0 or ok] select kind, min(price) as a, distinctCount(kind) as b, distinctCount(ok)
as c, price as d, sum(rate) as e, count() as f group by kind, ok aggregate every sec...min;
from S[volume > 1] as X join B within 0L, 9999999999999L per 'sec' select X.sym as s, B.kind as k, B.f as f
insert into Out;
from S#window.length(2) select sym, sum(volume) as v insert into Out2;
"""
#: What operators have as columns, too, where there are no nulls.
SUMMED = f"""{STREAM}
define aggregation A from S select sym, avg(price) as a, sum(total) as b, count() as c, max(volume) as d group by sym
aggregate by total every sec...hour;
define aggregation B from S select volume, sym, sum(rate) as a, min(total) as b group by volume, sym
aggregate every sec...min;
from S[volume > 1] as X join B on X.sym == B.sym and X.volume == B.volume within 0L, 9999999999999L per 'sec'
select X.sym as s, B.volume as k, B.a as f insert into Out;
from S#window.length(2) select sym, sum(volume) as v insert into Out2;
"""


def drawn_aggregation_app(random: Random) -> str:
    """Return the text of an app with one or two aggregations, which are read while events come, or only between."""
    made = [STREAM, STREAM.replace(" S ", " M "), STREAM.replace(" S ", " B ")]
    made.append("define table T (sym string, price double);")
    made.append(f"from S{_filter(random)} select * insert into M;")
    # What operators put out goes through the loop, too.
    row = ", ".join(f"X.{name} as {name}" for name in _ATTRIBUTES)
    made.append(f"from S as X left outer join T on X.sym == T.sym select {row} insert into B;")
    for name in ("A", "A2")[: random.randint(1, 2)]:
        made.insert(3, _aggregation(random, name, random.choice(("S", "S", "S", "M", "B"))))
        per = random.choice(("sec", "min", "hours", "years"))
        if random.random() < 0.4 and _has(made[3], per):
            on = random.choice(("", "on X.volume > 0 ", f"on X.sym == {name}.AGG_TEXT "))
            on = on if "AGG_TEXT" not in on or _shows(made[3], "sym") else ""
            made.append(
                f"from S as X join {name} {on.replace('AGG_TEXT', 'sym')}within 0L, 9999999999999L per '{per}' "
                f"select X.volume as v, {name}.c0 as c insert into Out{name};"
            )
    made.append("from S#window.length(2) select sym, sum(volume) as v insert into Out;")
    return "\n".join(made)


def _shows(definition: str, attribute: str) -> bool:
    """Tell whether an aggregation has an attribute by its own name: what it only groups by is none of its."""
    selected = definition.partition(" select ")[2].partition(" group by ")[0]
    return f" {attribute}," in f" {selected}"


def _has(definition: str, per: str) -> bool:
    every = definition.rpartition("every ")[2].rstrip(";")
    order = ("sec", "min", "hour", "day", "month", "year")
    place = order.index(per.rstrip("s"))
    if "..." in every:
        first, last = every.split("...")
        return order.index(first) <= place <= order.index(last)
    return order[place] in every.split(", ")


def _aggregation(random: Random, name: str, stream: str) -> str:
    keys = random.sample(_ATTRIBUTES, random.choice((0, 1, 1, 1, 2, 3)))
    items = ["count()"]
    for _ in range(random.randint(1, 5)):
        kind = random.random()
        if kind < 0.6:
            call, own = random.choice(("sum", "avg", "min", "max")), random.choice(_NUMBERS)
            items.append(f"{call}({own})")
        elif kind < 0.75:
            items.append(f"distinctCount({random.choice(_ATTRIBUTES)})")
        elif kind < 0.85:
            items.append(random.choice(_COMPUTED))
        else:
            items.append(random.choice(_ATTRIBUTES))
    shown = [key for key in keys if random.random() < 0.8]
    selected = ", ".join([*shown, *(f"{item} as c{n}" for n, item in enumerate(items))])
    group = f"group by {', '.join(keys)} " if keys else ""
    by = random.choice(("", "by total "))
    every = random.choice(_DURATIONS)
    purge = _PURGED if every.startswith("sec...") and random.random() < 0.5 else ""
    return (
        f"{purge} define aggregation {name} from {stream}{_filter(random)} select {selected} {group}"
        f"aggregate {by}every {every};"
    )


def _filter(random: Random) -> str:
    return f"[{drawn_condition(random)}]" if random.random() < 0.3 else ""


def timed_events(random: Random, count: int, start_ms: int, whole: bool = False) -> list[Any]:
    """Return events whose `total` is a time: mostly that of the event, sometimes far from it, or none."""
    far = (-61_000, 3_600_000, 90_000_000, -40_000_000)
    return [
        (
            time,
            (
                *row[:5],
                random.choice((None, 2**63 - 1, -(2**63)))
                if random.random() < 0.03
                else time + (random.choice(far) if random.random() < 0.2 else random.choice((0, 0, -3, -900, 40))),
                row[6],
            ),
        )
        for time, row in drawn_events(random, count, start_ms, whole)
    ]


def seen(app: HostedApp) -> Any:
    """Return all that aggregations have, in its order, and what queries find."""
    found: list[Any] = [app.failures.count]
    for id, of in app._stores.items():
        if not isinstance(of, Aggregation):
            continue
        for per in of.durations:
            try:
                found.append(app.query(f"from {id} within 0L, 9999999999999L per '{per}' select *").rows)
            except OnDemandQueryError as error:  # there is no calendar
                found.append(str(error))
        found.append([[(at, list(plain(one).items())) for at, one in level.items()] for level in of.open + of.closed])
        found += [of.starts, of.ends, of.purge.snapshot(), of.held_rows()]
    return _sorted_sets(found)


def _sorted_sets(value: Any) -> Any:
    """Return a value with sets in an order, which has none of its own."""
    if isinstance(value, set):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_sorted_sets(one) for one in value]
    return value
