"""Whether a start of a shard still owns its state, for what leaves after a batch is durable."""

from __future__ import annotations

from spdist.clock import Clock, SystemClock
from spdist.engine.shards.state import StateStore

__all__ = ["Ownership"]

#: So long after an append nobody can have noticed that its process stands still, let alone have taken over, ms.
_SURE_MS = 1_000


class Ownership:
    """When it was last known that nobody has taken a state over.

    A process may stand still between making a batch durable and publishing it, as on a machine that is suspended; its
    group may run elsewhere meanwhile, and have published the batch.

    Parameters
    ----------
    store : StateStore
        The state.
    owner : str
        Whose it is.
    clock : Clock, optional
        This machine's; its steady reading only.
    """

    def __init__(self, store: StateStore, owner: str, clock: Clock | None = None) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock or SystemClock()
        self._known_ms = 0

    def begin_append(self) -> None:
        """Note that the owner is about to append, which fails where somebody has taken over."""
        self._known_ms = self._clock.steady_ms()

    def check(self) -> None:
        """Find out whether it is still the owner's, if a second has passed since that was known.

        Raises
        ------
        FencedError
            Another owner has taken over; nothing may be published.
        """
        now_ms = self._clock.steady_ms()
        if now_ms - self._known_ms >= _SURE_MS:
            self._store.check_owner(self._owner)
            self._known_ms = now_ms
