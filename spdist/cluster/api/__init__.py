"""The REST interface of managers, workers and servers; the only door to FastAPI and uvicorn.

Paths, bodies and status codes are those of WSO2 SP 4.x, with these differences:

- What concerns the cluster is answered by the leader; a standby redirects with 307 instead of answering from an empty
  memory. So does a passive server of what the active one has, and its ``/health`` is 503.
- A missing login is 401 and a lack of permission 403, always; an app that is not there is 404, never 204 or 500.
- A query on demand that is wrong is 400; 500 is one that failed while it ran.
- Deleting revisions stops nothing unless ``enabledRedeployment=true`` asks for that: what runs goes on from its present
  state, which is no revision here.

An error has WSO2's ``type``, ``message`` and ``code``, together with ours: see
`spdist.cluster.protocol.wire_errors.error_body`. ``GET /health`` is the only route without authentication. All routes
are described at ``/openapi.json`` and ``/docs``.
"""

from spdist.cluster.api.manager import manager_app
from spdist.cluster.api.server import Server, serve
from spdist.cluster.api.server_node import server_app
from spdist.cluster.api.worker import worker_app

__all__ = ["Server", "manager_app", "serve", "server_app", "worker_app"]
