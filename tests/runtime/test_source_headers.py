"""Headers of files that are followed."""

from __future__ import annotations

from pathlib import Path

from spdist.connectors.file.source import FileSource
from tests.runtime.test_sources import FILE, Fed


def test_a_header_of_several_lines_may_come_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.touch()
    one = Fed(tmp_path, FILE.format(f"file.uri='{path}', header.present='true', header.line.count='2'"))
    (source,) = one.sources._sources
    assert isinstance(source, FileSource)
    source._begin()
    for written in ("k,n\n", "of,7", "\n", "a,1\n", "b,2\n"):
        with path.open("a") as file:
            file.write(written)
        source._turn()
    assert one.rows() == [("a", 1), ("b", 2)]
    one.close()
