"""Appending to a file from several processes, none of which waits for another, whatever moment that stands still in.

A lock would be kept by who stands still. So who appends first writes a note: which bytes go where, and what has been
appended then of each producer. Notes are numbered, each follows the one before, and one number is one process's: what
is at the end of the file is decided by who has made the note. Whoever comes next looks at the newest note and first
writes what it says, if that is not there. The process that made the note may do so, too, a day later: the same bytes at
the same place.

Notes are in a directory next to the file, ``.name.spdist.d``: ``7``, and ``7.done`` once its bytes are in the file.
Versions 0.19 and earlier had a file ``.name.spdist``, which is read once.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spdist.connectors.sending import SendError
from spdist.transports.whole_files import create_whole

__all__ = ["FileAppends"]

_FORMAT = 2
_DONE = ".done"
#: Bytes that one note has at least, where there are more.
_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class _Note:
    """What is to be appended, or has been.

    Parameters
    ----------
    number : int
        Its place among the notes.
    next : dict of str to int
        For each producer, the number of the delivery that is next once this is done.
    inode, offset : int
        Which file, and where.
    data : bytes
        What is to be there; nothing where that is known to be so.
    """

    number: int = 0
    next: dict[str, int] = field(default_factory=dict)
    inode: int = 0
    offset: int = 0
    data: bytes = b""

    def written(self) -> bytes:
        head = {"format": _FORMAT, "next": self.next, "inode": self.inode, "offset": self.offset}
        return json.dumps(head | {"crc": zlib.crc32(self.data)}).encode() + b"\n" + self.data


class FileAppends:
    """What is appended to one file, each delivery once.

    Parameters
    ----------
    path : Path
        The file; its directory is there.

    State
    -----
    None in memory. Next to the file two notes, each with what was appended at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = path.with_name(f".{path.name}.spdist.d")
        self._old = path.with_name(f".{path.name}.spdist")

    def append(self, producer: str, lines: Sequence[tuple[int, bytes]]) -> None:
        """Append what has not been appended before; it is on the disk when this returns.

        Parameters
        ----------
        producer : str
            Whose deliveries they are.
        lines : sequence of (number, bytes)
            Numbers grow.

        Raises
        ------
        OSError
            Something cannot be written; trying again appends nothing twice.
        SendError
            What was noted is damaged.
        """
        self._place.mkdir(exist_ok=True)
        for part in _parts(lines):
            # Ends: whoever came first has made progress, and this process finishes that before it tries again.
            while not self._append(producer, part):
                pass

    def _append(self, producer: str, lines: Sequence[tuple[int, bytes]]) -> bool:
        """Try to append; False where another process has come first, and it is to be tried again."""
        with self._opened() as handle:
            return self._append_to(handle, producer, lines)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            yield handle
        finally:
            os.close(handle)

    def _append_to(self, handle: int, producer: str, lines: Sequence[tuple[int, bytes]]) -> bool:
        # Bytes of another process are finished before own ones are claimed: where the file ends is only known then.
        before = self._newest()
        if before.data:
            self._finish(handle, before)
            return False
        # What the newest note counts as appended is a repeat after a failure.
        new = [(number, line) for number, line in lines if number >= before.next.get(producer, 0)]
        if not new:
            return True
        known = {**before.next, producer: new[-1][0] + 1}
        note = self._claim(handle, before.number + 1, known, b"".join(line for _, line in new))
        return note is not None and self._finish(handle, note)

    def _claim(self, handle: int, number: int, known: dict[str, int], data: bytes) -> _Note | None:
        """Make a note for the end of the file; None where somebody else has made it, or one after it."""
        status = os.fstat(handle)
        note = _Note(number, known, status.st_ino, status.st_size, data)
        path = self._place / str(number)
        # One process gets the number, with the whole content.
        if not create_whole(path, note.written()):
            return None
        numbers, done = self._numbers()
        if max(numbers) > number:
            # This process stood still, while others went on. They may have deleted theirs of that number; where the own
            # one was first they have finished it. The newest is never deleted, even if others have finished that.
            path.unlink(missing_ok=True)
            return None
        # Only after the own note is the newest: whoever lists the directory finds one with all numbers.
        self._forget(numbers | done, number)
        return note

    def _finish(self, handle: int, note: _Note) -> bool:
        """Write what a note says where it is missing; False where that is no place for it, and it goes to the end.

        Others may do the same meanwhile. So what is there is no proof that it is another's, unless it differs.
        """
        status, there = os.fstat(handle), os.pread(handle, len(note.data), note.offset)
        if there != note.data:
            # A shorter file, or another inode, was put there since the note was made.
            replaced = status.st_ino != note.inode or status.st_size < note.offset
            if replaced or not _is_part(there, note.data):
                # The same under the next number, which all find as the newest: the place of this note is taken.
                self._claim(handle, note.number + 1, note.next, note.data)
                return False
            _write(handle, note.data, note.offset)
        # Before the mark: a note that is done is never looked at again.
        os.fsync(handle)
        (self._place / f"{note.number}{_DONE}").touch()
        return True

    # ----------------------------------------------------------------------------------------------------- notes
    def _numbers(self) -> tuple[set[int], set[int]]:
        """Return the numbers of all notes, and of those that are done."""
        names = os.listdir(self._place)
        done = {int(name.removesuffix(_DONE)) for name in names if name.endswith(_DONE)}
        return {int(name) for name in names if name.isdecimal()}, done

    def _newest(self) -> _Note:
        """Return the newest note, without data where that is done."""
        while True:
            numbers, done = self._numbers()
            # The directory is new, or of a version that did not number notes.
            if not numbers:
                return _Note(next=self._known_before())
            newest = max(numbers)
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: there are newer ones
                return self._read(newest, newest in done)

    def _read(self, number: int, done: bool) -> _Note:
        path = self._place / str(number)
        with path.open("rb") as file:
            try:
                head = json.loads(file.readline())
                if head["format"] != _FORMAT:
                    raise _other_format(head, _FORMAT)
                known = {str(producer): int(next) for producer, next in head["next"].items()}
                # Of a note that is done only the numbers count: its bytes are in the file.
                data = b"" if done else file.read()
                if not done and zlib.crc32(data) != head["crc"]:
                    raise ValueError("its checksum is wrong")
                return _Note(number, known, int(head["inode"]), int(head["offset"]), data)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise _damaged(path, error, self._place) from error

    def _forget(self, numbers: set[int], newest: int) -> None:
        """Delete old notes but for the last: who lists the directory meanwhile must find one."""
        for number in numbers:
            if number < newest - 1:
                for name in (f"{number}", f"{number}{_DONE}"):
                    (self._place / name).unlink(missing_ok=True)
        self._old.unlink(missing_ok=True)

    def _known_before(self) -> dict[str, int]:
        """Return what version 0.19 and earlier noted; a writer that died is dealt with as it did."""
        try:
            stored = json.loads(self._old.read_bytes())
            if stored["format"] != 1:
                raise _other_format(stored, 1)
            known = {str(producer): int(next) for producer, next in stored["next"].items()}
            if (intent := stored["intent"]) is not None:
                start, size, crc = int(intent["offset"]), int(intent["size"]), int(intent["crc"])
                if self._holds(start, size, crc):
                    known[str(intent["producer"])] = int(intent["next"])
                # A part of what was announced: that version cut it off and appended it again.
                elif start < self._path.stat().st_size <= start + size:
                    os.truncate(self._path, start)
            return known
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(self._old, error, self._old) from error

    def _holds(self, start: int, size: int, crc: int) -> bool:
        with self._path.open("rb") as file:
            file.seek(start)
            data = file.read(size)
        return len(data) == size and zlib.crc32(data) == crc


def _parts(lines: Sequence[tuple[int, bytes]]) -> Iterator[Sequence[tuple[int, bytes]]]:
    """Cut lines where they are many."""
    begin = size = 0
    for place, (_, line) in enumerate(lines, 1):
        size += len(line)
        if size >= _PART or place == len(lines):
            yield lines[begin:place]
            begin, size = place, 0


def _is_part(there: bytes, data: bytes) -> bool:
    """Tell whether bytes are what one who ended, or goes on, has written of others; a disk may leave zeros instead."""
    return data.startswith((there, there.rstrip(b"\0")))


def _write(handle: int, data: bytes, offset: int) -> None:
    left = memoryview(data)
    while left:
        # A write may take less than it is given, for example on a full disk.
        done = os.pwrite(handle, left, offset)
        left, offset = left[done:], offset + done


def _other_format(stored: dict[str, Any], known: int) -> ValueError:
    return ValueError(f"it has format {stored['format']}, this version of spdist reads format {known}")


def _damaged(path: Path, error: Exception, place: Path) -> SendError:
    return SendError(
        f"{path} is damaged, which says what was appended to the file beside it ({error}); bring it back "
        f"from a copy, or delete {place}: then what was appended last may come a second time"
    )
