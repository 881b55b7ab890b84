"""What is known of a group instance, for those who watch it. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from spdist.runtime.progress import counters_of, rejected_of
from spdist.runtime.revision_files import millis_of

__all__ = ["GroupState", "InstanceStatus"]

GroupState = Literal["STARTING", "RUNNING", "STOPPED", "FAILED"]


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """What is known of a group instance.

    Parameters
    ----------
    name : str
        Of the instance.
    state : str
        STARTING until its query has committed a batch, then RUNNING; STOPPED when asked to, FAILED otherwise.
    error : str, optional
        Why it failed; of a running one, why it waits: the server that keeps its topics does not answer.
    batches : int
        Batches that this start has committed.
    events_in, events_out : int
        Events processed and published, since the group began, over all its starts.
    clock : int, optional
        Its event time, ms; None before anything has arrived.
    lag : int
        Records that are in its topics and not yet read.
    batch_ms : int
        How long its last batch took, ms.
    state_bytes : int
        Bytes of its newest snapshot and of the log after it: what another worker would load.
    memory_bytes : int
        Size of the largest process that holds its live state.
    waiting : str, optional
        At which event its batch stands, why a sink waits for its receiver, or why nothing comes in from a source.
    state_rows : int
        Rows and events that windows, tables, patterns, aggregations and keys hold, some seconds ago; of large states an
        estimate.
    last_revision : str, optional
        Name of its newest revision.
    rejected : mapping of str to int
        Of each stream that others than groups feed: how many messages, and events of messages, could not be read since
        this start.
    """

    name: str
    state: GroupState
    error: str | None = None
    batches: int = 0
    events_in: int = 0
    events_out: int = 0
    clock: int | None = None
    lag: int = 0
    batch_ms: int = 0
    state_bytes: int = 0
    memory_bytes: int = 0
    waiting: str | None = None
    state_rows: int = 0
    last_revision: str | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def running(cls, name: str, progress: Any, fed: Sequence[str], lag: int, trouble: str | None) -> InstanceStatus:
        """Return the status of an instance whose query has told of its newest batch.

        Parameters
        ----------
        name : str
            Of the instance.
        progress
            What Spark told, with our counters.
        fed : sequence of str
            The streams that outsiders feed, by whose numbers rejected messages are counted.
        lag : int
            See above.
        trouble : str, optional
            Why it waits for the server that keeps its topics.
        """
        counters = counters_of(progress)
        return cls(
            name=name,
            state="RUNNING",
            batches=progress.batchId + 1,
            events_in=counters["events_in"],
            events_out=counters["events_out"],
            clock=counters["clock"],
            lag=lag,
            error=trouble,
            batch_ms=progress.durationMs.get("triggerExecution", 0),
            state_bytes=counters["state_bytes"],
            memory_bytes=counters["memory_bytes"],
            state_rows=counters["state_rows"],
            rejected=rejected_of(counters, fed),
        )

    @property
    def last_revision_ms(self) -> int | None:
        """When the newest revision was taken, ms since epoch."""
        return None if self.last_revision is None else millis_of(self.last_revision)
