"""Which worker runs which group instance: desired placement from what is there. Pure and deterministic.

Three wishes, in this order: an instance that runs well stays where it is; workers carry equally many instances (they
differ by one at most); the instances of one group sit on different workers. A join therefore moves only as many
instances as the new worker lacks, a leave moves only what the leaver held.

Nothing is moved onto a worker that is not ready, has no room, or on which the instance has failed: there is nothing to
be won that would be worth what runs. Only what has no place goes, if there is no better one, where it failed before or
where Spark has yet to come up.

Source: WSO2 SP 4.x ``ResourceAllocationAlgorithm`` (round robin is its default; the class can be configured), which
never rebalances and forgets healthy instances when capacity is short.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from spdist.errors import ConfigError

__all__ = [
    "PlacedGroup",
    "PlacementAlgorithm",
    "PlacementWorker",
    "Request",
    "allocation_algorithm",
    "decide_placement",
]


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """An instance that wants a worker.

    Parameters
    ----------
    name : str
        The instance.
    group : str
        Its execution group, shared with its siblings.
    receiver : bool
        It reads users' sources: only receiver workers take it, each at most one of a group (they would compete
        for ports and addresses).
    avoid : frozenset of str
        Workers on which it has failed: only chosen if there is no other.
    waits : bool
        The worker it is on has no memory to start it: it moves, even without `Request.rebalance`, where there is room.
    """

    name: str
    group: str
    receiver: bool = False
    avoid: frozenset[str] = frozenset()
    waits: bool = False


@dataclass(frozen=True, slots=True)
class PlacementWorker:
    """A worker that can be given instances.

    Parameters
    ----------
    id : str
        ``wso2.carbon.id``.
    receiver : bool
        It takes receiver groups; the others take all other groups.
    metrics : mapping of str to float
        WSO2's ``workerMetrics`` as last reported, for algorithms that look at load.
    ready : bool
        Its Spark is up, and it has reported within a heartbeat.
    room : int, optional
        How many more instances its memory allows; None where that is not known.
    """

    id: str
    receiver: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)
    ready: bool = True
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a `PlacementAlgorithm` is asked.

    Parameters
    ----------
    groups : sequence of PlacedGroup
        All instances that want a worker, in the order of apps, groups and instances.
    workers : sequence of PlacementWorker
        All that can be given instances.
    current : mapping of str to str
        Where instances are now: name to worker id. Workers that are not in `workers` do not count.
    rebalance : bool
        Whether instances that are placed may be moved to even out the load.
    """

    groups: Sequence[PlacedGroup]
    workers: Sequence[PlacementWorker]
    current: Mapping[str, str]
    rebalance: bool = True


PlacementAlgorithm = Callable[[Request], dict[str, str]]


def decide_placement(request: Request) -> dict[str, str]:
    """Return the worker of every instance that can be placed (round robin; the default algorithm).

    Instances that are missing from the result must wait: there is no worker of their kind, none has room, or (receiver
    groups) each already holds an instance of the group. The same request gives the same answer, and asking again with
    the answer as `current` moves nothing.
    """
    out: dict[str, str] = {}
    for receiver in (False, True):
        workers = sorted((w for w in request.workers if w.receiver is receiver), key=lambda w: w.id)
        groups = [g for g in request.groups if g.receiver is receiver]
        if workers:
            out |= _Board(workers, groups, request.current).fill(request.rebalance)
    return out


