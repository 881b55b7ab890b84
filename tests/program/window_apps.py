"""Apps with named windows that have a typed form, and with windows that are rare."""

from __future__ import annotations

from random import Random

from spdist.operators.base import Arrival
from tests.program.drawn_apps import STREAM, drawn_condition, drawn_query, objects_too
from tests.program.drawn_bounds import drawn_bound

__all__ = [
    "ADAPTED",
    "CHAINED",
    "CRON",
    "DEDUPLICATED",
    "EXTERNAL_LATE",
    "FREQUENT",
    "KEYED",
    "KEYS_JOINED",
    "LOOKED",
    "MIXED",
    "PARTED",
    "PASSING",
    "REORDERED",
    "SESSIONS_LATE",
    "SLIDING",
    "SORTED",
    "asked_of",
    "disordered_events",
    "drawn_processed_app",
    "drawn_window_app",
]

_ATTRIBUTES = STREAM[STREAM.index("(") : -1]
_SLIDING = ("length(1)", "length(3)", "time(1)", "time(50)", "time(900)", "timeLength(60, 2)", "timeLength(900, 3)")
_SLIDING += ("length(0)", "sort(0, price)", "timeLength(60, 0)")
_SLIDING += ("delay(40)", "unique:ever(sym)", "unique:length(kind, 2)", "unique:time(sym, 300)", "session(60L, sym)")
_SLIDING += ("session(300L, sym, 200L)",)
_BATCHES = ("lengthBatch(0)", "frequent(2, sym)", "lossyFrequent(0.2, 0.1, sym)", "cron('* * * * * ?')")
_BATCHES += ("lengthBatch(3)", "lengthBatch(2, true)", "timeBatch(40)", "timeBatch(700, 7)", "timeBatch(60, true)")
_BATCHES += ("batch()", "batch(2)", "unique:lengthBatch(sym, 3)", "unique:timeBatch(kind, 90)")
_ANY = ("sym", "kind", "price", "rate", "volume", "total", "ok")


def drawn_window_app(random: Random) -> str:
    """Return the text of an app of one or two named windows that queries insert into and read; it writes Out..."""
    made = [STREAM]
    windows = {}
    for name in ("W", "V")[: random.choice((1, 1, 2))]:
        windows[name] = random.choice(_SLIDING if random.random() < 0.6 else _BATCHES)
        if random.random() < 0.2:
            windows[name] = drawn_bound(random)
        output = random.choice(("", "", " output all events", " output current events", " output expired events"))
        windows[name] += output
        made.append(f"define window {name} {_ATTRIBUTES} {windows[name]};")
    made.append(f"from S{random.choice(('', '[ok]', '[volume >= 0]'))} select * insert into M;")
    queries = [_writer(random, name) for name in windows for _ in range(random.choice((1, 1, 2)))]
    if len(windows) > 1 and random.random() < 0.5:
        queries.append(_moves(random))
    for name, window in windows.items():
        queries += [_reader(random, name, window, f"Out{name}{number}") for number in range(random.randint(1, 3))]
    listed = [name for name, window in windows.items() if not window.startswith("cron")]
    if listed and random.random() < 0.7:
        queries += [_join(random, name, n, windows[name]) for n, name in enumerate(listed)]
    if random.random() < 0.2:
        other = random.choice(("S[ok]", *windows))
        queries.append(f"from every a=W -> b={other} select a.kind as k, b.price as p insert into OutP;")
    random.shuffle(queries)
    text = "\n".join([*made, *queries])
    return objects_too(text) if random.random() < 0.3 else text


def asked_of(app: str) -> list[str]:
    """Return questions to the named windows of an app that keep what they hold."""
    found = []
    for name in ("W", "V", "N"):
        lines = [line for line in app.splitlines() if line.startswith(f"define window {name} ")]
        if lines and not ("output current" in lines[0] and "atch" in lines[0]) and "cron" not in lines[0]:
            found += [f"from {name} select *", f"from {name} on volume > 0 select kind, count() as n group by kind"]
    return found


