"""Windows of a program that have one event of each key, the ``unique:`` ones.

For `UniqueKeys` a key has a number, and under it ``q_node``, the node of its event: -1 where none has come, `gone`
where it has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.language.types import Type
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.key_text import key_word
from spdist.program.parts import Event, indent
from spdist.program.shape import Unique
from spdist.program.timer_text import NEVER
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.external import ExternalBatchWriter
from spdist.program.windows.period_text import PeriodWriter
from spdist.program.windows.text import WindowWriter
from spdist.program.windows.unique_keys import UniqueKeys

__all__ = [
    "ListWriter",
    "UniqueBatchText",
    "UniqueBatchWriter",
    "UniqueExternalWriter",
    "UniqueLengthWriter",
    "UniquePeriodWriter",
    "UniqueTimeWriter",
    "UniqueWriter",
]


class UniqueWriter(WindowWriter):
    """Writes what happens in a window that keeps one event of each key for ever; see `WindowWriter`."""

    @property
    def _unique(self) -> Unique:
        assert self.window.unique is not None
        return self.window.unique

    @property
    def _keys(self) -> UniqueKeys:
        return UniqueKeys(self.whole, self.query, self._unique, self.key)

    @property
    def _room(self) -> str:
        return self._keys.room

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event enter, and the one before leave, or drops the new one."""
        keys, prefix = self._keys, self.prefix
        head = f"{prefix}_head[{keys.number}]"
        before = [f"d = {head}", "if d >= 0:", *indent(self._left(leaving))]
        if self._unique.first:
            if not (self.query.is_found or self.query.notes_looks):  # else somebody may ask for them
                self.query.kept = []
            before = [f"if {head} >= 0:", "    continue"]
        return [
            *keys.finds(self.asked())[0],
            *before,
            *(keys.listed(head) if self.query.is_found else []),
            *self._holds(read, timestamp),
            f"{head}, {prefix}_next[d] = d, -1",
            f"{prefix}_head_end[{keys.number}], {prefix}_head_size[{keys.number}] = d, 1",
        ]

    def remembers(self) -> list[str]:
        """Return what notes the group of the event that has entered; those that never leave need none."""
        return [] if self._unique.first else super().remembers()


class ListWriter(UniqueWriter):
    """Writes a window whose events are one list, in the order in which they came.

    Notes
    -----
    An event may have to leave before its own result, so all that leaves does so when the new event's group is known.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # Operators look for an event among those held by its row, which must tell it from those of other keys
        self.query.kept = sorted({*self.query.kept, *self._unique.places})
        self._leaving: list[str] = []
        self.timestamp = ""
        self._old = self.whole.name()
        self._links = f"{self.prefix}_head, {self.prefix}_head_end, {self.prefix}_before, {self.prefix}_next"

    @property
    def _room(self) -> str:
        return self.query.instances

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what finds the event of the same key, and makes a node of the new one."""
        self.whole.arrays.declare(f"{self.prefix}_before", NUMBER, self._nodes, "-1")
        self._leaving, self.timestamp = leaving, timestamp
        keys = self._keys
        return [
            *keys.finds(self.asked())[0],
            *self._holds(read, timestamp),
            f"{self._old} = {keys.node}[{keys.number}]",
            f"{keys.node}[{keys.number}], {keys.place}[d] = d, {keys.number}",
        ]

    def _appends(self, node: str) -> list[str]:
        return [f"append({self._links}, {self.key}, {node})", f"{self.prefix}_head_size[{self.key}] += 1"]

    def _unlinks(self, node: str) -> list[str]:
        return [f"unlink({self._links}, {self.key}, {node})", f"{self.prefix}_head_size[{self.key}] -= 1"]


def gone(node: str) -> str:
    """Return source of what stands for the node of an event that has left, and of the node that this stands for."""
    return f"-2 - {node}"


