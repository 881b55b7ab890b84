"""Files of one owner: their content and their name are there after a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spdist.cluster.security.private_files import read_private, write_private


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_is_durable_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool) -> None:
    file, fsync, synced = tmp_path / "key", os.fsync, list[tuple[int, bool]]()

    def noted(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, file.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    assert write_private(file, b"secret", replace=replace)
    assert synced == [(file.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
    assert read_private(file) == b"secret"
