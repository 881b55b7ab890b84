"""What a leader does for deployed apps besides having them run: revisions, queries on demand, what dashboards show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from spdist.clock import Clock
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.leader.status import DeploymentState, deployment_status, deployment_statuses
from spdist.cluster.managers import views
from spdist.cluster.managers.plans import Plans
from spdist.cluster.managers.questions import QueryAnswer, Question, Questions, holders_of
from spdist.cluster.managers.revisions import AppRevisions, Hosts, revision_hosts
from spdist.cluster.managers.slots import CallerSlots
from spdist.errors import NotFoundError

__all__ = ["AppService"]

Json = dict[str, Any]
#: Puts a question to the state loop of a manager that leads; NotLeaderError on a standby.
Ask = Callable[[Callable[[ManagerState, int], Any]], Any]


class AppService:
    """The requests of people about apps. Only short looks at the state run in the thread of its loop.

    Parameters
    ----------
    ask : callable
        Asks the leader's state.
    plans : Plans
        Topologies and elements, planned outside this process.
    revisions : AppRevisions
        Gives the workers their orders.
    questions : Questions
        Reaches the running groups.
    clock : Clock
        Names revisions.
    written_ms : callable
        Returns when each app was last deployed or updated, ms since epoch.

    State
    -----
    The elements of 16 texts.
    """

    def __init__(
        self,
        ask: Ask,
        plans: Plans,
        revisions: AppRevisions,
        questions: Questions,
        clock: Clock,
        written_ms: Callable[[], Mapping[str, int]],
    ) -> None:
        self._ask = ask
        self._plans = plans
        self._revisions = revisions
        self._questions = questions
        self._clock = clock
        self._written_ms = written_ms
        self._drawing = CallerSlots(4, "requests for elements")
        self._flow = lru_cache(16)(plans.flow)

    def close(self) -> None:
        """Let go of the topics. May be called twice."""
        self._questions.close()

    # -------------------------------------------------------------------------------------------------------- revisions
    def backup(self, app: str) -> str:
        """Have the state of all groups of `app` kept and return the revision; see `AppRevisions.backup`."""
        return self._revisions.backup(app, self._hosts(app), self._clock.now_ms())

    def revisions(self, app: str) -> list[str]:
        """Return the revisions of `app`, oldest first; see `AppRevisions.revisions`."""
        return self._revisions.revisions(self._hosts(app))

    def restore(self, app: str, revision: str) -> None:
        """Let all groups of `app` go back to `revision`; see `AppRevisions.restore`."""
        self._revisions.restore(app, self._hosts(app), revision)

    def clear(self, app: str | None, *, restart: bool) -> list[str]:
        """Delete the revisions of an app, or of all apps; see `AppRevisions.clear`."""
        return self._revisions.clear(app, self._hosts(app), restart=restart)

    def _hosts(self, app: str | None) -> Hosts:
        found: Hosts = self._ask(lambda state, now_ms: revision_hosts(state, app, now_ms))
        return found

    # ----------------------------------------------------------------------------------------------- queries on demand
    def query(self, app: str, question: Question) -> QueryAnswer:
        """Put a query on demand to the group of an app that keeps what it names.

        Parameters
        ----------
        app : str
            The app, or one of its group instances (WSO2: partial apps).
        question : Question
            What is asked.

        Raises
        ------
        NotFoundError
            There is no such app, it keeps nothing of that name, or the group does not run.
        SpdistError
            As `Questions.ask`.
        """
        element = question.element

        def find(state: ManagerState, now_ms: int) -> tuple[str, str, dict[str, str]]:
            instance = state.deployments.instances.get(app)
            parent = app if instance is None else instance.assignment.app
            status = deployment_status(state, parent, now_ms)
            waiting = (DeploymentState.WAITING, DeploymentState.FAILED)
            return parent, status.text, {g.app_name: g.reason for g in status.groups if g.state in waiting}

        parent, text, idle = self._ask(find)
        holders = holders_of(self._plans.topology(text), element)
        if app != parent and app not in holders:
            raise NotFoundError(f"{app} holds no table, window or aggregation {element}", hint=f"ask {parent}")
        holder = holders[0] if app == parent else app
        if holder in idle:
            raise NotFoundError(f"{holder}, which holds {element}, does not run: {idle[holder]}")
        return self._questions.ask(holder, question.text)

    # ------------------------------------------------------------------------------------------------------- dashboards
    def elements(self, app: str) -> list[Json]:
        """Return the edges between the elements of an app; see `spdist.planning.pictures.flow.app_flow`."""
        text = self._ask(lambda state, now_ms: deployment_status(state, app, now_ms).text)
        with self._drawing:  # the planner takes one text after the other, and may be busy with a large one
            edges: list[Json] = self._flow(text)
        return edges

    def statistics(self, is_active: bool | None) -> list[Json]:
        """Return WSO2's list of apps with their ages; see `views.app_statistics`.

        Raises
        ------
        NotFoundError
            No app is deployed.
        """
        written, now = self._written_ms(), self._clock.now_ms()
        apps: list[Json] = self._ask(
            lambda state, now_ms: [
                views.app_statistics(status, now - written.get(status.name, now))
                for status in deployment_statuses(state, now_ms)
            ]
        )
        if not apps:
            raise NotFoundError("no app is deployed")
        return [one for one in apps if is_active is None or (one["status"] == "active") is is_active]

    def children(self, app: str | None = None) -> list[dict[str, str]]:
        """Return WSO2's records of all group instances, or of those of one app."""

        def records(state: ManagerState, now_ms: int) -> list[dict[str, str]]:
            if app is None:
                return [g.to_dict() for s in deployment_statuses(state, now_ms) for g in s.groups]
            return [g.to_dict() for g in deployment_status(state, app, now_ms).groups]

        found: list[dict[str, str]] = self._ask(records)
        return found

    def kafka_details(self, app: str) -> list[Json]:
        """Return WSO2's list of the topics of each group instance of an app; see `views.topic_details`."""
        found: list[Json] = self._ask(
            lambda state, now_ms: views.topic_details(state, deployment_status(state, app, now_ms))
        )
        return found
