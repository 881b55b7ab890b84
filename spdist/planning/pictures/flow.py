"""The elements of an app as WSO2's dashboard draws them: one edge for each stream that a query reads. Pure.

Source: ``GET /siddhi-apps/{appName}/elements`` of WSO2 SP 4.x (behaviour: fields, words, which edges there are).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.types import Schema

__all__ = ["app_flow"]

Edge = dict[str, Any]

#: Characters of a definition or query that an edge shows.
_SHOWN = 2000


def app_flow(checked: CheckedApp, text: str) -> list[Edge]:
    """Return the edges of an app: those of its queries in the order of the text, then those of its aggregations.

    Parameters
    ----------
    checked : CheckedApp
        The app with what its names mean.
    text : str
        What it was read from: definitions and queries are shown as they were written.
    """
    flow = _Flow(checked, text)
    edges = [edge for query in checked.queries for edge in flow.of_query(query)]
    for partition in checked.partitions:
        edges += [edge for query in partition.queries for edge in flow.of_query(query, partition)]
    return edges + [
        {**flow.end("input", definition.input.stream.id), **flow.end("output", definition.name)}
        for definition in checked.app.definitions
        if isinstance(definition, ast.AggregationDefinition) and definition.input is not None
    ]


class _Flow:
    def __init__(self, checked: CheckedApp, text: str) -> None:
        self._text = text
        self._written = {definition.name: self._source(definition) for definition in checked.app.definitions}
        self._functions = {d.name for d in checked.app.definitions if isinstance(d, ast.FunctionDefinition)}
        triggers = {d.name for d in checked.app.definitions if isinstance(d, ast.TriggerDefinition)}
        self._kinds: dict[str, tuple[str, Schema]] = {}
        for kind, named in (
            ("Stream", checked.streams),
            ("Table", checked.tables),
            ("Window", checked.windows),
            ("Aggregation", checked.aggregations),
        ):
            for name, schema in named.items():
                self._kinds[name] = "Trigger" if name in triggers else kind, schema

    def _source(self, node: ast.Node) -> str:
        if node.span is None:
            return ""
        written = self._text[node.span.start : node.span.end]
        # A partition's text is in each of its edges: what is drawn must not grow with the square of the app.
        return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"

    def of_query(self, query: CheckedQuery, partition: CheckedPartition | None = None) -> Iterator[Edge]:
        """Yield an edge for each stream, table or window that a query reads, each once."""
        inner = {} if partition is None else partition.inner
        common = {"queryName": query.name, **self._called(query)}
        if partition is None:
            common["query"] = self._source(query.query)
        else:
            (key, *_) = partition.partition.keys
            common |= {
                "query": self._source(partition.partition),
                "partitionQuery": self._source(query.query),
                "partitionType": "RangePartition" if key.ranges else "ValuePartition",
                "partitionTypeQuery": self._source(key),
            }
        read = [node.stream.id for node in query.query.input.walk() if isinstance(node, ast.SingleInput)]
        for id in dict.fromkeys(read):
            yield {**self.end("input", id, inner.get(id)), **self.end("output", query.target, query.output), **common}

    def end(self, side: str, id: str, schema: Schema | None = None) -> Edge:
        """Return one end of an edge; `schema` is that of what is not defined by the app."""
        kind, known = self._kinds.get(id, ("Stream", schema))
        shown = "" if known is None else f"define stream {id} {known}"
        return {
            f"{side}StreamId": id,
            f"{side}StreamType": kind,
            f"{side}StreamSiddhiApp": self._written.get(id) or shown,
        }

    def _called(self, query: CheckedQuery) -> Edge:
        """Return the first function of the app's own that the query calls."""
        called = (node.id for node in query.query.walk() if isinstance(node, ast.FunctionCall))
        own = next((id for id in called if id in self._functions), None)
        return {} if own is None else {"function": own, "functionQuery": self._written[own]}
