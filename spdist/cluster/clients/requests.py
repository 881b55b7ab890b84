"""What clients ask a cluster: one function for each request, from its arguments to path, body and how to read it. Pure.

The clients with and without ``await`` (`spdist.cluster.clients.client`, `spdist.cluster.clients.client_async`) only
send these.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from spdist.cluster.clients.asking import Reply, Request, may_follow
from spdist.cluster.clients.overview import AppStatus, ClusterStatus
from spdist.cluster.protocol.rows import from_json_row
from spdist.cluster.protocol.wire_errors import read_error
from spdist.display import Listing, time_text
from spdist.errors import ClusterError, ClusterUnreachableError, ErrorKind, NotFoundError
from spdist.java.numbers import whole_number
from spdist.language.types import Schema
from spdist.transports.reading import ReadEvent

if TYPE_CHECKING:
    from spdist.language.ast import SiddhiApp
    from spdist.planning.updates.change import TopologyChange

__all__ = ["Deployed", "EventPage", "NodeAnswer", "journal_listing", "log_listing", "move_listing", "revision_listing"]

T = TypeVar("T")
Json = dict[str, Any]

_DEPLOY_S = 60.0
_STATE_S = 120.0
#: Above what a manager waits for a group's answer.
_QUERY_S = 60.0
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Deployed:
    """An app that was handed to the cluster, and what became of it where it replaced another text."""

    name: str
    change: TopologyChange | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events of a stream, and where to go on.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    events : list of ReadEvent
        Timestamp (ms) and row of each, which bears its id.
    next : str
        The cursor behind them: with it any manager goes on, and no event comes twice or is left out.
    ended : bool
        Whether that is all that there is now.
    keys : list of tuple, optional
        What puts the events of all pages in the order that one machine gives.
    """

    schema: Schema
    events: list[ReadEvent]
    next: str
    ended: bool
    keys: list[tuple[Any, ...]]


# ----------------------------------------------------------------------------------------------------------------- apps
def text_of(app: str | SiddhiApp) -> str:
    """Return the SiddhiQL of an app."""
    if isinstance(app, str):
        return app
    from spdist.language.format import format_app

    return str(format_app(app))


def deploy(text: str, replace: bool) -> Request[Deployed]:
    """Ask for an app to be stored and run."""

    def read(body: Json) -> Deployed:
        from spdist.planning.updates.change import TopologyChange

        return Deployed(body["name"], TopologyChange.from_dict(body["change"]) if "change" in body else None)

    # Planning takes its time on a busy machine; asking again meanwhile would be a second request.
    return Request("PUT" if replace else "POST", "/siddhi-apps", _safe(read), text, _TEXT, timeout_s=_DEPLOY_S)


def apps() -> Request[list[str]]:
    """Ask for the names of all deployed apps."""
    return Request("GET", "/siddhi-apps", _safe(_names))


def app_status(app: str) -> Request[AppStatus]:
    """Ask how an app is doing, of whoever runs it."""
    return Request("GET", f"{_app(app)}/status?active=true", _safe(AppStatus.from_view))


def app_text(app: str) -> Request[str]:
    """Ask for the text of an app."""
    return Request("GET", _app(app), _field("content"))


def topology(app: str) -> Request[Json]:
    """Ask for groups, topics and placement of an app."""
    return Request("GET", f"/managers/topology/{_quoted(app)}", _with("name"))


def undeploy(app: str) -> Request[Any]:
    """Ask for an app to be removed."""
    return Request("DELETE", _app(app))


def backup(app: str) -> Request[str]:
    """Ask for the state of an app to be kept."""
    return Request("POST", f"{_app(app)}/backup", _field("revision"), timeout_s=_STATE_S)


def revisions(app: str) -> Request[list[str]]:
    """Ask which revisions of an app there are."""
    return Request("GET", f"{_app(app)}/revisions", _safe(lambda body: revision_listing(_names(body))))


def clear_revisions(app: str | None) -> Request[list[str]]:
    """Ask for the revisions of an app to be deleted, or of all."""
    path = "/siddhi-apps" if app is None else _app(app)
    return Request(
        "DELETE", f"{path}/revisions", _safe(lambda body: list(body.get("revisions", ()))), timeout_s=_STATE_S
    )


def restore(app: str, revision: str) -> Request[Any]:
    """Ask for an app to go back to a revision."""
    return Request("POST", f"{_app(app)}/restore", params={"revision": revision}, timeout_s=_STATE_S)


def query(app: str, text: str) -> Request[list[tuple[Any, ...]]]:
    """Ask a running app on demand; a question that changes a table is not repeated, as is no other."""
    return _query(app, text, lambda body: [tuple(row) for row in body["records"]], details=False)


def query_named(app: str, text: str) -> Request[tuple[list[str], list[tuple[Any, ...]]]]:
    """Ask the same, for the names of the attributes and the rows."""

    def read(body: Json) -> tuple[list[str], list[tuple[Any, ...]]]:
        return [str(one["name"]) for one in body["details"]], [tuple(row) for row in body["records"]]

    return _query(app, text, read, details=True)


