"""The inputs that the state of a group instance still holds: the files of a shard from its older snapshot on.

Nobody who runs the group notices that they are read: files of a state never change. What a snapshot makes needless may
be deleted meanwhile; then one begins again, from the next snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdist.engine.shards.layout import ShardLayout, current_layout, kept_assignment
from spdist.engine.shards.places import Place
from spdist.engine.shards.state import Segment, StateStore, state_directory
from spdist.errors import NotFoundError, StateError
from spdist.planning.topology import Assignment

__all__ = ["StoredInputs", "StoredShard", "read_files", "stored", "stored_inputs"]

#: Files of a state that hold inputs, and of states that it has gone back to; nothing else is read or written.
_FILE = re.compile(r"(base-\d{12}-[0-9a-f]{32}/)*(segment|snapshot)-\d{12}")
#: Bytes of a file that is read for others.
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredShard:
    """What is kept of one shard.

    Parameters
    ----------
    files : tuple of str
        Their names below its directory, a snapshot before the segments that follow it.
    """

    files: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.files:
            if not _FILE.fullmatch(name):
                raise NotFoundError(f"{name[:80]!r} is no file of a state that holds inputs")


@dataclass(frozen=True, slots=True)
class StoredInputs:
    """What is kept of a group instance.

    Parameters
    ----------
    layout : str
        Where its shards are.
    assignment : Assignment
        What has processed the inputs.
    shards : tuple of StoredShard
        In order.
    """

    layout: str
    assignment: Assignment
    shards: tuple[StoredShard, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "layout": self.layout,
            "assignment": self.assignment.to_dict(),
            "shards": [list(one.files) for one in self.shards],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StoredInputs:
        """Rebuild it from `to_dict`; NotFoundError where a name is that of no such file."""
        shards = tuple(StoredShard(tuple(map(str, files))) for files in data["shards"])
        return cls(str(data["layout"]), Assignment.from_dict(data["assignment"]), shards)


def stored_inputs(location: Place, instance: str) -> StoredInputs:
    """Return what is kept of the inputs of a group instance.

    Parameters
    ----------
    location : Place
        Below which the states of all instances are.
    instance : str
        Its name.

    Raises
    ------
    NotFoundError
        It has no state yet.
    StateError
        The state cannot be read.
    """
    layout = current_layout(state_directory(location, instance))
    assignment = kept_assignment(layout.directory)
    if assignment is None or layout.stores[0].last() is None:
        raise NotFoundError(
            f"nothing is kept of what {instance} was given",
            hint="a group keeps it from its first batch on",
        )
    return StoredInputs(layout.name, assignment, tuple(StoredShard(tuple(_files(store))) for store in layout.stores))


def _files(store: StateStore) -> Iterator[str]:
    """Yield the files from which the oldest state is loaded that is kept whole, and all that followed."""
    segments = store.numbers("segment")
    if not segments:
        return
    if (base := store.base(segments[-1])) is not None:
        yield from (f"{base.base}/{name}" for name in _files(StateStore(store.directory / base.base)))
        first = base.number
    else:
        there = set(segments)
        # A snapshot is of use with the segment behind it, or where nothing has followed
        snapshots = [n for n in store.numbers("snapshot") if n == segments[-1] or n + 1 in there]
        if segments[0] > 1 and not snapshots:
            raise StateError(f"the state in {store.directory} has lost its snapshots", hint="restore a revision")
        # Where the log begins it is empty, or begins with a snapshot: of what was laid out anew.
        start = 0 if segments[0] == 1 and 1 not in snapshots else snapshots[0]
        if start:
            yield f"snapshot-{start:012d}"
        # The segment of the snapshot itself says where the state is, where nothing has followed.
        first = min(start + 1, segments[-1])
    yield from (f"segment-{number:012d}" for number in segments if number >= first)


def read_files(location: Place, instance: str, layout: str, shard: int, names: Sequence[str], most: int) -> list[bytes]:
    """Return the contents of the first of some files of a shard: as many as have `most` bytes together, at least one.

    Raises
    ------
    NotFoundError
        A name is that of no such file, or one is gone: the state has gone on, begin again with `stored_inputs`.
    StateError
        One is larger than 64 MiB, or cannot be read.
    """
    now: ShardLayout = current_layout(state_directory(location, instance))
    StoredShard(tuple(names))
    if now.name != layout or not 0 <= shard < now.count:
        raise NotFoundError(f"the state of {instance} was laid out anew", hint="ask again")
    directory = now.stores[shard].directory
    found: list[bytes] = []
    left = most
    for name in names:
        try:
            content = _content(directory / name)
        except FileNotFoundError:
            raise NotFoundError(f"the state of {instance} has gone on: {name} is gone", hint="ask again") from None
        except OSError as error:
            raise StateError(f"the state of {instance} cannot be read: {error}") from error
        left -= len(content)
        if left < 0 and found:
            break
        found.append(content)
    return found


def _content(path: Place) -> bytes:
    size = path.stat().st_size if isinstance(path, Path) else 0  # a bucket tells it only with the object
    content = path.read_bytes() if size <= _LARGEST else b""
    if max(size, len(content)) > _LARGEST:
        raise StateError(
            f"{path.name} has {max(size, len(content)):,} bytes, more than {_LARGEST:,}",
            hint="a state of that size is not sent over the network",
        )
    return content


def stored(directory: Path, files: dict[str, bytes]) -> tuple[bytes, list[Segment]]:
    """Return the snapshot and the segments in the files of a shard, which are put into an empty directory for that.

    Raises
    ------
    StateError
        One is damaged or missing.
    """
    for name in StoredShard(tuple(files)).files:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    store = StateStore(directory)
    last = store.last()
    if last is None:
        return b"", []
    snapshot, segments = store.load(last.number)
    return snapshot, list(segments)