def _writer(random: Random, window: str) -> str:
    """Return a query that inserts into a window."""
    source, filter = random.choice(("S", "S", "M")), f"[{drawn_condition(random)}]" if random.random() < 0.25 else ""
    own = random.choice(("", "", "", "#window.length(2)", "#window.lengthBatch(3)", "#window.timeBatch(30)"))
    events = random.choice(("", "all events ", "expired events ")) if own else ""
    limit = random.choice(("", "", "", " output all every 3 events", " output last every 40 milliseconds"))
    items = random.choice(("*", "*", "sym, kind, price * 2.0 as price, rate, volume, total, not ok as ok"))
    query = f"from {source}{filter}{own} select {items}{limit} insert {events}into {window};"
    if random.random() < 0.15 and "timeBatch" not in own:
        return f"partition with (sym of {source}) begin {query} end;"
    return query


def _moves(random: Random) -> str:
    """Return a query that inserts what a window releases into another one."""
    events = random.choice(("", "all events ", "expired events "))
    return f"from W[{drawn_condition(random)}] select * insert {events}into V;"


def _reader(random: Random, window: str, made: str, target: str) -> str:
    """Return a query over what a window releases."""
    totals = ["count()", "sum(volume)", "avg(price)", "stdDev(rate)", "maxForever(total)", "sum(total) + 1L"]
    uneven = "unique", "session", "delay", "frequent", "lossyFrequent", "cron", "expression"
    if not made.startswith(uneven) and "expired" not in made:
        totals += ["min(price)", "max(volume)", "distinctCount(kind)", "min(total)"]
    filter = "".join(f"[{drawn_condition(random)}]" for _ in range(random.choice((0, 0, 0, 1))))
    items = ["sym", "total", "ok"] if random.random() < 0.3 else random.sample(_ANY, random.randint(1, 3))
    items += [f"{one} as a{n}" for n, one in enumerate(random.sample(totals, random.choice((0, 1, 1, 3))))]
    items += random.choice(([], ["eventTimestamp() as t"], ["ifThenElse(ok, volume, 7) as v"]))
    names = [one.split(" as ")[-1] for one in items]
    group = random.choice(("", "", " group by sym", " group by kind, ok", " group by price"))
    having = random.choice(("", "", "", f" having not ({names[0]} is null)", " having count() > 2"))
    order = f" order by {random.choice(names)}{random.choice(('', ' desc'))}" if random.random() < 0.2 else ""
    cut = random.choice(("", "", "", " limit 1", " limit 2 offset 1"))
    events = random.choice(("", "", "all events ", "expired events "))
    every = random.choice(("3 events", "1 events", "50 milliseconds"))
    limit = f" output {random.choice(('all', 'first', 'last'))} every {every}" if random.random() < 0.3 else ""
    if random.random() < 0.1 and "expired" not in events:
        limit = " output snapshot every 50 milliseconds"
    selected = f"select {', '.join(items)}{group}{having}{order}{cut}{limit}"
    query = f"from {window}{filter} {selected} insert {events}into {target};"
    if random.random() < 0.2 and "having count()" not in query:
        return f"partition with ({random.choice(('sym', 'kind', 'volume % 2'))} of {window}) begin {query} end;"
    return query


def _join(random: Random, window: str, number: int, made: str) -> str:
    """Return a join with a window, also with itself, and in a partition."""
    key = random.choice(
        ("w.sym == s.sym", "w.sym == s.sym and w.ok == s.ok", "w.price < s.price", "w.price == s.price")
    )
    more = random.choice(("", " and w.total != s.total"))
    kind = random.choice(("join", "join", "left outer join", "right outer join", "full outer join"))
    own = random.choice(("", "#window.length(2)", "#window.time(60)", "#window.lengthBatch(2)", "#window.batch()"))
    one_way = random.choice(("", "", "", " unidirectional"))
    source = random.choice(("S", "S", "M[volume > 0]"))
    sides = [f"{window} as w", f"{source}{own} as s"]
    if random.random() < 0.2 and not made.startswith(("lengthBatch", "batch(2)", "expressionBatch")):
        sides, one_way = [f"{window} as w", f"{window} as s"], ""
    random.shuffle(sides)
    sides[0] += one_way
    events = random.choice(("", "all events ", "expired events "))
    behind = random.choice(("", "", " having v is null", " limit 2", " order by v", " output last every 3 events"))
    totals = random.choice(("", "", ", count() as c, sum(w.total) as z", ", min(s.volume) as m, max(w.price) as p"))
    group = random.choice(("", " group by s.kind")) if totals else ""
    selected = "select w.sym as a, s.kind as b, w.volume as v, s.total as t, w is null as n, w.ok as ok"
    selected += f"{totals}{group}{behind}"
    query = f"from {sides[0]} {kind} {sides[1]} on {key}{more} {selected} insert {events}into OutJ{number};"
    if source == "S" and "S" in sides[0] + sides[1] and random.random() < 0.2 and "unidirectional" not in query:
        return f"partition with (sym of S) begin {query} end;"
    return query


