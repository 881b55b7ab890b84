"""Stored state: a snapshot and the log of inputs after it, and the fence that lets only one owner append to that log.

A directory per group instance holds three kinds of files, each written whole and never changed:

- ``segment-<n>``: what batch *n* is made from: the records as they arrived, the tick, and where reading goes on.
- ``snapshot-<n>``: the state after segment *n*. Two are kept; segments that only older ones need are deleted.
- ``cut-<n>``: how far the shard had published after segment *n*, for revisions (`spdist.engine.island.cuts`); the
  newest only.

Each is sealed (`spdist.operators.core.codec.seal`): it tells its format, and no byte of it can change unnoticed. A
segment also tells which assignment processed it: none is ever replayed through another one, be it of another text or
with other inputs (`spdist.engine.shards.layout`).

The log of an instance's first shard may end in a *move*: a segment that names where the state is now, in another number
of shards (`spdist.engine.shards.layout`). Nobody can append after it.

An operator may go back to a revision (`spdist.runtime.persistence`). That is an opening segment, too: *n* names a
directory ``base-<n>-…`` next to it with the files of the earlier state, from which the state begins anew.

**The append is the fence.** Segment *n* is created under its final name, which fails where the name exists: by a hard
link on file systems, by a conditional put in object stores (`spdist.engine.shards.places`).
An owner that finds *n* taken has been replaced and must stop: it cannot have put anything out for *n* yet, because a
segment is durable before the outputs of its batch leave. A new owner takes over by appending an *opening* segment
without records: after that every append of the owner before it fails. This needs no clock and no lock service, only a
place that all owners see (a local disk, NFS, a bucket).

``emitted`` in a segment says up to which segment all outputs are known to have been published when it was written. What
lies between was published in part or not: whoever loads the state puts it out again, with the same ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import chain
from typing import Any
from urllib.parse import quote

from spdist.engine.island.cuts import Cut
from spdist.engine.shards.copies import Copies
from spdist.engine.shards.places import (
    ObjectPlace,
    Place,
    create_file,
    names_in,
    place_of,
    remove_tree,
    replace_file,
    tags_in,
)
from spdist.errors import FencedError, StateError
from spdist.operators.core.codec import seal, unseal
from spdist.transports.base import Record
from spdist.transports.payloads.payload import arrow_bytes, to_batch, unpacked
from spdist.transports.retracted import Undone

__all__ = [
    "Positions",
    "Segment",
    "StateStore",
    "file_name",
    "later",
    "numbers_of",
    "state_directory",
    "unsealed",
]

#: Topic → partition → offset at which reading goes on.
Positions = dict[str, dict[int, int]]

_FORMAT = 2
_SNAPSHOTS_KEPT = 2
_NAME = re.compile(r"(segment|snapshot|cut)-(\d{12})")
_BASE = re.compile(r"base-(\d{12})-[0-9a-f]{32}")
#: How often a new owner tries to take over from one that keeps appending.
_OPENING_ATTEMPTS = 1000
#: How often the newest cut is looked for again where it has gone meanwhile.
_LOOKS = 100
#: How many segments are read from a bucket at a time, and are in memory before they are processed.
_AT_A_TIME, _READ_AHEAD = 16, 64


def state_directory(location: str | os.PathLike[str] | Place, instance: str) -> Place:
    """Return the directory of group instance `instance` below `location`, whatever characters its name has."""
    return place_of(location) / quote(instance, safe=" ")


@dataclass(frozen=True, slots=True)
class Segment:
    """What one batch is made from.

    Parameters
    ----------
    number : int
        From 1, without gaps.
    owner : str
        Who wrote it; a name that no other start of the group ever has.
    emitted : int
        All outputs of the segments up to this number had been published.
    tick : int
        The time of the batch, ms.
    positions : Positions
        Where reading goes on after it.
    records : tuple of Record
        As they arrived, repeats included.
    opening : bool
        True where it only marks that `owner` has taken over.
    base : str
        Name of the directory with the state to go on from; empty where the state is that after the segment before.
    batch : int
        Number of the batch since its owner began, -1 for an opening. A batch that brings nothing may have no segment.
    moved : str
        Name of the layout where the state is from now on; empty where it is here.
    assignment : str
        What processes it, see `spdist.engine.shards.layout.assignment_hash`.
    closing : bool
        Whether after it all events are processed that wait for their turn: what goes on does not read their topic.
    undone : tuple of Undone
        Of an opening that goes back: what the producers that went back with it had put out since.
    """

    number: int
    owner: str
    emitted: int
    tick: int
    positions: Positions
    records: tuple[Record, ...] = field(default=())
    opening: bool = False
    base: str = ""
    batch: int = -1
    moved: str = ""
    assignment: str = ""
    closing: bool = False
    undone: tuple[Undone, ...] = ()

    def marker(self, owner: str, **changes: Any) -> Segment:
        """Return the opening with which `owner` follows on this segment; but for `changes` the state stays as it is."""
        opening = Segment(self.number + 1, owner, self.emitted, self.tick, self.positions, opening=True)
        return replace(opening, **{"assignment": self.assignment, **changes})


#: What the header of a segment's file says of it, in addition to its number.
_HEADER = tuple(one.name for one in fields(Segment) if one.name not in ("number", "records", "undone"))


class StateStore:
    """The files of one group instance.

    Parameters
    ----------
    directory : path or Place
        Made when the first file is written.
    copies : Copies, optional
        Where files of a bucket may be that were fetched before.
    """

    def __init__(self, directory: str | os.PathLike[str] | Place, copies: Copies | None = None) -> None:
        self.directory = place_of(directory)
        self._copies = copies

    # ------------------------------------------------------------------------------------------------ taking over
    def open(self, owner: str, first: Positions | None = None, assignment: str | None = None) -> Segment:
        """Take the state over for `owner`, who must be new, and return the opening segment.

        It begins at `first` in partitions that it does not know yet, and where it is not that far. `assignment` is what
        processes the segments that follow; by default what has processed those before.

        Raises
        ------
        FencedError
            Others keep taking over faster, or the state is somewhere else now.
        StateError
            The directory cannot be read or written.
        """
        for _ in range(_OPENING_ATTEMPTS):
            last = self.last()
            if last is not None and last.moved:
                raise self._fenced(owner)
            before = last or Segment(0, owner, 0, 0, {})
            opening = before.marker(owner, positions=later(before.positions, first or {}))
            if assignment is not None:
                opening = replace(opening, assignment=assignment)
            with contextlib.suppress(FencedError):  # the number was taken meanwhile: look again
                self.append(opening)
                return opening
        raise FencedError(f"the state in {self.directory} is being taken over by others again and again")

    def give_up(self, owner: str) -> bool:
        """See to it that `owner` appends nothing any more; False where another owner has taken over already.

        Who took over later keeps the state: an owner that ends late must not fence off its successor.
        """
        for _ in range(_OPENING_ATTEMPTS):
            if (last := self.last()) is None or last.owner != owner or last.moved:
                return False
            with contextlib.suppress(FencedError):
                self.append(last.marker(f"{owner}/ended"))
                return True
        raise FencedError(f"the state in {self.directory} changes faster than {owner} can give it up")

    def check_owner(self, owner: str) -> None:
        """Raise FencedError where the state has gone on without `owner`."""
        if (last := self.last()) is None or last.owner != owner:
            raise self._fenced(owner)

    def append(self, segment: Segment) -> Segment:
        """Make `segment` durable, and return what counts as it: itself, or what the same owner had written before.

        Raises
        ------
        FencedError
            Another owner wrote a segment of that number: it has taken over, stop.
        """
        header = {name: getattr(segment, name) for name in _HEADER}
        if segment.undone:
            header["undone"] = [astuple(one) for one in segment.undone]
        if self._write("segment", segment.number, header, _pack(segment.records)):
            # A number may be free again because the segment that had it was deleted, long after we were replaced.
            # Then a kept snapshot stands for it, since segments are deleted only below those.
            if self._newest_snapshot() >= segment.number:
                self.path("segment", segment.number).unlink(missing_ok=True)
                raise self._fenced(segment.owner)
            return segment
        found = self.segment(segment.number)
        if found.owner != segment.owner:
            raise self._fenced(segment.owner)
        return found

    def identity(self) -> str:
        """Return a name of this log of inputs that no other one has; databases remember by it what they have applied.

        A directory that is made anew, after the instance was removed, has another one.
        """
        path = self.directory / "identity"
        try:
            if not path.exists():
                create_file(path, uuid.uuid4().hex.encode())
            return path.read_bytes().decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise StateError(f"the state in {self.directory} has no identity: {error}") from error

    # ---------------------------------------------------------------------------------------------------- reading
    def numbers(self, kind: str) -> list[int]:
        """Return the numbers of all files of a kind (``segment`` or ``snapshot``), lowest first."""
        return numbers_of(kind, self._tags())

    def last(self, names: Iterable[str] | None = None) -> Segment | None:
        """Return the newest segment, or None where there is none; among `names` where the directory was just listed."""
        numbers = numbers_of("segment", self._tags() if names is None else names)
        return self.segment(numbers[-1]) if numbers else None

    def segment(self, number: int, tag: str = "") -> Segment:
        """Return segment `number`, of which there may be a copy; raises StateError where it is missing or damaged."""
        header, body = self._read("segment", number, tag)
        header["positions"] = {
            topic: {int(partition): offset for partition, offset in offsets.items()}
            for topic, offsets in header["positions"].items()
        }
        return Segment(
            number,
            records=tuple(unpacked(body)) if body else (),
            undone=tuple(Undone(*one) for one in header.get("undone", ())),
            **{name: header[name] for name in _HEADER},
        )

    def newest(self, owner: str, before_batch: int) -> Segment:
        """Return the newest segment that `owner` wrote before it came to batch `before_batch`: at least its opening.

        Raises
        ------
        FencedError
            The state has gone on without `owner`.
        """
        last = self.last()
        while last is not None and last.owner == owner:
            if last.batch < before_batch:
                return last
            last = self.segment(last.number - 1)
        raise self._fenced(owner)

    def load(self, up_to: int) -> tuple[bytes, Iterator[Segment]]:
        """Return the newest readable snapshot (empty where the state begins empty) and the segments from it to `up_to`.

        Parameters
        ----------
        up_to : int
            The segment before the one that the caller is to append.

        Raises
        ------
        FencedError
            The state has gone on without the caller.
        StateError
            No snapshot can be read, or a segment is missing.
        """
        tags = self._tags()
        if max(numbers_of("snapshot", tags), default=0) > up_to:  # by who has appended behind it
            raise self._fenced(f"the owner at version {up_to}")
        if (base := self.base(up_to, tags)) is not None:
            earlier = StateStore(self.directory / base.base)
            body, segments = earlier.load(max(earlier.numbers("segment")))
            # From the opening itself on: its replay notes where the numbers went back to
            return body, chain(segments, self._between(base.number - 1, up_to, tags))
        damage: StateError | None = None
        for number in reversed(numbers_of("snapshot", tags)):
            try:
                _, body = self._read("snapshot", number, tags[file_name("snapshot", number)])
            except StateError as error:
                damage = error
                continue
            return body, self._between(number, up_to, tags)
        oldest = min(numbers_of("segment", tags), default=0)
        if damage is not None and oldest != 1:  # with all segments no snapshot is needed
            raise damage
        return b"", self._between(0, up_to, tags)

    def base(self, up_to: int, names: Iterable[str] | None = None) -> Segment | None:
        """Return the newest segment up to `up_to` that went back to an earlier state, if no snapshot is newer."""
        known = {*(self._tags() if names is None else names)}
        snapshot = max(numbers_of("snapshot", known), default=0)
        for name, number in sorted(_bases(known), reverse=True):
            if snapshot < number <= up_to and file_name("segment", number) in known:
                segment = self.segment(number)
                if segment.base == name:  # else somebody tried to go back and was too late
                    return segment
        return None

    # -------------------------------------------------------------------------------------------------- snapshots
    def save_snapshot(self, number: int, state: bytes) -> None:
        """Store the state after segment `number`, and delete what no kept snapshot needs.

        The outputs of that segment must have been published: nothing could put them out again from this snapshot.
        """
        self._write("snapshot", number, {}, state)
        kept = self.numbers("snapshot")[-_SNAPSHOTS_KEPT:]
        if len(kept) < _SNAPSHOTS_KEPT:
            return
        # A snapshot goes before the segments behind it, so a crash never leaves one that nothing can go on from
        for kind, limit in (("snapshot", kept[0] - 1), ("segment", kept[0]), ("cut", kept[0] - 1)):
            for old in self.numbers(kind):
                if old <= limit:
                    self.path(kind, old).unlink(missing_ok=True)
        for name, number in _bases(names_in(self.directory)):
            if number <= kept[0]:
                remove_tree(self.directory / name)

    def leave(self, number: int) -> None:
        """Delete all but segment `number`, the last one: the state is somewhere else, but the fence must stay."""
        self._write("snapshot", number, {}, b"")  # what stands for the segments that are deleted
        for kind in ("snapshot", "segment", "cut"):
            for old in self.numbers(kind):
                if old < number:
                    self.path(kind, old).unlink(missing_ok=True)
        for name, _ in _bases(names_in(self.directory)):
            remove_tree(self.directory / name)

    def save_cut(self, number: int, cut: Cut) -> None:
        """Store how far the shard has published after segment `number`, in the place of how far after the one before.

        It need not survive the machine's power: whoever loads the state stores it anew.
        """
        content = json.dumps({"number": number, **cut.to_dict()}).encode() + b"\n"
        try:
            replace_file(self.path("cut", number), seal("cut", _FORMAT, content), durable=False)
            self.path("cut", number - 1).unlink(missing_ok=True)  # behind the new one: at any time one is there
        except OSError as error:
            raise StateError(f"the state in {self.directory} cannot be written: {error}") from error

    def newest_cut(self, looks: int = _LOOKS) -> tuple[int, Cut] | None:
        """Return the newest segment of which it is known how far the shard had published after it, and that.

        None where it is not known of what the state goes on from, as before its first batch. Where batches that end
        meanwhile put other cuts in the place of the newest it looks again, `looks` times at most.
        """
        numbers = self.numbers("cut")
        # Of before the shard went back, or of before a snapshot: a state is taken from there on.
        if not numbers or numbers[-1] < self._newest_snapshot() or not self.path("segment", numbers[-1]).exists():
            return None
        if (base := self.base(max(self.numbers("segment")))) is not None and base.number > numbers[-1]:
            return None
        try:
            header, _ = self._read("cut", numbers[-1])
        except StateError:
            if looks <= 0 or self.numbers("cut")[-1:] == numbers[-1:]:
                raise
            return self.newest_cut(looks - 1)
        return numbers[-1], Cut.from_dict(header)

    def path(self, kind: str, number: int) -> Place:
        """Return the file of segment, snapshot or cut `number`."""
        return self.directory / file_name(kind, number)

    def _between(self, after: int, up_to: int, tags: Mapping[str, str]) -> Iterator[Segment]:
        def read(number: int) -> Segment:
            try:
                return self.segment(number, tags.get(file_name("segment", number), ""))
            except StateError:
                if self._newest_snapshot() > up_to:  # another owner has just deleted it
                    raise self._fenced(f"the owner at version {up_to}") from None
                raise

        numbers = range(after + 1, up_to + 1)
        return _ahead(read, numbers) if isinstance(self.directory, ObjectPlace) else map(read, numbers)

    def _tags(self) -> dict[str, str]:
        """Return what is in the directory, see `tags_in`."""
        try:
            return tags_in(self.directory)
        except OSError as error:
            raise StateError(f"the state in {self.directory} cannot be read: {error}") from error

    def _newest_snapshot(self) -> int:
        return max(self.numbers("snapshot"), default=0)

    def _fenced(self, owner: str) -> FencedError:
        last = self.last()
        return FencedError(
            f"the state in {self.directory} belongs to {last.owner if last else 'nobody'} now, not to {owner}",
            hint="the group runs elsewhere; this copy must stop",
        )

    def _write(self, kind: str, number: int, header: dict[str, Any], body: bytes) -> bool:
        """Write a file durably under a name that is free; False where it is taken."""
        head = json.dumps({"number": number} | header).encode() + b"\n"
        try:
            return create_file(self.path(kind, number), seal(kind, _FORMAT, head, body))
        except OSError as error:
            raise StateError(
                f"the state in {self.directory} cannot be written: {error}",
                hint="it must be a bucket, or on a file system with space left that has hard links",
            ) from error

    def _read(self, kind: str, number: int, tag: str = "") -> tuple[dict[str, Any], bytes]:
        path = self.path(kind, number)
        copy = None if self._copies is None else self._copies.read(path, tag)
        if copy is not None:
            with contextlib.suppress(StateError):  # then the file itself counts
                return unsealed(kind, number, copy, path)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise StateError(f"{path} is missing", hint="restore the newest revision of this group") from error
        except OSError as error:
            raise StateError(f"{path} cannot be read: {error}") from error
        return unsealed(kind, number, content, path)


def _ahead(read: Callable[[int], Segment], numbers: range) -> Iterator[Segment]:
    """Yield segments of a bucket, several of which are read at a time: each takes the time of an answer."""
    with ThreadPoolExecutor(_AT_A_TIME, "spdist-segments") as pool:
        for at in range(0, len(numbers), _READ_AHEAD):
            yield from pool.map(read, numbers[at : at + _READ_AHEAD])


def numbers_of(kind: str, names: Iterable[str]) -> list[int]:
    """Return the numbers of the files of a kind (``segment`` or ``snapshot``) among `names`, lowest first."""
    return sorted(int(m[2]) for name in names if (m := _NAME.fullmatch(name)) and m[1] == kind)


def unsealed(kind: str, number: int, content: bytes, path: Place) -> tuple[dict[str, Any], bytes]:
    """Return header and body of what a file holds; raises StateError where it is damaged or has another number."""
    head, _, body = unseal(kind, _FORMAT, content, str(path)).partition(b"\n")
    header: dict[str, Any] = json.loads(head)
    if header["number"] != number:
        raise StateError(f"{path} was renamed", hint="restore the newest revision of this group")
    return header, body


def file_name(kind: str, number: int) -> str:
    """Return what file `number` of a kind is called."""
    return f"{kind}-{number:012d}"


def _bases(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, int(m[1])) for name in names if (m := _BASE.fullmatch(name))]


def later(left: Positions, right: Positions) -> Positions:
    """Return the later position in each partition."""
    found = {topic: dict(offsets) for topic, offsets in left.items()}
    for topic, offsets in right.items():
        known = found.setdefault(topic, {})
        for partition, offset in offsets.items():
            known[partition] = max(offset, known.get(partition, offset))
    return found


def _pack(records: tuple[Record, ...]) -> bytes:
    return arrow_bytes(to_batch(records)) if records else b""
