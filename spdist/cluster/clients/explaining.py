"""Why a deployed app has put something out: what the states of its groups hold is fetched, and replayed here.

Workers give files, and messages of topics (`spdist.cluster.workers.evidence_service`), and nothing else: no replay
costs them anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spdist.cluster.clients import requests
from spdist.cluster.clients.asking import Request
from spdist.cluster.clients.calling import LeaderClient
from spdist.cluster.clients.explaining_columns import ColumnsGroup
from spdist.engine.replay.causes import BUDGET, Budget
from spdist.engine.replay.columns_log import MessageLog, ResultId
from spdist.engine.replay.shard_log import ShardLog, shard_log
from spdist.engine.replay.tracing import Which, trace
from spdist.errors import ClusterError, ClusterUnreachableError, ErrorKind, NotFoundError
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.checking.scope import undefined
from spdist.language.parsing.parser import parse
from spdist.planning.pictures.graph import app_graph
from spdist.planning.topology import shard_names
from spdist.progress import ProgressLine
from spdist.runtime.column_inputs import ColumnInputs
from spdist.runtime.stored_inputs import StoredInputs, stored
from spdist.transports.reading import ReadEvent

if TYPE_CHECKING:
    from spdist.engine.replay.evidence import Evidence

__all__ = ["explain"]

T = TypeVar("T")
#: How often files are asked for anew because the group has taken a snapshot meanwhile.
_ATTEMPTS = 5
#: Characters of the names of files in one request.
_NAMES = 8000


def explain(
    client: LeaderClient,
    app: str,
    stream: str,
    which: Which = -1,
    *,
    id: str | None = None,
    attributes: Sequence[str] | None = None,
    budget: int | None = None,
    scripts: bool | None = None,
) -> Evidence:
    """Return why a deployed app has put out an event; see `Deployment.explain`."""
    if id is None and isinstance(which, ReadEvent):
        id = which.id
    with ProgressLine() as line:
        line.show(f"looking for the groups of {app}")
        text = client.do(requests.app_text(app))
        checked = _checked(text, scripts)
        if stream not in checked.streams:
            raise undefined("stream", stream, None, checked.streams)
        logs = _ClusterLogs(client, app, text, scripts)
        most = Budget(BUDGET if budget is None else budget)
        return trace(checked, logs, stream, which, id=id, attributes=attributes, budget=most, progress=line.show)


def _checked(text: str, scripts: bool | None) -> CheckedApp:
    return check(parse(text), catalog(scripts), text)


class _ClusterLogs:
    """The logs of an app's groups, from the workers that have them; see `spdist.engine.replay.tracing.Logs`."""

    def __init__(self, client: LeaderClient, app: str, text: str, scripts: bool | None) -> None:
        self._client = client
        self._scripts = scripts
        self._texts: dict[str, str]
        #: By instance name and address of its worker, nothing while it has none; for a server there is no such table.
        self._places: dict[str, tuple[str, str] | None] | None
        try:
            view = client.do(requests.topology(app))
        except NotFoundError:  # it is there: this is a server, on which an app is one group
            self._texts, self._places = {app: text}, None
            return
        nodes = client.do(requests.nodes())
        instances = [one for group in view["groups"] for one in group["instances"]]
        self._texts = {one["name"]: one["text"] for one in instances}
        self._places = {
            one["name"]: requests.asked_of(client.managers[0], nodes, one["worker"])[0] if one["worker"] else None
            for one in instances
        }

    def writers(self, stream: str) -> Sequence[str]:
        """Return under which names a stream is put out."""
        found = [
            name
            for instance, text in self._texts.items()
            if stream in {link.target for link in app_graph(_checked(text, self._scripts)).links}
            for name in self._producers(instance)
        ]
        if not found:
            raise NotFoundError(
                f"no query of the app writes '{stream}': its events come from outside",
                hint="name a stream that queries write",
            )
        return found

    def message(self, id: ResultId, stream: str) -> MessageLog:
        """Return of what a group of Spark Columns that writes a stream has made a result.

        Raises
        ------
        NotFoundError
            There is no such group, or the message is not there; says why.
        ClusterUnreachableError
            Its worker does not answer.
        """
        problems: list[NotFoundError] = []
        for name in self.writers(stream):
            if (columns := self._columns(name)) is not None:
                try:
                    return columns.message(id)
                except NotFoundError as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]
        raise NotFoundError(
            f"{id} is no message of '{stream}' of this app as it runs now",
            hint="such ids are given by groups that run as Spark Columns; none of those writes it now",
        )

    def _producers(self, instance: str) -> Sequence[str]:
        kept, _ = self._kept(instance)
        return (instance,) if isinstance(kept, ColumnInputs) else shard_names(instance, len(kept.shards))

    def _columns(self, instance: str) -> ColumnsGroup | None:
        """Return an instance that runs as Spark Columns; None for others."""
        kept = self._kept(instance)[0] if instance in self._texts else None
        if not isinstance(kept, ColumnInputs):
            return None
        return self._group(instance, kept)

    def _group(self, instance: str, inputs: ColumnInputs) -> ColumnsGroup:
        return ColumnsGroup(instance, inputs, lambda request: self._ask(instance, request), bool(self._scripts))

    def log(self, producer: str) -> ShardLog:
        """Return the log of an instance or shard.

        Raises
        ------
        NotFoundError
            It has no state, or that has other shards now.
        ClusterUnreachableError
            Its worker does not answer.
        """
        # An instance with several shards publishes under the name of each, <instance>/<number>
        instance = producer if producer in self._texts else producer.rpartition("/")[0]
        if instance not in self._texts:
            raise NotFoundError(f"no group {producer} runs now")
        attempts = _ATTEMPTS
        while True:
            attempts -= 1
            kept, merge_wait_ms = self._kept(instance)
            if isinstance(kept, ColumnInputs):
                return self._group(instance, kept).log()
            names = shard_names(instance, len(kept.shards))
            if producer not in names:
                raise NotFoundError(f"{producer} is no more: the state of {instance} has been laid out anew since")
            try:
                return self._fetched(instance, kept, names.index(producer), merge_wait_ms)
            except NotFoundError:
                if not attempts:
                    raise

    def _kept(self, instance: str) -> tuple[StoredInputs | ColumnInputs, int]:
        body = self._ask(instance, requests.stored_inputs(instance))
        kind = StoredInputs if body.get("topics") is None else ColumnInputs
        try:
            return kind.from_dict(body), int(body["mergeWait"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ClusterError(
                f"what {instance} was given is not told as expected ({error!r})",
                hint="is the worker of this version?",
                code=ErrorKind.UNKNOWN_ERROR,
            ) from error

    def _fetched(self, instance: str, kept: StoredInputs, shard: int, merge_wait_ms: int) -> ShardLog:
        left = list(kept.shards[shard].files)
        files: dict[str, bytes] = {}
        while left:
            # As many as surely fit in an address, each with a comma
            names = left[: max(1, _NAMES // (len(max(left, key=len)) + 1))]
            contents = self._ask(instance, requests.input_files(instance, kept.layout, shard, names))
            if not 0 < len(contents) <= len(names):
                raise NotFoundError(f"{len(contents)} files of {instance} came, not the {len(names)} asked for")
            # A node answers with the first ones only, as many as one answer may hold
            files |= dict(zip(names, contents, strict=False))
            left = left[len(contents) :]
        with tempfile.TemporaryDirectory(prefix="spdist-") as directory:
            snapshot, segments = stored(Path(directory), files)
        checked = _checked(kept.assignment.text, self._scripts)
        return shard_log(kept.assignment, checked, snapshot, segments, merge_wait_ms)

    def _ask(self, instance: str, request: Request[T]) -> T:
        """Ask the worker that has an instance."""
        if self._places is None:
            return self._client.do(request)
        place = self._places[instance]
        if place is None:
            raise NotFoundError(f"{instance} has no worker now, so nobody tells what it was given", hint="try again")
        answer = self._client.ask_node(place, request)
        if answer.value is None:
            raise ClusterUnreachableError(
                f"worker {place[0]} does not answer: {answer.problem}",
                hint="what a group was given is fetched from its worker, which must be reached from here",
            )
        return answer.value
