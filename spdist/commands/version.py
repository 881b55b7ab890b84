"""The option ``--version`` of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

import spdist

__all__ = ["version"]


def _print(asked: bool) -> None:
    if asked:
        typer.echo(f"spdist {spdist.__version__}")
        raise typer.Exit


def version(
    _: Annotated[bool, typer.Option("--version", callback=_print, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Take the options that stand in front of a command."""
