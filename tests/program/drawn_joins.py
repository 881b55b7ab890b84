"""Random apps with joins of two streams, or of one with itself."""

from __future__ import annotations

from random import Random
from re import findall

from tests.program.drawn_apps import STREAM, drawn_condition, drawn_query, objects_too
from tests.program.drawn_bounds import drawn_bound

__all__ = ["drawn_join_app"]

_WAYS = ("'asc'", "'desc'")

_SHAPED = (
    "l.sym as sym, r.kind as kind, r.price as price, l.rate as rate, l.volume as volume, r.total as total, r.ok as ok"
)


def drawn_join_app(random: Random) -> str:
    """Return the text of an app of one or two joins, some of which others read, and that may be read by another one."""
    made = [STREAM, f"from S{_filter(random, 0.7)} select * insert into A;"]
    made.append(f"from S{_filter(random, 0.5)} select * insert into B;")
    if random.random() < 0.3:
        made.append("from S#window.length(1) select * insert expired events into B;")
    sides = random.choice((("A", "B"), ("A", "B"), ("S", "A"), ("B", "S"), ("S", "S"), ("S", "S"), ("A", "A")))
    if random.random() < 0.3:
        made.append(_partition(random, sides))
    made.append(_join(random, sides, "Out1" if random.random() < 0.4 else "J"))
    if made[-1].endswith("J;"):
        made.append("from J select sym, kind, price, rate, volume, total, ok insert into Out2;")
        made.append(drawn_query(random, "J", "Out3", keyed=True))
        if random.random() < 0.4:
            made.append(_join(random, random.choice((("J", "A"), ("S", "J"))), "Out4"))
    elif random.random() < 0.4:
        made.append(_join(random, sides, "Out5"))
    text = "\n".join(made)
    # Snapshots tell objects apart, which a program does not.
    told_apart = "snapshot" in text or "unique:time(" in text
    return objects_too(text) if not told_apart and random.random() < 0.3 else text


def _partition(random: Random, sides: tuple[str, str]) -> str:
    """Return a partition with a join of which another query may read what it puts out."""
    key = random.choice(("sym", "kind", "total", "ok"))
    keys = ", ".join(f"{key} of {stream}" for stream in sorted(set(sides)))
    inner = random.random() < 0.5
    queries = [_join(random, sides, "#J" if inner else "Out6", "#J" if inner else "")]
    if inner:
        queries.append("from #J#window.length(2) select sym, count() as n group by sym insert all events into Out7;")
    return f"partition with ({keys}) begin {' '.join(queries)} end;"


def _filter(random: Random, share: float) -> str:
    return f"[{drawn_condition(random)}]" if random.random() < share else ""


def _window(random: Random, stream: str) -> str:
    """Return a window; one that fails on a null only over a source, of which it is known that there is none."""
    some = random.choice
    if random.random() < 0.3:
        # The text of a real is a function, which has to be one of a source's attributes.
        reals = ("price",) if stream == "S" else ()
        key, span, length = some(("sym", "kind", "volume", *reals)), some((50, 900)), random.randint(1, 3)
        forever = f"unique:ever({key})", f"unique:first({key})", f"unique:ever({key})"
        timed = (f"unique:externalTimeBatch({key}, total, {span}{some(('', ', 0, 40'))})",) if stream == "S" else ()
        return "#window." + some(
            (
                *(*forever, *timed),
                f"session({span}L, {some(('sym', 'kind'))})",
                f"session({span}L)",
                f"session({span}L, sym, {some((20, 50))}L)",
                f"delay({some((1, 50, 900))})",
                f"delay({span})",
                f"frequent({length}, {some(('sym', 'kind'))})",
                f"lossyFrequent(0.2, 0.1, {some(('sym', 'kind'))})",
                f"unique:length({key}, {length})",
                f"unique:time({key}, {span})",
                f"unique:{some(('l', 'firstL'))}engthBatch({key}, {length})",
                f"unique:{some(('t', 'firstT'))}imeBatch({key}, {span})",
                f"unique:timeLengthBatch({key}, {span}, {length})",
            )
        )
    if stream == "S" and random.random() < 0.4:
        return some(
            (
                f"#window.sort({random.randint(1, 4)}, {some(('volume', 'rate', 'sym', 'kind'))}, {some(_WAYS)})",
                f"#window.sort({random.randint(1, 4)}, kind, {some(_WAYS)}, total)",
                f"#window.externalTime(total, {some((60, 900))})",
                f"#window.externalTime(total, {some((60, 900))})",
                f"#window.externalTimeBatch(total, {some(('60', '700', '40, 7L'))})",
            )
        )
    return random.choice(
        (
            "",
            f"#window.length({random.randint(1, 5)})",
            f"#window.length({random.randint(1, 5) % 5})",
            f"#window.time({random.choice((1, 50, 900))})",
            f"#window.timeLength({random.choice((50, 900))}, {random.randint(1, 4)})",
            f"#window.lengthBatch({random.randint(1, 4) % 4})",
            f"#window.timeBatch({random.choice(('1', '50', '900', '70, 13'))})",
            f"#window.lengthBatch({random.randint(1, 4)}, true)",
            f"#window.timeBatch({random.choice(('1', '50', '900', '70, 13'))}, true)",
            f"#window.batch({random.choice(('', '', '1', '2'))})",
            f"#window.{drawn_bound(random)}",
        )
    )


