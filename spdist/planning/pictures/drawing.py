"""A topology as text, as SVG and as HTML: topics, groups with their instances, strategies on the arrows. Pure.

The SVG needs nothing from outside and reads on light and dark pages: text and lines take the colour of the page's own
text (``currentColor``), and states have tones that stand out on both; full names and states are also said in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from spdist.display import STATE_COLOURS, details_html, headline_html, number_of
from spdist.planning.pictures import svg
from spdist.planning.pictures.layout import Arrow, Box, GraphLayout, lay_out
from spdist.planning.topology import ExecutionGroup, GroupInput, Kind, Publishing, Strategy, Topic, Topology

__all__ = ["to_html", "to_svg", "to_text"]

_WORDS = {
    Kind.TABLE: "a table in a store",
    Kind.INMEMORYTABLE: "a table in memory",
    Kind.WINDOW: "a window",
    Kind.AGGREGATION: "an aggregation",
    Kind.TRIGGER: "a trigger",
}
_PLAIN = "#8b949e"
_OUTSIDE = "#2f81f7"

_CAPITAL = 6.9  # of a capital at 10 px
_ROW = 20.0
_HEAD = 30.0
_GAP = 34.0

Facts = Mapping[str, str]
Flows = Mapping[tuple[str, str], str]


def to_text(topology: Topology, placement: Facts | None = None, states: Facts | None = None) -> str:
    """Return the topology for a terminal.

    Parameters
    ----------
    topology : Topology
        What to show.
    placement : mapping of str to str, optional
        Instance → worker.
    states : mapping of str to str, optional
        Instance → WAITING, DEPLOYING, RUNNING, UNREACHABLE or FAILED.
    """
    placement, states = placement or {}, states or {}
    roles = _roles(topology)
    count = sum(len(group.instances) for group in topology.groups)
    clock = "event time" if topology.playback else "live"
    lines = [
        f"{topology.app} ({clock}): {number_of(len(topology.groups), 'group')}, {number_of(count, 'instance')}, "
        f"{number_of(len(topology.topics), 'topic')}"
    ]
    for group in topology.groups:
        lines.append(f"  {group.name} × {group.parallel}: {group.why}")
        for one in group.inputs:
            where = "its @source" if one.user_source else f"{one.topic}{_told(roles, one.topic)}"
            lines.append(f"    reads   {one.stream}: {_strategy(one)} from {where}")
        lines += [f"    holds   {one.stream}: {_WORDS[one.kind]}" for one in group.holds if one.kind is not Kind.STREAM]
        for output in group.outputs:
            for publishing in output.publishing:
                lines.append(f"    writes  {output.stream}: to {publishing.topic}{_told(roles, publishing.topic)}")
            if output.user_sink and "@sink" in group.instances[0].text:
                lines.append(f"    writes  {output.stream}: to its @sink")
        for instance in group.instances:
            worker = placement.get(instance.name, "")
            words = [states.get(instance.name, ""), f"on {worker}" if worker else ""]
            lines.append(f"    {instance.name} {' '.join(word for word in words if word)}".rstrip())
    return "\n".join(lines)


def to_svg(
    topology: Topology, placement: Facts | None = None, states: Facts | None = None, flows: Flows | None = None
) -> str:
    """Return the topology as an SVG picture; the boxes of groups have their names as ``data-group``.

    Parameters
    ----------
    topology, placement, states
        As in `to_text`.
    flows : mapping of (str, str) to str, optional
        Topic and group, or group and topic → what to write at the arrow from the one to the other.
    """
    picture = _Picture(topology, placement or {}, states or {}, flows or {})
    layout = lay_out(picture.boxes(), picture.edges(), gap=_GAP)
    body = [*picture.draw_edges(layout), *picture.draw_boxes(layout)]
    return svg.picture(layout, f"Topology of {topology.app}", body)


def to_html(topology: Topology, placement: Facts | None = None, states: Facts | None = None) -> str:
    """Return the picture with a line of facts above it and the child apps folded away; parameters as in `to_text`."""
    texts = "".join(
        details_html(instance.name, f"<pre>{escape(instance.text)}</pre>")
        for group in topology.groups
        for instance in group.instances
    )
    return (
        f"<div>{headline_html(to_text(topology).splitlines()[0])}"
        f'<div style="overflow-x:auto">{to_svg(topology, placement, states)}</div>'
        f"{details_html('SiddhiQL of the instances', texts)}</div>"
    )


def _strategy(one: GroupInput) -> str:
    by_key = one.strategy is Strategy.FIELD_GROUPING
    return one.strategy.value + (f" by {one.key}" if by_key else "")


@dataclass(frozen=True, slots=True)
class _Role:
    """What a topic is for: fed from outside, read by outsiders, or between groups."""

    fed: bool
    read: bool
    partitions: int
    source: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        told = (number_of(self.partitions, "partition"),)
        fed = "fed by a @source" if self.source else "fed from outside"
        return told + (fed,) * self.fed + ("read from outside",) * self.read


def _roles(topology: Topology) -> dict[str, _Role]:
    fed = {i.topic for group in topology.groups for i in group.inputs if i.topic and not i.producers}
    inside = {i.topic for group in topology.groups for i in group.inputs}
    sources = {i.topic for group in topology.groups for i in group.inputs if i.user_source}
    return {
        t.name: _Role(t.name in fed, t.name not in inside, t.partitions, t.name in sources) for t in topology.topics
    }


def _told(roles: Mapping[str, _Role], topic: str) -> str:
    return f" ({', '.join(roles[topic].words)})" if topic in roles else ""


class _Picture:
    """The parts of one picture. Boxes have the ids ``g:<group>`` and ``t:<topic>``."""

    def __init__(self, topology: Topology, placement: Facts, states: Facts, flows: Flows) -> None:
        self.flows = flows
        self.topology = topology
        self.placement = placement
        self.states = states
        self.roles = _roles(topology)

    # --- what there is
    def boxes(self) -> list[Box]:
        """Return sizes: as wide as the longest line, as high as there are lines."""
        return [self._topic_box(t) for t in self.topology.topics] + [self._group_box(g) for g in self.topology.groups]

    def _topic_box(self, topic: Topic) -> Box:
        words = self.roles[topic.name].words
        width = max(len(self._inside(topic.name)) * svg.CHARACTER, *(len(line) * svg.SMALL for line in words)) + 30
        return Box(f"t:{topic.name}", width, 28 + 13.0 * len(words), self._flow_width(topic.name))

    def _group_box(self, group: ExecutionGroup) -> Box:
        rows = [
            len(self._short(i.name)) * svg.CHARACTER + len(self._next_to(i.name)) * svg.SMALL + 50
            for i in group.instances
        ]
        head = len(self._short(group.name)) * 7.4 + 60
        height = max(_HEAD + _ROW * len(group.instances) + 8, 32.0 * (len(group.inputs) + 1))
        lead = max((len(i.strategy.value) * _CAPITAL for i in group.inputs), default=0.0)
        return Box(f"g:{group.name}", max(head, *rows), height, max(lead, self._flow_width(group.name)))

    def _flow_width(self, target: str) -> float:
        return max((len(told) * svg.SMALL for (_, to), told in self.flows.items() if to == target), default=0.0)

    def edges(self) -> list[Arrow]:
        """Return the arrows: topic → group for each input, group → topic for each publishing."""
        return [*self._labels(), *self._publishing()]

    def _labels(self) -> dict[Arrow, GroupInput]:
        labels: dict[Arrow, GroupInput] = {}
        for group in self.topology.groups:
            for one in group.inputs:
                if one.topic:
                    labels[Arrow(f"t:{one.topic}", f"g:{group.name}")] = one
        return labels

    def _publishing(self) -> dict[Arrow, Publishing]:
        return {
            Arrow(f"g:{group.name}", f"t:{publishing.topic}"): publishing
            for group in self.topology.groups
            for output in group.outputs
            for publishing in output.publishing
        }

    def _short(self, name: str) -> str:
        return name.removeprefix(f"{self.topology.app}-")

    def _inside(self, topic: str) -> str:
        return topic.removeprefix(f"{self.topology.app}.")

    def _next_to(self, instance: str) -> str:
        return self.placement.get(instance) or ("no worker" if instance in self.states else "")

    # --- drawing
    def draw_boxes(self, layout: GraphLayout) -> Iterable[str]:
        """Yield all boxes."""
        sizes = {box.id: box for box in self.boxes()}
        for topic in self.topology.topics:
            yield self._draw_topic(topic, sizes[f"t:{topic.name}"], *layout.boxes[f"t:{topic.name}"])
        for group in self.topology.groups:
            yield self._draw_group(group, sizes[f"g:{group.name}"], *layout.boxes[f"g:{group.name}"])

    def _draw_topic(self, topic: Topic, box: Box, x: float, y: float) -> str:
        role = self.roles[topic.name]
        colour = _OUTSIDE if role.fed or role.read else _PLAIN
        middle = x + box.width / 2
        lines = [
            svg.text(middle, y + 32 + 13 * number, line, anchor="middle", small=True)
            for number, line in enumerate(role.words)
        ]
        return (
            f"<g><title>topic {escape(topic.name)}</title>"
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="{box.height / 2.6:.1f}" fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="1.4"/>'
            f"{svg.text(middle, y + 18, self._inside(topic.name), anchor='middle')}{''.join(lines)}</g>"
        )

    def _draw_group(self, group: ExecutionGroup, box: Box, x: float, y: float) -> str:
        found = [self.states[i.name] for i in group.instances if i.name in self.states]
        # A box has one colour: that of the instance which most needs somebody to look at it
        worst = next((s for s in ("FAILED", "UNREACHABLE", "WAITING", "DEPLOYING", "RUNNING") if s in found), None)
        colour = STATE_COLOURS.get(worst or "", _PLAIN)
        parts = [
            f'<g data-group="{escape(group.name, quote=True)}">',
            f"<title>{escape(group.name)}: {escape(group.why)}</title>",
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" fill="{colour}" '
            f'fill-opacity="0.10" stroke="{colour}" stroke-width="1.6"/>',
            svg.text(x + 12, y + 20, self._short(group.name), bold=True),
            svg.text(x + box.width - 12, y + 20, f"× {group.parallel}", anchor="end", small=True),
            f'<line x1="{x:.1f}" y1="{y + _HEAD:.1f}" x2="{x + box.width:.1f}" y2="{y + _HEAD:.1f}" stroke="{colour}" '
            'stroke-opacity="0.5"/>',
        ]
        for number, instance in enumerate(group.instances):
            parts.append(self._draw_instance(instance.name, x, y + _HEAD + _ROW * number + 4, box.width))
        return "".join([*parts, "</g>"])

    def _draw_instance(self, name: str, x: float, y: float, width: float) -> str:
        state = self.states.get(name)
        colour = STATE_COLOURS.get(state or "", _PLAIN)
        worker = self.placement.get(name)
        told = escape(f"{name}: {state or 'not deployed'}" + (f" on {worker}" if worker else ""))
        return (
            f'<g><title>{told}</title><circle cx="{x + 17:.1f}" cy="{y + 10:.1f}" r="4" '
            + (f'fill="{colour}"/>' if state else f'fill="none" stroke="{colour}" stroke-width="1.2"/>')
            + svg.text(x + 28, y + 14, self._short(name))
            + svg.text(x + width - 12, y + 14, self._next_to(name), anchor="end", small=True)
            + "</g>"
        )

    def draw_edges(self, layout: GraphLayout) -> Iterable[str]:
        """Yield all arrows, each with its strategy where it enters a group."""
        leads = {box.id: box.lead for box in self.boxes()}
        labels = self._labels()
        for edge, path in layout.paths.items():
            labelled = edge in labels or self._flow(edge)
            yield svg.arrow(svg.curve(path, leads[edge.target] if labelled else 0.0), path[-1])
        for corners in layout.loops.values():
            yield svg.arrow("M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in corners), corners[-1])
        for edge, path in {**layout.paths, **layout.loops}.items():
            x, y = path[-1]
            for number, line in enumerate(self._words(labels.get(edge), self._flow(edge))):
                yield svg.text(x - 12, y - 4 if not number else y + 11 * number, line, anchor="end", small=True)

    def _words(self, one: GroupInput | None, flow: str) -> Iterable[str]:
        """Yield the lines at the end of an arrow: the first stands above it, the others below."""
        if one is not None:
            yield one.strategy.value
            if one.strategy is Strategy.FIELD_GROUPING:
                yield f"by {one.key}"
        if flow:
            yield flow

    def _flow(self, edge: Arrow) -> str:
        return self.flows.get((edge.source[2:], edge.target[2:]), "")
