"""What ``@Store`` says: which database, which table, and how values are kept. References to secrets are resolved here.

Source: io.siddhi.extension.store.rdbms.RDBMSEventTable (names and defaults of the options), described in our own words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qsl, urlsplit

from spdist.config.allowed import SECRET, Allowed, NotAllowed
from spdist.config.datasources import DEFAULT_POOL, Pool
from spdist.config.kinds import Secret, database_url
from spdist.errors import AppValidationError
from spdist.java.numbers import whole_number
from spdist.language import ast
from spdist.language.durations import period
from spdist.language.types import Schema, Type
from spdist.stores.cache import CacheSettings, Policy

__all__ = ["DatabaseSettings", "StoreSettings", "check_table_name", "store_settings"]

_RDBMS = {
    "type",
    "jdbc.url",
    "username",
    "password",
    "jdbc.driver.name",
    "datasource",
    "jndi.resource",
    "table.name",
    "field.length",
    "allow.null.values",
    "pool.properties",
    "table.check.query",
    "use.collation",
    "on.error",
}
_DUCKDB = {"type", "path", "jdbc.url", "table.name", "field.length", "allow.null.values", "on.error"}
_CACHE = {"size", "cache.policy", "retention.period", "purge.interval"}
_TYPES = {"rdbms": _RDBMS, "duckdb": _DUCKDB}
#: How the names of all tables begin that spdist makes for itself.
_OWN = "spdist_"
_SQLITE = re.compile(r"^(jdbc:)?sqlite:(///)?")
#: Of drivers' parameters those that are words.
_PARAMETERS = ("application_name", "charset", "sslmode")


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """A database: SQLAlchemy's URL without credentials, and the credentials.

    `of_node` says that the node's settings name it: only then its driver may look for a password of the node's own.
    `secrets` are those among its credentials: no error shows them. `pool` is that of the node's settings.
    """

    url: str
    username: str = field(default="", repr=False)
    password: Secret | None = None
    of_node: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)
    pool: Pool = DEFAULT_POOL


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """One ``@Store``.

    Parameters
    ----------
    database : DatabaseSettings
        Where it is.
    table : str
        ``table.name``; with schema if it has one.
    lengths : mapping of str to int
        ``field.length``: of strings, in characters.
    nulls : bool
        ``allow.null.values``.
    cache : CacheSettings, optional
        ``@Cache``.
    """

    database: DatabaseSettings
    table: str
    lengths: Mapping[str, int] = field(default_factory=dict)
    nulls: bool = False
    cache: CacheSettings | None = None


def store_settings(store: ast.Annotation, name: str, schema: Schema, allowed: Allowed) -> StoreSettings:
    """Return what an annotation says.

    Parameters
    ----------
    store : Annotation
        ``@Store``.
    name : str
        Of the table or aggregation in the app.
    schema : Schema
        Its attributes.
    allowed : Allowed
        The secrets, databases and files that the app may refer to.

    Raises
    ------
    AppValidationError
        An option is unknown, missing or wrong.
    """
    kind = (store.get("type") or "").strip().lower()
    _check_options(store, _TYPES[kind])
    values = _Values(store, allowed)
    table = values.text("table.name") or name
    check_table_name(table, allowed, store)
    nulls = values.boolean("allow.null.values")
    return StoreSettings(_database(values, kind), table, _lengths(values, schema), nulls, _cache(values, schema))


def check_table_name(name: str, allowed: Allowed, store: ast.Annotation) -> None:
    """Check that a table's name, with its schema if it has one, is none that spdist uses itself.

    Raises
    ------
    AppValidationError
        It is.
    """
    # Databases compare names without case where they are not quoted; a schema in front hides nothing.
    bare = name.rpartition(".")[2].strip().casefold()
    if bare.startswith(_OWN) or bare in (one.rpartition(".")[2].casefold() for one in allowed.tables):
        hint = "Write table.name with another name."
        raise AppValidationError(f"The table '{name}' belongs to spdist itself", span=store.span, hint=hint)


class _Values:
    """The options of an annotation, as written."""

    def __init__(self, annotation: ast.Annotation, allowed: Allowed) -> None:
        self.annotation = annotation
        self.allowed = allowed

    def text(self, key: str) -> str:
        return (self.annotation.get(key) or "").strip()

    def secret(self, key: str) -> Secret | None:
        """Return an option for a login with the secrets it names."""
        try:
            text = self.allowed.expand(self.text(key))
        except NotAllowed as error:
            raise self.wrong(f"'{key}' {error}", error.hint) from None
        return Secret(text) if text else None

    def file(self, key: str, written: str) -> Path:
        """Return the file of an embedded database."""
        try:
            if "?" in written:
                raise NotAllowed("holds ?, and takes no parameters", "Write the name of the file only.")
            return self.allowed.bounded(written)
        except NotAllowed as error:
            raise self.wrong(f"'{key}' {error}: '{written}'", error.hint) from None

    def boolean(self, key: str) -> bool:
        text = self.text(key).lower()
        if text not in ("", "true", "false"):
            raise self.wrong(f"'{key}' must be true or false")
        return text == "true"

    def wrong(self, message: str, hint: str | None = None) -> AppValidationError:
        return AppValidationError(message, span=self.annotation.span, hint=hint)


def _check_options(annotation: ast.Annotation, known: set[str]) -> None:
    for element in annotation.elements:
        key = (element.key or "").lower()
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Options: {', '.join(sorted(known - {'type'}))}."
            message = f"'@{annotation.name}' has no option '{element.key or element.value}'"
            raise AppValidationError(message, span=annotation.span, hint=hint)


def _database(values: _Values, kind: str) -> DatabaseSettings:
    if source := values.text("datasource") or values.text("jndi.resource"):
        named = values.allowed.datasource(source)
        if named is None:
            known = ", ".join(sorted(values.allowed.datasources)) or "none"
            raise values.wrong(f"There is no datasource '{source}'", f"wso2.datasources of this node: {known}.")
        found, password = named
        return DatabaseSettings(found.url, found.username, password, of_node=True, pool=found.pool)
    url = values.text("jdbc.url")
    if kind == "duckdb":
        key = "path" if values.text("path") else "jdbc.url"
        file = values.text("path") or url.removeprefix("jdbc:").removeprefix("duckdb:").removeprefix("///")
        if not file or file == ":memory:":
            raise values.wrong("'@Store(type='duckdb')' needs 'path'", "For example: path='tables.duckdb'.")
        return DatabaseSettings(f"duckdb:///{values.file(key, file)}")
    if not url:
        raise values.wrong("'@Store(type='rdbms')' needs 'jdbc.url', 'datasource' or 'jndi.resource'")
    try:
        read = database_url(url, Path())
    except ValueError as error:
        # The URL itself is not shown: somebody may have written a password into it.
        raise values.wrong(f"'jdbc.url' must be {error}") from error
    if read.startswith("sqlite:"):
        return DatabaseSettings(f"sqlite:///{values.file('jdbc.url', _SQLITE.sub('', url))}")
    _check_server(values, read)
    username = values.secret("username")
    password = values.secret("password")
    given = [(key, one.reveal()) for key, one in (("username", username), ("password", password)) if one is not None]
    # Only what came from the node: what the app says itself its author may read.
    secrets = tuple(text for key, text in given if SECRET.search(values.text(key)))
    return DatabaseSettings(read, username.reveal() if username else "", password, secrets=secrets)


def _check_server(values: _Values, url: str) -> None:
    """Check that the URL of a server names a host and harmless parameters only: drivers have some that name files."""
    try:
        parts = urlsplit(url)
    except ValueError as error:  # brackets around what is no address
        raise values.wrong("'jdbc.url' names no host", _NO_HOST) from error
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _PARAMETERS or not re.fullmatch(r"[\w .\-]*", value):
            hint = f"An app may set {', '.join(_PARAMETERS)}. Others belong to wso2.datasources of the node."
            raise values.wrong(f"'jdbc.url' has the parameter '{name}', which an app may not set", hint)
    if not re.fullmatch(r"([^@/]*@)?([\w.\-]+|\[[0-9a-fA-F:.]+\])(:\d+)?", parts.netloc):
        raise values.wrong("'jdbc.url' names no host", _NO_HOST)


_NO_HOST = "For example: jdbc:postgresql://db:5432/shop."


def _lengths(values: _Values, schema: Schema) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in values.text("field.length").split(","))):
        name, _, size = (piece.strip() for piece in part.partition(":"))
        position = schema.index(name)
        if position is None or schema.types[position] is not Type.STRING:
            raise values.wrong(f"'field.length' names '{name}', which is no string attribute")
        length = whole_number(size, 1, 10_000_000)
        if length is None:
            raise values.wrong(f"'field.length' of '{name}' must be a number of characters", "For example: name:1000.")
        lengths[name] = length
    return lengths


def _cache(store: _Values, schema: Schema) -> CacheSettings | None:
    written = store.annotation.nested("Cache")
    if not written:
        return None
    _check_options(written[0], _CACHE)
    values = _Values(written[0], store.allowed)
    size = whole_number(values.text("size"), 1)
    if size is None:
        raise values.wrong("'@Cache' needs 'size', a number of rows above 0", "For example: @Cache(size='1000').")
    policy = (values.text("cache.policy") or "FIFO").upper()
    if policy not in get_args(Policy):
        raise values.wrong(f"There is no cache policy '{policy}'", "Policies: FIFO, LRU, LFU.")
    retention, purge = (_period(values, key) for key in ("retention.period", "purge.interval"))
    if purge is not None and retention is None:
        raise values.wrong("'purge.interval' needs 'retention.period'")
    found: Policy = next(one for one in get_args(Policy) if one == policy)
    return CacheSettings(size, found, retention, purge if purge is not None else retention)


def _period(values: _Values, key: str) -> int | None:
    text = values.text(key)
    if not text:
        return None
    try:
        return period(text)
    except AppValidationError as error:
        raise values.wrong(f"'{key}': {error.message}", error.hint) from error
