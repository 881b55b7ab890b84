"""Who may call a node: users with hashed passwords, and what each role may do. No sockets here.

Source: the permissions ``siddhiApp.view`` and ``siddhiApp.manage`` of WSO2 SP 4.x and the role lists of its status
dashboard (administrators, developers, viewers). Unlike there, registering as a worker is a permission of its own: with
WSO2 any user who can log in can register a node and is then handed apps to run.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from spdist.config import Config
from spdist.errors import ConfigError

__all__ = ["ROLES", "Permission", "Users"]


class Permission(Enum):
    """What a route asks of its caller."""

    #: read apps, nodes, metrics
    VIEW = "siddhiApp.view"
    #: deploy, undeploy, back up, restore
    MANAGE = "siddhiApp.manage"
    #: report as a worker, and be handed apps
    HEARTBEAT = "resource.heartbeat"


#: What the roles may do, besides the configured admin role, which may do everything.
ROLES = MappingProxyType(
    {
        "developer": frozenset({Permission.VIEW, Permission.MANAGE}),
        "viewer": frozenset({Permission.VIEW}),
        "worker": frozenset({Permission.HEARTBEAT}),
    }
)

# About 30 ms and 16 MiB for each guess (RFC 7914's interactive setting).
_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}


@dataclass(frozen=True, slots=True)
class _Entry:
    salt: bytes
    digest: bytes
    permissions: frozenset[Permission]


class Users:
    """The users of a node. Passwords are kept only as salted scrypt hashes, made when the node starts.

    Parameters
    ----------
    config : Config
        Its ``auth.configs``.

    Raises
    ------
    ConfigError
        There is no user: a node that listens has no built-in one.

    State
    -----
    One hash for each user, and one keyed digest for each user who has shown the right password: O(users).
    """

    def __init__(self, config: Config) -> None:
        if not config.auth.users:
            raise ConfigError(
                f"{config.path}: this node listens, but auth.configs has no user who could call it",
                hint="name one under auth.configs.userManager.userStore.users, with a password such as ${env:NAME}",
            )
        self._entries = {
            user.username: _entry(user.password.reveal(), self._granted(user.roles, config.auth.admin_role))
            for user in config.auth.users
        }
        # A guess at an unknown name costs as much as one at a known name, so names cannot be told by the time taken.
        self._nobody = _entry(os.urandom(16).hex(), frozenset())
        self._key = os.urandom(32)
        self._proven: dict[str, bytes] = {}

    @staticmethod
    def _granted(roles: tuple[str, ...], admin_role: str) -> frozenset[Permission]:
        if admin_role in roles:
            return frozenset(Permission)
        return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))

    def recall(self, username: str, password: str) -> frozenset[Permission] | None:
        """Return the permissions of a user who showed this password before; None says nothing. Takes microseconds."""
        proven = self._proven.get(username)
        if proven is not None and hmac.compare_digest(proven, self._digest(username, password)):
            return self._entries[username].permissions
        return None

    def verify(self, username: str, password: str) -> frozenset[Permission] | None:
        """Return the permissions of the user, or None if name or password are wrong. Takes some 30 ms of processor."""
        entry = self._entries.get(username, self._nobody)
        if not hmac.compare_digest(entry.digest, _scrypt(password, entry.salt)) or entry is self._nobody:
            return None
        self._proven[username] = self._digest(username, password)
        return entry.permissions

    def _digest(self, username: str, password: str) -> bytes:
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        message = f"{len(username)}:{username}{password}".encode()
        return hmac.digest(self._key, message, "sha256")


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT)


def _entry(password: str, permissions: frozenset[Permission]) -> _Entry:
    salt = os.urandom(16)
    return _Entry(salt, _scrypt(password, salt), permissions)
