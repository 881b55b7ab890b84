"""How an app runs: what Spark computes as Columns and what the engine does, which state is kept, how it is split. Pure.

`spdist.explain` says it for each query, before anything is started.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from spdist.display import Shown, headline_html, note_html, number_of, table_html
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.checking.expressions import uses_aggregator
from spdist.language.format import format_node
from spdist.planning.columns.native import Obstacle
from spdist.planning.columns.realtime import realtime_plan
from spdist.planning.columns.stateless import query_obstacle
from spdist.planning.sharding import sharding

__all__ = ["Explanation", "Mode", "QueryExplanation", "explanation"]

#: What a configuration may ask for; ``auto`` takes real time wherever it is possible.
Mode = Literal["auto", "micro-batch", "real-time"]

_KEPT_BY_WINDOWS = {
    "length": "the last {0} events",
    "lengthBatch": "the current batch of {0} events, and the one before",
    "time": "the events of the last {0}",
    "timeBatch": "the events of the current {0}, and those of the one before",
    "timeLength": "the events of the last {0}, at most {1}",
    "externalTime": "the events of the last {1} by '{0}'",
    "externalTimeBatch": "the events of the current {1} by '{0}', and those of the one before",
    "batch": "the last chunk",
    "delay": "the events of the last {0}, until they go on",
    "session": "the events of each open session, closed after {0} of silence",
    "sort": "the first {0} events in order",
    "frequent": "the last event of each of {0} values",
    "cron": "the events since the last '{0}'",
}


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """How one query runs.

    Parameters
    ----------
    name, target : str
        The query, and the stream or table it writes.
    native : bool
        Whether all of it can be Spark Columns; else the engine runs it, in an island.
    because : str, optional
        For an island: what is not native, and why.
    line : int, optional
        Where that stands in the text, from 1.
    state : tuple of str
        What is kept, by operator; empty where nothing is.
    shard_key : str, optional
        The keys of its partition, of which each has an instance of the query.
    """

    name: str
    target: str
    native: bool
    because: str | None
    line: int | None
    state: tuple[str, ...]
    shard_key: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation(Shown):
    """How an app runs; shows itself in a notebook.

    Parameters
    ----------
    app : str
        Its name.
    mode : str
        ``real-time`` (events go through one by one) or ``micro-batch``.
    because : str
        Why.
    split : str
        By what its work can be split, or why it cannot.
    hosted : str
        ``columns``: all of it is one Spark query of Columns; ``island``: the engine runs inside Spark.
    queries : tuple of QueryExplanation
        In the order of the text.
    compiled : str
        Whether the engine runs the queries as one compiled loop, or why not.
    """

    app: str
    mode: str
    because: str
    split: str
    hosted: str
    queries: tuple[QueryExplanation, ...]
    compiled: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as ``spdist explain --json`` prints it."""
        return asdict(self)

    def to_text(self) -> str:
        """Return the explanation for a terminal."""
        lines = [f"{self.app}: {self.mode}, {self.because}", f"  split {self.split}"]
        lines += [f"  compiled: {self.compiled}"] if self.compiled else []
        for query in self.queries:
            lines.append(f"  query {query.name} → {query.target}")
            lines += [f"      {title}: {text}" for title, text in _said(query)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        native = sum(query.native for query in self.queries)
        queries = number_of(len(self.queries), "query", "queries")
        return f"Explanation({self.app}: {self.mode}, {queries}, {native} of them native)"

    def _repr_html_(self) -> str:
        rows = [(f"{query.name} → {query.target}", *(text for _, text in _said(query))) for query in self.queries]
        headline = headline_html(f"{self.app}: {self.mode}")
        compiled = f"; compiled: {self.compiled}" if self.compiled else ""
        why = note_html(f"{self.because}; split {self.split}{compiled}")
        return headline + why + table_html(("query", "runs", "state kept", "key"), rows)


def _said(query: QueryExplanation) -> Iterator[tuple[str, str]]:
    where = "" if query.line is None else f" (line {query.line})"
    yield "runs", "native" if query.native else f"island: {query.because}{where}"
    yield "state", "; ".join(query.state) or "none"
    yield "key", query.shard_key or "none"


def explanation(checked: CheckedApp, catalog: Catalog, text: str | None = None, mode: Mode = "auto") -> Explanation:
    """Return how an app runs.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    catalog : Catalog
        The signatures of functions and aggregators.
    text : str, optional
        Its text, for the numbers of lines.
    mode : str
        What the configuration asks for.
    """
    queries = (*checked.queries, *(query for partition in checked.partitions for query in partition.queries))
    keys = [_shard_key(partition) for partition in checked.partitions]
    catalog = catalog.with_functions(checked.scripts)
    lines = None if text is None else [match.start() for match in re.finditer("\n", text)]
    explained = tuple(_explained(query, checked, catalog, keys, lines) for query in queries)
    planned = realtime_plan(checked, catalog)
    if isinstance(planned, Obstacle):
        return Explanation(checked.name, "micro-batch", f"since {planned}", _split(checked), "island", explained)
    split = "by the partitions of its Kafka topics"
    if mode == "micro-batch":
        return Explanation(checked.name, "micro-batch", "as the configuration says", split, "columns", explained)
    because = "all of it is Spark Columns between Kafka topics"
    return Explanation(checked.name, "real-time", because, split, "columns", explained)


def _split(checked: CheckedApp) -> str:
    written = {query.target for query in checked.queries}
    inputs = [stream for stream in checked.streams if stream not in written and not stream.startswith("!")]
    found = sharding(checked, inputs)
    if not found.possible:
        return f"not at all: {found.reasons[0]}"
    keys = [f"{key} of {stream}" for stream, key in found.keys.items() if key is not None]
    return (
        f"by {', '.join(keys)}, where spark.shards asks for it"
        if keys
        else "in any way, where spark.shards asks for it"
    )


def _explained(
    query: CheckedQuery, checked: CheckedApp, catalog: Catalog, keys: Sequence[str | None], lines: Sequence[int] | None
) -> QueryExplanation:
    """Explain a query; `keys` are those of the partitions, `lines` the offsets where lines of the text end."""
    found = query_obstacle(query, checked, catalog)
    line = None
    if found is not None and found.span is not None and lines is not None:
        line = bisect_left(lines, found.span.start) + 1
    because = None if found is None else str(found)
    state = tuple(dict.fromkeys(_state(query, catalog)))
    key = None if query.partition is None else keys[query.partition]
    return QueryExplanation(query.name, query.target, found is None, because, line, state, key)


def _shard_key(partition: CheckedPartition) -> str | None:
    """Return the expression that splits a partition's queries."""
    keys = partition.keys.values()
    values = [format_node(key.value) for key in keys if key.value is not None]
    return " and ".join(dict.fromkeys(values)) if len(values) == len(keys) else None


# --- state in words ----------------------------------------------------------------------------------------------


def _state(query: CheckedQuery, catalog: Catalog) -> Iterator[str]:
    source, select = query.query.input, query.query.select
    each = " for each key of the partition" if query.partition is not None else ""
    match source:
        case ast.PatternInput():
            bound = "" if source.within is None else f", none older than {format_node(source.within)}"
            yield f"{source.kind}: its partial matches{bound}{each}"
        case ast.JoinInput():
            for side in (source.left, source.right):
                held = _window(side.input.window)
                yield f"join: of '{side.alias or side.input.stream.id}' {held or 'nothing'}{each}"
        case ast.SingleInput(window=ast.FunctionCall() as window):
            yield f"window: {_window(window)}{each}"
    if any(uses_aggregator(item.expression, catalog) for item in select.items) or (
        select.having is not None and uses_aggregator(select.having, catalog)
    ):
        groups = ", ".join(variable.name for variable in select.group_by)
        yield f"selector: running totals{f' for each {groups}' if groups else ''}{each}"
    if query.query.rate is not None:
        yield f"output: what '{_rate(query.query.rate)}' holds back{each}"


def _window(window: ast.FunctionCall | None) -> str:
    if window is None:
        return ""
    words = [format_node(argument) for argument in window.args]
    known = _KEPT_BY_WINDOWS.get(window.id)
    if known is None or known.count("{") > len(words):
        return f"what #window.{window.id}({', '.join(words)}) keeps"
    return known.format(*words)


def _rate(rate: ast.OutputRate) -> str:
    """Return a rate limit as it is written."""
    often = f"{rate.events} events" if rate.time is None else format_node(rate.time)
    return f"output {rate.kind} every {often}"