class _Board:
    """The instances of one kind (receiver or not) on the workers of that kind, while a placement is worked out."""

    def __init__(self, workers: list[PlacementWorker], groups: list[PlacedGroup], current: Mapping[str, str]) -> None:
        self._groups = {g.name: g for g in groups}
        self._ready = {w.id for w in workers if w.ready}
        self._room = {w.id: w.room for w in workers if w.room is not None}
        self._held: dict[str, list[PlacedGroup]] = {w.id: [] for w in workers}
        self._siblings: Counter[tuple[str, str]] = Counter()
        self._kept: set[str] = set()
        for group in groups:
            worker = current.get(group.name)
            if worker in self._held and not self._clashes(worker, group):
                self._put(group, worker)
                self._kept.add(group.name)

    def fill(self, rebalance: bool) -> dict[str, str]:
        """Place what has no worker; then, with `rebalance`, move from fullest to emptiest while they differ by two."""
        for group in self._groups.values():
            if group.name not in self._kept:
                choice = self._choose(group, self._held)
                if choice is not None:
                    self._add(group, choice)
            elif group.waits:
                self._find_room(group)
        while rebalance and self._move_one():
            pass
        return {g.name: worker for worker, groups in self._held.items() for g in groups}

    def _find_room(self, group: PlacedGroup) -> None:
        source = next(worker for worker, held in self._held.items() if group in held)
        choice = self._choose(group, [w for w in self._held if w != source and self._may_move(group, w)])
        if choice is not None:
            self._take(group, source)
            self._add(group, choice)

    def _add(self, group: PlacedGroup, worker: str) -> None:
        """Put it where it was not before."""
        self._put(group, worker)
        if worker in self._room:
            self._room[worker] -= 1

    def _put(self, group: PlacedGroup, worker: str) -> None:
        self._held[worker].append(group)
        self._siblings[worker, group.group] += 1

    def _take(self, group: PlacedGroup, worker: str) -> None:
        self._held[worker].remove(group)
        self._siblings[worker, group.group] -= 1

    def _clashes(self, worker: str, group: PlacedGroup) -> bool:
        return group.receiver and self._siblings[worker, group.group] > 0

    def _admits(self, worker: str, group: PlacedGroup) -> bool:
        return not self._clashes(worker, group) and self._room.get(worker, 1) > 0

    def _may_move(self, group: PlacedGroup, target: str) -> bool:
        return target in self._ready and target not in group.avoid and self._admits(target, group)

    def _choose(self, group: PlacedGroup, among: Collection[str]) -> str | None:
        def cost(worker: str) -> tuple[bool, bool, int, int, str]:
            unfit = worker not in self._ready, worker in group.avoid
            return *unfit, self._siblings[worker, group.group], len(self._held[worker]), worker

        return min((w for w in among if self._admits(w, group)), key=cost, default=None)

    def _move_one(self) -> bool:
        """Make the one move that evens out the load at the least cost; False if there is none."""
        loads = {worker: len(held) for worker, held in self._held.items()}
        levels = sorted(set(loads.values()))
        for full in reversed(levels):
            for empty in (level for level in levels if level <= full - 2):
                moves = [
                    (self._reluctance(group, source, target), source, target, group)
                    for source in self._held
                    if loads[source] == full
                    for target in self._held
                    if loads[target] == empty
                    for group in self._held[source]
                    if self._may_move(group, target)
                ]
                if moves:
                    _, source, target, group = min(moves, key=lambda move: move[:3])
                    self._take(group, source)
                    self._add(group, target)
                    return True
        return False

    def _reluctance(self, group: PlacedGroup, source: str, target: str) -> tuple[bool, int, str]:
        """Return what speaks against a move: it runs here, it would join siblings there."""
        closer = self._siblings[target, group.group] + 1 - self._siblings[source, group.group]
        return group.name in self._kept, closer, group.name


_ALGORITHMS: dict[str, PlacementAlgorithm] = {"roundRobin": decide_placement}


def allocation_algorithm(name: str | None) -> PlacementAlgorithm:
    """Return the algorithm that ``deployment.config.allocationAlgorithm`` names.

    Parameters
    ----------
    name : str, optional
        ``roundRobin`` (also if None or empty), or the path ``package.module.function`` of a `PlacementAlgorithm`.

    Raises
    ------
    ConfigError
        Nothing callable is found under that name.
    """
    if not name:
        return decide_placement
    if name in _ALGORITHMS:
        return _ALGORITHMS[name]
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute) if module else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"deployment.config.allocationAlgorithm: {name} cannot be loaded: {error}",
            hint=f"use one of {', '.join(_ALGORITHMS)}, or the path package.module.function of a function",
        ) from error
    if not callable(found):
        raise ConfigError(
            f"deployment.config.allocationAlgorithm: {name} is not an algorithm",
            hint=f"use one of {', '.join(_ALGORITHMS)}, or the path package.module.function of a function",
        )
    algorithm: PlacementAlgorithm = found
    return algorithm
