"""``spdist tls``: an authority of the cluster's own, and certificates of it for nodes and users."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdist.commands.explained import explained

if TYPE_CHECKING:
    from spdist.cluster.security.authority import Issued, Subject

__all__ = ["tls_app"]

tls_app = typer.Typer(no_args_is_help=True, help="Certificates for the nodes of a cluster, and for its users.")

Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where keys and certificates are.")]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME[=HOST,HOST...]",
        help="A node, and where it is reached; by default its name is its host.",
    ),
]
Users = Annotated[
    list[str] | None, typer.Option("--user", metavar="NAME", help="A user of nodes that ask for a certificate.")
]
Days = Annotated[int, typer.Option(min=1, max=36500, help="How long the certificates are valid.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
_YEAR, _TEN_YEARS = 365, 3650


@tls_app.command()
def init(
    directory: Directory,
    node: Nodes = None,
    user: Users = None,
    days: Days = _YEAR,
    authority_days: Annotated[
        int, typer.Option("--authority-days", min=1, max=36500, help="How long the authority is valid.")
    ] = _TEN_YEARS,
    force: Force = False,
) -> None:
    """Make an authority, and a certificate of it for each node and user; prints what goes into deployment.yaml."""
    from spdist.cluster.security.authority import AUTHORITY, Authority, check_free

    with explained():
        subjects = _subjects(node, user)
        if not force:
            # All names before anything is written.
            check_free(directory, [AUTHORITY, *(one.name for one in subjects)])
        authority = Authority.create(directory, _now(), authority_days, replace=force)
        _told(directory, [authority.issue(one, _now(), days, replace=force) for one in subjects])


@tls_app.command()
def add(directory: Directory, node: Nodes = None, user: Users = None, days: Days = _YEAR, force: Force = False) -> None:
    """Make certificates for further nodes and users, of the same authority."""
    from spdist.cluster.security.authority import Authority, check_free

    with explained():
        subjects = _subjects(node, user)
        if not force:
            check_free(directory, [one.name for one in subjects])
        authority = Authority.open(directory)
        _told(directory, [authority.issue(one, _now(), days, replace=force) for one in subjects])


@tls_app.command()
def renew(
    directory: Directory,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Which; by default all but the authority, ca.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, help="How long they are valid. Default: as init has it.")
    ] = None,
) -> None:
    """Make certificates valid for longer. Keys stay; nodes take over the new file without a restart."""
    from spdist.cluster.security.authority import AUTHORITY, Authority, issued_in

    with explained():
        authority = Authority.open(directory)
        chosen = names or [one.file.stem for one in issued_in(directory) if one.file.stem != AUTHORITY]
        for name in chosen:
            usual = _TEN_YEARS if name == AUTHORITY else _YEAR
            typer.echo(_line(authority.renew(name, _now(), days or usual)))


@tls_app.command()
def show(
    directory: Directory,
    within: Annotated[int, typer.Option(min=0, help="Days before its end at which a certificate is too old.")] = 30,
) -> None:
    """Show whom the certificates are of and when they expire; exit code 1 where one has, or soon will."""
    from spdist.cluster.security.authority import issued_in

    with explained():
        found = issued_in(directory)
    for one in found:
        typer.echo(_line(one))
    wrong = [one for one in found if not one.vouched or one.days_left(_now()) < within]
    if wrong:
        names = ", ".join(one.file.stem for one in wrong)
        typer.echo(f"needed: a renewal of {names} (python -m spdist tls renew {directory} …)", err=True)
        raise typer.Exit(1)


def _now() -> datetime:
    return datetime.now(UTC)


def _subjects(nodes: list[str] | None, users: list[str] | None) -> list[Subject]:
    from spdist.cluster.security.authority import Subject
    from spdist.errors import ConfigError

    subjects = [*map(Subject.node, nodes or ()), *map(Subject.user, users or ())]
    names = [one.name for one in subjects]
    if not subjects:
        raise typer.BadParameter("name one at least", param_hint="--node")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"{', '.join(sorted(twice))}: named twice, and one name is one key and one certificate")
    return subjects


def _line(one: Issued) -> str:
    left = one.days_left(_now())
    end = f"expires {one.not_after:%Y-%m-%d}, {left} days left" if left >= 0 else f"EXPIRED {one.not_after:%Y-%m-%d}"
    hosts = f" for {', '.join(one.hosts)}" if one.hosts else ""
    doubt = "" if one.vouched else "; NOT SIGNED by the authority in this directory"
    return f"{one.file.stem}: {one.kind.value} {one.subject}{hosts}; {end}{doubt}"


def _told(directory: Path, issued: list[Issued]) -> None:
    """Print what was made, and what each node and user needs of it."""
    from spdist.cluster.security.authority import AUTHORITY, CertificateKind

    place = directory.absolute()
    for one in issued:
        typer.echo(_line(one))
        pair = f"{place / one.file.stem}.crt", f"{place / one.file.stem}.key"
        authority = place / f"{AUTHORITY}.crt"
        if one.kind is CertificateKind.NODE:
            typer.echo(_SETTINGS.format(name=one.file.stem, host=one.hosts[0], authority=authority, pair=pair))
        else:
            typer.echo(f'  spdist.connect(…, trust_file="{authority}", certificate=("{pair[0]}", "{pair[1]}"))')
    typer.echo(
        f"Copy to each machine {AUTHORITY}.crt and its own .crt and .key, no other key. {AUTHORITY}.key stays with "
        "you: whoever has it can make nodes and users."
    )


_SETTINGS = """\
  # into deployment.yaml of {name}; what else stands there stays
  wso2.transport.http:
    listenerConfigurations:
      - host: 0.0.0.0
        port: …
        scheme: https
        certificateFile: {pair[0]}
        keyFile: {pair[1]}
        sslVerifyClient: require
    trustFile: {authority}
  deployment.config:
    httpsInterface:
      host: {host}
      port: …
      scheme: https"""
