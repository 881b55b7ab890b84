"""The totals of a query whose window releases batches: all of a key begin anew at a time, so its groups are a list."""

from __future__ import annotations

from spdist.program.expressions import FLAG, NUMBER
from spdist.program.parts import indent
from spdist.program.queries.group_text import GroupWriter

__all__ = ["BatchGroups"]


class BatchGroups(GroupWriter):
    """Writes what happens to the totals of a query that begin anew; see `GroupWriter`."""

    def newest(self, count: str, node: str) -> list[str]:
        """Return what notes the newest event of each group of a batch; see `joins`, which is part of it.

        For each place among the results of the chunk: `node`, of the event, and the number of the group.
        """
        place, prefix, room = "0", self.prefix, f"chunk {self.query.name}"
        joins = [f"{count} = 1"]
        if self.grouped:
            where = self.arrays.declare(f"{prefix}_where", NUMBER, self.room)
            joins = [*self.joins([f"{where}[{self.number}] = {count}", f"{count} += 1"])]
            joins.append(f"s = {where}[{self.number}]")
            place = "s"
        nodes, groups = (self.arrays.declare(f"{prefix}_{name}", NUMBER, room) for name in ("newest", "of"))
        return [*joins, f"{nodes}[{place}] = {node}", f"{groups}[{place}] = {self.number}"]

    def joins(self, new: list[str] | None = None) -> list[str]:
        """Return what puts the event's group into the list of those that have totals; `new` is done where it is not."""
        if not (self.aggregated and self.grouped):
            return []
        prefix, group, key = self.prefix, self.number, self.key
        self.arrays.declare(f"{prefix}_known", FLAG, self.room)
        self.arrays.declare(f"{prefix}_others", NUMBER, self.room, "-1")
        self.arrays.declare(f"{prefix}_groups", NUMBER, self.query.instances, "-1")
        return [
            f"if {prefix}_known[{group}] == 0:",
            f"    {prefix}_known[{group}] = 1",
            f"    {prefix}_others[{group}] = {prefix}_groups[{key}]",
            f"    {prefix}_groups[{key}] = {group}",
            *indent(new or []),
        ]

    def anew(self, group: str) -> list[str]:
        """Return what lets the totals of a group begin anew."""
        lines = self.first(group)
        for _, aggregate in self.found:
            lines += [aggregate.filled(line, group) for line in aggregate.form.reset]
        return lines

    def sweeps(self) -> list[str]:
        """Return what takes the groups of a key off the list of which nothing is left: perhaps none begins anew."""
        prefix, key = self.prefix, self.key
        self.arrays.declare(f"{prefix}_late", NUMBER, self.room)
        self.forgetting = f"{prefix}_known[gone] == 0"
        return [
            f"gone, {prefix}_groups[{key}] = {prefix}_groups[{key}], -1",
            "while gone >= 0:",
            # Read before the group joins another list, whose link it is then.
            f"    m = {prefix}_others[gone]",
            f"    if {' and '.join(self.fresh('gone'))}:",
            f"        {prefix}_known[gone] = 0",
            f"        {prefix}_late[late] = gone",
            "        late += 1",
            "    else:",
            f"        {prefix}_others[gone] = {prefix}_groups[{key}]",
            f"        {prefix}_groups[{key}] = gone",
            "    gone = m",
        ]

    def resets(self) -> list[str]:
        """Return what lets all totals of a key begin anew; what becomes of the groups is seen when the chunk is over.

        A group keeps its number until then, since results are known by it.
        """
        if not self.aggregated:
            return []
        anew = self.anew("gone" if self.grouped else self.key)
        if not self.grouped:
            return anew
        prefix, key = self.prefix, self.key
        self.arrays.declare(f"{prefix}_late", NUMBER, self.room)
        self.forgetting = f"{prefix}_known[gone] == 0"
        return [
            f"gone = {prefix}_groups[{key}]",
            f"{prefix}_groups[{key}] = -1",
            "while gone >= 0:",
            *indent(anew),
            f"    {prefix}_known[gone] = 0",
            f"    {prefix}_late[late] = gone",
            "    late += 1",
            f"    gone = {prefix}_others[gone]",
        ]
