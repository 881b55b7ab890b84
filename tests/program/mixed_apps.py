"""Random apps of which some elements have a typed form, and others have none."""

from __future__ import annotations

import re
from random import Random

from tests.program.drawn_apps import STREAM, drawn_condition, drawn_query, objects_too

__all__ = ["drawn_mixed_app"]

_ATTRIBUTES = STREAM.partition("S ")[2].rstrip(";")
#: A condition without typed form.
_UNTYPED = "coalesce(sym, convert(eventTimestamp(), 'string')) != 'b'"
_NAMES = ("sym", "kind", "price", "rate", "volume", "total", "ok")
_KEPT = f"""
define table T {_ATTRIBUTES};
define window W {_ATTRIBUTES} """


def drawn_mixed_app(random: Random) -> str:
    """Return the text of an app of three to seven elements around a table, a named window and a trigger.

    Its streams are handed out whose names begin with Out, also those that others read.
    """
    window = random.choice(("length(2)", "time(50)", "timeBatch(40)", "lengthBatch(2)"))
    made = [STREAM, f"{_KEPT}{window} output {random.choice(('all', 'current', 'expired'))} events;"]
    made.append(f"define trigger Tick at every {random.choice((7, 40, 700))} milliseconds;")
    streams = ["S", "S"]
    for number in range(random.randint(3, 7)):
        given = random.choice(streams)
        target = f"{random.choice(('Out', 'M'))}{number}"
        if random.random() < 0.5:
            shaped = random.random() < 0.6
            made.append(drawn_query(random, given, target, keyed=not shaped, shaped=shaped))
        else:
            shaped = True
            made.append(_called(random, given, target))
        if shaped and f"into {target};" in made[-1]:
            streams.append(target)
    if not re.search(r"\bS\b", "\n".join(made[3:])):
        made.append("from S select sym insert into OutS;")
    text = "\n".join(made)
    return objects_too(text) if random.random() < 0.3 else text


def _called(random: Random, given: str, target: str) -> str:
    """Return an element that has no typed form; it may put out what `given` has."""
    filter = f"[{drawn_condition(random)}]" if random.random() < 0.6 else ""
    events = random.choice(("", "all events "))
    source = f"{given}{filter}"
    joined = ", ".join(f"T.{one} as {one}" if one != "volume" else "X.volume as volume" for one in _NAMES)
    return random.choice(
        (
            f"from {source} select * insert into T;",
            f"from {source} select * update or insert into T on T.sym == sym;",
            f"from {source} delete T on T.sym == sym;",
            f"from {source} as X join T on X.sym == T.sym select {joined} insert into {target};",
            f"from {source}#window.length(2) as X join T on X.total > T.total select {joined} insert into {target};",
            f"from {source} select * insert into W;",
            f"from W{filter} select * insert {events}into {target};",
            f"from Tick as X join T select {joined.replace('X.volume', '1')} insert into {target};",
            f"from Tick select eventTimestamp() as a insert into {target}t;",
            f"from {source}[{_UNTYPED}] select * output snapshot every {random.choice((40, 700))} milliseconds "
            f"insert into {target};",
            f"from {source}#window.time(0) select * insert {events}into {target};",
            f"from {source}#window.unique:time(sym, 0) select * insert {events}into {target};",
            f"partition with (sym of {given}) begin from {source}[{_UNTYPED}] select * "
            f"output snapshot every 40 milliseconds insert into #I; from #I select * insert into {target}; end;",
            f"from every e1={source} -> not {given}[ok] for 40 milliseconds select e1.sym, e1.kind, e1.price, e1.rate, "
            f"e1.volume, e1.total, e1.ok insert into {target};",
        )
    )
