"""The REST interface of managers and workers; the only door to FastAPI and uvicorn.

Paths, bodies and status codes are those of WSO2 SP 4.x, with these differences: what concerns the cluster is answered
by the leader (a standby redirects with 307 instead of answering from an empty memory), a lack of permission is always
403, and an error is `SpdistError.to_dict()`, which has ``type`` and ``message`` as there. ``GET /health`` is the only
route without authentication.
"""

from spdist.cluster.api.manager import manager_app
from spdist.cluster.api.server import Server, serve
from spdist.cluster.api.worker import worker_app

__all__ = ["Server", "manager_app", "serve", "worker_app"]
