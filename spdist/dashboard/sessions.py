"""Sessions of a dashboard: who has logged in, until nobody clicks any more, and which kernels end then. Pure.

A manager's token is good at the node that gave it, and ends; the panels follow the leader, also after a failover. So a
session keeps the user's name and password, in memory, and its kernels show them to whoever leads.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["MOST_PAGES", "KernelUse", "UserSession", "UserSessions", "oldest_beyond"]

#: Random bytes of a session's id.
_ID_BYTES = 32
#: Sessions of one user; with one more the oldest of that user ends.
_MOST = 10
#: Kernels of one session, one for each page that is open; with one more the oldest ends.
MOST_PAGES = 4
#: How long a kernel waits for its page: one that is loading, or whose connection was lost, s.
_ALONE_S = 120.0


@dataclass(eq=False, slots=True)
class UserSession:
    """A user who has logged in.

    Parameters
    ----------
    username, password : str
        As the manager knows them.
    used_s : float
        When the user did something last (the clock of `UserSessions`).
    ended : bool
        Whether it is over, and lets nobody in.
    """

    username: str
    password: str = field(repr=False)
    used_s: float
    ended: bool = False


class UserSessions:
    """The sessions of a dashboard. For one thread, its event loop.

    Parameters
    ----------
    idle_s : float
        Without a request or a click for so long a session ends, s.
    clock : callable, optional
        Seconds that only grow.

    State
    -----
    A digest, a name and a password for each session, 10 sessions at most for each user.
    """

    def __init__(self, idle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._by_digest: dict[bytes, UserSession] = {}

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, username: str, password: str) -> str:
        """Return the id of a new session of a user whose password was right."""
        own = [one for one in self._by_digest.values() if one.username == username]
        if len(own) >= _MOST:
            self.end(min(own, key=lambda one: one.used_s))
        session_id = secrets.token_urlsafe(_ID_BYTES)
        self._by_digest[_digest(session_id)] = UserSession(username, password, self._clock())
        return session_id

    def find(self, session_id: str) -> UserSession | None:
        """Return the session of an id; None where it is unknown or over."""
        self.expire()
        return self._by_digest.get(_digest(session_id))

    def use(self, session: UserSession) -> None:
        """Note that the user does something."""
        session.used_s = self._clock()

    def end(self, session: UserSession) -> None:
        """End a session; its password is forgotten."""
        session.ended, session.password = True, ""
        self._by_digest = {digest: one for digest, one in self._by_digest.items() if one is not session}

    def expire(self) -> None:
        """End the sessions that nobody has used for too long."""
        now_s = self._clock()
        for session in [one for one in self._by_digest.values() if now_s - one.used_s >= self._idle_s]:
            self.end(session)


@dataclass(eq=False, slots=True)
class KernelUse:
    """Whose a kernel is, and when its page was connected last (monotonic clock, s)."""

    session: UserSession
    connected_s: float

    def is_over(self, now_s: float) -> bool:
        """Tell whether nobody needs the kernel any more."""
        return self.session.ended or now_s - self.connected_s >= _ALONE_S


def oldest_beyond(kernels: dict[str, KernelUse], session: UserSession) -> list[str]:
    """Return the kernels, oldest first, that must end before the session gets one more."""
    # In the order in which they were started, which a dictionary keeps.
    own = [kernel_id for kernel_id, use in kernels.items() if use.session is session]
    return own[: max(0, len(own) + 1 - MOST_PAGES)]


def _digest(session_id: str) -> bytes:
    # Digests are looked up, not ids: how long that takes says nothing of an id.
    return hashlib.sha256(session_id.encode(errors="surrogatepass")).digest()
