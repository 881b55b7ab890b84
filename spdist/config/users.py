"""Users and roles of ``auth.configs``, with WSO2's key names."""

from __future__ import annotations

from dataclasses import dataclass

from spdist.config.binding import setting
from spdist.config.kinds import Secret, roles, text, user_password

__all__ = ["BUILT_IN_ROLES", "Role", "User"]


@dataclass(frozen=True, slots=True)
class User:
    """One user of ``auth.configs``: `roles` are role ids, or display names."""

    username: str = setting("username", text)
    password: Secret = setting("password", user_password)
    roles: tuple[str, ...] = setting("roles", roles)


#: Roles that every node knows besides the admin role, whether ``auth.configs`` lists them or not.
BUILT_IN_ROLES = ("developer", "viewer", "worker")


@dataclass(frozen=True, slots=True)
class Role:
    """One role of ``auth.configs``; `BUILT_IN_ROLES` need not be listed."""

    id: str = setting("id", text)
    display_name: str = setting("displayName", text)
