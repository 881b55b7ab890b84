"""The poller: one thread for each cluster, that asks one question a second for all panels that show it.

Panels do not ask: they say what they want to know (`Poller.answer`), and are told what was answered last. So showing a
panel waits for nobody, and any number of panels costs the cluster one request a second.
"""

from __future__ import annotations

import copy
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from spdist.errors import NotFoundError, SpdistError

__all__ = ["Awaited", "Follower", "Inquiry", "PolledValue", "Poller", "next_due"]

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: Between two questions; and between two looks of panels that ask nobody.
_INTERVAL_S = 1.0
#: After so many questions in a row that were not answered, the cluster is asked more rarely, and at last no more.
_RARELY_AFTER, _NEVER_AFTER = 30, 120
_RARELY_S = 10.0
#: Answers that are remembered; what is not asked any more goes first.
_MOST_ANSWERS = 200


class Awaited(Exception):
    """The question has no answer yet; it is put down, and a later look has the answer."""


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[T]):
    """Something to know, and how to find out.

    Parameters
    ----------
    key : hashable
        Questions of the same key are one inquiry.
    ask : callable
        Returns the answer; may take seconds. SpdistError where there is none.
    every_s : float
        After how long it is asked again, s; ``math.inf`` for what does not change.
    """

    key: Hashable
    ask: Callable[[], T]
    every_s: float = _INTERVAL_S


@dataclass(frozen=True, slots=True)
class PolledValue:
    """What was answered, or why not, and when it was asked (monotonic clock, s)."""

    asked_s: float
    value: Any = None
    error: SpdistError | None = None


class Follower(Protocol):
    """A panel."""

    def refresh(self) -> bool:
        """Look, and show what there is."""
        ...


def next_due(
    wanted: Iterable[Inquiry[Any]], answers: Mapping[Hashable, PolledValue]
) -> tuple[Inquiry[Any], float] | None:
    """Return the question whose turn it is, and when (s); those that were never asked come first, in their order."""

    def due_s(inquiry: Inquiry[Any]) -> float:
        known = answers.get(inquiry.key)
        if known is None:
            return -math.inf
        return known.asked_s + (inquiry.every_s if known.error is None else min(inquiry.every_s, _INTERVAL_S))

    due = [(inquiry, due_s(inquiry)) for inquiry in wanted]
    return min(due, key=lambda one: one[1], default=None)


class Poller:
    """Asks for all panels that follow it, and has them look again, once a second.

    State
    -----
    Weak references to the panels; the last answer to each of up to 200 questions; a thread, as long as a panel follows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._followers: WeakSet[Follower] = WeakSet()
        self._thread: threading.Thread | None = None
        self._wanted: dict[Hashable, Inquiry[Any]] = {}
        self._answers: dict[Hashable, PolledValue] = {}
        self._asked_s = -math.inf
        self._failures = 0

    # --- for panels
    def follow(self, panel: Follower) -> None:
        """Have a panel look now and once a second, as long as it is there and does not leave."""
        with self._lock:
            self._followers.add(panel)
            self._failures = 0
            # `_followed` gives the thread up under this lock: no panel is left without one.
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="spdist-panels", daemon=True)
                self._thread.start()
        self._wake.set()

    def leave(self, panel: Follower) -> None:
        """Have a panel look no more; the thread ends with the last one."""
        with self._lock:
            self._followers.discard(panel)
        self._wake.set()

    def wake(self) -> None:
        """Have all panels look again soon: something of theirs has changed."""
        self._wake.set()

    def forget(self, key: Hashable) -> None:
        """Ask this question again soon: what was answered is known to be over."""
        with self._lock:
            self._answers.pop(key, None)
        self._wake.set()

    def answer(self, inquiry: Inquiry[T], max_age_s: float = 0.0) -> T:
        """Return an answer: in the poller's own thread the last one, elsewhere one that is at most so old.

        Raises
        ------
        Awaited
            There is none yet; only in the poller's thread, where nothing may wait.
        SpdistError
            Why there is none.
        """
        if threading.current_thread() is self._thread:
            known = self._wanted.get(inquiry.key)
            if known is None or inquiry.every_s < known.every_s:
                self._wanted[inquiry.key] = inquiry
            last = self._answers.get(inquiry.key)
        else:
            last = self._answers.get(inquiry.key)
            if last is None or last.error is not None or time.monotonic() - last.asked_s > max_age_s:
                last = self._ask(inquiry)
        if last is None:
            raise Awaited
        if last.error is not None:
            raise copy.copy(last.error)  # one that is kept would keep, in its traceback, all panels that it was told
        value: T = last.value
        return value

    # --- the thread
    def _run(self) -> None:
        while self._followed():
            # Before it looks: whoever wakes it from here on ends the pause below.
            self._wake.clear()
            self._ask_what_is_due()
            self._have_them_look()
            self._wake.wait(self._pause_s())

    def _followed(self) -> bool:
        """Return whether there is a panel to look for; else the thread ends."""
        with self._lock:
            if self._failures >= _NEVER_AFTER:
                self._followers.clear()
            if len(self._followers):
                return True
            self._thread = None
            self._wanted, self._answers = {}, {}
            return False

    def _ask_what_is_due(self) -> None:
        due = next_due(self._wanted.values(), self._answers)
        if due is not None and max(due[1], self._free_s()) <= time.monotonic():
            self._asked_s = time.monotonic()
            self._ask(due[0])

    def _have_them_look(self) -> None:
        """Have the panels look; each says again what it wants to know."""
        self._wanted = {}
        with self._lock:
            # A copy: a panel may leave while it looks, and one that nobody has vanishes.
            panels = list(self._followers)
        for panel in panels:
            try:
                panel.refresh()
            except Exception:
                _log.exception("a panel cannot be shown any more; this is a defect")
                self.leave(panel)

    def _ask(self, inquiry: Inquiry[Any]) -> PolledValue:
        asked_s = time.monotonic()
        try:
            answer = PolledValue(asked_s, inquiry.ask())
        except SpdistError as error:
            answer = PolledValue(asked_s, error=copy.copy(error))
        # That something is not there is an answer, too: the cluster can be reached.
        answered = answer.error is None or isinstance(answer.error, NotFoundError)
        self._failures = 0 if answered else self._failures + 1
        with self._lock:
            self._answers[inquiry.key] = answer
            if len(self._answers) > _MOST_ANSWERS:
                del self._answers[min(self._answers, key=lambda key: self._answers[key].asked_s)]
        return answer

    def _free_s(self) -> float:
        """Return when the next question may be asked."""
        return self._asked_s + (_RARELY_S if self._failures >= _RARELY_AFTER else _INTERVAL_S)

    def _pause_s(self) -> float:
        due = next_due(self._wanted.values(), self._answers)
        if due is None:
            return _INTERVAL_S
        return min(_INTERVAL_S, max(0.0, max(due[1], self._free_s()) - time.monotonic()))
