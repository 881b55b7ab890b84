"""What a setting may be: text, whole numbers, durations, secrets, paths, URLs. From a scalar of the file to a value.

A kind raises ValueError with the end of the sentence "<key> must be …"; the binder adds file, line, key and value.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdist.config.source import ResolvedScalar

__all__ = [
    "HA",
    "PASSWORD_IN_URL",
    "SERVERS",
    "STANDALONE",
    "ScalarKind",
    "Secret",
    "boolean",
    "bytes_of",
    "choice",
    "client_properties",
    "database_url",
    "duration",
    "host",
    "is_host",
    "location",
    "maven",
    "memory",
    "path",
    "persistence_store",
    "roles",
    "secret",
    "text",
    "user_password",
    "whole",
    "word",
]

#: ``deployment.config.type`` of a server that runs its apps alone, and of one of several of which one is active.
STANDALONE, HA = "default", "ha"
SERVERS = (STANDALONE, HA)
_UNITS = {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+)\s*(ms|s|sec|m|min|h)")
#: An artifact of a Maven repository.
_COORDINATE = re.compile(r"[\w.\-]+:[\w.\-]+:[\w.\-]+")
#: A password within the URL of a database.
PASSWORD_IN_URL = re.compile(r"//[^/@]*:[^/@]*@|[?&;](password|pwd)=", re.IGNORECASE)
#: JDBC's name of a database, and SQLAlchemy's dialect and driver for it.
_DIALECTS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}

#: Those of WSO2 SP that spdist does not use; in settings, `spdist.config.wso2` has something for H2 in a file.
_FOREIGN = {"sqlserver": "Microsoft SQL Server", "oracle": "Oracle", "db2": "DB2", "h2": "H2"}
_USABLE = "jdbc:sqlite:file, jdbc:postgresql://host:port/name, jdbc:mysql://host:port/name"


class Secret:
    """A password. Its text is given out only by `reveal`; it never shows in a repr, an error or a listing.

    Parameters
    ----------
    value : str
        The text.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not written to files or sent to other processes; send reveal() where you must")


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """How a scalar becomes a value: ``read(reference, base)`` with the directory that relative paths start from.

    `plain` reads a password that stands in the file as text, where settings allow that.
    """

    read: Callable[[ResolvedScalar, Path], Any]
    secret: bool = False
    plain: Callable[[ResolvedScalar, Path], Any] | None = None


def _read_text(reference: ResolvedScalar, _: Path) -> str:
    if not reference.text.strip():
        raise ValueError("text that is not empty")
    return reference.text


def _read_word(reference: ResolvedScalar, base: Path) -> str:
    if re.search(r"[\x00-\x1f\x7f]", found := _read_text(reference, base)):
        raise ValueError("one line of text")
    return found


def is_host(written: str) -> bool:
    """Return whether a text is a name or an address of a host, as the host of a URL, without brackets."""
    if re.fullmatch(r"[\w.-]+", written):
        return True
    try:
        ipaddress.IPv6Address(written)
    except ValueError:
        return False
    return True


def _read_host(reference: ResolvedScalar, _: Path) -> str:
    if not is_host(reference.text):
        raise ValueError("the name or the address of a host, such as 127.0.0.1 or ::1, without port and path")
    return reference.text


def _read_boolean(reference: ResolvedScalar, _: Path) -> bool:
    if not isinstance(reference.value, bool):
        raise ValueError("true or false")
    return reference.value


def _read_secret(reference: ResolvedScalar, _: Path) -> Secret:
    if not reference.whole:
        raise ValueError(
            "a reference, since passwords are not written into this file: "
            "${env:NAME} for an environment variable, or ${file:path} for a file that only this user may read"
        )
    return _plain_secret(reference, _)


def _plain_secret(reference: ResolvedScalar, _: Path) -> Secret:
    if not reference.text:
        raise ValueError("a password that is not empty")
    return Secret(reference.text)


def _plain_user_password(reference: ResolvedScalar, base: Path) -> Secret:
    try:
        # `validate`, as Python else skips foreign characters, and much text would pass for base64.
        decoded = base64.b64decode(reference.text, validate=True).decode("utf-8")
    except ValueError:  # as are the errors of both
        decoded = ""
    if not decoded.isprintable() or not decoded:
        raise ValueError(
            "in base64, as WSO2 keeps the passwords of users (printf %s 'password' | base64), or a reference, "
            "which is taken as it is: ${env:NAME}, ${file:path}"
        )
    return Secret(decoded)


def _read_path(reference: ResolvedScalar, base: Path) -> Path:
    if not reference.text.strip():
        raise ValueError("a path")
    return _place(reference.text, base)


def _place(written: str, base: Path) -> Path:
    """Return where a path leads; ``~name`` of nobody is a name like any other, as for a shell."""
    if "\0" in written:
        raise ValueError("a path, which holds no NUL")
    return (base / os.path.expanduser(written)).resolve()


def _read_memory(reference: ResolvedScalar, _: Path) -> str:
    if not re.fullmatch(r"[1-9]\d*[mgMG]", reference.text):
        raise ValueError("an amount of memory such as 512m or 2g")
    return reference.text.lower()


def _read_bytes(reference: ResolvedScalar, base: Path) -> int:
    return bytes_of(_read_memory(reference, base))


def bytes_of(amount: str) -> int:
    """Return what an amount of memory as settings have it, ``512m`` or ``2g``, is in bytes."""
    return int(amount[:-1]) << (30 if amount[-1] == "g" else 20)


