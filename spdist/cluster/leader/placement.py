"""Which worker runs which group instance: desired placement from what is there. Pure and deterministic.

Three wishes, in this order: an instance that runs well stays where it is; the work is spread evenly over the workers;
the instances of one group sit on different workers. What is even is what the two algorithms differ in:

* **round robin** counts instances: workers differ by one at most. A join therefore moves only as many instances as the
  new worker lacks, a leave moves only what the leaver held;
* **by load** adds up what each instance was seen to need (`spdist.cluster.leader.loads`). What runs is moved only where
  that relieves the fuller of two workers by a fifth of what a worker carries on average, and only where its load is
  well known: what fluctuates less moves nothing, and what was moved stays for a while.

Nothing is moved onto a worker that is not ready, has no room, is cordoned, or on which the instance has failed: there
is nothing to be won that would be worth what runs. Nor is the load evened out while an instance that was interrupted
starts: each start takes the processor from the others. Only what has no place goes, if there is no better one, where it
failed before or where Spark has yet to come up; to a worker that is cordoned goes nothing at all.

Source: WSO2 SP 4.x ``ResourceAllocationAlgorithm`` (round robin is its default; the class can be configured), which
never rebalances and forgets healthy instances when capacity is short. Its two algorithms that look at load are one
here: ``MetricsBasedAllocationAlgorithm``, and ``CPUBasedAllocationAlgorithm``, which there prefers the busiest worker.
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
    "PlacementRequest",
    "PlacementWorker",
    "allocation_algorithm",
    "decide_placement",
    "decide_placement_by_load",
]

#: What a move must win, in hundredths of what a worker carries on average.
_GAIN = 20
#: The load of an instance where none is known.
_UNKNOWN = 1000


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
    interrupted : bool
        It has run, and nobody runs it now: it must start soon, or is starting.
    waits : bool
        Its worker has no memory to start it: it moves, even without `PlacementRequest.rebalance`, where there is room.
    load : int, optional
        What it takes, in thousandths of a core, or of a worker's memory if that is more; None where nobody knows.
    steady : bool
        It has run on its worker for long enough to be moved because of its load.
    """

    name: str
    group: str
    receiver: bool = False
    avoid: frozenset[str] = frozenset()
    interrupted: bool = False
    waits: bool = False
    load: int | None = None
    steady: bool = False


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
    warm : bool
        A first group starts there as fast as a later one. What runs is not moved elsewhere only to even out the load.
    room : int, optional
        How many more instances its memory allows; None where that is not known.
    cordoned : bool
        It is given nothing that it does not have.
    gives_up : int, optional
        How many of its instances go elsewhere now, as it is drained; None where it is not.
    """

    id: str
    receiver: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)
    ready: bool = True
    warm: bool = True
    room: int | None = None
    cordoned: bool = False
    gives_up: int | None = None


@dataclass(frozen=True, slots=True)
class PlacementRequest:
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


PlacementAlgorithm = Callable[[PlacementRequest], dict[str, str]]


def decide_placement(request: PlacementRequest) -> dict[str, str]:
    """Return the worker of every instance that can be placed (round robin; the default algorithm).

    Instances that are missing from the result must wait: there is no worker of their kind, none has room, all are
    cordoned, or (receiver groups) each already holds an instance of the group. The same request gives the same answer,
    and asking again with the answer as `current` moves nothing, except off workers that are drained.
    """
    return _decide(request, _Board)


def decide_placement_by_load(request: PlacementRequest) -> dict[str, str]:
    """Return the worker of every instance that can be placed, so that workers carry about the same load.

    Otherwise as `decide_placement`. An instance whose load is not known counts like the average of the others. Where
    nothing is new, no worker carries more afterwards than the one that carried most before.
    """
    return _decide(request, _LoadBoard)


def _decide(request: PlacementRequest, kind: type[_Board]) -> dict[str, str]:
    out: dict[str, str] = {}
    for receiver in (False, True):
        # By id: members are in the order of their first heartbeats, which must not decide
        workers = sorted((w for w in request.workers if w.receiver is receiver), key=lambda w: w.id)
        groups = [g for g in request.groups if g.receiver is receiver]
        if workers:
            out |= kind(workers, groups, request.current).fill(request.rebalance)
    return out


class _Board:
    """The instances of one kind (receiver or not) on the workers of that kind, while a placement is worked out."""

    def __init__(self, workers: list[PlacementWorker], groups: list[PlacedGroup], current: Mapping[str, str]) -> None:
        self._groups = {g.name: g for g in groups}
        self._ready = {w.id for w in workers if w.ready}
        self._warm = {w.id for w in workers if w.warm}
        self._cordoned = {w.id for w in workers if w.cordoned}
        self._gives_up = {w.id: w.gives_up for w in workers if w.gives_up is not None}
        self._room = {w.id: w.room for w in workers if w.room is not None}
        self._held: dict[str, list[PlacedGroup]] = {w.id: [] for w in workers}
        self._weights = dict.fromkeys(self._held, 0)
        self._siblings: Counter[tuple[str, str]] = Counter()
        self._kept: set[str] = set()
        for group in groups:
            worker = current.get(group.name)
            if worker in self._held and not self._clashes(worker, group):
                self._put(group, worker)
                self._kept.add(group.name)

    def fill(self, rebalance: bool) -> dict[str, str]:
        """Place what has no worker, empty those that are drained; then, with `rebalance`, even out the load.

        That waits for what was interrupted, where it has a worker: what none admits may wait for long.
        """
        for group in self._groups.values():
            if group.name not in self._kept:
                choice = self._choose(group, self._held)
                if choice is not None:
                    self._add(group, choice)
            elif group.waits:
                self._find_room(group)
        for worker, count in self._gives_up.items():
            self._drain(worker, count)
        recovering = any(group.interrupted for held in self._held.values() for group in held)
        while rebalance and not recovering and self._move_one():
            pass
        return {g.name: worker for worker, groups in self._held.items() for g in groups}

    def _find_room(self, group: PlacedGroup) -> bool:
        """Move an instance to the best of the other workers; False if none takes it."""
        source = next(worker for worker, held in self._held.items() if group in held)
        choice = self._choose(group, [w for w in self._held if w != source and self._may_move(group, w)])
        if choice is not None:
            self._take(group, source)
            self._add(group, choice)
        return choice is not None

    def _drain(self, worker: str, count: int) -> None:
        for group in list(self._held[worker]):
            if count > 0 and self._find_room(group):
                count -= 1

    def _weight(self, group: PlacedGroup) -> int:
        """Return what an instance adds to its worker."""
        return 1

    def _add(self, group: PlacedGroup, worker: str) -> None:
        """Put it where it was not before."""
        self._put(group, worker)
        if worker in self._room:
            # Only for what is new there: what the worker has is in the memory that it reports
            self._room[worker] -= 1

    def _put(self, group: PlacedGroup, worker: str) -> None:
        self._held[worker].append(group)
        self._weights[worker] += self._weight(group)
        self._siblings[worker, group.group] += 1

    def _take(self, group: PlacedGroup, worker: str) -> None:
        # No room is given back: the memory is free only when the instance has stopped
        self._held[worker].remove(group)
        self._weights[worker] -= self._weight(group)
        self._siblings[worker, group.group] -= 1

    def _clashes(self, worker: str, group: PlacedGroup) -> bool:
        return group.receiver and self._siblings[worker, group.group] > 0

    def _admits(self, worker: str, group: PlacedGroup) -> bool:
        # Where the room is not known there is always some
        open_to_it = worker not in self._cordoned and self._room.get(worker, 1) > 0
        return open_to_it and not self._clashes(worker, group)

    def _may_move(self, group: PlacedGroup, target: str) -> bool:
        return target in self._ready and target not in group.avoid and self._admits(target, group)

    def _may_even_out(self, group: PlacedGroup, target: str) -> bool:
        return self._may_move(group, target) and (target in self._warm or not self._hurries(group))

    def _hurries(self, group: PlacedGroup) -> bool:
        """Whether somebody notices how long it takes to start: what is new has not been missed."""
        return group.interrupted or group.name in self._kept

    def _choose(self, group: PlacedGroup, among: Collection[str]) -> str | None:
        hurries = self._hurries(group)

        def cost(worker: str) -> tuple[bool, bool, bool, int, int, str]:
            # Compared from left to right: where it would not start, siblings, load; the id makes the choice definite
            unfit = worker not in self._ready, worker in group.avoid, hurries and worker not in self._warm
            return *unfit, self._siblings[worker, group.group], self._weights[worker], worker

        return min((w for w in among if self._admits(w, group)), key=cost, default=None)

    def _sources(self) -> list[str]:
        """Return the workers that may give something away to even out the load: what is drained has its own pace."""
        return [worker for worker in self._held if worker not in self._gives_up]

    def _move_one(self) -> bool:
        """Make the one move that evens out the load at the least cost; False if there is none."""
        sources = self._sources()
        levels = sorted(set(self._weights.values()))
        # From the fullest to the emptiest first: of all moves that one evens out most
        for full in reversed(levels):
            # Two less at least: a move between neighbours would only swap them, and so for ever
            for empty in (level for level in levels if level <= full - 2):
                moves = [
                    (self._reluctance(group, source, target), source, target, group)
                    for source in sources
                    if self._weights[source] == full
                    for target in self._held
                    if self._weights[target] == empty
                    for group in self._held[source]
                    if self._may_even_out(group, target)
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


class _LoadBoard(_Board):
    """A board on which instances weigh what they take. Weights are whole numbers, so that sums do not depend on order.

    A move from a worker with weight s to one with weight t changes the larger of the two to max(s - x, t + x). What
    that wins is positive, so the sum of the squares of all weights falls with each move, and moving comes to an end.
    """

    def __init__(self, workers: list[PlacementWorker], groups: list[PlacedGroup], current: Mapping[str, str]) -> None:
        known = [group.load for group in groups if group.load is not None]
        self._average = max(1, sum(known) // len(known)) if known else _UNKNOWN
        # Last, since it puts what is placed on the board, and that is weighed by the average
        super().__init__(workers, groups, current)

    def _weight(self, group: PlacedGroup) -> int:
        return self._average if group.load is None else max(1, group.load)

    def _move_one(self) -> bool:
        """Make the move that wins most; False if none wins enough."""
        # Rounded up, as integers: hundredths of the mean weight of a worker
        least = -(-_GAIN * sum(self._weights.values()) // (100 * len(self._held)))
        moves = [
            (group.name in self._kept, -gain, self._reluctance(group, source, target), source, target, group)
            for source in self._sources()
            for target in self._held
            if (gap := self._weights[source] - self._weights[target]) >= 2 * least  # no move wins more than half of it
            for group in self._held[source]
            # By how much the larger of the two falls: s - max(s - x, t + x), with x the weight that moves
            if (gain := min(self._weight(group), gap - self._weight(group))) >= max(1, least)
            and (group.steady or group.name not in self._kept)
            and self._may_even_out(group, target)
        ]
        if not moves:
            return False
        *_, source, target, group = min(moves, key=lambda move: move[:5])
        self._take(group, source)
        self._add(group, target)
        return True


_ALGORITHMS: dict[str, PlacementAlgorithm] = {
    "roundRobin": decide_placement,
    "load": decide_placement_by_load,
}
_WSO2 = "org.wso2.carbon.sp.jobmanager.core.allocation."
_WSO2_CLASSES: dict[str, PlacementAlgorithm] = {
    "RoundRobinAllocationAlgorithm": decide_placement,
    "CPUBasedAllocationAlgorithm": decide_placement_by_load,
    "MetricsBasedAllocationAlgorithm": decide_placement_by_load,
}


def allocation_algorithm(name: str | None) -> PlacementAlgorithm:
    """Return the algorithm that ``deployment.config.allocationAlgorithm`` names.

    Parameters
    ----------
    name : str, optional
        ``roundRobin`` (also if None or empty), ``load``, WSO2's name of a class, with or without its package, or the
        path ``package.module.function`` of a `PlacementAlgorithm`.

    Raises
    ------
    ConfigError
        Nothing callable is found under that name.
    """
    if not name:
        return decide_placement
    known = _ALGORITHMS.get(name) or _WSO2_CLASSES.get(name.removeprefix(_WSO2))
    if known is not None:
        return known
    hint = f"use one of {', '.join(_ALGORITHMS)}, or the path package.module.function of a function"
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute) if module else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"deployment.config.allocationAlgorithm: {name} cannot be loaded: {error}", hint=hint
        ) from error
    if not callable(found):
        raise ConfigError(f"deployment.config.allocationAlgorithm: {name} is not an algorithm", hint=hint)
    algorithm: PlacementAlgorithm = found
    return algorithm
