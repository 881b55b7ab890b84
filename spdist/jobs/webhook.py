"""Webhooks: a failed run is posted as JSON to the address of its job. A door to httpx.

The address is a secret: neither log nor errors have more of it than its host.
"""

from __future__ import annotations

import logging
import socket
from urllib.parse import urlsplit

import httpx
import tenacity

from spdist.jobs.runs import JobRun
from spdist.jobs.settings import Job
from spdist.transports.sockets.tls import client_context

__all__ = ["post_failure"]

_log = logging.getLogger(__name__)
# It logs each request with its address.
logging.getLogger("httpx").setLevel(logging.WARNING)

_TIMEOUT_S = 5.0
_TRIES = 3
#: The pause before the second try, s; twice as long before the third.
_PAUSE_S = 0.5


class _Refused(Exception):
    """The receiver answered with an error, which may pass where it is `passing`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answers {status}")
        # Too slow, too many requests, or its own trouble: the same request may succeed later.
        self.passing = status in (408, 429) or status >= 500


def post_failure(job: Job, run: JobRun) -> None:
    """Post a failed run to the webhook of its job, if it has one; tried three times, for 20 s at most. Never raises.

    The body is that of `JobRun.to_dict`, with ``node``, the name of this machine. Any answer below 300 is success;
    redirections are not followed, and 4xx, other than 408 and 429, is not tried again.
    """
    if job.webhook is None:
        return
    url = job.webhook.reveal()
    host = urlsplit(url).hostname
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(_TRIES),
        wait=tenacity.wait_exponential(multiplier=_PAUSE_S),
        reraise=True,
    )
    try:
        with httpx.Client(verify=client_context(), timeout=_TIMEOUT_S, follow_redirects=False) as client:
            retrying(_post, client, url, {"node": socket.gethostname(), **run.to_dict()})
        _log.info("job %s: the webhook at %s was told of run %d", job.name, host, run.id)
    except Exception as error:
        # What httpx says of an address may hold it.
        reason = str(error).replace(url, "***") or type(error).__name__
        _log.error("job %s: the webhook at %s was not told of run %d: %s", job.name, host, run.id, reason)


def _post(client: httpx.Client, url: str, body: dict[str, object]) -> None:
    answer = client.post(url, json=body)
    if not answer.is_success:
        raise _Refused(answer.status_code)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError) or (isinstance(error, _Refused) and error.passing)
