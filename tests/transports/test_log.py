"""The embedded log keeps the contract of a transport, and a crash leaves no half of an append."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spdist.errors import TransportError
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from tests.transports.deleting import delete_topic
from tests.transports.transport_contract import Delete, Factory, TransportContract, record


class TestLogTransport(TransportContract):
    @pytest.fixture
    def factory(self, tmp_path: Path) -> Factory:
        return functools.partial(LogTransport, tmp_path / "a directory with spaces")

    @pytest.fixture
    def delete(self, tmp_path: Path) -> Delete:
        return functools.partial(delete_topic, "log", str(tmp_path / "a directory with spaces"))


ENDLESS = """
import sys
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
log = LogTransport(sys.argv[1])
number = 0
while True:
    log.append([Record("T", p, b"x" * 3000, 1, "p", number) for p in range(4)])
    number += 1
"""


@pytest.mark.parametrize("attempt", range(3))
def test_a_writer_killed_at_any_moment_leaves_whole_appends(
    tmp_path: Path, eventually: Callable[..., object], attempt: int
) -> None:
    log = LogTransport(tmp_path)
    log.ensure("T", 4)
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(tmp_path)], cwd=Path(__file__).parents[2])
    try:
        eventually(lambda: log.end_offsets("T")[0] > 5 * (attempt + 1), "the writer has begun")
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    ends = log.end_offsets("T")
    assert len(set(ends.values())) == 1
    assert [r.seq for r in log.read("T", 3, 0, 100_000)] == list(range(ends[0]))
    log.append([record(0, 2, topic="T")])
    assert log.end_offsets("T")[2] == ends[2] + 1


def test_sizes_tell_events_and_bytes_without_the_payloads(tmp_path: Path) -> None:
    log = LogTransport(tmp_path)
    log.ensure("A.S", 1)
    log.append([record(1), record(22), record(333)])
    assert log.sizes("A.S", 0, 1) == [(1, 8), (1, 9)]
    assert log.sizes("A.S", 0, 0, limit=1) == [(1, 7)]


def test_a_forked_process_does_not_use_its_parents_files(tmp_path: Path) -> None:
    log = LogTransport(tmp_path)
    log.ensure("A.S", 1)
    log.append([record(1)])
    child = os.fork()
    if child == 0:
        try:
            log.append([record(2)])
            os._exit(0 if [r.seq for r in log.read("A.S", 0, 0)] == [1, 2] else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    log.append([record(3)])
    assert [r.seq for r in log.read("A.S", 0, 0)] == [1, 2, 3]


def test_a_file_that_is_no_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "T.sqlite").write_bytes(b"this is no database, it only bears the name" * 50)
    with pytest.raises(TransportError, match=r"topic 'T' in .* cannot be read"):
        LogTransport(tmp_path).read("T", 0, 0)


def test_after_close_the_next_call_opens_the_files_again(tmp_path: Path) -> None:
    log = LogTransport(tmp_path)
    log.ensure("A.S", 1)
    log.close()
    log.append([record(1)])
    assert log.end_offsets("A.S") == {0: 1}


def test_a_full_file_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    log = LogTransport(tmp_path)
    log.ensure("T", 1)
    files = log._connection("T")
    assert files is not None
    (pages,) = files.execute("PRAGMA page_count").fetchone()
    files.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(TransportError, match="cannot be written: database or disk is full"):
        log.append([record(1, topic="T"), Record("T", 0, bytes(100_000), 1, "p", 2)])
    files.execute(f"PRAGMA max_page_count = {pages + 100}")
    log.append([record(3, topic="T")])
    assert [r.seq for r in log.read("T", 0, 0)] == [3]
