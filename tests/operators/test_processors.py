"""Stream processors of users: state, timers and snapshots work as for those that are built in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog, stream_processor
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema, Type
from spdist.operators.base import Event
from spdist.operators.core.processors import ProcessorSetting, StreamProcessor


@stream_processor("test:held", lambda _schema, _types, _expressions: Schema.of([("number", Type.INT)]))
class Held(StreamProcessor):
    """Hold events for a time, and number them."""

    def __init__(self, setting: ProcessorSetting) -> None:
        super().__init__(setting)
        self.held: list[Event] = []
        self.number = 0
        self.timer = setting.timer(self._wake)

    def process_events(self, events: Sequence[Event]) -> None:
        for kind, timestamp, row in events:
            self.number += 1
            self.held.append((kind, timestamp, (*row, self.number)))
            self.timer.notify_at(self.clock.now + self.arguments(timestamp, row)[0])

    def _wake(self, _due: int) -> None:
        self.emit([self.held.pop(0)])

    def snapshot(self) -> Any:
        return [self.held, self.number, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        self.held, self.number, due = state
        self.timer.restore(due)


def test_a_users_processor_goes_on_from_a_snapshot() -> None:
    text = "define stream S (v int); from S#test:held(100) select v, number insert into Out;"
    out: list[Any] = []

    def made() -> LocalApp:
        app = LocalApp(check(parse(text), catalog(), text))
        app.subscribe("Out", lambda timestamp, row: out.append((timestamp, row)))
        return app

    first, second = made(), made()
    first.send("S", 1000, (7,))
    first.send("S", 1050, (8,))
    assert out == []
    second.restore(first.snapshot())
    second.send("S", 1120, (9,))
    second.advance(2000)
    assert out == [(1000, (7, 1)), (1050, (8, 2)), (1120, (9, 3))]
