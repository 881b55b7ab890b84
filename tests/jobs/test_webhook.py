"""Webhooks: what a receiver gets, what is tried again, and that the address stays secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdist.config import Secret
from spdist.headless.job import Failure
from spdist.jobs import webhook
from spdist.jobs.runs import JobRun, RunState, RunTrigger
from spdist.jobs.settings import Job
from spdist.jobs.webhook import post_failure
from spdist.transports.sockets.tls import server_context
from tests.transports.certificates import authority, certificate
from tests.transports.receiver import Receiver

RUN = JobRun(
    3, "nightly", RunState.FAILED, RunTrigger.SCHEDULE, 1000, 1000, 1500, 4000, 2, 1, "nightly/x.ipynb",
    Failure("ValueError", "no rows", 2, "load()"),
)  # fmt: skip


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between tries."""
    monkeypatch.setattr(webhook, "_PAUSE_S", 0.0)


def job(url: str | None) -> Job:
    return Job("nightly", Path("n.ipynb"), 1000, webhook=None if url is None else Secret(url))


def test_a_failure_is_posted_with_all_that_is_known(receiver: Receiver) -> None:
    post_failure(job(f"{receiver.url}/s3cret?t0ken=1"), RUN)
    ((method, path, headers, text),) = receiver.got
    assert (method, path, headers["content-type"]) == ("POST", "/s3cret?t0ken=1", "application/json")
    body = json.loads(text)
    assert body.pop("node")
    assert body == {
        "id": 3, "job": "nightly", "state": "failed", "trigger": "schedule", "due": "1970-01-01T00:00:01.000Z",
        "started": "1970-01-01T00:00:01.500Z", "ended": "1970-01-01T00:00:04.000Z", "attempts": 2, "exitCode": 1,
        "notebook": "nightly/x.ipynb", "log": "nightly/x.log", "value": None,
        "error": {"name": "ValueError", "message": "no rows", "cell": 2, "source": "load()"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("statuses", "tries"),
    [((200,), 1), ((503, 200), 2), ((429, 408, 200), 3), ((500, 500, 500), 3), ((404,), 1), ((302,), 1)],
    ids=str,
)
def test_what_may_pass_is_tried_three_times_and_no_log_has_the_address(
    receiver: Receiver, statuses: tuple[int, ...], tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers["/s3cret"] = [(status, "") for status in statuses]
    with caplog.at_level(logging.INFO):
        post_failure(job(f"{receiver.url}/s3cret?t0ken=1"), RUN)
    assert len(receiver.got) == tries
    said = "was told of run 3" if statuses[-1] == 200 else f"was not told of run 3: it answers {statuses[-1]}"
    assert caplog.messages == [f"job nightly: the webhook at 127.0.0.1 {said}"]


def test_nobody_there_is_said_without_the_address(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        post_failure(job("http://127.0.0.1:1/s3cret"), RUN)
    assert "the webhook at 127.0.0.1 was not told of run 3: " in caplog.text
    assert "s3cret" not in caplog.text


def test_certificates_are_checked(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    authority(tmp_path)
    context = server_context(certificate(tmp_path, "node"))
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    url = receiver.url.replace("http:", "https:") + "/s3cret"
    post_failure(job(url), RUN)
    assert receiver.got == []
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    post_failure(job(url), RUN)
    assert len(receiver.got) == 1


def test_without_an_address_nothing_is_sent() -> None:
    post_failure(job(None), RUN)
