"""What crosses the network as JSON: heartbeats as strict models, to and from `spdist.cluster.protocol.messages`.

Names and shape of the heartbeat are those of WSO2 SP 4.x (``POST /resourceManager/heartbeat``: its wire names are Java
field names), and our fields in addition. Passwords never cross: WSO2 sends those of the managers to every worker.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import accumulate, takewhile
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.leader.members import LONGEST_ID
from spdist.cluster.protocol.group_lists import KnownAssignments, assignments_digest
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    GroupPhase,
    GroupReport,
    JoinedState,
    MemoryReport,
    WorkerReport,
    WorkerTiming,
    fingerprint,
)
from spdist.cluster.protocol.reports import LONGEST_ERROR, ChangedGroups
from spdist.config.kinds import is_host
from spdist.errors import ClusterError
from spdist.planning.topology import Assignment
from spdist.transports.retracted import Undone

__all__ = [
    "MAX_BODY_BYTES",
    "SAME_VERSION",
    "Address",
    "AssignedMessage",
    "HeartbeatAnswer",
    "HeartbeatRequest",
    "Leader",
    "LeaderClaim",
    "Message",
    "OrderMessage",
    "OutcomeMessage",
    "parse_message",
    "read_message",
]

#: Largest body a node accepts: apps and heartbeats alike.
MAX_BODY_BYTES = 1 << 20

_Name = Annotated[str, Field(min_length=1, max_length=500)]
#: One line in a log, and text that every database takes. A longer id than those keep is refused with a reason.
_Id = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Incarnation = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Digest = Annotated[str, Field(min_length=1, max_length=64)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Metrics = Annotated[dict[str, float], Field(max_length=100)]
_NOTHING = KnownAssignments()
_Model = TypeVar("_Model", bound=BaseModel)
#: What a node hints at that cannot read what another one sent.
SAME_VERSION = "nodes of one cluster must run the same version of spdist"


class Message(BaseModel):
    """A JSON object with WSO2's camelCase names; no conversions between types, no unknown fields."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    def to_json(self) -> str:
        """Return the message as JSON text."""
        return self.model_dump_json(by_alias=True)


def read_message(kind: type[_Model], body: bytes, hint: str | None = SAME_VERSION) -> _Model:
    """Read a message of `kind` from JSON text; `hint` is for who sent it; otherwise as `parse_message`."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(kind, error, hint) from error


def parse_message(kind: type[_Model], value: object, hint: str | None = SAME_VERSION) -> _Model:
    """Read a message of `kind` from a JSON value; `hint` is for who sent it.

    Raises
    ------
    ClusterError
        A field is missing, unknown or of another type; names the first few.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _invalid(kind, error, hint) from error


def _invalid(kind: type[BaseModel], error: ValidationError, hint: str | None) -> ClusterError:
    found = [f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors()[:5]]
    return ClusterError(f"the message is not a valid {kind.__name__}: {'; '.join(found)}", hint=hint)


def _host(written: str) -> str:
    if not is_host(written):
        raise ValueError("is no host")
    return written


class Address(Message):
    """Where a node is reached (WSO2 ``httpsInterface``)."""

    host: Annotated[_Name, AfterValidator(_host)]
    port: Annotated[int, Field(ge=1, le=65535)]
    scheme: Literal["http", "https"] = "https"

    @classmethod
    def from_url(cls, url: str) -> Address:
        """Return the address of a base URL."""
        parts = urlsplit(url)
        scheme: Literal["http", "https"] = "http" if parts.scheme == "http" else "https"
        return cls(host=parts.hostname or "", port=parts.port or (80 if scheme == "http" else 443), scheme=scheme)

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class GroupState(Message):
    """One group instance of a worker; see `GroupReport`."""

    name: _Name
    app: _Name
    state: Literal["WAITING", "STARTING", "RUNNING", "STOPPING", "STOPPED", "FAILED"]
    fingerprint: Annotated[str, Field(max_length=64)]
    error: Annotated[str, Field(max_length=LONGEST_ERROR)] = ""
    metrics: _Metrics = {}


class _UndoneFields(Message):
    """The fields of `Undone`."""

    topic: Annotated[str, Field(max_length=500)]
    partition: Annotated[int, Field(ge=0)]
    producer: Annotated[str, Field(max_length=500)]
    end: Annotated[int, Field(ge=0)]
    seq: Annotated[int, Field(ge=0)]
    clock: int


def _undone(value: object) -> Undone:
    return value if isinstance(value, Undone) else Undone(**_UndoneFields.model_validate(value).model_dump())


