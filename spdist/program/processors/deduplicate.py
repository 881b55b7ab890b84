"""The stream processor ``unique:deduplicate`` drops events behind others of their key, for a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.operators.core.parameters import constant_values
from spdist.operators.core.state_columns import Column, MapColumn, NumberColumn, StructColumn, numbers_of
from spdist.program.expressions import NUMBER
from spdist.program.parts import Most, QueryText
from spdist.program.processors.kinds import Processor
from spdist.program.processors.shape import bounded
from spdist.program.processors.text import ProcessorWriter
from spdist.program.registry import PROCESSORS
from spdist.program.running.running import Running
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.key_words import known_keys
from spdist.program.states.nodes import walked
from spdist.program.states.processor import ProcessorStates
from spdist.program.states.unique import load_keys
from spdist.program.timer_text import NEVER, PROCESSOR
from spdist.program.windows.kinds import Unique
from spdist.program.windows.unique_keys import UniqueKeys

__all__ = ["DeduplicateStates", "DeduplicateWriter", "Deduplicated"]


@PROCESSORS.typed("unique:deduplicate")
@dataclass(frozen=True, slots=True)
class Deduplicated(Processor):
    """``unique:deduplicate``: of events with one key none passes in an interval, in ms, behind another one."""

    unique: Unique
    interval: int

    @classmethod
    def of(
        cls, call: ast.FunctionCall, filters: tuple[ast.Expression | ast.StreamFunction, ...], scope: Scope
    ) -> Deduplicated:
        """Return what an app says; raises NotTyped."""
        key, (_, interval) = call.args[0], constant_values(call.args)
        places = {scope.resolve(node).attribute for node in key.walk() if isinstance(node, ast.Variable)}
        unique = Unique(key, type_of(key, scope, catalog(False)), tuple(sorted(places)))
        return cls(filters, unique, bounded(call, interval, least=0))

    @property
    def writer(self) -> type[DeduplicateWriter]:
        """What writes it."""
        return DeduplicateWriter

    @property
    def states(self) -> DeduplicateStates:
        """What knows its state."""
        return DeduplicateStates(self)

    @property
    def timed(self) -> bool:
        """Whether something is done when time passes."""
        return True

    @property
    def keyed_by(self) -> Unique | None:
        """What it keeps one of each key of."""
        return self.unique


class DeduplicateWriter(ProcessorWriter):
    """Writes what ``unique:deduplicate`` does.

    Notes
    -----
    Keys that passed have numbers; they stand in a list, ``q_pre_head``, in the order in which they passed.
    """

    @property
    def _deduplicated(self) -> Deduplicated:
        assert isinstance(self.processor, Deduplicated)
        return self.processor

    @property
    def _keys(self) -> UniqueKeys:
        return UniqueKeys(self.whole, self.query, self._deduplicated.unique, self._at)

    def _origins(self, count: int) -> tuple[tuple[str, int] | None, ...]:
        # What passes is as it came, so its attributes are still those of the source
        return self.block.origins[:count]

    def _most(self) -> Most:
        return self.block.most

    def _counts(self) -> None:
        super()._counts()
        self.whole.count(self._keys.room, self.block.most)

    def takes(self) -> list[str]:
        """Return what is done with an event."""
        assert self._timer is not None
        keys, timestamp = self._keys, self.timestamp
        head, last, passed, following = self._lists()
        block, number = self.block, keys.number
        source = f"{block.source}[{self._event}]" if block.source else self._event
        return [
            # By the event's own timestamp, not by the clock, as in the operator
            *self._forgets(timestamp),
            *keys.finds(self._key_writer(self._read.checked.scope))[0],
            f"if {passed}[{number}] != {NEVER}:",
            "    continue",
            f"{passed}[{number}], {following}[{number}] = {timestamp}, -1",
            f"if {head} < 0:",
            f"    {head} = {number}",
            "else:",
            f"    {following}[{last}] = {number}",
            f"{last} = {number}",
            self._timer.asks(f"{timestamp} + {self._deduplicated.interval}"),
            *self.lets_pass(self.attribute, timestamp, source),
        ]

    def _lists(self) -> tuple[str, str, str, str]:
        """Return source of the first and the last key that passed; the arrays of when each did, and of the next one."""
        arrays, prefix, room = self.whole.arrays, self.prefix, self._keys.room
        passed = arrays.declare(f"{prefix}_passed", NUMBER, room, NEVER)
        following = arrays.declare(f"{prefix}_following", NUMBER, room, "-1")
        return self.own("head", fill="-1"), self.own("head_end", fill="-1"), passed, following

    def _forgets(self, now: str) -> list[str]:
        """Return what forgets the keys that passed longest ago, up to the first that is still in its interval."""
        head, _, passed, following = self._lists()
        return [
            f"while {head} >= 0 and {now} - {passed}[{head}] > {self._deduplicated.interval}:",
            f"    low = {head}",
            f"    {head}, {passed}[low] = {following}[low], {NEVER}",
            f"    {self._keys.forgets('low')}",
        ]

    def wakes_with(self, query: Callable[[], list[str]]) -> list[str]:
        """Return what is done when the timer of a key is due; see `ProcessorWriter.wakes_with`."""
        assert self._timer is not None
        return self._timer.wakes(self._forgets("due"))


class DeduplicateStates(ProcessorStates):
    """The keys that passed, with when, and the wake-ups."""

    def fresh(self) -> Any:
        """Return the state of a stream processor that has seen nothing."""
        return [{}, []]

    def load_columns(self, running: Running, query: QueryText, front: QueryText, numbers: Any, states: Column) -> None:
        """Take over the keys that passed, of each key of a partition, and the wake-ups."""
        unique, prefix, (passed, dues) = front.unique, front.name, states.parts(2)
        assert unique is not None
        sizes, (keys, times) = passed.sizes(), passed.entries()
        found, arrays = load_keys(running, front, unique, keys, numpy.repeat(numbers, sizes)), running.arrays
        arrays[f"{prefix}_passed"][found] = numbers_of(times)[0]
        owners, ends = numbers[sizes > 0], numpy.cumsum(sizes)[sizes > 0]
        arrays[f"{prefix}_following"][found] = numpy.append(found[1:], -1)[: len(found)]
        arrays[f"{prefix}_following"][found[ends - 1]] = -1
        arrays[f"{prefix}_head"][owners] = found[ends - sizes[sizes > 0]]
        arrays[f"{prefix}_head_end"][owners] = found[ends - 1]
        load_dues(running, front, numbers, dues, PROCESSOR)

    def stored_columns(self, running: Running, front: QueryText, count: int) -> Column:
        """Return the keys that passed, of so many keys of a partition, and the wake-ups asked for."""
        unique, prefix, arrays = front.unique, front.name, running.arrays
        assert unique is not None
        sizes, order = walked(running, arrays[f"{prefix}_head"][:count], arrays[f"{prefix}_following"])
        times = NumberColumn(arrays[f"{prefix}_passed"][order])
        passed = MapColumn(NumberColumn(sizes), known_keys(running, front, unique, order), times)
        return StructColumn(list, [passed, stored_dues(running, front, count, PROCESSOR)])
