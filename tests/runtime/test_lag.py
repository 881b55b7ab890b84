"""How far a query is behind is found out by a thread: who asks for it never waits for brokers that are away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from spdist.errors import TransportUnavailableError
from spdist.runtime.lag import Lag
from spdist.transports.base import Record
from tests.engine.memory_transport import MemoryTransport

READ = SimpleNamespace(sources=[SimpleNamespace(endOffset='{"topics": {"T": {"0": 1}}}', latestOffset=None)])
Eventually = Callable[..., object]


class Topics(MemoryTransport):
    """Topics of a server that may be away, as long as `back` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.back, self.closed = threading.Event(), threading.Event()
        self.back.set()
        self.ensure("T", 1)
        self.append([Record("T", 0, b"", 1)] * 3)

    def end_offsets(self, topic: str) -> dict[int, int]:
        if not self.back.wait(0.5):
            raise TransportUnavailableError("no server answers")
        return super().end_offsets(topic)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def topics() -> Topics:
    return Topics()


def test_the_lag_is_what_the_topics_have_and_nobody_has_read(topics: Topics, eventually: Eventually) -> None:
    lag = Lag(topics, ())
    eventually(lambda: lag.after(READ) == (2, None), "it has looked")
    topics.append([Record("T", 0, b"", 1)])
    eventually(lambda: lag.after(READ) == (3, None), "it has looked again")
    lag.close()


def test_who_asks_seldom_is_not_told_what_was_found_long_ago(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdist.runtime.lag._MOMENT_S", 10)
    lag = Lag(topics, ())
    assert lag.after(READ) == (2, None)
    topics.append([Record("T", 0, b"", 1)])
    lag._found_s -= 2
    assert lag.after(READ) == (3, None)
    lag.close()


def test_nobody_waits_for_a_server_that_is_away(topics: Topics, eventually: Eventually) -> None:
    lag = Lag(topics, ())
    eventually(lambda: lag.after(READ) == (2, None), "it has looked")
    topics.back.clear()
    began_s = time.monotonic()
    for _ in range(200):
        lag.after(READ)
    assert time.monotonic() - began_s < 0.4
    eventually(lambda: lag.after(READ) == (2, "no server answers"), "it says why nobody can tell")
    topics.back.set()
    eventually(lambda: lag.after(READ) == (2, None), "the server is back")
    topics.back.clear()
    lag.after(READ)
    began_s = time.monotonic()
    lag.close()
    lag.close()
    assert lag.after(READ) == (2, None)
    assert time.monotonic() - began_s < 0.4
    assert topics.closed.wait(10)
