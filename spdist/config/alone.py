"""Settings for running one app without a cluster: only the sections that matter then, each with its defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spdist.config.binding import Binder
from spdist.config.ignored import IGNORED
from spdist.config.sections import SECTIONS, Auth, Datasource, Log, Script, Spark, StatePersistence, Transports
from spdist.config.source import Node, read
from spdist.errors import ConfigError

__all__ = ["AloneConfig", "load_alone"]

_USED = ("spark", "transports", "state_persistence", "script", "auth", "datasource_list")


@dataclass(frozen=True, slots=True)
class AloneConfig:
    """The sections that one app needs; see `spdist.config.sections`."""

    spark: Spark
    transports: Transports
    state_persistence: StatePersistence
    script: Script
    auth: Auth
    datasources: Mapping[str, Datasource]


def load_alone(
    path: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> AloneConfig:
    """Read the settings for one app.

    Parameters
    ----------
    path : str or path, optional
        A ``deployment.yaml``, or a directory that holds one; sections that are not used need not be complete.
    directory : str or path, optional
        Where topics and state are, in place of what the file says; without a file ``spdist-data`` by default.
    environment : mapping of str to str, optional
        Variables for references and overrides (default: those of this process).

    Raises
    ------
    ConfigError
        Names the file and line, the key, the value, and what would be right.
    """
    content: Mapping[str, Node] = {}
    file = Path.cwd() / "deployment.yaml"
    if path is not None:
        file = Path(path).expanduser()
        if file.is_dir():
            file /= "deployment.yaml"
        root = read(file)
        if not isinstance(root.content, dict):
            raise ConfigError(f"{file} holds no sections")
        content = root.content
    binder = Binder(file, os.environ if environment is None else environment, IGNORED)
    parts: dict[str, Any] = {
        name: binder.bind(fields, content.get(key, Node({}, str(file))), key, (name,))
        for name, (key, fields) in SECTIONS.items()
        if name in _USED
    }
    datasources = {one.name: one for one in parts.pop("datasource_list").items}
    config = AloneConfig(datasources=MappingProxyType(datasources), **parts)
    if directory is None and path is None:
        directory = "spdist-data"
    if directory is None:
        return config
    root_directory = Path(directory).expanduser().absolute()
    return replace(
        config,
        transports=replace(config.transports, log=Log(root_directory / "topics")),
        state_persistence=replace(config.state_persistence, location=root_directory / "state"),
    )
