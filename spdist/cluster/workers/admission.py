"""What a worker starts now and what waits: few at a time, and only what its memory allows. Pure.

Starts are what costs a worker most: each forks Python processes, plans its query and reads its state. Many at the same
time time out each other and starve what runs. So they are spaced, and none begins without memory for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spdist.cluster.protocol.messages import MemoryReport

__all__ = ["GroupCost", "StartPolicy", "Starting", "why_not_yet"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StartPolicy:
    """How many groups a worker starts at a time.

    Parameters
    ----------
    at_a_time : int
        So many may be starting, >= 1.
    patience_ms : int
        A start that takes longer is no longer waited for.
    """

    at_a_time: int
    patience_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Starting:
    """A group that was started and has not committed a batch: for how long, and whether it waits for a server."""

    since_ms: int
    waits: bool = False


def why_not_yet(starting: Iterable[Starting], memory: MemoryReport | None, policy: StartPolicy, now_ms: int) -> str:
    """Return why one more group is not to be started now, as a sentence; empty if it is.

    Parameters
    ----------
    starting : iterable of Starting
        All groups that are starting. Those that wait for a server keep nobody waiting, but their memory is counted.
    memory : MemoryReport, optional
        What is used; its own `MemoryReport.starting` does not matter here. None where nobody measures it.
    policy : StartPolicy
        How many at a time.
    now_ms : int
        The steady clock.
    """
    under_way = list(starting)
    if memory is not None and memory.used + (len(under_way) + 1) * memory.per_group > memory.limit:
        return f"waits for memory: {MemoryReport(memory.limit, memory.used, memory.per_group, len(under_way))}"
    busy = sum(not one.waits and now_ms - one.since_ms < policy.patience_ms for one in under_way)
    if busy >= policy.at_a_time:
        return f"waits for its turn: {busy} other groups are starting on this worker"
    return ""


class GroupCost:
    """What one more group instance costs in memory: what all take above what the worker takes without any, shared.

    Parameters
    ----------
    assumed : int
        Bytes, until it can be measured: a session's first group costs more than the later ones.
    least : int
        Bytes; what is measured may be too little while groups have not read anything.

    State
    -----
    The memory without groups, as last seen, and the last result.
    """

    def __init__(self, assumed: int = 384 * _MIB, least: int = 32 * _MIB) -> None:
        self._least = least
        self._without: int | None = None
        self.bytes = assumed

    def note(self, used: int, groups: int) -> None:
        """Take in a measurement: `used` bytes by the worker with `groups` instances that were started."""
        if groups == 0:
            self._without = used
        elif self._without is not None:
            self.bytes = max(self._least, (used - self._without) // groups)
