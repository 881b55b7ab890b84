"""The files of a revision: taken from the state of a group instance while it runs, and put back in its place.

An instance has one state, or one for each shard; each is taken at a moment of its own, as shards hear nothing of each
other. What of a state is taken ends at the newest segment of which it is known how far its shard had published after
it (`spdist.engine.island.cuts`): with that, readers that go back too tell what the revision stands by from what came
later.

A revision has the assignment that made it, too. One of another text, of another number of shards, or from before either
was changed, is put back as it is; the next start of the group goes on from it with what that text has processed, and
lays it out as it is to be. What was published since then is published again under other ids.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from spdist.engine.island.cuts import Cut, together
from spdist.engine.shards.layout import (
    ASSIGNMENT,
    ShardLayout,
    assignment_hash,
    begin_layout,
    current_layout,
    keep_assignment,
    kept_assignment,
    move_to,
)
from spdist.engine.shards.places import Place, copy_file, create_file, remove_tree
from spdist.engine.shards.state import Segment, StateStore, state_directory
from spdist.errors import FencedError, StateError
from spdist.planning.topology import Assignment, shard_names
from spdist.transports.base import Transport
from spdist.transports.retracted import Undone

__all__ = ["WentBack", "delete_revision", "is_kept", "is_revision", "millis_of", "put_back", "take"]

MANIFEST = "manifest.json"

_NAME = re.compile(r"\d{1,15}__[^/\\]{1,200}")
_FORMAT = 2
#: How often a revision is begun again because the running group has just deleted what was to be taken.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class WentBack:
    """From where on it is undone what an instance had published that went back.

    Parameters
    ----------
    cuts : mapping of str to Cut
        How far its producers had published at the revision, those that it has now included; empty where that is not
        known.
    topics : frozenset of str
        To which it publishes, at the revision or now.
    """

    cuts: Mapping[str, Cut]
    topics: frozenset[str]

    def undone(self, topics: Transport) -> tuple[Undone, ...]:
        """Return what readers are to pass over that go back, too; call it while the instance does not run.

        Raises
        ------
        TransportError
            No server answers.
        """
        ends = {name: topics.end_offsets(name) for name in sorted(self.topics) if topics.partitions(name)}
        return tuple(
            Undone(topic, partition, producer, end, cut.number(topic, partition), cut.clock)
            for topic, offsets in ends.items()
            for partition, end in sorted(offsets.items())
            for producer, cut in self.cuts.items()
            if end  # else nothing was ever published there
        )


def is_revision(name: str) -> bool:
    """Tell whether a revision may be called so: ``<millis>__<app>``."""
    return _NAME.fullmatch(name) is not None


def is_kept(revision: Place) -> bool:
    """Tell whether a revision is there, whole."""
    return (revision / MANIFEST).exists()


def delete_revision(revision: Place) -> None:
    """Delete the files of a revision; from the first moment on it is none.

    Raises
    ------
    OSError
        It cannot be deleted.
    """
    (revision / MANIFEST).unlink(missing_ok=True)
    remove_tree(revision, whole=True)


def millis_of(revision: str) -> int:
    """Return when a revision was taken, ms since epoch."""
    return int(revision.partition("__")[0])


def take(location: Place, instance: str, revision: str, target: Place) -> None:
    """Make `target` a directory with everything that the present state of `instance` is loaded from.

    Parameters
    ----------
    location : path
        Below which the states of all instances are.
    instance, revision : str
        What is taken, and its name.
    target : path or Place
        Where; files are linked on the same file system, and copied elsewhere.

    Raises
    ------
    StateError
        There is no state yet, or files cannot be written.
    """
    whole = state_directory(location, instance)
    problem: BaseException | None = None
    for _ in range(_ATTEMPTS):
        # Of what lies in a bucket, nothing counts before the manifest does; a directory gets its name when it is whole.
        temporary = target.parent / f".{uuid.uuid4().hex}.tmp" if isinstance(target, Path) else target
        try:
            temporary.mkdir(parents=True)
            layout = current_layout(whole)
            shards = [PurePosixPath(place).name if layout.count > 1 else "." for place in layout.places]
            taken = [
                (shard, _take(store, temporary / shard)) for shard, store in zip(shards, layout.stores, strict=True)
            ]
            manifest = {
                "format": _FORMAT,
                "instance": instance,
                "revision": revision,
                "segment": taken[0][1].number,
                "positions": taken[0][1].positions,
                "shards": shards,
                "layout": layout.name,
            }
            copy_file(layout.directory / ASSIGNMENT, temporary / ASSIGNMENT)
            create_file(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
            if isinstance(temporary, Path) and isinstance(target, Path):
                temporary.rename(target)
        except BaseException as error:
            remove_tree(temporary)
            if _is_missing(error):  # the group took snapshots and deleted what came before them
                problem = error
                continue
            if not isinstance(error, OSError):
                raise
            raise StateError(
                f"revision {revision} of {instance} cannot be written: {error}",
                hint=f"{location} needs space, and must be a bucket or on a file system with hard links",
            ) from error
        return
    if isinstance(problem, StateError):  # each time: it is not there, and says so itself
        raise problem
    raise StateError(f"the state of {instance} changes too fast to keep it", hint="try again")


def _is_missing(error: BaseException) -> bool:
    """Tell whether a file is missing, be it one that was to be linked or one that was read."""
    return isinstance(error.__cause__ if isinstance(error, StateError) else error, FileNotFoundError)


def put_back(location: Place, instance: str, source: Place, undone: Sequence[Undone] = ()) -> WentBack:
    """Let `instance` go back to the revision in the directory `source`; a group that runs is fenced.

    Parameters
    ----------
    location : path
        Below which the states of all instances are.
    instance : str
        What goes back.
    source : path
        Where the revision is.
    undone : sequence of Undone
        What it is to pass over, of producers that went back before.

    Returns
    -------
    WentBack
        From where on what it had published is undone.

    Raises
    ------
    StateError
        The revision is damaged, or of another instance or version.
    """
    shards, name = _check_manifest(source, instance)
    made_by = kept_assignment(source)
    if made_by is None:
        raise StateError(f"{source} is damaged: it does not say which app has made it", hint="restore another revision")
    whole = state_directory(location, instance)
    now = current_layout(whole, len(shards))
    # A state that begins here goes on under the ids that the revision knows.
    begins = now.stores[0].last() is None
    same_place = begins or (now.name, now.count) == (name, len(shards))
    went_back = _went_back(now, source, shards, made_by)
    read = {one.topic for by in (made_by, kept_assignment(now.directory)) if by is not None for one in by.inputs}
    undone = [one for one in undone if one.topic in read]
    if same_place and assignment_hash(keep_assignment(now, made_by)) == assignment_hash(made_by):
        _put_back_into(now, source, shards, instance, undone)
        return went_back
    layout = begin_layout(now, len(shards), made_by, back=True)
    _put_back_into(layout, source, shards, instance, undone)
    while True:
        last = now.stores[0].last()
        assert last is not None  # states do not become less
        try:
            move_to(layout, now, last, layout.name)
        except FencedError:  # the running group was faster
            # Mostly it has only appended a segment. Where it was moved nothing can follow on `now` any more
            if current_layout(whole) != now:
                raise
        else:
            return went_back


def _went_back(now: ShardLayout, source: Place, shards: list[str], made_by: Assignment) -> WentBack:
    """Return from where on is undone what the shards have published, those of the revision and those of now."""
    cuts = [found[1] for shard in shards if (found := StateStore(source / shard).newest_cut()) is not None]
    if len(cuts) < len(shards):  # of an older version: nobody can tell
        return WentBack({}, frozenset())
    # Shards under other names number above all that those before them had put out.
    names = dict.fromkeys(shard_names(made_by.name, now.count), together(cuts))
    names |= dict(zip(shard_names(made_by.name, len(shards)), cuts, strict=True))
    runs = kept_assignment(now.directory) or made_by
    published = {publishing.topic for one in (made_by, runs) for put in one.outputs for publishing in put.publishing}
    return WentBack(names, frozenset(published))


def _put_back_into(
    layout: ShardLayout, source: Place, shards: list[str], instance: str, undone: Sequence[Undone]
) -> None:
    for shard, store in zip(shards, layout.stores, strict=True):
        _put_back(store, source / shard, instance, undone)


def _put_back(store: StateStore, source: Place, instance: str, undone: Sequence[Undone]) -> None:
    stored = StateStore(source)
    earlier, cut = stored.last(), stored.newest_cut()
    if earlier is None:
        raise StateError(f"the revision of {instance} is damaged: it has no segment")
    while True:
        last = store.last()
        if last is not None and last.moved:
            raise StateError(f"the state of {instance} has just been moved", hint="try again")
        number = last.number + 1 if last else 1
        base = store.directory / f"base-{number:012d}-{uuid.uuid4().hex}"
        base.mkdir(parents=True)
        _take(StateStore(source), base)
        # Positions and time of the revision, under the next number of the log that is there
        mark = replace(earlier, number=number - 1).marker(base.name, base=base.name, undone=tuple(undone))
        try:
            store.append(mark)
        except FencedError:  # the running group was faster; try with the next number
            remove_tree(base)
            continue
        # Behind the append: only from there on does the state go on from the revision
        if cut is not None:
            store.save_cut(number, cut[1])
        return


def _take(store: StateStore, target: Place) -> Segment:
    """Link everything into `target` that the newest state is loaded from; return its last segment."""
    last, cut = store.last(), store.newest_cut()
    if last is None:
        raise StateError(f"there is no state in {store.directory} yet", hint="wait until the group has run a batch")
    target.mkdir(exist_ok=True)
    files: list[Place] = []
    if cut is not None:
        last = store.segment(cut[0])
        files.append(store.path("cut", cut[0]))
    if (base := store.base(last.number)) is not None:
        _take(StateStore(store.directory / base.base), target / base.base)
        first = base.number
    else:
        snapshot = max((n for n in store.numbers("snapshot") if n <= last.number), default=0)
        files += [store.path("snapshot", snapshot)] if snapshot else []
        first = snapshot + 1
    # A snapshot may stand for the last segment; that one is needed all the same: it knows where reading goes on.
    files += [store.path("segment", number) for number in range(min(first, last.number), last.number + 1)]
    for file in files:
        copy_file(file, target / file.name)
    return last


def _check_manifest(revision: Place, instance: str) -> tuple[list[str], str]:
    """Return where in a revision the states of the shards are, and the name of the layout they had."""
    try:
        manifest = json.loads((revision / MANIFEST).read_bytes())
        known = manifest["format"] == _FORMAT and manifest["instance"] == instance
        shards = manifest.get("shards", ["."])
        places = ["."] if len(shards) == 1 else [f"shard-{n + 1}-of-{len(shards)}" for n in range(len(shards))]
        known = known and sorted(shards) == sorted(places)
        layout = str(manifest.get("layout", "."))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{revision} is damaged: {error}", hint="restore another revision") from error
    if not known or not shards:
        raise StateError(f"{revision} is of another group or was made by another version of spdist")
    return places, layout