class UniqueTimeWriter(ListWriter):
    """Writes what happens in a window ``unique:time``; see `WindowWriter`.

    Notes
    -----
    The latest event of a key has a node as long as no other comes: one that is equal to it leaves in its place, even
    where it has left before. So all attributes are kept.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        types = self.query.read.types
        if Type.OBJECT in types:
            raise NotTyped("the window unique:time of objects", self.query.read.checked.query.span)
        self.query.kept = sorted({*self.query.kept, *range(len(types))})

    def changes(self) -> list[str]:
        """Return what lets the new event into the list, and others leave, once its group is known."""
        old, prefix = self._old, self.prefix
        return [
            *self._appends("d"),
            *self._asks(self.timestamp),
            f"low = {prefix}_head[{self.key}] if {old} == -1 else -1",
            # What is too old is looked for behind the event that is replaced, and not at all where that had left.
            f"if {old} >= 0:",
            f"    d, low = {old}, {prefix}_next[{old}]",
            *indent([*self._unlinks("d"), *self._left(self._leaving)]),
            f"elif {old} < -1:",
            f"    {old} = {gone(old)}",
            # A free node has its values until it is allotted again, so they can still be compared
            *indent(self._frees(old)),
            f"    if {self._are_equal('d', old)}:",
            *indent(indent(self._expired())),
            *self._expires("low"),
        ]

    def _are_equal(self, left: str, right: str) -> str:
        """Return the condition under which the events of two nodes are equal, as Java has it."""
        tests = [f"{self.prefix}_ts[{left}] == {self.prefix}_ts[{right}]"]
        for place in range(len(self.query.read.types)):
            one, other = self.kept_at(place, left), self.kept_at(place, right)
            tests.append(f"({one.null}) == ({other.null}) and ({one.null} or {key_word(one)} == {key_word(other)})")
        return " and ".join(tests)

    def _expired(self) -> list[str]:
        """Return what lets the event of node ``d`` leave without another one in its place."""
        keys = self._keys
        return [
            *self._unlinks("d"),
            f"{keys.node}[{keys.place}[d]] = {gone('d')}",
            *self._off(self._leaving),
        ]

    def _expires(self, first: str) -> list[str]:
        """Return what lets the events leave that are too old, up to one that is not, the node `first` before others."""
        prefix = self.prefix
        return [
            f"while {first} >= 0 and {prefix}_ts[{first}] <= now - {self.window.span}:",
            f"    d = {first}",
            *indent(self._expired()),
            f"    {first} = {prefix}_head[{self.key}]",
        ]

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return what lets the events leave whose time is over."""
        self._leaving = leaving
        return [f"low = {self.prefix}_head[{self.key}]", *self._expires("low")]


