"""The windows ``frequent`` and ``lossyFrequent`` hold the latest event of each key that comes often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy

from spdist.extension import catalog
from spdist.java.objects import capacity_for
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    HashMapColumn,
    NumberColumn,
    StructColumn,
    nothing,
    numbers_of,
)
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.parts import indent
from spdist.program.registry import WINDOWS
from spdist.program.shape import Read
from spdist.program.states.unique import UniqueState
from spdist.program.windows.kinds import Found, Sliding, WindowCall
from spdist.program.windows.unique import LEAST_BUCKETS, UniqueStates, hash_maps, unique_by
from spdist.program.windows.unique_text import ListWriter

__all__ = ["Frequent", "FrequentWriter"]

_REALS = (Type.FLOAT, Type.DOUBLE)


@WINDOWS.typed("frequent", "lossyFrequent")
@dataclass(frozen=True, slots=True)
class Frequent(Sliding):
    """A window that holds the latest event of each key that comes often: of `length` keys, or of all that are counted.

    Parameters
    ----------
    counts : bool
        Whether all keys are counted that come often enough.
    share : float
        There: what part of all events those of a key must be, for them to pass.
    width : int
        There: after so many events those keys leave that came too seldom; 0: none ever does.
    """

    counts: bool = False
    share: float = 0.0
    width: int = 0

    @classmethod
    def of(cls, given: WindowCall) -> Frequent:
        """Return what an app says."""
        window, selected = given.call, given.selected
        constants = [one.value for one in window.args if isinstance(one, ast.Literal)]
        named = [one for one in window.args if isinstance(one, ast.Variable)]
        names = given.schema.names
        keys = named or [ast.Variable(names[p]) for p in (range(len(names)) if selected is None else selected)]
        types = {type_of(one, given.scope, catalog(False)) for one in keys}
        if not keys or Type.OBJECT in types:
            raise NotTyped(f"the window {window.id} of what is no text", window.span)
        unique = unique_by(given, keys, joined=len(keys) > 1 or bool(types.intersection(_REALS)))
        if window.id == "frequent":
            return cls(length=int(str(constants[0])), unique=unique)
        support, error = (float(str(one)) for one in constants)
        # An error of 0 makes rounds that never end, so nothing is ever forgotten, as in Siddhi
        return cls(counts=True, share=support - error, width=ceil(1 / error) if error else 0, unique=unique)

    @property
    def writer(self) -> type[FrequentWriter]:
        """What writes it."""
        return FrequentWriter

    @property
    def states(self) -> FrequentStates:
        """What knows its state."""
        return FrequentStates(self)

    @property
    def found(self) -> Found:
        """How a join finds what it holds."""
        return Found.BUCKETS

    @property
    def leaves_early(self) -> bool:
        """Whether an event may leave before it has entered the totals."""
        return self.counts

    @property
    def one_by_one(self) -> bool:
        """Whether an event that comes lets one leave at most, and time lets none."""
        return False

    @property
    def regroups(self) -> bool:
        """Whether the groups of events that leave are looked for then."""
        return True

    @property
    def rooms(self) -> tuple[str, ...]:
        """The room of keys."""
        return ("groups {}_u",)

    @property
    def lists_keys(self) -> bool:
        """Whether its list is that of all keys."""
        return True


class FrequentWriter(ListWriter):
    """Writes what happens in the windows ``frequent`` and ``lossyFrequent``; see `WindowWriter`.

    Notes
    -----
    The keys that are counted are a list, in the order in which they came: ``q_many`` is how often each has come, less
    what was taken off. What leaves together does so in the order of a map of Java's, which has ``q_capacity`` buckets
    for each key of the partition; ``q_hash`` is the hash of a node's key. Where all are counted, ``q_total`` is how
    many events have come, and ``q_rounds`` after how many rounds a key came first.
    An event may leave that has never been in the totals, so its group is looked for when it does.
    """

    @property
    def _frequent(self) -> Frequent:
        assert isinstance(self.window, Frequent)
        return self.window

    def _of(self, name: str, room: str = "", first: str = "0") -> str:
        """Return an array of the window's own: of nodes, or of what `room` says."""
        return self.whole.arrays.declare(f"{self.prefix}_{name}", NUMBER, room or self._nodes, first)

    @property
    def _capacity(self) -> str:
        return f"{self._of('capacity', self.query.instances, '16')}[{self.key}]"

    @property
    def _total(self) -> str:
        return f"{self._of('total', self.query.instances)}[{self.key}]"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what counts the new event, or drops it, where it does not pass."""
        self._of("before", first="-1")
        keys, window, many, size = (
            self._keys,
            self._frequent,
            self._of("many"),
            f"{self.prefix}_head_size[{self.key}]",
        )
        found, value = keys.finds(self.asked())
        first, last = list[str](), list[str]()
        if window.counts:
            first = [f"{self._total} += 1"]
            rounds = f"({self._total} - 1) // {window.width}" if window.width else "0"
            noted = [f"{self._of('rounds')}[d] = {rounds}"]
            last = [
                f"if not ({many}[d] >= {window.share!r} * {self._total}):",
                # Also an event that does not pass may be the last one of its round
                *indent([*self.pushes_out(leaving), "continue"]),
            ]
        else:
            full, noted = f"if {size} >= {window.length}:", []
            # The lookup has given the key a number, though it finds no place
            dropped = [full, f"    {keys.forgets(keys.number)}", "    continue"]
            # A new key takes one off all counters where there is no place, as Misra and Gries have it
            goes = self._goes(f"{many}[d] == 0", leaving, [f"{many}[d] -= 1"])
            found += [f"if {keys.node}[{keys.number}] < 0:", *indent([full, *indent(goes), *dropped])]
        hashed = f"{self._of('hash')}[d]"
        fresh = [
            *self._holds(read, timestamp),
            *self._appends("d"),
            f"{keys.node}[{keys.number}], {keys.place}[d], {many}[d] = d, {keys.number}, 0",
            f"{hashed} = {keys.hashed(value)}",
            f"{hashed} = {hashed} ^ ({hashed} >> 16)",
            # A HashMap doubles behind three quarters, and its order with it
            f"if 4 * {size} > 3 * {self._capacity}:",
            f"    {self._capacity} *= 2",
            *noted,
        ]
        return [
            *first,
            *found,
            f"d = {keys.node}[{keys.number}]",
            "if d < 0:",
            *indent(fresh),
            "else:",
            *indent(self._writes(read, timestamp)),
            f"{many}[d] += 1",
            *last,
        ]

    def remembers(self) -> list[str]:
        """Return nothing: groups are looked for."""
        return []

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets the keys leave that came too seldom, at the end of a round."""
        window = self._frequent
        if not window.width:
            return []
        seldom = f"{self._of('many')}[d] + {self._of('rounds')}[d] <= {self._total} // {window.width}"
        return [f"if {self._total} % {window.width} == 0:", *indent(self._goes(seldom, leaving))]

    def _goes(self, test: str, leaving: list[str], counts: list[str] | None = None) -> list[str]:
        """Return what lets keys leave whose node ``d`` meets a condition; `counts` is done with each before."""
        prefix, keys = self.prefix, self._keys
        order, spare, bucket = (self._of(name) for name in ("order", "spare", "bucket"))
        self.whole.arrays.declare("text_starts", NUMBER, "1")
        self.whole.arrays.declare("text_bytes", FLAG, "1")
        return [
            # Found in the order of the list, but they leave in that of their buckets: so first all are found
            f"n, d = 0, {prefix}_head[{self.key}]",
            "while d >= 0:",
            *indent(counts or []),
            f"    if {test}:",
            f"        {order}[n], {bucket}[d] = d, {self._of('hash')}[d] & ({self._capacity} - 1)",
            "        n += 1",
            f"    d = {prefix}_next[d]",
            "if n > 1:",
            f"    sort_places({order}, {spare}, {bucket}, text_starts, text_bytes, 0, n, 0)",
            "for k in range(n):",
            f"    d = {order}[k]",
            *indent(self._unlinks("d")),
            f"    {keys.node}[{keys.place}[d]] = -1",
            f"    {keys.forgets(f'{keys.place}[d]')}",
            *indent(self._left(leaving)),
        ]

    def _left(self, leaving: list[str]) -> list[str]:
        groups, timestamp = self.groups, f"{self.prefix}_ts[d]"
        leaves = groups.leaves(self.kept, timestamp, groups.number, leaving, counted=False)
        return [*groups.passes(self.kept, [*groups.finds(self.kept), *leaves]), *self._frees()]