#: Windows that slide, with all outputs, readers with totals and without, several who insert, one from a partition.
SLIDING = f"""{STREAM}
define window W {_ATTRIBUTES} length(3) output all events;
define window V {_ATTRIBUTES} time(60);
define window U {_ATTRIBUTES} timeLength(300, 2) output expired events;
define window N {_ATTRIBUTES} time(40) output current events;
from S[ok] select * insert into W;
from W select sym, sum(volume) as v, max(price) as p, count() as n group by sym insert all events into Out1;
from S[not ok]#window.lengthBatch(2) select * insert all events into W;
from W[price > 0.0] select kind, distinctCount(sym) as d, min(total) as m insert into Out2;
from W select * insert expired events into V;
from V select kind, total, count() as n insert all events into Out3;
partition with (sym of S) begin from S[volume > 0]#window.length(2) select * insert into V; end;
from V[not (kind is null)] select sym, avg(rate) as r output last every 40 milliseconds insert into Out4;
from V select * insert into U;
from V[volume >= 0] select * insert all events into N;
from N select kind, min(volume) as m, sum(total) as t, count() as n group by kind insert into Out7;
from U select sym, volume, count() as n order by volume insert expired events into Out5;
from V select kind, count() as n group by kind output snapshot every 70 milliseconds insert into Out6;
"""
#: Windows that release batches, from one to the next; who asks for one sees the batch that was released last.
CHAINED = f"""{STREAM}
define window W {_ATTRIBUTES} lengthBatch(3);
define window V {_ATTRIBUTES} timeBatch(50) output all events;
from S select * insert into W;
from W select * insert all events into V;
from W select sym, sum(volume) as v, max(price) as p group by sym insert into Out1;
from V select kind, count() as n, distinctCount(sym) as d group by kind insert all events into Out2;
from V[ok] select sym, eventTimestamp() as t limit 2 insert expired events into Out3;
"""
#: Windows that joins look into: by a key, and by all that they hold; with a table, a stream, and one another.
LOOKED = f"""{STREAM}
define window W {_ATTRIBUTES} length(4);
define window V {_ATTRIBUTES} time(60) output current events;
define table T (kind string, n int);
from S[ok] select * insert into W;
from S[not ok or volume > 0] select * insert into V;
from S[volume > 0] select kind, volume as n insert into T;
from S#window.length(2) as s join W as w on s.kind == w.kind and w.total != s.total
select w.price as p, s.total as t insert all events into Out1;
from W as w left outer join V as v on w.kind == v.kind select w.sym as sym, v.volume as v insert all events into Out2;
from W as w join T on T.kind == w.kind select w.sym as sym, T.n as n limit 2 insert expired events into Out3;
from V[volume > 0] as v unidirectional full outer join S#window.time(300) as s on v.total > s.total
select v.sym as sym, s.kind as kind, v is null as none order by kind output last every 2 events insert into Out4;
from W as w join W as o unidirectional on w.kind == o.kind select w.sym as sym, count() as n insert into Out5;
"""
#: Partitions that name a key of the window that they join with: it means nothing, as the window has no part in them.
KEYED = f"""{STREAM}
define window W {_ATTRIBUTES} length(3);
from S[ok] select * insert into W;
partition with (sym of S, volume of W) begin
from S#window.length(2) as s join W as w on s.kind == w.kind
select s.sym as a, w.sym as b, count() as n insert all events into Out1;
end;
partition with (kind of W) begin from S#window.length(2) as s join W as w select w.sym as b insert into Out2; end;
partition with (sym of S, kind of W) begin from S select sym, count() as n insert into Out3; end;
"""
#: Windows that joins look into which have one event of each key, hold events back, or show nothing of what they hold.
KEYS_JOINED = f"""{STREAM}
define window E {_ATTRIBUTES} unique:ever(sym);
define window F {_ATTRIBUTES} unique:first(price);
define window T {_ATTRIBUTES} unique:time(kind, 300);
define window L {_ATTRIBUTES} unique:lengthBatch(volume, 3);
define window B {_ATTRIBUTES} unique:timeBatch(kind, 60);
define window Q {_ATTRIBUTES} frequent(2, kind);
define window D {_ATTRIBUTES} delay(60);
define window N {_ATTRIBUTES} session(60L, sym);
from S[ok] select * insert into E;
from S select * insert into F;
from S select * insert into T;
from S select * insert into L;
from S[price > 0.0] select * insert into B;
from S select * insert into Q;
from S select * insert into D;
from S select * insert into N;
from S#window.length(2) as s join E as e on s.kind == e.kind select e.sym as a, s.total as t
insert all events into Out1;
from S[volume > 0] as s left outer join F as f on s.volume == f.volume select f.price as p, s.total as t
insert into Out2;
from T as w join S#window.length(3) as s on w.sym == s.sym select w.kind as a, s.price as p insert all events into Out3;
from S#window.length(2) as s full outer join L as w on s.ok == w.ok select w.volume as v, s.price as p insert into Out4;
from B as w join S#window.time(60) as s on w.sym == s.sym select w.kind as a, s.price as p, count() as n
insert all events into Out5;
from S[ok] as s join Q as w on s.sym != w.sym select w.kind as a, w.price as p insert into Out6;
from D as w join S#window.length(2) as s on w.kind == s.kind select w.sym as a, s.price as p
insert all events into Out7;
from N as w full outer join S#window.length(2) as s on w.kind == s.kind select w.sym as a, s.price as p
insert all events into Out8;
"""
#: One window that stands in the loop, next to one that is joined, and to a query that is called.
MIXED = f"""{STREAM}
define window W {_ATTRIBUTES} time(50);
define window V {_ATTRIBUTES} time(50);
from S[ok] select * insert into W;
from S[not ok] select * insert into V;
from V as v join S#window.session(20L, sym, 9L) as s on v.kind == s.kind select v.sym as sym, count() as n
insert into Mid;
from Mid#window.time(50) select sym, count() as n insert all events into Out1;
from W select kind, count() as n, max(price) as p group by kind output last every 50 milliseconds insert all events
into Out2;
from V select sym, UUID() is null as u insert expired events into Out3;
from W select sym, sum(volume) as v insert expired events into Out4;
"""
#: Partitions whose queries read named windows: by an attribute, by what is computed, by ranges, and without a key.
PARTED = f"""{STREAM}
define window W {_ATTRIBUTES} length(3);
define window V {_ATTRIBUTES} time(60) output expired events;
define window B {_ATTRIBUTES} lengthBatch(2);
from S[ok] select * insert into W;
from S select * insert into V;
from S[volume > 0] select * insert into B;
partition with (sym of W, sym of S) begin
from W select kind, sum(volume) as v, count() as n group by kind insert all events into Out1;
from W[volume > 0] select kind, max(price) as p insert expired events into #I;
from #I select kind, p, count() as n insert into Out2;
from S#window.length(2) select sym, sum(total) as t insert all events into Out3;
end;
partition with (volume % 3 of V) begin from V select sym, count() as n having n > 1 insert into Out4; end;
partition with (volume > 0 as 'many' or volume <= 0 as 'few' of B) begin
from B select kind, sum(total) as t group by kind order by t limit 2 insert all events into Out5;
end;
partition with (sym of S) begin
from S select sym, price insert into Out6;
from W select kind, count() as n insert all events into Out7;
end;
"""
#: Windows in an order, and on a time attribute, by attributes that are never null; joins find what they hold.
SORTED = f"""{STREAM}
define window W {_ATTRIBUTES} sort(3, price, 'desc', sym);
define window V {_ATTRIBUTES} externalTime(total, 900) output all events;
define window N {_ATTRIBUTES} externalTimeBatch(total, 60) output current events;
define window L {_ATTRIBUTES} externalTimeBatch(total, 500, 0, 40);
from S select * insert into W;
from S[ok] select sym, kind, price, rate, volume, total, ok insert into W;
from W select sym, sum(volume) as v, min(price) as p group by sym insert all events into Out1;
from W select sym, price, kind order by kind insert expired events into Out2;
from S#window.length(2) as s join W as w on s.kind == w.kind select w.sym as sym, s.total as t
insert all events into Out3;
from S select * insert into V;
from S[ok] select * insert into N;
from V select kind, sum(volume) as v, count() as n group by kind insert all events into Out4;
from V as v join N as n on v.kind == n.kind select v.sym as a, n.sym as b, n.total as t insert all events into Out5;
from N select sym, total insert into Out6;
from S select * insert into L;
from L select kind, count() as n, max(volume) as v group by kind insert all events into Out7;
from S as s join L as l on s.kind == l.kind select s.sym as a, l.sym as b, l.total as t insert into Out8;
"""
#: Windows that hold nothing: an event leaves as soon as it has come, or never, or is never seen; and what nobody sees.
PASSING = f"""{STREAM}
from S#window.length(0) select sym, sum(volume) as v, max(price) as p, maxForever(rate) as r group by sym
insert all events into Out1;
from S#window.length(0)[price > 0.0] select kind, count() as n, minForever(total) as m insert into Out2;
from S#window.length(-3) select sym, total order by total desc limit 2 insert all events into Out3;
from S#window.length(0) select sym, price, count() as n having count() > 0 or n == 0 insert expired events into Mid;
from Mid#window.sort(0, price) select sym, max(price) as p, minForever(n) as m group by sym insert all events into Out4;
from S#window.sort(-1, rate, 'desc')[ok] select kind, rate, distinctCount(sym) as d insert expired events into Out5;
from S#window.timeLength(50, 0) select kind, sum(volume) as v, distinctCount(sym) as d group by kind insert all events
into Out6;
from S#window.timeLength(900, -1) select sym, total order by total insert expired events into Out7;
from S#window.lengthBatch(0) select sym, max(price) as p, distinctCount(kind) as d group by sym insert into Out8;
from S#window.lengthBatch(0, true)[volume > 0] select kind, count() as n, min(rate) as r insert all events into Out9;
from S#window.lengthBatch(-2) select kind, count() as n insert all events into Out10;
from S#window.unique:length(sym, 0) select sym, sum(volume) as v insert all events into Out11;
from S#window.length(0) select sym, count() as n having n > 0L output snapshot every 90 milliseconds insert into Out12;
from S#window.length(0) select sym, total order by total desc limit 3 insert into Out13;
from S select sym, max(price) as p, distinctCount(kind) as d having count() > 1 insert expired events into Out16;
partition with (kind of S) begin
from S select sym, avg(price) as p group by sym output last every 2 events insert expired events into Out17;
from S#window.length(0) select sym, count() as n, stdDev(price) as d group by sym insert expired events into Out14;
from S#window.lengthBatch(0) select sum(total) as t, sym order by sym insert all events into #I;
from #I#window.sort(0, t) select t, count() as n output last every 2 events insert all events into Out15;
end;
"""
#: Sessions that are kept for events that come late, which join them, or make two of them one.
SESSIONS_LATE = f"""{STREAM}
from S#window.session(60L, sym, 40L) select sym, kind, sum(volume) as v group by kind insert all events into Out1;
from S#window.session(300L, kind, 290L)[volume > 0] select sym, count() as n, max(price) as p insert into Mid;
from Mid#window.session(2 sec, sym, 1 sec) select sym, n order by n limit 3 insert expired events into Out2;
partition with (kind of S) begin
from S#window.session(300L, sym, 300L) select sym, sum(total) as t, count() as n insert all events into Out3;
from S[volume > 0]#window.session(5 sec, sym, 3 sec) select sym, total insert expired events into Out4;
end;
"""
#: Windows of a time attribute whose periods are released, once more and again, when no event comes for a while.
EXTERNAL_LATE = f"""{STREAM}
from S#window.externalTimeBatch(total, 60, 0, 40) select sym, sum(volume) as v group by sym insert all events into Out1;
from S#window.externalTimeBatch(total, 700, 7L, 300) select sym, avg(rate) as r, distinctCount(kind) as d
insert into Out2;
from S#window.externalTimeBatch(total, 900, total, 90, true) select total, max(price) as p, count() as n
insert all events into Out3;
from S#window.externalTimeBatch(total, 60, total) select kind, total order by kind limit 2 insert expired events
into Out4;
from S#window.externalTimeBatch(total, 300, 0, 0, true)[ok] select total, sym insert all events into Out5;
from S#window.externalTimeBatch(total, 500, 0, 200)[volume > 0] select sym, rate insert all events into Out6;
from S#window.externalTimeBatch(total, 800, 0, 100) select sym, count() as n output snapshot every 90 milliseconds
insert into Out7;
from S#window.unique:externalTimeBatch(sym, total, 300, 0, 40)[ok] select kind, sum(volume) as v group by kind
insert into Out9;
from S#window.unique:externalTimeBatch(volume, total, 700, 7, 90, true) select total, count() as n, max(price) as p
insert all events into Out10;
partition with (kind of S) begin
from S#window.externalTimeBatch(total, 900, total, 70) select sym, sum(total) as t, min(price) as p group by sym
insert all events into Out8;
from S#window.unique:externalTimeBatch(sym, total, 900, 0, 70) select sym, rate insert all events into Out11;
end;
"""
#: Windows of the keys that come often, by one attribute, by all that are selected, and behind a filter.
FREQUENT = f"""{STREAM}
from S#window.frequent(2, sym) select sym, count() as n, sum(volume) as v group by kind insert all events into Out1;
from S#window.frequent(3) select kind, ok, distinctCount(total) as d, max(price) as p insert all events into Out2;
from S[volume > 0]#window.frequent(1, kind)[price > 0.0] select kind, rate order by rate
insert expired events into Out3;
from S#window.lossyFrequent(0.2, 0.1, sym) select sym, kind, sum(volume) as v, min(total) as t group by kind
insert all events into Out4;
from S#window.lossyFrequent(0.15, 0.25) select price, count() as n insert all events into Out5;
from S#window.lossyFrequent(0.01, 0.0, kind) select kind, maxForever(rate) as r insert into Out6;
from S#window.frequent(20, sym) select sym, total output last every 3 events insert all events into Out7;
from S#window.frequent(0, sym) select sym insert all events into Out8;
partition with (kind of S) begin
from S#window.frequent(2, sym) select sym, avg(rate) as r, count() as n group by sym insert all events into Out9;
from S#window.lossyFrequent(0.3, 0.2, sym)[ok] select sym, total, sum(rate) as r insert all events into Out10;
end;
"""
#: Windows that a cron expression releases, in chains and partitions; one never fires.
CRON = f"""{STREAM}
from S#window.cron('* * * * * ?') select sym, sum(volume) as v, max(price) as p group by sym
insert all events into Out1;
from S[volume > 0]#window.cron('*/2 * * * * ?')[ok] select kind, count() as n insert into Out2;
from S#window.cron('0/3 * * * * ?') select sym, eventTimestamp() as at order by sym limit 3 insert all events into Mid;
from Mid#window.length(2) select sym, at, count() as n insert all events into Out3;
from S#window.cron('0 0 0 1 1 ? 1980') select sym insert all events into Out4;
from S#window.timeBatch(1000) select kind, count() as n insert into Out5;
partition with (kind of S) begin
from S#window.cron('*/5 * * * * ?') select kind, distinctCount(sym) as d, min(total) as t insert expired events into #I;
from #I#window.cron('*/1 * * * * ?') select kind, d, t insert into Out6;
from S#window.cron('* * * * * ?') select ok, avg(rate) as r group by ok output last every 700 milliseconds
insert into Out7;
end;
"""


