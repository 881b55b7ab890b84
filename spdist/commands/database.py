"""``spdist database``: the tables of the coordination database, for who runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from spdist.commands.explained import explained

__all__ = ["database_app"]

#: How long a database may take to answer, ms.
_PATIENCE_MS = 10_000

database_app = typer.Typer(no_args_is_help=True, help="The coordination database of the managers.")


@database_app.callback()
def _several() -> None:
    """Say that commands have names here, even while there is one."""


@database_app.command()
def upgrade(
    conf: Annotated[Path, typer.Option("--conf", help="A manager's deployment.yaml, or its directory.")],
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL that is missing, and change nothing.")] = False,
    username: Annotated[
        str,
        typer.Option("--username", help="An account that may change tables; its password is asked for, or read."),
    ] = "",
) -> None:
    """Make the tables those that this spdist works with, as a manager does at its start where its account may.

    Running managers need not be stopped. To an older spdist there is no way back: keep a copy of the database.
    """
    from spdist.cluster.coordination.database import Transactions
    from spdist.config import load_config

    with explained():
        config = load_config(conf, role="manager")
        source = config.datasources[config.cluster.datasource]
        password = _password(username) if username else source.password.reveal() if source.password else ""
        database = Transactions(source.url, username or source.username, password, _PATIENCE_MS)
        if sql:
            typer.echo(database.upgrade_statements(), nl=False)
            return
        before, now = database.upgrade()
        done = f"the tables are of version {now} now, were {before or 'of no version'}"
        typer.echo(done if before != now else f"the tables are of version {now}: nothing to do")


def _password(username: str) -> str:
    """Ask for a password, or read it where nobody sits in front."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"password of {username}", hide_input=True, err=True))
    return sys.stdin.readline().rstrip("\n")
