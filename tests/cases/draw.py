# ruff: noqa: E501  (tables of windows and templates of queries)
"""Random apps across the language, as cases without results: ``python -m tests.cases.draw COUNT [SEED] > cases.jsonl``.

What is drawn combines windows, selections, rate limits, joins, patterns, sequences, partitions, tables, named windows and
queries on demand, with few values so that things meet. A Siddhi engine in virtual time tells what should come out; what
differs is made small, and kept with its results in a file beside this one. What the ledger names as a deviation is not
drawn.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["draw"]

STREAMS = {"S": ("k", "g", "v", "w", "at"), "R": ("k", "x", "y")}
DEFINITIONS = (
    "define stream S (k string, g string, v int, w double, at long);\ndefine stream R (k string, x int, y float);"
)
NUMBERS = {"S": ("v", "w", "at"), "R": ("x", "y")}
#: Not drawn is delay, with which a Siddhi engine in virtual time often does not end.
SLIDING = ("length(1)", "length(3)", "length(0)", "time(40)", "time(150)", "timeLength(90, 2)", "externalTime(at, 60)", "sort(2, v)",
    "sort(2, v, 'desc')", "session(70 milliseconds)", "session(70 milliseconds, g)", "unique:ever(k)", "unique:length(k, 2)", "unique:first(k)", "unique:time(k, 80)",
    "expression('count() <= 2')", "expression('sum(v) < 9')", "frequent(2, k)")  # fmt: skip
BATCHES = ("lengthBatch(2)", "lengthBatch(3)", "lengthBatch(2, true)", "timeBatch(50)", "timeBatch(60, 0)", "timeBatch(50, true)", "batch()", "batch(2)",
    "externalTimeBatch(at, 60)", "externalTimeBatch(at, 60, 0)", "externalTimeBatch(at, 60, at - 10L, 100)", "expressionBatch('count() <= 2')", "unique:lengthBatch(k, 2)",
    "unique:timeBatch(k, 70)", "unique:firstLengthBatch(k, 2)")  # fmt: skip
JOINABLE = (
    "length(1)",
    "length(3)",
    "time(60)",
    "time(150)",
    "sort(2, {n})",
    "lengthBatch(2)",
    "timeBatch(70)",
    "unique:ever(k)",
)
#: Siddhi loses events of these that come in chunks or have no key, and pairs of a join that cuts those of a chunk.
SPARING = ("unique:length(", "unique:lengthBatch(", "unique:firstLengthBatch(", "unique:time(")
#: Of what these hold Siddhi forgets the least and the greatest.
FORGETFUL = ("session", "unique:ever", "unique:length(", "unique:time(")
EVENTS = ("", "", "", "all events ", "expired events ", "current events ")
#: Windows of which Siddhi keeps one state for all keys of a partition.
SHARED = ("expression", "unique:lengthBatch", "unique:timeBatch", "unique:firstLengthBatch")
#: What has timers. Those of several keys must not be due at once, so none that all keys share are drawn in partitions,
#: and the times of events leave another remainder for each key; all periods are multiples of the divisor.
TIMED = ("ime", "session", "milliseconds")
REMAINDERS = {"a": 0, "b": 1, "c": 2, None: 2, "hi": 3, "lo": 4}
DIVISOR = 5


class _Draw:
    """One app being drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.definitions = [DEFINITIONS]
        self.queries: list[str] = []
        self.asked: list[str] = []
        self.forever = False  # whether it is about a window over which Siddhi has a min and a max of its own
        self.keys = ""
        #: Whether there are timers in a partition.
        self.timed = False
        #: Whether numbers are sorted, among which Siddhi takes no null.
        self.sorting = False

    def pick(self, options: Sequence[Any]) -> Any:
        return self.dice.choice(options)

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    # Expressions.

    def number(self, names: Sequence[str], deep: int = 1) -> str:
        if deep and self.chance(0.4):
            form = self.pick(("{0} + {1}", "{0} - {1}", "{0} * 2", "{0} / {1}", "{0} % 3", "maximum({0}, {0})",
                "ifThenElse({0} > {1}, {0}, {0})", "default({0}, 0)", "math:abs({0})"))  # fmt: skip
            if form.startswith("default"):
                form = "coalesce({0}, {0})"
            return str(form).format(self.number(names, deep - 1), self.number(names, deep - 1))
        return self.pick(names) if self.chance(0.8) else self.pick(("1", "2L", "0.5", "3", "1.5f"))

    def test(self, names: Sequence[str], texts: Sequence[str], deep: int = 1) -> str:
        if deep and self.chance(0.35):
            form = self.pick(("({} and {})", "({} or {})", "not ({}) or {}"))
            return str(form).format(self.test(names, texts, deep - 1), self.test(names, texts, deep - 1))
        if self.chance(0.3) and texts:
            return str(
                self.pick(
                    (
                        "{} == 'a'",
                        "{} != 'b'",
                        "{} is null",
                        "not ({} is null)",
                        "str:contains(str:concat({}, ''), 'a')",
                    )
                )
            ).format(self.pick(texts))
        return f"{self.number(names, 1)} {self.pick(('>', '<', '>=', '<=', '==', '!='))} {self.pick(('0', '2', '4', '1.5', *names))}"

    def aggregate(self, names: Sequence[str], texts: Sequence[str]) -> str:
        name = self.pick(
            ("sum", "avg", "min", "max", "count", "stdDev", "distinctCount", "minForever", "maxForever", "and", "or")
        )
        if self.forever and name in ("min", "max"):
            name = "sum"
        if name == "count":
            return self.pick(("count()", "count()", f"count({self.pick((*names, *texts))})"))
        if name == "distinctCount" and texts:
            return f"distinctCount({self.pick(texts)})"
        if name in ("and", "or"):
            return f"{name}({self.pick(names)} > 2)"
        argument = self.pick(names) if self.chance(0.8) else self.number(names)
        return f"{name}({argument})"

    # Selections.

    def selection(
        self, names: Sequence[str], texts: Sequence[str], sources: bool = False, cut: bool = True
    ) -> tuple[str, list[str]]:
        """Return the clauses behind ``select``, and what is put out."""
        items: dict[str, str] = {}
        aggregated = self.chance(0.5)
        for number in range(self.dice.randint(1, 4)):
            kind = self.dice.random()
            if aggregated and kind < 0.5:
                items[f"t{number}"] = self.aggregate(names, texts)
            elif kind < 0.65:
                items[f"a{number}"] = self.number(names, 1)
            elif kind < 0.85 and texts:
                items[f"s{number}"] = self.pick(texts)
            elif kind < 0.95:
                items[f"b{number}"] = f"({self.test(names, texts)})"
            else:
                items[f"e{number}"] = "eventTimestamp()"
        out = list(items)
        text = ", ".join(f"{value} as {name}" for name, value in items.items())
        groups = self.dice.sample([*texts, *names], self.dice.randint(1, 2)) if self.chance(0.35) else []
        text += f" group by {', '.join(groups)}" if groups else ""
        numbers = [name for name in out if name[0] in "ae"] + [
            n for n in out if n[0] == "t" and not items[n].startswith(("and", "or"))
        ]
        seen = numbers + (list(names) if sources else [])
        words = [name for name in out if name[0] == "s"] + (list(texts) if sources else [])
        if cut and seen and self.chance(0.3):
            condition = self.test(seen, words)
            if self.chance(0.2):
                condition = f"{condition} or {self.pick(('sum', 'count', 'avg' if self.forever else 'max', 'avg'))}({self.pick(seen)}) > 3"
            text += f" having {condition}"
        if (seen or words) and self.chance(0.3):
            keys = self.dice.sample(seen + words, min(len(seen + words), self.dice.randint(1, 2)))
            text += " order by " + ", ".join(key + self.pick(("", " desc", " asc")) for key in keys)
        if cut and self.chance(0.2):
            text += f" limit {self.pick((0, 1, 2, 3))}"
        if cut and self.chance(0.12):
            text += f" offset {self.pick((0, 1, 2))}"
        return text, out

    def rate(self, first: bool = True) -> str:
        return self.pick((" output every 3 events", " output last every 2 events", " output all every 2 events",
            " output every 60 milliseconds", " output last every 70 milliseconds", *[" output first every 50 milliseconds"] * first))  # fmt: skip

    # Queries.

    def filters(self, stream: str, share: float = 0.3) -> str:
        texts = [name for name in STREAMS[stream] if name in "kg"]
        return f"[{self.test(NUMBERS[stream], texts)}]" if self.chance(share) else ""

    def single(self, partitioned: bool = False) -> str:
        window = self.pick((*SLIDING, *BATCHES)) if self.chance(0.8) else ""
        while partitioned and (window.startswith(SHARED) or window == "timeBatch(60, 0)"):
            window = self.pick((*SLIDING, *BATCHES))
        self.forever = window.startswith(FORGETFUL)
        source = f"S{self.filters('S')}" + (f"#window.{window}" if window else "") + self.filters("S", 0.15)
        text, out = self.selection(NUMBERS["S"], ("k", "g"))
        if self.chance(0.06):
            text, out = "*", []
        rate = self.rate("atch" not in window) if self.chance(0.2) else ""
        alike = len({name[0] == "t" for name in out}) < 2  # totals beside other values
        if window and not rate and alike and self.chance(0.08):
            return f"from {source} select {text} output snapshot every 60 milliseconds insert into Out;"
        return f"from {source} select {text}{rate} insert {self.pick(EVENTS)}into Out;"

    def join(self, partitioned: bool = False) -> str:
        other = self.pick(("R", "R", "S", "T", "W")) if not partitioned else self.pick(("R", "T"))
        batch, bare = [False], [False]

        def side(stream: str, name: str, optional: float) -> str:
            window = self.pick(JOINABLE) if not self.chance(optional) else ""
            batch[0] = batch[0] or "Batch" in window
            bare[0] = bare[0] or not window
            number = "v" if stream == "S" else "x"
            return (
                f"{stream}{self.filters(stream, 0.2)}{f'#window.{window}'.format(n=number) if window else ''} as {name}"
            )

        left = side("S", "l", 0.1)
        right = f"{other} as r" if other in "TW" else side(other, "r", 0.1)
        self.forever = "unique:ever" in left + right
        numbers = ["l.v", "l.w", *{"R": ("r.x", "r.y"), "S": ("r.v",), "T": ("r.n",), "W": ("r.v",)}[other]]
        texts = ["l.k", "l.g", "r.k"]
        kind = self.pick(("join", "join", "left outer join", "right outer join", "full outer join"))
        one_way = self.chance(0.15) and other not in "TW"
        condition = self.pick(
            ("l.k == r.k", "l.k == r.k", self.test(numbers, texts), f"l.k == r.k and {self.test(numbers, texts)}")
        )
        if other == "T" and self.key == "@PrimaryKey('n') ":
            condition = "l.k == r.k"
        if other == "T" and kind in ("right outer join", "full outer join"):
            kind = "left outer join"
        text, _ = self.selection(
            numbers,
            texts,
            sources=True,
            cut=not batch[0]
            and not bare[0]
            and other != "W"
            and not any(f"{window}(" in left for window in ("time", "length", "sort")),
        )
        on = f" on {condition}" if self.chance(0.9) else ""
        rate = self.rate(not batch[0] and not bare[0] and other != "W") if self.chance(0.15) else ""
        left += " unidirectional" if one_way else ""
        return f"from {left} {kind} {right}{on} select {text}{rate} insert {self.pick(EVENTS)}into Out;"

    def element(self, name: str, stream: str, earlier: Sequence[str]) -> str:
        number = "v" if stream == "S" else "x"
        conditions = [
            f"{number} {self.pick(('>', '<', '!='))} {self.pick(('1', '3', *(f'{e}' for e in earlier)))}",
            f"k == {self.pick((repr('a'), repr('b')))}",
        ]
        return f"{name}={stream}" + (f"[{self.pick(conditions)}]" if self.chance(0.5) else "")

    def pattern(self, partitioned: bool = False) -> str:
        streams = [self.pick("SSR") for _ in range(3)]
        number = {"S": "v", "R": "x"}
        known: list[str] = []
        parts, names, counted = [], [], ""
        for place, stream in enumerate(streams[: self.dice.randint(2, 3)]):
            name = f"e{place + 1}"
            part = self.element(name, stream, known)
            if place and self.chance(0.15) and not parts[-1].startswith("not "):
                part = f"not {part.split('=', 1)[1]} for {self.pick((30, 60))} milliseconds"
                parts.append(part)
                continue
            if self.chance(0.2) and not counted:
                part += self.pick(("<2>", "<1:2>", "<2:3>", "<1:>"))
                counted = name
                names += [
                    f"{name}[0].{number[stream]}",
                    f"{name}[last].{number[stream]}",
                    f"{name}[1].{number[stream]}",
                ]
            else:
                names.append(f"{name}.{number[stream]}")
                known.append(f"{name}.{number[stream]}")
                if place and self.chance(0.15):
                    other = stream if partitioned else self.pick("SR")  # Siddhi mixes up keys of two streams there
                    part = f"({part} {self.pick(('and', 'or'))} f{place}={other})"
            parts.append(part)
        if not names:
            return self.pattern(partitioned)
        text = " -> ".join(parts)
        if self.chance(0.7):
            text = f"every ({text})" if self.chance(0.25) else f"every {text}"
        text += f" within {self.pick((60, 150))} milliseconds" if self.chance(0.3) else ""
        chosen, _ = self.selection(names, ["e1[0].k" if counted == "e1" else "e1.k"], sources=True)
        return f"from {text} select {chosen} insert into Out;"

    def sequence(self, partitioned: bool = False) -> str:
        streams = [self.pick("SSR") for _ in range(self.dice.randint(2, 3))]
        number = {"S": "v", "R": "x"}
        parts, names, known = [], [], []
        for place, stream in enumerate(streams):
            name = f"e{place + 1}"
            part = self.element(name, stream, known)
            if place and self.chance(0.35):
                # Whether a last element without a least number has matched, Siddhi keeps once for all keys.
                part += self.pick("+*?" if not partitioned or place < len(streams) - 1 else "+")
                names += [f"{name}[0].{number[stream]}", f"{name}[last].{number[stream]}"]
            else:
                names.append(f"{name}.{number[stream]}")
                known.append(f"{name}.{number[stream]}")
            parts.append(part)
        if parts[-1][-1] in "*?" and parts[-2][-1] in "+*":
            parts[-1] = parts[-1][:-1] + "+"  # such a match gets the time of the event behind it in Siddhi
        text = ", ".join(parts) + (" within 100 milliseconds" if self.chance(0.2) else "")
        chosen, _ = self.selection(names, ["e1.k"], sources=True)
        return f"from {'every ' if self.chance(0.8) else ''}{text} select {chosen} insert into Out;"

    def table(self) -> str:
        """Draw a change of the table."""
        on = self.pick(("T.k == k", "T.k == k", "T.n > n", "T.k == k and T.n < n", "T.n == n"))
        own = " and ".join(f"T.{name} == {name}" for name in "kn" if f"'{name}'" in self.key) or "T.k == k"
        return self.pick((
            "from R select k, x as n insert into T;",
            f"from R select k, x as n update or insert into T on {own};",
            f"from R select k, x as n update T set T.n = n on {on};" if "n'" not in self.key else "from R select k, x as n insert into T;",
            f"from R select k, x as n update T set T.n = T.n + n on {on};" if self.key == "" else "from R select k, x as n insert into T;",
            f"from R[x > 4] select k, x as n delete T on {on};" if "and" not in on else "from R[x > 4] select k, x as n delete T on T.k == k;",
        )[: 5 if self.key else 4])  # fmt: skip

    def wanted(self, number: str) -> str:
        """Draw a condition on rows; a key that is a whole number is compared with nothing else.

        Nor is a key that is a text asked for being null beside another condition: the order of what is found varies.
        """
        if self.key == "@PrimaryKey('n') ":
            return str(self.pick(("n > 2", "n <= 3", "n == 4", "k == 'a'", "n >= 1", "n + 1 < 4 or k == 'c'")))
        test = self.test([number], ["k"], 1)
        while self.key == "@PrimaryKey('k') " and " and " in test and "null" in test:
            test = self.test([number], ["k"], 1)
        return test

    def asking(self, store: str, number: str) -> str:
        items = self.pick(
            (
                "*",
                f"k, {number}",
                f"{number}",
                f"k, sum({number}) as t",
                f"{number} + 1 as m, k",
                f"max({number}) as t, count() as c",
            )
        )
        text = f"from {store}" + (f" on {self.wanted(number)}" if self.chance(0.5) else "") + f" select {items}"
        text += self.pick(("", "", " group by k"))
        text += f" having {self.test([number], ['k'], 0)}" if self.chance(0.3) else ""
        text += f" order by {self.pick((number, 'k'))}{self.pick(('', ' desc'))}" if self.chance(0.4) else ""
        return (
            text
            + (f" limit {self.pick((1, 2))}" if self.chance(0.2) else "")
            + (" offset 1" if self.chance(0.1) else "")
        )

    # The whole.

    def app(self) -> str:
        kind = self.pick(
            ("single",) * 7 + ("join",) * 6 + ("pattern",) * 4 + ("sequence",) * 3 + ("table", "window", "aggregation")
        )
        self.key = self.pick(("", "", "@PrimaryKey('k') ", "@PrimaryKey('n') ", "@PrimaryKey('k', 'n') "))
        partitioned = kind in ("single", "join", "pattern", "sequence") and self.chance(0.25)
        main = {"single": self.single, "pattern": self.pattern, "sequence": self.sequence}.get(kind)
        query = self.join(partitioned) if kind == "join" else main(partitioned) if main else ""
        if kind == "table" or " T as " in query:
            self.definitions.append(f"{self.key}define table T (k string, n int);")
            self.queries += [self.table() for _ in range(self.dice.randint(1, 3))]
            self.asked += [self.asking("T", "n") for _ in range(self.dice.randint(0, 3))]
        if kind == "window" or " W as " in query:
            window = (
                self.pick((*(one for one in SLIDING if not one.startswith("session")), *BATCHES))
                if kind == "window"
                else self.pick(("length(3)", "time(90)", "lengthBatch(2)"))
            )
            events = (
                self.pick(("", "", " output all events", " output current events", " output expired events"))
                if kind == "window"
                else ""
            )
            self.definitions.append(f"define window W (k string, g string, v int, w double, at long) {window}{events};")
            self.queries.append(f"from S{self.filters('S')} insert into W;")
        if kind == "window":
            self.forever = window.startswith(FORGETFUL)
            text, _ = self.selection(NUMBERS["S"], ("k", "g"))
            query = f"from W{self.filters('S')} select {text} insert {self.pick(EVENTS)}into Out;"
        if kind == "aggregation":
            items = ", ".join(
                self.dice.sample(
                    ["sum(v) as t", "avg(w) as a", "count() as c", "min(v) as lo", "max(w) as hi", "v as last"], 3
                )
            )
            self.definitions.append(
                f"define aggregation A from S select k, {items} group by k aggregate every sec...hour;"
            )
            per = self.pick(("sec", "min", "hour"))
            self.asked += [
                f"from A within 0L, 9000000L per '{per}' select *",
                f"from A on k == 'a' within 0L, 9000000L per '{per}' select k, AGG_TIMESTAMP order by AGG_TIMESTAMP desc",
            ]
            if self.chance(0.5):
                on = self.pick(("", " on l.k == r.k", " on l.x > 2"))
                query = f"from R as l join A as r{on} within 0L, 9000000L per '{per}' select r.k, r.AGG_TIMESTAMP as at, l.x insert into Out;"
        if query:
            self.queries.append(self.partition(kind, query) if partitioned else f"@info(name='q') {query}")
            if self.chance(0.2):
                self.queries.append("from Out select count() as n insert into Counts;")
        text = "\n".join((*self.definitions, *self.queries))
        cut = kind == "join" and any(word in query for word in (" having ", " limit ", " offset "))
        self.sparing = cut or any(window in text for window in SPARING)
        self.sorting = "sort(" in text
        return text

    def partition(self, kind: str, query: str) -> str:
        """Put a query into a partition, and draw its keys."""
        if any(word in query for word in TIMED):
            self.keys = self.pick(("k of S, k of R",) * 4 + ("v > 2 as 'hi' or v <= 2 as 'lo' of S, k of R",))
            self.timed = True
        else:
            self.keys = self.pick(("k of S, k of R",) * 4 + ("v > 2 as 'hi' or v < 5 as 'lo' of S, k of R",
                "v of S, x of R", "w of S, y of R", "str:concat(k, g) of S, k of R", "k of S", "k of R"))  # fmt: skip
        read = {stream for stream in STREAMS if re.search(rf"\b{stream}\b", query)}
        if not any(f"of {stream}" in self.keys for stream in read):
            self.keys = "k of S, k of R"
        if kind == "single" and self.chance(0.25):
            query = f"from S{self.filters('S')} select * insert into #In; {query.replace('from S', 'from #In', 1)}"
        return f"partition with ({self.keys}) begin {query} end;"

    def events(self) -> list[dict[str, Any]]:
        """Draw what is sent."""
        steps: list[dict[str, Any]] = []
        time = 1000
        for _ in range(self.dice.randint(8, 18)):
            time += self.pick((0, 0, 1, 5, 10, 25, 40, 120))
            stream = self.pick("SSSRR")
            count = 1 if self.sparing else self.pick((1, 1, 1, 1, 1, 3))
            data = [self.row(stream, time) for _ in range(count)]
            if self.timed:
                keys = [self.key_of(stream, row) for row in data]
                late = (REMAINDERS[keys[0]] - time) % DIVISOR
                time += late
                data = [row for row, key in zip(data, keys, strict=True) if key == keys[0]]
            rows = [{"timestamp": time, "data": row} for row in data]
            steps.append({"stream": stream, **rows[0]} if len(rows) == 1 else {"stream": stream, "batch": rows})
            if self.chance(0.06):
                time += self.pick((60, 300))
                steps.append({"advance": time})
        steps += [{"advance": time + 200}, *({"query": text} for text in self.asked)]
        return steps

    def key_of(self, stream: str, row: list[Any]) -> str | None:
        """Return the partition key of a row; None where it has none."""
        if stream == "R" or "hi" not in self.keys:
            return str(row[0]) if row[0] is not None else None
        return None if row[2] is None else "hi" if row[2] > 2 else "lo"

    def row(self, stream: str, time: int) -> list[Any]:
        key = self.pick(("a", "b", "c", None) if self.chance(0.1) and not self.sparing else ("a", "b", "c"))
        number = self.pick((0, 1, 2, 3, 4, 5, 7, -2))
        number = None if self.chance(0.06) and not self.sorting else number
        if stream == "R":
            return [key, number, self.pick((0.5, 1.5, 2.25, None))]
        return [
            key,
            self.pick("xy"),
            number,
            self.pick((0.0, 1.25, 2.5, -1.0, 8.0, None)),
            time + self.pick((0, 0, 5, -20)),
        ]


def draw(number: int, seed: int = 0) -> dict[str, Any]:
    """Return the case of a number: always the same for one seed."""
    app = _Draw(random.Random(f"{seed}/{number}"))
    text = app.app()
    observed = ["Out"] if "into Out" in text else []
    observed += ["Counts"] if "into Counts" in text else []
    queries = [{"query": "q"}] if "name='q'" in text else []
    return {"name": f"drawn/{seed}/{number}", "app": text, "clock": "stepped", "start": 1000, "events": app.events(), "observe": [*observed, *queries]}  # fmt: skip


if __name__ == "__main__":
    for each in range(int(sys.argv[1])):
        print(json.dumps(draw(each, *map(int, sys.argv[2:3]))))
