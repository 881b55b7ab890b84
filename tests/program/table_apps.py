"""Random apps whose queries write tables and look into them."""

from __future__ import annotations

import re
from itertools import cycle
from random import Random

from tests.program.drawn_apps import STREAM, WITH_OBJECTS, drawn_condition

__all__ = ["JOINED", "KEPT_OBJECTS", "LOOKED", "MEMBERS", "NUMBERED", "TABLES", "asked_of", "drawn_table_app"]

#: Attributes of the tables, by the names of those of the stream.
_ATTRIBUTES = {"sym": "string", "kind": "string", "price": "double", "rate": "float", "volume": "int", "total": "long"}
_ATTRIBUTES |= {"ok": "bool"}
_KEYS = ("", "", "'sym'", "'volume'", "'total'", "'ok'", "'sym', 'volume'", "'volume', 'ok', 'kind'", "'kind'")
_KEYS += ("'price'", "'rate', 'kind'")


def drawn_table_app(random: Random) -> str:
    """Return the text of an app of three to seven queries over one or two tables; its streams are those named Out."""
    made = [STREAM]
    tables: dict[str, tuple[str, ...]] = {}
    keys: dict[str, list[str]] = {}
    for table in ("T", "L")[: random.choice((1, 2, 2))]:
        key = random.choice(_KEYS)
        keys[table] = [name.strip(" '") for name in key.split(",") if key]
        names = {*keys[table], *random.sample(list(_ATTRIBUTES), 3)}
        tables[table] = tuple(name for name in _ATTRIBUTES if name in names)
        index = random.choice(("", f" @Index('{tables[table][0]}')"))
        attributes = ", ".join(f"{name} {_ATTRIBUTES[name]}" for name in tables[table])
        made.append(f"{f'@PrimaryKey({key}) ' if key else ''}{index} define table {table} ({attributes});")
    made.append(f"from S[{drawn_condition(random)}] select * insert into M;")
    for _ in range(random.randint(3, 7)):
        table = random.choice(list(tables))
        made.append(_change(random, table, tables[table]))
    for number in range(random.randint(0, 3)):
        table = random.choice(list(tables))
        made.append(_look(random, table, tables[table], keys[table], f"Out{number}"))
    made.append("from S#window.length(2) select sym, count() as n insert into Out;")
    return "\n".join(made)


def asked_of(app: str) -> list[str]:
    """Return questions to the tables of an app: what they hold, and some that change them."""
    tables = [table for table in ("T", "L", "B", "N", "R") if f"define table {table} " in app]
    if not tables:
        return []
    reads = [f"from {table} select *" for table in tables]
    found = [f"from {table} on {condition} select *" for table in tables for condition in _asked(app, table)]
    # A few for each app: many apps have all of them
    found = Random(app).sample(found, 6)
    return [*reads, *reads, *found, "from T select count() as n", f"delete {tables[0]} on true"]


#: Comparisons of an attribute with constants, by its type.
_COMPARISONS = {
    "string": ("{0} == 'a'", "'x' == {0}"),
    "int": ("{0} > 0", "{0} <= 2L", "1 == {0}"),
    "long": ("{0} < 3", "2 < {0}"),
    "double": ("{0} >= 0.5", "{0} == 1.5f"),
    "float": ("{0} < 1.5", "{0} == 0.5f"),
    "bool": ("{0} == true", "false == {0}"),
}


def _asked(app: str, table: str) -> list[str]:
    """Return conditions on the attributes of a table."""
    attributes = re.search(rf"define table {table} \((.*?)\)", app)
    assert attributes is not None
    pairs = [attribute.split() for attribute in attributes[1].split(", ")]
    tests = [test.format(f"{table}.{name}") for name, type in pairs for test in _COMPARISONS.get(type, ())]
    name = [name for name, type in pairs if type != "object"][-1]
    both = [f"{one} {word} {other}" for one, other, word in zip(tests, tests[1:], cycle(("and", "or")), strict=False)]
    first = tests[0] if tests else "true"
    rest = f"not ({name} is null)", f"{name} is null or {first}", f"maximum(1, 2) == 2 and {first}", f"not ({first})"
    return [*tests, *both, *rest, f"{first} and ({table}.{name} == {name}) in {table}"]


