"""What apps may refer to on a node: secrets and databases by their names, and files in some directories; nothing else.

An app never sees the node's own environment or its other files. Values of secrets are looked up where they are used, by
the connector, and reach other processes of the node only as a file that nobody else may read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from spdist.config.datasources import Datasource, Pool
from spdist.config.kinds import Secret
from spdist.config.sections import Files, Secrets, SiddhiProperties, Spark, StatePersistence, Transports
from spdist.errors import ConfigError

__all__ = [
    "PRIVATE_SUFFIX",
    "SECRET",
    "SPARK_FORMATS",
    "Allowed",
    "AllowedSections",
    "NamedDatabase",
    "NotAllowed",
    "allowed_of",
]

#: How an app refers to a secret.
SECRET = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_.\-]*)\}")
#: The formats of Spark that apps may read and write where ``spark.formats`` names none: files, and a clock.
SPARK_FORMATS = ("csv", "json", "orc", "parquet", "rate", "text", "xml")
#: Ends the name of a file with passwords, for other processes of the node.
PRIVATE_SUFFIX = ".spdist-private.json"
#: What spdist keeps among the files of users: notes of file sinks, and its temporary directories.
_OWN = re.compile(rf"\..*\.spdist(\.new|\.d)?|.*{re.escape(PRIVATE_SUFFIX)}|spdist-spark-.*")


class NamedDatabase(Protocol):
    """A database that apps may name."""

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

    @property
    def pool(self) -> Pool:
        """The connections that each app may have to it."""
        ...


class AllowedSections(Protocol):
    """The sections of a node's settings that matter here."""

    @property
    def secrets(self) -> Secrets:
        """Section ``siddhi.secrets``: the secrets that apps may name."""
        ...

    @property
    def files(self) -> Files:
        """Section ``siddhi.files``: the directories that apps may use."""
        ...

    @property
    def transports(self) -> Transports:
        """Section ``transports``: where the topics are."""
        ...

    @property
    def state_persistence(self) -> StatePersistence:
        """Section ``state.persistence``: where the state is."""
        ...

    @property
    def datasources(self) -> Mapping[str, Datasource]:
        """Section ``wso2.datasources``: the databases that apps may name."""
        ...

    @property
    def properties(self) -> SiddhiProperties:
        """Section ``siddhi.properties``: whether aggregations have shards."""
        ...

    @property
    def shard_id(self) -> str:
        """The name of this node's shard of them; empty where it has none."""
        ...

    @property
    def spark(self) -> Spark:
        """Section ``spark``: the formats of Spark that apps may use; its cores, memory, bounds."""
        ...


