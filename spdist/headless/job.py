"""One run of a notebook as a process: ``python -m spdist.headless.job``, which is papermill with the engine ``spdist``.

What to run comes as JSON from standard input (`Order`), what became of it goes as JSON to standard output (`Report`),
and whatever else is said, by the notebook too, to standard error. The exit code is 0 where the notebook ended without
an error. SIGTERM is passed on to the kernel, as by the engine; a parent that is gone is a SIGTERM.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spdist.errors import NotebookError, SpdistError
from spdist.headless.exchange import exit_value_of
from spdist.headless.lean import load_less
from spdist.headless.parameters import NotebookParameter, parameters_of

__all__ = ["Failure", "Order", "Report", "notebook_parameters"]

_POLL_S = 0.5
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Order:
    """What to run: the notebook, where it is written when executed (absolute paths), and its parameters."""

    notebook: str
    output: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed.

    Parameters
    ----------
    name : str
        The kind of the error.
    message : str
        Its text, at most 4000 characters.
    cell : int, optional
        The number of the cell, as in ``In [3]``; None where it was none.
    source : str
        The first line of the cell.
    """

    name: str
    message: str
    cell: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a run: why it failed, if it did, and the value that the notebook has given back."""

    failure: Failure | None = None
    value: Any = None

    @classmethod
    def read(cls, text: str) -> Report | None:
        """Return the report in what a process has written; None where it has written none."""
        try:
            given = json.loads(text)
            failure = given["failure"]
            return cls(None if failure is None else Failure(**failure), given["value"])
        except (ValueError, TypeError, KeyError):
            return None


def notebook_parameters(path: Path) -> dict[str, NotebookParameter]:
    """Return the parameters of the notebook in a file.

    Raises
    ------
    NotebookError
        It cannot be read, or is no notebook.
    """
    try:
        return parameters_of(_cells(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no notebook"
        raise NotebookError(f"cannot read the notebook {path}: {reason}") from error


def run(order: Order) -> Report:
    """Run a notebook; see `spdist.headless.engine` for signals."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    try:
        done = papermill.execute_notebook(
            order.notebook,
            order.output,
            parameters=order.parameters,
            engine_name="spdist",
            progress_bar=False,
            log_output=True,
            cwd=os.path.dirname(order.notebook),  # as in JupyterLab
        )
        return Report(value=exit_value_of(done.cells))
    except PapermillExecutionError as error:
        logging.error("%s", error)
        source = next(iter(error.source.strip().splitlines()), "")
        failure = Failure(error.ename, error.evalue[:_LONGEST], error.exec_count, source[:200])
    except SpdistError as error:
        logging.error("%s", error)
        failure = Failure(type(error).__name__, str(error)[:_LONGEST])
    except Exception as error:  # whatever kernels and files can do
        logging.exception("the notebook could not be run")
        failure = Failure(type(error).__name__, str(error)[:_LONGEST])
    return Report(failure, _saved_value(order.output))


def _saved_value(output: str) -> Any:
    """Return what the notebook had given back until it failed, if it was saved."""
    try:
        return exit_value_of(_cells(Path(output)))
    except (OSError, ValueError):
        return None


def _cells(path: Path) -> list[Any]:
    """Return the cells of the notebook in a file; raises OSError, or ValueError where it is none."""
    import nbformat

    try:
        return list(nbformat.read(path, as_version=4).cells)  # type: ignore[no-untyped-call]
    except (TypeError, KeyError, AttributeError, nbformat.ValidationError) as error:  # of some other JSON
        raise ValueError("no notebook") from error


def _end_with_parent(parent: int) -> None:
    # Not what `getppid` said at the start: by then the parent may have been gone.
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """Do as standard input says, and return the exit code."""
    given = json.loads(sys.stdin.read())
    threading.Thread(target=_end_with_parent, args=(given.pop("parent"),), daemon=True).start()
    answer = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not get in between
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    load_less()
    report = run(Order(**given))
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(asdict(report), file)
    return 0 if report.failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