def drawn_processed_app(random: Random) -> str:
    """Return the text of an app of one to three queries behind stream processors, for `disordered_events`."""
    made = [STREAM]
    for number in range(random.randint(1, 3)):
        keyed = random.random() < 0.2
        query = drawn_query(random, "S", f"Out{number}", keyed=keyed)
        filter = f"[{drawn_condition(random)}]" if random.random() < 0.3 else ""
        query = query.replace("from S", f"from S{filter}#{_drawn_processor(random)}", 1)
        made.append(f"partition with (kind of S) begin {query} end;" if keyed else query)
    return "\n".join(made)


def _drawn_processor(random: Random) -> str:
    times = ["", ", 300L", ", 300L, 400L", ", 1000L, -1L"]
    kind = random.choice(("kslack", "kslack", "akslack", "akslack", "deduplicate"))
    if kind == "deduplicate":
        key = random.choice(("sym", "rate", "volume", "ok", "price"))
        return f"unique:deduplicate({key}, {random.choice((1, 500))}L)"
    if kind == "kslack":
        return f"reorder:kslack(total{random.choice((*times, ', true', ', 500L, true', ', 500L, 900L, true'))})"
    more = random.choice(("", *(f", {random.randint(1, 5)}L{more}" for more in (*times, ", 400L, 900L, true"))))
    more += ", false, 0.1, 0.8" if more.count("L") == 3 and "true" not in more else ""
    return f"reorder:akslack(total, {random.choice(('volume', 'price', 'total'))}{more})"


