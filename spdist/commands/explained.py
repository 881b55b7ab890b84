"""How a command says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from spdist.errors import SiddhiAppError, SpdistError

__all__ = ["explained"]


@contextmanager
def explained() -> Iterator[None]:
    """Turn our errors into sentences on stderr and exit code 1; others are defects and keep their traceback."""
    try:
        yield
    except SpdistError as error:
        from rich.console import Console

        console = Console(stderr=True)
        found = error.errors if isinstance(error, SiddhiAppError) else (error,)
        for one in found:
            console.print(f"error {one.code}: {one}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
