"""``spdist config``: the settings of a node, explained, described for editors, and made from a file of WSO2 SP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spdist.commands.explained import explained

__all__ = ["config_app"]

config_app = typer.Typer(no_args_is_help=True, help="Settings of a node.")


@config_app.command()
def explain(file: Annotated[Path, typer.Argument(metavar="FILE", help="deployment.yaml, or its directory.")]) -> None:
    """Show every setting with its value and where it comes from; passwords are not shown, and need not be there."""
    from spdist.config import load_config

    with explained():
        config = load_config(file, explaining=True)
        typer.echo(config.explain())
        if config.cluster.datasource:
            from spdist.cluster.process import times_doubt

            if doubt := times_doubt(config):
                typer.echo(f"note: {doubt}")


@config_app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of deployment.yaml, by which editors complete and check it."""
    from spdist.config.schema import comments, settings_schema
    from spdist.workspace import workspace

    with explained():
        files = [workspace() / "conf" / node / "deployment.yaml" for node in ("server", "worker", "manager")]
        told = {key: said for file in files for key, said in comments(file.read_text(encoding="utf-8")).items()}
        typer.echo(json.dumps(settings_schema(told), indent=2, ensure_ascii=False))


@config_app.command("convert")
def convert_command(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="deployment.yaml of WSO2 SP, or its directory.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Write it also where it is there already.")] = False,
) -> None:
    """Write a deployment.yaml of WSO2 SP anew, as spdist has it: no passwords in it, and nothing that is not used.

    Says what was changed or left out, and which variables a node needs for passwords; NEW has the same as comments.
    """
    from spdist.config.converting import convert

    with explained():
        converted = convert(old, new)
        try:
            with new.open("w" if force else "x", encoding="utf-8") as target:
                target.write(converted.text)
        except FileExistsError as error:
            raise typer.BadParameter(f"{new} is there already; --force replaces it", param_hint="NEW") from error
        except OSError as error:
            raise typer.BadParameter(f"cannot write {new}: {error.strerror}", param_hint="NEW") from error
    for difference in converted.differences:
        typer.echo(f"note: {difference}")
    for secret in converted.secrets:
        typer.echo(f"secret: {secret}")
    typer.echo(f"written: {new}")
