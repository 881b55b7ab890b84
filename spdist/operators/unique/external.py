"""The window ``unique:externalTimeBatch``: one event for each key in a period of a time attribute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from spdist.extension import window
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, NOT_NOW, RESET, Arrival, Event, Row, WindowSetting
from spdist.operators.core.parameters import INTEGER, PERIOD, TIME, Parameter, overloads
from spdist.operators.unique.keys import KEY, key_of, key_only
from spdist.operators.windows.external import ExternalTimeBatchWindow

__all__ = ["UniqueExternalTimeBatchWindow"]

_REQUIRED = (KEY, Parameter("time.stamp", frozenset({Type.LONG}), "attribute"), PERIOD)
_START = Parameter("start.time", INTEGER)
_TIMEOUT = Parameter("time.out", TIME)
_REPLACE = Parameter("replace.time.stamp.with.batch.end.time", frozenset({Type.BOOL}))


@window(
    "unique:externalTimeBatch",
    overloads(
        "unique:externalTimeBatch",
        _REQUIRED,
        (*_REQUIRED, _START),
        (*_REQUIRED, _START, _TIMEOUT),
        (*_REQUIRED, _START, _TIMEOUT, _REPLACE),
    ),
)
class UniqueExternalTimeBatchWindow(ExternalTimeBatchWindow):
    """Collect the last event of each key in a period of a time attribute; see `ExternalTimeBatchWindow`.

    State
    -----
    ``unique``, ``sent``: the open period and the one released last, by key.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueExternalTimeBatchWindowProcessor.
    """

    prepare = staticmethod(key_only)

    def __init__(self, setting: WindowSetting) -> None:
        # The parent's arguments begin behind the key.
        super().__init__(replace(setting, constants=setting.constants[1:], attributes=setting.attributes[1:]))
        self.key = key_of(setting)
        self.unique: dict[Any, Arrival] = {}
        self.sent: dict[Any, Arrival] = {}
        self.woken = False
        self.stores = setting.expects_expired or setting.findable

    def _calm_until(self) -> int:
        return NOT_NOW if self.unique else super()._calm_until()

    def _append(self, timestamp: int, row: Row) -> None:
        if self.reset is None:
            self.reset = row
        if self.replaces:
            row = (*row[: self.position], self.end, *row[self.position + 1 :])
        self.unique[self.key(timestamp, row)] = (timestamp, row)

    def _wake(self, due: int) -> None:
        self.woken = True
        try:
            super()._wake(due)
        finally:
            self.woken = False

    def _closing(self, *, again: bool) -> list[Event]:
        if again and not self.unique:
            return []
        now = self.newest
        expired = [(EXPIRED, now, row) for _, row in self.sent.values()] if self.expects_expired else []
        chunk: list[Event] = [*expired]
        going = {**self.sent, **self.unique} if again else self.unique
        if not again:
            self.sent = {}
        if self.unique:
            if self.reset is not None:
                chunk.append((RESET, now, self.reset))
            if not again:
                self.reset = None
            # What a timeout releases may have to be released once more.
            if self.woken or self.stores:
                self.sent = {**self.sent, **self.unique}
            chunk += [(CURRENT, timestamp, row) for timestamp, row in going.values()]
            self.unique = {}
        return chunk

    def contents(self) -> Iterable[Arrival]:
        """Yield the period released last."""
        return iter(self.sent.values())

    def snapshot(self) -> Any:
        """Return the periods and their times, and the wake-ups asked for."""
        return [super().snapshot(), self.unique, self.sent]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        times, self.unique, self.sent = state
        super().restore(times)
