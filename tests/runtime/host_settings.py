"""The settings of a Spark host for tests: everything below one directory, quick ticks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spdist.config.sections import Datasource, Log, Script, Spark, StatePersistence, Transports


@dataclass(frozen=True)
class HostSettings:
    spark: Spark
    transports: Transports
    state_persistence: StatePersistence
    script: Script = field(default_factory=Script)
    datasources: dict[str, Datasource] = field(default_factory=dict)


def settings_in(root: Path, transports: Transports | None = None, **spark: Any) -> HostSettings:
    return HostSettings(
        spark=Spark(**{"driver_memory": "512m", "tick_interval_ms": 100} | spark),
        transports=transports or Transports(log=Log(directory=root / "the topics")),
        state_persistence=StatePersistence(location=root / "the states"),
    )
