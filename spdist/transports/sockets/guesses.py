"""Who may guess a password, and when: what every listener that asks for one grants to those who got it wrong.

Who shows a password that was right before never comes here. Who guesses is slowed down, for that name from that
address alone, so nobody can lock others out.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

__all__ = ["Guesses", "GuessingQueue", "TooManyGuesses"]

Granted = TypeVar("Granted")

#: Wrong passwords for one name from one address that cost nothing.
_FREE = 5
#: After the next one it takes a second until another is looked at, and twice as long each time, up to this, s.
_LONGEST_S = 60.0
#: Without a wrong one for so long they are forgotten, s.
_FORGOTTEN_S = 600.0
#: Names and addresses that are known at most; those that were wrong longest ago are forgotten.
_MOST = 10_000
#: Guesses from one address that may wait for their turn.
_MOST_WAITING = 64
#: Guesses that are looked at at the same time: each takes processor and memory.
_TOGETHER = 2


class TooManyGuesses(Exception):
    """A guess that is not looked at.

    Parameters
    ----------
    retry_after_s : int
        After how many seconds the next one is.
    """

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many wrong passwords: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Wrong:
    count: int = 0
    at_s: float = 0.0


class Guesses:
    """How many wrong passwords there were, by name and address. Values only: times are given.

    State
    -----
    A digest and two numbers for each name and address that got it wrong lately, 10,000 at most.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Wrong] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def wait_s(self, username: str, address: str, now_s: float) -> float:
        """Return how long it takes until a guess is looked at, s; 0 where it is now."""
        known = self._known.get(_key(username, address))
        if known is None or known.count <= _FREE or now_s - known.at_s >= _FORGOTTEN_S:
            return 0.0
        pause_s = min(_LONGEST_S, 2.0 ** (known.count - _FREE - 1))
        return max(0.0, known.at_s + pause_s - now_s)

    def wrong(self, username: str, address: str, now_s: float) -> None:
        """Note a wrong guess."""
        key = _key(username, address)
        known = self._known.setdefault(key, _Wrong())
        # Bounded, as 2 to the power of it is a pause: more makes none longer.
        known.count = 1 if now_s - known.at_s >= _FORGOTTEN_S else min(known.count + 1, _FREE + 10)
        known.at_s = now_s
        self._known.move_to_end(key)
        # The bound keeps memory small whatever names and addresses are made up.
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def right(self, username: str, address: str) -> None:
        """Forget what was wrong before."""
        self._known.pop(_key(username, address), None)


@dataclass(slots=True)
class _Turn:
    """The guesses of one address, of which one is looked at at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class GuessingQueue:
    """Has guesses looked at, those of each address in turn, so that none holds up others for long.

    Parameters
    ----------
    clock : Callable, optional
        Seconds that only grow.

    State
    -----
    That of `Guesses`, and of each address how many of its guesses wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guesses = Guesses()
        self._turns: dict[str, _Turn] = {}
        self._slots = asyncio.Semaphore(_TOGETHER)

    async def verified(self, username: str, address: str, verify: Callable[[], Granted | None]) -> Granted | None:
        """Return what `verify` grants for a guess; None where it is wrong.

        Parameters
        ----------
        username, address : str
            Who guesses, and from where.
        verify : Callable
            Runs in a thread: hashing takes long.

        Raises
        ------
        TooManyGuesses
            It was not looked at.
        """
        self._check(username, address)
        turn = self._turns.setdefault(address, _Turn())
        if turn.waiting >= _MOST_WAITING:
            raise TooManyGuesses(1)
        turn.waiting += 1
        try:
            # First the turn and then a slot: an address with many guesses holds one slot at most.
            async with turn.lock:
                self._check(username, address)  # those before it may have been wrong
                async with self._slots:
                    granted = await asyncio.to_thread(verify)
                if granted is None:
                    self._guesses.wrong(username, address, self._clock())
                else:
                    self._guesses.right(username, address)
                return granted
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                self._turns.pop(address, None)

    def _check(self, username: str, address: str) -> None:
        wait_s = self._guesses.wait_s(username, address, self._clock())
        if wait_s > 0:
            raise TooManyGuesses(math.ceil(wait_s))


def _key(username: str, address: str) -> bytes:
    # As long for any name, which may be as long as a head may be.
    return hashlib.blake2b(f"{address}\0{username}".encode(errors="surrogatepass"), digest_size=16).digest()
