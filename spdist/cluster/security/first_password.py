"""The first user of the nodes of one machine: nobody has chosen its password, and only its owner can read it.

Only on the loopback: there all nodes that share a user read the same file. Where a cluster has several machines its
password must reach them in another way, so somebody chooses it (``${env:NAME}``, ``${file:path}``).
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace
from pathlib import Path

from spdist.cluster.security.private_files import read_private, write_private
from spdist.config import Config, Secret
from spdist.config.users import User
from spdist.errors import ConfigError

__all__ = ["FIRST_USER", "with_first_user"]

_log = logging.getLogger("spdist.cluster")
#: Name of the user that is made.
FIRST_USER = "admin"
_RANDOM_BYTES = 24


def with_first_user(config: Config) -> Config:
    """Return the settings of a node with its first user, where `Config.has_first_user` says that it has one.

    The password is that of ``auth.configs.userManager.firstPasswordFile``. The first of the nodes makes it; of those
    that start at the same time one does. Its place is logged, the password is not.

    Raises
    ------
    ConfigError
        The file cannot be written or read, others may read it, or it is empty.
    """
    if not config.has_first_user:
        return config
    file = config.auth.first_password_file
    password = Secret(_password(file))
    user = User(FIRST_USER, password, (config.auth.admin_role,))
    own = replace(config.deployment.https_interface, username=FIRST_USER, password=password)
    return replace(
        config,
        auth=replace(config.auth, users=(user,)),
        deployment=replace(config.deployment, https_interface=own),
    )


def _password(file: Path) -> str:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Of nodes that start together one writes the file; it stays as it is for the others
        if not file.exists() and write_private(file, f"{secrets.token_urlsafe(_RANDOM_BYTES)}\n".encode()):
            _log.warning("no user is named in auth.configs: made %r, with the password in %s", FIRST_USER, file)
        else:
            _log.info("no user is named in auth.configs: %r has the password in %s", FIRST_USER, file)
        password = read_private(file).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the password of the first user, {file}, cannot be written or read: {error}",
            hint="set auth.configs.userManager.firstPasswordFile, or name users in auth.configs",
        ) from error
    if not password:
        raise ConfigError(f"{file} is empty, and no password", hint="remove it, and a new one is made")
    return password
