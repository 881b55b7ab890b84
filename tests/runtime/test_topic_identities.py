"""A topic that is not the one any more which a state has read is noticed before anything of it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.errors import StateError, TransportError
from spdist.planning.topology import AssignedInput
from spdist.runtime.topic_identities import check_identities
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from tests.transports.deleting import delete_topic

INPUT = AssignedInput("S", "App.S", (0, 1))
#: Of partition 1 nothing was read.
READ = {"App.S": {0: 2}}


@pytest.fixture
def log(tmp_path: Path) -> LogTransport:
    made = LogTransport(tmp_path / "topics")
    made.ensure("App.S", 2)
    made.append([Record("App.S", 0, b"x", 1, "p", number) for number in range(3)])
    return made


def test_a_topic_that_is_the_same_is_read_on(log: LogTransport, tmp_path: Path) -> None:
    check_identities(tmp_path, (INPUT,), {}, log)
    check_identities(tmp_path, (INPUT,), READ, log)
    check_identities(tmp_path, (INPUT,), {"App.S": {0: 3}}, log)


@pytest.mark.parametrize("records", [None, 0, 3])
def test_one_that_was_deleted_or_made_anew_is_refused_however_long_it_is(
    log: LogTransport, tmp_path: Path, records: int | None
) -> None:
    check_identities(tmp_path, (INPUT,), READ, log)
    log.close()
    delete_topic("log", str(tmp_path / "topics"), "App.S")
    if records is not None:
        log.ensure("App.S", 2)
        log.append([Record("App.S", 0, b"y", 1, "p", number) for number in range(records)])
    with pytest.raises(TransportError, match=r"'App\.S' was deleted") as error:
        check_identities(tmp_path, (INPUT,), READ, log)
    assert "bring the topic back" in (error.value.hint or "")


def test_of_one_that_was_made_anew_before_anything_was_read_the_new_one_counts(
    log: LogTransport, tmp_path: Path
) -> None:
    check_identities(tmp_path, (INPUT,), {}, log)
    log.close()
    delete_topic("log", str(tmp_path / "topics"), "App.S")
    log.ensure("App.S", 2)
    check_identities(tmp_path, (INPUT,), {}, log)
    check_identities(tmp_path, (INPUT,), {"App.S": {0: 0}}, log)


def test_one_that_ends_before_what_was_read_is_refused(log: LogTransport, tmp_path: Path) -> None:
    for beyond in ({0: 4}, {0: 2, 1: 1}):
        with pytest.raises(TransportError, match="it was shortened, or deleted"):
            check_identities(tmp_path, (INPUT,), {"App.S": beyond}, log)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"topics": 5}'])
def test_a_note_that_is_damaged_says_so(log: LogTransport, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "topics.json").write_bytes(content)
    with pytest.raises(StateError, match=r"topics\.json cannot be read.*"):
        check_identities(tmp_path, (INPUT,), READ, log)
