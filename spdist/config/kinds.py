"""What settings of several rooms mean: passwords, hosts, addresses, amounts of memory, databases; `types` has the rest.

What is written is refused by a ValueError with the end of the sentence "<key> must be …".
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

__all__ = [
    "HA",
    "PASSWORD_IN_URL",
    "SERVERS",
    "STANDALONE",
    "Secret",
    "bytes_of",
    "database_url",
    "is_host",
    "is_safe_url",
    "place",
]

#: ``deployment.config.type`` of a server that runs its apps alone, and of one of several of which one is active.
STANDALONE, HA = "default", "ha"
SERVERS = (STANDALONE, HA)
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


def is_host(written: str) -> bool:
    """Return whether a text is a name or an address of a host, as the host of a URL, without brackets."""
    if re.fullmatch(r"[\w.-]+", written):
        return True
    try:
        ipaddress.IPv6Address(written)
    except ValueError:
        return False
    return True


def is_safe_url(url: str) -> bool:
    """Return whether secrets may go to an address: https, or http on the loopback; without user and query."""
    try:
        parts = urlsplit(url)
        # Reading `port` raises ValueError where it is no number.
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f]", url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def place(written: str, base: Path) -> Path:
    """Return where a path leads; ``~name`` of nobody is a name like any other, as for a shell."""
    if "\0" in written:
        raise ValueError("a path, which holds no NUL")
    return (base / os.path.expanduser(written)).resolve()


def bytes_of(amount: str) -> int:
    """Return what an amount of memory as settings have it, ``512m`` or ``2g``, is in bytes."""
    return int(amount[:-1]) << (30 if amount[-1] == "g" else 20)


def database_url(url: str, base: Path) -> str:
    """Return SQLAlchemy's URL of a database, given by that or by JDBC's; files of SQLite start from `base`."""
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
    return f"sqlite:///{place(location, base)}"
