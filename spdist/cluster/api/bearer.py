"""Tokens of an identity provider at the guard of a node: known ones pass by, others are looked at in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import HTTPException, Request

from spdist.cluster.api.audit import AUDIT
from spdist.cluster.protocol.wire_errors import error_body
from spdist.cluster.security.access import Permission, Users
from spdist.errors import UnauthorizedError
from spdist.transports.sockets.guesses import GuessingQueue, TooManyGuesses
from spdist.transports.sockets.logins import WrongLogins

__all__ = ["PARTS", "Bearers", "divided"]

T = TypeVar("T")
_wrong_tokens = WrongLogins(AUDIT)
#: Characters of a token that go into a cookie, at most: of a JWT they are of its signature.
PARTS = 64


def divided(token: str) -> tuple[str, str]:
    """Return a token in two parts, neither of which is good alone: for a body, and for a cookie."""
    at = len(token) - min(PARTS, len(token) // 2)
    return token[:at], token[at:]


class Bearers:
    """Who shows a token of the identity provider.

    Parameters
    ----------
    users : Users
        Those of the node; `Users.identity` is there.

    State
    -----
    That of `GuessingQueue`.
    """

    def __init__(self, users: Users) -> None:
        assert users.identity is not None
        self.users = users
        self.identity = users.identity
        # Of its own: a provider that answers slowly must not hold up those who show passwords.
        self._guesses = GuessingQueue()

    async def admit(self, request: Request, token: str) -> tuple[str, frozenset[Permission]]:
        """Return who shows a token, and what that user may do.

        Raises
        ------
        UnauthorizedError
            The token lets nobody in; says why.
        HTTPException
            429: there were too many such tokens before. 503: the identity provider does not answer.
        """
        from spdist.cluster.security.claims import shown_name

        if not token:
            raise UnauthorizedError("this takes a token: Authorization: Bearer …", hint="spdist login gets one")
        user = self.identity.recall(token)
        if user is None:
            user = await self.verified(request, shown_name(token), lambda: self.identity.verify(token))
        request.state.username = user.username
        return user.username, self.users.granted(user.roles)

    async def verified(self, request: Request, name: str, ask: Callable[[], T]) -> T:
        """Return what `ask` finds out, in a thread: it may ask the provider. Wrong ones are slowed down, by `name`.

        Raises
        ------
        UnauthorizedError, HTTPException
            As for `admit`.
        """
        from spdist.cluster.security.claims import RefusedToken
        from spdist.cluster.security.provider import ProviderAway

        why = ""

        def asked() -> T | None:
            nonlocal why
            try:
                return ask()
            except RefusedToken as refused:
                # The queue takes None for a wrong guess, and has no place for a reason
                why = str(refused)
                return None

        address = request.client.host if request.client else "somewhere"
        try:
            found = await self._guesses.verified(name, address, asked)
        except TooManyGuesses as refused:
            told = UnauthorizedError(f"too many wrong tokens or passwords: try again in {refused.retry_after_s} s")
            raise HTTPException(429, error_body(told), {"Retry-After": str(refused.retry_after_s)}) from refused
        except ProviderAway as away:
            raise _unavailable(away) from away
        if found is None:
            _wrong_tokens.add(name, address, why)
            raise UnauthorizedError(why, hint="spdist login gets a token, or the identity provider does")
        return found

    async def ask(self, ask: Callable[[], T]) -> T:
        """Return what `ask` finds out, in a thread; HTTPException 503 where the identity provider does not answer."""
        from spdist.cluster.security.provider import ProviderAway

        try:
            return await asyncio.to_thread(ask)
        except ProviderAway as away:
            raise _unavailable(away) from away


def _unavailable(away: Exception) -> HTTPException:
    """Return the answer to those who cannot be told from strangers while the provider is away."""
    told = UnauthorizedError(str(away), hint="try again; tokens that this node has seen lately are good meanwhile")
    return HTTPException(503, error_body(told), {"Retry-After": "3"})