def _condition(random: Random) -> str:
    """Return what stands behind ``on``: equalities, also of expressions, other conditions, both, or nothing."""
    equal = random.choice(
        (
            "l.sym == r.sym",
            "r.kind == l.kind",
            "l.volume == r.total",
            "l.ok == r.ok",
            "l.volume % 3 == r.volume",
            "r.kind == l.kind and l.sym == r.sym",
            "l.sym == r.sym and r.volume == l.volume and l.ok == r.ok",
            "r.ok == (l.price > 0.5)",
            "l.kind == 'x' and r.kind == 'x'",
        )
    )
    other = random.choice(
        ("l.price > r.price", "l.volume != r.volume or r.ok", "l.total + 1L >= r.total", "l.rate == r.rate")
    )
    return random.choice(("", f" on {equal}", f" on {equal}", f" on {equal} and {other}", f" on {other}"))


def _join(random: Random, streams: tuple[str, str], target: str, shaped: str = "J") -> str:
    kind = random.choice(("join", "join", "inner join", "left outer join", "right outer join", "full outer join"))
    left, right = (_window(random, stream) for stream in streams)
    one_way = random.choice(("", "", "", "l", "r"))
    ways = [" unidirectional" if one_way == name else "" for name in "lr"]
    sides = [
        f"{stream}{_filter(random, 0.2)}{window} as {name}{way}"
        for stream, window, name, way in zip(streams, (left, right), "lr", ways, strict=True)
    ]
    events = random.choice(("", "", "all events ", "expired events "))
    limit = f" output {random.choice(('all', 'first', 'last'))} every {random.randint(1, 4)} events"
    shown = f" output snapshot every {random.choice((30, 300))} milliseconds"
    behind = random.choice(("", "", "", "", "", limit, limit, limit if "expired" in events else shown))
    slides = bool(left and right) and "atch" not in left + right
    alone = not events and "snapshot" not in behind and all("atch" in one or not one for one in (left, right))
    uneven = any(one in left + right for one in ("expression", "unique:", "session", "delay", "requent"))
    even = not uneven and ((slides and "outer" not in kind and not one_way) or alone)
    selected = _SHAPED if target == shaped else _selected(random, even)
    behind = _arranged(random, selected) + behind
    return (
        f"from {sides[0]} {kind} {sides[1]}{_condition(random)} select {selected}{behind} insert {events}into {target};"
    )


def _arranged(random: Random, selected: str) -> str:
    """Return ``order by``, ``limit`` and ``offset``, some or none of them; also by what is not selected."""
    names = [*findall(r" as (\w+)", selected), random.choice(("l.total", "r.price", "r.sym"))]
    by = ", ".join(name + random.choice(("", " desc")) for name in random.sample(names, min(2, len(names))))
    order = random.choice(("", "", f" order by {by}"))
    limit = random.choice(("", "", "", f" limit {random.randint(1, 3)}"))
    return order + limit + random.choice(("",) * 5 + (" offset 1",))


def _selected(random: Random, even: bool) -> str:
    """Return what is selected; `even`: all pairs come and leave, or none does, so that any totals can be kept."""
    items = random.sample(
        (
            "l.sym as a",
            "r.kind as b",
            "l.price * 2.0 as c",
            "coalesce(r.sym, l.kind) as d",
            "l.volume + r.volume as e",
            "eventTimestamp() as f",
            "r is null as g",
            "r.rate as h",
            "l.sym as sym, r.ok as ok",
        ),
        random.randint(1, 3),
    )
    group, having = "", random.choice(("", "", "", "", " having r is null", " having not (l is null)"))
    if random.random() < 0.6:
        items += random.sample(
            (
                "count() as n",
                "sum(l.total) as s",
                "avg(r.volume) as m",
                "stdDev(l.price) as w",
                "max(r.price) as hi",
                "min(l.rate) as lo",
                *(("distinctCount(l.kind) as v",) if even else ()),
            ),
            random.randint(1, 2),
        )
        having = random.choice((having, having, " having n is null or n > 1" if "count() as n" in items else ""))
    if random.random() < 0.4:
        group = random.choice((" group by l.sym", " group by l.kind, r.ok", " group by r.price"))
    return ", ".join(items) + group + having