def _query(app: str, text: str, read: Callable[[Json], T], *, details: bool) -> Request[T]:
    body: Json = {"appName": app, "query": text, **({"details": True} if details else {})}
    return Request("POST", "/stores/query", _safe(read), json.dumps(body), _JSON, timeout_s=_QUERY_S)


# -------------------------------------------------------------------------------------------------------------- streams
def feed(app: str, stream: str, events: Sequence[str], **numbers: Any) -> Request[Json]:
    """Put events into a stream, each as its JSON; a producer's numbers make it harmless to do so again."""
    head = "".join(f"{json.dumps(name)}: {json.dumps(value)}, " for name, value in numbers.items())
    return Request(
        "POST",
        f"{_app(app)}/streams/{_quoted(stream)}/events",
        content=f'{{{head}"events": [{", ".join(events)}]}}',
        headers=_JSON,
        timeout_s=30.0,
        harmless="producer" in numbers or not events,
    )


def events(
    app: str, stream: str, after: str, limit: int, wait_s: float = 0.0, *, keys: bool = False
) -> Request[EventPage]:
    """Ask for the next events of a stream, and wait for one where there is none."""
    params = {"after": after, "limit": str(limit), "wait": str(int(wait_s * 1000))}
    if keys:
        params["keys"] = "true"
    path = f"{_app(app)}/streams/{_quoted(stream)}/events"
    return Request("GET", path, _safe(_page), params=params, timeout_s=wait_s + 30.0)


def _page(body: Json) -> EventPage:
    schema = Schema.of([(name, kind) for name, kind in body["schema"]])
    rows = [
        ReadEvent(one["timestamp"], from_json_row(schema, one["data"]), one.get("id", "")) for one in body["events"]
    ]
    return EventPage(schema, rows, body["next"], body["ended"], [tuple(key) for key in body.get("keys", ())])


def in_order(pages: Iterable[EventPage]) -> list[ReadEvent]:
    """Return the events of pages that have keys, in the order that one machine gives."""
    keyed = [entry for page in pages for entry in zip(page.keys, page.events, strict=True)]
    keyed.sort(key=lambda entry: entry[0])
    return [event for _, event in keyed]


# ------------------------------------------------------------------------------------------------------------- evidence
def stored_inputs(instance: str) -> Request[Json]:
    """Ask a node for the files that hold the inputs of a group instance."""
    return Request("GET", f"{_app(instance)}/evidence", _with("layout", "assignment", "shards", "mergeWait"))


def input_files(instance: str, layout: str, shard: int, names: Sequence[str]) -> Request[list[bytes]]:
    """Ask a node for the first of some of these files."""

    def read(body: Json) -> list[bytes]:
        return [base64.b64decode(one, validate=True) for one in body["contents"]]

    params = {"layout": layout, "names": ",".join(names)}
    return Request("GET", f"{_app(instance)}/evidence/{shard}", _safe(read), params=params, timeout_s=30.0)


def held_messages(instance: str, topic: str, partition: int, offset: int) -> Request[list[tuple[int, int, bytes]]]:
    """Ask a node for offset, time and value of messages that a group of Spark Columns reads, from an offset on."""

    def read(body: Json) -> list[tuple[int, int, bytes]]:
        return [(int(at), int(sent), base64.b64decode(value, validate=True)) for at, sent, value in body["messages"]]

    params = {"topic": topic, "partition": str(partition), "offset": str(offset)}
    return Request("GET", f"{_app(instance)}/evidence/messages", _safe(read), params=params, timeout_s=60.0)


# ---------------------------------------------------------------------------------------------------------------- nodes
def nodes() -> Request[Json]:
    """Ask for leader, managers and workers."""
    return Request("GET", "/managers/nodes", _with("managers", "workers"))


def status() -> Request[ClusterStatus]:
    """Ask for the same and for all apps with their groups."""
    return Request("GET", "/managers/status", _safe(ClusterStatus.from_view))


def cordon(worker: str, drain: bool) -> Request[Any]:
    """Ask that a worker is given nothing new, and with `drain` that what it has goes elsewhere."""
    path = f"/resourceClusterWorkers/{_quoted(worker)}/cordon"
    return Request("PUT", path, content=json.dumps({"drain": drain}), headers=_JSON)


def uncordon(worker: str) -> Request[Any]:
    """Ask that a worker is given groups again."""
    return Request("DELETE", f"/resourceClusterWorkers/{_quoted(worker)}/cordon")


def rebalance(dry_run: bool) -> Request[list[Json]]:
    """Ask that groups are moved to where there is room, or only which would be."""
    params = {"dryRun": "true" if dry_run else "false"}
    return Request("POST", "/managers/rebalance", _listed("moves", move_listing), params=params, harmless=dry_run)


def journal(limit: int, **wanted: Any) -> Request[list[Json]]:
    """Ask what the cluster has decided, newest first; `wanted` are app, kind, since, until and before."""
    return Request(
        "GET", "/managers/journal", _listed("entries", journal_listing), params=_given({**wanted, "limit": limit})
    )


