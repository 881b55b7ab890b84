"""The kernel's side: signals that stop a notebook's work, and a parent that may be gone. Loads no Jupyter library.

How ipykernel 7 behaves, and what follows: SIGTERM has no handler, so it kills the kernel with its unsaved results;
SIGINT is ignored between cells and raises KeyboardInterrupt within one. Its own watch over the parent compares parent
ids and falls back to "is it 1", which never comes true in a container with another reaper.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from spdist.errors import ConfigError

__all__ = ["INTERRUPT_S", "grace_s", "prepare_kernel", "stop_signal"]

#: Seconds from SIGTERM to the interrupt, and from the interrupt to the kill. Kubernetes allows 30 in all.
_GRACE_S = 15.0
INTERRUPT_S = 5.0

#: Set by a SIGTERM that came while nobody waited for it; the next `stop_signal` finds it.
_pending = threading.Event()
_POLL_S = 0.5


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """Give an event that is set when this process is asked to stop: by SIGTERM, or by interrupting the kernel.

    Within the block the first SIGTERM or SIGINT sets the event and nothing else; a second one raises KeyboardInterrupt,
    for code that does not heed the event. Afterwards signals mean what they meant before. Outside the main thread no
    signal can be caught, and only others can set the event.

    Yields
    ------
    threading.Event
        Wait for it, or hand it to what runs.

    Examples
    --------
    >>> with stop_signal() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.is_set()
    True
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    # With the handlers in place: a SIGTERM before has set `_pending`, one after sets `stop`.
    if _pending.is_set():
        _pending.clear()
        stop.set()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def grace_s() -> float:
    """Return how many seconds a kernel that is asked to stop has until it is interrupted: ``SPDIST_STOP_GRACE_S``.

    Raises
    ------
    ConfigError
        That is no number of seconds.
    """
    text = os.environ.get("SPDIST_STOP_GRACE_S", "")
    try:
        seconds = float(text) if text else _GRACE_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"environment SPDIST_STOP_GRACE_S must be a number of seconds, not {text!r}")
    return seconds


def prepare_kernel(parent: int) -> None:
    """Make this kernel stoppable, and let it end with the process `parent` that drives it.

    Called before the first cell. SIGTERM then interrupts the cell that runs, as Jupyter's stop button does, so that its
    ``with`` blocks and ``finally`` clauses run; between cells it is remembered for the next `stop_signal`.
    """
    signal.signal(signal.SIGTERM, _on_terminate)
    threading.Thread(target=_end_with, args=(parent,), name="spdist-parent-watch", daemon=True).start()


def _on_terminate(number: int, frame: FrameType | None) -> None:
    _pending.set()
    # ipykernel lets SIGINT through only while a cell runs, so passing on is right in both cases.
    signal.raise_signal(signal.SIGINT)


def _end_with(parent: int) -> None:
    """Wait until the process `parent` is gone, then end this process and those of its group (a JVM, for one)."""
    import psutil

    try:
        process = psutil.Process(parent)
        # `is_running` compares start times, so nobody else with this id is meant; a zombie has ended.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_POLL_S)
    except psutil.NoSuchProcess:
        pass
    # Only a group of its own: any other holds processes of somebody else.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
