"""A reader of states that others write: what appears is read and checked, and of a bucket copied to a local disk.

So a server that takes over reads only what is new. It writes nothing where the states are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from spdist.engine.shards.copies import Copies
from spdist.engine.shards.layout import current_layout
from spdist.engine.shards.places import Place, size_and_time, tags_in
from spdist.engine.shards.state import file_name, numbers_of, state_directory, unsealed
from spdist.errors import SpdistError
from spdist.planning.topology import Assignment

__all__ = ["Followed", "StateFollower", "wanted_files"]

#: How many files are read at a time.
_AT_A_TIME = 16
#: Bytes of a snapshot that is read ahead.
_LARGEST = 256 << 20

#: Kind and number.
File = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Followed:
    """What was last seen of the state of an instance.

    Parameters
    ----------
    segment : int
        Number of the newest segment, of all its shards together: how many batches there were. 0 where there is none.
    snapshot_ms : int, optional
        When the oldest of the newest snapshots of its shards was written, ms since epoch; None where one has none.
    problem : str
        Why the state could not be read; empty where it could.
    """

    segment: int = 0
    snapshot_ms: int | None = None
    problem: str = ""


@dataclass(slots=True)
class _ReadFiles:
    """The files of a shard that have been read, with their tags, and when the snapshot among them was written."""

    files: dict[File, str]
    snapshot_ms: int | None = None


class StateFollower:
    """Follows the states of some instances.

    Parameters
    ----------
    location : Place
        Below which the states are.
    copies : Copies
        Where copies go.
    largest : int
        Bytes of a snapshot; a larger one is not read ahead, as it would have to be in memory.

    State
    -----
    The names of the files that are still needed: one snapshot and the segments after it for each shard.
    """

    def __init__(self, location: Place, copies: Copies, largest: int = _LARGEST) -> None:
        self._location = location
        self._copies = copies
        self._largest = largest
        self._seen: dict[str, dict[Place, _ReadFiles]] = {}

    def follow(self, assignments: Iterable[Assignment]) -> dict[str, Followed]:
        """Read what has appeared of the states of these instances since the last call; return what is there by name."""
        before, self._seen = self._seen, {}
        found = {}
        for one in assignments:
            # Kept where nothing can be seen: that may be over when the copies are needed.
            seen = self._seen[one.name] = before.get(one.name, {})
            try:
                found[one.name] = self._follow(one, seen)
            except Exception as error:  # nothing that is stored there may end who waits
                known = isinstance(error, (SpdistError, OSError))
                why = getattr(error, "message", str(error)) if known else repr(error)
                found[one.name] = Followed(problem=f"its state cannot be read: {why}")
        self._copies.retain(
            (place / file_name(*file), tag)
            for shards in self._seen.values()
            for place, seen in shards.items()
            for file, tag in seen.files.items()
        )
        return found

    def _follow(self, assignment: Assignment, seen: dict[Place, _ReadFiles]) -> Followed:
        layout = current_layout(state_directory(self._location, assignment.name), assignment.shards)
        places = [store.directory for store in layout.stores]
        for gone in seen.keys() - {*places}:
            del seen[gone]
        for place in places:
            self._read(place, seen.setdefault(place, _ReadFiles({})))
        segments = sum(max((number for _, number in one.files), default=0) for one in seen.values())
        snapshots = [one.snapshot_ms for one in seen.values()]
        return Followed(segments, None if None in snapshots else min(filter(None, snapshots), default=None))

    def _read(self, directory: Place, known: _ReadFiles) -> None:
        """Read the files of a shard that are new."""
        tags = tags_in(directory)
        wanted = {file: tags[file_name(*file)] for file in wanted_files(tags)}
        new = [file for file, tag in wanted.items() if known.files.get(file) != tag]
        # New ones count only once they were read: what fails now is read the next time
        known.files = {file: tag for file, tag in wanted.items() if file not in new}
        if not any(kind == "snapshot" for kind, _ in wanted):
            known.snapshot_ms = None

        def read(file: File) -> None:
            path = directory / file_name(*file)
            try:
                size, at_ms = size_and_time(path) if file[0] == "snapshot" else (0, None)
                content = path.read_bytes() if size <= self._largest else None
            except FileNotFoundError:
                return  # a newer snapshot stands for it by now
            if content is not None:
                unsealed(*file, content, path)
                with contextlib.suppress(OSError):  # the disk is full: then it is read again
                    self._copies.keep(path, wanted[file], content)
            # Also one that is too large to be kept, so that it is not looked at again
            known.files[file] = wanted[file]
            known.snapshot_ms = at_ms or known.snapshot_ms

        with ThreadPoolExecutor(_AT_A_TIME, "spdist-follow") as pool:
            # `map` raises what went wrong only where its results are taken
            for _ in pool.map(read, new):
                pass


def wanted_files(names: Iterable[str]) -> list[File]:
    """Return what is to be loaded of a shard with these files: the newest snapshot, and the segments after it. Pure."""
    listed = [*names]
    newest = numbers_of("snapshot", listed)[-1:]
    after = newest[0] if newest else 0
    return [("snapshot", after)] * len(newest) + [("segment", n) for n in numbers_of("segment", listed) if n > after]
