"""A disk that takes nothing any more: a group waits and says so, and loses nothing once there is room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist import plan
from spdist.config.sections import StatePersistence
from spdist.errors import StateError
from spdist.language.types import Schema, Type
from spdist.runtime.group import GroupRuntime
from spdist.runtime.progress import is_full
from spdist.transports.feed import Feed, read_events
from spdist.transports.opening import open_transport, transport_settings
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

APP = """@app:name('Full') define stream In (v long, text string);
@sink(type='embedded', topic='Full.Out') define stream Out (v long, n long);
from In select v, count() as n insert into Out;"""
IN = Schema((("v", Type.LONG), ("text", Type.STRING)))
OUT = Schema((("v", Type.LONG), ("n", Type.LONG)))


class Disk:
    """A small file system of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(os.urandom(4096))
            except OSError:
                pass

    def free(self) -> None:
        self._ballast.unlink()

    def protect(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.directory)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield Disk(directory)
    subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (StateError("the state in /s cannot be written: [Errno 28] No space left on device"), True),
        (StateError("the state in /s cannot be written: [Errno 30] Read-only file system"), True),
        (StateError("topic 'S' in /t cannot be written: database or disk is full"), True),
        (RuntimeError("java.io.IOException: No space left on device"), True),
        (StateError("/s/segment-000000000001 is damaged"), False),
    ],
)
def test_a_disk_that_takes_nothing_is_told_from_other_errors(error: Exception, full: bool) -> None:
    assert is_full(error) is full


@pytest.mark.spark
@pytest.mark.slow
def test_a_group_waits_for_room_on_its_disk_and_loses_nothing(
    tmp_path: Path, disk: Disk, eventually: Callable[..., Any]
) -> None:
    settings = replace(settings_in(tmp_path), state_persistence=StatePersistence(location=disk.directory / "states"))
    topics = open_transport(transport_settings(settings.transports))
    (assignment,) = plan(APP).assignments()
    for topic in ("Full.In", "Full.Out"):
        topics.ensure(topic, 1)
    feed = Feed(topics, "Full.In", IN)
    sent = 0

    def come() -> bool:
        return len(read_events(topics, "Full.Out", OUT)) == sent

    def send(count: int) -> None:
        nonlocal sent
        # Larger than what is left of a block.
        feed.send([(1000 + n, (n, "x" * 5000)) for n in range(sent, sent + count)])
        sent += count

    host = SHARED_SPARK.host(settings)
    group = GroupRuntime(assignment, host, "worker-1")
    try:
        send(5)
        group.start()
        eventually(come, "the first events are there", 90)
        for stop, go, told in (
            (disk.fill, disk.free, "No space left on device"),
            (lambda: disk.protect("ro"), lambda: disk.protect("rw"), "Read-only file system"),
        ):
            stop()
            send(5)
            eventually(lambda: told in (group.status().waiting or ""), f"it waits: {told}", 90)  # noqa: B023
            assert group.status().state == "RUNNING"
            go()
            eventually(come, "all is there again", 90)
    finally:
        group.kill()
    assert [row for _, row in read_events(topics, "Full.Out", OUT)] == [(n, n + 1) for n in range(sent)]
    topics.close()
