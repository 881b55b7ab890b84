"""The stream processor ``#unique:deduplicate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import stream_processor
from spdist.java.numbers import text_of
from spdist.language.ast import Expression
from spdist.language.types import Schema, Type
from spdist.operators.base import Event
from spdist.operators.core.parameters import is_constant
from spdist.operators.core.processors import ProcessorSetting, StreamProcessor

__all__ = ["Deduplicate"]


def _resolve(_schema: Schema, types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> Schema:
    # Siddhi fails on an int interval, though its signature allows one.
    if len(types) != 2 or types[0] is Type.OBJECT or types[1] is not Type.LONG or not is_constant(expressions[1]):
        raise SiddhiTypeError(
            "'unique:deduplicate' takes a key and a constant time",
            hint="it is written as #unique:deduplicate(key, 10 sec)",
        )
    return Schema(())


@stream_processor("unique:deduplicate", _resolve)
class Deduplicate(StreamProcessor):
    """Let an event pass where none with its key passed in the ``time.interval`` ms before it.

    State
    -----
    ``passed``: timestamps by key, in the order in which they passed: O(keys in an interval).

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.DeduplicateStreamProcessor.
    """

    def __init__(self, setting: ProcessorSetting) -> None:
        super().__init__(setting)
        self.interval: int = setting.constants[1]
        self.passed: dict[str, int] = {}
        self.timer = setting.timer(self._forget)

    def process_events(self, events: Sequence[Event]) -> None:
        """Let those events of a chunk pass whose key is new."""
        passing = []
        for event in events:
            timestamp = event[1]
            self._forget(timestamp)
            key = text_of(self.arguments(timestamp, event[2])[0])
            if key not in self.passed:
                self.passed[key] = timestamp
                self.timer.notify_at(timestamp + self.interval)
                passing.append(event)
        if passing:
            self.emit(passing)

    def _forget(self, now: int) -> None:
        """Forget the keys that passed longest ago, up to the first that is still in its interval."""
        while self.passed:
            key = next(iter(self.passed))
            if now - self.passed[key] <= self.interval:
                return
            del self.passed[key]

    def snapshot(self) -> Any:
        """Return what passed, and the wake-ups asked for."""
        return [self.passed, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.passed, due = state
        self.timer.restore(due)
