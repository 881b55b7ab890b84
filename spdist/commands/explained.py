"""How commands end: errors as sentences on stderr, and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from spdist.errors import ClusterUnreachableError, SiddhiAppError, SpdistError

__all__ = ["explained", "read_text"]

_FAILED, _UNREACHABLE = 1, 3


@contextmanager
def explained() -> Iterator[None]:
    """Turn our errors into sentences on stderr and an exit code; others are defects and keep their traceback."""
    try:
        yield
    except SpdistError as error:
        console = Console(stderr=True)
        found = error.errors if isinstance(error, SiddhiAppError) else (error,)
        for one in found:
            console.print(f"error {one.code}: {one}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(_UNREACHABLE if isinstance(error, ClusterUnreachableError) else _FAILED) from error


def read_text(path: Path, hint: str = "APP") -> str:
    """Return the text of a file, or of standard input; where it cannot be read, say so as a wrong command line."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}", param_hint=hint) from error
