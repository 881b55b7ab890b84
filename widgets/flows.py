"""What goes over the arrows of a topology: events a second and lag, where the figures of its groups say it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdist.panels.trends import Figures
    from spdist.planning.topology import ExecutionGroup, Topology

__all__ = ["GroupFlow", "flow_texts", "group_flow"]


@dataclass(frozen=True, slots=True)
class GroupFlow:
    """What all instances of a group do together; None where none of them has told.

    Parameters
    ----------
    in_per_s, out_per_s : float or None
        Events a second.
    lag : float or None
        Records that they have not read.
    """

    in_per_s: float | None
    out_per_s: float | None
    lag: float | None


def group_flow(group: ExecutionGroup, figures: Mapping[str, Figures]) -> GroupFlow:
    """Return what the instances of a group do together."""
    last = [figures[one.name].last for one in group.instances if one.name in figures]
    return GroupFlow(
        _sum(point.in_per_s for point in last),
        _sum(point.out_per_s for point in last),
        _sum(point.lag for point in last),
    )


def flow_texts(topology: Topology, figures: Mapping[str, Figures]) -> dict[tuple[str, str], str]:
    """Return what to write at the arrows of `spdist.planning.pictures.drawing.to_svg`.

    Groups tell what they read and put out altogether. So there is something to write where one arrow is all that a
    group reads, or all that it publishes.
    """
    flows = {group.name: group_flow(group, figures) for group in topology.groups}
    read = {group.name: {one.topic for one in group.inputs if one.topic} for group in topology.groups}
    written = {
        group.name: {publishing.topic for output in group.outputs for publishing in output.publishing}
        for group in topology.groups
    }
    texts = {
        (topic, group): _text(flows[group].in_per_s, flows[group].lag)
        for group, topics in read.items()
        if len(topics) == 1
        for topic in topics
    }
    texts |= {
        (group, topic): _text(flows[group].out_per_s)
        for group, topics in written.items()
        if len(topics) == 1
        for topic in topics
    }
    return {arrow: text for arrow, text in texts.items() if text}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _text(per_s: float | None, lag: float | None = None) -> str:
    told = [] if per_s is None else [f"{per_s:,.0f}/s" if per_s >= 10 or per_s == 0 else f"{per_s:.1f}/s"]
    return ", ".join([*told, *([f"lag {lag:,.0f}"] if lag else [])])
