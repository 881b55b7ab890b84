"""The token that a node shows other nodes: of the client credentials grant (RFC 6749, 4.4), renewed ahead of its end.

When one is needed is decided in `need_of`; `NodeToken` asks the provider. A token is kept in memory only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from spdist.cluster.security.stored_login import life_of
from spdist.config import Config
from spdist.errors import UnauthorizedError

__all__ = ["IssuedToken", "Need", "NodeToken", "need_of", "node_token"]

Json = dict[str, Any]

_log = logging.getLogger(__name__)
#: A token is renewed a third of its life before it ends, and so long before at most, s.
_AHEAD_S = 60.0
#: One that a manager has refused is renewed when it is so old, s: a new one may be refused as well.
_DOUBT_S = 30.0
#: Between two tries, s.
_PAUSE_S = 3.0


class Need(Enum):
    """What is to be done before a token is shown: nothing, renew it meanwhile, or get one first."""

    NOTHING = auto()
    AHEAD = auto()
    FIRST = auto()


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token, and its times in s of a clock that only grows.

    Parameters
    ----------
    text : str
        What is shown.
    since_s, renew_s, ends_s : float
        When it was asked for, from when on it is renewed, and when it ends.
    """

    text: str = field(repr=False)
    since_s: float
    renew_s: float
    ends_s: float

    @classmethod
    def of(cls, answer: Json, now_s: float) -> IssuedToken:
        """Return the token of a provider's answer to a question of `now_s`."""
        life_s = life_of(answer)
        return cls(answer["access_token"], now_s, now_s + life_s - min(life_s / 3, _AHEAD_S), now_s + life_s)

    def refused(self) -> IssuedToken:
        """Return this token as one that a manager has refused."""
        return replace(self, renew_s=min(self.renew_s, self.since_s + _DOUBT_S))


def need_of(token: IssuedToken | None, tried_s: float, now_s: float) -> Need:
    """Return what is to be done before `token` is shown, where the last try to get one began at `tried_s`.

    Examples
    --------
    >>> token = IssuedToken.of({"access_token": "…", "expires_in": 90}, 0.0)
    >>> [need_of(token, 0.0, now_s).name for now_s in (59.0, 60.0, 90.0)]
    ['NOTHING', 'AHEAD', 'FIRST']
    """
    # Also where there is no token: callers fail without waiting for the provider again
    if now_s < tried_s + _PAUSE_S:
        return Need.NOTHING
    if token is None or now_s >= token.ends_s:
        return Need.FIRST
    return Need.AHEAD if now_s >= token.renew_s else Need.NOTHING


class NodeToken:
    """The token of a node: call it. Safe from several threads; who calls waits only where there is no good token.

    Parameters
    ----------
    ask : callable
        Asks the provider for a token and returns its answer.
    let_go : callable, optional
        Closes the connections to the provider.
    clock : callable, optional
        Seconds that only grow.

    State
    -----
    One token.
    """

    def __init__(
        self,
        ask: Callable[[], Json],
        let_go: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        #: closes the connections to the provider
        self.close = let_go
        self._clock = clock
        self._asking = threading.Lock()
        self._token: IssuedToken | None = None
        self._tried_s, self._why = float("-inf"), ""

    def __call__(self) -> str:
        """Return the token.

        Raises
        ------
        UnauthorizedError
            There is none that is good, and the provider gives none; says why.
        """
        need = self._need()
        if need is Need.AHEAD and self._asking.acquire(blocking=False):
            # That thread releases the lock: unlike an RLock, a Lock belongs to no thread
            threading.Thread(target=self._renew_ahead, name="spdist-token", daemon=True).start()
        elif need is Need.FIRST:
            with self._asking:
                # Another thread may have got one while this one waited
                if self._need() is Need.FIRST:
                    self._renew()
        token = self._token
        if token is None or self._clock() >= token.ends_s:
            raise UnauthorizedError(
                f"this node has no token to show: {self._why}",
                hint="see to issuer, spClientId, spClientSecret and nodeScope in auth.configs.properties of this node",
            )
        return token.text

    def refused(self) -> None:
        """Note that a manager does not take the token: it may have been revoked."""
        if (token := self._token) is not None:
            self._token = token.refused()

    def _need(self) -> Need:
        return need_of(self._token, self._tried_s, self._clock())

    def _renew_ahead(self) -> None:
        try:
            self._renew()
        except Exception:
            _log.exception("the token of this node could not be renewed; this is a defect")
        finally:
            self._asking.release()

    def _renew(self) -> None:
        from spdist.cluster.security.claims import RefusedToken

        self._tried_s = now_s = self._clock()
        try:
            self._token = IssuedToken.of(self._ask(), now_s)
        except (RefusedToken, ConnectionError) as error:  # ProviderAway
            self._why = str(error)


def node_token(config: Config) -> NodeToken | None:
    """Return the token of a node whose settings say that it shows one; None where it shows name and password."""
    if not config.shows_token:
        return None
    from spdist.cluster.security.identity import access_of
    from spdist.cluster.security.provider import Provider

    provider = Provider(replace(access_of(config.auth), scopes=config.auth.node_scope))
    return NodeToken(provider.own_token, provider.close)
