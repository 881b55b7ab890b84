"""The topology of a deployed app, drawn with where each instance is and how it is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spdist.planning.drawing import to_html, to_text
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
from widgets.panel import ClusterPanel
from widgets.poller import Awaited

if TYPE_CHECKING:
    from spdist.cluster.handle import Deployment

__all__ = ["PlacedTopology", "TopologyPanel", "read_topology"]


class PlacedTopology(NamedTuple):
    """A topology with the worker and the state of each instance; those without a worker are not in `placement`."""

    topology: Topology
    placement: Mapping[str, str]
    states: Mapping[str, str]


class TopologyPanel(ClusterPanel[PlacedTopology]):
    """Draws a deployed app: topics, groups, instances on their workers, and their states.

    Parameters
    ----------
    deployment : Deployment
        What `ClusterClient.deploy` or ``deployment`` returned.

    Examples
    --------
    >>> TopologyPanel(cluster.deployment("FlightWatch"))  # doctest: +SKIP
    """

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment.client)
        self._name = deployment.name

    def look(self) -> PlacedTopology:
        """Return topology, placement and states as the leader knows them now."""
        drawn = self.watch.topology(self._name)
        try:
            app = self.watch.app(self._name)
        except Awaited:
            return read_topology(drawn)
        if app.version != drawn["version"]:
            drawn = self.watch.topology(self._name, app.version)
        placement = {group.name: group.worker for group in app.groups if group.worker}
        return PlacedTopology(read_topology(drawn).topology, placement, {g.name: g.state for g in app.groups})

    def text_of(self, view: PlacedTopology) -> str:
        """Return groups, topics, instances and workers as text."""
        return to_text(*view)

    def html_of(self, view: PlacedTopology) -> str:
        """Return the picture."""
        return to_html(*view)


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
