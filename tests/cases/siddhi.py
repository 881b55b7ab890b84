"""Random cases, run here and by a Siddhi engine: ``python -m tests.cases.siddhi COUNT [SEED] --engine COMMAND``.

The engine is a command that is given the name of a file of cases (`tests.cases.draw`), and prints a result for each
line, in the form of `spdist.replay.cases.run_case`. What differs is printed, with its app and its steps.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spdist.engine.local.recorder import silenced
from spdist.replay import run_case
from tests.cases.draw import draw
from tests.cases.test_cases import assert_same, flat

__all__ = ["differences", "main"]


def differences(cases: Sequence[dict[str, Any]], engine: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the cases in which the engine does something else, and what that is.

    Raises
    ------
    subprocess.CalledProcessError
        The engine has failed.
    ValueError
        It has not given a result for each case.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cases.jsonl"
        file.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
        found = subprocess.run([*engine, str(file)], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    with silenced():
        for case, line in zip(cases, found.splitlines(), strict=True):
            told = _difference(json.loads(line), run_case(case))
            if told is not None:
                yield case, told


def _difference(engine: dict[str, Any], own: dict[str, Any]) -> str | None:
    if "error" in engine or "error" in own:
        refused = {name: one.get("error") for name, one in (("the engine", engine), ("spdist", own))}
        return None if all(refused.values()) else f"refused by one of both: {refused}"
    for answer in engine.get("on_demand", ()):
        answer["rows"] = answer.get("rows") or []  # no rows are null there
    for events in engine["streams"].values():
        for event in events:
            if not event.get("expired", True):
                del event["expired"]
    try:
        assert_same(flat(engine), flat(own))
    except AssertionError as error:
        return str(error)
    return None


def main(arguments: list[str] | None = None) -> int:
    """Compare; the exit status is 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="how many cases")
    parser.add_argument("seed", type=int, nargs="?", default=0, help="which ones")
    parser.add_argument("--engine", required=True, type=shlex.split, help="a command that runs a file of cases")
    options = parser.parse_args(arguments)
    wrong = 0
    for case, told in differences([draw(number, options.seed) for number in range(options.count)], options.engine):
        wrong += 1
        steps = "\n".join(f"  {json.dumps(step)}" for step in case["events"])
        print(f"{case['name']}\n{case['app']}\n{steps}\n{told}\n", flush=True)
    print(f"{wrong} of {options.count} cases differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
