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

__all__ = ["Logins", "WrongLogins", "credentials", "hashed", "is_hash"]

#: Salt and hash.
_Hash = tuple[bytes, bytes]
_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
#: Other parameters are not read: a file must not choose how much a login costs.
_PREFIX = f"scrypt${_SCRYPT['n']}${_SCRYPT['r']}${_SCRYPT['p']}$"
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
        self._own = {name: _salted(password) for name, password in passwords.items()}
        self._hashes = self._own
        # A guess at an unknown name costs as much as one at a known name, so names cannot be told by the time taken.
        # Nobody knows what this would be the hash of.
        self._nobody = os.urandom(16), os.urandom(_SCRYPT["dklen"])
        self._key = os.urandom(32)
        self._proven: dict[str, tuple[_Hash, bytes]] = {}

    def add(self, hashes: Mapping[str, str]) -> None:
        """Know these names besides those that were given first, and none that was added before; see `hashed`."""
        # Replaced as a whole: threads that verify see the old names or the new ones.
        self._hashes = {**{name: _parsed(text) for name, text in hashes.items()}, **self._own}
        self._proven = {name: one for name, one in self._proven.items() if name in self._hashes}

    def recall(self, name: str, password: str) -> bool:
        """Tell whether somebody has shown this password before; False says nothing. Takes microseconds."""
        known, proven = self._hashes.get(name), self._proven.get(name)
        if known is None or proven is None or proven[0] != known:  # it is another password by now
            return False
        return hmac.compare_digest(proven[1], self._digest(name, password))

    def verify(self, name: str, password: str) -> bool:
        """Tell whether name and password are right. Takes some 30 ms of processor."""
        known = self._hashes.get(name)
        salt, hash_ = known or self._nobody
        # The hash first, also for an unknown name: `or` would skip it.
        if not hmac.compare_digest(hash_, _scrypt(password, salt)) or known is None:
            return False
        self._proven[name] = known, self._digest(name, password)
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


def hashed(password: str) -> str:
    """Return a salted hash as text, which `Logins.add` knows: scrypt, its parameters, salt and hash in base64."""
    return _PREFIX + "$".join(base64.b64encode(part).decode() for part in _salted(password))


def is_hash(text: str) -> bool:
    """Tell whether a text is one of `hashed`."""
    try:
        salt, hash_ = _parsed(text)
    except ValueError:
        return False
    return len(salt) >= 16 and len(hash_) == _SCRYPT["dklen"]


def _parsed(text: str) -> _Hash:
    if not text.startswith(_PREFIX):
        raise ValueError("no hash that is known here")
    salt, hash_ = (base64.b64decode(part, validate=True) for part in text.removeprefix(_PREFIX).split("$"))
    return salt, hash_


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

    def add(self, name: str, caller: str, why: str = "wrong name or password") -> None:
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
            self._log.warning("user %r from %s: %s", shown, caller, why)
