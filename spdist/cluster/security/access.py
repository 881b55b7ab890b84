"""Who may call a node: users with hashed passwords, and what each role may do. No sockets here.

Source: the permissions ``siddhiApp.view`` and ``siddhiApp.manage`` of WSO2 SP 4.x and the role lists of its status
dashboard (administrators, developers, viewers). Unlike there, registering as a worker is a permission of its own: with
WSO2 any user who can log in can register a node and is then handed apps to run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from spdist.cluster.security.sessions import Session, Tokens, TokenSessions
from spdist.cluster.security.user_file import UserFile, read_users
from spdist.config import Config
from spdist.errors import ConfigError, TransportError
from spdist.transports.sockets.logins import Logins

if TYPE_CHECKING:
    from spdist.cluster.security.identity import Identity

__all__ = ["CALLER", "ROLES", "Permission", "Users"]

_log = logging.getLogger("spdist.cluster")
#: The user whose request is being handled; empty where none is.
CALLER: ContextVar[str] = ContextVar("spdist_caller", default="")


class Permission(Enum):
    """What a route asks of its caller."""

    #: read apps, nodes, metrics
    VIEW = "siddhiApp.view"
    #: deploy, undeploy, back up, restore
    MANAGE = "siddhiApp.manage"
    #: report as a worker, and be handed apps
    HEARTBEAT = "resource.heartbeat"


#: What the roles of `spdist.config.users.BUILT_IN_ROLES` may do; the configured admin role may do everything.
ROLES = MappingProxyType(
    {
        "developer": frozenset({Permission.VIEW, Permission.MANAGE}),
        "viewer": frozenset({Permission.VIEW}),
        "worker": frozenset({Permission.HEARTBEAT}),
    }
)


class Users:
    """The users of a node. Passwords are kept only as salted scrypt hashes, made when the node starts.

    Parameters
    ----------
    config : Config
        Its ``auth.configs``.

    Raises
    ------
    ConfigError
        There is no user: a node that listens has no built-in one (see `spdist.cluster.security.first_password`). Or the
        users file cannot be read, or has a user of the settings.

    Attributes
    ----------
    sessions : TokenSessions
        Of those who have logged in.
    identity : Identity or None
        Further users, whom an identity provider knows.

    State
    -----
    That of `Logins` and `TokenSessions`: O(users); and that of `Identity`.
    """

    def __init__(self, config: Config) -> None:
        self._admin_role = config.auth.admin_role
        self._logins = Logins({user.username: user.password.reveal() for user in config.auth.users})
        self._own = {user.username: _granted(user.roles, self._admin_role) for user in config.auth.users}
        self._granted = self._own
        self._file = UserFile(config.auth.users_file) if config.auth.users_file else None
        if self._file is not None and self._file.has_changed():
            self._read(self._file.path)
        self.identity = _identity(config)
        if not self._granted and self.identity is None:
            raise ConfigError(
                f"{config.path}: this node listens, but auth.configs has no user who could call it",
                hint="name one under auth.configs.userManager.userStore.users, with a password such as ${env:NAME}; "
                "or set usersFile there, and run `spdist user add`",
            )
        self.sessions = TokenSessions(config.auth.session_timeout_s, config.auth.refresh_timeout_s)

    def recall(self, username: str, password: str) -> frozenset[Permission] | None:
        """Return the permissions of a user who showed this password before; None says nothing. Takes microseconds."""
        # First: who is no longer in the users file must not be recalled
        self._look()
        return self._granted.get(username) if self._logins.recall(username, password) else None

    def granted(self, roles: Iterable[str]) -> frozenset[Permission]:
        """Return what somebody with these roles may do."""
        return _granted(tuple(roles), self._admin_role)

    def verify(self, username: str, password: str) -> frozenset[Permission] | None:
        """Return the permissions of the user, or None if name or password are wrong. Takes some 30 ms of processor."""
        return self._granted.get(username) if self._logins.verify(username, password) else None

    def close(self) -> None:
        """Close the connections to the identity provider, if there is one."""
        if self.identity is not None:
            self.identity.close()

    # --------------------------------------------------------------------------------------------------------- sessions
    def begin(self, username: str, *, renewable: bool) -> Tokens:
        """Return the tokens of a session of a user who has just shown the password."""
        return self.sessions.begin(Session(username, self._logins.mark(username) or b""), renewable=renewable)

    def renew(self, refresh: str) -> Tokens | None:
        """Return new tokens for a refresh token, which is used up; None where it is not known or has ended."""
        self._look()
        session = self.sessions.redeem(refresh)
        return self.sessions.begin(session, renewable=True) if session and self._goes_on(session) else None

    def of_token(self, access: str) -> tuple[str, frozenset[Permission]] | None:
        """Return whose access token this is and what the user may do; None where it is not known or has ended."""
        self._look()
        session = self.sessions.find(access)
        return (session.username, self._granted[session.username]) if session and self._goes_on(session) else None

    def _goes_on(self, session: Session) -> bool:
        """Tell whether the user of a session is still one, and has no other password by now."""
        return self._logins.mark(session.username) == session.mark

    # --------------------------------------------------------------------------------------------------- the users file
    def _look(self) -> None:
        """Read the users file again if it has changed; what cannot be read changes nothing, and is logged once."""
        if self._file is None or not self._file.has_changed():
            return
        try:
            self._read(self._file.path)
        except ConfigError as error:
            _log.error("the users stay as they were: %s", error)

    def _read(self, path: Path) -> None:
        users = read_users(path)
        if both := sorted(self._own.keys() & users):
            raise ConfigError(f"{path} has users that auth.configs names, too: {', '.join(both)}; keep one of each")
        self._granted = {name: _granted(user.roles, self._admin_role) for name, user in users.items()} | self._own
        self._logins.add({name: user.password for name, user in users.items()})


def _identity(config: Config) -> Identity | None:
    if config.auth.type != "external":
        return None
    from spdist.cluster.security.identity import Identity

    try:
        return Identity(config.auth, config.auth.admin_role)
    except TransportError as error:  # of the file with authorities, which it names
        raise ConfigError(f"{config.path}: {error.message}", hint=error.hint) from error


def _granted(roles: tuple[str, ...], admin_role: str) -> frozenset[Permission]:
    if admin_role in roles:
        return frozenset(Permission)
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))
