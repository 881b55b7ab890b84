"""The stream processor ``#reorder:akslack``: like ``kslack``, with a slack that is adapted to the values."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, sqrt
from statistics import NormalDist
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import stream_processor
from spdist.java.numbers import double_to_long
from spdist.language.ast import Expression
from spdist.language.types import Schema, Type
from spdist.operators.base import Event
from spdist.operators.core.parameters import is_constant
from spdist.operators.core.processors import ProcessorSetting
from spdist.operators.windows.reorder_kslack import KSlack, known_time

__all__ = ["WEIGHTS", "WINDOW_MS", "AlphaKSlack"]

_HINT = (
    "it is written as #reorder:akslack(timestamp, correlation.field[, batch.size[, timeout[, max.k"
    "[, discard.late.arrival[, error.threshold, confidence.level]]]]])"
)
_NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
_OPTIONS = (Type.LONG, Type.LONG, Type.LONG, Type.BOOL, Type.DOUBLE, Type.DOUBLE)
_DEFAULTS = (10_000, -1, -1, False, 0.03, 0.95)
#: Weights of the error and of its change, and the span of a window of events in ms.
WEIGHTS, WINDOW_MS = (0.5, 0.8), 10_000_000_000


def _resolve(_schema: Schema, types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> Schema:
    options = types[2:]
    fits = len(types) >= 2 and types[0] is Type.LONG and types[1] in _NUMBERS and len(options) in (0, 1, 2, 3, 4, 6)
    if not fits or options != _OPTIONS[: len(options)] or not all(map(is_constant, expressions[2:])):
        raise SiddhiTypeError(f"'reorder:akslack' does not take ({', '.join(map(str, types))})", hint=_HINT)
    return Schema(())


def _rounded(value: float) -> int:
    """Return the nearest whole number, halves upwards, held to the range of a long, as Java does."""
    if not isfinite(value):
        return double_to_long(value)
    whole = floor(value)
    return double_to_long(whole + (value - whole >= 0.5))


@stream_processor("reorder:akslack", _resolve)
class AlphaKSlack(KSlack):
    """Hold events back as `KSlack` does, by a k that is scaled by ``alpha``.

    After each ``batch.size`` events alpha is adapted: the values of ``correlation.field`` tell which share of a window
    must be covered for an error of at most ``error.threshold`` at ``confidence.level``, and the times of the events
    which share is covered. The timeout releases all that is held and old enough.

    State
    -----
    Besides that of `KSlack`: ``values`` of the open batch: O(batch.size); ``times`` of the events: those of about four
    months; ``alpha``, ``slack`` and the error before.

    Notes
    -----
    Source: io.siddhi.extension.execution.reorder.AlphaKSlackExtension, utils.WindowCoverage.
    """

    def __init__(self, setting: ProcessorSetting) -> None:
        given = (*setting.constants[2:], *_DEFAULTS[len(setting.constants) - 2 :])
        size, timeout, limit, discards, threshold, confidence = given
        super().__init__(setting)
        self.timeout, self.discards = timeout, bool(discards)
        self.limit = limit if limit != -1 else 2**63 - 1
        self.batch_size: int = size
        self.threshold: float = threshold
        critical = NormalDist().inv_cdf((1 - confidence) / 2)
        self.critical_squared = critical * critical
        self.values: list[float] = []
        self.times: list[int] = []
        self.counted = 0
        self.alpha = 1.0
        self.slack = 0
        self.before: list[float] = [0.0, 0.0]

    def process_events(self, events: Sequence[Event]) -> None:
        """Hold the events; release what is old enough as one chunk."""
        going: list[Event] = []
        for event in events:
            given, value = self.arguments(event[1], event[2])[:2]
            time = known_time(given)
            # Before late events are dropped: the estimate is over all that came.
            self.times.append(time)
            self.values.append(float(value))
            if self.discards and time < self.sent:
                continue
            self._wait_again()
            self.fresh.setdefault(time, []).append(event)
            self.counted += 1
            if self.counted > self.batch_size:
                self._adapt(time)
            if time > self.greatest:
                self.greatest = time
                span = time - min(self.fresh)
                if span > self.k:
                    self.k = _rounded(span * self.alpha) if span < self.limit else self.limit
                self._release(going)
        if going:
            self.emit(going)

    def _adapt(self, time: int) -> None:
        covered = self._covered(time) if self.slack else 1.0
        error = self._needed() - covered
        error_before, alpha_before = self.before
        self.alpha = abs(alpha_before + WEIGHTS[0] * error + WEIGHTS[1] * (error - error_before))
        self.before = [error, self.alpha]
        self.slack = min(_rounded(self.alpha * self.k), self.k)
        self.counted = 0
        self.values.clear()

    def _needed(self) -> float:
        """Return which share of a window must be covered."""
        # Added one after the other: `sum` rounds otherwise, from Python 3.12 on.
        size, total, squares = len(self.values), 0.0, 0.0
        for value in self.values:
            total += value
        mean = total / size
        for value in self.values:
            squares += (mean - value) * (mean - value)
        variance = squares / size
        if not mean * mean:
            return 0.0  # as where no share would do
        spread = self.critical_squared * (mean * mean + variance * variance) / (size * (mean * mean))
        low, high = 1 - self.threshold, 1 + self.threshold
        roots = []
        for linear, constant in (
            (2 * self.threshold - 2 - spread, low * low),
            (-(2 + 2 * self.threshold + spread), high * high),
        ):
            square = linear * linear - 4 * (1 + spread) * constant
            if square >= 0:
                roots.append((-linear - sqrt(square)) / (2 * (1 + spread)))
        return min(roots, default=0.0)

    def _covered(self, time: int) -> float:
        """Return which share of the window came before its end was passed, and forget what is older."""
        high = time - self.slack
        low = high - WINDOW_MS
        inside = covered = 0
        entered = passed = False
        for came in self.times:
            entered = entered or low <= came
            passed = passed or high <= came
            if entered and low <= came <= high:
                # Times stand in the order of arrival: what stands behind the first one past the end came too late.
                covered += not passed
                inside += 1
        self.times = [came for came in self.times if came > low]
        return covered / inside if inside else 1.0

    @property
    def _first_woken(self) -> int | None:
        return min((*self.held, *self.fresh), default=None)

    def _wake(self, due: int) -> None:
        going: list[Event] = []
        for kept in (self.held, self.fresh):
            for time in sorted(time for time in kept if time < self.timeout + due):
                going += kept.pop(time)
        self._wait_on(bool(self.held or self.fresh))
        if going:
            self.emit(going)

    def snapshot(self) -> Any:
        """Return the state of `KSlack`, and what the next adaption needs."""
        adapting = [self.values, self.times, self.counted, self.alpha, self.slack, self.before]
        return [super().snapshot(), adapting]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        held, adapting = state
        super().restore(held)
        self.values, self.times, self.counted, self.alpha, self.slack, self.before = adapting
