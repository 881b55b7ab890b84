"""``make chaos-sim``: very many schedules of the election and of the whole cluster, in virtual time, on all cores.

Beside the real protocol, every mutant (a small deliberate defect) runs until it is caught, which must be within a
thousand schedules. A schedule follows from its seed alone: ``python -m tests.properties.chaos_sim --only cluster
--no-mutants --first SEED --clusters 1 --processes 0`` does one again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.progress import track

from tests.properties import test_election_schedules as election
from tests.properties import test_manager_state_machine as cluster
from tests.properties.cluster_simulation import random_schedule, troubled_workers
from tests.properties.test_manager_state_machine import make_world

__all__ = ["main"]

#: Schedules of one piece of work: some seconds.
_BLOCKS = {"election": 1_000, "cluster": 20}
#: Every mutant must be caught within so many schedules.
_CAUGHT_WITHIN = 1_000
_ELECTION_MUTANTS = ("AnySwap", "LeaseFromAnswer", "LeaseWithoutMargin", "LeaseWithoutEnd")
_CLUSTER_MUTANTS = tuple(mutant.__name__ for mutant in (*cluster.MUTANTS, cluster.TakesSilenceForDeath))


@dataclass(frozen=True, slots=True)
class Work:
    """Schedules of the election or of the cluster: the real one, or one of its mutants until that is caught."""

    kind: str
    first: int
    count: int
    mutant: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a piece of work: seeds that violated something, with what; and how long it took."""

    work: Work
    wrong: tuple[tuple[int, str], ...]
    seconds: float


def schedule(work: Work) -> Callable[[int], None]:
    """Return what runs the schedule of a seed."""
    if work.kind == "election":
        elections: type[election.Elections] = getattr(election, work.mutant or "Elections")
        return lambda seed: election.random_schedule(elections(), seed)
    world: type[cluster.World] = getattr(cluster, work.mutant or "World")
    if work.mutant == cluster.TakesSilenceForDeath.__name__:
        return lambda seed: troubled_workers(make_world(world, seed))
    return lambda seed: random_schedule(make_world(world, seed))


def run(work: Work) -> Outcome:
    """Run schedules; of a mutant only until one is wrong."""
    began, one, wrong = time.monotonic(), schedule(work), []
    for seed in range(work.first, work.first + work.count):
        try:
            one(seed)
        except AssertionError as violation:
            wrong.append((seed, f"{type(violation).__name__}: {violation}"))
            if work.mutant:
                break
    return Outcome(work, tuple(wrong), time.monotonic() - began)


def plan(options: argparse.Namespace) -> list[Work]:
    """Return all that is to be done, the mutants first: they take longest."""
    out = []
    wanted = {"election": options.elections, "cluster": options.clusters}
    mutants = {"election": _ELECTION_MUTANTS, "cluster": _CLUSTER_MUTANTS}
    for kind in [options.only] if options.only else wanted:
        if options.mutants:
            out += [Work(kind, 0, _CAUGHT_WITHIN, mutant) for mutant in mutants[kind]]
        end, block = options.first + wanted[kind], _BLOCKS[kind]
        out += [Work(kind, first, min(block, end - first)) for first in range(options.first, end, block)]
    return sorted(out, key=lambda work: not work.mutant)


def main(arguments: list[str] | None = None) -> int:
    """Run everything; the exit status is 1 where the real protocol was violated or a mutant was not caught."""
    options = _options(arguments)
    everything, began = plan(options), time.monotonic()
    done, seconds, failed = Counter[str](), Counter[str](), False
    results = _results(options.processes, everything)
    for outcome in track(results, "schedules", total=len(everything), disable=not sys.stderr.isatty()):
        work = outcome.work
        if not work.mutant:
            done[work.kind] += work.count
            seconds[work.kind] += outcome.seconds
            for seed, what in outcome.wrong:
                print(f"{work.kind}, seed {seed}: {what}", flush=True)
            failed = failed or bool(outcome.wrong)
        elif outcome.wrong:
            print(f"{work.kind}: {work.mutant} is caught by schedule {outcome.wrong[0][0] + 1}", flush=True)
        else:
            print(f"{work.kind}: {work.mutant} is NOT caught by {work.count} schedules", flush=True)
            failed = True
    for kind, count in done.items():
        print(f"{count} schedules of the {kind}, {count / max(seconds[kind], 0.001):.1f} a second on one core")
    print(f"seeds from {options.first}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elections", type=int, default=100_000, help="how many schedules of the election")
    parser.add_argument("--clusters", type=int, default=10_000, help="how many schedules of the whole cluster")
    parser.add_argument("--first", type=int, default=0, help="the first seed of the real protocol")
    parser.add_argument("--only", choices=tuple(_BLOCKS), default="", help="only these")
    parser.add_argument("--no-mutants", dest="mutants", action="store_false", help="only the real protocol")
    parser.add_argument(
        "--processes", type=int, default=multiprocessing.cpu_count(), help="0: everything in this process"
    )
    return parser.parse_args(arguments)


def _results(processes: int, everything: list[Work]) -> Iterator[Outcome]:
    if processes == 0:
        yield from map(run, everything)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(run, everything)


if __name__ == "__main__":
    sys.exit(main())
