"""Where the partial matches of a pattern stand in a program: nodes of a pool, in lists.

Those that have arrived at an element since an event was last offered to it are in one list, those that wait there in
another one; where an event must share a value with them, they are in the list of that value as well.
"""

from __future__ import annotations

from spdist.program.expressions import FLAG, NUMBER
from spdist.program.parts import indent
from spdist.program.patterns.nodes import PatternNodes, when

__all__ = ["PatternLists"]


class PatternLists(PatternNodes):
    """Writes what brings the partial match of node ``d`` from one list into another one.

    Parameters
    ----------
    whole, query, at, opened
        As for `PatternNodes`.
    """

    # Nodes.

    def begins(self, time: str) -> list[str]:
        """Return what makes a partial match without an event; `time` is the timestamp of the latest one."""
        prefix, lines = self._prefix, [f"d = allot({self._prefix}_free, {self._prefix}_next)"]
        if not self._pattern.shares:
            return lines
        lines += [f"{prefix}_{name}[d] = 0" for name in ("refs", "bits", "expired")]
        lines.append(f"{prefix}_ts[d] = {time}")
        for n, step in enumerate(self._pattern.steps):
            if step.counted:
                lines.append(f"{self.counted(n)} = 0")
        for place in range(len(self._pattern.types)):
            if self._pattern.may_lack(self._pattern.step_of(place)) and self.wanted(place):
                # A node is used again: what no event has filled yet must be null.
                lines.append(f"{self.kept_arrays(place)[1]}[d] = 1")
        return lines

    def goes(self) -> list[str]:
        """Return what lets a partial match leave where it has waited, which is gone when it waits nowhere."""
        gone = f"give_back({self._prefix}_free, {self._prefix}_next, d)"
        if not self._pattern.shares:
            return [gone]
        return [f"{self._prefix}_refs[d] -= 1", f"if {self._prefix}_refs[d] == 0:", f"    {gone}"]

    def comes(self, n: int) -> list[str]:
        """Return what notes that an element has its event: others that the match waits at let it go later."""
        if not self._pattern.shares:
            return []
        steps = self._pattern.steps
        lines = [f"{self._prefix}_bits[d] |= {1 << steps[n].slot}"]
        for before, step in enumerate(() if self._pattern.strict else steps):
            counts = step.counted and 0 < steps[n].slot - step.slot <= 2
            if counts or (step.lingers and before == steps[n].partner):
                over = [f"{self._collects(before)} = 2", f"append({self._over(before)}, {self._at}, d)"]
                lines += when([f"{self._collects(before)} == 1"], over)
        return lines

    def lets_go(self, n: int) -> list[str]:
        """Return what takes those out of the lists of an element that have gone on."""
        first = self._over(n).partition(",")[0]
        inside = [*self.leaves(n), *self.goes(), f"d = {first}[{self._at}]"]
        return [f"d = {first}[{self._at}]", "while d >= 0:", *indent(inside)]

    def _collects(self, n: int) -> str:
        """Return source of whether a partial match is at an element: 0, 1, or 2 where it has gone on."""
        return f"{self._whole.arrays.declare(f'{self._prefix}_in{n}', NUMBER, self.nodes)}[d]"

    def _over(self, n: int) -> str:
        """Return the list of those at an element that have gone on: its ends and links."""
        declare, prefix = self._whole.arrays.declare, self._prefix
        ends = [declare(f"{prefix}_over{n}_{name}", NUMBER, self._query.instances, "-1") for name in ("first", "last")]
        links = [declare(f"{prefix}_over{n}_{name}", NUMBER, self.nodes, "-1") for name in ("before", "next")]
        return ", ".join([*ends, *links])

    # Lists.

    def links(self, n: int) -> tuple[str, str]:
        """Return the links of the lists of an element; where no match waits at several, they have the same."""
        number = n if self._pattern.shares else ""
        before, following = (
            self._whole.arrays.declare(f"{self._prefix}_{name}{number}", NUMBER, self.nodes, "-1")
            for name in ("before", "next")
        )
        return before, following

    def _chain(self, n: int) -> str:
        return ", ".join(self.links(n))

    def arrives(self, n: int) -> list[str]:
        """Return what lets a partial match arrive at an element; where nothing need come, it goes on as well."""
        step = self._pattern.steps[n]
        if step.partner is not None:
            return [*self._arrives(n), *self._arrives(step.partner)]
        return [*self._arrives(n), *([] if step.least else self.arrives(n + 1))]

    def _arrives(self, n: int) -> list[str]:
        (first, last), prefix, step = self.arrived(n), self._prefix, self._pattern.steps[n]
        waits = self.waits_from(n, f"{prefix}_ts[d]") if n in self.timers else []
        if not self._pattern.shares:
            return [*waits, f"insert_by_time({first}, {last}, {self._chain(n)}, {prefix}_ts, {self._at}, d)"]
        lines = [*waits, f"append({first}, {last}, {self._chain(n)}, {self._at}, d)", f"{prefix}_refs[d] += 1"]
        return [*lines, *([f"{self._collects(n)} = 1"] if step.lingers else [])]

    def waits_from(self, n: int, time: str) -> list[str]:
        """Return what lets a wait of an absence begin at a time: a wake-up is asked for when it is over."""
        deadline = self.deadline(n)
        return [f"{deadline} = {time} + {self._pattern.steps[n].waiting}", self.timers[n].asks(deadline)]

    def deadline(self, n: int) -> str:
        """Return source of when the wait of an absence that began last is over."""
        name = self._whole.arrays.declare(f"{self._prefix}_until{n}", NUMBER, self._query.instances)
        return f"{name}[{self._at}]"

    def mixed(self, n: int) -> str:
        """Return source of whether those who wait for an absence are not in the order of their times."""
        name = self._whole.arrays.declare(f"{self._prefix}_mixed{n}", FLAG, self._query.instances)
        return f"{name}[{self._at}]"

    def arrived(self, n: int) -> tuple[str, str]:
        """Return the ends of the lists of those who have arrived at an element."""
        declare, instances = self._whole.arrays.declare, self._query.instances
        first, last = (declare(f"{self._prefix}_{end}{n}", NUMBER, instances, "-1") for end in ("new", "newest"))
        return first, last

    def order(self, n: int) -> tuple[str, str]:
        """Return the ends of the lists of those who wait at an element, in the order in which they are too old."""
        declare, instances = self._whole.arrays.declare, self._query.instances
        first, last = (declare(f"{self._prefix}_{end}{n}", NUMBER, instances, "-1") for end in ("head", "tail"))
        return first, last

    def ends(self, n: int) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return the ends of the lists in which an event looks, by the number of the key, and their links."""
        declare, prefix, step = self._whole.arrays.declare, self._prefix, self._pattern.steps[n]
        room = self._query.instances if step.key is None else self.nodes
        if step.bound is not None:
            declare(f"{prefix}_e{n}", self._edge_type(n), room, self.nobody(n))
        if step.key is None:
            return self.order(n), self.links(n)
        number = n if self._pattern.shares else ""
        names = (f"x{n}_head", f"x{n}_tail", f"left{number}", f"right{number}")
        first, last, left, right = (declare(f"{prefix}_{name}", NUMBER, room, "-1") for name in names)
        return (first, last), (left, right)

    def joins(self, n: int) -> list[str]:
        """Return what lets those who have arrived at an element wait there."""
        (first, last), (head, tail) = self.arrived(n), self.order(n)
        following, prefix, at = self._whole.name(), self._prefix, self._at
        lines = [f"append({head}, {tail}, {self._chain(n)}, {at}, d)"]
        if n in self.timers and not self._pattern.shares:
            (times, begun), end = (f"{prefix}_ts", f"{prefix}_first"), f"{tail}[{at}]"
            lines = [
                f"if {end} < 0:",
                f"    {self.mixed(n)} = 0",
                f"elif {times}[d] < {times}[{end}] or {begun}[d] < {begun}[{end}]:",
                f"    {self.mixed(n)} = 1",
                *lines,
            ]
        if self._pattern.steps[n].key is None:
            lines += self.easier(n, f"{prefix}_e{n}[{at}]")
        else:
            lines += self._indexed(n)
        # What waits at several elements may have had an event since it arrived.
        shared = self._pattern.shares
        return [
            *([f"order_by_time({first}, {last}, {self._chain(n)}, {prefix}_ts, {at})"] if shared else []),
            f"d = {first}[{at}]",
            "while d >= 0:",
            *indent([f"{following} = {self.links(n)[1]}[d]", *lines, f"d = {following}"]),
            f"{first}[{at}] = {last}[{at}] = -1",
        ]

    def _indexed(self, n: int) -> list[str]:
        """Return what lets a partial match be found by its key; one that is null is never found."""
        step, number, prefix = self._pattern.steps[n], self._whole.name(), self._prefix
        assert step.key is not None
        (head, tail), (left, right) = self.ends(n)
        earlier, edge = self.kept(step.key.earlier), f"{prefix}_e{n}[{number}]"
        fresh = [f"if {head}[{number}] < 0:", f"    {edge} = {self.nobody(n)}"] if step.bound is not None else []
        found = [
            *self.word(earlier),
            # The number is kept, so that who leaves need not be looked for by its key.
            f"{number} = find({self.index(n, new=True)})",
            f"{self._number(n)} = {number}",
            *fresh,
            f"append({head}, {tail}, {left}, {right}, {number}, d)",
            *self.easier(n, edge),
        ]
        return [f"{self._number(n)} = -1", *when([f"not ({earlier.null})"], found)]

    def _number(self, n: int) -> str:
        """Return source of the number of the key by which a partial match is found at an element."""
        number = n if self._pattern.shares else ""
        return f"{self._whole.arrays.declare(f'{self._prefix}_of{number}', NUMBER, self.nodes, '-1')}[d]"

    def unlinked(self, n: int, number: str) -> list[str]:
        """Return what takes a partial match out of the lists of those who wait; `number` is that of its key."""
        head, tail = self.order(n)
        lines = [f"unlink({head}, {tail}, {self._chain(n)}, {self._at}, d)"]
        if self._pattern.steps[n].key is not None:
            (begin, end), (left, right) = self.ends(n)
            lines.append(f"unlink({begin}, {end}, {left}, {right}, {number}, d)")
        return lines

    def leaves(self, n: int) -> list[str]:
        """Return what takes a partial match out of the lists of those who wait, and forgets its key with the last."""
        number = self._number(n)
        first, *lines = self.unlinked(n, number)
        if self._pattern.steps[n].key is not None:
            (begin, _), _ = self.ends(n)
            found = [lines[0], f"if {begin}[{number}] < 0:", f"    {self.released(n, number)}"]
            lines = when([f"{number} >= 0"], found)
        return [first, *lines, *self.uncollected(n)]

    def uncollected(self, n: int) -> list[str]:
        """Return what lets a partial match no longer be at an element."""
        if not self._pattern.steps[n].lingers:
            return []
        unlinked = f"unlink({self._over(n)}, {self._at}, d)"
        return [f"if {self._collects(n)} == 2:", f"    {unlinked}", f"{self._collects(n)} = 0"]

    def drops(self, n: int, now: str) -> list[str]:
        """Return what drops those at an element who are too old: of those who wait, until the first one who is not."""
        at, (first, last), (head, _), following = self._at, self.arrived(n), self.order(n), self._whole.name()
        too_old, fell = self.too_old(now), self._whole.name()
        again: list[str] = []
        if self._pattern.begins_anew(n):
            again = [f"{fell} = {self._prefix}_ts[d]"] if self._pattern.shares else [f"{self._opened} = 1"]
        if self._pattern.shares:
            expired = f"{self._prefix}_expired[d]"
            again = [f"if {expired} == 0:", *indent([f"{expired} = 1", *again])]
        arrived = [f"unlink({first}, {last}, {self._chain(n)}, {at}, d)", *self.uncollected(n), *again, *self.goes()]
        lines = [
            f"d = {head}[{at}]",
            f"while d >= 0 and {too_old}:",
            *indent([*self.leaves(n), *again, *self.goes(), f"d = {head}[{at}]"]),
            f"d = {first}[{at}]",
            "while d >= 0:",
            *indent([f"{following} = {self.links(n)[1]}[d]", *when([too_old], arrived), f"d = {following}"]),
        ]
        if self._pattern.shares and self._pattern.begins_anew(n):
            joins = [line for start in self._pattern.starts for line in self.joins(start)]
            anew = [*self.begins(fell), *self.arrives(0), *joins]
            lines = [f"{fell} = -2", *lines, *when([f"{fell} != -2"], anew)]
        return lines

    def drops_all(self, now: str) -> list[str]:
        """Return what drops those at any element who are too old."""
        return [line for n in self._pattern.listed for line in self.drops(n, now)]
