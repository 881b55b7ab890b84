"""``make chaos-sim``: very many schedules of the election, the whole cluster, and servers of type ha, in virtual time.

Beside the real protocol, every mutant (a small deliberate defect) runs until it is caught, which must be within a
thousand schedules. What was tried is counted: terms, groups that were placed and moved, faults of each kind. A
schedule follows from its seed alone: ``python -m tests.properties.chaos_sim --only cluster --no-mutants --first SEED
--clusters 1 --processes 0`` does one again.
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

from tests.properties import server_simulation as servers
from tests.properties import test_election_schedules as election
from tests.properties.cluster_mutants import MUTANTS
from tests.properties.cluster_schedules import run_schedule
from tests.properties.cluster_simulation import World

__all__ = ["main"]

#: Schedules of one piece of work: a second or so.
_BLOCKS = {"election": 2_000, "cluster": 25, "servers": 100}
#: Every mutant must be caught within so many schedules.
_CAUGHT_WITHIN = 1_000
_ELECTIONS: dict[str, type[election.Elections]] = {"": election.Elections, **{m.__name__: m for m in election.MUTANTS}}
_CLUSTERS: dict[str, type[World]] = {"": World, **{m.__name__: m for m in MUTANTS}}
_SERVERS: dict[str, type[servers.Servers]] = {"": servers.Servers, **{m.__name__: m for m in servers.MUTANTS}}
#: Where nobody watches a bar, a line says how far it is so often.
_LINE_EVERY_S = 15


@dataclass(frozen=True, slots=True)
class Work:
    """Schedules of the election, the cluster or servers: the real one, or one of its mutants until that is caught."""

    kind: str
    first: int
    count: int
    mutant: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a piece of work: seeds that violated something, with what; how long it took, what was tried."""

    work: Work
    wrong: tuple[tuple[int, str], ...]
    seconds: float
    tried: Counter[str]


def schedule(work: Work) -> Callable[[int], Counter[str]]:
    """Return what runs the schedule of a seed, and counts what was tried."""

    def one_election(seed: int) -> Counter[str]:
        elections = _ELECTIONS[work.mutant]()
        election.random_schedule(elections, seed)
        return Counter(terms=len(elections.given))

    def one_cluster(seed: int) -> Counter[str]:
        world = run_schedule(_CLUSTERS[work.mutant], seed)
        return world.tried + Counter(terms=len(world.acted))

    def some_servers(seed: int) -> Counter[str]:
        world = servers.run_schedule(_SERVERS[work.mutant], seed)
        return world.tried + Counter(terms=len(world.acted))

    return {"election": one_election, "cluster": one_cluster, "servers": some_servers}[work.kind]


def run(work: Work) -> Outcome:
    """Run schedules; of a mutant only until one is wrong."""
    began, one, wrong, tried = time.process_time(), schedule(work), [], Counter[str]()
    for seed in range(work.first, work.first + work.count):
        try:
            tried += one(seed)
        except AssertionError as violation:
            wrong.append((seed, f"{type(violation).__name__}: {violation}"))
            if work.mutant:
                break
    return Outcome(work, tuple(wrong), time.process_time() - began, tried)


def plan(options: argparse.Namespace) -> list[Work]:
    """Return all that is to be done, the mutants first: they take longest."""
    out = []
    wanted = {"election": options.elections, "cluster": options.clusters, "servers": options.servers}
    mutants = {"election": _ELECTIONS, "cluster": _CLUSTERS, "servers": _SERVERS}
    for kind in [options.only] if options.only else wanted:
        if options.mutants:
            out += [Work(kind, 0, _CAUGHT_WITHIN, mutant) for mutant in mutants[kind] if mutant]
        end, block = options.first + wanted[kind], _BLOCKS[kind]
        out += [Work(kind, first, min(block, end - first)) for first in range(options.first, end, block)]
    return sorted(out, key=lambda work: not work.mutant)


def main(arguments: list[str] | None = None) -> int:
    """Run everything; the exit status is 1 where the real protocol was violated or a mutant was not caught."""
    options = _options(arguments)
    everything, began = plan(options), time.monotonic()
    done, seconds, failed = Counter[str](), Counter[str](), False
    tried = {kind: Counter[str]() for kind in _BLOCKS}
    for outcome in _watched(_results(options.processes, everything), everything):
        work = outcome.work
        failed = failed or bool(outcome.wrong) is not bool(work.mutant)
        if not work.mutant:
            done[work.kind] += work.count
            seconds[work.kind] += outcome.seconds
            tried[work.kind] += outcome.tried
            for seed, what in outcome.wrong:
                print(f"{work.kind}, seed {seed}: {what}", flush=True)
        elif outcome.wrong:
            seed, what = outcome.wrong[0]
            print(f"{work.kind}: {work.mutant} is caught by schedule {seed + 1}: {what[:100]}", flush=True)
        else:
            print(f"{work.kind}: {work.mutant} is NOT caught by {work.count} schedules", flush=True)
    for kind, count in done.items():
        print(f"{count} schedules of the {kind}, {count / max(seconds[kind], 0.001):.1f} a second on one core")
        print("  tried: " + ", ".join(f"{name} {times}" for name, times in sorted(tried[kind].items())))
    print(f"seeds from {options.first}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _watched(results: Iterator[Outcome], everything: list[Work]) -> Iterator[Outcome]:
    """Yield the results, with a bar on a terminal, and elsewhere with a line now and then."""
    if sys.stderr.isatty():
        yield from track(results, "schedules", total=len(everything))
        return
    total, done, began = Counter[str](), Counter[str](), time.monotonic()
    for work in everything:
        total[work.kind] += 0 if work.mutant else work.count
    told = began
    for outcome in results:
        done[outcome.work.kind] += 0 if outcome.work.mutant else outcome.work.count
        yield outcome
        if time.monotonic() - told > _LINE_EVERY_S:
            told = time.monotonic()
            text = ", ".join(f"{done[kind]:,} of {total[kind]:,} schedules of the {kind}" for kind in total)
            print(f"{text} after {told - began:.0f} s", file=sys.stderr, flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elections", type=int, default=100_000, help="how many schedules of the election")
    parser.add_argument("--clusters", type=int, default=10_000, help="how many schedules of the whole cluster")
    parser.add_argument("--servers", type=int, default=100_000, help="how many schedules of servers of type ha")
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
