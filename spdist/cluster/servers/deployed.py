"""The outcome of a request to deploy, on managers and servers."""

from __future__ import annotations

from dataclasses import dataclass

from spdist.planning.updates.change import TopologyChange

__all__ = ["DeployOutcome"]


@dataclass(frozen=True, slots=True)
class DeployOutcome:
    """What has come of a request to deploy.

    Parameters
    ----------
    name : str
        The app's name.
    created : bool
        False if it replaced one.
    change : TopologyChange, optional
        Then: what becomes of the groups, elements and topics that were running; None where none ran.
    """

    name: str
    created: bool
    change: TopologyChange | None = None
