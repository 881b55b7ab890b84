"""The handle of one deployed app, as `ClusterClient.deploy` returns it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from spdist.cluster.overview import AppStatus
from spdist.errors import DeploymentTimeoutError, QueryFailedError

if TYPE_CHECKING:
    from spdist.cluster.client import ClusterClient
    from spdist.planning.change import TopologyChange

__all__ = ["Deployment"]

_LOOK_S = 0.2


class Deployment:
    """An app of a cluster. It is only the name and the client: any number of handles may stand for one app.

    Parameters
    ----------
    client : ClusterClient
        Whom to ask.
    name : str
        The app's name.
    change : TopologyChange, optional
        What became of groups and elements, where this handle comes from an update of a running app.
    """

    def __init__(self, client: ClusterClient, name: str, change: TopologyChange | None = None) -> None:
        self.name = name
        self.change = change
        self._client = client
        self._path = f"/siddhi-apps/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"Deployment({self.name!r})"

    def __str__(self) -> str:
        return str(self.status())

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def status(self) -> AppStatus:
        """Return how the app and each of its groups are doing now.

        Raises
        ------
        NotFoundError
            It is not deployed.
        """
        return AppStatus.from_view(self._client.call("GET", f"{self._path}/status"))

    def wait(self, state: str = "RUNNING", timeout_s: float = 60.0) -> Deployment:
        """Return this handle when the app is in `state`.

        Parameters
        ----------
        state : str
            ``RUNNING``: every group has committed a batch. Also ``WAITING``, ``DEPLOYING``, ``UNREACHABLE``,
            ``FAILED``.
        timeout_s : float
            How long to wait.

        Raises
        ------
        QueryFailedError
            A group has failed twice in a row, or for good, while another state is waited for; says why.
        DeploymentTimeoutError
            Not in time; says what each group was doing.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            status = self.status()
            if status.state == state:
                return self
            failed = [g for g in status.groups if g.state == "FAILED" or g.failures > 1]
            if status.state == "FAILED" or failed:
                reasons = "; ".join(f"{g.name}: {g.reason}" for g in failed) or status.reason
                raise QueryFailedError(f"app {self.name} has failed: {reasons}")
            if time.monotonic() >= deadline_s:
                raise DeploymentTimeoutError(
                    f"app {self.name} is {status.state}, not {state}, after {timeout_s:g} s:\n{status}",
                    hint="wait longer, or look at the logs of the workers named above",
                )
            time.sleep(_LOOK_S)

    def text(self) -> str:
        """Return the app's SiddhiQL as it was sent."""
        text: str = self._client.call("GET", self._path)["content"]
        return text

    def topology(self) -> dict[str, Any]:
        """Return groups, topics, strategies and placement, as ``GET /managers/topology/{app}`` gives them."""
        view: dict[str, Any] = self._client.call("GET", f"/managers/topology/{quote(self.name, safe='')}")
        return view

    def backup(self) -> str:
        """Have the state of all groups kept under a name, and return that: the revision."""
        revision: str = self._client.call("POST", f"{self._path}/backup", timeout_s=120)["revision"]
        return revision

    def revisions(self) -> list[str]:
        """Return the revisions that are kept, oldest first."""
        names: list[str] = self._client.call("GET", f"{self._path}/revisions")
        return names

    def restore(self, revision: str) -> None:
        """Take all groups back to a revision; they go on from the positions in their topics that belong to it.

        Raises
        ------
        NotFoundError
            There is no such revision.
        """
        self._client.call("POST", f"{self._path}/restore", params={"revision": revision}, timeout_s=120)

    def undeploy(self, timeout_s: float = 60.0) -> None:
        """Remove the app from the cluster, and wait until no worker runs a group of it. Its topics and state stay.

        Parameters
        ----------
        timeout_s : float
            How long to wait for the workers; 0 does not wait.

        Raises
        ------
        NotFoundError
            It is not deployed.
        DeploymentTimeoutError
            A worker still runs a group of it.
        """
        self._client.call("DELETE", self._path)
        deadline_s = time.monotonic() + timeout_s
        while timeout_s and self.name in self._client.nodes()["undeploying"]:
            if time.monotonic() >= deadline_s:
                raise DeploymentTimeoutError(
                    f"app {self.name} is undeployed, but after {timeout_s:g} s a worker may still run a group of it",
                    hint="it ends at the latest when its worker is removed; spdist's nodes show who that is",
                )
            time.sleep(_LOOK_S)