def logs(limit: int, **wanted: Any) -> Request[list[Json]]:
    """Ask a node for its last log records; `wanted` are app, group, level and since."""
    return Request("GET", "/logs", _field("records"), params=_given({**wanted, "limit": limit}))


def metrics() -> Request[str]:
    """Ask a node for its figures in Prometheus' format."""
    return Request("GET", "/metrics", _safe(str))


def _given(params: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if value is not None}


# ------------------------------------------------------------------------------------------------------- single nodes
@dataclass(frozen=True, slots=True)
class NodeAnswer(Generic[T]):
    """What one node has answered: a value, or why there is none."""

    node: str
    value: T | None
    problem: str = ""


def asked_of(manager: str, view: Json, node: str | None) -> list[tuple[str, str]]:
    """Return name and base URL of a node, or of all, of what `nodes` answers.

    Parameters
    ----------
    manager : str
        Who has told of them: where the password went over TLS, it goes nowhere in clear.
    view : dict
        The answer.
    node : str or None
        The id of one of them.

    Raises
    ------
    NotFoundError
        There is no such node.
    """
    known = [(one["id"], one["url"]) for one in (*view["managers"], *view["workers"])]
    chosen = [(name, url) for name, url in known if node in (None, name) and may_follow(manager, url)]
    if not chosen:
        names = ", ".join(name for name, _ in known)
        raise NotFoundError(f"there is no node {node} that could be asked", hint=f"there are: {names}")
    return chosen


def answer_of(node: str, url: str, request: Request[T], reply: Reply) -> NodeAnswer[T]:
    """Return what a node has answered.

    Raises
    ------
    SpdistError
        What it reported.
    """
    if reply.status >= 300:
        raise read_error(reply.body, f"{request.method} {url}{request.path} ({reply.status})")
    return NodeAnswer(node, request.read(reply.body))


def that_answered(node: str | None, answers: Iterable[NodeAnswer[T]]) -> dict[str, T]:
    """Return the values by node; of one that was asked for by name there must be one.

    Raises
    ------
    ClusterUnreachableError
        It did not answer.
    """
    found = {}
    for one in answers:
        if one.value is not None:
            found[one.node] = one.value
        elif node is not None:
            raise ClusterUnreachableError(f"node {node} does not answer: {one.problem}", hint="is it up?")
    return found


def with_nodes(node: str | None, answers: Iterable[NodeAnswer[list[Json]]]) -> list[Json]:
    """Return the records of all nodes, each with its node."""
    found = that_answered(node, answers)
    return log_listing({"node": name, **one} for name, records in found.items() for one in records)


def _app(name: str) -> str:
    return f"/siddhi-apps/{_quoted(name)}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _field(name: str) -> Callable[[Json], Any]:
    return _safe(lambda body: body[name])


def _listed(name: str, listing: Callable[[list[Json]], list[Json]]) -> Callable[[Json], list[Json]]:
    return _safe(lambda body: listing(body[name]))


def _with(*names: str) -> Callable[[Json], Json]:
    def read(body: Json) -> Json:
        for name in names:
            body[name]
        return body

    return _safe(read)


def _names(body: Any) -> list[str]:
    if not isinstance(body, list) or not all(isinstance(one, str) for one in body):
        raise TypeError("no list of names")
    return body


def _safe(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return `read`, which says so where the answer has another shape: of another version, or of no manager."""

    def careful(body: Any) -> T:
        try:
            return read(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ClusterError(
                f"the answer is not what was expected ({error!r}): {str(body)[:200]}",
                hint="is that a manager of spdist, and of the same version?",
                code=ErrorKind.UNKNOWN_ERROR,
            ) from error

    return careful


# Lists that a cluster answers with, which show themselves as tables: journal, logs, revisions, moves. Pure.


_JOURNAL = ("node", "term", "kind", "app", "group", "worker", "user", "message")
_LOGS = ("time", "node", "level", "app", "group", "message")
_MOVES = ("group", "from", "to", "reason")


def journal_listing(entries: Iterable[Json]) -> Listing[Json]:
    """Return entries of the journal, as ``GET /managers/journal`` has them."""
    return Listing(entries, ("time (UTC)", *_JOURNAL), lambda one: (time_text(one["time"]), *_fields(_JOURNAL)(one)))


def log_listing(records: Iterable[Json]) -> Listing[Json]:
    """Return log records of nodes, as ``GET /logs`` has them."""
    return Listing(records, _LOGS, _fields(_LOGS))


def move_listing(moves: Iterable[Json]) -> Listing[Json]:
    """Return moves of groups from worker to worker."""
    return Listing(moves, _MOVES, _fields(_MOVES))


def revision_listing(names: Iterable[str]) -> Listing[str]:
    """Return the names of revisions, which begin with the time at which they were kept, ms."""
    return Listing(names, ("revision", "kept at (UTC)"), lambda name: (name, _kept_at(name)))


def _kept_at(name: str) -> str:
    ms = whole_number(name.partition("__")[0], 0)
    return "" if ms is None else time_text(ms)


def _fields(names: Sequence[str]) -> Callable[[Json], list[object]]:
    return lambda one: [one.get(name) for name in names]
