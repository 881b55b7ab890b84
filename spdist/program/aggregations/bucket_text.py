"""The block of an aggregation: an event is added to its group in the loop, where its bucket is open.

When the clock leaves the bucket, its groups stay where they are: the loop notes that they have ended, and begins anew
behind them. The operators are called with what ends a bucket of the next duration, too, and with what has no place in
arrays (a time that is null, or beyond all calendars); they find all that was added before
(`spdist.program.states.bucket`).
"""

from __future__ import annotations

from spdist.language import ast
from spdist.language.types import Schema, Type
from spdist.program.aggregations.bucket_shape import (
    BEGIN,
    COUNT,
    DIRTY,
    END,
    ENDED,
    HIGH,
    LENGTH,
    LOW,
    NEXT_END,
    OPEN,
)
from spdist.program.called import Called, CallSite
from spdist.program.expressions import FLAG, NUMBER, TypedWriter, Value, dtype_of
from spdist.program.key_text import finds, key_word, key_words
from spdist.program.parts import Block, Whole, indent

__all__ = ["FAR", "AddWriter"]

#: Buckets that begin further from 1970 than this are left to the operators, ms: there may be no calendar.
FAR = 62_000_000_000_000


class AddWriter:
    """Writes the block of an aggregation.

    Parameters
    ----------
    whole : Whole
        The text.
    element : Called
        The aggregation, and what of it stands in the loop.
    block : Block
        The events.
    site : int
        The number of the place where its operators are called.
    _schema : Schema
        The attributes of the stream: known to the aggregation.
    nested : bool
        Whether operators have brought the events.
    timed : bool
        Whether the program has timers.
    """

    def __init__(
        self, whole: Whole, element: Called, block: Block, site: int, _schema: Schema, nested: bool, timed: bool
    ) -> None:
        adds = element.adds
        assert adds is not None
        self._whole = whole
        self._adds = adds
        self._plan = adds.plan
        self._block = block
        self._number = site
        self._event = whole.name()
        self._group = whole.name()
        name = self._name = adds.name
        self._open = whole.arrays.declare(f"{name}_open", NUMBER, str(OPEN))
        self._room = f"groups {name}"
        whole.count(self._room, block.most)
        whole.count(f"pairs {name}", block.most)
        own = adds.width - adds.first
        if adds.layout is not None and own:
            whole.arrays.table(f"{name}_q_k", own, f"groups {name}_q")
        if block.source:
            for place, type in enumerate(block.types):
                whole.attribute(block.owner, place, type, block.room)
        picked = whole.arrays.declare(f"picked{site}", NUMBER, "1")
        #: What is known of the place.
        self.site = CallSite(element, block.stream, block.owner, block.types, not block.source, nested, picked)
        self._tells = ["timers_until[0] = until"] if timed else []

    def lines(self, rest: list[str]) -> list[str]:
        """Return the block, given who gets the events after it, unless the operators fail on one."""
        failed, block = self._whole.name(), self._block
        body = [*self._filters(), *self._called(failed), *self._finds(), *self._adds_event()]
        return [
            f"{failed} = 0",
            f"for {self._event} in range({block.begin}, {block.end}):",
            *indent(body),
            *([f"if {failed} == 0:", *indent(rest)] if rest else []),
        ]

    # An event.

    def _attribute(self, place: int) -> Value:
        block = self._block
        values, nulls = self._whole.attribute(block.owner, place, block.types[place], block.room)
        return Value(f"{values}[{self._event}]", f"{nulls}[{self._event}] != 0", block.types[place])

    def _writer(self) -> TypedWriter:
        def read(variable: ast.Variable) -> Value:
            return self._attribute(self._adds.checked.scope.resolve(variable).attribute)

        timestamp = f"{self._block.timestamp}[{self._event}]"
        return TypedWriter(read, timestamp, self._whole.name, self._whole.text_number)

    def _filters(self) -> list[str]:
        lines: list[str] = []
        for condition in self._adds.filters:
            writer = self._writer()
            test = writer.condition(condition)
            lines += [*writer.lines, f"if not ({test}):", "    continue"]
        return lines

    def _called(self, failed: str) -> list[str]:
        """Return what has the operators close buckets, and calls them with an event that is not to be added here."""
        open, block = self._open, self._block
        call = f"{failed} = called(callback, {self._number}, {block.begin}, {block.end})"
        # No event is picked: the operators only close what has ended
        closed = [*self._tells, "shared[PICKED] = 0", call, f"if {failed} != 0:", "    break"]
        if self._adds.layout is not None:
            closed = [f"if now < {open}[{NEXT_END}]:", *indent(self._ends()), "else:", *indent(closed)]
        lines = [f"if now >= {open}[{END}]:", *indent(closed)]
        if self._plan.by is None:
            return lines
        time = self._attribute(self._plan.by)
        return [
            *lines,
            f"apart = {time.null}",
            f"if not apart and not {open}[{LOW}] <= {time.text} < {open}[{HIGH}]:",
            # Without a length a calendar says where the bucket begins, and only the operators have one
            f"    apart = {open}[{LENGTH}] == 0 or not {-FAR} < {time.text} < {FAR}",
            "    if not apart:",
            # The remainder is never negative, as in Python: so times before 1970 have their bucket, too
            f"        {open}[{LOW}] = {time.text} - {time.text} % {open}[{LENGTH}]",
            f"        {open}[{HIGH}] = {open}[{LOW}] + {open}[{LENGTH}]",
            "if apart:",
            *indent([*self._tells, f"{self.site.picked}[0], shared[PICKED] = {self._event}, 1", call]),
            f"    if {failed} != 0:",
            "        break",
            "    continue",
        ]

    def _ends(self) -> list[str]:
        """Return what notes that a bucket has ended, and begins another one."""
        open, arrays, table = self._open, self._whole.arrays, f"{self._name}_k"
        ended = arrays.declare(f"{self._name}_ended", NUMBER, f"closings {self._name}", width=2)
        self._whole.count(f"closings {self._name}", self._block.most)
        width = self._adds.width
        # Their groups are found no more, but keep their places until the operators get them
        forgets = [f"forget_from({table}_slots, {table}_keys, {table}_meta, {width}, {open}[{BEGIN}])"] if width else []
        return [
            f"{ended}[2 * {open}[{ENDED}]], {ended}[2 * {open}[{ENDED}] + 1] = {open}[{COUNT}], {open}[{END}]",
            f"{open}[{ENDED}] += 1",
            *forgets,
            f"{open}[{BEGIN}] = {open}[{COUNT}]",
            f"{open}[{END}] = now - now % {open}[{LENGTH}] + {open}[{LENGTH}]",
        ]

    def _finds(self) -> list[str]:
        """Return what finds the number of the event's group."""
        words = [f"{self._open}[{LOW}]"] if self._plan.by is not None else []
        words += key_words([self._attribute(place) for place in self._plan.group])
        if not words:
            # Without keys a bucket has one group
            return [f"{self._group} = {self._open}[{BEGIN}]"]
        return finds(self._whole.arrays, f"{self._name}_k", self._room, words, self._group)

    # Slots.

    def _adds_event(self) -> list[str]:
        """Return what changes the slots of the group, a new one being there with the event's values."""
        open, group, arrays = self._open, self._group, self._whole.arrays
        before, first, latest, changed, both = list[str](), list[str](), list[str](), list[str](), list[str]()
        for n, (slot, type) in enumerate(zip(self._plan.slots, self._adds.slot_types, strict=True)):
            if slot.kind == "set":
                both += self._counts_different(self._adds.sets[n], self._attribute(slot.column))
                continue
            own = f"{arrays.declare(f'{self._name}_s{n}', dtype_of(type), self._room)}[{group}]"
            if slot.kind == "count":
                first.append(f"{own} = 1")
                changed.append(f"{own} += 1")
                continue
            value = self._value(slot.column, before)
            null = f"{arrays.declare(f'{self._name}_s{n}_n', FLAG, self._room)}[{group}]"
            written = [f"{own} = {value.text}", f"{null} = {f'1 if {value.null} else 0' if value.null else '0'}"]
            first += written
            if slot.kind in ("time", "last") or (slot.kind == "group" and type is Type.STRING):
                latest += written
            elif slot.kind != "group":
                changed += _folded(slot.kind, own, null, value)
        if latest and self._plan.timed:
            time = next(n for n, slot in enumerate(self._plan.slots) if slot.kind == "time")
            assert self._plan.by is not None
            # Of events of one time the one that came last is the latest
            test = f"if {self._attribute(self._plan.by).text} >= {self._name}_s{time}[{group}]:"
            latest = [test, *indent(latest)]
        return [
            *before,
            f"{open}[{DIRTY}] = 1",
            # Numbers are given in order, so a group behind all others is new
            f"if {group} >= {open}[{COUNT}]:",
            f"    {open}[{COUNT}] = {group} + 1",
            *indent(first),
            *(["else:", *indent([*latest, *changed])] if latest or changed else []),
            *both,
        ]

    def _value(self, column: int, before: list[str]) -> Value:
        """Return a value of the event: an attribute's, or a computed one, whose statements are appended to `before`."""
        own = len(self._adds.types)
        if column < own:
            return self._attribute(column)
        writer = self._writer()
        value = writer.write(self._plan.computed[column - own])
        before += writer.lines
        return value

    def _counts_different(self, table: str, value: Value) -> list[str]:
        arrays = self._whole.arrays
        given = arrays.table(table, 3, f"pairs {self._name}")
        pair = arrays.declare("pair", NUMBER, "3")
        return [
            f"{pair}[0], {pair}[1], {pair}[2] = {self._group}, 0 if {value.null} else {key_word(value)}, "
            f"1 if {value.null} else 0",
            f"find({given}, {pair}, 3)",
        ]


def _folded(kind: str, own: str, null: str, value: Value) -> list[str]:
    """Return what adds a value to a sum, a minimum or a maximum; null changes nothing."""
    begins = [f"    {own} = {value.text}", f"    {null} = 0"]
    if kind == "sum":
        is_real = value.type in (Type.FLOAT, Type.DOUBLE)
        added = f"{own} + {value.text}" if is_real else f"wrapping_add({own}, {value.text})"
        lines = [f"if {null} != 0:", *begins, "else:", f"    {own} = {added}"]
    else:
        lines = [f"if {null} != 0 or {own} {'>' if kind == 'min' else '<'} {value.text}:", *begins]
    return [f"if not ({value.null}):", *indent(lines)] if value.null else lines
