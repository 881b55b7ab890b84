"""A small layered left-to-right layout for graphs of boxes: columns, few crossings, straight runs. Pure geometry.

Source: the steps of Sugiyama, Tagawa and Toda (1981): break cycles, assign layers, order within layers, place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Arrow", "Box", "GraphLayout", "lay_out"]

_SWEEPS = 8
_ROW_GAP = 26.0
_LANE = 14.0
#: Height of an edge that passes a column.
_THIN = 4.0


@dataclass(frozen=True, slots=True)
class Box:
    """A box of that size in px; ``lead`` is the room that its incoming edges need on its left, for labels."""

    id: str
    width: float
    height: float
    lead: float = 0.0


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one box to another."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Where everything is.

    Parameters
    ----------
    width, height : float
        Of the whole picture, in px.
    boxes : mapping of str to (x, y)
        The left upper corner of each box.
    paths : mapping of Arrow to tuple of (x, y)
        For each edge that runs forward the points it goes through: source port, two for each layer that it passes,
        target port.
    loops : mapping of Arrow to tuple of (x, y)
        For each edge that closes a cycle the corners of its way back, below all boxes.
    """

    width: float
    height: float
    boxes: Mapping[str, tuple[float, float]]
    paths: Mapping[Arrow, tuple[tuple[float, float], ...]]
    loops: Mapping[Arrow, tuple[tuple[float, float], ...]]


def lay_out(boxes: Sequence[Box], edges: Sequence[Arrow], gap: float = 56.0, margin: float = 16.0) -> GraphLayout:
    """Place `boxes` in columns so that edges run from left to right.

    Parameters
    ----------
    boxes : sequence of Box
        In the order in which ties are broken.
    edges : sequence of Arrow
        Between them; a cycle is drawn with the edge that closes it running back.
    gap : float
        Space between columns in px, in addition to what the edges into a column need.
    margin : float
        Space around the picture in px.
    """
    if not boxes:
        return GraphLayout(2 * margin, 2 * margin, {}, {}, {})
    order = {box.id: number for number, box in enumerate(boxes)}
    edges = list(dict.fromkeys(edges))
    forward = _forward(order, edges)
    layer = _layers(order, forward)
    closing = [edge for edge in edges if edge not in forward]
    chains = {edge: _chain(edge, layer) for edge in forward}
    columns = _columns(order, layer, chains)
    _order_columns(columns, chains)
    sizes = {box.id: box for box in boxes}
    tops = _rows(columns, chains, sizes)
    lefts, width = _lefts(columns, sizes, gap, margin)
    return _finish(columns, chains, closing, sizes, lefts, width, tops, margin)


def _forward(order: Mapping[str, int], edges: Sequence[Arrow]) -> list[Arrow]:
    """Return the edges that close no cycle: all but those that lead back to a box on the way that is being followed."""
    after: dict[str, list[Arrow]] = {id: [] for id in order}
    entered = set()
    for edge in edges:
        after[edge.source].append(edge)
        entered.add(edge.target)
    closing: set[Arrow] = set()
    # 1: on the way that is being followed; 2: all behind it is done
    state: dict[str, int] = {}

    # From boxes without an edge into them first: within a circle the walk would turn back an edge of the main flow
    for start in sorted(order, key=lambda one: (one in entered, order[one])):
        # the way that is being followed, each box with the edges still to be looked at
        way = [(start, iter(after[start]))] if state.setdefault(start, 1) == 1 else []
        while way:
            id, edges_left = way[-1]
            for edge in edges_left:
                if edge.target not in state:
                    state[edge.target] = 1
                    way.append((edge.target, iter(after[edge.target])))
                    break
                if state[edge.target] == 1:
                    closing.add(edge)
            else:
                state[id] = 2
                way.pop()
    return [edge for edge in edges if edge not in closing]


