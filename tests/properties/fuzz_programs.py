"""``make fuzz-programs``: many random apps, each run by its operators and by its program, which must put out the same.

Some apps are compiled (``--compiled``), the programs of the others are executed by Python. An app that differs is told
with its seed: ``python -m tests.properties.fuzz_programs --first SEED --count 1 --kept /dev/null`` runs it again.
With ``NUMBA_BOUNDSCHECK=1``, and a folder of its own in ``SPDIST_PROGRAM_CACHE``, compiled programs look at each index.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from spdist.engine.local.recorder import silenced
from spdist.engine.programs.programmed import UNWRITTEN
from spdist.program.machine.compiler import Compiled, Compiling, interpreted
from spdist.program.parts import Program
from spdist.program.running import forgetting
from tests.program.aggregation_apps import drawn_aggregation_app, seen, timed_events
from tests.program.drawn_apps import drawn_app
from tests.program.drawn_joins import drawn_join_app
from tests.program.mixed_apps import drawn_mixed_app
from tests.program.table_apps import asked_of, drawn_table_app
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app
from tests.program.window_apps import asked_of as asked_of_windows
from tests.program.window_apps import disordered_events, drawn_processed_app, drawn_window_app
from tests.properties.fuzz import options_of, run
from tests.properties.mutated_apps import Defect

__all__ = ["KINDS", "main", "trial"]

#: What draws an app, and how it is watched.
KINDS: tuple[tuple[Callable[[Random], str], dict[str, Any]], ...] = (
    (drawn_app, {}),
    (drawn_join_app, {}),
    (drawn_table_app, {}),
    (drawn_mixed_app, {}),
    (drawn_aggregation_app, {"events_of": timed_events, "look": seen}),
    (drawn_window_app, {}),
    (drawn_processed_app, {"events_of": disordered_events}),
)


def trial(seed: int, compiled: int = 0) -> str:
    """Run the app of a seed by its operators and by its program; every `compiled`-th app is compiled, none where 0.

    Raises
    ------
    Defect
        They differ.
    """
    kind, number = seed % len(KINDS), seed // len(KINDS)
    drawn, watched = KINDS[kind]
    random = Random(seed)
    text = drawn(random)
    checked = checked_app(text)
    own = Watched(checked, interpreted).app.programmed
    if own is None or own.compile() is None or own.program is None:
        if own is not None and own.reason.startswith(UNWRITTEN):
            raise Defect(f"seed {seed} ({drawn.__name__})\n{text}\n{own.reason}")
        return "operators"
    is_compiled = bool(compiled) and number % compiled == 0
    # A primary key that is a number must not be null, nor what a window is ordered by.
    whole = seed % 3 == 0 or (drawn in (drawn_table_app, drawn_join_app) and bool(own.program.known))
    asks = (asked_of_windows if drawn is drawn_window_app else asked_of)(text)
    try:
        with ExitStack() as around:
            around.enter_context(silenced())
            around.enter_context(patch.object(forgetting, "_FEW", 4 if seed % 2 else 10_000))
            # Executed by Python, whole numbers are numpy's, which warn where they wrap as they should.
            around.enter_context(warnings.catch_warnings(action="ignore"))
            alike(checked, random, _compiled if is_compiled else interpreted, 12, whole, asks, **watched)
    except Exception as error:
        told = "".join(traceback.format_exception(error, limit=-3)) if not isinstance(error, AssertionError) else error
        raise Defect(f"seed {seed} ({drawn.__name__})\n{text}\n{told}") from error
    return "compiled" if is_compiled else "interpreted"


def _compiled(program: Program) -> Compiled:
    return Compiling(program).wait()


def main(arguments: list[str] | None = None) -> int:
    """Run what is left of the seeds; the exit status is 1 where anything went wrong."""
    options = options_of(__doc__, 10_000, "out/fuzz_programs.jsonl")
    options.add_argument("--compiled", type=int, default=20, help="compile one of so many apps; 0: none")
    given = options.parse_args(arguments)
    return run(given, partial(trial, compiled=given.compiled))


if __name__ == "__main__":
    sys.exit(main())
