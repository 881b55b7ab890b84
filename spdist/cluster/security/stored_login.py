"""Logins of a person at an identity provider, in a file that only that person may read; ``spdist login`` writes it.

A token that is about to end is renewed, by one process at a time, as providers take each refresh token once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spdist.cluster.security.private_files import alone, read_private, write_private
from spdist.errors import ConfigError, UnauthorizedError

if TYPE_CHECKING:
    from spdist.cluster.security.provider import Provider

__all__ = ["Credential", "LoginFile", "StoredLogin", "StoredToken", "credential", "life_of", "login_file"]

Json = dict[str, Any]

#: A token is renewed so long before it ends, s.
_BEFORE_S = 30.0
#: What is taken for the life of a token of which the provider does not tell it, s.
_LIFE_S = 300.0
#: No token is good for longer than a year, s.
_LONGEST_S = 366 * 86_400.0
_MOST_BYTES = 1 << 20
#: What the user of a token is called whose name is not known here.
_SOMEBODY = "the user of a token"


class StoredLogin(BaseModel):
    """A login, as the file has it.

    Parameters
    ----------
    managers : tuple of str
        Base URLs of the managers to which its token is shown.
    username : str
        Who logged in, as far as the provider said so.
    issuer, client_id, scope : str
        At which provider, as which client, for what.
    trust_file : Path, optional
        PEM file with the authorities to trust for the provider.
    access, refresh : str
        The tokens; the second may be empty.
    ends_s : float
        When the first ends, s since 1970.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    managers: tuple[str, ...]
    username: str
    issuer: str
    client_id: str
    scope: str
    trust_file: Path | None = None
    access: Annotated[str, Field(repr=False)] = ""
    refresh: Annotated[str, Field(repr=False)] = ""
    ends_s: float = 0.0

    def with_tokens(self, tokens: Json, now_s: float) -> StoredLogin:
        """Return this login with what the provider's token endpoint has answered."""
        refresh = tokens.get("refresh_token") or self.refresh
        return self.model_copy(
            update={"access": tokens["access_token"], "refresh": refresh, "ends_s": now_s + life_of(tokens)}
        )

    def provider(self) -> Provider:
        """Return the provider of this login."""
        from spdist.cluster.security.provider import Provider, ProviderAccess

        access = ProviderAccess(self.issuer, self.client_id, scopes=self.scope, trust_file=self.trust_file)
        return Provider(access)


def life_of(tokens: Json) -> float:
    """Return how long the token of a provider's answer is good, s; what is no time counts as not said."""
    life = tokens.get("expires_in")
    if isinstance(life, bool) or not isinstance(life, int | float) or not 0 <= life < _LONGEST_S:
        return _LIFE_S
    return float(life)


class _Logins(BaseModel):
    model_config = ConfigDict(extra="forbid")

    logins: list[StoredLogin] = []


def login_file() -> LoginFile:
    """Return the file of this person: ``$XDG_CONFIG_HOME/spdist/logins.json``, else in ``~/.config``."""
    return LoginFile(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "spdist" / "logins.json")