class UniqueLengthWriter(ListWriter):
    """Writes what happens in a window ``unique:length``; see `WindowWriter`, and the operator for its odd ways.

    Notes
    -----
    Of each key of a partition: ``q_number``, that of the event that came last, ``q_passed``, that of the event behind
    which one of the same key is looked for, ``q_torn``, and ``q_count``, how many keys there are. ``q_held`` is the
    number of a node among those held, or 0. The latest event of a key has a node as long as no other comes, since it
    leaves then, also where it has left before.
    """

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return "left_at"

    def changes(self) -> list[str]:
        """Return what lets the new event into the list, and others leave, once its group is known."""
        arrays, prefix, key, old = self.whole.arrays, self.prefix, self.key, self._old
        number, passed, torn, count = (
            f"{arrays.declare(f'{prefix}_{name}', NUMBER, self.query.instances)}[{key}]"
            for name in ("number", "passed", "torn", "count")
        )
        held = arrays.declare(f"{prefix}_held", NUMBER, self._nodes)
        fresh, stays = self.whole.name(), self.whole.name()
        head, tail = f"{prefix}_head[{key}]", f"{prefix}_head_end[{key}]"
        holds = [
            f"if {head} < 0:",
            f"    {torn} = 0",
            f"{number} += 1",
            f"if {torn} == 0:",
            f"    {held}[{fresh}] = {number}",
            *indent(self._appends(fresh)),
        ]
        return [
            f"{fresh}, left_at, {held}[d] = d, now, 0",
            "d = -1",
            f"if {old} >= 0:",
            f"    d = {old}",
            f"    if {passed} >= 0 and {held}[d] > {passed}:",
            # Siddhi's list tears where the newest of several events is replaced: what comes next is not held
            f"        if d == {tail} and d != {head}:",
            f"            {torn} = 1",
            f"        {held}[d] = 0",
            *indent(indent(self._unlinks("d"))),
            # The search goes on where it ended: the next one begins behind all that are held
            f"    if {passed} >= 0 and {tail} >= 0 and {held}[{tail}] > {passed}:",
            f"        {passed} = {held}[{tail}]",
            *indent(holds),
            "else:",
            f"    {count} += 1",
            f"    if {count} <= {self.window.length}:",
            *indent(indent(holds)),
            f"    elif {head} >= 0:",
            f"        d = {head}",
            f"        if {held}[d] == {passed}:",
            f"            {passed} = -1",
            f"        {held}[d] = 0",
            *indent(indent([*self._unlinks("d"), *holds])),
            "    else:",
            # There are too many keys, but none is held to leave: the new event does, with its own timestamp
            f"        d, left_at = {fresh}, {self.timestamp}",
            "if d >= 0:",
            *indent(self._goes(stays)),
        ]

    def _goes(self, stays: str) -> list[str]:
        """Return what is done for an event that leaves; its node stays where it is held, or is its key's latest one."""
        prefix, keys, groups = self.prefix, self._keys, self.groups
        # One that stays will leave once more, so its group must not lose it now
        counts = f"{prefix}_members[{prefix}_g[d]] += {stays}"
        goes = [
            *([counts] if groups.grouped and groups.aggregated else []),
            *groups.leaves(self.kept, f"{prefix}_ts[d]", f"{prefix}_g[d]", self._leaving),
        ]
        return [
            f"{stays} = 1 if {prefix}_held[d] > 0 or {keys.node}[{keys.place}[d]] == d else 0",
            *groups.passes(self.kept, goes),
            f"if {stays} == 0:",
            f"    {prefix}_next[d] = {prefix}_free[0]",
            f"    {prefix}_free[0] = d",
        ]


class UniqueBatchText(BatchWriter):
    """Writes what a window does that releases batches of one event of each key; see `BatchWriter`."""

    def _declare(self) -> None:
        super()._declare()
        assert self.window.unique is not None
        self._unique = self.window.unique
        self._keys = UniqueKeys(self.whole, self.query, self._unique, self.key)

    def _holds(self, event: Event, where: str) -> list[str]:
        """Return what puts an event at the end of a list, or where the one of its key is, as ``d``."""
        keys = self._keys
        lines, value = keys.finds(self.asked())
        changes = ["pass"] if self._unique.first else self._writes(event)
        return [
            *lines,
            f"d = {keys.node}[{keys.number}]",
            "if d >= 0:",
            *indent(changes),
            "else:",
            *indent(super()._holds(event, where)),
            f"    {keys.node}[{keys.number}], {keys.place}[d] = d, {keys.number}",
            *indent(self._notes(value)),
        ]

    def _notes(self, value: Value) -> list[str]:
        """Return what else is noted of a key that is new in its batch."""
        return []

    def _releases(self) -> list[str]:
        keys = self._keys
        stays = self.window.timeout > 0  # as it may be released again
        forgets = [] if stays else [keys.forgets(f"{keys.place}[d]")]
        return [*self._each("head", [f"{keys.node}[{keys.place}[d]] = -1", *forgets]), *super()._releases()]