class _WithUndone(Message):
    """A message about going back; what older nodes do not know, and so refuse, is left out where it says nothing."""

    undone: Annotated[list[Annotated[Undone, BeforeValidator(_undone)]], Field(max_length=1_000_000)] = []

    @model_serializer(mode="wrap")
    def _without_nothing(self, rest: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = rest(self)
        return {name: value for name, value in told.items() if value or name not in ("undone", "after", "left")}


class OrderMessage(_WithUndone):
    """What a worker is to do besides running groups; see `spdist.cluster.managers.orders`."""

    id: _Name
    kind: Literal["backup", "restore", "revisions", "clear", "clear-stopped", "delete"]
    instance: _Name
    revision: Annotated[str, Field(max_length=500)] = ""


class OutcomeMessage(_WithUndone):
    """How an order ended: with an error as `cluster.protocol.wire_errors` writes it, or with what it was to find.

    That are the revisions that were asked for, or what readers are to pass over of an instance that went back.
    """

    id: _Name
    revisions: Annotated[list[_Name], Field(max_length=10_000)] = []
    error: dict[str, Any] | None = None
    #: how many of what it has found were told before, and how many are to follow
    after: _Count = 0
    left: _Count = 0

    @property
    def found(self) -> tuple[str | Undone, ...]:
        """What an order was to find, in the order in which it is told."""
        return (*self.revisions, *self.undone)

    def with_found(self, found: Sequence[str | Undone], after: int = 0, left: int = 0) -> OutcomeMessage:
        """Return it with this in place of what it has found."""
        names, undone = (
            [one for one in found if isinstance(one, str)],
            [one for one in found if isinstance(one, Undone)],
        )
        return self.model_copy(update={"revisions": names, "undone": undone, "after": after, "left": left})

    def part(self, after: int, room: int) -> OutcomeMessage:
        """Return it with what follows the first `after` of what it has found, as much as fits into `room` bytes."""
        found = self.found
        # With its spaces and escapes, and a comma for each, this is no shorter than what is sent
        texts = (json.dumps(one if isinstance(one, str) else asdict(one)) for one in found[after:])
        sizes = accumulate(len(text) + 1 for text in texts)
        end = after + sum(1 for _ in takewhile(lambda size: size <= room, sizes))
        return self.with_found(found[after:end], after, len(found) - end)


class Memory(Message):
    """What a worker uses of its memory, bytes; see `MemoryReport`."""

    limit: _Count
    used: _Count
    per_group: Annotated[int, Field(ge=1, lt=2**53)]
    starting: _Count = 0


class GroupChanges(Message):
    """Which groups are gone, and a digest of all that are there; see `ChangedGroups`."""

    gone: Annotated[list[_Name], Field(max_length=2000)]
    digest: _Digest


class HeartbeatRequest(Message):
    """What a worker reports; see `WorkerReport`. ``state`` is WSO2's: NEW until a leader was obeyed, then EXISTS."""

    id: _Id
    state: Literal["NEW", "EXISTS"]
    is_receiver_node: bool
    https_interface: Address
    worker_metrics: _Metrics = {}
    incarnation: _Incarnation
    sequence: _Count
    known_term: _Count
    groups: Annotated[list[GroupState], Field(max_length=2000)] = []
    leaving: bool = False
    ready: bool = True
    reason: Annotated[str, Field(max_length=LONGEST_ERROR)] = ""
    ready_epoch: _Count = 1
    warm: bool = True
    memory: Memory | None = None
    #: `groups` are only those that have changed, or are new, since the heartbeat before
    changes: GroupChanges | None = None
    #: digest of the list of assignments that it has; empty where it has none
    assigned: Annotated[str, Field(max_length=64)] = ""
    outcomes: Annotated[list[OutcomeMessage], Field(max_length=2000)] = []

    @classmethod
    def from_report(
        cls, report: WorkerReport, outcomes: list[OutcomeMessage] | None = None, assigned: str = ""
    ) -> HeartbeatRequest:
        """Return the message for `report` and the outcomes of orders; `assigned` is the digest of what it shall run.

        A long error text is cut.
        """
        changes = report.changes
        groups = [
            GroupState(
                name=g.name,
                app=g.app,
                state=g.state.value,
                fingerprint=g.fingerprint,
                error=g.error[:LONGEST_ERROR],
                metrics=dict(g.metrics),
            )
            for g in report.groups
        ]
        return cls(
            id=report.id,
            state="EXISTS" if report.known_term else "NEW",
            is_receiver_node=report.is_receiver,
            https_interface=Address.from_url(report.url),
            worker_metrics=dict(report.metrics),
            incarnation=report.incarnation,
            sequence=report.sequence,
            known_term=report.known_term,
            groups=groups,
            leaving=report.leaving,
            ready=report.ready,
            reason=report.reason[:LONGEST_ERROR],
            ready_epoch=report.ready_epoch,
            warm=report.warm,
            memory=None if report.memory is None else Memory(**asdict(report.memory)),
            changes=None if changes is None else GroupChanges(gone=list(changes.gone), digest=changes.digest),
            assigned=assigned,
            outcomes=outcomes or [],
        )

    def to_report(self) -> WorkerReport:
        """Return what the message says."""
        groups = tuple(
            GroupReport(g.name, g.app, GroupPhase(g.state), g.fingerprint, g.error, g.metrics) for g in self.groups
        )
        return WorkerReport(
            id=self.id,
            url=self.https_interface.url,
            is_receiver=self.is_receiver_node,
            incarnation=self.incarnation,
            sequence=self.sequence,
            known_term=self.known_term,
            groups=groups,
            leaving=self.leaving,
            metrics=self.worker_metrics,
            ready=self.ready,
            reason=self.reason,
            ready_epoch=self.ready_epoch,
            warm=self.warm,
            memory=None if self.memory is None else MemoryReport(**self.memory.model_dump()),
            changes=None if self.changes is None else ChangedGroups(tuple(self.changes.gone), self.changes.digest),
        )


def _assigned(assignment: Assignment, known: Collection[str]) -> AssignedMessage:
    digest = fingerprint(assignment)
    return AssignedMessage(digest=digest, assignment=None if digest in known else assignment.to_dict())


class Leader(Message):
    """Who leads (the whole body of a 301)."""

    id: _Name
    https_interface: Address

    @classmethod
    def from_row(cls, row: LeaderRow) -> Leader:
        """Return the leader that the database names."""
        return cls(id=row.node_id, https_interface=Address.from_url(row.url))


class LeaderClaim(Message):
    """A manager says that it leads, and in which term: the answer to a worker that has lost its leader."""

    leader: Leader
    term: _Count


class Timing(Message):
    """The times that the leader imposes; see `WorkerTiming`."""

    heartbeat_interval_ms: _Count
    fence_after_ms: _Count
    remove_after_ms: _Count
    margin_ms: _Count


class AssignedMessage(Message):
    """An assignment by its digest, `fingerprint`; its text only where the worker did not say that it has it."""

    digest: _Digest
    assignment: dict[str, Any] | None = None


class HeartbeatAnswer(Message):
    """The leader's answer (200); see `AnswerHeartbeat`."""

    leader: Leader
    connected_managers: list[Address]
    joined_state: Literal["NEW", "EXISTS", "REJECTED"]
    worker: _Name
    sequence: _Count
    term: _Count
    timing: Timing
    #: digest of the list of assignments
    assigned: _Digest
    #: None: those that the worker has said it has
    assignments: list[AssignedMessage] | None
    orders: list[OrderMessage] = []
    reason: str = ""

    @classmethod
    def from_answer(
        cls,
        answer: AnswerHeartbeat,
        leader: Leader,
        managers: list[Address],
        orders: list[OrderMessage],
        assigned: str = "",
    ) -> HeartbeatAnswer:
        """Return the message for `answer`, given by `leader`; `managers` are all that the worker may turn to.

        Assignments are left out where `assigned` is the digest of their list, and their texts where it is known.
        """
        t, digest = answer.timing, assignments_digest(answer.assignments)
        return cls(
            leader=leader,
            connected_managers=managers,
            joined_state=answer.joined.value,
            worker=answer.worker,
            sequence=answer.sequence,
            term=answer.term,
            timing=Timing(
                heartbeat_interval_ms=t.heartbeat_interval_ms,
                fence_after_ms=t.fence_after_ms,
                remove_after_ms=t.remove_after_ms,
                margin_ms=t.margin_ms,
            ),
            assigned=digest,
            # The digest is of the whole list in its order: with any other one the worker is sent the list
            assignments=None if assigned == digest else [_assigned(one, answer.known) for one in answer.assignments],
            orders=orders,
            reason=answer.reason,
        )

    def to_answer(self, known: KnownAssignments = _NOTHING) -> AnswerHeartbeat:
        """Return what the message says to a worker that has `known`.

        Raises
        ------
        ClusterError
            An assignment lacks a field, or was left out and is not there any more: the next heartbeat asks for it.
        """
        return AnswerHeartbeat(
            worker=self.worker,
            sequence=self.sequence,
            term=self.term,
            joined=JoinedState(self.joined_state),
            assignments=self._read_assignments(known),
            timing=WorkerTiming(**self.timing.model_dump()),
            reason=self.reason,
        )

    def _read_assignments(self, known: KnownAssignments) -> tuple[Assignment, ...]:
        if self.assignments is None:
            if assignments_digest(known.listed) != self.assigned:
                raise ClusterError(
                    f"the leader {self.leader.id} left out assignments that this worker no longer has",
                    hint="nothing is to be done: it asks for them with its next heartbeat",
                )
            return known.listed
        found = known.texts
        missing = [one.digest for one in self.assignments if one.assignment is None and one.digest not in found]
        if missing:
            raise ClusterError(
                f"the leader {self.leader.id} sent assignments without their text, which this worker no longer has: "
                f"{', '.join(missing[:5])}",
                hint="nothing is to be done: it asks for them with its next heartbeat",
            )
        try:
            return tuple(
                found[one.digest] if one.assignment is None else Assignment.from_dict(one.assignment)
                for one in self.assignments
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ClusterError(
                f"the leader {self.leader.id} sent an assignment that cannot be read: {error!r}",
                hint="nodes of one cluster must run the same version of spdist",
            ) from error
