"""In how many shards the state of a group instance is, and the one step that lays it out anew.

The first layout is the directory of the instance, or a directory in it for each of its shards. Every other one is a
directory in it of its own, which nobody looks at while it is filled. It becomes the instance's layout when a segment
that names it is appended to the log of the first shard of the layout before: the *move*. That append is the fence, too.
An owner of the old layout can append nothing after it, and where somebody has taken the old layout over meanwhile, the
move itself is refused. So a crash leaves the one layout or the other, whole.

Who takes a layout over opens its shards in their order, and then looks whether the first one is still its own. Of two
that do so at the same time only one goes on.

A layout belongs to one *assignment*: a text, and what it reads and publishes where. That is kept in a file of the
layout that never changes and is there before the first segment. Whoever takes over for another assignment brings the
state to one point with the one that is kept, and lays out anew what the other one goes on from.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from spdist.engine.shards.places import Place, create_file, names_in, remove_tree, sync_directory
from spdist.engine.shards.state import Positions, Segment, StateStore
from spdist.errors import FencedError, StateError
from spdist.operators.core.codec import seal, unseal
from spdist.planning.topology import Assignment

__all__ = [
    "ASSIGNMENT",
    "ShardLayout",
    "assignment_hash",
    "begin_layout",
    "current_layout",
    "current_state",
    "keep_assignment",
    "kept_assignment",
    "layouts",
    "move_to",
    "open_layout",
    "write_assignment",
]

#: The file of a layout with its assignment.
ASSIGNMENT = "assignment"
_KIND, _FORMAT = "assignment", 1

_NAME = re.compile(r"(layout|back)-(\d{6})-of-(\d{1,6})-[0-9a-f]{32}")
_SHARD = re.compile(r"shard-(\d{1,6})-of-(\d{1,6})")


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """Where the states of the shards of an instance are.

    Parameters
    ----------
    whole : Place
        The directory of the instance.
    name : str
        Of the layout's directory there; ``.`` of the first layout.
    count : int
        Number of shards, at least 1.
    number : int
        How many layouts were before it.
    back : bool
        Whether an operator has gone back to it: its shards may number what they put out as later ones have done.
    """

    whole: Place
    name: str
    count: int
    number: int = 0
    back: bool = False

    @property
    def places(self) -> list[str]:
        """Directories of the shards below that of the instance."""
        if self.count == 1:
            return [self.name]
        shards = [f"shard-{index + 1}-of-{self.count}" for index in range(self.count)]
        return shards if self.name == "." else [f"{self.name}/{shard}" for shard in shards]

    @property
    def directory(self) -> Place:
        """Where it is."""
        return self.whole / self.name

    @property
    def stores(self) -> list[StateStore]:
        """The states of the shards, in order."""
        return [StateStore(self.whole / place) for place in self.places]


def current_layout(whole: Place, count: int = 1) -> ShardLayout:
    """Return where the state of an instance is now; where there is none yet, where it is to begin.

    Parameters
    ----------
    whole : Place
        The directory of the instance.
    count : int
        Number of shards of a state that is not there yet.
    """
    return current_state(whole, count)[0]


def current_state(whole: Place, count: int = 1) -> tuple[ShardLayout, Segment | None]:
    """Return the same, and the newest segment of its first shard; None where there is none."""
    chain, last = _chain(whole, count)
    return chain[-1], last


def assignment_hash(assignment: Assignment) -> str:
    """Return a short text that only assignments share whose state is one: the same text, with the same topics.

    In how many shards, and what is found at the brokers of users' topics, does not matter.
    """
    planned = assignment.to_dict()
    planned["inputs"] = [one for one in planned["inputs"] if not one["into"]]
    for name in ("shards", "creates_topics"):
        del planned[name]
    text = json.dumps(planned, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def keep_assignment(layout: ShardLayout, assignment: Assignment) -> Assignment:
    """Return the assignment of a layout: the one that is kept, else `assignment`, which is kept from now on.

    Raises
    ------
    StateError
        It cannot be read or written, or there is a state without it.
    """
    known = kept_assignment(layout.directory)
    if known is not None:
        return known
    if layout.stores[0].last() is not None:
        raise StateError(
            f"the state in {layout.directory} does not say which app has made it: its file '{ASSIGNMENT}' is missing",
            hint="restore a revision of this group",
        )
    write_assignment(layout.directory, assignment)
    # Somebody else may have written it first: what is there counts
    return kept_assignment(layout.directory) or assignment


def write_assignment(directory: Place, assignment: Assignment) -> None:
    """Keep an assignment in a directory, unless one is kept there; raises StateError where it cannot be written."""
    content = json.dumps(assignment.to_dict()).encode()
    try:
        create_file(directory / ASSIGNMENT, seal(_KIND, _FORMAT, content))
    except OSError as error:
        raise StateError(f"the state in {directory} cannot be written: {error}") from error


def kept_assignment(directory: Place) -> Assignment | None:
    """Return the assignment of the layout in `directory`; None where none is kept there.

    Raises
    ------
    StateError
        It is damaged, or of another format.
    """
    path = directory / ASSIGNMENT
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error}") from error
    return Assignment.from_dict(json.loads(unseal(_KIND, _FORMAT, content, str(path))))


def open_layout(
    layout: ShardLayout, owner: str, first: Positions | None = None, assignment: str | None = None
) -> list[Segment]:
    """Take all shards of a layout over for `owner`, who must be new, and return their opening segments.

    For `first` and `assignment` see `StateStore.open`.

    Raises
    ------
    FencedError
        Somebody else takes over at the same time, or the state was just moved.
    """
    stores = layout.stores
    openings = [store.open(owner, first, assignment) for store in stores]
    if layout.count > 1 and ((last := stores[0].last()) is None or last.owner != owner):
        raise FencedError(
            f"the state in {layout.whole} belongs to {last.owner if last else 'nobody'} now, not to {owner}",
            hint="the group was started twice at the same time; this copy must stop",
        )
    return openings


def begin_layout(before: ShardLayout, count: int, assignment: Assignment, back: bool = False) -> ShardLayout:
    """Return a layout to fill for `assignment`, which may follow on `before`, and nobody else's; see `ShardLayout`."""
    number = before.number + 1
    name = f"{'back' if back else 'layout'}-{number:06d}-of-{count}-{uuid.uuid4().hex}"
    (before.whole / name).mkdir(parents=True)
    layout = _named(before.whole, name)
    keep_assignment(layout, assignment)
    return layout


