"""Stateless apps between Kafka topics, the same apps in virtual time, and payloads of every kind for them."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.facade import check
from spdist.language.checking.checker import check as check_tree
from spdist.language.parsing.parser import parse
from spdist.planning.columns.realtime import RealtimePlan, realtime_plan
from spdist.transports.in_memory import InMemoryBroker

SOURCE = (
    "@source(type='kafka', bootstrap.servers='{0}', topic.list='in', group.id='g', threading.option='single.thread',"
)
SINK = "@sink(type='kafka', bootstrap.servers='{0}', topic='{1}', @map(type='json'{2}))"
#: Filters, projections, a chain, a union, two sinks on one stream, functions that fail.
APP = f"""
{SOURCE} @map(type='json'))
define stream S (s string, i int, l long, f float, d double, b bool);
{SINK.format("{0}", "out", "")}
{SINK.format("{0}", "single", ", event.grouping.enabled='false'")}
define stream Out (s string, i int, l long, f float, d double, b bool);
{SINK.format("{0}", "lengths", "")}
define stream Lengths (n int, t string);
@info(name='all') from S[not (i == 13)] select * insert into Out;
@info(name='middle') from S[i > 0 and d < 100.0] select s, i * 2 + 1 as j, l insert into Middle;
@info(name='lengths') from S[b or i > 5] select str:length(s) as n, str:concat(s, '-', i) as t insert into Lengths;
@info(name='after') from Middle[j % 2 == 1] select ifThenElse(s is null, 0, j) as n, s as t insert into Lengths;
"""
TOPICS = ("out", "single", "lengths")


def planned(servers: str = "127.0.0.1:1", app: str = APP) -> RealtimePlan:
    checked = check(app.replace("{0}", servers))
    plan = realtime_plan(checked, catalog())
    assert isinstance(plan, RealtimePlan), str(plan)
    return plan


def in_virtual_time(payloads: list[bytes], app: str = APP) -> dict[int, list[tuple[str, str]]]:
    """For each payload, by number, the topics and payloads that the engine puts out."""
    text = app.replace("'kafka'", "'inMemory'").replace("topic.list=", "topic=")
    broker = InMemoryBroker()
    local = LocalApp(check_tree(parse(text), catalog(), text), broker=broker)
    out: list[tuple[str, str]] = []
    for topic in TOPICS:
        broker.subscribe(topic, lambda payload, _, topic=topic: out.append((topic, payload)))  # type: ignore[misc]
    local.start(0)
    found: dict[int, list[tuple[str, str]]] = {}
    for number, payload in enumerate(payloads):
        out.clear()
        with contextlib.suppress(UnicodeDecodeError):  # refused as a whole
            broker.publish("in", payload)
        if out:
            found[number] = list(out)
    return found


_TEXTS = [
    "",
    "x",
    "é",
    "😀",
    'a"b\\c',
    "\n\t\r\b\f",
    "\x00\x0b\x1f",
    "\u2028",
    "5",
    "null",
    "{",
    "[",
    "/",
    "\x7f",
    "\\u000B",
]


def _value(draw: random.Random, kind: str) -> Any:
    if draw.random() < 0.1:
        return None
    match kind:
        case "s":
            return draw.choice(_TEXTS)
        case "i":
            return draw.choice([0, 1, 13, 7, -3, 2**31 - 1, -(2**31), 2**31, 2.0, "7", True])
        case "l":
            return draw.choice([0, 5, 2**63 - 1, -(2**63), 2**63, 2**70, 1.5, "9"])
        case "f":
            return draw.choice([0, 1.5, -0.0, 3, 2**24 + 1, 1e39, 0.1, "1.5"])
        case "d":
            return draw.choice([1.0, 0.1, -0.0, 99.5, 1e300, 1e-7, 123456789.25, 5, "1.0", 1e22])
    return draw.choice([True, False, "true", 1])


def _right(draw: random.Random, kind: str) -> Any:
    """A value of the very type, most of the time."""
    for _ in range(20):
        value = _value(draw, kind)
        wanted = {"s": str, "i": int, "l": int, "f": float, "d": float, "b": bool}[kind]
        limit = 2**31 if kind == "i" else 2**63
        if value is None or (type(value) is wanted and (wanted is not int or -limit <= value < limit)):
            return value
    return None


def _event(draw: random.Random) -> Any:
    right = draw.random() < 0.7
    event = {kind: (_right if right else _value)(draw, kind) for kind in "silfdb"}
    if draw.random() < 0.15:
        event.pop(draw.choice(list(event)))
    if draw.random() < 0.05:
        event["more"] = 1
    if draw.random() < 0.3:
        items = list(event.items())
        draw.shuffle(items)
        event = dict(items)
    return event


#: Payloads that are wrong in one way each, or right in an unusual one.
ODD = [
    *(b"", b" ", b"7", b"null", b'"x"', b"[]", b"{}", b"[[]]", b"[7]", b"[null]", b'{"event":[]}', b'{"event":7}'),
    *(b"{", b'{"event":{}', b"\xff\xfe", b"\xef\xbb\xbf{}", b"{'s':'x'}", b"NaN", b'{"event":null}', b'["{}"]'),
    b'{"event":{"s":"a","i":1,"l":1,"f":1.0,"d":1.0,"b":true}} x',
    b'{"event":{"s":"a","i":1,"l":1,"f":1.0,"d":1.0,"b":true}}]',
    b' \n{"event":{"s":"a","i":1,"l":1,"f":1.0,"d":1.0,"b":true}}\t ',
    b'{"event":{"s":"a","i":1,"l":1,"f":1.0,"d":1.0,"b":true},"x":1}',
    b'{"event":{"s":"a","i":1,"i":2,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":"a","i":1,"l":1,"f":1.0,"d":NaN,"b":true}}',
    b'{"event":{"s":"a","i":01,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":"a","i":1,"l":1,"f":1E+2,"d":1e2,"b":true}}',
    b'{"event":{"s":5,"i":-0,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":5.50,"i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":1e5,"i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":true,"i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":{"k": [1, 2.0]},"i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":"\\u0041\\/\\ud83d\\ude00","i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'[{"event":{"s":"a","i":"1","l":"2","f":"1.5","d":"2","b":"TRUE"}},{"s":"b","i":3,"l":4,"f":5,"d":6,"b":false}]',
    b'[{"s":"b","i":3,"l":4,"f":5,"d":6,"b":false},{"s":"only"}]',
    b'[{"s":"b","i":3,"l":4,"f":5,"d":6,"b":false},{"event":7}]',
    b'[{"s":"b","i":"x","l":4,"f":5,"d":6,"b":false},{"s":"c","i":3,"l":4,"f":5,"d":6,"b":false}]',
    b'[{"s":"b","i":3,"l":4,"f":5,"d":6,"b":false},{"event":[]}]',
    b'[{"s":"b","i":3,"l":4,"f":5,"d":6,"b":false},{"s":null,"i":7,"l":4,"f":5,"d":6,"b":true}]',
    b'{"event":[{"s":"a","i":1,"l":1,"f":1.0,"d":1.0,"b":true},{"s":"b","i":9,"l":2,"f":1.0,"d":1.0,"b":false}]}',
    b'{"event":[{"s":"a","i":1,"l":1,"f":1.0,"d":1.0,"b":true},7]}',
    *(b"[" * 5000, b'{"event":' * 5000, b"[" * 5000 + b"]" * 5000),
    b'{"event":{"s":' + b"[" * 5000 + b"]" * 5000 + b',"i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
    b'{"event":{"s":' + b"[" * 150 + b"]" * 150 + b',"i":1,"l":1,"f":1.0,"d":1.0,"b":true}}',
]  # fmt: skip


def drawn_payloads(seed: int, count: int) -> list[bytes]:
    """Payloads of all kinds, the odd ones first."""
    draw = random.Random(seed)
    payloads = list(ODD)
    while len(payloads) < count:
        shape = draw.random()
        tree: Any = _event(draw)
        if shape < 0.6:
            tree = {"event": tree}
        elif shape < 0.8:
            tree = [{"event": _event(draw)} if draw.random() < 0.5 else _event(draw) for _ in range(draw.randint(1, 3))]
        elif shape < 0.85:
            tree = {"event": [_event(draw) for _ in range(draw.randint(1, 3))]}
        spaced = (",", ":") if draw.random() < 0.5 else None
        payloads.append(json.dumps(tree, ensure_ascii=draw.random() < 0.5, separators=spaced).encode())
    return payloads