class UniqueExternalWriter(UniqueBatchText, ExternalBatchWriter):
    """Writes what happens in a window ``unique:externalTimeBatch``; see `BatchWriter`.

    Notes
    -----
    With a timeout keys stay in their table with the batch that was released last.
    """

    def _frees(self, where: str) -> list[str]:
        """Return what lets all nodes of a list be free; those of a period that is released again stand in front."""
        frees = BatchWriter._frees(self, where)
        if where == "head" or not self.window.timeout:
            return frees
        keys, (flushed, left) = self._keys, self._of("flushed", "left")
        number = f"{keys.place}[d]"
        gone = self._each("left", [f"if {keys.node}[{number}] < 0:", f"    {keys.forgets(number)}"])
        return [f"if {flushed} != 0 and {left} >= 0:", *indent(self._joins_released()), "else:", *indent(gone + frees)]

    def _joins_released(self) -> list[str]:
        """Return what lets the open batch be the one released before, with later events of its keys, and more."""
        keys, prefix, following = self._keys, self.prefix, f"{self.prefix}_next"
        number, names = f"{keys.node}[{keys.place}[d]]", ("", "_end", "_size")
        head, end, size = self._of(*(f"head{name}" for name in names))
        left, last, more = self._of(*(f"left{name}" for name in names))
        copies = [f"{prefix}_ts[d] = {prefix}_ts[m]"]
        for place in self.query.kept:
            arrays = self.whole.attribute(f"{prefix}_w", place, self.query.type_at(place), self._nodes)
            copies += [f"{one}[d] = {one}[m]" for one in arrays]
        # A key that is in both keeps its place, and has the later event
        later = [f"m = {number}", "if m >= 0:", *indent([*copies, f"{number} = d"])]
        return [
            *self._each("left", later),
            f"d, {head}, {end}, {size} = {head}, {left}, {last}, {more}",
            f"{left}, {more} = -1, 0",
            "while d >= 0:",
            f"    m = {following}[d]",
            f"    if {number} == d:",
            f"        {following}[{end}], {following}[d], {end} = d, -1, d",
            f"        {size} += 1",
            "    else:",
            # The node of a key that was in both is left over
            f"        {following}[d], {prefix}_free[0] = {prefix}_free[0], d",
            "    d = m",
        ]


class UniqueBatchWriter(UniqueBatchText):
    """Writes what a window does that releases a batch when so many keys have come; see `BatchWriter`.

    Notes
    -----
    Keys are released in the order of a table of Java's: ``q_capacity`` is how many buckets it has, for each key of the
    partition, and ``q_hash`` the hash of a node's key.
    """

    def _declare(self) -> None:
        super()._declare()
        arrays, prefix = self.whole.arrays, self.prefix
        arrays.declare(f"{prefix}_capacity", NUMBER, self.query.instances, "16")
        for name in ("hash", "bucket", "order", "spare"):
            arrays.declare(f"{prefix}_{name}", NUMBER, self._nodes)
        arrays.declare("text_starts", NUMBER, "1")
        arrays.declare("text_bytes", FLAG, "1")

    def _notes(self, value: Value) -> list[str]:
        capacity, hashed = f"{self.prefix}_capacity[{self.key}]", f"{self.prefix}_hash[d]"
        return [
            f"{hashed} = {self._keys.hashed(value)}",
            # As `HashMap.hash` spreads a hash code, whose lower bits choose the bucket
            f"{hashed} = {hashed} ^ ({hashed} >> 16)",
            # A HashMap doubles behind three quarters, and `clear` leaves it its buckets: so it never becomes smaller
            f"if 4 * {self.prefix}_head_size[{self.key}] > 3 * {capacity}:",
            f"    {capacity} *= 2",
        ]

    def _releases(self) -> list[str]:
        prefix, key = self.prefix, self.key
        each = [
            # What is released carries the time of the release
            f"{prefix}_order[n], {prefix}_ts[d] = d, now",
            f"{prefix}_bucket[d] = {prefix}_hash[d] & ({prefix}_capacity[{key}] - 1)",
            "n += 1",
        ]
        places = f"{prefix}_order, {prefix}_spare, {prefix}_bucket, text_starts, text_bytes"
        copied = [f"d = {prefix}_head[{key}]", *self._copied.takes(Event(self._kept, "now", ""))]
        # Behind the RESET for this batch: its first event, in the order of the buckets, is what the next one copies
        copied = [f"{self._copied.noted} = now", *(copied if self._copied.is_read else [])]
        return [
            "n = 0",
            *self._each("head", each),
            "if n > 1:",
            f"    sort_places({places}, 0, n, 0)",
            f"    {prefix}_head[{key}], {prefix}_head_end[{key}] = {prefix}_order[0], {prefix}_order[n - 1]",
            "    for k in range(n):",
            f"        {prefix}_next[{prefix}_order[k]] = {prefix}_order[k + 1] if k + 1 < n else -1",
            f"if {prefix}_head[{key}] >= 0:",
            *indent(copied),
            *super()._releases(),
        ]

    @property
    def _asks_for_first(self) -> bool:
        """Whether it is seen that totals do not begin anew with the first batch, or no event is known to copy."""
        return self.query.notes_resets or self.query.is_found or self._copied.is_read

    def _renews(self) -> list[str]:
        renews = super()._renews()
        return [f"if {self._copied.noted} != {NEVER}:", *indent(renews)] if renews and self._asks_for_first else renews

    @property
    def _reset_at(self) -> str:
        return self._copied.noted


