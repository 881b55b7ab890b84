"""Files of written cases: many cases, in one process or several; none of them can stop the others."""

from __future__ import annotations

import gc
import json
import multiprocessing
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdist.engine.island.time_limit import TookTooLong, time_limit
from spdist.engine.local.recorder import error_of, silenced
from spdist.errors import MappingError, SiddhiAppError, error_codes
from spdist.replay.cases import run_case

__all__ = ["CaseLine", "CaseResult", "read_case", "read_cases", "replay", "replay_line", "result_of"]

#: Cases that one call of another process works off; where a process dies, these are replayed in some ten others.
_PIECE = 50
_SMALLEST = {"app": "define stream S (v int); from S insert into Out;"}


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One line of a file of cases.

    Parameters
    ----------
    name : str
        The case's name, or ``FILE:NUMBER`` where the line gives none.
    text : str
        The line.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case.

    Parameters
    ----------
    text : str
        ``name`` and what `spdist.replay.cases.run_case` returns, as JSON.
    failed : bool
        Whether it is an error: the app was refused, or the case could not be run.
    unusable : bool
        Whether there is no result for another reason than the app: the line is no case, or took too long.
    """

    text: str
    failed: bool
    unusable: bool = False


def read_cases(path: Path) -> Iterator[CaseLine]:
    """Yield the lines of a file, empty ones left out.

    Raises
    ------
    OSError, UnicodeDecodeError
        The file cannot be read.
    """
    # Not `splitlines`: it also cuts at U+2028 and others, which JSON may hold as they are.
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if text.strip():
            yield CaseLine(f"{path.name}:{number}", text)


def read_case(line: CaseLine) -> tuple[str, dict[str, Any]]:
    """Return the name and the case that stand on a line.

    Raises
    ------
    MappingError
        It is no case.
    ValueError
        It is no JSON.
    """
    case = json.loads(line.text)
    if not isinstance(case, dict) or not isinstance(case.get("app"), str):
        raise MappingError("a case is an object with the text of an app: {'app': 'define stream …', 'events': […]}")
    return str(case.get("name", line.name)), case


def replay_line(line: CaseLine, limit_s: float = 60.0) -> dict[str, Any]:
    """Replay the case on a line; whatever goes wrong is its result.

    Parameters
    ----------
    line : CaseLine
        The case as JSON.
    limit_s : float
        Seconds after which it is given up (in a process's main thread; elsewhere there is no limit).

    Returns
    -------
    dict
        ``name``, and what `spdist.replay.cases.run_case` returns.
    """
    name = line.name
    try:
        name, case = read_case(line)
        with time_limit(limit_s):
            return {"name": name, **run_case(case)}
    except TookTooLong:
        return {"name": name, "error": error_of(TimeoutError(f"the case took longer than {limit_s:g} s"))}
    except Exception as error:
        return {"name": name, "error": error_of(error)}


def replay(lines: Sequence[CaseLine], jobs: int = 1) -> Iterator[CaseResult]:
    """Replay cases and yield their results, in the order of the lines.

    Parameters
    ----------
    lines : sequence of CaseLine
        The cases.
    jobs : int
        Processes; 1 works in this one.
    """
    if jobs <= 1 or len(lines) <= 1:
        with silenced():
            yield from map(_replayed, lines)
        return
    pieces = [lines[at : at + _PIECE] for at in range(0, len(lines), _PIECE)]
    with _pool(jobs) as pool:
        running: list[Future[list[CaseResult]]] = []
        # All are handed in first: processes work while results are waited for.
        for piece in pieces:
            try:
                running.append(pool.submit(_replay_piece, piece))
            except BrokenProcessPool:
                break
        for number, piece in enumerate(pieces):
            try:
                results = running[number].result()
            except (BrokenProcessPool, IndexError):
                # Where the pool broke before it took the piece there is no future (IndexError).
                results = _apart(piece)
            yield from results


def _pool(jobs: int) -> ProcessPoolExecutor:
    # A fork has everything loaded already, but that of a process with threads may hang.
    forks = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    if forks:
        run_case(_SMALLEST)  # loads the grammar and all functions
        gc.freeze()  # nothing of that need be looked at again, here or in the processes that share it
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork" if forks else "spawn"))


def _replayed(line: CaseLine) -> CaseResult:
    return result_of(replay_line(line))


def result_of(result: dict[str, Any]) -> CaseResult:
    """Return a result as its line."""
    error = result.get("error")
    kinds = {kind.__name__: kind for kind in error_codes().values()}
    # An app that is refused is a result like any other.
    unusable = error is not None and not issubclass(kinds.get(error["type"], Exception), SiddhiAppError)
    return CaseResult(json.dumps(result, ensure_ascii=False), error is not None, unusable)


def _replay_piece(lines: Sequence[CaseLine]) -> list[CaseResult]:
    with silenced():
        return [_replayed(line) for line in lines]


def _apart(lines: Sequence[CaseLine]) -> list[CaseResult]:
    """Replay cases in a process of their own, as one may have ended the one they were in; each half in another then."""
    with _pool(1) as pool:
        try:
            return pool.submit(_replay_piece, lines).result()
        except BrokenProcessPool as error:
            if len(lines) == 1:
                return [result_of({"name": lines[0].name, "error": error_of(error)})]
    half = len(lines) // 2
    return [*_apart(lines[:half]), *_apart(lines[half:])]