def _layers(order: Mapping[str, int], forward: Sequence[Arrow]) -> dict[str, int]:
    """Return the layer of each box: one more than the last box before it; boxes without any before them stand close."""
    layer = dict.fromkeys(order, 0)
    after: dict[str, list[str]] = {id: [] for id in order}
    entering = dict.fromkeys(order, 0)
    for edge in forward:
        after[edge.source].append(edge.target)
        entering[edge.target] += 1
    sources = ready = [id for id in order if not entering[id]]
    while ready:
        following = []
        for id in ready:
            for target in after[id]:
                layer[target] = max(layer[target], layer[id] + 1)
                entering[target] -= 1
                if not entering[target]:
                    following.append(target)
        ready = following
    for id in sources:
        # As far to the right as they can go, which makes their edges short
        layer[id] = min(layer[target] for target in after[id]) - 1 if after[id] else 0
    return layer


def _chain(edge: Arrow, layer: Mapping[str, int]) -> tuple[str, ...]:
    """Return what the edge passes: its ends, and a waypoint in each layer between them."""
    between = range(layer[edge.source] + 1, layer[edge.target])
    # NUL stands in no id, so waypoints never look like boxes
    return (edge.source, *(f"{edge.source}\0{edge.target}\0{number}" for number in between), edge.target)


def _columns(
    order: Mapping[str, int], layer: Mapping[str, int], chains: Mapping[Arrow, tuple[str, ...]]
) -> list[list[str]]:
    columns: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for id in order:
        columns[layer[id]].append(id)
    for edge, chain in chains.items():
        for number, waypoint in enumerate(chain[1:-1], layer[edge.source] + 1):
            columns[number].append(waypoint)
    return columns