class UniquePeriodWriter(UniqueBatchWriter, PeriodWriter):
    """Writes what a window does that releases the keys of a time; see `PeriodWriter`.

    Notes
    -----
    Each key of a partition has periods of its own. Where there is a length, too, ``q_full`` is whether so many keys
    have come, and were released, in the open period.
    """

    @property
    def _period(self) -> str:
        return self.key

    def _declare(self) -> None:
        super()._declare()
        if self.window.length:
            self.whole.arrays.declare(f"{self.prefix}_full", FLAG, self.query.instances)

    @property
    def _full(self) -> str:
        return f"{self.prefix}_full[{self.key}]" if self.window.length else ""

    @property
    def _drops(self) -> str:
        """Source of whether the rest of a chunk is dropped."""
        return f"drops{self.prefix}"

    def _begins(self, ends: str) -> list[str]:
        """Return what is done with the first event of a chunk, which may have ended the open period."""
        if not self._full:
            return []
        # The operator drops the chunk that finds a full period, also where its time has ended that
        anew = [f"if {ends} != 0:", f"    {self._full} = 0", f"{ends} = 0"]
        return [f"{self._drops} = {self._full}", f"if {self._drops} != 0:", *indent(anew)]

    def _collects(self, event: Event, ends: str) -> list[str]:
        """Return what is done with an event of a chunk."""
        if not self._full:
            return super()._collects(event, ends)
        return [
            f"if {self._drops} != 0:",
            "    continue",
            *super()._collects(event, ends),
            f"if {self.prefix}_head_size[{self.key}] >= {self.window.length}:",
            f"    {self._full}, {self._drops}, {ends} = 1, 1, 1",
        ]

    @property
    def _calm(self) -> list[str]:
        # What a join finds goes at the end of a period without keys, so that one must not be slept through
        left = [] if self._expires or not self._keeps else [f"{self.prefix}_left[{self.key}] < 0"]
        return [*super()._calm, *left, *([f"{self._full} == 0"] if self._full else [])]

    def _ended(self, released: list[str]) -> list[str]:
        """Return what is done when a timer has ended the open period, given what releases it."""
        if not self._full:
            return released
        # A full period was released when its last key came: its end only lets keys in again
        return [f"if {self._full} != 0:", f"    {self._full} = 0", "else:", *indent(released)]
