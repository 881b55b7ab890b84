"""The graph of an app: which queries read and write which streams, tables, windows and aggregations. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from spdist.display import Shown, number_of
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedQuery
from spdist.planning.pictures import svg
from spdist.planning.pictures.layout import Arrow, Box, lay_out

__all__ = ["QUERY", "AppGraph", "GraphNode", "Link", "app_graph"]

NodeKind = Literal["stream", "trigger", "table", "window", "aggregation", "query"]
#: How a query uses what it is linked to: ``looks into`` is a join's or condition's look at what is stored.
Use = Literal["reads", "looks into", "inserts into", "updates", "deletes from"]

#: What the ids of queries begin with.
QUERY = "query:"
_TONES = {
    "stream": "#2f81f7",
    "trigger": "#2f81f7",
    "table": "#bf8700",
    "window": "#a371f7",
    "aggregation": "#a371f7",
    "query": "#8b949e",
}


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A query, or something that queries read and write.

    Parameters
    ----------
    id : str
        Its name; an inner stream of a partition is ``#S`` with the partition's number in front: ``1#S``; a query is
        ``query:<name>``, since a stream may have the same name.
    name : str
        What people call it.
    kind : str
        ``stream``, ``trigger``, ``table``, ``window``, ``aggregation`` or ``query``.
    partition : int, optional
        For queries and inner streams in a partition: its number, from 1.
    detail : str
        The attributes, or for a query the kind of its input.
    """

    id: str
    name: str
    kind: NodeKind
    partition: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow in the direction in which events flow: from what is read to the query, from the query to its target."""

    source: str
    target: str
    use: Use


@dataclass(frozen=True, slots=True)
class AppGraph(Shown):
    """What an app consists of; draws itself in a notebook.

    Parameters
    ----------
    app : str
        The app's name.
    nodes : tuple of GraphNode
        Definitions in the order of the text, then queries and what they make.
    links : tuple of Link
        Each once.
    """

    app: str
    nodes: tuple[GraphNode, ...]
    links: tuple[Link, ...]

    def upstream(self, id: str) -> frozenset[str]:
        """Return the ids of all nodes from which something reaches a node, itself included."""
        into: dict[str, list[str]] = {}
        for link in self.links:
            into.setdefault(link.target, []).append(link.source)
        found, left = {id}, [id]
        while left:
            new = {source for source in into.get(left.pop(), ()) if source not in found}
            found |= new
            left += new
        return frozenset(found)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as ``spdist graph --json`` prints it."""
        nodes = [
            {"id": n.id, "name": n.name, "kind": n.kind, "partition": n.partition, "detail": n.detail or None}
            for n in self.nodes
        ]
        links = [{"source": link.source, "target": link.target, "use": link.use} for link in self.links]
        return {"app": self.app, "nodes": nodes, "links": links}

    def to_text(self) -> str:
        """Return the graph for a terminal: each query with what it reads and writes."""
        lines = [self.app]
        reading: dict[str, list[str]] = {}
        writing: dict[str, list[str]] = {}
        for link in self.links:
            # What a stream is read and written by stands at the queries.
            if not link.source.startswith(QUERY):
                reading.setdefault(link.target, []).append(f"      {link.use} {link.source}")
            else:
                writing.setdefault(link.source, []).append(f"      {link.use} {link.target}")
        for node in self.nodes:
            where = "" if node.partition is None else f" in partition {node.partition}"
            lines.append(f"  {node.kind} {node.name}{where}{f'  {node.detail}' if node.detail else ''}")
            lines += [*reading.get(node.id, ()), *writing.get(node.id, ())]
        return "\n".join(lines)

    def to_svg(self) -> str:
        """Return the graph as a picture that needs nothing from outside."""
        boxes = [Box(node.id, self._width(node), 40 if self._second(node) else 28) for node in self.nodes]
        layout = lay_out(boxes, [Arrow(link.source, link.target) for link in self.links], gap=44)
        sizes = {box.id: box for box in boxes}
        dashed = {Arrow(link.source, link.target) for link in self.links if link.use == "looks into"}
        body = []
        for edge, path in layout.paths.items():
            line = svg.arrow(svg.curve(path, 0.0), path[-1])
            body.append(f'<g stroke-dasharray="4 3">{line}</g>' if edge in dashed else line)
        for corners in layout.loops.values():
            body.append(svg.arrow("M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in corners), corners[-1]))
        body += [self._drawn(node, sizes[node.id], *layout.boxes[node.id]) for node in self.nodes]
        return svg.picture(layout, f"Graph of {self.app}", body)

    @staticmethod
    def _second(node: GraphNode) -> str:
        """Return the small line under a node's name."""
        if node.kind == "stream" and node.partition is None:
            return ""
        where = "" if node.partition is None else f"partition {node.partition}"
        what = node.detail if node.kind == "query" else node.kind
        return ", ".join(word for word in (what, where) if word)

    def _width(self, node: GraphNode) -> float:
        return max(len(node.name) * svg.CHARACTER, len(self._second(node)) * svg.SMALL) + 26

    def _drawn(self, node: GraphNode, box: Box, x: float, y: float) -> str:
        tone, middle = _TONES[node.kind], x + box.width / 2
        radius = 4.0 if node.kind == "query" else box.height / 2.6
        second = self._second(node)
        under = svg.text(middle, y + 32, second, anchor="middle", small=True) if second else ""
        return (
            f"<g><title>{escape(f'{node.kind} {node.name} {node.detail}')}</title>"
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.1f}" '
            f'fill="{tone}" fill-opacity="0.12" stroke="{tone}" stroke-width="1.4"/>'
            f"{svg.text(middle, y + 18, node.name, anchor='middle', bold=node.kind == 'query')}{under}</g>"
        )

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"AppGraph({self.app}: {number_of(len(self.nodes), 'node')}, {number_of(len(self.links), 'link')})"

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.to_svg()}</div>'


