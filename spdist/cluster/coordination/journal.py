"""The journal: who led, which workers came and went, what was deployed and where it ran, by whom and why.

It stands in the coordination database, so that it outlives its writers. A thread of its own writes it: who notes
something never waits for the database, and neither does the lease.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Protocol

from spdist.clock import Clock
from spdist.cluster.coordination.journal_rows import Happened
from spdist.cluster.protocol.messages import Announce, Level
from spdist.errors import ClusterError, StoreUnavailableError

__all__ = ["Journal", "JournalStore"]

_log = logging.getLogger("spdist.cluster.manager")
#: Entries that wait for a database that is away; later ones are lost.
_MOST_WAITING = 10_000
#: Entries written in one transaction.
_PORTION = 100
_RETRY_S = 1.0
_TRIM_EVERY_MS = 600_000
_DAY_MS = 24 * 3600 * 1000


class JournalStore(Protocol):
    """What it needs of the database; `spdist.cluster.coordination.journal_rows.JournalRows` has it."""

    def write(self, node_id: str, happened: Sequence[Happened], steady_ms: int) -> None:
        """Write what has happened."""
        ...

    def trim(self, rows: int, age_ms: int) -> int:
        """Delete what is too old, or too much."""
        ...


class Journal:
    """Takes down what happens on one manager. Safe to use from several threads.

    Parameters
    ----------
    store : JournalStore
        The database.
    node_id : str
        Id of this manager.
    clock : Clock
        Its steady reading only: when something happened is told by the database's clock.
    leads : callable
        Whether this manager leads: then it deletes what is old.
    rows, days : int
        So many entries, and so old ones, are kept.

    State
    -----
    Up to 10,000 entries that wait to be written; a count for each kind.
    """

    def __init__(
        self, store: JournalStore, node_id: str, clock: Clock, leads: Callable[[], bool], *, rows: int, days: int
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._clock = clock
        self._leads = leads
        self._rows = rows
        self._age_ms = days * _DAY_MS
        self._life = uuid.uuid4().hex
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._waiting: deque[Happened] = deque()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spdist-journal", daemon=True)
        self._told_lost = 0
        self._trim_at_ms = clock.steady_ms() + _TRIM_EVERY_MS
        #: entries of each kind that were noted, whether they are written or not
        self.noted: Counter[str] = Counter()
        #: entries that were not written, and never will be
        self.lost = 0

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits if the database takes it, and end."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def note(self, said: Announce, term: int | None) -> None:
        """Take down what has happened; returns without waiting for the database."""
        with self._lock:
            self.noted[said.event] += 1
            if len(self._waiting) >= _MOST_WAITING:
                self.lost += 1
                return
            mark = f"{self._life}-{next(self._numbers)}"
            self._waiting.append(Happened(said, term, self._clock.steady_ms(), mark))
        self._wake.set()

    # ------------------------------------------------------------------------------------------------------- the thread
    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(max(0, self._trim_at_ms - self._clock.steady_ms()) / 1000)
            # Cleared before the look, so that what is noted meanwhile wakes the thread again
            self._wake.clear()
            try:
                if not self._write():
                    # Without a new entry nobody would wake the thread for those that wait
                    self._wake.set()
                    self._stop.wait(_RETRY_S)
                self._trim()
            except Exception:
                _log.exception("keeping the journal failed; this is a defect")
                self._stop.wait(_RETRY_S)
        self._write()

    def _write(self) -> bool:
        """Write what waits; False where the database does not answer."""
        while True:
            with self._lock:
                # Left in the queue until they are written: an outage in between loses none
                portion = list(islice(self._waiting, _PORTION))
            if not portion:
                return True
            try:
                self._write_portion(portion)
            except StoreUnavailableError as error:
                _log.debug("%d entries of the journal wait: %s", len(self._waiting), error.message)
                return False
            with self._lock:
                # `note` appends at the other end, and nobody else removes: these are the ones that were written
                for _ in portion:
                    self._waiting.popleft()
            self._tell_lost()

    def _write_portion(self, portion: Sequence[Happened]) -> None:
        """Write entries; those that the database refuses are lost, and only those."""
        try:
            self._store.write(self._node_id, portion, self._clock.steady_ms())
        except StoreUnavailableError:
            raise
        except ClusterError as refused:
            if len(portion) > 1:
                for one in portion:
                    self._write_portion([one])
                return
            _log.warning("an entry of the journal is lost (%s): %s", portion[0].said.message, refused.message)
            with self._lock:
                self.lost += 1
                # The line above has told it; `_tell_lost` is about those that found no room
                self._told_lost += 1

    def _tell_lost(self) -> None:
        """Say how many entries had no room to wait, now that the database answers again."""
        with self._lock:
            more, self._told_lost = self.lost - self._told_lost, self.lost
        if more:
            message = f"{more} entries of the journal are lost: the database did not answer for too long"
            _log.warning("%s", message)
            self.note(Announce("journal-lost", self._node_id, message, Level.WARNING), None)

    def _trim(self) -> None:
        if self._clock.steady_ms() < self._trim_at_ms:
            return
        self._trim_at_ms = self._clock.steady_ms() + _TRIM_EVERY_MS
        try:
            if self._leads() and (gone := self._store.trim(self._rows, self._age_ms)):
                _log.info("%d old entries of the journal were deleted", gone)
        except ClusterError as error:
            _log.debug("the journal is not trimmed for now: %s", error.message)