class LoginFile:
    """The logins of one person.

    Parameters
    ----------
    path : Path
        Where they are, or will be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, managers: Sequence[str]) -> StoredLogin | None:
        """Return the login whose token may be shown to all of `managers`; None where there is none.

        Raises
        ------
        ConfigError
            The file is damaged, or others may read it.
        """
        wanted = {_plain(url) for url in managers}
        return next((one for one in self._read() if wanted <= {*one.managers}), None)

    def keep(self, login: StoredLogin) -> None:
        """Write a login in place of others for its managers; raises ConfigError where that cannot be."""
        self._write(login.managers, [login])

    def remove(self, managers: Sequence[str]) -> None:
        """Remove the logins for any of `managers`."""
        self._write([_plain(url) for url in managers], [])

    def renewing(self, login: StoredLogin, renew: Callable[[StoredLogin], StoredLogin]) -> StoredLogin:
        """Return the login anew: as another process has renewed it meanwhile, or as `renew` does now."""
        with alone(self.path.parent):
            found = self.find(login.managers)
            if found is None or found.refresh == login.refresh:
                found = renew(found or login)
                # Not `keep`, which would wait for the lock that is held here
                self._put(found.managers, [found])
            return found

    def _write(self, managers: Sequence[str], logins: list[StoredLogin]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with alone(self.path.parent):
                self._put(managers, logins)
        except OSError as error:
            raise ConfigError(f"logins cannot be kept in {self.path}: {error.strerror or error}") from error

    def _put(self, managers: Sequence[str], logins: list[StoredLogin]) -> None:
        others = [one for one in self._read() if not {*one.managers} & {*managers}]
        content = _Logins(logins=[*others, *logins]).model_dump_json(indent=2)
        write_private(self.path, f"{content}\n".encode(), replace=True)

    def _read(self) -> list[StoredLogin]:
        try:
            content = read_private(self.path)
            if len(content) > _MOST_BYTES:
                raise ConfigError(f"{self.path} has more than {_MOST_BYTES} bytes")
            return _Logins.model_validate_json(content).logins
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"the logins in {self.path} cannot be read: {error.strerror or error}") from error
        except ValidationError as error:  # whose text shows what stands there
            raise ConfigError(f"{self.path} is damaged", hint="remove it, and run `spdist login`") from error


class StoredToken:
    """The token of a stored login, renewed when it is about to end: call it. Safe from several threads.

    Parameters
    ----------
    file : LoginFile
        Where it stands.
    login : StoredLogin
        As it stands there.
    clock : callable, optional
        Seconds since 1970.
    """

    def __init__(self, file: LoginFile, login: StoredLogin, clock: Callable[[], float] = time.time) -> None:
        self.login = login
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """Return the token.

        Raises
        ------
        UnauthorizedError
            The login has ended, or the provider does not answer and the token has ended.
        """
        with self._lock:
            if self._clock() >= self.login.ends_s - _BEFORE_S:
                self.login = self._renewed()
            return self.login.access

    def _renewed(self) -> StoredLogin:
        from spdist.cluster.security.claims import RefusedToken
        from spdist.cluster.security.provider import ProviderAway

        again = f"spdist login --url {','.join(self.login.managers)}"
        try:
            if self.login.refresh:
                return self._file.renewing(self.login, self._renew)
            reason = "it cannot be renewed"
        except (RefusedToken, ProviderAway, OSError) as error:
            reason = str(error)
        # The renewal was due ahead of the end, so the token is good for some seconds still
        if self._clock() < self.login.ends_s:
            return self.login
        raise UnauthorizedError(f"the login of {self.login.username} has ended: {reason}", hint=again)

    def _renew(self, login: StoredLogin) -> StoredLogin:
        provider = login.provider()
        try:
            return login.with_tokens(provider.refresh(login.refresh), self._clock())
        finally:
            provider.close()


@dataclass(frozen=True, slots=True)
class Credential:
    """What a client shows: a name and a password, or a token.

    Parameters
    ----------
    username, password : str
        Of a user of ``auth.configs``; with a token the first is for people, and the second empty.
    bearer : callable, optional
        Returns the token.
    """

    username: str
    password: str = field(default="", repr=False)
    bearer: Callable[[], str] | None = field(default=None, repr=False)


def credential(managers: Sequence[str], username: str, password: str | None = None) -> Credential | None:
    """Return what is shown to managers: the password that is given, or that of the environment, or a token.

    Parameters
    ----------
    managers : sequence of str
        Base URLs.
    username, password : str
        A user; without a password it is ``SPDIST_PASSWORD``, then ``SPDIST_TOKEN``, then the token of ``spdist login``.

    Returns
    -------
    Credential or None
        None where there is none of all that.

    Raises
    ------
    ConfigError
        The file with logins is damaged, or others may read it.
    """
    if password := password or os.environ.get("SPDIST_PASSWORD"):
        return Credential(username, password)
    if token := os.environ.get("SPDIST_TOKEN"):
        return Credential(_SOMEBODY, bearer=lambda: token)
    file = login_file()
    if (found := file.find(managers)) is not None:
        return Credential(found.username or _SOMEBODY, bearer=StoredToken(file, found))
    return None


def _plain(url: str) -> str:
    return url.strip().rstrip("/")
