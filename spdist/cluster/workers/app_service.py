"""What a worker does for people besides running groups: queries on demand, elements, ages, clearing of revisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from spdist.cluster.managers.plans import flow_text
from spdist.cluster.managers.questions import QueryAnswer, Question, Questions, kept_elements
from spdist.cluster.protocol.messages import GroupPhase
from spdist.cluster.workers.group_revisions import GroupRevisions
from spdist.cluster.workers.group_supervisor import GroupSupervisor
from spdist.errors import NotFoundError

__all__ = ["WorkerAppService"]

Json = dict[str, Any]


class WorkerAppService:
    """The requests of people at one worker; apps are its group instances (WSO2: partial apps).

    Parameters
    ----------
    supervisor : callable
        Returns the groups.
    revisions : callable
        Returns what keeps their revisions.
    questions : Questions
        Reaches the groups.
    """

    def __init__(
        self, supervisor: Callable[[], GroupSupervisor], revisions: Callable[[], GroupRevisions], questions: Questions
    ) -> None:
        self._supervisor = supervisor
        self._revisions = revisions
        self._questions = questions

    def close(self) -> None:
        """Let go of the topics. May be called twice."""
        self._questions.close()

    def query(self, app: str, question: Question) -> QueryAnswer:
        """Put a query on demand to a group that runs here.

        Parameters
        ----------
        app : str
            A group instance, or an app of which groups are here.
        question : Question
            What is asked.

        Raises
        ------
        NotFoundError
            Nothing of that app is here, nothing here keeps what the query names, or the group does not run.
        SpdistError
            As `Questions.ask`.
        """
        element = question.element
        supervisor = self._supervisor()
        states = {report.name: report.state for report in supervisor.reports() if app in (report.name, report.app)}
        if not states:
            raise NotFoundError(f"no group of {app} is here", hint="a manager knows where it is, and asks there")
        holders = [name for name in states if element in kept_elements(supervisor.group(name).assignment.text)]
        if not holders:
            hint = "another worker may have it: ask a manager"
            raise NotFoundError(f"no group of {app} here holds a table, window or aggregation {element}", hint=hint)
        running = [name for name in holders if states[name] is GroupPhase.RUNNING]
        if not running:
            raise NotFoundError(f"{holders[0]}, which holds {element}, is {states[holders[0]].value}, not RUNNING")
        return self._questions.ask(running[0], question.text)

    def elements(self, name: str) -> list[Json]:
        """Return the edges between the elements of a group instance; see `spdist.planning.pictures.flow.app_flow`."""
        return _flow(self._supervisor().group(name).assignment.text)

    def statistics(self, is_active: bool | None) -> list[Json]:
        """Return WSO2's list of apps; ``age`` is how long ago, in ms, each was last told to start here.

        Raises
        ------
        NotFoundError
            No group is here.
        """
        supervisor = self._supervisor()
        reports = supervisor.reports()
        if not reports:
            raise NotFoundError("no group is here")
        return [
            {
                "appName": report.name,
                "status": "active" if report.state is GroupPhase.RUNNING else "inactive",
                "age": supervisor.age_ms(report.name),
                "isStatEnabled": True,
            }
            for report in reports
            if is_active is None or (report.state is GroupPhase.RUNNING) is is_active
        ]

    def clear(self, name: str | None, *, restart: bool) -> list[str]:
        """Delete the revisions of a group instance, or of all that are here; see `GroupRevisions.clear`."""
        names = [report.name for report in self._supervisor().reports()] if name is None else [name]
        revisions = self._revisions()
        return sorted({one for each in names for one in revisions.clear(each, restart=restart)})


@lru_cache(16)
def _flow(text: str) -> list[Json]:
    return flow_text(text, scripts=True)
