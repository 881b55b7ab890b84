"""The kernel's side of a page: the cluster, as the user who has opened the page."""

from __future__ import annotations

import os

from spdist.cluster.clients.client import ClusterClient
from spdist.dashboard.upstream import Upstream

__all__ = ["page_cluster"]


def page_cluster() -> ClusterClient:
    """Return a client for the user whose page this kernel is; the password leaves the environment."""
    environment = dict(os.environ)
    password = os.environ.pop("SPDIST_PASSWORD")
    return Upstream.from_environment(environment).client(environment["SPDIST_USER"], password)
