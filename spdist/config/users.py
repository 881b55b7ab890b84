"""Users and roles of ``auth.configs``, with WSO2's key names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdist.config.binding import setting

if TYPE_CHECKING:
    # The binder finds them in the annotations, which are text until then: `spdist.config.binding.field_keys`.
    from spdist.config.types import Roles, Text, UserPassword

__all__ = ["BUILT_IN_ROLES", "Role", "User"]


@dataclass(frozen=True, slots=True)
class User:
    """One user of ``auth.configs``: `roles` are role ids, or display names."""

    username: Text = setting("username")
    password: UserPassword = setting("password")
    roles: Roles = setting("roles")


#: Roles that every node knows besides the admin role, whether ``auth.configs`` lists them or not.
BUILT_IN_ROLES = ("developer", "viewer", "worker")


@dataclass(frozen=True, slots=True)
class Role:
    """One role of ``auth.configs``; `BUILT_IN_ROLES` need not be listed."""

    id: Text = setting("id")
    display_name: Text = setting("displayName")
