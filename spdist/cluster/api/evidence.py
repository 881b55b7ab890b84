"""The routes of the inputs that the state of a group holds, of workers and servers: for those who ask why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query

from spdist.cluster.api.guard import RequestGuard
from spdist.cluster.api.models import FileContents, KeptFiles, TopicMessages, answers
from spdist.cluster.security.access import Permission

if TYPE_CHECKING:
    from spdist.cluster.workers.evidence_service import EvidenceService

__all__ = ["evidence_routes"]

Json = dict[str, Any]
#: Of the names of files in one request.
_LONGEST = 16_384
#: Of a topic's name: Kafka allows 249 characters.
_TOPIC = 300


def evidence_routes(app_service: EvidenceService, guard: RequestGuard) -> APIRouter:
    """Return the routes; a state holds all that came in and the contents of tables, as a query on demand shows them."""
    router = APIRouter(prefix="/siddhi-apps/{name}/evidence", tags=["apps"])
    view = guard.asks(Permission.VIEW)

    @router.get("", dependencies=[view], **answers(KeptFiles))
    def inputs(name: str) -> Json:
        """List the files that hold the inputs of a group instance since the older of its two snapshots.

        By shard, the snapshot first, then a segment for each batch; `assignment` is what has processed them. Of one
        that runs as Spark Columns `topics` says instead which messages of its topics are there: by topic and partition
        the offset of the first that Kafka holds, of the first that was read, and of the next one.
        """
        return app_service.inputs(name)

    @router.get("/messages", dependencies=[view], **answers(TopicMessages))
    def messages(
        name: str,
        topic: Annotated[str, Query(max_length=_TOPIC)],
        partition: Annotated[int, Query(ge=0, lt=2**31)],
        offset: Annotated[int, Query(ge=0, lt=2**63)],
    ) -> Json:
        """Return messages of a topic that a group of Spark Columns reads; not much more than 1 MiB.

        Those from `offset` on, and where that is gone those that follow.
        """
        return app_service.messages(name, topic, partition, offset)

    @router.get("/{shard}", dependencies=[view], **answers(FileContents))
    def files(
        name: str,
        shard: int,
        layout: Annotated[str, Query(max_length=255)],
        names: Annotated[str, Query(max_length=_LONGEST, description="Separated by commas")],
    ) -> Json:
        """Return the contents of the first of these files, in base 64; at least one, and not much more than 1 MiB.

        404 where one is gone, as the group has taken a snapshot meanwhile: list them again.
        """
        return app_service.files(name, layout, shard, names.split(","))

    return router
