"""The bound of live state."""

from __future__ import annotations

import os

import pytest

from spdist.engine.shards.memory import check_memory, resident_bytes
from spdist.errors import ErrorKind, StateError
from tests.error_codes import coded


def test_what_is_within_its_bound_goes_on() -> None:
    held = resident_bytes()
    assert held > 1 << 20
    check_memory("App-1", held, held)


def test_a_process_that_was_forked_is_measured_itself() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = resident_bytes()
        held = b"x" * (64 << 20)
        os.write(writer, str(resident_bytes() - before).encode() + held[:0])
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reader, 100)) > 60 << 20
    for end in (reader, writer):
        os.close(end)


def test_what_is_beyond_its_bound_says_what_to_do() -> None:
    with pytest.raises(
        StateError, match="App-1 occupies 3,072 MiB, more than the 2,048 MiB", check=coded(ErrorKind.STATE_TOO_LARGE)
    ) as raised:
        check_memory("App-1", 3 << 30, 2 << 30)
    assert "spark.maxStateMemory" in (raised.value.hint or "")
