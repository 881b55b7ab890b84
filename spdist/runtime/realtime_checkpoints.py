"""How far instances that are Columns have read, and the way from there to what follows: another text, or an island.

Spark keeps that in a checkpoint, of which each text has one of its own. Of what a query has put out last the checkpoint
does not know yet. So before something else follows, the query of the old text runs once more, to the end of what is
there, and repeats that under the ids that it had. What comes after belongs to whoever follows.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.engine.shards.layout import assignment_hash, kept_assignment, write_assignment
from spdist.engine.shards.places import Place, names_in, sync_directory
from spdist.engine.shards.state import Positions, state_directory
from spdist.errors import EngineError, SiddhiAppError, StateError
from spdist.planning.columns.native import Obstacle
from spdist.planning.columns.realtime import RealtimePlan, realtime_plan
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import Assignment
from spdist.runtime.kafka_inputs import KafkaReads, kafka_inputs, user_sources
from spdist.runtime.shard_states import InstanceState
from spdist.runtime.takeover import Takeover
from spdist.transports.opening import open_transport, transport_settings

if TYPE_CHECKING:
    from spdist.engine.spark.session import SparkHost

__all__ = ["Checkpoint", "Checkpoints", "ended", "follows", "island_ended", "planned"]

_NAME = re.compile(r"[0-9]{6}")
#: The file of a checkpoint with the offsets at which its query begins.
_STARTING = "starting"


def planned(assignment: Assignment, mode: str, scripts: bool = False) -> RealtimePlan | None:
    """Return how an instance runs as one query of Columns, or None where it must be an island.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    mode : str
        ``spark.mode``: ``auto``, ``micro-batch`` or ``real-time``.
    scripts : bool
        Whether functions that apps define in Python are run.

    Raises
    ------
    EngineError
        `mode` is ``real-time``, and the instance is not for it.
    SiddhiAppError
        An option of its Kafka topics is wrong; shows where.
    """
    against = Obstacle("its streams", "go on to other groups, or come from them")
    alone = not assignment.outputs and not any(one.producers for one in assignment.inputs)
    found: RealtimePlan | Obstacle = against
    if alone:
        instance = CompiledInstance.of(assignment, scripts)
        try:
            found = realtime_plan(instance.checked, instance.catalog)
        except SiddhiAppError as error:
            raise error.show_in(assignment.text) from None
    if isinstance(found, RealtimePlan):
        return found
    if mode == "real-time":
        raise EngineError(f"group {assignment.name} cannot run in real time: {found}", hint="set spark.mode to auto")
    return None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A directory in which Spark keeps how far the query of one text has read.

    Parameters
    ----------
    directory : Path
        Where.
    assignment : Assignment
        The text.
    starting : str
        Where it begins while Spark has noted nothing: ``earliest``, ``latest``, or offsets as Spark's Kafka source
        takes them.
    """

    directory: Path
    assignment: Assignment
    starting: str

    def offsets(self) -> Positions:
        """Return where reading goes on by topic of Kafka, after the last batch that was committed."""
        commits = self.directory / "commits"
        numbers = [int(path.name) for path in commits.iterdir() if path.name.isdecimal()] if commits.exists() else []
        if not numbers:
            return _offsets(self.starting) if self.starting.startswith("{") else {}
        path = self.directory / "offsets" / str(max(numbers))
        try:
            # Lines of the version and of metadata, then one for each source, of which there is one
            return _offsets(path.read_text(encoding="utf-8").splitlines()[2])
        except (OSError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"Spark's checkpoint {path} cannot be read: {error}") from error

    def begun(self) -> Positions:
        """Return where reading began by topic of Kafka; of those that are missing nobody knows."""
        path = self.directory / "sources" / "0" / "0"
        try:
            # A byte of an old format, the version, then the offsets, which Spark notes at the first start.
            return _offsets(path.read_text(encoding="utf-8").partition("\n")[2])
        except (OSError, ValueError, AttributeError):
            return _offsets(self.starting) if self.starting.startswith("{") else {}


