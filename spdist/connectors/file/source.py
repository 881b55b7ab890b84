"""``@source(type='file')``: lines, parts or whole files as payloads, each once, also after a crash.

Before anything is appended, what is about to be read is noted: which bytes of which file, under which numbers. Who goes
on after a crash reads just that again under the same numbers, so that what had arrived is known to have arrived.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from spdist.config.allowed import NotAllowed
from spdist.connectors.positions import Position
from spdist.connectors.receiving import Looping, SourceContext, now_ms
from spdist.errors import TransportError
from spdist.java.regex.matching import found_in
from spdist.java.regex.pattern import Match, java_pattern
from spdist.transports.options import Options

__all__ = ["FileSource", "open_source"]

log = logging.getLogger(__name__)

_MODES = ("LINE", "REGEX", "TEXT.FULL", "BINARY.FULL")
_AFTER = ("none", "keep", "delete", "move")
#: Bytes that are read, mapped and appended at a time; a line may be longer.
_SLICE = 1 << 20
#: A file with an end is read once it has not changed for the polling interval, but for no longer than this, s.
_STILL_S = 1.0
#: Bytes that are told of a payload that is too large.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class _FileOptions:
    """The options of the source."""

    is_directory: bool
    pattern: str
    mode: str
    begin: str
    end: str
    tailing: bool
    headers: int
    after: str
    move_to: Path | None
    interval_s: float

    @classmethod
    def of(cls, read: Options) -> _FileOptions:
        file, directory = read.text("file.uri"), read.text("dir.uri")
        if bool(file) == bool(directory):
            raise read.wrong("file.uri", "or 'dir.uri' must be written, one of them", "For example: file.uri='/in.txt'")
        mode = read.choice("mode", "LINE", _MODES)
        whole = mode.endswith("FULL")
        tailing = read.flag("tailing", not whole)
        if tailing and whole:
            raise read.wrong("tailing", f"and mode='{mode}' do not go together", "write tailing='false'")
        after = read.choice("action.after.process", "none" if tailing else "keep", _AFTER)
        if tailing and after in ("delete", "move"):
            hint = "a file that is followed has no end: write tailing='false'"
            raise read.wrong("action.after.process", f"cannot be '{after}' with tailing", hint)
        read.path("file.uri" if file else "dir.uri")
        target = read.text("move.after.process")
        if after == "move" and not target:
            raise read.wrong("move.after.process", "is missing", "For example: move.after.process='/done'")
        begin, end = read.text("begin.regex"), read.text("end.regex")
        if mode == "REGEX" and not (begin or end):
            raise read.wrong("begin.regex", "or 'end.regex' is needed with mode='REGEX'")
        for key, text in (("begin.regex", begin), ("end.regex", end)):
            try:
                java_pattern(text)
            except ValueError as error:
                raise read.wrong(key, f"cannot be used: {error}") from error
        present = read.flag("header.present", False)
        return cls(
            is_directory=bool(directory),
            pattern=read.text("file.name.pattern"),
            mode=mode,
            begin=begin,
            end=end,
            tailing=tailing,
            headers=read.whole("header.line.count", 1, 1) if present else 0,
            after=after,
            move_to=read.path("move.after.process") if target else None,
            interval_s=read.whole("dir.polling.interval" if directory else "file.polling.interval", 1000, 1) / 1000,
        )

    def whole_lines(self, data: bytes, start: int) -> int:
        """Return how many bytes of `data`, from a place in the file on, are whole lines, with all of the header."""
        # The header is taken off the first slice: without its last line that is not yet one.
        return 0 if start == 0 and data.count(b"\n") < self.headers else data.rfind(b"\n") + 1


@dataclass(slots=True)
class _Known:
    """How far a file has been read; `over` once all of it has, with when it had been `changed` (ns).

    `skipping` while what follows belongs to a line that was rejected for its length.
    """

    inode: int
    offset: int = 0
    over: bool = False
    changed: int = 0
    skipping: bool = False


@dataclass(frozen=True, slots=True)
class _Slice:
    """Bytes of a file that are read together; `last` where the file ends with them for good.

    `too_large` where they are a payload, or begin one, that is larger than the source takes: `goes_on` where what
    follows belongs to it as well.
    """

    path: str
    start: int
    end: int
    last: bool
    too_large: bool = False
    goes_on: bool = False


class FileSource(Looping):
    """Reads a file, or the files of a directory in the order of their names.

    Parameters
    ----------
    context : SourceContext
        Where events go. Options as of Siddhi's file source: ``file.uri`` or ``dir.uri``, ``mode`` LINE, REGEX,
        TEXT.FULL or BINARY.FULL, ``tailing``, ``begin.regex``, ``end.regex``, ``header.present``,
        ``header.line.count``, ``action.after.process``, ``move.after.process``, ``file.name.pattern`` (a glob, or a
        regular expression), ``file.polling.interval`` and ``dir.polling.interval`` in ms. Properties of a payload:
        ``file.path`` and ``eof``. A file that is not followed is read once nobody has written to it for a polling
        interval, or a second where that is shorter: who writes it may take a while.
    position : Path
        Where it remembers what it has read.

    Raises
    ------
    AppValidationError
        An option is wrong.

    State
    -----
    One entry for each file that is there, and another until it is begun.
    """

    def __init__(self, context: SourceContext, position: Path) -> None:
        super().__init__(f"the @source of stream '{context.stream}'")
        self._context = context
        self._settings = _FileOptions.of(context.options)
        self._position = Position(position)
        self._files: dict[str, _Known] = {}
        #: Files that are waited for: size, when they were changed (ns), and since when they are so (steady, s).
        self._waiting: dict[str, tuple[int, int, float]] = {}
        self._seq = 0
        self._producer = f"file-{uuid.uuid4().hex}"
        self._unsaved = False
        self._refused: set[Path] = set()

    def _begin(self) -> None:
        known = self._position.load()
        if known is None:
            self._save(None)  # before anything is numbered by this producer
            return
        self._seq, self._producer = known["seq"], known["producer"]
        self._files = {path: _Known(**file) for path, file in known["files"].items() if self._may(Path(path))}
        self._context.mapper.restore(known["mapper"])
        # Read to the end before a crash, but not yet moved or deleted; one that was changed since then is another file.
        for path in [Path(path) for path, file in self._files.items() if file.over]:
            if path.is_file() and path.stat().st_mtime_ns == self._files[str(path)].changed:
                self._put_away(path)
        if known["intent"] is not None and self._may(Path(known["intent"]["path"])):
            self._again(_Slice(**known["intent"]), known["at"])  # with the time of the first try

    def _turn(self) -> float:
        read = False
        for path in self._paths():
            if self._stopping.is_set():
                return 0.0
            read = self._follow(path) or read
        if not read and self._unsaved:
            self._save(None)
        if read:
            return 0.0
        return min(self._settings.interval_s, _STILL_S) if self._waiting else self._settings.interval_s

    def _end(self) -> None:
        if self._unsaved:
            self._save(None)

    def _paths(self) -> list[Path]:
        # Looked up each time: links may have been changed.
        place = self._context.options.path("dir.uri" if self._settings.is_directory else "file.uri")
        if not self._settings.is_directory:
            return [place] if place.is_file() else []
        there = sorted(path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))
        found = [path for path in there if not path.is_symlink() or self._may(path)]
        for known in (self._files, self._waiting):  # what is gone is forgotten
            for path in set(known) - {str(path) for path in found}:
                del known[path]
        return [path for path in found if self._wanted(path.name)]

    def _may(self, path: Path) -> bool:
        """Tell whether a file lies, links followed, where the app may use files."""
        try:
            self._context.options.allowed.bounded(str(path))
        except NotAllowed as error:
            if path not in self._refused:
                self._refused.add(path)
                log.warning("%s: %s is left out: it %s", self._name, path, error)
            return False
        return True

    def _wanted(self, name: str) -> bool:
        pattern = self._settings.pattern
        if not pattern or fnmatch.fnmatchcase(name, pattern):  # first: no expression begins with *
            return True
        try:
            return java_pattern(pattern).fullmatch(name) is not None
        except ValueError:
            return False

    def _follow(self, path: Path) -> bool:
        """Read the next slice of a file; return whether there was one."""
        status = path.stat()
        known = self._files.get(str(path))
        if known is None or known.inode != status.st_ino or status.st_size < known.offset:
            # New, or another file under the old name, or begun anew.
            known = self._files[str(path)] = _Known(status.st_ino)
        # A file that has ended for good is not read again, also where something was appended to it.
        if known.over or (known.offset == status.st_size and self._settings.tailing):
            return False
        # Only before the first byte: a file that was begun is read to its end without a wait between slices.
        if not self._settings.tailing and known.offset == 0 and not self._is_still(path, status):
            return False
        part = (self._rest if known.skipping else self._next)(path, known.offset, status.st_size)
        if part is None:
            return False
        if part.end > part.start:  # an empty file has an end, and no payload
            self._take(part, now_ms())
        if part.last:
            self._finish(path)
        return True

    def _is_still(self, path: Path, status: os.stat_result) -> bool:
        """Tell whether nobody has written to a file for long enough to take it for whole."""
        now, looks = time.monotonic(), (status.st_size, status.st_mtime_ns)
        *before, since = self._waiting.get(str(path), (-1, 0, now))  # no file has the size -1
        if tuple(before) != looks:
            self._waiting[str(path)] = (*looks, now)
            return False
        if now - since < min(self._settings.interval_s, _STILL_S):
            return False
        del self._waiting[str(path)]
        return True

    def _next(self, path: Path, start: int, size: int) -> _Slice | None:
        """Return the next bytes that make whole payloads; None where there are none yet."""
        whole = self._settings.mode.endswith("FULL")
        ends = not self._settings.tailing
        most = self._context.largest
        if whole:
            return _Slice(str(path), start, size, True, too_large=size - start > most)
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(_SLICE)
            while (cut := self._last_cut(data, start)) == 0 and len(data) <= most and (more := file.read(_SLICE)):
                data += more
        if cut == 0 and len(data) > most:
            end, line = start + len(data), self._settings.mode == "LINE"  # only of lines the end of the rest is known
            return _Slice(str(path), start, end, ends and end >= size, too_large=True, goes_on=line)
        if ends and start + len(data) >= size:  # a last line without a newline is whole where nobody writes on
            return _Slice(str(path), start, start + len(data), True)
        return _Slice(str(path), start, start + cut, False) if cut else None

    def _rest(self, path: Path, start: int, size: int) -> _Slice:
        """Return the next bytes of a line that was rejected for its length."""
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(_SLICE)
        cut = data.find(b"\n") + 1
        end = start + (cut or len(data))
        return _Slice(str(path), start, end, not self._settings.tailing and end >= size, goes_on=not cut)

    def _last_cut(self, data: bytes, start: int) -> int:
        """Return how many bytes of `data`, from a place in the file on, surely are whole payloads."""
        if self._settings.mode == "LINE":
            return self._settings.whole_lines(data, start)
        # Reversible, so that a place in the text can be counted back to bytes; a slice may end inside of a character.
        text = data.decode("utf-8", "surrogateescape")
        found = list(self._cuts(text))
        return len(text[: found[-1]].encode("utf-8", "surrogateescape")) if found else 0

    def _cuts(self, text: str) -> Iterator[int]:
        """Yield where payloads end: behind an end or, where none is told, before a beginning."""
        begin, end = self._settings.begin, self._settings.end
        # Each search has a bound of its own: a slice may hold many payloads.
        for one in found_in(lambda at: _search(end or begin, text, at), text):
            yield one.end() if end else one.start()

    def _take(self, part: _Slice, at: int) -> None:
        """Note what is about to be read, then read and append it."""
        self._save(part, at)  # first: a crash between the two repeats this very slice
        self._append(part, at)

    def _append(self, part: _Slice, at: int) -> None:
        known = self._files[part.path]
        if part.too_large:
            with open(part.path, "rb") as file:
                file.seek(part.start)
                begin = file.read(_SHOWN)
            self._context.reject(begin, f"a payload of {part.path} is larger than {self._context.largest} bytes", at)
        elif not known.skipping:
            self._append_payloads(part, at)
        known.offset, known.skipping = part.end, part.goes_on
        self._unsaved = True

    def _append_payloads(self, part: _Slice, at: int) -> None:
        payloads = list(self._payloads(part))

        def properties(number: int) -> dict[str, str]:
            eof = part.last and number == len(payloads) - 1
            return {"file.path": part.path, "eof": str(eof).lower()}

        # The mapping may have taken a header off: where nothing was appended, it is to come again.
        before = self._context.mapper.snapshot()
        try:
            chunks = list(chain.from_iterable(self._context.read_each(payloads, properties, at)))
            self._seq += self._context.writer.append(chunks, at, self._producer, self._seq)
        except BaseException:
            self._context.mapper.restore(before)
            raise

    def _again(self, part: _Slice, at: int) -> None:
        """Do what may have been done in part before a crash."""
        path = Path(part.path)
        known = self._files.get(part.path)
        status = path.stat() if path.is_file() else None
        if known is None or status is None or status.st_ino != known.inode or status.st_size < part.end:
            log.warning("%s changed while nobody read it: what was being read of it may be missing", path)
            self._files.pop(part.path, None)
            return
        self._append(part, at)
        if part.last:
            self._finish(path)

    def _payloads(self, part: _Slice) -> Iterator[str | bytes]:
        with open(part.path, "rb") as file:
            file.seek(part.start)
            data = file.read(part.end - part.start)
        if self._settings.mode == "BINARY.FULL":
            yield data
            return
        text = data.decode("utf-8", "replace")
        if self._settings.mode == "TEXT.FULL":
            yield text
        elif self._settings.mode == "LINE":
            lines = text.split("\n")  # not splitlines, for which other characters end a line, too
            if not lines[-1]:
                lines.pop()
            skipped = self._settings.headers if part.start == 0 else 0
            yield from (line.removesuffix("\r") for line in lines[skipped:])
        else:
            yield from self._matches(text)

    def _matches(self, text: str) -> Iterator[str]:
        settings = self._settings
        start = 0
        if settings.begin and settings.end:
            while (first := _search(settings.begin, text, start)) and (
                last := _search(settings.end, text, first.end())
            ):
                yield text[first.start() : last.end()]
                start = max(last.end(), first.start() + 1)  # both may be empty: the loop is to go on
            return
        for cut in self._cuts(text):
            if text[start:cut].strip():
                yield text[start:cut]
            start = cut
        if text[start:].strip():
            yield text[start:]

    def _finish(self, path: Path) -> None:
        """Deal with a file whose end has been read, after that is on the disk."""
        known, status = self._files[str(path)], path.stat()
        known.over, known.changed = True, status.st_mtime_ns
        self._save(None)
        self._put_away(path)

    def _put_away(self, path: Path) -> None:
        settings = self._settings
        target = path if settings.move_to is None else self._target(settings.move_to, path)
        if settings.after in ("delete", "move"):
            # The next file of that name is another one, even where the system gives it the same number.
            del self._files[str(path)]
            self._unsaved = True
        if settings.after == "delete":
            path.unlink(missing_ok=True)
        elif settings.after == "move":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(str(path), str(target))

    def _target(self, move_to: Path, path: Path) -> Path:
        target = move_to if move_to.suffix else move_to / path.name
        try:
            return self._context.options.allowed.bounded(str(target))
        except NotAllowed as error:
            raise TransportError(f"{path} stays where it is: {target} {error}", hint=error.hint) from None

    def _save(self, intent: _Slice | None, at: int = 0) -> None:
        self._position.save(
            {
                "producer": self._producer,
                "seq": self._seq,
                "files": {path: asdict(known) for path, known in self._files.items()},
                "mapper": self._context.mapper.snapshot(),
                "intent": None if intent is None else asdict(intent),
                "at": at,
            }
        )
        self._unsaved = False


def _search(regex: str, text: str, at: int) -> Match | None:
    """Return the first match from a place on; what that may cost is bounded."""
    try:
        return java_pattern(regex).search(text, at)
    except ValueError as error:
        raise TransportError(str(error), hint="write an expression that does not go back and forth") from error


def open_source(context: SourceContext) -> FileSource:
    """Return the source of an annotation, not yet started."""
    return FileSource(context, context.kept("position.json"))
