"""Commands for apps and nodes of a running cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spdist.commands.connection import AppName, AsJson, Watch, connected, print_json, show, shown_time, table, waiting
from spdist.commands.explained import read_text

if TYPE_CHECKING:
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.clients.overview import AppStatus

__all__ = ["add_to"]

_Wait = Annotated[float, typer.Option("--wait", min=0, help="How many seconds to wait for the workers; 0 does not.")]
_Node = Annotated[str, typer.Argument(metavar="NODE", help="The worker's id.")]
_Limit = Annotated[int, typer.Option("--limit", min=1, help="So many at most.")]
_Only = Annotated[str | None, typer.Option("--app", help="Only what concerns this app.")]
_Since = Annotated[int | None, typer.Option("--since", help="Only what is not older: ms since 1970.")]


@connected
def deploy(
    client: ClusterClient,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with a Siddhi app; - for standard input.")],
    new: Annotated[bool, typer.Option("--new", help="Refuse to replace an app of that name.")] = False,
    wait: _Wait = 60.0,
    as_json: AsJson = False,
) -> None:
    """Deploy an app, or replace it, and wait until it runs."""
    done = client.deploy(read_text(file, "FILE"), replace=not new)
    change = None if done.change is None else done.change.to_dict()
    if not as_json:
        typer.echo(f"{done.name}: {'deployed' if change is None else 'updated'}")
        if done.change is not None:
            typer.echo(str(done.change))
    if wait:
        with waiting(f"{done.name}: waiting until it runs"):
            done.wait(timeout_s=wait, quiet=True)
    if as_json:
        print_json({"name": done.name, "change": change})
    elif wait:
        typer.echo(f"{done.name}: RUNNING")


@connected
def undeploy(client: ClusterClient, app: AppName, wait: _Wait = 60.0) -> None:
    """Remove an app; its topics and its state stay."""
    with waiting(f"{app}: waiting for the workers"):
        client.deployment(app).undeploy(timeout_s=wait)
    typer.echo(f"{app}: undeployed")


@connected
def list_apps(client: ClusterClient, as_json: AsJson = False, watch: Watch = False) -> None:
    """List the deployed apps with their states."""

    def look() -> tuple[Any, list[Any]]:
        apps = client.status().apps
        rows = [(one.name, one.version, one.state, len(one.groups), one.reason) for one in apps]
        names = ("app", "version", "state", "group instances", "reason")
        shown = [{"name": a.name, "version": a.version, "state": a.state, "reason": a.reason} for a in apps]
        return shown, [table("apps", names, rows)]

    show(look, as_json=as_json, watch=watch)


@connected
def status(client: ClusterClient, app: AppName, as_json: AsJson = False, watch: Watch = False) -> None:
    """Show how an app and each of its group instances are doing."""

    def look() -> tuple[Any, list[Any]]:
        found: AppStatus = client.deployment(app).status()
        title = f"{found.name} (version {found.version}): {found.state}"
        rows = [(one.name, one.state, one.worker, one.failures, one.reason) for one in found.groups]
        return asdict(found), [table(title, ("group instance", "state", "worker", "failures", "reason"), rows)]

    show(look, as_json=as_json, watch=watch)


# ------------------------------------------------------------------------------------------------------------ revisions
@connected
def backup(client: ClusterClient, app: AppName, as_json: AsJson = False) -> None:
    """Have the state of an app kept, and print the revision."""
    with waiting(f"{app}: keeping its state"):
        revision = client.deployment(app).backup()
    if as_json:
        print_json({"revision": revision})
    else:
        typer.echo(revision)


@connected
def restore(
    client: ClusterClient, app: AppName, revision: Annotated[str, typer.Argument(help="One of `spdist revisions`.")]
) -> None:
    """Take an app back to a revision; it goes on from the events that belong to it."""
    with waiting(f"{app}: going back"):
        client.deployment(app).restore(revision)
    typer.echo(f"{app}: goes on from revision {revision}")


@connected
def revisions(
    client: ClusterClient,
    app: AppName,
    clear: Annotated[bool, typer.Option("--clear", help="Delete them; what runs goes on.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the revisions of an app, oldest first, or delete them."""
    found = client.clear_revisions(app) if clear else client.deployment(app).revisions()
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join(found), nl=bool(found))


