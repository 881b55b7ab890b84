"""The file sink: each payload once, wherever the writer dies."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from spdist.config.allowed import Allowed
from spdist.connectors.file.sink import FileSink
from spdist.connectors.sending import SendError
from spdist.mapping.passing import ChunkPayload
from spdist.transports.delivery import Delivery


def deliveries(path: Path, first: int, texts: Sequence[str], producer: str = "App-1", **more: str) -> list[Delivery]:
    options = {"file.uri": str(path), **{key.replace("_", "."): value for key, value in more.items()}}
    return [Delivery("file", 0, 0, "S", options, text, producer, first + n) for n, text in enumerate(texts)]


#: Everything below the directory of pytest, and nothing else.
ALLOWED = Allowed((Path(tempfile.gettempdir()),))


def send(made: list[Delivery], allowed: Allowed = ALLOWED) -> None:
    FileSink(made[0].options, allowed).send(made)


def test_lines_are_appended_and_repeats_are_not(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.txt"
    send(deliveries(out, 0, ["a", "b"]))
    send(deliveries(out, 1, ["b", "c"]))
    send(deliveries(out, 0, ["x"], producer="App-2"))
    send(deliveries(out, 0, ["a", "b", "c"]))
    assert out.read_text() == "a\nb\nc\nx\n"


def test_what_others_write_into_the_file_stays(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("theirs\n")
    send(deliveries(out, 0, ["a"]))
    with out.open("a") as file:
        file.write("theirs again\n")
    send(deliveries(out, 1, ["b"]))
    out.write_text("")  # rotated
    send(deliveries(out, 2, ["c"]))
    assert out.read_text() == "c\n"


class Died(BaseException):
    pass


def dying(step: int, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    """Let the writer die at its step-th write to the disk; data that is being appended is there up to `cut` bytes."""
    count = 0
    whole = os.fsync

    def fsync(handle: int) -> None:
        nonlocal count
        count += 1
        if count == step:
            if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_RDWR:  # a note is only written
                os.ftruncate(handle, max(0, os.fstat(handle).st_size - cut))
            raise Died
        whole(handle)

    monkeypatch.setattr("os.fsync", fsync)


@pytest.mark.parametrize("cut", [0, 1, 5, 100])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("other", [False, True])
def test_a_writer_that_dies_leaves_no_line_doubled_or_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, cut: int, other: bool
) -> None:
    out = tmp_path / "out.txt"
    send(deliveries(out, 0, ["first"]))
    cut = min(cut, len("second\nthird\n"))
    with monkeypatch.context() as patched:
        dying(step, patched, cut)
        with pytest.raises(Died):
            send(deliveries(out, 1, ["second", "third"]))
    if other:  # another instance writes before the one that died is back
        send(deliveries(out, 0, ["other"], producer="App-2"))
    send(deliveries(out, 1, ["second", "third", "fourth"]))
    assert sorted(out.read_text().split()) == sorted(["first", "second", "third", "fourth"] + ["other"] * other)


def test_separators_modes_and_places(tmp_path: Path) -> None:
    send(deliveries(tmp_path / "a", 0, ["1", "2"], add_line_separator="false"))
    send(deliveries(tmp_path / "b", 0, ["1\n", "2"]))
    send(deliveries(tmp_path / "c", 0, ["1\n"], add_line_separator="true"))
    send(deliveries(tmp_path / "d", 0, ["1", "2"], append="false"))
    found = [(tmp_path / name).read_text() for name in "abcd"]
    assert found == ["12", "1\n2\n", "1\n\n", "2\n"]
    uri = f"file://{tmp_path}/e%20f.txt"
    send([Delivery("file", 0, 0, "S", {"file.uri": uri}, ChunkPayload([(1, ("x",))]), "A", 0)])
    assert (tmp_path / "e f.txt").read_text() == "Event{timestamp=1, data=['x'], isExpired=false}\n"


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(SendError, match=r"cannot write .*: Is a directory"):
        send(deliveries(tmp_path, 0, ["a"]))


#: What versions 0.19 and earlier noted before they appended "b" and "c".
OLD = {
    "format": 1,
    "next": {"App-1": 1, "App-2": 5},
    "intent": {"producer": "App-1", "next": 3, "offset": 2, "size": 4, "crc": zlib.crc32(b"b\nc\n")},
}


@pytest.mark.parametrize("there", ["", "b", "b\nc\n", "b\nc\ntheirs\n"])
def test_what_an_older_version_has_noted_counts(there: str, tmp_path: Path) -> None:
    out, old = tmp_path / "out.txt", tmp_path / ".out.txt.spdist"
    out.write_text(f"a\n{there}")
    old.write_text(json.dumps(OLD))
    send(deliveries(out, 0, ["a", "b", "c", "d"]))
    send(deliveries(out, 4, ["x", "y"], producer="App-2"))
    theirs = "theirs\n" if "theirs" in there else ""
    assert out.read_text() == f"a\nb\nc\n{theirs}d\ny\n"
    assert not old.exists()


NO_LEDGERS = [
    b"",
    b"{",
    b"[]",
    b'{"format": 1}',
    b'{"format": 3, "next": {}, "intent": null}',
    b'{"format": 1, "next": 5}',
]


@pytest.mark.parametrize("content", NO_LEDGERS)
def test_a_damaged_ledger_of_an_older_version_says_what_to_do(content: bytes, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("a\n")
    (tmp_path / ".out.txt.spdist").write_bytes(content)
    with pytest.raises(
        SendError, match=r"out\.txt\.spdist is damaged.*bring it back from a copy, or delete .*\.spdist:"
    ):
        send(deliveries(out, 1, ["b"]))
    assert out.read_text() == "a\n"


@pytest.mark.parametrize("content", [*NO_LEDGERS, b'{"format": 2, "next": {}, "inode": 1, "offset": 2, "crc": 1}\nb\n'])
def test_a_damaged_note_says_what_to_do_and_nothing_is_written(content: bytes, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    send(deliveries(out, 0, ["a"]))
    (tmp_path / ".out.txt.spdist.d" / "2").write_bytes(content)
    with pytest.raises(SendError, match=r"spdist\.d/2 is damaged.*bring it back from a copy, or delete .*\.spdist\.d:"):
        send(deliveries(out, 1, ["b"]))
    assert out.read_text() == "a\n"
