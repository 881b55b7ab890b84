"""Rounds of faults on an island: what the command line asks for, in which order, and where they run."""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spdist.engine.spark.jars import kafka_jars
from spdist.services.kafka import BROKER_JARS
from spdist.services.maven import jars
from tests.faults.island import Island, enter_island

__all__ = ["island_home", "order_of", "rounds_parser", "spread"]


def rounds_parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return the options that all rounds have, with how many there are where nobody says it."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="this fault; may be given again")
    return parser


def order_of(faults: Sequence[str], rounds: int, rng: random.Random) -> list[str]:
    """Return the fault of each round: each kind once, in any order, then each again."""
    repeats = -(-rounds // len(faults))
    return [name for _ in range(repeats) for name in rng.sample(faults, len(faults))][:rounds]


@contextmanager
def island_home(name: str) -> Iterator[tuple[Path, Island]]:
    """Go on in a network of this program's own, with a directory that is gone in the end."""
    kafka_jars()  # where there is a network
    jars("kafka-broker", BROKER_JARS)
    enter_island()
    made = tempfile.TemporaryDirectory(prefix=f"spdist-{name}-", ignore_cleanup_errors=True)
    with made as directory, Island() as island:
        home = Path(directory)
        home.chmod(0o755)  # PostgreSQL runs as another user
        yield home, island


def spread(values: Sequence[float | None]) -> str:
    """Return the median of what is known, and the longest."""
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.2f} {max(known):6.2f}" if known else "-"
