"""The settings of a Spark host for tests: everything below one directory, quick ticks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spdist.config.datasources import Datasource
from spdist.config.sections import (
    Files,
    Kafka,
    Log,
    Nats,
    ScriptSettings,
    Secrets,
    SiddhiProperties,
    Spark,
    StatePersistence,
    Transports,
)

#: Environment variable that names another place of the states, for processes that tests start: a bucket.
STATES = "SPDIST_TESTED_STATES"


@dataclass(frozen=True)
class HostSettings:
    spark: Spark
    transports: Transports
    state_persistence: StatePersistence
    script: ScriptSettings = field(default_factory=ScriptSettings)
    datasources: dict[str, Datasource] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    files: Files = field(default_factory=Files)
    properties: SiddhiProperties = field(default_factory=SiddhiProperties)
    shard_id: str = ""


def settings_in(root: Path, transports: Transports | None = None, **spark: Any) -> HostSettings:
    return HostSettings(
        spark=Spark(**{"driver_memory": "512m", "tick_interval_ms": 100, "optimize_for": "start"} | spark),
        transports=transports or Transports(log=Log(directory=root / "the topics")),
        state_persistence=StatePersistence(os.environ.get(STATES) or root / "the states", local=root / "local"),
        files=Files((root,)),
    )


def transports_in(root: Path, kind: str, url: str = "") -> Transports:
    """The topics of a server at `url`, or the embedded log below `root`."""
    servers = {"kafka": {"kafka": Kafka(url)}, "nats": {"nats": Nats(url)}}
    return Transports(Log(root / "the topics"), kind, **servers.get(kind, {}))
