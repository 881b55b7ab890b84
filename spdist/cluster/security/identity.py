"""Users whom an identity provider knows: from a token to who shows it. What was found out is kept, for a bounded time.

The provider is asked in `Identity.verify`, which blocks; `Identity.recall` takes microseconds. A provider that is away
lets nobody in who is not known already.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spdist.cluster.security.claims import LEEWAY_S, Identified, RefusedToken, Rules, identified, is_jwt, roles_of
from spdist.cluster.security.provider import Provider, ProviderAccess
from spdist.config.external import External

__all__ = ["Identity", "KnownTokens", "NewLogin", "access_of", "rules_of"]

Json = dict[str, Any]
#: Tokens that are remembered, and that are remembered as ended: with one more the oldest is forgotten.
_MOST = 10_000


def access_of(external: External) -> ProviderAccess:
    """Return how a node with these settings reaches its provider."""
    asking_as = (external.km_username, external.km_password) if external.km_password is not None else None
    looking_as = (external.scim_username, external.scim_password) if external.scim_password is not None else None
    return ProviderAccess(
        issuer=external.issued_by,
        client_id=external.client_id,
        client_secret=external.client_secret,
        scopes=external.login_scopes,
        trust_file=external.provider_trust_file,
        connect_s=external.connection_timeout_ms / 1000,
        read_s=external.read_timeout_ms / 1000,
        jwks_url=external.jwks_url,
        introspection_url=external.introspection_url,
        asking_as=asking_as,
        scim_url=external.scim_url,
        looking_as=looking_as,
    )


def rules_of(external: External, admin_role: str) -> Rules:
    """Return what settings ask of tokens."""
    scopes = {one.scope: one.role for one in external.role_mapping if one.scope}
    if external.admin_scope:
        scopes[external.admin_scope] = admin_role
    return Rules(
        external.issued_by,
        external.audience or external.client_id,
        frozenset({external.client_id, external.public_client_id} - {""}),
        external.username_claim,
        external.roles_claim,
        {one.group: one.role for one in external.role_mapping if one.group},
        scopes,
    )


class KnownTokens:
    """What was found out about tokens, by their digests. Values only: times are given, s since 1970.

    Parameters
    ----------
    kept_s : float
        How long something is known.

    State
    -----
    A digest, a name and some roles for each token, 10,000 at most, and 10,000 digests of those that were ended.
    """

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._known: OrderedDict[bytes, tuple[Identified, float]] = OrderedDict()
        self._ended: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, token: str, now_s: float) -> Identified | None:
        """Return whose token this is, as far as that is known."""
        digest = _digest(token)
        found, until_s = self._known.get(digest, (None, 0.0))
        if found is not None and (now_s >= until_s or self.has_ended(token)):
            del self._known[digest]
            return None
        return found

    def keep(self, token: str, found: Identified, now_s: float) -> bool:
        """Know whose token this is until it ends or is to be looked at again; False where it was ended here."""
        if self.has_ended(token):
            return False
        ends_s = float("inf") if found.until_s is None else found.until_s + LEEWAY_S
        self._known[_digest(token)] = found, min(ends_s, now_s + self._kept_s)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return True

    def end(self, token: str) -> None:
        """Let nobody in with this token any more, whoever signed it."""
        self._ended[_digest(_meaning(token))] = None
        if len(self._ended) > _MOST:
            self._ended.popitem(last=False)

    def has_ended(self, token: str) -> bool:
        """Tell whether a token was ended here."""
        # The first part keeps requests from parsing a token as long as nobody has logged out
        return bool(self._ended) and _digest(_meaning(token)) in self._ended


@dataclass(frozen=True, slots=True)
class NewLogin:
    """What a login at the provider has brought.

    Parameters
    ----------
    user : Identified
        Who it is.
    access, refresh : str
        The provider's tokens; the second is empty where there is none.
    valid_s : int
        How long the first is good.
    """

    user: Identified
    access: str
    refresh: str
    valid_s: int


class Identity:
    """The users of an identity provider, as a node with `external` settings sees them. Safe from several threads.

    Parameters
    ----------
    external : External
        ``auth.configs.properties``.
    admin_role : str
        The role of ``adminScope``.
    clock : callable, optional
        Seconds since 1970, for the times in tokens.

    State
    -----
    Those of `KnownTokens` and `Provider`.
    """

    def __init__(self, external: External, admin_role: str, clock: Callable[[], float] = time.time) -> None:
        self.settings = external
        self.provider = Provider(access_of(external))
        self._rules = rules_of(external, admin_role)
        self._clock = clock
        self._known = KnownTokens(external.cache_timeout_s)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all connections to the provider."""
        self.provider.close()

    def recall(self, token: str) -> Identified | None:
        """Return whose token this is, if that was found out lately; None says nothing."""
        with self._lock:
            return self._known.find(token, self._clock())

    def verify(self, token: str) -> Identified:
        """Return whose token this is; may ask the provider.

        Raises
        ------
        RefusedToken
            It lets nobody in.
        ProviderAway
            That cannot be found out now.
        """
        if (known := self.recall(token)) is not None:
            return known
        with self._lock:
            if self._known.has_ended(token):
                raise RefusedToken("the token was logged out")
        # Without the lock: the provider may take seconds, and `recall` must not wait for it
        found = self._look(token)
        if not found.roles and self.settings.scim_url:
            user = self.provider.user(found.username)
            if user is None:
                raise RefusedToken(f"the identity provider lists no user {found.username}")
            if not user.active:
                raise RefusedToken("the identity provider says that this user is not active")
            found = replace(found, roles=roles_of(user.groups, self._rules))
        with self._lock:
            if not self._known.keep(token, found, self._clock()):  # while it was being looked at
                raise RefusedToken("the token was logged out")
        return found

    def end(self, token: str) -> None:
        """End a token: here now, and at the provider if it can; raises ProviderAway where it does not answer."""
        with self._lock:
            # Here first, as a provider that is away must not keep the token good
            self._known.end(token)
        with contextlib.suppress(RefusedToken):  # it has ended there
            self.provider.revoke(token)

    def _look(self, token: str) -> Identified:
        by_itself = identified(self.provider.signed(token), self._rules, self._clock()) if is_jwt(token) else None
        if by_itself is not None and self.settings.introspection != "always":
            return by_itself
        answer = self.provider.introspect(token)
        if answer is None:
            raise RefusedToken("the identity provider would have to be asked about this token, and cannot be")
        by_answer = identified(answer, self._rules, self._clock(), asked=True)
        return by_itself or by_answer  # the token may say more: its groups

    # ---------------------------------------------------------------------------------------------------------- logins
    def login(self, username: str, password: str) -> NewLogin:
        """Return what a name and a password bring at the provider; raises as `verify` does."""
        return self._logged_in(self.provider.login(username, password))

    def renew(self, refresh: str) -> NewLogin:
        """Return what a refresh token brings; raises as `verify` does."""
        return self._logged_in(self.provider.refresh(refresh), refresh)

    def redeem(self, code: str, redirect_uri: str, verifier: str, nonce: str) -> NewLogin:
        """Return what a code of the provider brings, of a login that began with `nonce`; raises as `verify` does."""
        return self._logged_in(self.provider.redeem(code, redirect_uri, verifier, nonce))

    def _logged_in(self, tokens: Json, refresh: str = "") -> NewLogin:
        access, given = tokens["access_token"], tokens.get("refresh_token")
        user = self.verify(access)
        ends_s = user.until_s if user.until_s is not None else self._clock() + self.settings.cache_timeout_s
        return NewLogin(
            user,
            access,
            # A provider that gives no new one lets the old one go on (RFC 6749, 6)
            given if isinstance(given, str) and given else refresh,
            max(1, int(ends_s - self._clock())),
        )


def _meaning(token: str) -> str:
    """Return what a token says: of a JWT without its signature, which can be written in several ways."""
    return token.rpartition(".")[0] if is_jwt(token) else token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
