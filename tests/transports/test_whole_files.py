"""Files that are there whole or not at all: what is asked of the disk, and in which order."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from spdist.transports.whole_files import create_whole, write_whole


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, list[str]]]:
    """What is synced, and which files have a name at that moment."""
    seen: list[tuple[str, list[str]]] = []
    sync = os.fsync

    def observed(handle: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        seen.append((kind, sorted(one.name for one in tmp_path.iterdir() if not one.name.startswith("."))))
        sync(handle)

    monkeypatch.setattr(os, "fsync", observed)
    return seen


@pytest.mark.parametrize("write", [write_whole, create_whole])
def test_a_name_is_made_durable_behind_the_content(
    synced: list[tuple[str, list[str]]], tmp_path: Path, write: Callable[[Path, bytes], object]
) -> None:
    write(tmp_path / "named", b"content")
    assert synced == [("file", []), ("directory", ["named"])]
    assert (tmp_path / "named").read_bytes() == b"content"


def test_what_need_not_be_durable_waits_for_no_disk(synced: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    write_whole(tmp_path / "named", b"content", durable=False)
    assert (synced, (tmp_path / "named").read_bytes()) == ([], b"content")


def test_a_file_is_made_once(tmp_path: Path) -> None:
    assert create_whole(tmp_path / "deep" / "named", b"first")
    assert not create_whole(tmp_path / "deep" / "named", b"second")
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["named"]
    assert (tmp_path / "deep" / "named").read_bytes() == b"first"
