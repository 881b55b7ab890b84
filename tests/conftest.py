"""What all tests share: waiting for something that happens elsewhere, without sleeping for a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

# Machines of continuous integration stall; how long one example takes says nothing about the code.
settings.register_profile("spdist", deadline=None)
settings.load_profile("spdist")


@pytest.fixture
def eventually() -> Callable[..., object]:
    """``eventually(look, what, timeout_s=20)``: call `look` until it returns something true, and return that."""

    def wait(look: Callable[[], T], what: str, timeout_s: float = 20.0) -> T:
        pace = threading.Event()
        deadline = time.monotonic() + timeout_s
        while not (found := look()):
            if time.monotonic() > deadline:
                pytest.fail(f"after {timeout_s:g} s still not: {what}")
            pace.wait(0.02)
        return found

    return wait
