"""The commands about the notebooks and settings that come with spdist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdist.commands.explained import explained

__all__ = ["notebooks_app"]

notebooks_app = typer.Typer(help="The notebooks and settings that come with spdist.", no_args_is_help=True)


@notebooks_app.command()
def copy(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where the folders notebooks and conf go.")
    ] = Path(),
    replace: Annotated[bool, typer.Option("--replace", help="Replace files that are there already.")] = False,
) -> None:
    """Copy the notebooks and their settings to where they can be changed and run."""
    from spdist.workspace import copy_workspace

    with explained():
        try:
            found = list(copy_workspace(directory.expanduser(), replace=replace))
        except OSError as error:
            raise typer.BadParameter(f"cannot write {error.filename}: {error.strerror}", param_hint="DIR") from error
    for path, copied in found:
        typer.echo(f"{path}{'' if copied else ': is there already, and stays'}")
    if any(path.parts[-2] == "notebooks" for path, _ in found):
        typer.echo(f"Open them: python -m jupyterlab {directory / 'notebooks'}")
