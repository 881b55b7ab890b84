"""How commands reach a cluster: the options that all of them share, and the client made of them."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from spdist.commands.explained import explained, read_text
from spdist.commands.options import with_options
from spdist.errors import ClusterError, SpdistError, TransportError

if TYPE_CHECKING:
    from spdist.cluster.clients.client import ClusterClient

__all__ = [
    "AppName",
    "AsJson",
    "TrustFile",
    "Url",
    "Watch",
    "as_text",
    "connected",
    "default_url",
    "output",
    "print_json",
    "reaching",
    "show",
    "shown_time",
    "table",
    "waiting",
]

Url = Annotated[
    str,
    typer.Option("--url", envvar="SPDIST_URL", help="Managers, with commas between them; one that answers is enough."),
]
User = Annotated[str, typer.Option("--user", envvar="SPDIST_USER", help="A user of auth.configs.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="Holds the password; else SPDIST_PASSWORD does, or you are asked."),
]
TrustFile = Annotated[
    Path | None, typer.Option("--trust-file", help="PEM file with the authorities to trust for https.")
]
CertFile = Annotated[
    Path | None, typer.Option("--cert-file", help="PEM file with your certificate, where nodes ask for one.")
]
KeyFile = Annotated[Path | None, typer.Option("--key-file", help="Its key, where that is not in the same file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Watch = Annotated[bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")]

default_url = "http://127.0.0.1:9543"
_WATCH_S = 2.0
#: Characters of a line of a table that goes to a file or a pipe.
_WIDE = 10_000
#: Whoever presses the tabulator key does not wait longer for names.
_COMPLETION_S = 1.0
_STYLES = {
    "RUNNING": "green",
    "READY": "green",
    "leads": "green",
    "DEPLOYING": "yellow",
    "WAITING": "yellow",
    "STARTING": "yellow",
    "UNREACHABLE": "red",
    "LOST": "red",
    "FAILED": "bold red",
    "ERROR": "red",
    "WARNING": "yellow",
    "running": "green",
    "succeeded": "green",
    "skipped": "yellow",
    "stopped": "yellow",
    "missed": "red",
    "timeout": "bold red",
    "failed": "bold red",
    "interrupted": "bold red",
}


def complete_apps(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of deployed apps that begin so; none where that cannot be found out."""
    given = ctx.params
    url, password = given.get("url") or os.environ.get("SPDIST_URL"), os.environ.get("SPDIST_PASSWORD")
    # Completion cannot ask for one.
    if not password:
        return []
    try:
        from spdist.cluster.clients.client import ClusterClient

        user = given.get("user") or os.environ.get("SPDIST_USER") or "admin"
        managers = (url or default_url).split(",")
        with ClusterClient(
            managers, user, password, trust_file=given.get("trust_file"), patience_s=_COMPLETION_S
        ) as client:
            return [name for name in client.apps() if name.startswith(incomplete)]
    except (SpdistError, OSError):
        return []


AppName = Annotated[
    str, typer.Argument(metavar="APP", help="The app's name, as in @app:name.", autocompletion=complete_apps)
]


_SHARED: dict[str, tuple[Any, Any]] = {
    "url": (Url, default_url),
    "user": (User, "admin"),
    "password_file": (PasswordFile, None),
    "trust_file": (TrustFile, None),
    "cert_file": (CertFile, None),
    "key_file": (KeyFile, None),
}


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of the connection; `command` gets the client as its first argument."""

    def call(own: dict[str, Any], shared: dict[str, Any]) -> None:
        with explained(), _waits_told(), _client(**shared) as client:
            command(client, **own)

    return with_options(command, _SHARED, call, hidden=("client",))


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options that say where managers are, but not the user; it gets an `Upstream` first."""
    names = ("url", "trust_file", "cert_file", "key_file")

    def call(own: dict[str, Any], shared: dict[str, Any]) -> None:
        from spdist.dashboard.upstream import Upstream

        with explained():
            upstream = Upstream(_managers(shared.pop("url")), **shared)
            with _rightly_given():
                # Made for nothing but its errors: it reads addresses and files.
                upstream.client("", "").close()
            command(upstream, **own)

    return with_options(command, {name: _SHARED[name] for name in names}, call, hidden=("upstream",))


