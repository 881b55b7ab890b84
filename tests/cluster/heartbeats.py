"""What the heartbeats of workers in this process take: time and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx


class Meter:
    """Notes of each heartbeat how long its answer took, and the bytes of both bodies."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self.sent: list[int] = []
        self.received: list[int] = []

    @contextmanager
    def reading(self) -> Iterator[None]:
        real = httpx.Client.request

        def timed(client: httpx.Client, method: str, url: str, **more: Any) -> httpx.Response:
            began_s = time.monotonic()
            answer = real(client, method, url, **more)
            if str(url).endswith("/heartbeat"):
                self.ms.append((time.monotonic() - began_s) * 1000)
                self.sent.append(len(more["content"] or ""))
                self.received.append(len(answer.content))
            return answer

        with patch.object(httpx.Client, "request", timed):
            yield

    def forget(self) -> None:
        for noted in (self.ms, self.sent, self.received):
            noted.clear()
