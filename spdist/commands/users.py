"""``spdist user``: the users of a node in the file that its settings name; passwords are asked for, or read."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdist.commands.connection import AsJson, show, table
from spdist.commands.explained import explained

if TYPE_CHECKING:
    from spdist.cluster.security.user_file import StoredUser
    from spdist.config import Config

__all__ = ["user_app"]

_SHORTEST = 8

user_app = typer.Typer(no_args_is_help=True, help="Users of a node, in the file that its settings name.")
Conf = Annotated[Path, typer.Option("--conf", help="deployment.yaml, or its directory.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Roles = Annotated[
    str, typer.Option("--roles", help="Roles with commas between them: the admin role, developer, viewer, worker, ….")
]


@user_app.command()
def add(name: Name, conf: Conf, roles: Roles = "viewer") -> None:
    """Add a user; nodes that run know of it with the next request. The password is asked for, or read from stdin."""
    from spdist.cluster.security.user_file import StoredUser, change_users, wrong_name
    from spdist.config import known_roles
    from spdist.transports.sockets.logins import hashed

    with explained():
        config, file = _settings(conf)
        if objection := wrong_name(name):
            raise typer.BadParameter(f"{name!r} {objection}", param_hint="NAME")
        named = [one.strip() for one in roles.split(",") if one.strip()]
        own = known_roles(config.auth, name, named, config.path)

        def added(users: Mapping[str, StoredUser]) -> Mapping[str, StoredUser]:
            # Under the lock of `change_users`: another command may be adding the same name.
            if name in users or name in {one.username for one in config.auth.users}:
                raise typer.BadParameter(f"there is a user {name!r} already", param_hint="NAME")
            return {**users, name: StoredUser(roles=own, password=hash_)}

        # Asked for before the file is locked, since people take their time.
        hash_ = hashed(_new_password(name))
        change_users(file, added)
    typer.echo(f"{name} was added to {file}, with {', '.join(own) or 'no role'}")


@user_app.command("list")
def list_users(conf: Conf, as_json: AsJson = False) -> None:
    """List the users of a node, those of its settings too, and what they are."""
    from spdist.cluster.security.user_file import read_users

    with explained():
        config, file = _settings(conf)
        found = [(one.username, one.roles, str(config.path)) for one in config.auth.users]
        found += [(name, one.roles, str(file)) for name, one in read_users(file).items()]
    known = [{"name": name, "roles": list(roles), "from": place} for name, roles, place in sorted(found)]
    rows = [(name, ", ".join(roles), place) for name, roles, place in sorted(found)]
    show(lambda: (known, [table("users", ("name", "roles", "from"), rows)]), as_json=as_json)


@user_app.command()
def remove(name: Name, conf: Conf) -> None:
    """Remove a user; with the next request nodes that run let it in no longer, nor its tokens."""
    from spdist.cluster.security.user_file import change_users

    with explained():
        config, file = _settings(conf)

        def removed(users: Mapping[str, StoredUser]) -> Mapping[str, StoredUser]:
            _stored(users, name, config)
            return {other: one for other, one in users.items() if other != name}

        change_users(file, removed)
    typer.echo(f"{name} was removed from {file}")


@user_app.command()
def passwd(name: Name, conf: Conf) -> None:
    """Give a user another password; the old one, and all tokens, end with the next request."""
    from spdist.cluster.security.user_file import change_users, read_users
    from spdist.transports.sockets.logins import hashed

    with explained():
        config, file = _settings(conf)
        _stored(read_users(file), name, config)  # before anybody types a password
        hash_ = hashed(_new_password(name))

        def changed(users: Mapping[str, StoredUser]) -> Mapping[str, StoredUser]:
            return {**users, name: _stored(users, name, config).model_copy(update={"password": hash_})}

        change_users(file, changed)
    typer.echo(f"{name} has a new password in {file}")


def _settings(conf: Path) -> tuple[Config, Path]:
    from spdist.config import load_config

    config = load_config(conf, explaining=True)
    file = config.auth.users_file
    if file is None:
        told = f"{config.path} names no file for users: set auth.configs.userManager.usersFile"
        raise typer.BadParameter(told, param_hint="--conf")
    return config, file


def _stored(users: Mapping[str, StoredUser], name: str, config: Config) -> StoredUser:
    """Return a user of the file; where there is none, say where it is."""
    if found := users.get(name):
        return found
    own = name in {one.username for one in config.auth.users}
    told = f"{name!r} is a user of {config.path}: change it there" if own else f"there is no user {name!r}"
    raise typer.BadParameter(told, param_hint="NAME")


def _new_password(name: str) -> str:
    """Ask for a password, twice, or read a line where nobody sits in front; it is never an argument."""
    if sys.stdin.isatty():
        told = f"new password of {name}"
        password = str(typer.prompt(told, hide_input=True, confirmation_prompt="once more", err=True))
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if len(password) < _SHORTEST:
        raise typer.BadParameter(f"a password has at least {_SHORTEST} characters", param_hint="password")
    return password
