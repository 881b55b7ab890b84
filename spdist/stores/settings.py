"""What ``@Store`` says: which database, which table, and how values are kept. References to secrets are resolved here.

Source: io.siddhi.extension.store.rdbms.RDBMSEventTable (names and defaults of the options), described in our own words.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, get_args

from spdist.config.kinds import Secret, database_url
from spdist.config.source import Node, Reference, expand
from spdist.errors import AppValidationError, ConfigError, UnknownExtensionError, UnsupportedFeatureError
from spdist.language import ast
from spdist.language.durations import period
from spdist.language.types import Schema, Type
from spdist.stores.cache import CacheSettings, Policy

__all__ = ["DatabaseSettings", "NamedDatabase", "StoreSettings", "store_settings"]

_RDBMS = {
    "type",
    "jdbc.url",
    "username",
    "password",
    "jdbc.driver.name",
    "datasource",
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


class NamedDatabase(Protocol):
    """One of ``wso2.datasources`` (`spdist.config.sections.Datasource`)."""

    @property
    def url(self) -> str:
        """SQLAlchemy's URL, without password."""
        ...

    @property
    def username(self) -> str:
        """The user, or nothing."""
        ...

    @property
    def password(self) -> Secret | None:
        """The password, if any."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """A database: SQLAlchemy's URL without credentials, and the credentials."""

    url: str
    username: str = ""
    password: Secret | None = None


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


def store_settings(
    store: ast.Annotation, name: str, schema: Schema, named: Mapping[str, NamedDatabase], base: Path
) -> StoreSettings:
    """Return what an annotation says.

    Parameters
    ----------
    store : Annotation
        ``@Store``.
    name : str
        Of the table or aggregation in the app.
    schema : Schema
        Its attributes.
    named : mapping of str to NamedDatabase
        What ``datasource`` may name.
    base : path
        Where relative file names begin.

    Raises
    ------
    UnknownExtensionError
        There is no store of that type.
    AppValidationError
        An option is unknown, missing or wrong.
    UnsupportedFeatureError
        An option needs a Java server.
    """
    kind = (store.get("type") or "").strip().lower()
    if kind not in _TYPES:
        known = "Stores: " + ", ".join(sorted(_TYPES)) + "."
        message = f"There is no store '{store.get('type') or store.get('ref')}'"
        raise UnknownExtensionError(message, span=store.span, hint=known)
    if store.get("jndi.resource") is not None:
        hint = "Write datasource='NAME'."
        raise UnsupportedFeatureError("'jndi.resource' needs a Java server", span=store.span, hint=hint)
    _check_options(store, _TYPES[kind])
    values = _Values(store, base)
    table = values.text("table.name") or name
    nulls = values.boolean("allow.null.values")
    return StoreSettings(
        _database(values, kind, named), table, _lengths(values, schema), nulls, _cache(store, schema, base)
    )


class _Values:
    """The options of an annotation, with references resolved."""

    def __init__(self, annotation: ast.Annotation, base: Path) -> None:
        self.annotation = annotation
        self.base = base

    def text(self, key: str) -> str:
        written = self.annotation.get(key)
        if written is None:
            return ""
        try:
            place = Node(written, f"'@{self.annotation.name}'", quoted=True)
            return expand(place, key, os.environ, self.base).text.strip()
        except ConfigError as error:
            raise self.wrong(error.message, error.hint) from error

    def secret(self, key: str) -> Secret | None:
        text = self.text(key)
        return Secret(text) if text else None

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


def _database(values: _Values, kind: str, named: Mapping[str, NamedDatabase]) -> DatabaseSettings:
    if source := values.text("datasource"):
        if source not in named:
            known = ", ".join(sorted(named)) or "none"
            raise values.wrong(f"There is no datasource '{source}'", f"wso2.datasources of this node: {known}.")
        found = named[source]
        return DatabaseSettings(found.url, found.username, found.password)
    url = values.text("jdbc.url")
    if kind == "duckdb":
        file = values.text("path") or url.removeprefix("jdbc:").removeprefix("duckdb:").removeprefix("///")
        if not file or file == ":memory:":
            raise values.wrong("'@Store(type='duckdb')' needs 'path'", "For example: path='tables.duckdb'.")
        return DatabaseSettings(f"duckdb:///{(values.base / Path(file).expanduser()).resolve()}")
    if not url:
        raise values.wrong("'@Store(type='rdbms')' needs 'jdbc.url' or 'datasource'")
    try:
        read = database_url.read(Reference(url, url, ""), values.base)
    except ValueError as error:
        # The URL itself is not shown: somebody may have written a password into it.
        raise values.wrong(f"'jdbc.url' must be {error}") from error
    return DatabaseSettings(read, values.text("username"), values.secret("password"))


def _lengths(values: _Values, schema: Schema) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in values.text("field.length").split(","))):
        name, _, size = (piece.strip() for piece in part.partition(":"))
        position = schema.index(name)
        if position is None or schema.types[position] is not Type.STRING:
            raise values.wrong(f"'field.length' names '{name}', which is no string attribute")
        if not size.isdecimal() or not 0 < int(size) <= 10_000_000:
            raise values.wrong(f"'field.length' of '{name}' must be a number of characters", "For example: name:1000.")
        lengths[name] = int(size)
    return lengths


def _cache(store: ast.Annotation, schema: Schema, base: Path) -> CacheSettings | None:
    written = store.nested("Cache")
    if not written:
        return None
    _check_options(written[0], _CACHE)
    values = _Values(written[0], base)
    size = values.text("size")
    if not size.isdecimal() or int(size) < 1:
        raise values.wrong("'@Cache' needs 'size', a number of rows above 0", "For example: @Cache(size='1000').")
    policy = (values.text("cache.policy") or "FIFO").upper()
    if policy not in get_args(Policy):
        raise values.wrong(f"There is no cache policy '{policy}'", "Policies: FIFO, LRU, LFU.")
    retention, purge = (_period(values, key) for key in ("retention.period", "purge.interval"))
    if purge is not None and retention is None:
        raise values.wrong("'purge.interval' needs 'retention.period'")
    found: Policy = next(one for one in get_args(Policy) if one == policy)
    return CacheSettings(int(size), found, retention, purge if purge is not None else retention)


def _period(values: _Values, key: str) -> int | None:
    text = values.text(key)
    if not text:
        return None
    try:
        return period(text)
    except AppValidationError as error:
        raise values.wrong(f"'{key}': {error.message}", error.hint) from error
