"""Where the state of a streaming transformation is: below the checkpoint of the query that it is part of.

``<checkpoint>/spdist/<name>/`` holds a directory for each shard (`spdist.engine.shards.state`), and the file ``query``,
made once when all of them are there: which query of Spark this state belongs to, and what processes it. A state is of
use to that query alone, as only its checkpoint says which batch comes next. So everything that does not belong together
is found before anything is processed: another query, another app, another checkpoint, a state that is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spdist.engine.frames.fitting import FrameRequest
from spdist.engine.frames.plan import FramePlan
from spdist.engine.shards.places import create_file
from spdist.engine.shards.state import Segment, StateStore
from spdist.errors import EngineError, StateError
from spdist.language.format import format_app
from spdist.operators.core.codec import seal, unseal
from spdist.planning.compiled import tree_of

__all__ = ["FrameDirectory", "QueryStart"]

_KIND, _FORMAT = "frames", 1
_NEW = "give the query a new checkpoint, in both places; it begins anew there"


@dataclass(frozen=True, slots=True)
class QueryStart:
    """What a task knows of the query that it works for.

    Parameters
    ----------
    query : str
        The id of the streaming query, which its checkpoint keeps.
    run : str
        The id of this start of it.
    batch : int
        The number of the batch.
    """

    query: str
    run: str
    batch: int


@dataclass(frozen=True, slots=True)
class FrameDirectory:
    """The directory of one transformation.

    Parameters
    ----------
    checkpoint : Path
        The ``checkpointLocation`` of the query.
    name : str
        Tells the transformations of a query apart.
    """

    checkpoint: Path
    name: str

    @classmethod
    def of(cls, request: FrameRequest, app: str, base: str | os.PathLike[str] = ".") -> FrameDirectory:
        """Return the one that is asked for; a relative checkpoint starts from `base`, as it does for Spark.

        Raises
        ------
        EngineError
            There is no checkpoint, or it is no directory that tasks can reach.
        """
        given = request.checkpoint
        if not given:
            raise EngineError(
                f"the app '{app}' keeps state from batch to batch, and has no place for it",
                hint="give transform(…, checkpoint='DIR') the directory that .option('checkpointLocation', 'DIR') "
                "gives the query; all executors must see it",
            )
        place = os.fspath(given)
        scheme, colon, rest = place.partition(":")
        if colon and scheme == "file":
            place = "/" + rest.lstrip("/")
        elif colon and len(scheme) > 1:
            raise EngineError(
                f"checkpoint={place!r} is no directory: state is kept in files that all executors see as such",
                hint="mount it, or choose a directory of a disk that all executors share",
            )
        return cls(Path(base, place).absolute(), request.name or app)

    @property
    def directory(self) -> Path:
        """Where the state is."""
        return self.checkpoint / "spdist" / quote(self.name, safe=" ").replace(".", "%2E")  # a name may be ..

    def store(self, shard: int, shards: int) -> StateStore:
        """Return the state of a shard."""
        return StateStore(self.directory / f"shard-{shard + 1}-of-{shards}")

    # ------------------------------------------------------------------------------------------------- in the driver
    def shards(self) -> int | None:
        """Return in how many shards the state is; None where there is none yet."""
        kept = self._kept()
        return None if kept is None else int(kept["shards"])

    def check(self, plan: FramePlan) -> None:
        """Raise StateError where there is a state that another plan has made."""
        kept = self._kept()
        if kept is not None:
            self._must_be(kept, plan)

    # ------------------------------------------------------------------------------------------------------ in tasks
    def enter(self, plan: FramePlan, start: QueryStart) -> Segment:
        """Return in whose name the shards of a query go on; they are made with its first batch.

        Raises
        ------
        StateError
            The state belongs to another query or plan, or is missing, or the checkpoint is not that of the query.
        """
        self._must_be_the_checkpoint(start)
        self._must_be_alone(plan, start)
        kept = self._kept()
        owned = Segment(0, start.query, 0, 0, {}, opening=True, assignment=_hash(plan))
        if kept is None:
            self._begin(plan, start, owned)
        else:
            self._must_belong(str(kept["query"]), start)
            self._must_be(kept, plan)
        return owned

    def check_shard(self, store: StateStore, start: QueryStart) -> None:
        """Raise StateError where a shard's state is not that of the batch before, or of the batch itself."""
        last = store.last()
        if last is None:
            raise StateError(f"the state in {store.directory} is missing", hint=_NEW)
        self._must_belong(last.owner, start)
        if last.batch > start.batch:
            raise StateError(
                f"the checkpoint {self.checkpoint} is at batch {start.batch}, the state in {store.directory} at batch "
                f"{last.batch}: an older checkpoint was put back, or offsets are committed asynchronously",
                hint="put the whole directory back, 'spdist' included, and leave out asyncProgressTrackingEnabled",
            )

    def _begin(self, plan: FramePlan, start: QueryStart, owned: Segment) -> None:
        if start.batch > 0:
            raise StateError(
                f"the query of the checkpoint {self.checkpoint} has come to batch {start.batch}, but there is no state "
                f"of the app in {self.directory}: it was removed, or the app is new in this query",
                hint=_NEW,
            )
        for shard in range(plan.shards):
            store = self.store(shard, plan.shards)
            last = store.last()
            # Another task of the first batch may have opened it, or this one, before it failed
            if last is None:
                store.open(start.query, assignment=owned.assignment)
            else:
                self._must_belong(last.owner, start)
        told = {"query": start.query, "shards": plan.shards, "hash": owned.assignment, **_told(plan)}
        self._write("query", told)

    def _must_be_the_checkpoint(self, start: QueryStart) -> None:
        place = self.checkpoint / "metadata"
        try:
            known = json.loads(place.read_text(encoding="utf-8"))["id"]
        except (OSError, ValueError, KeyError, TypeError):
            known = None
        if known != start.query:
            what = "belongs to another query" if known else "holds no checkpoint that this process can see"
            raise StateError(
                f"checkpoint='{self.checkpoint}' {what}, not that of the running one ({start.query})",
                hint=f"start it with .option('checkpointLocation', '{self.checkpoint}'), the same directory; all "
                "executors must see it",
            )

    def _must_belong(self, owner: str, start: QueryStart) -> None:
        if owner != start.query:
            raise StateError(
                f"the state in {self.directory} belongs to the query {owner}, not to {start.query}: its checkpoint was "
                "removed, and the state was not",
                hint=f"remove {self.directory} to begin anew, or put the checkpoint back",
            )

    def _must_be(self, kept: Mapping[str, Any], plan: FramePlan) -> None:
        """Raise StateError where a state was made by another plan."""
        told = _told(plan)
        for what, key in (("the streams", "inputs"), ("the outputs", "outputs")):
            if kept[key] != told[key]:
                raise StateError(
                    f"the state in {self.directory} was made with {what} {', '.join(kept[key])}, not with "
                    f"{', '.join(told[key])}",
                    hint=_NEW,
                )
        if kept["shards"] != plan.shards:
            raise StateError(
                f"the state in {self.directory} is in {kept['shards']} shards, not in {plan.shards}",
                hint=f"write shards={kept['shards']}, or leave it out; or {_NEW}",
            )
        if kept["hash"] != _hash(plan):
            raise StateError(f"the state in {self.directory} was made by another text of the app", hint=_NEW)

    def _must_be_alone(self, plan: FramePlan, start: QueryStart) -> None:
        """See to it that only one transformation of a running query uses this state."""
        name = f"run-{quote(start.run, safe='')}"
        # The first one to write stays: whoever reads another token than its own is the second transformation
        self._write(name, {"token": plan.token})
        if self._read(name)["token"] != plan.token:
            raise StateError(
                f"two transformations of one query have the name '{self.name}', and so the same state",
                hint="give each its own: transform(…, name='first')",
            )
        # Of starts that are over, as Spark runs a query only once at a time
        for old in self.directory.glob("run-*"):
            if old.name != name:
                with contextlib.suppress(OSError):
                    old.unlink()

    def _kept(self) -> dict[str, Any] | None:
        return self._read("query") if (self.directory / "query").exists() else None

    def _read(self, name: str) -> dict[str, Any]:
        place = self.directory / name
        try:
            found: dict[str, Any] = json.loads(unseal(_KIND, _FORMAT, place.read_bytes(), str(place)))
        except OSError as error:
            raise StateError(f"{place} cannot be read: {error}") from error
        return found

    def _write(self, name: str, told: Mapping[str, Any]) -> None:
        """Write a file, unless it is there."""
        try:
            create_file(self.directory / name, seal(_KIND, _FORMAT, json.dumps(told).encode()))
        except OSError as error:
            raise StateError(f"the state in {self.directory} cannot be written: {error}") from error


def _told(plan: FramePlan) -> dict[str, list[str]]:
    return {"inputs": [one.stream for one in plan.inputs], "outputs": [name for name, _ in plan.outputs]}


def _hash(plan: FramePlan) -> str:
    """Return a short text that plans share of which one can go on from the state of the other."""
    told = [format_app(tree_of(plan.text)), _told(plan), plan.shards]
    return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogatepass")).hexdigest()[:16]
