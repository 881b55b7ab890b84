"""``spdist doctor``: what this machine misses to be a node."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from spdist.cluster.checkup import Finding

__all__ = ["doctor"]

_STYLES = {"ok": "green", "warning": "yellow", "failed": "red"}


def doctor(
    conf: Annotated[
        Path | None,
        typer.Option("--conf", help="deployment.yaml of the node that is to run here, or its directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Say what this machine misses to be a node, and what to do; exit code 1 where something is missing.

    With --conf it also tries what the settings name: port, certificate, database, topics, directories, managers,
    identity provider.
    """
    from spdist.cluster.checkup import FindingLevel, check_machine

    with Console(stderr=True).status("looking at this machine"):
        found = check_machine()
        if conf is not None:
            found += _of_node(conf)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
    else:
        _show(found)
    if any(one.level is FindingLevel.FAILED for one in found):
        raise typer.Exit(1)


def _of_node(conf: Path) -> list[Finding]:
    """Return the findings about the settings, and what they name if they can be read."""
    from spdist.cluster.checkup import Finding, FindingLevel, check_node
    from spdist.config import load_config
    from spdist.config.key_stores import with_pem_files
    from spdist.errors import SpdistError

    try:
        config = load_config(conf)
        # A file does not say which of the two it is for; managers elect their leader in a database, workers do not.
        role: Literal["manager", "worker", "server"] = "worker"
        if config.is_server:
            role = "server"
        elif config.cluster.datasource:
            role = "manager"
        config = with_pem_files(load_config(conf, role=role))
    except SpdistError as error:
        return [Finding("settings", FindingLevel.FAILED, error.message, error.hint or "")]
    notes = [Finding("settings", FindingLevel.WARNING, note) for note in config.notes]
    return [
        Finding("settings", FindingLevel.OK, f"{config.path}: those of {role} {config.carbon.id}"),
        *notes,
        *check_node(config),
    ]


def _show(found: list[Finding]) -> None:
    console = Console()
    width = max(len(one.what) for one in found)
    for one in found:
        line = Text(f"{one.level.value:<8}", style=_STYLES[one.level.value])
        line.append(f"{one.what:<{width}}  {one.found}", style="default")
        console.print(line, soft_wrap=True, highlight=False)
        if one.hint:
            console.print(Text(f"{'':<8}{'':<{width}}  → {one.hint}"), soft_wrap=True, highlight=False)
