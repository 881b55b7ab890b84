"""``make reference``: writes docs/reference from what is there: commands, routes, settings, names of the package."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import spdist
from spdist.__main__ import app
from spdist.cluster.api import manager_app, server_app, worker_app
from spdist.errors import error_codes
from tests.cluster.test_description import running_nodes
from tests.docs.routes import BY_HAND, FOLDER, cell, plain, rest

__all__ = ["FOLDER", "commands", "errors", "python", "settings"]

ROOT = FOLDER.parents[1]


# --- commands
def commands() -> str:
    """Return the page of all commands."""
    lines = ["# Commands", "", BY_HAND, ""]
    for path, command in _leaves(typer.main.get_command(app), ("spdist",)):
        usage = " ".join(_usage(one) for one in command.params if one.param_type_name == "argument")
        lines += [f"## {' '.join(path)}", "", f"`{' '.join(filter(None, (*path, usage)))}`", ""]
        lines += [plain(command.help or ""), ""]
        options = [
            one for one in command.params if one.param_type_name == "option" and one.name != "help" and not one.hidden
        ]
        if options:
            lines += ["| option | |", "|---|---|"]
            lines += [
                f"| `{', '.join((*one.opts, *one.secondary_opts))}` | {cell(one.help or '')} |" for one in options
            ]
            lines.append("")
    return "\n".join(lines)


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the commands that are no groups; Any, as typer brings a click of its own or uses the one that is there."""
    inside = getattr(command, "commands", None)
    if inside is None:
        yield path, command
        return
    for name in sorted(inside):
        if not inside[name].hidden:
            yield from _leaves(inside[name], (*path, name))


def _usage(argument: Any) -> str:
    name = (argument.metavar or argument.name or "").upper().strip("[].") + ("…" if argument.nargs < 0 else "")
    return name if argument.required else f"[{name}]"


# --- settings
def settings() -> str:
    """Return the page of all keys of ``deployment.yaml``, as the shipped files explain them."""
    lines = ["# Settings", "", BY_HAND, ""]
    for node in ("manager", "worker", "server", "ha"):
        file = ROOT / f"conf/{node}/deployment.yaml"
        lines += [f"## conf/{node}/deployment.yaml", "", "```yaml", file.read_text().rstrip(), "```", ""]
    return "\n".join(lines)


# --- Python
def python() -> str:
    """Return the page of what the package offers; `make docs` puts the docstrings in."""
    lines = ["# Python", "", BY_HAND, ""]
    for name in spdist.__all__:
        kind = "class" if isinstance(getattr(spdist, name), type) else "function"
        lines += ["```{eval-rst}", f".. auto{kind}:: spdist.{name}", "```", ""]
    lines += ["## spdist.testing", "", "```{eval-rst}", ".. automodule:: spdist.testing", "```", ""]
    return "\n".join(lines)


# --- errors
def errors() -> str:
    """Return the page of all errors by their codes."""
    lines = ["# Errors", "", BY_HAND, ""]
    lines += [
        "All are subclasses of `SpdistError`, in `spdist.errors`. A code is stable: match on it. *Again*: the same"
    ]
    lines += ["call may succeed later without anyone changing anything.", ""]
    lines += ["| code | class | what has happened | again |", "|---|---|---|---|"]
    for code, kind in sorted(error_codes().items()):
        own = kind.codes.get(code)
        told = own.meaning if own else (kind.__doc__ or "").partition("\n\n")[0]
        lines.append(f"| {code} | `{kind.__name__}` | {cell(told)} | {'yes' if (own or kind).retryable else ''} |")
    return "\n".join([*lines, ""])


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        homes = Path(directory, "nodes"), Path(directory, "server")
        for home in homes:
            home.mkdir()
        with running_nodes(*homes) as (manager, worker, server):
            apps = {"manager": manager_app(manager), "worker": worker_app(worker), "server": server_app(server)}
            routes = rest({name: one.openapi() for name, one in apps.items()})
    pages = {"commands": commands(), "rest": routes, "settings": settings(), "python": python(), "errors": errors()}
    for name, text in pages.items():
        FOLDER.joinpath(f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()
