"""Who may come in: names, and passwords as salted hashes. What listens on a socket asks here; there are none here.

Hashes are scrypt's (RFC 7914) with its interactive parameters: about 30 ms of processor and 16 MiB for each guess.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping

__all__ = ["Logins", "WrongLogins", "credentials"]

_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
#: Letters of a name that are shown, lines in a minute, and the length of that minute.
_SHOWN, _MOST, _WINDOW_S = 64, 10, 60.0


class Logins:
    """Names and passwords. The passwords are kept only as salted hashes.

    Parameters
    ----------
    passwords : mapping of str to str
        By name.

    State
    -----
    One hash for each name, and one keyed digest for each that has shown the right password: O(names).
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._hashes = {name: _salted(password) for name, password in passwords.items()}
        # A guess at an unknown name costs as much as one at a known name, so names cannot be told by the time taken.
        self._nobody = _salted(os.urandom(16).hex())
        self._key = os.urandom(32)
        self._proven: dict[str, bytes] = {}

    def recall(self, name: str, password: str) -> bool:
        """Tell whether somebody has shown this password before; False says nothing. Takes microseconds."""
        proven = self._proven.get(name)
        return proven is not None and hmac.compare_digest(proven, self._digest(name, password))

    def verify(self, name: str, password: str) -> bool:
        """Tell whether name and password are right. Takes some 30 ms of processor."""
        salt, known = self._hashes.get(name, self._nobody)
        if not hmac.compare_digest(known, _scrypt(password, salt)) or name not in self._hashes:
            return False
        self._proven[name] = self._digest(name, password)
        return True

    def mark(self, name: str) -> bytes | None:
        """Return what is another with another password of `name`, and says nothing of it; None where it is unknown."""
        known = self._hashes.get(name)
        return None if known is None else b"".join(known)

    def _digest(self, name: str, password: str) -> bytes:
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        return hmac.digest(self._key, f"{len(name)}:{name}{password}".encode(), "sha256")


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT)


def _salted(password: str) -> tuple[bytes, bytes]:
    salt = os.urandom(16)
    return salt, _scrypt(password, salt)


def credentials(header: str) -> tuple[str, str] | None:
    """Return name and password of an ``Authorization`` header (HTTP Basic, RFC 7617); None where it holds none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (name, password) if colon else None


class WrongLogins:
    """Logs wrong logins: names cut, and so many lines in a minute. Safe from several threads.

    Parameters
    ----------
    log : Logger
        Where.
    seconds : callable
        A clock that only goes forward, s.

    State
    -----
    How many there were in this minute.
    """

    def __init__(self, log: logging.Logger, seconds: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._seconds = seconds
        self._lock = threading.Lock()
        self._since = -_WINDOW_S
        self._count = 0

    def add(self, name: str, caller: str) -> None:
        """Take note of one: `name` is what was shown, `caller` an address."""
        with self._lock:
            now, left_out = self._seconds(), 0
            if now - self._since >= _WINDOW_S:
                left_out, self._since, self._count = max(0, self._count - _MOST), now, 0
            self._count += 1
            told = self._count <= _MOST
        if left_out:
            self._log.warning("%d more wrong logins were not logged", left_out)
        if told:
            shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
            self._log.warning("user %r from %s: wrong name or password", shown, caller)