def _neighbours(chains: Mapping[Arrow, tuple[str, ...]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for chain in chains.values():
        for one, other in pairwise(chain):
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
    return found


def _order_columns(columns: list[list[str]], chains: Mapping[Arrow, tuple[str, ...]]) -> None:
    """Sort each column by the mean place of the neighbours in the column before, forwards and backwards in turn."""
    neighbours = _neighbours(chains)
    for sweep in range(_SWEEPS):
        numbers = range(1, len(columns)) if sweep % 2 == 0 else range(len(columns) - 2, -1, -1)
        for number in numbers:
            adjacent = columns[number - 1 if sweep % 2 == 0 else number + 1]
            place = {id: float(position) for position, id in enumerate(adjacent)}
            own = {id: float(position) for position, id in enumerate(columns[number])}
            mean = {}
            for id in columns[number]:
                near = [place[n] for n in neighbours.get(id, []) if n in place]
                mean[id] = sum(near) / len(near) if near else own[id]
            columns[number].sort(key=lambda id: (mean[id], own[id]))


def _rows(
    columns: list[list[str]], chains: Mapping[Arrow, tuple[str, ...]], sizes: Mapping[str, Box]
) -> dict[str, float]:
    """Return the top of each box and waypoint: near the middle of its neighbours, without overlaps in a column."""
    neighbours = _neighbours(chains)
    height = {id: sizes[id].height if id in sizes else _THIN for column in columns for id in column}
    top: dict[str, float] = {}
    for column in columns:
        total = sum(height[id] for id in column) + _ROW_GAP * (len(column) - 1)
        at = -total / 2
        for id in column:
            top[id] = at
            at += height[id] + _ROW_GAP
    for sweep in range(2 * _SWEEPS):
        # In both directions, so that neighbours on either side have a say
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            wish = {}
            for id in column:
                near = [top[n] + height[n] / 2 for n in neighbours.get(id, [])]
                wish[id] = (sum(near) / len(near) if near else top[id] + height[id] / 2) - height[id] / 2
            _place_rows(column, wish, height, top)
    return top


def _place_rows(
    column: Sequence[str], wish: Mapping[str, float], height: Mapping[str, float], top: dict[str, float]
) -> None:
    """Give each box of a column its wish as far as the others allow; those that must move do so as one block."""
    blocks: list[tuple[list[str], float, float]] = []
    for id in column:
        members, at, size = [id], wish[id], height[id]
        while blocks and at < blocks[-1][1] + blocks[-1][2] + _ROW_GAP:
            before, before_at, before_size = blocks.pop()
            weight = len(members) / (len(members) + len(before))
            # where the lower block would like the upper one to begin
            at = before_at * (1 - weight) + (at - before_size - _ROW_GAP) * weight
            members, size = before + members, before_size + _ROW_GAP + size
        blocks.append((members, at, size))
    for members, at, _ in blocks:
        for id in members:
            top[id] = at
            at += height[id] + _ROW_GAP


def _lefts(
    columns: Sequence[Sequence[str]], sizes: Mapping[str, Box], gap: float, margin: float
) -> tuple[list[tuple[float, float]], float]:
    """Return left edge and width of each column, and the width of the picture."""
    lefts = []
    at = margin
    for number, column in enumerate(columns):
        own = [sizes[id] for id in column if id in sizes]
        lead = max((box.lead for box in own), default=0.0) if number else 0.0
        width = max((box.width for box in own), default=0.0)
        at += lead
        lefts.append((at, width))
        at += width + gap
    return lefts, at - gap + margin


def _finish(
    columns: Sequence[Sequence[str]],
    chains: Mapping[Arrow, tuple[str, ...]],
    closing: Sequence[Arrow],
    sizes: Mapping[str, Box],
    lefts: Sequence[tuple[float, float]],
    width: float,
    tops: Mapping[str, float],
    margin: float,
) -> GraphLayout:
    shift = margin - min(tops.values())
    corner: dict[str, tuple[float, float]] = {}
    passing: dict[str, tuple[float, float, float]] = {}
    for (left, across), column in zip(lefts, columns, strict=True):
        for id in column:
            if id in sizes:
                corner[id] = (left, tops[id] + shift)
            else:
                passing[id] = (left, left + across, tops[id] + shift + _THIN / 2)
    middle = {id: y + sizes[id].height / 2 for id, (_, y) in corner.items()} | {id: p[2] for id, p in passing.items()}
    bottom = max([corner[id][1] + sizes[id].height for id in corner] + [p[2] for p in passing.values()])
    ways = {edge: (chain[1], chain[-2]) for edge, chain in chains.items()}
    # a way back leaves and enters below all others
    ways |= dict.fromkeys(closing, ("", ""))
    middle[""] = bottom + _LANE
    starts = _ports([(e.source, middle[first], e) for e, (first, _) in ways.items()], corner, sizes)
    ends = _ports([(e.target, middle[last], e) for e, (_, last) in ways.items()], corner, sizes)
    paths, loops = {}, {}
    for edge in ways:
        start = (corner[edge.source][0] + sizes[edge.source].width, starts[edge])
        end = (corner[edge.target][0], ends[edge])
        if edge in chains:
            through = [((left, y), (right, y)) for left, right, y in (passing[w] for w in chains[edge][1:-1])]
            paths[edge] = (start, *(point for pair in through for point in pair), end)
        else:
            bottom += _LANE
            out, back = start[0] + margin / 2, end[0] - sizes[edge.target].lead - margin
            loops[edge] = (start, (out, start[1]), (out, bottom), (back, bottom), (back, end[1]), end)
    return GraphLayout(width, bottom + margin, corner, paths, loops)


def _ports(
    found: Sequence[tuple[str, float, Arrow]], corner: Mapping[str, tuple[float, float]], sizes: Mapping[str, Box]
) -> dict[Arrow, float]:
    """Spread the edges at a side of a box over its height, in the order of the heights they come from or go to."""
    at_box: dict[str, list[tuple[float, Arrow]]] = {}
    for box, height, edge in found:
        at_box.setdefault(box, []).append((height, edge))
    ports = {}
    for box, entries in at_box.items():
        entries.sort(key=lambda entry: entry[0])
        step = sizes[box].height / (len(entries) + 1)
        for number, (_, edge) in enumerate(entries, 1):
            ports[edge] = corner[box][1] + step * number
    return ports