def disordered_events(random: Random, count: int, start_ms: int, whole: bool) -> list[Arrival]:
    """Return events whose `total` is a time that is mostly near theirs, and not in order."""
    events, time = list[Arrival](), start_ms
    for _ in range(count):
        time += random.choice((0, 1, 5, 40, 300, 900, random.choice((300, 9000))))
        total = time - random.choice((0, 0, 0, 3, 50, 400, 2000, -500))
        texts = random.choice(("a", "b", None, "null", "länger als acht Zeichen")), random.choice("xy")
        numbers = random.choice((1.0, -0.0, 0.0, 2.5)), random.choice((0.5, None, 1.5, float("nan")))
        row = (*texts, *numbers, random.choice((1, 2, 3, 7)), total, random.choice((True, False)))
        events.append((time, row))
    return events


_PURGED = "@purge(enable='true', interval='1 sec', idle.period='2 sec')"
#: Events that are held back and put in order: in front of windows, of chains, by a key, behind what a function appends.
REORDERED = f"""{STREAM}
from S[ok]#reorder:kslack(total)[volume > 1]#window.length(2) select sym, kind, count() as n
insert all events into Out1;
from S#log('x')#reorder:kslack(total, 500L) select sym, total, rate, eventTimestamp() as t insert into Mid;
from Mid select sym, count() as n, max(t) as t group by sym insert into Out2;
from S#pol2Cart(1.0, 2.0)[ok]#reorder:kslack(total, 1500L, 700L)#window.lengthBatch(2)
select sym, x, sum(volume) as v group by sym insert all events into Out3;
from S#reorder:kslack(total, 300L, 400L, true)#window.time(300) select sym, sum(volume) as v group by sym
output last every 70 milliseconds insert all events into Out4;
{_PURGED} partition with (kind of S) begin
from S#reorder:kslack(total, 200L, true)#window.length(2) select sym, total, count() as n insert into #I;
from #I select sym, sum(n) as n insert into Out5;
end;
from S#reorder:kslack(total)#window.sort(2, price) select sym, price insert all events into Out6;
from S#reorder:kslack(total, 1000L)#window.timeBatch(1 sec) select sym, count() as n insert all events into Out7;
"""
#: The same with a slack that follows what comes.
ADAPTED = f"""{STREAM}
from S#reorder:akslack(total, volume)#window.length(2) select sym, total, count() as n insert all events into Out1;
from S#reorder:akslack(total, price, 3L) select sym, total, eventTimestamp() as t insert into Out2;
from S#reorder:akslack(total, volume, 2L, 500L)[ok] select sym, total insert into Out3;
from S#reorder:akslack(total, total, 4L, 800L, 600L)#window.lengthBatch(2) select sym, sum(volume) as v
insert all events into Out4;
from S#reorder:akslack(total, volume, 3L, -1L, -1L, false, 0.1, 0.8) select kind, total insert into Out5;
partition with (kind of S) begin
from S#reorder:akslack(total, volume, 2L, 400L, 900L, true) select sym, total, count() as n insert into Out6;
end;
"""
#: Events of which some do not pass, as others with their key did: texts, reals, what is computed; functions behind it.
DEDUPLICATED = f"""{STREAM}
from S[volume > 1]#unique:deduplicate(sym, 500L)[str:length(kind) > 0]
select sym, str:upper(kind) as kind insert into Out1;
from S[volume > 1]#unique:deduplicate(sym, 500L)#window.length(2) select sym, count() as n group by sym
insert all events into Out6;
from S#unique:deduplicate(rate, 1 sec) select rate, total, eventTimestamp() as t insert into Mid;
from Mid#unique:deduplicate(t % 7L, 300L) select rate, t insert into Out2;
from S#pol2Cart(1.0, 2.0)#unique:deduplicate(volume * 2, 300L)#window.time(300) select x, sum(volume) as v
insert all events into Out3;
from S#unique:deduplicate(ok, 40L) select ok, price output every 3 events insert into Out4;
{_PURGED} partition with (kind of S) begin
from S#unique:deduplicate(sym, 900L) select sym, count() as n insert into Out5;
end;
"""
