"""Appending by several processes: none waits for another that stands still, and each line is there once."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from spdist.connectors.file.appends import FileAppends
from tests.transports.appending import Appending, lines

#: More calls than one append makes; who stops later never does.
STEPS = 24


def by_producer(path: Path) -> dict[str, list[int]]:
    """Return the numbers in a file, in their order; each line must be whole."""
    found: dict[str, list[int]] = {}
    for line in path.read_bytes().decode("ascii").splitlines():
        producer, number = line.split(" ")
        found.setdefault(producer, []).append(int(number))
    return found


@pytest.mark.parametrize("ends", [False, True])
def test_who_stands_still_anywhere_keeps_nobody_waiting_and_does_no_harm_later(tmp_path: Path, ends: bool) -> None:
    stopped = set()
    for step in range(1, STEPS + 1):
        path = tmp_path / f"out-{step}.txt"
        path.write_bytes(b"theirs 0\n")
        FileAppends(path).append("a", lines("a", 0, 2))
        # It begins again with what is known, and then has lines 2 to 5 in two parts.
        with Appending(path, "a", 6, 4, str(step)) as process:
            if process.stands_still():
                stopped.add(step)
            began_s = time.monotonic()
            # Who takes over has the same lines, cut elsewhere, and more of its own.
            FileAppends(path).append("a", lines("a", 1, 5))
            FileAppends(path).append("b", lines("b", 0, 3))
            FileAppends(path).append("a", lines("a", 5, 7))
            assert time.monotonic() - began_s < 1
            process.signal(signal.SIGKILL if ends else signal.SIGCONT)
            assert process.wait() == (-signal.SIGKILL if ends and step in stopped else 0)
        FileAppends(path).append("b", lines("b", 0, 4))
        assert by_producer(path) == {"theirs": [0], "a": [*range(7)], "b": [*range(4)]}, step
    assert len(stopped) > STEPS / 2


def test_who_stands_still_finds_its_note_finished_and_nothing_after_it(tmp_path: Path) -> None:
    for step in range(1, STEPS + 1):
        path = tmp_path / f"out-{step}.txt"
        path.touch()
        with Appending(path, "a", 4, 2, str(step)) as process:
            process.stands_still()
            # Nothing new: it only finishes what it finds noted
            FileAppends(path).append("a", lines("a", 0, 1))
            process.signal(signal.SIGCONT)
            deadline_s = time.monotonic() + 5
            while process.runs() and time.monotonic() < deadline_s:
                threading.Event().wait(0.01)
            assert process.code == 0, step
        assert by_producer(path) == {"a": [*range(4)]}, step


def test_processes_that_stand_still_again_and_again_leave_each_line_once(tmp_path: Path) -> None:
    path, chance, pace = tmp_path / "out.txt", random.Random(7), threading.Event()
    path.touch()
    with contextlib.ExitStack() as all_of_them:
        work = [("a", 5), ("a", 3), ("a", 2), ("b", 4), ("b", 7)]
        running = [all_of_them.enter_context(Appending(path, producer, 300, size)) for producer, size in work]
        deadline_s = time.monotonic() + 60
        while any(process.runs() for process in running) and time.monotonic() < deadline_s:
            process = chance.choice(running)
            process.signal(signal.SIGSTOP)
            pace.wait(chance.random() / 20)
            if chance.random() < 0.7:
                process.signal(signal.SIGCONT)
            else:  # so many stand still at a time
                chance.choice(running).signal(signal.SIGCONT)
        for process in running:
            process.signal(signal.SIGCONT)
            assert process.wait() == 0
    assert by_producer(path) == {"a": [*range(300)], "b": [*range(300)]}


def test_what_is_noted_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    for number in range(20):
        FileAppends(path).append("a", lines("a", number, number + 1))
    names = sorted((tmp_path / ".out.txt.spdist.d").iterdir())
    assert [name.name for name in names] == ["19", "19.done", "20", "20.done"]
    many = [(number, b"x" * 100_000) for number in range(20, 60)]
    FileAppends(path).append("a", many)
    assert max(name.stat().st_size for name in (tmp_path / ".out.txt.spdist.d").iterdir()) < 1_200_000
    assert path.stat().st_size == len(b"".join(line for _, line in lines("a", 0, 20))) + 40 * 100_000


@pytest.mark.parametrize("torn", [b"", b"a 1", b"a 1\n\0\0\0\0"])
def test_what_one_who_died_has_written_in_part_is_made_whole(tmp_path: Path, torn: bytes) -> None:
    path = _died(tmp_path)
    path.write_bytes(b"a 0\n" + torn)
    FileAppends(path).append("a", lines("a", 1, 4))
    assert path.read_bytes() == b"a 0\na 1\na 2\na 3\n"


@pytest.mark.parametrize("theirs", [b"theirs\n", b"a 1\ntheirs is longer\n"])
def test_what_others_have_written_in_that_place_stays(tmp_path: Path, theirs: bytes) -> None:
    path = _died(tmp_path)
    path.write_bytes(b"a 0\n" + theirs)
    FileAppends(path).append("a", lines("a", 1, 4))
    assert path.read_bytes() == b"a 0\n" + theirs + b"a 1\na 2\na 3\n"


@pytest.mark.parametrize("rotated", [False, True])
def test_a_file_that_began_anew_meanwhile_has_the_lines_without_a_gap(tmp_path: Path, rotated: bool) -> None:
    path = _died(tmp_path)
    if rotated:
        path.rename(tmp_path / "out.1")
    path.write_bytes(b"")
    FileAppends(path).append("a", lines("a", 1, 4))
    assert path.read_bytes() == b"a 1\na 2\na 3\n"


def _died(directory: Path) -> Path:
    """Return a file with one line, whose writer has died before it wrote two more that it had noted."""
    path = directory / "out.txt"
    FileAppends(path).append("a", lines("a", 0, 1))
    with Appending(path, "a", 3, 3, "pwrite") as process:
        assert process.stands_still()
    assert path.read_bytes() == b"a 0\n"
    return path
