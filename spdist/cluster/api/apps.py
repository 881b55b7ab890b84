"""The routes about apps that managers and workers both have; on a worker an app is one of its group instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query, Request

from spdist.cluster.api.guard import RequestGuard, json_body
from spdist.cluster.api.models import (
    AppStatistics,
    Cleared,
    Done,
    Edge,
    OnDemandQuery,
    Records,
    StatisticsSetting,
    answers,
    takes,
)
from spdist.cluster.managers.questions import QueryAnswer, Question
from spdist.cluster.security.access import Permission
from spdist.errors import OnDemandQueryError

__all__ = ["SETTING", "AppRequests", "IsActive", "Setting", "app_routes", "measured"]

Json = dict[str, Any]
IsActive = Annotated[bool | None, Query(alias="isActive", description="Only apps that run, or only those that do not")]
_Restart = Annotated[
    bool,
    Query(alias="enabledRedeployment", description="Whether groups are stopped while it is done, and started again"),
]
#: The body of a request that sets what is measured.
Setting = Annotated[StatisticsSetting, json_body(StatisticsSetting)]
SETTING = {**takes(StatisticsSetting, example={"statsEnable": True}), **answers(Done)}
_QUERY = {"appName": "Trades", "query": "from Prices on symbol == 'IBM' select symbol, price", "details": True}


class AppRequests(Protocol):
    """Who answers: `spdist.cluster.managers.app_service.AppService` or `WorkerAppService` next to the workers."""

    def query(self, app: str, question: Question) -> QueryAnswer:
        """Put a query on demand to an app."""
        ...

    def elements(self, app: str, /) -> list[Json]:
        """Return the edges between the elements of an app."""
        ...

    def statistics(self, is_active: bool | None) -> list[Json]:
        """Return WSO2's list of apps with their ages."""
        ...

    def clear(self, app: str | None, /, *, restart: bool) -> list[str]:
        """Delete the revisions of an app, or of all, and return their names."""
        ...


def app_routes(app_service: AppRequests, known: Callable[[str], object], guard: RequestGuard) -> APIRouter:
    """Return the routes; they come before those of ``/siddhi-apps/{name}``, which their paths look like.

    Parameters
    ----------
    app_service : AppRequests
        Who answers.
    known : callable
        Raises NotFoundError where there is no app of a name.
    guard : RequestGuard
        Who may enter.
    """
    router = APIRouter(tags=["apps"])
    router.include_router(_stores(app_service, guard))
    router.include_router(_statistics(app_service, known, guard))
    view, manage = guard.asks(Permission.VIEW), guard.asks(Permission.MANAGE)

    @router.get("/siddhi-apps/{name}/elements", dependencies=[view], **answers(list[Edge]))
    def elements(name: str) -> list[Json]:
        """List the edges between the elements of an app, to draw it.

        One edge for each stream, table or window that a query reads; definitions and queries as they were written, cut
        after 2,000 characters.
        """
        return app_service.elements(name)

    @router.delete("/siddhi-apps/revisions", dependencies=[manage], **answers(Cleared))
    def clear_all(restart: _Restart = False) -> Json:
        """Delete the revisions of all apps.

        What runs goes on from its present state, which is no revision here; so nothing is stopped unless it is asked
        for, other than with WSO2.
        """
        return _cleared("all apps go on from their present states", app_service.clear(None, restart=restart))

    @router.delete("/siddhi-apps/{name}/revisions", dependencies=[manage], **answers(Cleared))
    def clear(name: str, restart: _Restart = False) -> Json:
        """Delete the revisions of an app.

        It goes on from its present state, which is no revision here; so nothing is stopped unless it is asked for,
        other than with WSO2.
        """
        return _cleared(f"{name} goes on from its present state", app_service.clear(name, restart=restart))

    return router


def _cleared(what: str, gone: list[str]) -> Json:
    return {"type": "success", "message": f"{len(gone)} revisions are deleted; {what}", "revisions": gone}


def _stores(app_service: AppRequests, guard: RequestGuard) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/stores/query",
        dependencies=[guard.asks(Permission.VIEW)],
        **takes(OnDemandQuery, example=_QUERY),
        **answers(Records, 404, 504),
    )
    def query(request: Request, asked: Annotated[OnDemandQuery, json_body(OnDemandQuery)]) -> Json:
        """Put a query on demand to a running app.

        It is answered by the group that keeps the table, window or aggregation which it names, as of its latest batch.
        `appName` is an app or one of its group instances. A query that changes a table takes siddhiApp.manage.
        """
        if not asked.app_name.strip():
            raise OnDemandQueryError("the name of the app is empty", hint='say {"appName": ..., "query": ...}')
        question = Question.read(asked.query)
        if question.changes:
            guard.check(request, Permission.MANAGE)
        return app_service.query(asked.app_name, question).to_dict(details=asked.details)

    return router


def _statistics(app_service: AppRequests, known: Callable[[str], object], guard: RequestGuard) -> APIRouter:
    router = APIRouter(prefix="/siddhi-apps")
    manage = guard.asks(Permission.MANAGE)

    @router.get("/statistics", dependencies=[guard.asks(Permission.VIEW)], **answers(list[AppStatistics], 404))
    def statistics(is_active: IsActive = None) -> list[Json]:
        """List all apps with status and age.

        `age` is in ms: since an app was deployed or updated; on a worker, since its group was told to start.
        """
        return app_service.statistics(is_active)

    @router.put("/statistics", dependencies=[manage], **SETTING)
    def set_all(asked: Setting) -> Json:
        """Ask for figures of all apps, which changes nothing: they are always measured."""
        return measured("all apps", asked)

    @router.put("/{name}/statistics", dependencies=[manage], **SETTING)
    def set_one(name: str, asked: Setting) -> Json:
        """Ask for figures of an app, which changes nothing: they are always measured."""
        known(name)
        return measured(name, asked)

    return router


def measured(what: str, asked: StatisticsSetting) -> Json:
    """Return WSO2's success, which says that nothing has changed."""
    off = asked.stats_enable is False or asked.enabled_stat_level == "OFF"
    message = f"the figures of {what} are measured at all times, in one level: nothing has changed"
    return {"type": "success", "message": f"{message}, they cannot be switched off" if off else message}
