"""``wso2.datasources``: the databases of a node, by name or by JNDI name, and the pools of connections to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from spdist.config.binding import listing, setting
from spdist.errors import ConfigError

if TYPE_CHECKING:
    # The binder finds them in the annotations, which are text until then: `spdist.config.binding.field_keys`.
    from pydantic import Field

    from spdist.config.types import DatabaseUrl, SecretText, Text, duration

__all__ = ["DEFAULT_POOL", "Datasource", "Datasources", "Pool", "by_name"]

#: An app reads, writes and makes its tables in connections of their own; with fewer it would wait for itself.
_LEAST = 3


@dataclass(frozen=True, slots=True)
class Pool:
    """The connections of one user of a database: a manager, or an app in its process.

    Parameters
    ----------
    most : int
        So many at a time.
    kept : int
        So many stay open when they are not used.
    recycle_ms : int
        One that was opened longer ago is replaced when it is next used, ms; 0: never.
    wait_ms : int
        How long to wait for one, ms; 0: as long as the user of the database can wait, which is the limit in any case.
    silent_ms : int
        After how long PostgreSQL or MariaDB ends a transaction whose client has fallen silent, to free its locks, ms;
        0: when it notices that the client is gone, which may take hours.
    tested : bool
        Whether each is tested before it is used again; not needed by who repeats what has failed.
    """

    most: int = 15
    kept: int = 5
    recycle_ms: int = 0
    wait_ms: int = 0
    silent_ms: int = 0
    tested: bool = True


#: What holds where the settings say nothing.
DEFAULT_POOL = Pool()


@dataclass(frozen=True, slots=True)
class Datasource:
    """One of ``wso2.datasources.dataSources``: a database.

    `url` is SQLAlchemy's, made from WSO2's ``jdbcUrl`` where that was given; it never holds a password. Apps name the
    database by `name`, or by `jndi_name`. The settings of the pool are HikariCP's, 0 where they are not given.
    """

    name: Text = setting("name")
    url: DatabaseUrl = setting("definition.configuration.jdbcUrl", also=("url",))
    description: Text = setting("description", "")
    username: Text = setting("definition.configuration.username", "", also=("username",))
    password: SecretText | None = setting("definition.configuration.password", None, also=("password",))
    jndi_name: Text = setting("jndiConfig.name", "")
    max_pool_size: Annotated[int, Field(ge=0, le=10_000)] = setting("definition.configuration.maxPoolSize", 0)
    min_idle: Annotated[int, Field(ge=0, le=10_000)] = setting("definition.configuration.minIdle", 0)
    idle_timeout_ms: Annotated[int, duration(0)] = setting("definition.configuration.idleTimeout", 0)
    connection_timeout_ms: Annotated[int, duration(0)] = setting("definition.configuration.connectionTimeout", 0)

    @property
    def pool(self) -> Pool:
        """The pool that these settings make: at least 3 connections, of which as many are kept as HikariCP keeps."""
        most = max(self.max_pool_size or DEFAULT_POOL.most, _LEAST)
        kept = self.min_idle or self.max_pool_size or DEFAULT_POOL.kept
        return Pool(most, min(kept, most), self.idle_timeout_ms, self.connection_timeout_ms)


@dataclass(frozen=True, slots=True)
class Datasources:
    """``wso2.datasources``: the list of databases."""

    items: tuple[Datasource, ...] = listing("dataSources")


def by_name(datasources: Iterable[Datasource], file: Path) -> Mapping[str, Datasource]:
    """Return the databases of a file by what they are called: each by its name, and by its JNDI name if it has one.

    Raises
    ------
    ConfigError
        Two have the same.
    """
    found: dict[str, Datasource] = {}
    for one in datasources:
        # A set: both names may be the same.
        for name in {one.name, one.jndi_name} - {""}:
            if name in found:
                raise ConfigError(f"{file}: wso2.datasources has the name {name!r} twice")
            found[name] = one
    return MappingProxyType(found)
