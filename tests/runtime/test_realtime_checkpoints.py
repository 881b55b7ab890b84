"""Which checkpoint of an instance of Columns counts, and how far it says that was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.errors import StateError
from spdist.runtime.realtime_checkpoints import Checkpoints, follows
from tests.engine.fake_app import assignment

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"in":{"0":12,"1":7}}'


def test_the_newest_one_counts_and_knows_its_text(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "App/g-1")
    assert checkpoints.newest() is None
    first = checkpoints.begin(assignment(name="one"), "latest")
    second = checkpoints.begin(assignment(name="two"), '{"in": {"0": 5}}')
    found = checkpoints.newest()
    assert found == second
    assert found is not None
    assert follows(found, assignment(name="two"))
    assert not follows(found, assignment(name="one"))
    assert not first.directory.exists(), "nobody goes on from the one before"
    checkpoints.forget()
    assert checkpoints.newest() is None


def test_what_was_committed_last_is_where_reading_goes_on(tmp_path: Path) -> None:
    checkpoint = Checkpoints(tmp_path, "App").begin(assignment(), '{"in": {"0": 5}}')
    assert checkpoint.offsets() == {"in": {0: 5}}, "nothing was committed"
    for number in (9, 10):
        for kind in ("offsets", "commits"):
            (checkpoint.directory / kind).mkdir(exist_ok=True)
            (checkpoint.directory / kind / str(number)).write_text(OFFSETS.replace("12", str(number)))
    (checkpoint.directory / "offsets" / "11").write_text(OFFSETS)
    assert checkpoint.offsets() == {"in": {0: 10, 1: 7}}, "what was begun and not committed is read again"
    (checkpoint.directory / "offsets" / "10").write_text("v1\n{}")
    with pytest.raises(StateError, match=r"checkpoint .*10 cannot be read"):
        checkpoint.offsets()


def test_where_spark_began_is_known_once_it_has_noted_that(tmp_path: Path) -> None:
    checkpoint = Checkpoints(tmp_path, "App").begin(assignment(), '{"in": {"0": 5}}')
    assert checkpoint.begun() == {"in": {0: 5}}
    (checkpoint.directory / "sources" / "0").mkdir(parents=True)
    (checkpoint.directory / "sources" / "0" / "0").write_bytes(b'\x00v1\n{"in":{"0":7,"1":3}}')
    assert checkpoint.begun() == {"in": {0: 7, 1: 3}}
    assert Checkpoints(tmp_path, "Other").begin(assignment(), "latest").begun() == {}


def test_a_query_that_noted_nothing_begins_where_it_was_told(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path, "App").begin(assignment(), "earliest").offsets() == {}
