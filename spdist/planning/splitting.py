"""Which groups of a topology are split into shards, and whom their readers then wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spdist.planning.compiled import checked_text
from spdist.planning.sharding import sharding
from spdist.planning.topology import ExecutionGroup, Topology, shard_names

__all__ = ["split_groups"]


def split_groups(topology: Topology, shards: int, scripts: bool = False) -> Topology:
    """Split the instances of those groups into `shards` parts whose results do not change by that.

    Parameters
    ----------
    topology : Topology
        As planned, each instance in one shard.
    shards : int
        How many; 1 returns `topology`.
    scripts : bool
        Whether the app defines functions in Python.
    """
    if shards == 1:
        return topology
    split = [replace(group, shards=shards) if _possible(group, scripts) else group for group in topology.groups]
    names = {one.name: shard_names(one.name, group.shards) for group in split for one in group.instances}

    def waited_for(producers: tuple[str, ...]) -> Iterator[str]:
        for name in producers:
            yield from names[name]

    groups = [
        replace(group, inputs=tuple(replace(one, producers=tuple(waited_for(one.producers))) for one in group.inputs))
        for group in split
    ]
    return replace(topology, groups=tuple(groups))


def _possible(group: ExecutionGroup, scripts: bool) -> bool:
    # What reads a user's source takes what comes, in one place.
    if group.receiver:
        return False
    checked = checked_text(group.instances[0].text, scripts or None)
    return sharding(checked, [one.stream for one in group.inputs]).possible
