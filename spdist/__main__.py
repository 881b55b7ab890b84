"""The command line: ``spdist check``, ``graph``, ``plan``, ``replay``, ``config explain``; and nodes as processes.

Exit codes: 0 for success, 1 where spdist explains what is wrong (on stderr), 2 for a wrong command line.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spdist.errors import SiddhiAppError, SpdistError, UnsupportedFeatureError
from spdist.headless import stop_signal

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="SiddhiQL on Spark.")
config_app = typer.Typer(no_args_is_help=True, help="Settings of a node.")
app.add_typer(config_app, name="config")

App = Annotated[Path, typer.Argument(metavar="APP", help="File with a Siddhi app; - for standard input.")]
Conf = Annotated[Path, typer.Option("--conf", help="deployment.yaml, or its directory.")]


def main() -> None:
    """Run the command line; the entry point ``spdist``."""
    app()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn our errors into sentences on stderr and exit code 1; others are defects and keep their traceback."""
    try:
        yield
    except SpdistError as error:
        console = Console(stderr=True)
        found = error.errors if isinstance(error, SiddhiAppError) else (error,)
        for one in found:
            console.print(f"error {one.code}: {one}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}", param_hint="APP") from error


@app.command()
def check(
    file: App, as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False
) -> None:
    """Parse and check an app, and list its streams and queries, or everything that is wrong with it."""
    from spdist.facade import check as check_app

    text = _read(file)
    if as_json:
        try:
            checked = check_app(text)
        except SiddhiAppError as error:
            typer.echo(json.dumps({"ok": False, "errors": [one.to_dict() for one in error.errors]}, indent=2))
            raise typer.Exit(1) from error
        streams = {name: {one: kind.value for one, kind in schema} for name, schema in checked.streams.items()}
        typer.echo(json.dumps({"ok": True, "name": checked.name, "streams": streams}, indent=2))
        return
    with _explained():
        checked = check_app(text)
        console = Console()
        console.print(f"{checked.name}: no errors", style="green", highlight=False)
        for name, schema in checked.streams.items():
            console.print(f"  stream {name} {schema}", markup=False, highlight=False, soft_wrap=True)
        for query in checked.queries:
            console.print(f"  query {query.name} → {query.target}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def plan(file: App) -> None:
    """Show into which execution groups and topics an app is split, and why."""
    from spdist.facade import plan as plan_app

    with _explained():
        typer.echo(str(plan_app(_read(file))))


@app.command()
def graph(
    file: App,
    as_json: Annotated[bool, typer.Option("--json", help="Print nodes and links as JSON.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw it into this file.")] = None,
) -> None:
    """Show which queries of an app read and write which streams, tables, windows and aggregations."""
    from spdist.facade import graph as graph_of

    with _explained():
        found = graph_of(_read(file))
    if svg is not None:
        svg.write_text(found.to_svg(), encoding="utf-8")
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else found.to_text())


class Engine(StrEnum):
    """What cases are replayed on."""

    LOCAL = "local"
    SPARK = "spark"


@app.command()
def replay(
    cases: Annotated[Path, typer.Argument(metavar="CASES.jsonl", help="Written cases, one per line.")],
    engine: Annotated[Engine, typer.Option(help="Where they run: here in virtual time, or on Spark.")] = Engine.LOCAL,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that share the work; by default as many as there are cores.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the results here instead of to standard output.")] = None,
) -> None:
    """Replay written cases in virtual time: one line with the result of each case, in their order."""
    from rich.progress import track

    from spdist.replay.files import read_cases
    from spdist.replay.files import replay as replay_lines

    with _explained():
        if engine is Engine.SPARK:
            hint = "--engine local gives the same results."
            raise UnsupportedFeatureError("Cases are not replayed on Spark yet", hint=hint)
    try:
        lines = list(read_cases(cases))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {cases}: {error}", param_hint="CASES.jsonl") from error
    console = Console(stderr=True)
    # Few cases are done before another process has started. No refreshing: it needs a thread, and processes are forked.
    processes = jobs or max(1, min(os.cpu_count() or 1, len(lines) // 50))
    results = track(
        replay_lines(lines, processes),
        "Replaying",
        len(lines),
        console=console,
        disable=not console.is_terminal,
        auto_refresh=False,
    )
    began = time.monotonic()
    refused = 0
    with out.open("w", encoding="utf-8") if out else nullcontext(sys.stdout) as target:
        for result in results:
            refused += result.failed
            print(result.text, file=target, flush=out is None)
    seconds = max(time.monotonic() - began, 1e-9)
    said = f"{len(lines)} cases in {seconds:.1f} s ({len(lines) / seconds:.0f} per second), {refused} with an error"
    console.print(said, highlight=False, soft_wrap=True)


@config_app.command()
def explain(file: Annotated[Path, typer.Argument(metavar="FILE", help="deployment.yaml, or its directory.")]) -> None:
    """Show every setting with its value and where it comes from; passwords are not shown."""
    from spdist.config import load_config

    with _explained():
        typer.echo(load_config(file).explain())


@app.command()
def manager(conf: Conf) -> None:
    """Run a manager until it is told to stop (SIGTERM or Ctrl-C)."""
    from spdist.cluster.manager import Manager
    from spdist.config import load_config

    with _explained(), stop_signal() as stop:
        _log_to_stderr()
        Manager(load_config(conf, role="manager")).run(stop)


@app.command()
def worker(conf: Conf) -> None:
    """Run a worker until it is told to stop (SIGTERM or Ctrl-C)."""
    from spdist.cluster.worker import Worker
    from spdist.config import load_config

    with _explained(), stop_signal() as stop:
        _log_to_stderr()
        Worker(load_config(conf, role="worker")).run(stop)


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


if __name__ == "__main__":
    main()
