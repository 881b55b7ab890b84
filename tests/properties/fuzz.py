"""``make fuzz``: many damaged apps, in several processes; goes on where it was left.

Each block of seeds that is done is a line of a file. An app that hangs or raises something foreign is told at once,
with its seed: ``python -m tests.properties.fuzz --first SEED --count 1`` does it again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import track

from tests.properties.mutated_apps import Defect, Hang, trial

__all__ = ["Trial", "main", "options_of", "run"]

Block = dict[str, Any]
#: From a seed to what became of its app.
Trial = Callable[[int], str]


def run_block(tried: Trial, block: tuple[int, int]) -> Block:
    """Try the apps of some seeds; return what became of them, and what went wrong."""
    first, count = block
    outcomes: Counter[str] = Counter()
    wrong = []
    began = time.time()
    for seed in range(first, first + count):
        try:
            outcomes[tried(seed)] += 1
        except (Defect, Hang) as error:
            outcomes[type(error).__name__.lower()] += 1
            wrong.append(str(error))
    return {"first": first, "count": count, "s": round(time.time() - began, 1), "outcomes": outcomes, "wrong": wrong}


def main(arguments: list[str] | None = None) -> int:
    """Try damaged apps."""
    options = options_of(__doc__, 100_000, "out/fuzz.jsonl")
    options.add_argument("--seconds", type=float, default=30.0, help="how long each step with an app may take")
    given = options.parse_args(arguments)
    return run(given, partial(trial, seconds=given.seconds))


def run(options: argparse.Namespace, tried: Trial) -> int:
    """Run what is left of the seeds; the exit status is 1 where anything went wrong."""
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    seeds = range(options.first, options.first + options.count, options.block)
    wanted = {first: min(options.block, options.first + options.count - first) for first in seeds}
    done = [one for one in _known(options.kept) if wanted.get(one["first"]) == one["count"]]
    left = [(first, count) for first, count in wanted.items() if first not in {one["first"] for one in done}]
    print(f"seeds {options.first} to {options.first + options.count - 1}; {len(done)} of {len(wanted)} blocks are done")
    with options.kept.open("a", encoding="utf-8") as kept:
        results = _results(options.processes, left, tried)
        for one in track(results, "apps", total=len(left), disable=not sys.stderr.isatty()):
            kept.write(json.dumps(one) + "\n")
            kept.flush()
            done.append(one)
            for wrong in one["wrong"]:
                print(wrong, end="\n\n", flush=True)
    outcomes: Counter[str] = Counter()
    for one in done:
        outcomes.update(one["outcomes"])
    told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    print(f"{outcomes.total()} of {options.count} apps in {sum(one['s'] for one in done):.0f} s of work: {told}")
    return 1 if outcomes["defect"] or outcomes["hang"] else 0


def options_of(description: str | None, count: int, kept: str) -> argparse.ArgumentParser:
    """Return the options of a long run over `count` seeds, whose blocks are kept in a file."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=count, help="how many seeds")
    parser.add_argument("--block", type=int, default=200, help="seeds of a line in the file")
    parser.add_argument("--processes", type=int, default=2, help="0: in this process")
    parser.add_argument("--kept", type=Path, default=Path(kept), help="what was done; delete it to begin anew")
    return parser


def _known(kept: Path) -> list[Block]:
    if not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def _results(processes: int, blocks: list[tuple[int, int]], tried: Trial) -> Iterator[Block]:
    work = partial(run_block, tried)
    if processes == 0:
        yield from map(work, blocks)
        return
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=20) as pool:
        done: Iterable[Block] = pool.imap_unordered(work, blocks)
        yield from done


if __name__ == "__main__":
    sys.exit(main())
