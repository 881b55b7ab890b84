"""The routes through which a node tells of itself: the cluster's journal, its own log, and figures for Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from spdist.cluster.api.guard import RequestGuard
from spdist.cluster.api.models import JournalEntries, LogRecords, answers
from spdist.cluster.exposition import CONTENT_TYPE
from spdist.cluster.security.access import Permission

if TYPE_CHECKING:
    from spdist.cluster.coordination.journal_rows import JournalRows
    from spdist.logs import RecordRing

__all__ = ["journal_routes", "log_routes", "metrics_routes"]

Json = dict[str, Any]
_Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
_Time = Annotated[int | None, Query(ge=0, lt=1 << 53)]
_Limit = Annotated[int, Query(ge=1, le=1000)]


def journal_routes(journal: JournalRows, guard: RequestGuard) -> APIRouter:
    """Return what asks the journal; every manager answers from the database."""
    router = APIRouter(tags=["cluster"])

    @router.get("/managers/journal", dependencies=[guard.asks(Permission.VIEW)], **answers(JournalEntries))
    def read_journal(
        app: Annotated[str | None, Query(max_length=255)] = None,
        kind: Annotated[list[Annotated[str, Query(max_length=64)]] | None, Query(max_length=50)] = None,
        since: _Time = None,
        until: _Time = None,
        before: _Time = None,
        limit: _Limit = 100,
    ) -> Json:
        """Return what has happened in the cluster, the newest first; `before` the last one's id asks for the next."""
        found = journal.read(app=app, kinds=kind or (), since_ms=since, until_ms=until, before=before, limit=limit)
        return {"entries": [asdict(one) for one in found]}

    return router


def log_routes(log: RecordRing, guard: RequestGuard) -> APIRouter:
    """Return what asks for the last records that this node has logged."""
    router = APIRouter(tags=["node"])

    @router.get("/logs", dependencies=[guard.asks(Permission.VIEW)], **answers(LogRecords))
    def read_log(
        app: str | None = None,
        group: str | None = None,
        level: _Level = "INFO",
        since: _Time = None,
        limit: _Limit = 100,
    ) -> Json:
        """Return the last records that this node has logged, of a level or above."""
        least = logging.getLevelNamesMapping()[level]
        return {"records": log.read(app=app, group=group, level=least, since_ms=since or 0, limit=limit)}

    return router


def metrics_routes(metrics: Callable[[], str], guard: RequestGuard) -> APIRouter:
    """Return what Prometheus asks."""
    router = APIRouter(tags=["node"])

    @router.get("/metrics", dependencies=[guard.asks(Permission.VIEW)], response_class=PlainTextResponse)
    def tell_metrics() -> PlainTextResponse:
        """Tell the figures of this node as Prometheus reads them."""
        return PlainTextResponse(metrics(), media_type=CONTENT_TYPE)

    return router