def _client(
    url: str,
    user: str,
    password_file: Path | None,
    trust_file: Path | None,
    cert_file: Path | None,
    key_file: Path | None,
) -> ClusterClient:
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.security.stored_login import Credential, credential
    from spdist.transports.sockets.tls import Certificate

    managers = _managers(url)
    with _rightly_given():  # before a password is asked for
        certificate = Certificate.named(cert_file, key_file)
    # Line ends only: blanks may be part of a password.
    own = read_text(password_file, "--password-file").strip("\r\n") if password_file is not None else None
    shown = credential(managers, user, own) or Credential(user, _password(user))
    with _rightly_given():
        return ClusterClient(
            managers,
            shown.username,
            shown.password,
            trust_file=trust_file,
            certificate=certificate,
            bearer=shown.bearer,
        )


def _managers(url: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in url.split(","))


@contextmanager
def _rightly_given() -> Iterator[None]:
    """Tell what is wrong with addresses and files as a wrong command line."""
    try:
        yield
    except TransportError as error:  # of a file for TLS, which it names
        raise typer.BadParameter(str(error), param_hint="--trust-file, --cert-file, --key-file") from error
    except ClusterError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from error


class _Told(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(record.getMessage(), err=True)


@contextmanager
def _waits_told() -> Iterator[None]:
    """Tell on stderr why a command takes longer: the client tries again, and logs that."""
    from spdist.cluster.clients.calling import log

    handler, level = _Told(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal what is waited for."""
    with Console(stderr=True).status(what, spinner="line"):
        yield


def _password(user: str) -> str:
    """Ask for the password; it is never an argument, which other users of the machine could see."""
    if not sys.stdin.isatty():
        told = f"there is no password for {user}: set SPDIST_PASSWORD, or run `spdist login`"
        raise typer.BadParameter(told, param_hint="--password-file")
    return str(typer.prompt(f"Password of {user}", hide_input=True, err=True))


# --------------------------------------------------------------------------------------------------------------- output
def as_text(value: Any, indent: int | None = None) -> str:
    """Return a JSON value as text that standard output has characters for."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(value, indent=indent, ensure_ascii=plain)


def print_json(value: Any) -> None:
    """Print a JSON value."""
    typer.echo(as_text(value, indent=2))


def output() -> Console:
    """Return where tables are printed; lines are not broken where nobody sees them but another program."""
    console = Console()
    # COLUMNS is what somebody wants, of pipes as well.
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def shown_time(ms: int) -> str:
    """Return a time, ms since 1970, as text in UTC, as servers are in many zones; a number where it is no date."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table; states have their colours, and what others wrote is shown as it is."""
    from rich.text import Text

    made = Table(title=Text(title), title_justify="left")
    for name in head:
        made.add_column(name, overflow="fold")
    for row in rows:
        # Made to `Text` below, as rich reads markup in strings.
        cells = ["" if value is None else str(value) for value in row]
        made.add_row(*(Text(cell, style=_STYLES.get(cell.partition(":")[0].partition(",")[0], "")) for cell in cells))
    return made


def show(look: Callable[[], tuple[Any, Sequence[Table]]], *, as_json: bool, watch: bool = False) -> None:
    """Print what `look` returns, as JSON or as tables; with `watch` again and again, until Ctrl-C."""
    console = output()
    while True:
        value, tables = look()
        if watch and console.is_terminal and not as_json:
            console.clear()
        if as_json:
            typer.echo(as_text(value, indent=None if watch else 2))
        else:
            console.print(*tables, sep="\n")
        if not watch:
            return
        pause(_WATCH_S)


def pause(seconds: float) -> None:
    """Wait until the next look."""
    time.sleep(seconds)
