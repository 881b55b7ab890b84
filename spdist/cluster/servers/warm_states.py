"""The states of the apps of a passive server: followed while another one is active, so that taking over is quick."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.cluster.servers.views import StateSeen
from spdist.config import Config
from spdist.planning.topology import Assignment

if TYPE_CHECKING:
    from spdist.engine.shards.state_follower import Followed, StateFollower

__all__ = ["WarmStates", "state_seen"]

_log = logging.getLogger("spdist.cluster.server")


class WarmStates:
    """What is known of the states of a server's apps. One thread follows, others look.

    Parameters
    ----------
    config : Config
        Of the server.

    State
    -----
    A few numbers for each app; see `spdist.engine.shards.state_follower.StateFollower`.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._follower: tuple[Path, StateFollower] | None = None
        self._known: Mapping[str, Followed] = {}

    def follow(self, assignments: Sequence[Assignment], copies: Path) -> None:
        """Read what has appeared; `copies` is a directory for what is read from a bucket. May take long."""
        from spdist.engine.shards.copies import Copies
        from spdist.engine.shards.places import place_of
        from spdist.engine.shards.state_follower import StateFollower

        # Another directory: Spark has begun anew, and what was read of a bucket went with the former
        if self._follower is None or self._follower[0] != copies:
            place = place_of(self._config.state_persistence.location)
            self._follower = (
                copies,
                StateFollower(place.absolute() if isinstance(place, Path) else place, Copies(copies)),
            )
        before, self._known = self._known, self._follower[1].follow(assignments)
        for name, one in self._known.items():
            if one.problem and (name not in before or before[name].problem != one.problem):
                _log.warning("app %s cannot be taken over: %s", name, one.problem, extra={"app": name})

    def forget(self) -> None:
        """Know nothing: this server is the active one."""
        self._known = {}

    def seen(self, name: str, now_ms: int) -> StateSeen:
        """Return what is to be told of the state of an app; see `state_seen`."""
        return state_seen(self._known.get(name), now_ms)


def state_seen(followed: Followed | None, now_ms: int) -> StateSeen:
    """Return what the status of a passive app tells of its state; nothing where nobody has looked yet. Pure."""
    if followed is None or followed.problem:
        return StateSeen(problem=followed.problem if followed else "")
    age = {} if followed.snapshot_ms is None else {"snapshotAgeMs": float(max(0, now_ms - followed.snapshot_ms))}
    return StateSeen({"segment": float(followed.segment)} | age)
