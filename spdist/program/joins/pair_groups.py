"""The totals of a join: pairs come and leave one by one, and all begin anew where a side releases a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.program.expressions import FLAG, NUMBER, Value
from spdist.program.joins.shape import Joined
from spdist.program.parts import indent
from spdist.program.queries.batch_groups import BatchGroups

__all__ = ["PairGroups"]


class PairGroups(BatchGroups):
    """Writes what happens to the totals of a join; see `BatchGroups`.

    Notes
    -----
    Where totals begin anew, the groups that have any are a list for each key of the partition, from ``q_groups`` to
    ``q_groups_end``; a group is taken out when it is forgotten, since those that nothing is left of may be so before.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if self.grouped and self.aggregated:
            assert self.table  # declared also where no pair is ever found

    @property
    def _listed(self) -> bool:
        read = self.query.read
        return self.aggregated and self.grouped and isinstance(read, Joined) and read.resets

    @property
    def _list(self) -> str:
        """Names of the arrays of the list."""
        prefix, keys = self.prefix, self.query.instances
        ends = (self.arrays.declare(f"{prefix}_groups{part}", NUMBER, keys, "-1") for part in ("", "_end"))
        links = (self.arrays.declare(f"{prefix}_{name}", NUMBER, self.room, "-1") for name in ("earlier", "others"))
        return ", ".join((*ends, *links))

    @property
    def _known(self) -> str:
        """The array that says which groups are in the list."""
        return self.arrays.declare(f"{self.prefix}_known", FLAG, self.room)

    def finds(self, read: Callable[[int], Value]) -> list[str]:
        """Return what finds the number of a pair's group, which is one of those that have totals then."""
        if not self._listed:
            return super().finds(read)
        known = f"{self._known}[{self.number}]"
        joins = [f"if {known} == 0:", f"    {known} = 1", f"    append({self._list}, {self.key}, {self.number})"]
        return [*super().finds(read), *joins]

    def resets(self) -> list[str]:
        """Return what lets all totals of a key begin anew."""
        if not self._listed:
            return super().resets()
        prefix, key = self.prefix, self.key
        groups, waits = f"{prefix}_groups[{key}]", self.arrays.declare(f"{prefix}_waits", FLAG, self.room)
        late = self.arrays.declare(f"{prefix}_late", NUMBER, self.room)
        self.forgetting = " and ".join(self.fresh("gone"))
        return [
            f"gone = {groups}",
            f"{groups}, {prefix}_groups_end[{key}] = -1, -1",
            "while gone >= 0:",
            *indent(self.anew("gone")),
            f"    {self._known}[gone] = 0",
            # Its last pair may have left before, so that it waits already.
            f"    if {waits}[gone] == 0:",
            f"        {waits}[gone] = 1",
            f"        {late}[late] = gone",
            "        late += 1",
            f"    gone = {prefix}_others[gone]",
        ]

    def goes(self, group: str) -> list[str]:
        """Return what is done with a group that is forgotten."""
        if not self._listed:
            return []
        known = f"{self._known}[{group}]"
        return [f"if {known} != 0:", f"    {known} = 0", f"    unlink({self._list}, {self._key_of(group)}, {group})"]

    def _key_of(self, group: str) -> str:
        """Return source of the number of the partition's key of a group: the first word of its own key."""
        return "0" if self.query.keyed is None else f"{self.prefix}_k_keys[{group} * {self.width}]"
