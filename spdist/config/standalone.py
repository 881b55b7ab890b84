"""Settings for running one app without a cluster: only the sections that matter then, each with its defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spdist.config import with_role_names
from spdist.config.datasources import Datasource, by_name
from spdist.config.sections import (
    SECTIONS,
    Accepted,
    Auth,
    Files,
    Log,
    ScriptSettings,
    Secrets,
    SiddhiProperties,
    Spark,
    StatePersistence,
    Transports,
)
from spdist.config.sorting import FileSections, settings_file

__all__ = ["StandaloneConfig", "load_standalone"]

_USED = (
    "accepted",
    "spark",
    "transports",
    "state_persistence",
    "script",
    "secrets",
    "files",
    "properties",
    "auth",
    "datasource_list",
)


@dataclass(frozen=True, slots=True)
class StandaloneConfig:
    """The sections that one app needs, see `spdist.config.sections`; and the file they come from, if there is one.

    `notes` are those of `spdist.config.Config`, as far as they are of these sections.
    """

    path: Path | None
    accepted: Accepted
    spark: Spark
    transports: Transports
    state_persistence: StatePersistence
    script: ScriptSettings
    secrets: Secrets
    files: Files
    properties: SiddhiProperties
    auth: Auth
    datasources: Mapping[str, Datasource]
    notes: tuple[str, ...] = ()

    @property
    def shard_id(self) -> str:
        """As `spdist.config.Config.shard_id`: only ``shardId`` names it here, since an app alone has no node."""
        return self.properties.shard_id


def load_standalone(
    path: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    *,
    files: Sequence[str | os.PathLike[str]] = (),
    environment: Mapping[str, str] | None = None,
) -> StandaloneConfig:
    """Read the settings for one app.

    Parameters
    ----------
    path : str or path, optional
        A ``deployment.yaml``, or a directory that holds one; sections that are not used need not be complete.
    directory : str or path, optional
        Where topics and state are, in place of what the file says; without a file ``spdist-data`` by default.
    files : sequence of str or path
        Directories that the app may use besides those of the file, or besides ``files`` in `directory`.
    environment : mapping of str to str, optional
        Variables for references and overrides (default: those of this process).

    Raises
    ------
    ConfigError
        Names the file and line, the key, the value, and what would be right.
    """
    file = Path.cwd() / "deployment.yaml" if path is None else settings_file(path)
    given = FileSections(file, os.environ if environment is None else environment, there=path is not None)
    parts = given.bind({name: section for name, section in SECTIONS.items() if name in _USED})
    datasources = by_name(parts.pop("datasource_list").items, file)
    parts["auth"] = with_role_names(parts["auth"], file)
    config = StandaloneConfig(
        path=None if path is None else file,
        datasources=datasources,
        notes=tuple(given.notes),
        **parts,
    )
    if directory is None and path is None:
        directory = "spdist-data"
    own = config.state_persistence.directory / "files"
    if directory is not None:
        root_directory = Path(os.path.expanduser(directory)).absolute()
        own = root_directory / "files"
        config = replace(
            config,
            transports=replace(config.transports, log=Log(root_directory / "topics")),
            state_persistence=replace(config.state_persistence, location=root_directory / "state"),
        )
    added = tuple(Path(os.path.expanduser(one)).absolute() for one in files)
    return replace(config, files=Files((*(config.files.directories or (own,)), *added)))
