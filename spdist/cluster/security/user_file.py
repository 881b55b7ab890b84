"""The users of a node in a file of their own: names, roles and hashes, which nodes read again when it has changed.

``spdist user`` writes it, whole each time, for its owner only. No password can be read out of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spdist.cluster.security.private_files import alone, read_private, write_private
from spdist.errors import ConfigError
from spdist.transports.sockets.logins import is_hash

__all__ = ["StoredUser", "UserFile", "change_users", "read_users", "wrong_name"]

#: Bytes of a file that is read: 10,000 users and more.
_MOST_BYTES = 4 << 20
#: What tells that a file was written anew: inode, size, time of change; None where there is none.
_Stamp = tuple[int, int, int] | None


class StoredUser(BaseModel):
    """A user as the file has it: display names of roles, and the salted hash of the password."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    roles: tuple[str, ...] = ()
    password: Annotated[str, Field(repr=False)]


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    users: dict[str, StoredUser]


def wrong_name(name: str) -> str | None:
    """Return why a name cannot be that of a user; None where it can."""
    if not name or name != name.strip() or not name.isprintable():
        return "is empty, begins or ends with blanks, or has characters that nobody sees"
    if ":" in name:
        return "has a colon, which ends the name in HTTP Basic authentication"
    return "is longer than 64 characters" if len(name) > 64 else None


def read_users(path: Path) -> dict[str, StoredUser]:
    """Return the users of a file by name; none where it is not there.

    Raises
    ------
    ConfigError
        It cannot be read, others may read it, or it holds something else.
    """
    try:
        content = read_private(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"the users file {path} cannot be read: {error.strerror or error}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"the users file {path} has more than {_MOST_BYTES} bytes")
    try:
        users = _Content.model_validate_json(content).users
    except ValidationError as error:  # whose text shows what stands there
        places = ", ".join(sorted({".".join(map(str, one["loc"])) or "the whole" for one in error.errors()}))
        raise ConfigError(f"the users file {path} is damaged: {places}", hint="`spdist user` writes it") from error
    for name, user in users.items():
        if wrong_name(name) or not is_hash(user.password):
            raise ConfigError(
                f"the users file {path}: {name!r} is no user with a hash that is known here",
                hint="remove the user there, and run `spdist user add`",
            )
    return users


def change_users(path: Path, change: Callable[[Mapping[str, StoredUser]], Mapping[str, StoredUser]]) -> None:
    """Write a file of users anew, as `change` makes it of those that are there; one at a time does.

    Raises
    ------
    ConfigError
        It cannot be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.parent):
            users = {name: one.model_dump(mode="json") for name, one in sorted(change(read_users(path)).items())}
            content = json.dumps({"users": users}, indent=2, ensure_ascii=False)
            write_private(path, f"{content}\n".encode(), replace=True)
    except OSError as error:
        raise ConfigError(f"the users file {path} cannot be written: {error.strerror or error}") from error


@dataclass(slots=True)
class UserFile:
    """The file of a node, and whether it has changed since it was looked at.

    Parameters
    ----------
    path : Path
        Where it is, or will be.

    State
    -----
    What tells two versions of it apart.
    """

    path: Path
    # Neither a stamp nor None, so that the first call tells of a change even where there is no file
    _seen: _Stamp | bool = False

    def has_changed(self) -> bool:
        """Tell whether the file is another one than at the last call; takes microseconds."""
        try:
            status = os.stat(self.path)
            stamp: _Stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            stamp = None
        changed = stamp != self._seen
        self._seen = stamp
        return changed
