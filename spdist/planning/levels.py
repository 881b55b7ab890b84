"""In which order groups hear of each other: revisions of an app are taken against it, and restored along it."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.planning.topology import Assignment

__all__ = ["levels"]


def levels(assignments: Sequence[Assignment]) -> list[list[str]]:
    """Return the names of an app's instances in levels: each after all levels of those whose streams it reads.

    Groups that feed each other in a circle, which live apps may have, are of one level.
    """
    of_instance = {one.name: one.group for one in assignments}
    producers: dict[str, set[str]] = {one.group: set() for one in assignments}
    for one in assignments:
        named = {name.rpartition("/")[0] or name for read in one.inputs for name in read.producers}
        producers[one.group] |= {of_instance[name] for name in named if name in of_instance}
    # Who reads of a group, directly or not, has more behind itself than that group, unless they are in a circle.
    behind = {group: len(_reached(group, producers)) for group in producers}
    return [[one.name for one in assignments if behind[one.group] == number] for number in sorted(set(behind.values()))]


def _reached(group: str, producers: dict[str, set[str]]) -> set[str]:
    """Return a group and all whose events come to it."""
    found, left = {group}, [group]
    while left:
        new = producers[left.pop()] - found
        found |= new
        left += new
    return found
