"""Where the state is, as ``state.persistence`` says it: a directory, or a bucket of an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.config import Config, load_config
from spdist.errors import ConfigError
from tests.test_config import LEAST


def load(directory: Path, more: str) -> Config:
    file = directory / "deployment.yaml"
    file.write_text(LEAST + more, encoding="utf-8")
    return load_config(file, environment={"P": "pw"})


def test_state_may_be_in_a_bucket_and_then_a_node_keeps_its_own_files_elsewhere(tmp_path: Path) -> None:
    there = load(tmp_path, "state.persistence: {config: {location: 's3://bucket/some/prefix/'}}").state_persistence
    assert there.location == "s3://bucket/some/prefix"
    assert there.directory == tmp_path / "siddhi-app-persistence"
    here = load(tmp_path, "state.persistence: {config: {location: states, localDirectory: local}}").state_persistence
    assert here.directory == here.location == tmp_path / "states"


@pytest.mark.parametrize("wrong", ["ftp://host/x", "s3://", "s3://key:secret@bucket/x", "s3://bucket?region=x"])
def test_what_is_no_bucket_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="must be a directory, or a bucket"):
        load(tmp_path, f"state.persistence: {{config: {{location: '{wrong}'}}}}")
