"""Random apps whose queries write tables and look into them."""

from __future__ import annotations

from random import Random

from tests.program.drawn_apps import STREAM, drawn_condition

__all__ = ["NUMBERED", "TABLES", "asked_of", "drawn_table_app"]

#: Attributes of the tables, by the names of those of the stream.
_ATTRIBUTES = {"sym": "string", "kind": "string", "price": "double", "rate": "float", "volume": "int", "total": "long"}
_ATTRIBUTES |= {"ok": "bool"}
_KEYS = ("", "", "'sym'", "'volume'", "'total'", "'ok'", "'sym', 'volume'", "'volume', 'ok', 'kind'", "'kind'")


def drawn_table_app(random: Random) -> str:
    """Return the text of an app of three to seven queries over one or two tables; its streams are those named Out."""
    made = [STREAM]
    tables: dict[str, tuple[str, ...]] = {}
    for table in ("T", "L")[: random.choice((1, 2, 2))]:
        key = random.choice(_KEYS)
        names = {name.strip(" '") for name in key.split(",") if key} | set(random.sample(list(_ATTRIBUTES), 3))
        tables[table] = tuple(name for name in _ATTRIBUTES if name in names)
        index = random.choice(("", f" @Index('{tables[table][0]}')"))
        attributes = ", ".join(f"{name} {_ATTRIBUTES[name]}" for name in tables[table])
        made.append(f"{f'@PrimaryKey({key}) ' if key else ''}{index} define table {table} ({attributes});")
    made.append(f"from S[{drawn_condition(random)}] select * insert into M;")
    for _ in range(random.randint(3, 7)):
        table = random.choice(list(tables))
        made.append(_change(random, table, tables[table]))
    made.append("from S#window.length(2) select sym, count() as n insert into Out;")
    return "\n".join(made)


def asked_of(app: str) -> list[str]:
    """Return questions to the tables of an app: what they hold, and some that change them."""
    tables = [table for table in ("T", "L", "B", "N") if f"define table {table} " in app]
    if not tables:
        return []
    reads = [f"from {table} select *" for table in tables]
    return [*reads, *reads, "from T select count() as n", f"delete {tables[0]} on true"]


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
from S[volume == 5] select sym, price delete T on T.sym == sym and T.price >= price;
from S#window.length(2) select sym, count() as n insert into Out;
"""
#: Tables with a number, a text and a bool for a primary key; no attribute of an event may be null.
NUMBERED = f"""{STREAM}
@PrimaryKey('n') define table T (n long, sym string);
@PrimaryKey('sym') define table L (sym string, volume int, n long);
@PrimaryKey('ok') define table B (ok bool, price double);
from S select total as n, sym insert into T;
from S[volume > 0] select * insert into M;
from M select volume as many, total as n, kind update T set T.sym = kind on T.n >= n and T.n < n + many;
from S[volume == 0] select total as n delete T on T.n < n - 500L;
from S#window.lengthBatch(2) select coalesce(sym, kind) as sym, volume, total as n
update or insert into L set L.volume = volume, L.n = L.n + L.volume on L.sym == sym;
from S#window.timeBatch(60) select kind as sym, sum(volume) as v
delete L for all events on L.sym == sym or L.volume > v;
partition with (kind of S) begin
from S select ok, avg(price) as price update or insert into B on B.ok == ok;
end;
from S#window.length(2) select sym, count() as n insert into Out;
"""
