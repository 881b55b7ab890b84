"""Cells: all that a partition keeps for one key as one flat list, where that is enough.

A partition of one query over a stream with a key, with no window, ``length`` or ``time``, and nothing that puts out
anything but current events, needs no objects for each key: its totals and what its window holds are values of one list,
which generated functions work on. To meet a key costs little then, and many keys do not cost more than few but for what
the machine's memory does. Chunks of several events, which are rare, go through one full instance that takes over the
cell's state and gives it back. Snapshots are those of `spdist.operators.partitions.partition`, with instances or
without.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from spdist.operators.base import Arrival, Row, Timer, Timers, WindowCell, WindowLoop
from spdist.operators.core.junction import Drive, Loop, LoopMaker, ReceiveMany, ReceiveOne
from spdist.operators.expressions.codegen import build, indent
from spdist.operators.queries.loops import key_lines
from spdist.operators.queries.plans import Place
from spdist.operators.queries.query import SingleStreamPlan, SingleStreamQuery
from spdist.operators.selection.selector import SelectorWriter, Sink

__all__ = ["Cells", "cells_of"]

log = logging.getLogger(__name__)

Cell = list[Any]
#: From an event to the keys it belongs to.
Keys = Callable[[int, Row], tuple[str, ...]]


def cells_of(
    queries: Sequence[Any], keys: Mapping[str, Keys], attributes: Mapping[str, int], place: Place
) -> Cells | None:
    """Return what keeps the keys of a partition in cells; None where they need instances.

    Parameters
    ----------
    queries : Sequence of QueryPlan
        The partition's queries.
    keys : mapping
        Of each stream with a key, what gives the key of an event: at most one.
    attributes : mapping
        Where the key is a string attribute, its position.
    place : Place
        The app.
    """
    query = queries[0]
    if len(queries) != 1 or not isinstance(query, SingleStreamPlan) or query.inputs[0] not in keys:
        return None
    if query.loop is None:
        return None
    cell = WindowCell() if query.loop.window is None else query.loop.window.cell
    return None if cell is None else Cells(query, cell, keys[query.inputs[0]], attributes.get(query.inputs[0]), place)


class Cells:
    """The keys of a partition, each with its cell.

    A cell has the selector's totals (or the dictionary of its groups), the key's number, the time when it was met, and
    what the window keeps.

    Parameters
    ----------
    query : SingleStreamPlan
        The partition's only query.
    window : WindowCell
        How its window lies in a cell.
    keys : Callable
        Gives the key of an event: none or one.
    attribute : int, optional
        Where the key is a string attribute, its position.
    place : Place
        The app.

    State
    -----
    ``cells``: one for each key that came, for ever; ``created``: how many came; ``waiting``: the times at which cells
    are to be woken, at most one for each event held.
    """

    def __init__(
        self, query: SingleStreamPlan, window: WindowCell, keys: Keys, attribute: int | None, place: Place
    ) -> None:
        self.cells: dict[str, Cell] = {}
        self.created = 0
        self._query = query
        self._window = window
        self._place = place
        self._clock = place.clock
        self._keys = keys
        self._attribute = attribute
        assert query.loop is not None
        first = SelectorWriter(query.chosen, "each")
        first.event()
        #: Whether the first value is the dictionary of the groups; else totals stand in front.
        self._grouped = first.grouped and first.totalled
        fresh = ["{}"] if self._grouped else first.slots.initial
        self._width = len(fresh)
        places = [self._width + 2 + number for number in range(len(window.fresh))]
        names = {"first": self._width + 2 + len(places), "number": self._width}
        lines, leaves = ([line.format(*places, **names) for line in part] for part in (window.lines, window.leaves))
        loop = None if query.loop.window is None else WindowLoop((), tuple(lines))
        self._plan = replace(query.loop, window=loop, of_query=False, _makers={})
        initial = ", ".join([*fresh, "number", "now", *(text.format(**names) for text in window.fresh)])
        bindings = query.chosen.bindings.names
        source = ["def fresh(number, now):", f"    return [{initial}]"]
        #: Cells that are to be woken, ``(due, number, cell)``, first due first, and the timer that does so.
        self.waiting: list[tuple[int, int, Cell]] = []
        self.timer = place.timer((query.rank, 0), self._due)
        self._names = {
            "cells": self.cells,
            "create": self._create,
            "keys": keys,
            "heappush": heappush,
            "waiting": self.waiting,
            "ring": self._ring,
        }
        self._fresh: Callable[[int, int], Cell] = build(f"{query.name} cell", source, bindings)["fresh"]
        others = build(f"{query.name} cells", self._others(leaves), bindings)["make"]
        sink = query.sink(place)
        self._emit = sink
        one, self._wake = others(place.clock, sink.one, *self._names.values())
        self.receivers: dict[str, tuple[ReceiveOne, ReceiveMany]] = {query.inputs[0]: (one, self._many)}
        self._full: _Full | None = None

    # The generated functions.

    @property
    def loops(self) -> Mapping[str, LoopMaker]:
        """What takes many single events of the stream faster than `receivers` do."""
        return {self._query.inputs[0]: self._loop}

    def _loop(self, drive: Drive) -> Loop:
        return self._plan.keyed(self._finding, self._names, self._emit, drive)

    @property
    def _finding(self) -> tuple[str, ...]:
        """The lines that set ``cell`` to the one of the event's key, and what totals are known by."""
        finding = ("cell = cells.get(key)", "if cell is None:", "    cell = create(key)", self._totals)
        return (*key_lines(self._attribute), *finding)

    @property
    def _totals(self) -> str:
        return "groups = cell[0]" if self._grouped else "g = cell"

    def _others(self, leaves: Sequence[str]) -> list[str]:
        """Return the source of what takes one event, and of what is done when a cell's timer is due."""
        current = SelectorWriter(self._query.chosen, "each", ("emit(0, ts, o)",))
        one = self._plan.event(current)
        leaving = SelectorWriter(self._query.chosen, "gone").event()
        wake = [*leaves, *(["ts = clock.now", "for _, row in gone:", *indent(leaving)] if leaves and leaving else [])]
        return [
            f"def make(clock, emit, {', '.join(self._names)}):",
            *indent(current.functions()),
            "    def one(at, new):",
            "        for _ in (0,):",
            *indent([*self._finding, *one], 3),
            "    def wake(cell):",
            *indent([self._totals, *wake], 2),
            "    return one, wake",
        ]

    # Keys.

    def _create(self, key: str) -> Cell:
        cell = self.cells[key] = self._fresh(self.created, self._clock.now)
        self.created += 1
        return cell

    def _ring(self, due: int) -> None:
        """Ask to be woken for the cell that is first due."""
        self.timer.cancel()
        self.timer.notify_at(due)

    def _due(self, _due: int) -> None:
        """Wake the cells that are due; one that fails loses this wake-up, as an operator does.

        Nothing is put out meanwhile, so it is all the same what else is due now.
        """
        waiting = self.waiting
        while waiting and waiting[0][0] <= self._clock.now:
            cell = heappop(waiting)[-1]
            try:
                self._wake(cell)
            except Exception:
                log.exception("an operator failed when its timer was due; what it would have put out is lost")
        if waiting:
            self.timer.notify_at(waiting[0][0])

    # Chunks.

    def _many(self, arrivals: Sequence[Arrival]) -> None:
        current: str | None = None
        run: list[Arrival] = []
        for arrival in arrivals:
            for key in self._keys(*arrival):
                if key != current:
                    if current is not None:
                        self._send(current, run)
                    current, run = key, []
                run.append(arrival)
        if current is not None:
            self._send(current, run)

    def _send(self, key: str, run: list[Arrival]) -> None:
        cell = self.cells.get(key) or self._create(key)
        if self._full is None:
            self._full = _Full(self._query, self._place)
        full = self._full
        full.query.restore(self._state(cell, []))
        try:
            full.take(run)
        finally:
            self._keep(cell, full.query.snapshot())
            full.forget()
        # Only now: what is put out may bring events of this very key.
        full.release(self._emit)

    # Snapshots.

    def _state(self, cell: Cell, due: list[int]) -> list[Any]:
        """Return the state of a cell, which waits for the times `due`, as that of an instance of the query."""
        width = self._width
        groups, totals = (dict(cell[0]), []) if self._grouped else ({}, cell[:width])
        window = None if self._window.save is None else self._window.save(cell, width + 2, due)
        return [[groups, totals, {}], window, None, []]

    def _keep(self, cell: Cell, state: Any) -> None:
        """Take the state of an instance of the query over into a cell."""
        (groups, totals, _), window, *_ = state
        if self._grouped:
            cell[0].clear()
            cell[0].update(groups)
        else:
            cell[: self._width] = totals
        if self._window.load is not None:
            for due in self._window.load(cell, self._width + 2, window):
                entry = due, cell[self._width], cell
                heappush(self.waiting, entry)
                if self.waiting[0] is entry:
                    self._ring(due)

    def snapshot(self) -> Any:
        """Return the states of all keys, by key."""
        at = self._width
        due: dict[int, list[int]] = {}
        for time, number, _ in sorted(self.waiting, key=itemgetter(0)):
            due.setdefault(number, []).append(time)
        return {
            key: [cell[at], cell[at + 1], [self._state(cell, due.get(cell[at], []))]]
            for key, cell in self.cells.items()
        }

    def restore(self, keys: Mapping[str, Any], created: int) -> None:
        """Take over the states of a snapshot."""
        self.cells.clear()
        self.waiting.clear()
        self.timer.cancel()
        self.created = created
        for key, (number, used, (query,)) in keys.items():
            cell = self.cells[key] = self._fresh(number, used)
            self._keep(cell, query)


class _Full:
    """An instance of the query that stands in for any cell while a chunk is taken; its results wait."""

    def __init__(self, plan: SingleStreamPlan, place: Place) -> None:
        self.clock = place.clock
        self.failures = place.failures
        self.junction = place.junction
        self.inner_junction = place.inner_junction
        self.is_fed = place.is_fed
        self._timers = Timers(self.clock)  # of its own: they never ring
        self._results: list[Any] = []
        held = self._results
        self.query = SingleStreamQuery(plan, self, Sink(lambda *result: held.append([result]), held.append))
        self.take = self.query.receivers[plan.inputs[0]][1]

    def timer(self, rank: tuple[int, int], wake: Callable[[int], None], key: int = 0) -> Timer:
        """Return a timer that keeps what is asked of it, and is never due."""
        return Timer(self._timers, (*rank, key), wake)

    def forget(self) -> None:
        """Forget the timers: the cell has them."""
        self._timers.clear()

    def release(self, sink: Sink) -> None:
        """Hand over the results that wait."""
        results = self._results[:]
        self._results.clear()
        for chunk in results:
            if len(chunk) == 1:
                sink.one(*chunk[0])
            else:
                sink.many(chunk)
