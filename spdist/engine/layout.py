"""In how many shards the state of a group instance is, and the one step that lays it out anew.

The first layout is the directory of the instance, or a directory in it for each of its shards. Every other one is a
directory in it of its own, which nobody looks at while it is filled. It becomes the instance's layout when a segment
that names it is appended to the log of the first shard of the layout before: the *move*. That append is the fence, too.
An owner of the old layout can append nothing after it, and where somebody has taken the old layout over meanwhile, the
move itself is refused. So a crash leaves the one layout or the other, whole.

Who takes a layout over opens its shards in their order, and then looks whether the first one is still its own. Of two
that do so at once only one goes on.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from spdist.engine.state import Positions, Segment, StateStore, sync_directory
from spdist.errors import FencedError, StateError

__all__ = ["Layout", "begin_layout", "current_layout", "move_to", "open_layout"]

_NAME = re.compile(r"(layout|back)-(\d{6})-of-(\d{1,6})-[0-9a-f]{32}")
_SHARD = re.compile(r"shard-(\d{1,6})-of-(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the states of the shards of an instance are.

    Parameters
    ----------
    whole : Path
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

    whole: Path
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
    def stores(self) -> list[StateStore]:
        """The states of the shards, in order."""
        return [StateStore(self.whole / place) for place in self.places]


def current_layout(whole: Path, count: int = 1) -> Layout:
    """Return where the state of an instance is now; where there is none yet, where it is to begin.

    Parameters
    ----------
    whole : Path
        The directory of the instance.
    count : int
        Number of shards of a state that is not there yet.
    """
    return _chain(whole, count)[-1]


def open_layout(layout: Layout, owner: str, first: Positions | None = None) -> list[Segment]:
    """Take all shards of a layout over for `owner`, who must be new, and return their opening segments.

    For `first` see `StateStore.open`.

    Raises
    ------
    FencedError
        Somebody else takes over at the same time, or the state was just moved.
    """
    stores = layout.stores
    openings = [store.open(owner, first) for store in stores]
    if layout.count > 1 and ((last := stores[0].last()) is None or last.owner != owner):
        raise FencedError(
            f"the state in {layout.whole} belongs to {last.owner if last else 'nobody'} now, not to {owner}",
            hint="the group was started twice at the same time; this copy must stop",
        )
    return openings


def begin_layout(before: Layout, count: int, back: bool = False) -> Layout:
    """Return a layout to fill, which may follow on `before`, and nobody else's; see `Layout`."""
    number = before.number + 1
    name = f"{'back' if back else 'layout'}-{number:06d}-of-{count}-{uuid.uuid4().hex}"
    (before.whole / name).mkdir(parents=True)
    return _named(before.whole, name)


def move_to(layout: Layout, before: Layout, last: Segment, owner: str) -> None:
    """Make a layout whose states are complete the one that counts.

    Parameters
    ----------
    layout, before : Layout
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
    sync_directory(layout.whole / layout.name)
    sync_directory(layout.whole)
    stores = before.stores
    mark = Segment(last.number + 1, owner, last.number, last.tick, last.positions, opening=True, moved=layout.name)
    if stores[0].append(mark).moved != layout.name:
        raise FencedError(f"the state in {layout.whole} was moved by somebody else")
    for store in stores[1:]:
        # Whoever still runs one of these ends at once, and not when it notices that the first shard has moved.
        store.open(f"{owner}/moved")
    _tidy(layout.whole)


def _tidy(whole: Path) -> None:
    """Delete what old layouts hold, their fences apart, and layouts that never came to count."""
    *left, now = _chain(whole, 1)
    for one in left:
        for store in one.stores:
            if (last := store.last()) is not None:
                store.leave(last.number)
    kept = {one.name for one in left} | {now.name}
    for name in os.listdir(whole):
        found = _NAME.fullmatch(name)
        if found and int(found[2]) <= now.number and name not in kept:
            shutil.rmtree(whole / name, ignore_errors=True)


def _chain(whole: Path, count: int) -> list[Layout]:
    """Return all layouts that ever counted, in order."""
    chain = [_first(whole, count)]
    while (last := chain[-1].stores[0].last()) is not None and last.moved:
        chain.append(_named(whole, last.moved))
    return chain


def _first(whole: Path, count: int) -> Layout:
    names = os.listdir(whole) if whole.exists() else []
    split = {int(found[2]) for name in names if (found := _SHARD.fullmatch(name))}
    known = split | ({1} if any(name.startswith("segment-") for name in names) else set())
    if len(known) > 1:
        raise StateError(
            f"there are states of {' and of '.join(map(str, sorted(known)))} shards in {whole}",
            hint="move away the one that is not to be used",
        )
    return Layout(whole, ".", known.pop() if known else count)


def _named(whole: Path, name: str) -> Layout:
    found = _NAME.fullmatch(name)
    if found is None:
        raise StateError(f"the state in {whole} is said to be in {name!r}, which is no name of a layout")
    return Layout(whole, name, int(found[3]), int(found[2]), found[1] == "back")
