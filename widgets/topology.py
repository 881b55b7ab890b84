"""The topology of a deployed app, drawn with where each instance is, how it is doing, and what goes over the arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import ipywidgets

from spdist.display import headline_html, note_html, table_html, table_text
from spdist.language.lexer import coloured_html
from spdist.panels.flows import GroupFlow, flow_texts, group_flow
from spdist.panels.group_rows import GroupRow, group_rows
from spdist.panels.panel import ClusterPanel
from spdist.panels.poller import Awaited
from spdist.planning.pictures.drawing import to_svg, to_text
from spdist.planning.topology import (
    ExecutionGroup,
    GroupInput,
    GroupInstance,
    GroupOutput,
    Publishing,
    Strategy,
    Topic,
    Topology,
)

if TYPE_CHECKING:
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.clients.handle import Deployment

__all__ = ["DrawnApp", "PlacedTopology", "TopologyPanel", "read_topology"]

_NO_GROUP = "no group"
#: What a click on a group does: in the widget it chooses the group there, else it opens what is folded away.
_CLICK = """
const clicked = event.target.closest('g[data-group],summary[data-group]');
if (clicked) {
  const name = clicked.dataset.group, live = this.closest('[class*=spdist-live-]');
  const choice = live && live.querySelector('select');
  if (choice) {
    event.preventDefault();
    const at = [...choice.options].findIndex(one => one.text === name);
    choice.selectedIndex = at === choice.selectedIndex ? 0 : Math.max(at, 0);
    choice.dispatchEvent(new Event('change', {bubbles: true}));
  } else if (clicked.tagName !== 'SUMMARY') {
    const told = [...this.querySelectorAll('summary')].find(one => one.dataset.group === name);
    if (told) { told.parentElement.open = true; told.scrollIntoView({block: 'nearest'}); }
  }
}
"""


class PlacedTopology(NamedTuple):
    """A topology with the worker and the state of each instance; those without a worker are not in `placement`."""

    topology: Topology
    placement: Mapping[str, str]
    states: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DrawnApp:
    """A deployed app with its figures.

    Parameters
    ----------
    placed : PlacedTopology
        What is drawn.
    rows : mapping of str to GroupRow
        Its instances with their figures, by name; empty where those are not known yet.
    """

    placed: PlacedTopology
    rows: Mapping[str, GroupRow] = field(default_factory=dict)


class TopologyPanel(ClusterPanel[DrawnApp]):
    """Draws a deployed app: topics, groups, instances on their workers with their states, events a second and lag.

    A click on a group, or choosing it, shows what it reads and publishes, its instances with their figures, and their
    SiddhiQL.

    Parameters
    ----------
    deployment : Deployment
        What `ClusterClient.deploy` or ``deployment`` returned.

    State
    -----
    Which group is shown with its details.

    Examples
    --------
    >>> TopologyPanel(cluster.deployment("FlightWatch"))  # doctest: +SKIP
    """

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(cast("ClusterClient", deployment.client))
        self._name = deployment.name
        #: The group whose details are open; empty for none.
        self.selected = ""
        self._choice: Any = None

    def fetch(self) -> DrawnApp:
        """Return topology, placement, states and figures as the leader knows them now."""
        drawn = self.watch.topology(self._name)
        try:
            seen = self.watch.status()
        except Awaited:
            return DrawnApp(read_topology(drawn))
        app = seen.app(self._name)
        if app.version != drawn["version"]:
            drawn = self.watch.topology(self._name, app.version)
        placement = {group.name: group.worker for group in app.groups if group.worker}
        states = {group.name: group.state for group in app.groups}
        placed = PlacedTopology(read_topology(drawn).topology, placement, states)
        return DrawnApp(placed, {row.group.name: row for row in group_rows(seen) if row.group.name in states})

    def text_of(self, view: DrawnApp) -> str:
        """Return groups, topics, instances and workers as text, and how much each group does."""
        topology = view.placed.topology
        figures = {name: row.figures for name, row in view.rows.items()}
        flows = [(group.name, *_cells(group_flow(group, figures))) for group in topology.groups]
        told = to_text(*view.placed)
        if not any(cell for _, *cells in flows for cell in cells):
            return told
        return f"{told}\n{table_text(('group', 'in/s', 'out/s', 'lag'), flows, title='events')}"

    def html_of(self, view: DrawnApp) -> str:
        """Return the picture, with the details of each group folded away below it."""
        topology = view.placed.topology
        flows = flow_texts(topology, {name: row.figures for name, row in view.rows.items()})
        details = "".join(self._details(group, view) for group in topology.groups)
        return (
            f"{headline_html(to_text(topology).splitlines()[0])}"
            f'<div onclick="{escape(_CLICK, quote=True)}">'
            f'<div style="overflow-x:auto">{to_svg(*view.placed, flows)}</div>{details}</div>'
        )

    def _details(self, group: ExecutionGroup, view: DrawnApp) -> str:
        rows = [view.rows[one.name] for one in group.instances if one.name in view.rows]
        figures = table_html(GroupRow.HTML_HEAD, [row.html_cells() for row in rows]) if rows else ""
        reads = [(one.stream, "reads", one.strategy.value, one.topic or "its @source") for one in group.inputs]
        writes = [(one.stream, "publishes", p.strategy.value, p.topic) for one in group.outputs for p in one.publishing]
        streams = table_html(("stream", "it", "how", "topic"), [*reads, *writes])
        texts = "".join(map(coloured_html, dict.fromkeys(one.text for one in group.instances)))
        opened = " open" if group.name == self.selected else ""
        return (
            f'<details{opened}><summary data-group="{escape(group.name, quote=True)}">{escape(group.name)} '
            f"× {group.parallel}</summary>{note_html(group.why)}{streams}{figures}{texts}</details>"
        )

    def controls(self) -> Sequence[Any]:
        """Return which group is shown with its details; a click on the picture chooses there, too."""
        self._choice = ipywidgets.Dropdown(options=[_NO_GROUP], description="Details of")
        self._choice.observe(lambda change: self._chosen(change["new"]), names="value")
        return (self._choice,)

    def adapt(self, view: DrawnApp) -> None:
        """Offer the groups that there are."""
        options = (_NO_GROUP, *(group.name for group in view.placed.topology.groups))
        if self._choice.options != options:
            # Setting the options chooses the first one, and `_chosen` forgets what was selected.
            chosen = self.selected if self.selected in options else _NO_GROUP
            self._choice.options = options
            self._choice.value = chosen

    def _chosen(self, group: str) -> None:
        self.selected = "" if group == _NO_GROUP else group
        self.poller.wake()


def _cells(flow: GroupFlow) -> list[str]:
    return ["" if one is None else f"{one:,.0f}" for one in (flow.in_per_s, flow.out_per_s, flow.lag)]


def read_topology(view: Mapping[str, Any]) -> PlacedTopology:
    """Return what ``GET /managers/topology/{app}`` answers as values."""
    instances = [one for group in view["groups"] for one in group["instances"]]
    topology = Topology(
        app=view["name"],
        playback=view["playback"],
        groups=tuple(_group(group) for group in view["groups"]),
        topics=tuple(Topic(topic["name"], topic["partitions"]) for topic in view["topics"]),
    )
    placement = {one["name"]: one["worker"] for one in instances if one["worker"]}
    return PlacedTopology(topology, placement, {one["name"]: one["state"] for one in instances})


def _group(group: Mapping[str, Any]) -> ExecutionGroup:
    return ExecutionGroup(
        name=group["name"],
        parallel=group["parallel"],
        inputs=tuple(_input(one) for one in group["inputs"]),
        outputs=tuple(_output(one) for one in group["outputs"]),
        instances=tuple(GroupInstance(one["name"], one["text"]) for one in group["instances"]),
        receiver=group["receiver"],
        why=group["why"],
    )


def _input(one: Mapping[str, Any]) -> GroupInput:
    return GroupInput(
        stream=one["stream"],
        strategy=Strategy(one["strategy"]),
        topic=one["topic"],
        partitions=one["partitions"],
        key=one["key"],
        producers=tuple(one["producers"]),
        user_source=one["userSource"],
    )


def _output(one: Mapping[str, Any]) -> GroupOutput:
    publishing = tuple(
        Publishing(Strategy(p["strategy"]), p["partitions"], p["topic"], p["partitions"], p["key"])
        for p in one["publishing"]
    )
    return GroupOutput(one["stream"], publishing, user_sink=one["userSink"])
