"""Sessions of logged-in users: opaque tokens that end. No sockets here.

A token belongs to the node that gave it: it is kept there as a digest, in memory, and nobody else knows it. So a logout
holds at the moment of its answer, everywhere; and who finds another leader logs in there.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["TOKEN_LENGTH", "Session", "TokenSessions", "Tokens"]

#: Random bytes of a token: a browser's script knows one half, its cookies the other; neither can be guessed.
_TOKEN_BYTES = 48
#: Characters of a token.
TOKEN_LENGTH = 64
#: Sessions of one user; with one more the oldest of that user ends.
_MOST = 100


@dataclass(frozen=True, slots=True)
class Session:
    """Who holds a token.

    Parameters
    ----------
    username : str
        The user.
    mark : bytes
        Of the password that was shown; where the user has another one now, the session is over.
    """

    username: str
    mark: bytes


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a user holds who has logged in.

    Parameters
    ----------
    session : Session
        Whose they are.
    access : str
        Shown with each request.
    refresh : str
        Shown once, for new ones; empty where the session cannot be renewed.
    """

    session: Session
    access: str
    refresh: str


@dataclass(frozen=True, slots=True)
class _Open:
    session: Session
    access: bytes
    refresh: bytes | None
    access_ends_s: float
    refresh_ends_s: float


class TokenSessions:
    """Tokens of a node: given at a login, renewed, ended. For one thread, the event loop of the node.

    Parameters
    ----------
    valid_s : int
        How long an access token is good, s.
    refresh_s : int
        How long a refresh token is, s.
    clock : callable, optional
        Seconds that only grow.

    State
    -----
    Two digests and four values for each session, 100 sessions at most for each user.
    """

    def __init__(self, valid_s: int, refresh_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.valid_s = valid_s
        self.refresh_s = refresh_s
        self._clock = clock
        self._by_access: dict[bytes, _Open] = {}
        self._by_refresh: dict[bytes, _Open] = {}
        self._of_user: dict[str, OrderedDict[bytes, _Open]] = {}

    def __len__(self) -> int:
        return len(self._by_access)

    def begin(self, session: Session, *, renewable: bool) -> Tokens:
        """Return the tokens of a new session of a user who has shown the password."""
        now_s = self._clock()
        for old in [one for one in self._of_user.get(session.username, {}).values() if _is_over(one, now_s)]:
            self._forget(old)
        if len(self._of_user.get(session.username, ())) >= _MOST:
            # The first one is the oldest: they stand in the order of the logins
            self._forget(next(iter(self._of_user[session.username].values())))
        tokens = Tokens(session, secrets.token_urlsafe(_TOKEN_BYTES), renewable * secrets.token_urlsafe(_TOKEN_BYTES))
        access, refresh = _digest(tokens.access), _digest(tokens.refresh) if renewable else None
        one = _Open(session, access, refresh, now_s + self.valid_s, now_s + self.refresh_s * renewable)
        self._by_access[access] = one
        if refresh is not None:
            self._by_refresh[refresh] = one
        self._of_user.setdefault(session.username, OrderedDict())[access] = one
        return tokens

    def find(self, access: str) -> Session | None:
        """Return whose token this is; None where it is unknown or has ended."""
        one = self._by_access.get(_digest(access))
        return one.session if one is not None and self._clock() < one.access_ends_s else None

    def redeem(self, refresh: str) -> Session | None:
        """Return whose refresh token this was, and end its session; None where it is unknown or has ended."""
        one = self._by_refresh.get(_digest(refresh))
        if one is None or self._clock() >= one.refresh_ends_s:
            return None
        self._forget(one)
        return one.session

    def end(self, access: str) -> None:
        """End the session of a token, its refresh token with it; an unknown one is none."""
        one = self._by_access.get(_digest(access))
        if one is not None:
            self._forget(one)

    def _forget(self, one: _Open) -> None:
        del self._by_access[one.access]
        if one.refresh is not None:
            del self._by_refresh[one.refresh]
        own = self._of_user[one.session.username]
        del own[one.access]
        if not own:
            del self._of_user[one.session.username]


def _is_over(one: _Open, now_s: float) -> bool:
    return now_s >= max(one.access_ends_s, one.refresh_ends_s)


def _digest(token: str) -> bytes:
    # Digests are looked up, not tokens: how long that takes says nothing of a token.
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