class NotAllowed(ValueError):
    """An app refers to what it may not, or to what is not there; the text ends the sentence "'option' of …".

    Parameters
    ----------
    message : str
        Why.
    hint : str
        What to write instead, and where it is allowed.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Allowed:
    """What apps may refer to. By default that is nothing.

    Parameters
    ----------
    directories : tuple of Path
        Paths must lie below one of them; relative ones start from the first.
    protected : tuple of Path
        Directories, and files, that are spdist's own. Of all that hold a path, the nearest one decides.
    secrets : mapping of str to Secret
        ``siddhi.secrets``, by name.
    datasources : mapping of str to NamedDatabase
        ``wso2.datasources``, by name and by JNDI name.
    tables : tuple of str
        Tables of databases that are spdist's own, besides those whose names begin with ``spdist_``.
    formats : tuple of str
        The formats of Spark that apps may read and write.
    private : str
        The file of `for_tasks` in which the secrets and passwords are, where they are not here.
    partition_by_id : bool
        Whether all aggregations in databases have a shard for each node.
    shard_id : str
        The name of this node's shard; empty where it has none.
    """

    directories: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    datasources: Mapping[str, NamedDatabase] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    private: str = ""
    partition_by_id: bool = False
    shard_id: str = ""

    # ------------------------------------------------------------------------------------------------------- secrets
    def expand(self, written: str) -> str:
        """Return a text with ``${secret:NAME}`` replaced; raises NotAllowed where there is no such secret.

        Only for what was written in an app, never for what came with an event.
        """
        return SECRET.sub(lambda found: self._secret(found[1]), written)

    def _secret(self, name: str) -> str:
        found = self.secrets.get(name)
        text = self._read("secrets").get(name) if found is None else found.reveal()
        if text is None:
            hint = f"allow it in deployment.yaml: siddhi.secrets: {{{name}: '${{env:VARIABLE}}'}}, or '${{file:path}}'"
            raise NotAllowed(f"names the secret {name}, which this node does not have", hint)
        return text

    def datasource(self, name: str) -> tuple[NamedDatabase, Secret | None] | None:
        """Return a database by its name with its password; None where there is none of that name."""
        found = self.datasources.get(name)
        if found is None:
            return None
        password = self._read("passwords").get(name)
        return found, found.password if password is None else Secret(password)

    def _read(self, part: str) -> Mapping[str, str]:
        if not self.private:
            return {}
        try:
            stored: dict[str, dict[str, str]] = json.loads(Path(self.private).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"the secrets of this node cannot be read here: {error.strerror}") from error
        return stored[part]

    def for_tasks(self, datasources: Mapping[str, Datasource], folder: Path) -> Allowed:
        """Return the same for other processes: without passwords, which they read from a private file in `folder`.

        Parameters
        ----------
        datasources : mapping of str to Datasource
            Those of this object, as settings have them.
        folder : Path
            Whoever owns it removes the file.
        """
        passwords = {name: one.password.reveal() for name, one in datasources.items() if one.password is not None}
        stored = {"secrets": {name: one.reveal() for name, one in self.secrets.items()}, "passwords": passwords}
        bare = {name: replace(one, password=None) for name, one in datasources.items()}
        if not self.secrets and not passwords:
            return replace(self, datasources=bare)
        file = folder / f"allowed{PRIVATE_SUFFIX}"
        # Made with its mode: at no time can others read it.
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as private:
            json.dump(stored, private)
        return replace(self, secrets={}, datasources=bare, private=str(file))

    # --------------------------------------------------------------------------------------------------------- files
    def bounded(self, path: str) -> Path:
        """Return where a path leads, links followed; a relative one starts from the first of the directories.

        Raises
        ------
        NotAllowed
            It lies outside of the directories, or is spdist's own.
        """
        if any(ord(letter) < 32 or letter == "\x7f" for letter in path):
            raise NotAllowed("holds a control character", "A path is one line of text.")
        if "\\" in path or re.match(r"[A-Za-z]:/", path):
            raise NotAllowed("is no path of this system", "Write /, and no drive.")
        try:
            # Links are followed on both sides: one within a directory may lead out of it.
            roots = [Path(os.path.realpath(one)) for one in self.directories]
            full = Path(os.path.realpath(os.path.join(roots[0] if roots else os.sep, path)))
            kept = [Path(os.path.realpath(one)) for one in self.protected]
        except (OSError, ValueError) as error:
            raise NotAllowed("is no path", "Write it shorter.") from error
        # Of equal ones, what is spdist's own wins.
        holders = [(len(one.parts), own, not own) for own, some in ((False, roots), (True, kept)) for one in some
                   if full.is_relative_to(one)]  # fmt: skip
        if not holders or not max(holders)[2]:
            raise NotAllowed("lies outside of the directories that apps may use", self._where())
        if any(_OWN.fullmatch(part) for part in full.parts):
            raise NotAllowed("names a file that belongs to spdist itself", "Choose another name.")
        return full

    def _where(self) -> str:
        known = ", ".join(map(str, self.directories)) or "none"
        return f"siddhi.files.directories of this node: {known}. Relative paths start from the first."


def allowed_of(settings: AllowedSections) -> Allowed:
    """Return what the settings of a node allow its apps."""
    state = settings.state_persistence.directory
    # Settings that were read from a file know it; those that a program has made have none.
    file: Path | None = getattr(settings, "path", None)
    own = (settings.transports.log.directory, state, *([] if file is None else [file.parent]))
    return Allowed(
        directories=tuple(one.absolute() for one in settings.files.directories or (state / "files",)),
        protected=tuple(one.absolute() for one in own),
        secrets=settings.secrets.by_name,
        datasources=settings.datasources,
        tables=(settings.state_persistence.table,),
        partition_by_id=settings.properties.partition_by_id,
        shard_id=settings.shard_id,
        formats=settings.spark.formats or SPARK_FORMATS,
    )
