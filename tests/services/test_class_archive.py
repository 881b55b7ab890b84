"""Class archives: who writes one, who reads it, and how many stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spdist.services.class_archive import ClassArchive


def written_by(options: list[str]) -> Path:
    """Return the file that Java is told to write."""
    (option,) = [one for one in options if one.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(option.partition("=")[2])


def make(file: Path, content: bytes = b"classes") -> ClassArchive:
    """Return an archive that a JVM has written, and that was kept."""
    archive = ClassArchive(file)
    written_by(archive.options()).write_bytes(content)
    archive.keep()
    return archive


def test_what_one_has_written_others_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsa"
    make(file)
    assert file.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={file}" in ClassArchive(file).options(writes=False)


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    first, second = ClassArchive(tmp_path / "a.jsa"), ClassArchive(tmp_path / "a.jsa")
    written_by(first.options())
    assert second.options() == []
    first.drop()
    assert written_by(second.options())


def test_who_may_not_write_is_told_nothing(tmp_path: Path) -> None:
    assert ClassArchive(tmp_path / "a.jsa").options(writes=False) == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_process_that_is_gone_was_writing_is_deleted(tmp_path: Path) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    left = tmp_path / f".a.jsa-{gone}-0123"
    left.write_bytes(b"half")
    assert written_by(ClassArchive(tmp_path / "a.jsa").options())
    assert not left.exists()


@pytest.mark.parametrize("end", ["keep", "drop"])
def test_a_jvm_that_wrote_nothing_leaves_nothing(tmp_path: Path, end: str) -> None:
    archive = ClassArchive(tmp_path / "a.jsa")
    archive.options()
    getattr(archive, end)()
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_without_an_orderly_end_is_not_used(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "a.jsa")
    written_by(archive.options()).write_bytes(b"half")
    archive.drop()
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_of_more_than_three_is_deleted(tmp_path: Path) -> None:
    for number in range(5):
        make(tmp_path / f"{number}.jsa")
        os.utime(tmp_path / f"{number}.jsa", (number, number))
    make(tmp_path / "5.jsa")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.jsa", "4.jsa", "5.jsa"]
