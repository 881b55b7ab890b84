"""The shards of group instances with the places of their states: an instance is one directory, or has one for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.engine.state import StateStore, state_directory
from spdist.errors import StateError
from spdist.planning.topology import Assignment

if TYPE_CHECKING:
    from spdist.engine.shards import ShardSettings

__all__ = ["ShardState", "shard_states"]


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard to run, and where its state is."""

    assignment: Assignment
    index: int
    count: int
    store: StateStore

    def take_over(self, owner: str) -> ShardSettings:
        """Become the owner of the state."""
        from spdist.engine.shards import ShardSettings

        self._check_layout()
        opening = self.store.open(owner)
        return ShardSettings(self.assignment, self.index, self.count, opening, str(self.store.directory))

    def _check_layout(self) -> None:
        """Refuse to begin from nothing beside a state that another number of shards has made."""
        whole = self.store.directory if self.count == 1 else self.store.directory.parent
        known = {_count_of(path) for path in whole.glob("shard-*-of-*")} | (
            {1} if any(whole.glob("segment-*")) else set()
        )
        if known - {self.count}:
            raise StateError(
                f"the state of {self.assignment.name} was made by {max(known)} shards, and {self.count} cannot go on",
                hint=f"plan the app with {max(known)} again (spark.shards), or give it a new name",
            )


def shard_states(assignments: Sequence[Assignment], location: Path) -> list[ShardState]:
    """Return all shards of `assignments`, whose states are below `location`."""
    found = []
    for one in assignments:
        whole = state_directory(location, one.name)
        for index in range(one.shards):
            place = whole if one.shards == 1 else whole / f"shard-{index + 1}-of-{one.shards}"
            found.append(ShardState(one, index, one.shards, StateStore(place)))
    return found


def _count_of(directory: Path) -> int:
    return int(directory.name.rpartition("-")[2])
