"""``@Cache`` of a stored table: rows by primary key, kept from batch to batch.

Source: io.siddhi.core.table.CacheTable and its subclasses for FIFO, LRU and LFU, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from spdist.operators.base import Row

__all__ = ["CacheSettings", "RowCache"]

Policy = Literal["FIFO", "LRU", "LFU"]


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """``@Cache``.

    Parameters
    ----------
    size : int
        How many rows are kept.
    policy : str
        Which row leaves when one too many comes: the oldest, the one not read for longest, or the one read least often.
    retention_ms : int, optional
        How long a row is believed; None: until it leaves.
    purge_ms : int, optional
        How often rows that are not believed any more are removed.
    """

    size: int
    policy: Policy = "FIFO"
    retention_ms: int | None = None
    purge_ms: int | None = None


class RowCache:
    """Rows by key. What is written through it is dropped, and read again when it is next asked for.

    Parameters
    ----------
    settings : CacheSettings
        How many rows, which leave, and for how long they count.
    now : Callable[[], int]
        The app's time, ms.

    State
    -----
    At most ``settings.size`` rows, each with the time it was read and how often it was asked for. It is never stored.
    """

    def __init__(self, settings: CacheSettings, now: Callable[[], int]) -> None:
        self._settings = settings
        self._now = now
        self._rows: dict[Any, tuple[int, Row]] = {}
        self._uses: dict[Any, int] = {}
        self._purged = now()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Any) -> Row | None:
        """Return a row that was read before and counts still."""
        self._purge()
        found = self._rows.get(key)
        if found is None:
            return None
        read_at, row = found
        if self._old(read_at):
            self.drop(key)
            return None
        self._uses[key] += 1
        if self._settings.policy == "LRU":
            # Dictionaries keep the order of insertion: what was read is the newest again, and the first is the oldest.
            self._rows[key] = self._rows.pop(key)
        return row

    def put(self, key: Any, row: Row) -> None:
        """Keep a row that was just read."""
        if key not in self._rows and len(self._rows) >= self._settings.size:
            least = self._settings.policy == "LFU"
            self.drop(min(self._rows, key=self._uses.__getitem__) if least else next(iter(self._rows)))
        self._rows[key] = (self._now(), row)
        # A row that is read anew keeps its count; one that was dropped begins again.
        self._uses.setdefault(key, 1)

    def drop(self, key: Any) -> None:
        """Forget a row."""
        self._rows.pop(key, None)
        self._uses.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._uses.clear()

    def _old(self, read_at: int) -> bool:
        retention = self._settings.retention_ms
        return retention is not None and self._now() - read_at > retention

    def _purge(self) -> None:
        every = self._settings.purge_ms
        if every is not None and self._now() - self._purged >= every:
            self._purged = self._now()
            for key in [key for key, (read_at, _) in self._rows.items() if self._old(read_at)]:
                self.drop(key)