def move_to(layout: ShardLayout, before: ShardLayout, last: Segment, owner: str) -> None:
    """Make a layout whose states are complete the one that counts.

    Parameters
    ----------
    layout, before : ShardLayout
        The new one and that which counts now.
    last : Segment
        The newest segment of the first shard of `before`.
    owner : str
        Who does this.

    Raises
    ------
    FencedError
        That is its newest segment no more; nothing was changed.
    """
    # The move must not survive a power failure that its target does not survive
    sync_directory(layout.whole / layout.name)
    sync_directory(layout.whole)
    stores = before.stores
    # All outputs of a layout that moves have been published: whoever follows on it repeats none
    mark = last.marker(owner, emitted=last.number, moved=layout.name)
    if stores[0].append(mark).moved != layout.name:
        raise FencedError(f"the state in {layout.whole} was moved by somebody else")
    for store in stores[1:]:
        # Whoever still runs one of these ends immediately, and not when it notices that the first shard has moved.
        store.open(f"{owner}/moved")
    _tidy(layout.whole)


def _tidy(whole: Place) -> None:
    """Delete what old layouts hold, their fences apart, and layouts that never came to count."""
    *left, now = layouts(whole)
    for one in left:
        for store in one.stores:
            if (last := store.last()) is not None:
                store.leave(last.number)
    kept = {one.name for one in left} | {now.name}
    for name in names_in(whole):
        found = _NAME.fullmatch(name)
        # A higher number is being filled by somebody who moves right now
        if found and int(found[2]) <= now.number and name not in kept:
            remove_tree(whole / name)


def layouts(whole: Place) -> list[ShardLayout]:
    """Return all layouts of an instance that ever counted, in order; the states of the last one alone are whole."""
    return _chain(whole, 1)[0]


def _chain(whole: Place, count: int) -> tuple[list[ShardLayout], Segment | None]:
    """Return all layouts that ever counted, in order, and the newest segment of the first shard of the last one."""
    names = names_in(whole)
    chain = [_first(whole, names, count)]
    last = chain[0].stores[0].last(names if chain[0].count == 1 else None)
    while last is not None and last.moved:
        chain.append(_named(whole, last.moved))
        last = chain[-1].stores[0].last()
    return chain, last


def _first(whole: Place, names: Iterable[str], count: int) -> ShardLayout:
    split = {int(found[2]) for name in names if (found := _SHARD.fullmatch(name))}
    known = split | ({1} if any(name.startswith("segment-") for name in names) else set())
    if len(known) > 1:
        raise StateError(
            f"there are states of {' and of '.join(map(str, sorted(known)))} shards in {whole}",
            hint="move away the one that is not to be used",
        )
    return ShardLayout(whole, ".", known.pop() if known else count)


def _named(whole: Place, name: str) -> ShardLayout:
    found = _NAME.fullmatch(name)
    if found is None:
        raise StateError(f"the state in {whole} is said to be in {name!r}, which is no name of a layout")
    return ShardLayout(whole, name, int(found[3]), int(found[2]), found[1] == "back")