def _read_roles(reference: ResolvedScalar, _: Path) -> tuple[str, ...]:
    names = tuple(part.strip() for part in reference.text.split(",") if part.strip())
    if not names:
        raise ValueError("one role or several with commas between them")
    return names


def _read_client_properties(reference: ResolvedScalar, _: Path) -> Secret:
    return _client_properties(reference, plain=False)


def _plain_client_properties(reference: ResolvedScalar, _: Path) -> Secret:
    return _client_properties(reference, plain=True)


def _client_properties(reference: ResolvedScalar, *, plain: bool) -> Secret:
    if not reference.text.strip():
        raise ValueError("lines of name=value")
    for line in reference.text.splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise ValueError("lines of name=value")
        if not (plain or reference.whole) and value and re.search("password|secret|jaas", name, re.IGNORECASE):
            raise ValueError("a reference where passwords are among them: ${file:client.properties} or ${env:NAME}")
    return Secret(reference.text)


def _read_maven(reference: ResolvedScalar, _: Path) -> str:
    found = reference.text.strip()
    if not _COORDINATE.fullmatch(found):
        raise ValueError("Maven coordinates such as io.delta:delta-spark_2.13:4.0.0")
    return found


text = ScalarKind(_read_text)
host = ScalarKind(_read_host)
word = ScalarKind(_read_word)
client_properties = ScalarKind(_read_client_properties, True, _plain_client_properties)
boolean = ScalarKind(_read_boolean)
secret = ScalarKind(_read_secret, True, _plain_secret)
user_password = ScalarKind(_read_secret, True, _plain_user_password)
path = ScalarKind(_read_path)
memory = ScalarKind(_read_memory)
memory_bytes = ScalarKind(_read_bytes)
roles = ScalarKind(_read_roles)
maven = ScalarKind(_read_maven)


def whole(least: int, most: int) -> ScalarKind:
    """Return the kind of whole numbers from `least` to `most`."""

    def read(reference: ResolvedScalar, _: Path) -> int:
        value = reference.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return ScalarKind(read)


def duration(least_ms: int) -> ScalarKind:
    """Return the kind of times of at least `least_ms` ms: a whole number of ms, or text with a unit (``2s``)."""

    def read(reference: ResolvedScalar, _: Path) -> int:
        value = reference.value
        if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
            value = int(match.group(1)) * _UNITS[match.group(2)]
        if isinstance(value, bool) or not isinstance(value, int) or value < least_ms:
            raise ValueError(
                f"a time of at least {least_ms} ms: whole milliseconds, or with a unit such as 500ms, 2s, 5min"
            )
        return value

    return ScalarKind(read)


def choice(*allowed: str) -> ScalarKind:
    """Return the kind of the words `allowed`."""

    def read(reference: ResolvedScalar, _: Path) -> str:
        if reference.text not in allowed:
            raise ValueError(" or ".join(allowed))
        return reference.text

    return ScalarKind(read)


#: WSO2's stores of revisions; an incremental one is its base here, where states are incremental anyway.
_PERSISTENCE_STORES = ("FileSystemPersistenceStore", "DBPersistenceStore")


def _read_persistence_store(reference: ResolvedScalar, _: Path) -> str:
    name = reference.text.rpartition(".")[2].removeprefix("Incremental")
    if name not in _PERSISTENCE_STORES:
        raise ValueError(" or ".join(_PERSISTENCE_STORES) + ", with or without a Java package in front")
    return name


persistence_store = ScalarKind(_read_persistence_store)


def _read_database_url(reference: ResolvedScalar, base: Path) -> str:
    url = reference.text
    if PASSWORD_IN_URL.search(url):
        raise ValueError("a URL without a password: the password has a key of its own")
    if url.startswith("jdbc:"):
        url = _from_jdbc(url.removeprefix("jdbc:"))
    if url.startswith("sqlite:"):
        return _sqlite_url(url, base)
    if not re.fullmatch(r"(postgresql|mysql|mariadb)(\+\w+)?://[^/]+/\S+", url):
        raise ValueError(f"a database that spdist can use: {_USABLE}, or SQLAlchemy's form of the same")
    return url


def _from_jdbc(url: str) -> str:
    scheme, _, rest = url.partition(":")
    if scheme in _FOREIGN:
        raise ValueError(
            f"a database that spdist can use, and {_FOREIGN[scheme]} is none: {_USABLE}; it makes its tables there"
        )
    if scheme == "sqlite":
        return f"sqlite:{rest}"
    if scheme in _DIALECTS:
        # JDBC's options (?useSSL=false …) mean nothing to another driver.
        return f"{_DIALECTS[scheme]}:{rest.partition('?')[0]}"
    return url


def _sqlite_url(url: str, base: Path) -> str:
    location = re.sub(r"^sqlite:(///)?", "", url)
    if not location or location == ":memory:" or location.startswith("//"):
        raise ValueError("a file: the managers share this database, and one in memory cannot be shared")
    return f"sqlite:///{_place(location, base)}"


def _read_location(reference: ResolvedScalar, base: Path) -> Path | str:
    if "://" not in reference.text:
        return _place(reference.text, base)
    if not re.fullmatch(r"(s3|s3a|gs|az|abfs|abfss)://[^/\s?#@]+(/[^\s?#]*)?", reference.text):
        raise ValueError("a directory, or a bucket such as s3://bucket/prefix, gs://… or az://…, without credentials")
    return reference.text.rstrip("/")


database_url = ScalarKind(_read_database_url)
location = ScalarKind(_read_location)