def app_graph(checked: CheckedApp) -> AppGraph:
    """Return the graph of an app.

    Parameters
    ----------
    checked : CheckedApp
        The app with what its names mean.
    """
    nodes = {node.id: node for node in _definitions(checked)}
    links: list[Link] = []
    for definition in checked.app.definitions:
        if isinstance(definition, ast.AggregationDefinition) and definition.input is not None:
            links.append(Link(definition.input.stream.id, definition.name, "reads"))
    for query in checked.queries:
        _add(query, nodes, links, checked)
    for number, partition in enumerate(checked.partitions, 1):
        for id, schema in partition.inner.items():
            nodes[f"{number}{id}"] = GraphNode(f"{number}{id}", id, "stream", number, str(schema))
        for query in partition.queries:
            _add(query, nodes, links, checked, number)
    return AppGraph(checked.name, tuple(nodes.values()), tuple(dict.fromkeys(links)))


def _definitions(checked: CheckedApp) -> Iterator[GraphNode]:
    triggers = {d.name for d in checked.app.definitions if isinstance(d, ast.TriggerDefinition)}
    for id, schema in checked.streams.items():
        yield GraphNode(id, id, "trigger" if id in triggers else "stream", None, str(schema))
    yield from (GraphNode(id, id, "table", None, str(schema)) for id, schema in checked.tables.items())
    yield from (GraphNode(id, id, "window", None, str(schema)) for id, schema in checked.windows.items())
    yield from (GraphNode(id, id, "aggregation", None, str(schema)) for id, schema in checked.aggregations.items())


def _add(
    query: CheckedQuery,
    nodes: dict[str, GraphNode],
    links: list[Link],
    checked: CheckedApp,
    partition: int | None = None,
) -> None:
    own = f"{QUERY}{query.name}"
    nodes[own] = GraphNode(own, query.name, "query", partition, _kind(query.query.input))

    def id_of(id: str) -> str:
        return f"{partition}{id}" if partition is not None and id.startswith("#") else id

    stored = {*checked.tables, *checked.aggregations}
    for node in query.query.input.walk():
        if isinstance(node, ast.SingleInput):
            id = id_of(node.stream.id)
            links.append(Link(id, own, "looks into" if id in stored else "reads"))
    links += [Link(node.table, own, "looks into") for node in query.query.walk() if isinstance(node, ast.In)]
    output = query.query.output
    use: Use = "inserts into"
    if isinstance(output, ast.Update):
        use = "updates"
    elif isinstance(output, ast.Delete):
        use = "deletes from"
    links.append(Link(own, id_of(query.target), use))


def _kind(input: ast.Input) -> str:
    match input:
        case ast.JoinInput():
            return "join"
        case ast.PatternInput():
            return input.kind
        case ast.SingleInput(window=ast.FunctionCall() as window):
            return f"window {window.id}"
    return ""
