"""Which revision is the newest, told without waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spdist.config.sections import StatePersistence
from spdist.engine.shards.state import StateStore, state_directory
from spdist.runtime.newest_revision import NewestRevision
from spdist.runtime.persistence import FileSystemPersistenceStore
from tests.engine.fake_app import say_who_runs
from tests.runtime.host_settings import settings_in


def test_the_newest_is_known_and_looked_for_again(tmp_path: Path, eventually: Callable[..., object]) -> None:
    settings = settings_in(tmp_path)
    store = FileSystemPersistenceStore(settings.state_persistence.location, 5)
    now = 0.0
    newest = NewestRevision(settings, ["A", "B"], every_s=10, steady=lambda: now)
    assert newest.find() is None
    for instance, name in (("A", "5__App"), ("B", "40__App"), ("A", "300__App")):
        say_who_runs(settings.state_persistence.location, instance)
        StateStore(state_directory(settings.state_persistence.location, instance)).open("me")
        store.save(instance, name)
    eventually(lambda: newest.name() == "300__App", "it has looked", 10)
    store.save("B", "4000__App")
    now = 9.0
    assert newest.name() == "300__App"
    now = 11.0
    eventually(lambda: newest.name() == "4000__App", "it has looked again", 10)


def test_where_revisions_cannot_be_read_there_is_none(tmp_path: Path) -> None:
    lost = StatePersistence(persistence_store="DBPersistenceStore", datasource="NOWHERE", location=tmp_path)
    assert NewestRevision(replace(settings_in(tmp_path), state_persistence=lost), ["A"]).find() is None
