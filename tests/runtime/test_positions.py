"""What a source remembers: of several that go on from it, one after the other, the last one has it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spdist.connectors.positions import Position
from spdist.errors import FencedError, TransportError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "app.S.position.json.bak").write_text("of somebody else")
    return tmp_path / "app.S.position.json"


def test_who_goes_on_has_what_was_saved_last(file: Path) -> None:
    first = Position(file)
    assert first.load() is None
    for offset in (1, 2):
        first.save({"offset": offset})
    for _ in range(3):
        again = Position(file)
        assert again.load() == {"offset": 2}
        again.save({"offset": 2})
    assert len(os.listdir(file.parent)) == 2, "there is one file, and that of somebody else"


def test_a_file_of_an_earlier_version_is_read(file: Path) -> None:
    file.write_text(json.dumps({"offset": 7, "owner": "0123"}))
    assert Position(file).load() == {"offset": 7}


def test_who_was_replaced_saves_no_more(file: Path) -> None:
    first, second, third = Position(file), Position(file), Position(file)
    first.save({"offset": 1})
    assert second.load() == third.load() == {"offset": 1}
    for replaced in (first, second):
        with pytest.raises(FencedError):
            replaced.save({"offset": 0})
    third.save({"offset": 2})
    assert Position(file).load() == {"offset": 2}


def test_who_stood_still_while_it_saved_leaves_its_successors_in_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Position(file), Position(file)
    first.save({"offset": 1})
    replace = Path.replace

    def late(self: Path, target: Path) -> Path:
        """Stand still just before the new content is in place, while the other one goes on."""
        monkeypatch.undo()
        assert second.load() == {"offset": 1}
        second.save({"offset": 5})
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", late)
    first.save({"offset": 2})
    with pytest.raises(FencedError):
        first.save({"offset": 3})
    second.save({"offset": 6})
    assert Position(file).load() == {"offset": 6}


def test_of_two_that_begin_one_does(file: Path) -> None:
    one, other = Position(file), Position(file)
    assert one.load() is other.load() is None
    one.save({"offset": 1})
    with pytest.raises(FencedError):
        other.save({"offset": 0})
    one.save({"offset": 2})


def test_a_damaged_file_is_said(file: Path) -> None:
    file.write_text("{")
    with pytest.raises(TransportError, match=r"position\.json"):
        Position(file).load()