def _change(random: Random, table: str, names: tuple[str, ...]) -> str:
    """Return a query that changes a table."""
    source = random.choice(("S", "S", "M"))
    filter = f"[{drawn_condition(random)}]" if random.random() < 0.4 else ""
    window = random.choice(("", "", "#window.lengthBatch(3)", "#window.length(2)", "#window.timeBatch(40)"))
    events = random.choice(("", "", "all events ", "expired events ")) if window else ""
    limit = random.choice(("", "", "", " output all every 3 events", " output last every 40 milliseconds"))
    selected = ", ".join(_selected(random, name) for name in names)
    other = random.choice(("sum(volume) as more", "maximum(volume, 1) as more"))
    on = _condition(random, table, names)
    of = f" for {events.strip()}" if events else ""
    text = random.choice(
        (
            f"select {selected}{limit} insert {events}into {table};",
            f"select {selected}{limit} update or insert into {table}{of} on {on};",
            f"select {selected}{limit} update or insert into {table}{of}{_set(random, table, names)} on {on};",
            f"select {selected}{limit} update {table}{of} on {on};",
            f"select {selected}, {other}{limit} update {table}{of}{_set(random, table, names)} on {on};",
            f"select {selected}, {other}{limit} delete {table}{of} on {on};",
        )
    )
    query = f"from {source}{filter}{window} {text}"
    if random.random() < 0.1 and "window.timeBatch" not in query:
        return f"partition with (sym of {source}) begin {query} end;"
    return query


def _look(random: Random, table: str, names: tuple[str, ...], key: list[str], target: str) -> str:
    """Return a query that looks into a table."""
    source, on = random.choice(("S", "M")), _condition(random, table, names)
    if random.random() < 0.4:
        test = random.choice((f"({on}) in {table}", f"not (({on}) in {table})", f"ok or ({on}) in {table}"))
        if random.random() < 0.4:
            window = random.choice(("#window.length(2)", "#window.lengthBatch(2)", "#window.time(60)", ""))
            events = random.choice(("", "all events ")) if window else ""
            having = f" having ({table}.{names[0]} == {names[0]}) in {table}" if random.random() < 0.5 else ""
            shown = f"{test} as there, {', '.join(dict.fromkeys(('sym', *names)))}"
            return f"from {source}{window} select {shown}{having} insert {events}into {target};"
        if random.random() < 0.5:
            return f"from {source}[{test}]#window.length(2) select sym, count() as n group by sym insert into {target};"
        return f"from {source} select total, {test} as there, sym insert into {target};"
    return _join(random, source, table, names, key, target)


def _join(random: Random, source: str, table: str, names: tuple[str, ...], key: list[str], target: str) -> str:
    """Return a join of a stream with a table: by its primary key, by other attributes, or by none."""
    by = random.choice((key, random.sample(names, 1), random.sample(names, 1), []))
    found = [f"{table}.{name} == X.{name}" for name in by]
    if not found or random.random() < 0.3:
        other = random.choice(names)
        found.append(f"({table}.{other} is null or {table}.{other} == X.{other} or X.ok)")
    on = f" on {' and '.join(found)}" if random.random() < 0.9 else ""
    kind = random.choice(("join", "join", "left outer join", "right outer join"))
    window = random.choice(("", "", "", "#window.length(2)", "#window.time(60)"))
    filter = f"[{drawn_condition(random)}]" if random.random() < 0.5 else ""
    sides = [f"{source}{filter}{window} as X", table]
    random.shuffle(sides)
    selected = f"X.sym as sym, {table}.{names[0]} as a, {table}.{names[-1]} as b, X.total as total"
    if window and random.random() < 0.5:
        selected += ", count() as n, sum(X.volume) as v"
    behind = random.choice(("", "", f" group by {table}.{names[0]}", f" having {table}.{names[-1]} is null"))
    limit = random.choice(("", "", " output last every 2 events"))
    events = random.choice(("", "", "all events ", "expired events "))
    return f"from {sides[0]} {kind} {sides[1]}{on} select {selected}{behind}{limit} insert {events}into {target};"


def _selected(random: Random, name: str) -> str:
    """Return what a row has as an attribute."""
    computed = {"volume": "volume % 3", "price": "price * 2.0", "sym": "coalesce(sym, kind)", "ok": "not ok"}
    return f"{computed[name]} as {name}" if name in computed and random.random() < 0.15 else name


def _condition(random: Random, table: str, names: tuple[str, ...]) -> str:
    """Return by what rows are found."""
    parts = []
    for name in random.sample(names, min(len(names), random.choice((1, 1, 1, 2, 2, 3)))):
        parts.append(f"{table}.{name} == {name}")
    for _ in range(random.choice((0, 0, 1, 2))):
        name = random.choice(names)
        op = "==" if _ATTRIBUTES[name] in ("string", "bool") else random.choice(("==", "<", ">=", "!="))
        pair = [f"{table}.{name}", name]
        random.shuffle(pair)
        parts.append(f"{pair[0]} {op} {pair[1]}")
    parts += random.choice(((), (), (f"{table}.{random.choice(names)} is null",), (f"not ({names[0]} is null)",)))
    if random.random() < 0.1:
        return f"({parts[0]}) or ({parts[-1]})"
    return " and ".join(parts) if random.random() < 0.95 else "true"