class FrequentStates(UniqueStates):
    """The state of a window of keys that come often: how often they have come, and the latest event of each."""

    window: Frequent

    def read(self, states: Column) -> UniqueState:
        """Return what operators' states say, of at least one key of a partition."""
        *total, counts, latest = states.parts(3 if self.window.counts else 2)
        counted, maps, none = hash_maps(counts), hash_maps(latest), nothing(len(states))
        (_, many), (keys, events) = counted.entries(), maps.entries()
        noted: dict[str, Column] = dict(zip(("total",), total, strict=False))
        noted["capacity"] = NumberColumn(numpy.maximum(numbers_of(counted.capacities)[0], LEAST_BUCKETS))
        both = many.parts(2) if self.window.counts else (many,)
        return UniqueState(maps.sizes(), keys, events, none, none, noted=noted, counts=tuple(both))

    def written(self, read: Read, held: UniqueState) -> Column:
        """Return operators' states that say so."""
        many, rounds = (*held.counts, None)[:2]
        assert many is not None
        sizes, capacity = NumberColumn(held.sizes), numbers_of(held.number("capacity"))[0]
        if self.window.counts:
            # Where nothing is forgotten, nobody counts rounds
            rounds = rounds or NumberColumn(numpy.zeros(len(many), numpy.int64))
            many = StructColumn(tuple, [many, rounds])
        # A map that had more keys once keeps its buckets, and so the order of those that are left
        buckets = NumberColumn(numpy.maximum(capacity, list(map(capacity_for, held.sizes.tolist()))))
        maps = [HashMapColumn(sizes, held.keys, own, buckets) for own in (many, held.events)]
        return StructColumn(list, [held.number("total"), *maps] if self.window.counts else maps)
