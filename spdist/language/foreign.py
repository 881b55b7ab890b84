"""Words of other languages, SQL, Flink and the like, and how SiddhiQL says what they mean: for hints."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FUNCTIONS", "OPERATORS", "STATEMENTS", "TYPES", "UNITS", "WINDOWS"]

TYPES: Mapping[str, str] = {
    "bigint": "long",
    "boolean": "bool",
    "char": "string",
    "decimal": "double",
    "integer": "int",
    "number": "double",
    "str": "string",
    "text": "string",
    "timestamp": "long",
    "varchar": "string",
}
OPERATORS: Mapping[str, str] = {"=": "==", "<>": "!=", "&&": "and", "||": "or", "&": "and", "|": "or", "!": "not"}
UNITS: Mapping[str, str] = {
    "ms": "millisec",
    "s": "sec",
    "m": "min",
    "h": "hour",
    "d": "days",
    "mins": "min",
    "secs": "sec",
}
#: What stands where a definition or a query should begin.
STATEMENTS: Mapping[str, str] = {
    "select": "SiddhiQL begins with 'from': from Stream[condition] select a, b insert into Out;",
    "with": "SiddhiQL has no 'with': let one query insert into a stream, and the next read from it.",
    "create": "SiddhiQL defines: define stream S (a int, b string); or define table T (a int, b string);",
    "insert": "'insert into' stands at the end: from Stream select a, b insert into Out;",
    "update": "'update' stands at the end: from Stream select a, b update T set T.b = b on T.a == a;",
    "delete": "'delete' stands at the end: from Stream delete T on T.a == a;",
}

_TUMBLING = (
    "A tumbling window is #window.timeBatch(5 sec) or #window.lengthBatch(100); by the time of an attribute "
    "#window.externalTimeBatch(ts, 5 sec)."
)
_SLIDING = (
    "A sliding window is #window.time(5 sec) or #window.length(100), which puts out with every event; "
    "'output last every 1 sec' behind 'select' makes it hop."
)
WINDOWS: Mapping[str, str] = {
    "tumbling": _TUMBLING,
    "tumble": _TUMBLING,
    "tumblingwindow": _TUMBLING,
    "fixed": _TUMBLING,
    "hop": _SLIDING,
    "hopping": _SLIDING,
    "sliding": _SLIDING,
    "slide": _SLIDING,
    "over": _SLIDING,
    "count": "A window of a number of events is #window.length(100), or #window.lengthBatch(100) batch by batch.",
    "rows": "A window of a number of events is #window.length(100), or #window.lengthBatch(100) batch by batch.",
    "sessionwindow": "It is called #window.session(5 sec, key).",
    "global": "Without a window a query aggregates all events since it began.",
}

_NOW = "The time of the event is eventTimestamp(), that of the clock currentTimeMillis(), both in ms."
FUNCTIONS: Mapping[str, str] = {
    "average": "It is called avg(…).",
    "mean": "It is called avg(…).",
    "std": "It is called stdDev(…).",
    "stddev_pop": "It is called stdDev(…).",
    "stdev": "It is called stdDev(…).",
    "count_distinct": "It is called distinctCount(…).",
    "if": "It is written ifThenElse(condition, a, b).",
    "iff": "It is written ifThenElse(condition, a, b).",
    "case": "It is written ifThenElse(condition, a, b), one inside the other.",
    "ifnull": "It is written coalesce(a, b).",
    "nvl": "It is written coalesce(a, b).",
    "len": "It is called str:length(…).",
    "lcase": "It is called str:lower(…).",
    "ucase": "It is called str:upper(…).",
    "substring": "It is called str:substr(…).",
    "to_string": "It is written convert(a, 'string').",
    "tostring": "It is written convert(a, 'string').",
    "now": _NOW,
    "current_timestamp": _NOW,
}