def _set(random: Random, table: str, names: tuple[str, ...]) -> str:
    """Return what is assigned."""
    items = []
    for name in random.sample(names, random.randint(1, len(names))):
        values = [name, f"{table}.{name}"]
        if _ATTRIBUTES[name] in ("int", "long", "double", "float"):
            values.append(f"{table}.{name} + {name}")
        if _ATTRIBUTES[name] == "string":
            values += [other for other in ("sym", "kind") if other in names]
        items.append(f"{table}.{name} = {random.choice(values)}")
    return f" set {', '.join(items)}"


#: Tables without a primary key, and with one of several attributes, one of which may be null.
TABLES = f"""{STREAM}
define table T (sym string, price double, ok bool);
@PrimaryKey('kind', 'volume') define table L (kind string, volume int, total long, rate float);
from S[ok] select sym, price, ok insert into T;
from S#window.lengthBatch(3) select sym, price, ok update or insert into T set T.price = price, T.ok = T.ok
on T.sym == sym and (T.price < price or T.price is null);
from S[not ok] select sym, kind, price update T set T.sym = kind, T.price = T.price + price on T.sym == sym;
from S[rate > 0.0f] select sym, ok update T on T.ok == ok or T.sym == sym;
from S[volume > 0] select kind, volume, total, rate update or insert into L on L.kind == kind and L.volume == volume;
from S[volume < 0] select kind, total as least update L set L.total = L.total + least, L.rate = L.rate
on L.kind == kind and L.total < least;
from S#window.length(3) select kind, volume delete L for expired events on L.volume == volume and L.kind == kind;
from S[not ok] select sym, kind, volume update L set L.kind = sym on L.kind == kind and L.volume == volume;
from S[volume == 5] select sym, price delete T on T.sym == sym and T.price >= price;
from S#window.length(2) select sym, count() as n insert into Out;
"""
#: Tables with a number, a text and a bool for a primary key; no attribute of an event may be null.
NUMBERED = f"""{STREAM}
@PrimaryKey('n') define table T (n long, sym string);
@PrimaryKey('sym') define table L (sym string, volume int, n long);
@PrimaryKey('ok') define table B (ok bool, price double);
@PrimaryKey('price') define table R (price double, sym string);
from S select total as n, sym insert into T;
from S[volume > 0] select * insert into M;
from M select volume as many, total as n, kind update T set T.sym = kind on T.n >= n and T.n < n + many;
from S[volume == 0] select total as n delete T on T.n < n - 500L;
from S#window.lengthBatch(2) select coalesce(sym, kind) as sym, volume, total as n
update or insert into L set L.volume = volume, L.n = L.n + L.volume on L.sym == sym;
from S#window.timeBatch(60) select kind as sym, sum(volume) as v
delete L for all events on L.sym == sym or L.volume > v;
from S[rate > 0.1f] select sym, total as n update T set T.n = n, T.sym = sym on T.n == n - 60L;
from S[volume > 1] select kind as sym, volume, total as n update or insert into L set L.sym = sym on L.sym == 'a';
partition with (kind of S) begin
from S select ok, avg(price) as price update or insert into B on B.ok == ok;
end;
from S select price, sym insert into R;
from S[volume < 1] select price as least delete R on R.price < least - 7.0;
from S[ok] as X join R on R.price <= X.price select R.price as price, R.sym as sym insert into Out3;
from S as X join T on T.n > X.total - 900L and T.sym != X.kind select T.n as n, T.sym as sym insert into Out1;
from S[ok] as X left outer join L on L.volume == X.volume select X.sym as a, L.sym as b insert into Out2;
from S#window.length(2) select sym, count() as n insert into Out;
"""
#: Conditions that look into tables, by an index, by a primary key, and without.
MEMBERS = f"""{STREAM} @PrimaryKey('sym') define table T (sym string, volume int);
define table L (kind string, price double);
from S[ok] select sym, volume update or insert into T on T.sym == sym;
from S[not ok] select kind, price insert into L;
from S[(T.sym == sym and T.volume <= volume) in T]
select sym, (L.kind == kind) in L as k, (L.price > price) in L as p insert into Out1;
from S[not ((L.price == price) in L) or ok] select sym insert into Mid;
from Mid[(T.sym == sym) in T]#window.length(3)
select sym, count() as n group by sym insert all events into Out2;
from S#window.lengthBatch(3) select sym, kind, (T.sym == sym) in T as there
having not there or (L.kind == kind and L.price > 1.0) in L insert into Out3;
from S#window.time(60) select kind, volume, (T.volume == volume) in T as known, sum(total) as t
insert all events into Out4;
from S select volume, kind delete T on T.volume > volume and (L.kind == kind) in L;
from S[volume < 1] select kind, price, sym
update L set L.price = ifThenElse((T.sym == sym and T.volume > 0) in T, price, L.price + 1.0) on L.kind == kind;
"""
#: Joins of a stream with tables by their primary keys.
LOOKED = f"""{STREAM} @PrimaryKey('sym') define table T (sym string, volume int, price double);
@PrimaryKey('total', 'kind') define table N (total long, kind string);
from S[ok] select sym, volume, price update or insert into T on T.sym == sym;
from S[not ok] select total, kind insert into N;
from S as X join T on X.sym == T.sym select X.sym as a, T.volume as b, X.price + T.price as c insert into Out1;
from T as L right outer join S[S.volume > 0] as X on X.kind == L.sym and L.price <= X.price
select X.total, L.volume, L.sym, L is null as n, X is null as m having n or m or L.volume is null
output last every 2 events insert into Out2;
from S left outer join N on N.total == S.volume and N.kind == S.kind and not S.ok
select S.sym as sym, N.kind as kind, N.total as total insert into Mid;
from Mid#window.length(2) select sym, count() as n, sum(total) as t group by kind insert all events into Out3;
partition with (kind of S) begin
from S join T on T.sym == S.sym select S.kind as kind, T.price as p output last every 40 milliseconds insert into Out4;
end;
from S#window.length(2) select sym, count() as n insert into Out;
"""
#: Joins of a stream with tables that may find several rows, which have the order of the table.
JOINED = f"""{STREAM} @PrimaryKey('sym') define table T (sym string, volume int, ok bool);
@PrimaryKey('volume', 'ok', 'total', 'kind') define table L (volume int, ok bool, total long, kind string);
define table P (kind string, price double);
from S[ok] select sym, volume, ok update or insert into T on T.sym == sym;
from S select volume, ok, total, kind insert into L;
from S[rate > 0.0f] select kind, price insert into P;
from S[volume == 5] select kind, price delete P on P.kind == kind;
from S as X join T on T.volume <= X.volume select X.total as a, T.sym as b, X.price as c insert into Out1;
from L right outer join S[not (kind is null)] as X on L.kind == X.kind and L.total != X.total
select X.sym as sym, L.total as total, L is null as n, L.ok as ok having n or ok insert into Out2;
from S#window.length(3) as X left outer join P on P.kind == X.kind
select X.sym as sym, count() as n, sum(X.volume) as v, P.kind as kind group by P.kind insert all events into Out3;
from L join S#window.time(50) as X select X.kind as kind, L.kind as other, L.volume as volume group by L.kind, L.ok
output last every 3 events insert expired events into Mid;
from Mid#window.length(2) select kind, count() as n, sum(volume) as v group by kind insert all events into Out4;
partition with (kind of S) begin
from S join T on T.ok == S.ok select S.kind as kind, T.sym as sym insert all events into Out5;
end;
"""
#: Tables and named windows with objects: rows that are changed, joined, and asked for.
KEPT_OBJECTS = f"""{WITH_OBJECTS}
define table T (sym string, more object, n int);
define window W (sym string, more object, total long) length(3);
define window V (kind string, more object) timeBatch(50);
from S[ok] select sym, more, volume as n update or insert into T on T.sym == sym;
from S[volume < 0] select sym delete T on T.sym == sym;
from S[rate > 0.0f] select sym, list:create(more) as other update T set T.more = other on T.sym == sym;
from S as X join T on X.sym == T.sym select T.more as x, X.more as y, T.n as n insert into OutK1;
from S#window.length(2) as X left outer join T on X.volume == T.n select T.more as x, X.more as y
insert all events into OutK2;
from S select sym, more, total insert into W;
from S[(T.sym == sym and T.more is null) in T] select sym, more insert into OutK3;
from W select more, count() as n insert all events into OutK4;
from W as w join S as s on w.sym == s.sym select w.more as x, s.more as y insert into OutK5;
from S[not ok] select kind, createSet(sym) as more insert into V;
from V select kind, more, count() as n group by kind insert expired events into OutK6;
"""