# ---------------------------------------------------------------------------------------------------------------- nodes
@connected
def nodes(client: ClusterClient, as_json: AsJson = False, watch: Watch = False) -> None:
    """Show managers and workers, and what runs where."""

    def look() -> tuple[Any, list[Any]]:
        view = client.nodes()
        rows: list[tuple[Any, ...]] = [
            (one["id"], "manager", "leads" if one["leads"] else "stands by", one["url"], "") for one in view["managers"]
        ]
        rows += [
            (
                one["id"],
                "receiver" if one["receiver"] else "worker",
                _state_of(one),
                one["url"],
                ", ".join(group["name"] for group in one["groups"]),
            )
            for one in view["workers"]
        ]
        rows += [
            (one["id"], "worker", f"LOST: {one['reason']}", one["url"], ", ".join(one["groups"]))
            for one in view["lostWorkers"]
        ]
        title = f"cluster {view['groupId']}, term {view['term']}"
        return view, [table(title, ("node", "role", "state", "address", "groups"), rows)]

    show(look, as_json=as_json, watch=watch)


def _state_of(worker: Mapping[str, Any]) -> str:
    mark = "drained, " if worker["drained"] else "cordoned, " if worker["cordoned"] else ""
    return mark + (f"{worker['state']}: {worker['reason']}" if worker["reason"] else worker["state"])


@connected
def cordon(client: ClusterClient, node: _Node) -> None:
    """Give a worker no more groups; what it has stays."""
    client.cordon(node)
    typer.echo(f"{node}: is given nothing new")


@connected
def drain(client: ClusterClient, node: _Node) -> None:
    """Empty a worker: what it has goes elsewhere, and it is given nothing new."""
    client.drain(node)
    typer.echo(f"{node}: is given nothing new, and what it has goes elsewhere")


@connected
def uncordon(client: ClusterClient, node: _Node) -> None:
    """Give a worker groups again."""
    client.uncordon(node)
    typer.echo(f"{node}: is given groups again")


@connected
def rebalance(
    client: ClusterClient,
    now: Annotated[bool, typer.Option("--now/--dry-run", help="Move them, or only show them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show which groups would be moved to even out the load, or move them."""

    def look() -> tuple[Any, list[Any]]:
        moves = client.rebalance(dry_run=not now)
        names = ("group", "from", "to", "reason")
        title = "moved" if now else "would be moved"
        return moves, [table(title, names, [[one.get(name) for name in names] for one in moves])]

    show(look, as_json=as_json)


@connected
def journal(
    client: ClusterClient,
    app: _Only = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only entries of this kind.")] = None,
    since: _Since = None,
    limit: _Limit = 50,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show what the cluster has decided, newest first."""

    def look() -> tuple[Any, list[Any]]:
        entries = client.journal(limit=limit, app=app, kind=kind, since=since)
        names = ("time", "node", "kind", "app", "group", "user", "reason")
        return entries, [table("journal", names, [_timed(one, names) for one in entries])]

    show(look, as_json=as_json, watch=watch)


@connected
def logs(
    client: ClusterClient,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="One node; all that answer if left out.")] = None,
    app: _Only = None,
    level: Annotated[str | None, typer.Option("--level", help="Only such records: WARNING, ERROR, …")] = None,
    since: _Since = None,
    limit: _Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show the last log records of the nodes."""

    def look() -> tuple[Any, list[Any]]:
        records = client.logs(node, limit=limit, app=app, level=level, since=since)
        names = ("time", "node", "level", "app", "group", "message")
        return records, [table("logs", names, [_timed(one, names) for one in records])]

    show(look, as_json=as_json)


@connected
def metrics(
    client: ClusterClient,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="One node; all that answer if left out.")] = None,
) -> None:
    """Print the figures of a node as Prometheus reads them; those of several nodes each after a line with its name."""
    for name, text in client.metrics(node).items():
        typer.echo(text if node is not None else f"# node {name}\n{text}", nl=False)


def _timed(entry: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Return the fields of an entry, its time as text."""
    at = entry.get("time")
    return [shown_time(at) if isinstance(at, int) else at, *(entry.get(name) for name in names[1:])]


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    panel = "A running cluster"
    for command in (deploy, undeploy, status, backup, restore, revisions, nodes, cordon, drain, uncordon, rebalance):
        app.command(rich_help_panel=panel)(command)
    app.command("list", rich_help_panel=panel)(list_apps)
    for command in (journal, logs, metrics):
        app.command(rich_help_panel=panel)(command)
