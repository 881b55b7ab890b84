"""How many messages cannot be read, as metrics and the log tell it."""

from __future__ import annotations

import logging

from spdist.errors import MappingError

__all__ = ["RejectCounter"]

log = logging.getLogger(__name__)

#: So many are logged one by one, then one in `_EACH`.
_FIRST, _EACH = 10, 1000


class RejectCounter:
    """Counts the messages of one place that cannot be read, and events of messages; some of them are logged.

    Parameters
    ----------
    place : str
        For the log: ``the @source of stream 'S'``.

    State
    -----
    The count, since this process began, as of any counter of Prometheus.
    """

    def __init__(self, place: str) -> None:
        self.count = 0
        self._place = place

    def add(self, error: Exception, *, told: bool = True) -> None:
        """Count what `error` stands for; where it is `told` log the first ten, and then one in a thousand."""
        before = self.count
        self.count += error.events if isinstance(error, MappingError) else 1
        # An error may stand for many events: the count can leap over the thousand, so both sides of it are compared.
        if told and (self.count <= _FIRST or self.count // _EACH > before // _EACH):
            log.warning("%s drops what it cannot read, %d so far: %s", self._place, self.count, error)
