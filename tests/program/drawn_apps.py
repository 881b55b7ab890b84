"""Random apps that have a typed form, and events for them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from spdist.extension import stream_function
from spdist.language.types import Schema, Type
from tests.program.drawn_bounds import drawn_bound
from tests.program.drawn_patterns import drawn_pattern

STREAM = "define stream S (sym string, kind string, price double, rate float, volume int, total long, ok bool);"
#: The same with objects.
WITH_OBJECTS = STREAM.replace(");", ", more object);")
START_MS = 1_000_000

_ATTRIBUTES = ("sym", "kind", "price", "rate", "volume", "total", "ok")
_WHOLE_ROW = ("a", "x", 1.5, 0.5, 1, 3, True)
_NUMBERS = ("price", "rate", "volume", "total")
_KEYS = (
    "sym",
    "kind",
    "total",
    "price",
    "rate",
    "ok",
    "volume % 3",
    "math:abs(price)",
    "ifThenElse(ok, kind, 'x')",
    "price > 0.5 as 'a' or volume > 0 as 'x' or ok as 'c'",
    "str:concat(sym, kind)",
    "convert(rate, 'string')",
)
#: Functions of several attributes, or of one that is no text; none of them fails.
_JOINED = (
    "str:concat(sym, kind)",
    "str:concat(kind, '-', volume)",
    "str:concat(sym, price, ok)",
    "str:coalesce(kind, sym)",
    "convert(price, 'string')",
)
_UNIQUE = ("lengthBatch(sym, 2)", "firstLengthBatch(price, 3)", "timeBatch(sym, 50)", "timeLengthBatch(kind, 60, 2)")
#: Keys that were idle go.
_PURGE = "@purge(enable='true', interval='40 millisec', idle.period='50 millisec')"
#: Objects, and functions of some; none of them fails.
_OBJECTS = (
    "more",
    "more",
    "list:create(sym, volume)",
    "map:create(kind, price, 'x', more)",
    "createSet(sym)",
    "ifThenElse(ok, more, list:create(kind))",
    "coalesce(more, createSet(total))",
    "list:add(list:create(more), ok)",
)
_OF_OBJECTS = (
    "convert(more, 'string')",
    "json:toString(more)",
    "list:isList(more)",
    "instanceOfInteger(more)",
    "sizeOfSet(createSet(volume))",
    "list:size(list:create(more, sym))",
)
_AGGREGATORS = ("sum", "avg", "min", "max", "stdDev", "minForever", "maxForever")
#: Stream functions that never fail: an event becomes none, one, or several.
_EXPANDED = ("#pol2Cart(coalesce(price, 1.0), 2.0)", "#test:times(volume, sym)", "#test:times(1, kind)[times is null]")


def _three(_schema: Schema, _types: Any, _expressions: Any) -> Schema:
    return Schema.of([("copy", Type.STRING), ("times", Type.INT), ("even", Type.BOOL)])


@stream_function("test:times", _three)
def times(number: int | None, text: str | None) -> list[tuple[str | None, int | None, bool]]:
    """Give a text several times."""
    return [(text, one or None, one % 2 == 0) for one in range((number or 0) % 4)]


def drawn_app(random: Random) -> str:
    """Return the text of an app of one to four queries, which write the streams Out and Out2."""
    objects = random.random() < 0.3
    made = [WITH_OBJECTS if objects else STREAM]
    if random.random() < 0.4:
        made += [_moved(random, "A"), _moved(random, "B"), _matched(random, ("A", "B", "S"), "Out4")]
    for number in range(random.randint(1, 2)):
        made.append(_chain(random, f"Q{number}", random.choice(("Out", "Out2")), objects))
    if random.random() < 0.4:
        queries = [drawn_query(random, "S", "#I", keyed=True, objects=objects), "from #I select * insert into Out3;"]
        if random.random() < 0.4:
            queries.append(_matched(random, ("S",), "Out5"))
        purge = _PURGE if random.random() < 0.4 and not any("timeBatch" in query for query in queries) else ""
        made.append(f"{purge} partition with ({random.choice(_KEYS)} of S) begin {' '.join(queries)} end;")
    return "\n".join(made)


def drawn_events(random: Random, count: int, start_ms: int, whole: bool = False) -> list[tuple[int, tuple[Any, ...]]]:
    """Return timestamps and rows, in order of time, that come after `start_ms`.

    `whole` ones have no nulls, and a total that goes with time, more or less.
    """
    events, time = [], start_ms
    for _ in range(count):
        time += random.choice((0, 0, 1, 5, 60, 700))
        row = (
            random.choice(("a", "b", "null", "", "länger als acht Zeichen", "\uffff", "\U0001f600", None)),
            random.choice(("x", "y", None)),
            random.choice((None, 0.0, -0.0, 1.5, -2.25, 1e300, 0.1, 7.0, math.nan)),
            random.choice((None, 0.5, 0.1, -0.0, -3.0, 16777216.0)),
            random.choice((None, 0, 1, -1, 5, 2**31 - 1, -(2**31))),
            random.choice((None, 0, 3, -7, 2**53 + 1, 2**63 - 1, -(2**63))),
            random.choice((None, True, False)),
        )
        if whole:
            about = time + random.choice((-900, -3, 0, 0, 40))
            given = (*row[:5], about, row[6])
            row = tuple(one if value is None else value for value, one in zip(given, _WHOLE_ROW, strict=True))
        events.append((time, row))
    return events


def with_objects(random: Random, events: Sequence[tuple[int, tuple[Any, ...]]]) -> list[tuple[int, tuple[Any, ...]]]:
    """Return events with an object more, each with one of its own."""
    made: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: {"a": random.randrange(3), "b": [1.5, None]},
        lambda: [random.randrange(3), "x", {"c": True}],
        lambda: f"text {random.randrange(3)}",
        lambda: random.choice((7, -2.5, True, 2**40)),
    )
    return [(timestamp, (*row, random.choice(made)())) for timestamp, row in events]


def objects_too(text: str) -> str:
    """Return an app with objects: in the stream, what has the same attributes, and what joins and patterns show."""
    text = text.replace("ok bool)", "ok bool, more object)")
    text = re.sub(r"\b(\w+)\.ok as ok\b", r"\1.ok as ok, \1.more as more", text)
    text = re.sub(r"\b(\w+)\.total, \1\.ok\b", r"\g<0>, \1.more", text)
    text = re.sub(r"\b(e\d+(?:\[[^]]*\])?)\.price as (a\d)\b", r"\g<0>, \1.more as \2o", text)
    return re.sub(r"\btotal, (ok|not ok as ok)\b", r"\g<0>, more", text)


def _chain(random: Random, name: str, target: str, objects: bool) -> str:
    if random.random() < 0.5:
        return drawn_query(random, "S", target, objects=objects)
    # The second one may be reached on two ways.
    first = [drawn_query(random, "S", name, shaped=True, objects=objects) for _ in range(random.choice((1, 1, 2)))]
    return f"{' '.join(first)} {drawn_query(random, name, target, shaped=True, objects=objects)}"


def drawn_query(
    random: Random, stream: str, target: str, keyed: bool = False, shaped: bool = False, objects: bool = False
) -> str:
    """Return a query; one that is `shaped` puts out the attributes that it reads, so that another can follow.

    `objects`: the last of them is an object.
    """
    # Functions that are computed before the loop are those of a source's attributes.
    joins = stream == "S" and random.random() < 0.3
    filter = f"[{_met(random, joins)}]" if random.random() < 0.5 else ""
    if objects and random.random() < 0.3:
        filter += random.choice(("[more is null]", "[not (more is null)]", "[not (more is null) or ok]"))
    if objects and stream == "S" and random.random() < 0.2:
        filter += "[instanceOfInteger(more) or volume > 0]"
    if stream == "S" and not keyed and not shaped and random.random() < 0.2:
        filter += random.choice(_EXPANDED) + random.choice(("", f"[{drawn_condition(random)}]"))
    window = _window(random)
    events = random.choice(("", "", "all events ", "expired events ")[: 4 if window else 3])
    if shaped and random.random() < 0.5:
        arranged = _arranged(random, _ATTRIBUTES, events, objects)
        window += _behind(random, window, events + arranged)
        return f"from {stream}{filter}{window} select *{arranged} insert {events}into {target};"
    if shaped:
        items = ["sym", "kind", "price * 2.0 as price", "rate", "volume", "total", "ok"]
        if objects:
            items.append(f"{random.choice(_OBJECTS if stream == 'S' else _OBJECTS[:2])} as more")
        if random.random() < 0.5:
            items[2] = f"{random.choice(('sum', 'avg'))}({random.choice(('price', 'rate'))}) as price"
        group = random.choice(("", "", " group by kind", " group by sym, ok"))
        arranged = _arranged(random, _ATTRIBUTES, events, objects)
        window += _behind(random, window, events + arranged, items, group)
        return f"from {stream}{filter}{window} select {', '.join(items)}{group}{arranged} insert {events}into {target};"
    items = [f"{_aggregate(random)} as a{number}" for number in range(random.randint(0, 3))]
    items += [f"{_value(random)} as v{number}" for number in range(random.randint(0, 2))] or ["sym"]
    if joins:
        made = random.choice(_JOINED)
        totals = f"distinctCount({made})", f"max(str:length(str:concat({made}, '.')))"
        items.append(f"{random.choice((made, *totals))} as j")
    shown = list(items)
    if objects:
        functions = (*_OBJECTS, *_OF_OBJECTS, *_OF_OBJECTS)
        items += [f"{random.choice(functions if stream == 'S' else _OBJECTS[:2])} as o{n}" for n in (0, 1)]
    if "delay" in window:  # what only enters would be kept for ever
        items = [one.replace("min(", "minForever(").replace("max(", "maxForever(") for one in items]
    if "window.batch" in window or "expression" in window:  # a value may leave that is not there
        items = [one.replace("distinctCount(", "count(") for one in items]
    group = random.choice(("", "sym", "sym, kind", "kind, volume", "ok, total", "price", "rate, ok"))
    having = f" having {random.choice(shown).split(' as ')[-1]} is null" if random.random() < 0.2 else ""
    grouped = f" group by {group}" if group else ""
    arranged = _arranged(random, [one.split(" as ")[-1] for one in shown], events, objects)
    window += _behind(random, window, events + arranged, items, group)
    # Each query has attributes of its own, so each writes a stream of its own.
    own = target if keyed else f"{target}{random.randrange(10**6)}"
    behind = f"{grouped}{having}{arranged}"
    return f"from {stream}{filter}{window} select {', '.join(items)}{behind} insert {events}into {own};"


def _arranged(random: Random, names: Sequence[str], events: str, objects: bool) -> str:
    """Return how the results of a chunk are ordered and cut, given what a query puts out, and of which events."""
    by = [f"{name}{random.choice(('', ' asc', ' desc'))}" for name in random.sample(names, min(2, len(names)))]
    order = f" order by {', '.join(by[: random.randint(1, 2)])}" if random.random() < 0.35 else ""
    limit = f" limit {random.choice((0, 1, 1, 2, 2, 3, 5))}" if random.random() < 0.25 else ""
    offset = f" offset {random.choice((0, 1, 1, 2))}" if random.random() < 0.15 else ""
    return order + limit + offset + _limited(random, snapshots="expired" not in events and not objects)


def _limited(random: Random, snapshots: bool) -> str:
    """Return a rate limit, or none."""
    if random.random() < 0.65:
        return ""
    if snapshots and random.random() < 0.35:
        return f" output snapshot every {random.choice((20, 50, 700))} milliseconds"
    every = random.choice((*(f"{n} events" for n in (1, 2, 3, 5)), *(f"{n} milliseconds" for n in (1, 50, 700))))
    return f" output {random.choice(('all', 'first', 'last'))} every {every}"


def _window(random: Random) -> str:
    passes = random.choice(("", "", ", false", ", true"))
    return random.choice(
        (
            "",
            f"#window.length({random.randint(1, 4) % 4})",
            f"#window.time({random.choice((1, 50, 900))})",
            f"#window.lengthBatch({random.randint(1, 5) % 5}{passes})",
            f"#window.timeLength({random.choice((1, 50, 900))}, {random.randint(1, 4)})",
            f"#window.delay({random.choice((1, 50, 900))})",
            f"#window.timeBatch({random.choice((1, 40, 800))}{random.choice(('', ', 7'))}{passes})",
            f"#window.batch({random.choice(('', '1', '2', '3'))})",
            f"#window.{drawn_bound(random)}",
            f"#window.unique:{random.choice(_UNIQUE)}",
        )
    )


def _behind(random: Random, window: str, output: str, items: Sequence[str] = (), group: str = "") -> str:
    """Return conditions behind a window, where these have a typed form."""
    named = (*_AGGREGATORS, "count", "distinctCount", "and", "or")
    shows, totals = "snapshot" in output, any(f"{name}(" in item for item in items for name in named)
    if not window or random.random() < 0.6:
        return ""
    found = "".join(f"[{drawn_condition(random)}]" for _ in range(random.choice((1, 1, 2))))
    # What lets totals begin anew there is a copy of an event that is gone: no function of it is known.
    gone = "atch" in window and "expression" not in window and re.search("true|batch\\(|unique", window)
    return "" if gone and (totals or shows) and re.search(r"\w\(", found) else found


def _moved(random: Random, stream: str) -> str:
    """Return a query that brings some events of S into another stream, with timestamps of a window or its own."""
    events, window = random.choice((("", ""), ("", ""), ("expired events ", "#window.length(1)")))
    filter = random.choice(("", "[ok]", "[volume > 0]", f"[{drawn_condition(random)}]"))
    return f"from S{filter}{window} select * insert {events}into {stream};"


def _matched(random: Random, streams: tuple[str, ...], target: str) -> str:
    """Return a query over a pattern or sequence, which writes a stream of its own."""
    made, own = drawn_pattern(random, streams), random.randrange(10**6)
    return f"{made}{_limited(random, snapshots=False)} insert into {target}{own};"


def _met(random: Random, joins: bool) -> str:
    """Return a condition; one over a function of several attributes where it `joins` them."""
    if not joins or random.random() < 0.5:
        return drawn_condition(random)
    joined = f"{random.choice(_JOINED)} != '{random.choice(('ax', 'x', 'y-1', '1.5'))}'"
    return random.choice((joined, "str:equalsIgnoreCase(coalesce(sym, 'x'), kind)", f"ok or {joined}"))


def _aggregate(random: Random) -> str:
    if random.random() < 0.2:
        return "count()"
    if random.random() < 0.15:
        return f"distinctCount({random.choice(('sym', 'kind', 'volume', 'total', 'price', 'rate'))})"
    if random.random() < 0.1:
        truth = random.choice(("price > 0.5", "volume != total", "rate is null", "sym == kind or ok"))
        return f"{random.choice(('and', 'or'))}({truth})"
    text = f"{random.choice(_AGGREGATORS)}({_number_value(random)})"
    return f"{text} {random.choice('+-*/')} 2" if random.random() < 0.2 else text


def _number_value(random: Random, depth: int = 1) -> str:
    if depth and random.random() < 0.4:
        return f"({_number_value(random, 0)} {random.choice('+-*/%')} {_number_value(random, 0)})"
    if depth and random.random() < 0.25:
        return _called(random)
    return random.choice((*_NUMBERS, *_NUMBERS, "2", "3L", "0.5", "1.5f", "0"))


def _called(random: Random) -> str:
    """Return a function of numbers."""
    number = _number_value(random, 0)
    form = random.choice(
        (
            "math:abs({})",
            "math:sqrt({})",
            "math:power({}, 2)",
            "convert({}, 'int')",
            "convert({}, 'float')",
            "convert(ok, 'long')",
            "maximum({0}, {0})",
            "minimum(volume, 3)",
            "default(price, 0.0)",
            "time:extract(total, 'DAY')",
        )
    )
    return form.format(number)


def _value(random: Random) -> str:
    return random.choice(
        (
            "sym",
            "kind",
            "ok",
            "price",
            "volume",
            _number_value(random, 1),
            f"ifThenElse({drawn_condition(random)}, volume, 7)",
            "coalesce(sym, kind)",
            "eventTimestamp()",
            "currentTimeMillis()",
            "instanceOfString(kind)",
            "coalesce(ok, price > 1.0)",
            "convert(rate, 'bool')",
        )
    )


def drawn_condition(random: Random, depth: int = 1) -> str:
    if depth and random.random() < 0.4:
        return f"({drawn_condition(random, 0)} {random.choice(('and', 'or'))} {drawn_condition(random, 0)})"
    return random.choice(
        (
            f"{_number_value(random)} {random.choice(('<', '<=', '>', '>=', '==', '!='))} {_number_value(random)}",
            f"sym {random.choice(('==', '!='))} {random.choice((repr('a'), 'kind'))}",
            "ok",
            "not ok",
            "price is null",
            "ok == true",
        )
    )
