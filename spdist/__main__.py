"""The command line: commands about apps, settings, the database and certificates; and nodes as processes.

What a running cluster is asked (``deploy``, ``feed``, ``tail``, …) is in `spdist.commands`. Exit codes: 0 for success,
1 where spdist explains what is wrong (on stderr), 2 for a wrong command line, 3 where no manager can be reached, 130
for what Ctrl-C has ended before it was done.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.console import Console

from spdist.commands import apps, events
from spdist.commands.config import config_app
from spdist.commands.dashboard import dashboard
from spdist.commands.database import database_app
from spdist.commands.doctor import doctor
from spdist.commands.explained import explained, read_text
from spdist.commands.login import login, logout
from spdist.commands.notebooks import notebooks_app
from spdist.commands.recorded import or_recorded
from spdist.commands.schedule import schedule_app
from spdist.commands.tls import tls_app
from spdist.commands.users import user_app
from spdist.commands.version import version
from spdist.display import bytes_text
from spdist.errors import EngineError, ErrorKind, SiddhiAppError
from spdist.headless import stop_signal
from spdist.headless.lean import without_iris
from spdist.java.numbers import whole_number

if TYPE_CHECKING:
    from spdist.planning.topology import Assignment, Topology
    from spdist.runtime.group_status import InstanceStatus
    from spdist.runtime.standalone import AppProgress

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="SiddhiQL on Spark.")
app.callback()(version)
apps.add_to(app)
events.add_to(app)
app.add_typer(config_app, name="config")
services_app = typer.Typer(no_args_is_help=True, help="Real servers on this machine, for development and tests.")
app.add_typer(services_app, name="services")
app.add_typer(database_app, name="database")
app.add_typer(tls_app, name="tls")
app.add_typer(user_app, name="user")
app.command()(login)
app.command()(logout)
app.command()(doctor)
app.command()(dashboard)
app.add_typer(schedule_app, name="schedule")
app.add_typer(notebooks_app, name="notebooks")

App = Annotated[Path, typer.Argument(metavar="APP", help="File with a Siddhi app; - for standard input.")]
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka allows
Conf = Annotated[Path, typer.Option("--conf", help="deployment.yaml, or its directory.")]


def main() -> None:
    """Run the command line; the entry point ``spdist``."""
    without_iris()  # a second of processor time for who reads a notebook
    app()


@contextmanager
def _opened(path: Path, option: str) -> Iterator[TextIO]:
    """Open a file to write; where that cannot be, say so as a wrong command line."""
    try:
        target = path.open("w", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint=option) from error
    with target:
        yield target


def _make_directory(path: Path, option: str) -> None:
    """Make a directory unless it is there; where that cannot be, say so as a wrong command line."""
    try:
        Path(os.path.expanduser(path)).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be a directory: {error.strerror}", param_hint=option) from error


@app.command()
def check(
    file: App, as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False
) -> None:
    """Parse and check an app, and list its streams and queries, or everything that is wrong with it."""
    from spdist.facade import check as check_app

    text = read_text(file)
    if as_json:
        try:
            checked = check_app(text)
        except SiddhiAppError as error:
            typer.echo(json.dumps({"ok": False, "errors": [one.to_dict() for one in error.errors]}, indent=2))
            raise typer.Exit(1) from error
        streams = {name: {one: kind.value for one, kind in schema} for name, schema in checked.streams.items()}
        typer.echo(json.dumps({"ok": True, "name": checked.name, "streams": streams}, indent=2))
        return
    with explained():
        checked = check_app(text)
        console = Console()
        console.print(f"{checked.name}: no errors", style="green", highlight=False)
        for name, schema in checked.streams.items():
            console.print(f"  stream {name} {schema}", markup=False, highlight=False, soft_wrap=True)
        for query in checked.queries:
            console.print(f"  query {query.name} → {query.target}", markup=False, highlight=False, soft_wrap=True)


@app.command("explain")
def explain_command(
    file: App, as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False
) -> None:
    """Show how an app runs on Spark: what is native, what the engine runs and why, and which state is kept."""
    from spdist.facade import explain as explain_app

    with explained():
        found = explain_app(read_text(file))
        typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else str(found))


class Carrier(StrEnum):
    """What carries the topics between groups."""

    LOG = "log"
    KAFKA = "kafka"
    NATS = "nats"


@app.command()
def plan(
    file: App,
    transport: Annotated[
        Carrier | None,
        typer.Option(help="What carries the topics, and so names them; by default what --conf says, or log."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print groups, topics and child apps as JSON.")] = False,
    diff: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Show what stays where OTHER replaces APP."),
    ] = None,
    conf: Annotated[
        Path | None,
        typer.Option("--conf", help="deployment.yaml, or its directory: see there whether the topics that exist fit."),
    ] = None,
) -> None:
    """Show into which execution groups and topics an app is split, and why."""
    from spdist.facade import plan as plan_app
    from spdist.planning.pictures.listing import listed_error

    text, other = read_text(file), None if diff is None else read_text(diff)
    with explained() if not as_json else nullcontext():
        carrier, check_topics = _carrier(transport, conf)
        try:
            topology = plan_app(text, carrier)
            check_topics(topology, text)
            shown = topology if other is None else topology.diff(plan_app(other, carrier))
        except SiddhiAppError as error:
            if not as_json:
                raise
            typer.echo(json.dumps(listed_error(error), indent=2))
            raise typer.Exit(1) from error
    typer.echo(json.dumps(shown.to_dict(), indent=2) if as_json else str(shown))


def _carrier(transport: Carrier | None, conf: Path | None) -> tuple[str, Callable[[Topology, str], None]]:
    """Return what carries the topics, and what sees whether those there fit; without settings nothing does."""
    if conf is None:
        return (transport or Carrier.LOG).value, lambda topology, text: None
    from spdist.cluster.managers.topics import check_topics
    from spdist.config.standalone import load_standalone
    from spdist.transports.opening import transport_settings

    settings = transport_settings(load_standalone(conf).transports)
    if transport is not None:
        settings = replace(settings, kind=transport.value)
    return settings.kind, lambda topology, text: check_topics(topology, text, settings)


@app.command()
def graph(
    file: App,
    as_json: Annotated[bool, typer.Option("--json", help="Print nodes and links as JSON.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw it into this file.")] = None,
) -> None:
    """Show which queries of an app read and write which streams, tables, windows and aggregations."""
    from spdist.facade import graph as graph_of

    with explained():
        found = graph_of(read_text(file))
    if svg is not None:
        with _opened(svg, "--svg") as target:
            target.write(found.to_svg())
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
    shards: Annotated[
        int, typer.Option(min=1, help="On Spark: into how many shards a case is split by key, where its app can be.")
    ] = 1,
    cut: Annotated[
        int, typer.Option(min=1, help="On Spark: into how many parts, by lot, the steps of each case are cut.")
    ] = 3,
    restarts: Annotated[
        bool, typer.Option("--restarts", help="On Spark: kill the query after each part; another one goes on.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the results here instead of to standard output.")] = None,
) -> None:
    """Replay written cases, in virtual time or on Spark: one line with the result of each case, in their order.

    An app that is refused is a result like any other. The exit code is 1 where a line is no case, or has no end.
    """
    from rich.progress import track

    from spdist.replay.files import read_cases
    from spdist.replay.files import replay as replay_lines

    try:
        lines = list(read_cases(cases))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {cases}: {error}", param_hint="CASES.jsonl") from error
    console = Console(stderr=True)
    if engine is Engine.SPARK:
        from spdist.replay.spark import SparkOptions, replay_on_spark

        options = SparkOptions(
            cut, restarts, shards=shards, tell=lambda said: console.print(said, highlight=False, soft_wrap=True)
        )
        found = replay_on_spark(lines, jobs or os.cpu_count() or 1, options)
    else:
        # Few cases are done before another process has started.
        found = replay_lines(lines, jobs or max(1, min(os.cpu_count() or 1, len(lines) // 50)))
    # No refreshing: it needs a thread, and processes are forked.
    results = track(
        found, "Replaying", len(lines), console=console, disable=not console.is_terminal, auto_refresh=False
    )
    began = time.monotonic()
    refused = unusable = 0
    with explained(), _opened(out, "--out") if out else nullcontext(sys.stdout) as target:
        for result in results:
            refused += result.failed
            unusable += result.unusable
            print(result.text, file=target, flush=out is None)
    seconds = max(time.monotonic() - began, 1e-9)
    said = f"{len(lines)} cases in {seconds:.1f} s ({len(lines) / seconds:.0f} per second), {refused} with an error"
    console.print(said, highlight=False, soft_wrap=True)
    if unusable:
        told = f"error: {unusable} of {len(lines)} lines are no cases, or could not be replayed; their results say why"
        console.print(told, style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(1)


class ServiceName(StrEnum):
    """What can be started."""

    KAFKA = "kafka"
    NATS = "nats"
    ALL = "all"


@services_app.command("up")
def services_up(
    name: Annotated[ServiceName, typer.Argument(help="Which one.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of 127.0.0.1; 0 for a free one. Default: the usual one.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Where its data stay. Default: a temporary one, gone at the end.")
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME[:PARTITIONS]", help="Create this topic in Kafka; may be given again."),
    ] = None,
) -> None:
    """Run a Kafka broker or a NATS server until Ctrl-C; prints the address for clients once it answers.

    The broker creates a topic that a client names and that is not there, with one partition.
    """
    from spdist.services.running import SERVICES, run_service

    names = list(SERVICES) if name is ServiceName.ALL else [name.value]
    wanted = dict(map(_topic, topics or ()))
    if wanted and "kafka" not in names:
        raise typer.BadParameter("topics are created in Kafka", param_hint="--topic")
    if port and len(names) > 1:  # 0 is for all: each gets a free one
        raise typer.BadParameter("a port is for one service, not for all", param_hint="--port")
    if directory is not None:
        _make_directory(directory, "--directory")
    console = Console()
    with explained(), stop_signal() as stop, ExitStack() as stack:
        running = []
        for one in names:
            began = time.monotonic()
            console.print(f"{one}: starting", highlight=False)
            place = directory / one if directory is not None and len(names) > 1 else directory
            service = stack.enter_context(run_service(one, port, place))
            kept = f"data in {service.directory}" + ("" if place else ", removed at the end")
            took = time.monotonic() - began
            console.print(f"{one}: running at {service.url} ({took:.1f} s, {kept})", highlight=False, soft_wrap=True)
            running.append(service)
            if one == "kafka" and wanted:
                from spdist.connectors.kafka.link import create_topics

                create_topics(service.url, wanted)
                console.print(f"{one}: topics {', '.join(wanted)}", highlight=False, soft_wrap=True)
        console.print("Ctrl-C stops", highlight=False)
        while not stop.wait(0.5):
            for service in running:
                if not service.running:
                    raise EngineError(
                        f"the {service.name} server ended by itself{service.trouble}", code=ErrorKind.SERVICE
                    )
        console.print("stopping", highlight=False)


def _topic(text: str) -> tuple[str, int]:
    """Read ``NAME[:PARTITIONS]``."""
    name, _, partitions = text.partition(":")
    if not _TOPIC.fullmatch(name) or (count := whole_number(partitions or "1", 1)) is None:
        raise typer.BadParameter(f"'{text}' is no topic; for example: orders:3", param_hint="--topic")
    return name, count


@services_app.command("list")
def services_list() -> None:
    """Show which services there are and which of them run."""
    from spdist.services.running import SERVICES, notes

    running = notes()
    for name, kind in SERVICES.items():
        typer.echo(f"{name}: {kind.about}, port {kind.port} unless told otherwise")
        for one in running:
            if one.name == name:
                typer.echo(f"  running at {one.url}, data in {one.directory}, process {one.pid}")


@app.command()
def manager(conf: Conf) -> None:
    """Run a manager until it is told to stop (SIGTERM or Ctrl-C)."""
    from spdist.cluster.manager import Manager
    from spdist.cluster.process import start_logging
    from spdist.config import load_config

    with explained(), stop_signal() as stop:
        config = load_config(conf, role="manager")
        start_logging(config)
        Manager(config).run(stop)


@app.command()
def worker(conf: Conf) -> None:
    """Run a worker until it is told to stop (SIGTERM or Ctrl-C)."""
    from spdist.cluster.process import start_logging
    from spdist.cluster.worker import Worker
    from spdist.config import load_config

    with explained(), stop_signal() as stop:
        config = load_config(conf, role="worker")
        start_logging(config)
        Worker(config).run(stop)


@app.command()
def server(conf: Conf) -> None:
    """Run a server, a node with apps of its own and no managers, until it is told to stop (SIGTERM or Ctrl-C)."""
    from spdist.cluster.process import start_logging
    from spdist.cluster.server_node import ServerNode
    from spdist.config import load_config

    with explained(), stop_signal() as stop:
        config = load_config(conf, role="server")
        start_logging(config)
        ServerNode(config).run(stop)


@app.command()
@or_recorded
def run(
    file: App,
    master: Annotated[
        str, typer.Option(help="Spark master: local[*], local-cluster[2,1,1024], spark://host:7077.")
    ] = "",
    conf: Annotated[Path | None, typer.Option("--conf", help="deployment.yaml, or its directory.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Where topics and state are; by default spdist-data.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--files", help="A directory that the app may use, besides files in --directory; repeatable."),
    ] = None,
    shards: Annotated[int, typer.Option(min=1, help="Parts that share the work by key.")] = 1,
    until_idle: Annotated[
        float | None, typer.Option("--until-idle", min=0.1, help="End when nothing came in for so many seconds.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=1, max=65535, help="Tell Prometheus at http://127.0.0.1:PORT/metrics."),
    ] = None,
) -> None:
    """Run one app live on Spark, without a cluster, until it is told to stop (SIGTERM or Ctrl-C).

    Started again in the same directory it goes on where it ended, however it did. With --input it runs on recorded
    events instead, in virtual time, without Spark, and ends.
    """
    from spdist.config.standalone import load_standalone

    with explained(), stop_signal() as stop:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        config = load_standalone(conf, directory, files=files or ())
        if master:
            config = replace(config, spark=replace(config.spark, master=master))
        from spdist.config.allowed import allowed_of
        from spdist.packages import use_packages
        from spdist.runtime.standalone import prepare, run_app

        use_packages(config.script.packages)  # first: the app may use what they bring
        assignment = prepare(read_text(file), shards, scripts=config.script.python_enabled, allowed=allowed_of(config))
        if directory is not None:
            _make_directory(directory, "--directory")  # not before: an app that is wrong leaves none behind
        console = Console(stderr=True)
        with (
            console.status(f"{assignment.name}: starting", spinner="line") as line,
            _metrics(metrics_port, assignment) as count,
        ):

            def tell(progress: AppProgress) -> None:
                line.update(_told(progress))
                count(progress.status)

            status = run_app(assignment, config, stop, until_idle_s=until_idle, tell=tell)
        said = f"{assignment.name}: stopped after {status.events_in} events in"
        console.print(said, highlight=False, soft_wrap=True)


@contextmanager
def _metrics(port: int | None, assignment: Assignment) -> Iterator[Callable[[InstanceStatus], None]]:
    """Tell Prometheus, where there is a port, what the function that is given was called with last."""
    if port is None:
        yield lambda _: None
        return
    from spdist.cluster.exposition import serve_metrics
    from spdist.cluster.protocol.messages import GroupPhase, GroupReport
    from spdist.cluster.workers.hosting import metrics_of

    known = GroupReport(assignment.name, assignment.app, GroupPhase.STARTING, "")

    def count(status: InstanceStatus) -> None:
        nonlocal known  # replaced as a whole: the thread that answers Prometheus reads it at any time
        known = replace(known, state=GroupPhase(status.state), metrics=metrics_of(status))

    end = serve_metrics(port, lambda: known)
    try:
        yield count
    finally:
        end()


def _told(progress: AppProgress) -> str:
    status = progress.status
    told = (
        f"{status.name}: {status.state.lower()}, {progress.rate:.0f} events/s, {status.events_in} in, "
        f"{status.events_out} out, lag {status.lag}, batch {status.batch_ms} ms, state {status.state_rows} rows, "
        f"{bytes_text(status.state_bytes)}, memory {bytes_text(status.memory_bytes)}"
    )
    if rejected := sum(status.rejected.values()):
        told += f", {rejected} rejected"
    if status.last_revision:
        told += f", revision {status.last_revision}"
    return f"{told}; {status.waiting}" if status.waiting else told


if __name__ == "__main__":
    main()