class Checkpoints:
    """The checkpoints of one instance: the newest one counts, and none where an island has gone on from it.

    Parameters
    ----------
    location : Place
        Below which the states of all instances are. In a bucket there are no checkpoints: Spark writes to directories.
    name : str
        Of the instance.
    """

    def __init__(self, location: Place, name: str) -> None:
        place = state_directory(location / ".checkpoints", name)
        self._directory = place if isinstance(place, Path) else None

    def newest(self) -> Checkpoint | None:
        """Return the one that counts.

        Raises
        ------
        StateError
            It is damaged.
        """
        if self._directory is None:
            return None
        names = names_in(self._directory)
        found = self._directory / max((name for name in names if _NAME.fullmatch(name)), default="")
        assignment = kept_assignment(found) if found != self._directory else None
        if assignment is None:
            return None
        return Checkpoint(found, assignment, (found / _STARTING).read_text(encoding="utf-8"))

    def begin(self, assignment: Assignment, starting: str) -> Checkpoint:
        """Make a new one the one that counts."""
        assert self._directory is not None, "in a bucket nothing runs in real time"
        before = self.newest()
        number = int(before.directory.name) + 1 if before is not None else 1
        # Under its own name only when it is whole: a name of digits counts
        made = self._directory / f".{uuid.uuid4().hex}.tmp"
        made.mkdir(parents=True)
        (made / _STARTING).write_text(starting, encoding="utf-8")
        write_assignment(made, assignment)
        found = made.rename(self._directory / f"{number:06d}")
        sync_directory(self._directory)
        if before is not None:
            shutil.rmtree(before.directory, ignore_errors=True)
        return Checkpoint(found, assignment, starting)

    def forget(self) -> None:
        """Let none count any more: the state knows how far it was."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def ended(host: SparkHost, found: Checkpoint, after: Assignment) -> Positions:
    """Let the query of a checkpoint read to the end of what is there, and return where `after` goes on.

    Parameters
    ----------
    host : SparkHost
        Started.
    found : Checkpoint
        Whose query does not run.
    after : Assignment
        What follows.

    Returns
    -------
    Positions
        Of users' topics, under the names that `after` has for them.
    """
    from spdist.engine.native.realtime import RealtimeSettings, start_realtime

    scripts = host.config.script.python_enabled
    plan = planned(found.assignment, "real-time", scripts)
    assert plan is not None
    name = f"the end of {found.assignment.name} {uuid.uuid4().hex}"
    settings = RealtimeSettings(name, str(found.directory), "available-now", found.starting)
    start_realtime(host, plan, settings).query.awaitTermination()
    read = found.offsets()
    return {
        source.alias(topic): read[topic]
        for source in user_sources(after, scripts, host.allowed)
        for topic in source.reads.topics
        if topic in read
    }


def island_ended(host: SparkHost, state: InstanceState, owner: str) -> Positions:
    """Bring an instance that ran as an island to the point where Columns go on, and return that.

    What it may not have published has left after that, and nothing waits for its turn. Nobody else goes on from its
    state.

    Parameters
    ----------
    host : SparkHost
        Started.
    state : InstanceState
        Of the instance, in one shard.
    owner : str
        A new one.

    Returns
    -------
    Positions
        Of users' topics, all partitions that are there; none where the instance has never run.
    """
    from spdist.engine.spark.tasks import catch_up

    config, assignment = host.config, state.assignment
    known = state.positions()
    if known:
        scripts = config.script.python_enabled
        reads = kafka_inputs(
            (assignment,), config.transports, lambda _topic: 1, {assignment.name: known}, scripts, host.allowed
        )
    else:
        # It has never run, so no broker need be asked
        reads = KafkaReads((assignment,), {})
    transport = open_transport(transport_settings(config.transports))
    files = host.scratch / "groups" / uuid.uuid4().hex
    files.mkdir(parents=True)
    try:
        taking = Takeover(assignment.name, [state], host, 1, transport)
        settings = taking.take(owner, files, reads, lambda: contextlib.nullcontext(True))
        assert settings is not None
        tick = max(shard.opening.tick for shard in settings.shards)
        # A batch without records puts out again what may not have been published
        catch_up(settings, [((), {})], tick, closing=True)
    finally:
        transport.close()
        shutil.rmtree(files, ignore_errors=True)
    return state.positions()


def follows(found: Checkpoint, assignment: Assignment) -> bool:
    """Tell whether the query of a checkpoint is that of `assignment`, and goes on by itself."""
    return assignment_hash(found.assignment) == assignment_hash(assignment)


def _offsets(text: str) -> Positions:
    read = json.loads(text)
    return {topic: {int(number): offset for number, offset in offsets.items()} for topic, offsets in read.items()}
