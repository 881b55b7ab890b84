"""Named windows: a window that queries write to, read from and look into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spdist.extension import catalog, find
from spdist.language import ast
from spdist.language.checking.expressions import written_out
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.types import Schema
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, WindowSetting
from spdist.operators.core.arguments import prepared_window
from spdist.operators.core.junction import ObserverFailed
from spdist.operators.core.parameters import attribute_positions, constant_values
from spdist.operators.queries.plans import Place, ReceiveEvents
from spdist.operators.windows.store import WindowStore

__all__ = ["NamedWindow"]


_KINDS: Final = {"current": (CURRENT,), "expired": (EXPIRED,), "all": (CURRENT, EXPIRED)}


class NamedWindow(WindowStore):
    """``define window W (…) length(5) output all events``: one window of the app, shared by all queries.

    Writers insert chunks; what they insert is a new event here, also where it had expired elsewhere. Each chunk that
    the window releases goes to the readers in the order of the text, with the kinds of events that ``output`` names. A
    RESET stays inside: readers of batches count the batch before off, event by event.

    Parameters
    ----------
    definition : WindowDefinition
        As written.
    schema : Schema
        Of its rows.
    rank : tuple[int, int]
        Of its timer.
    place : Place
        The app.
    joined : bool
        Whether a join looks into it. A batch window that puts out current events only keeps its batch just for that.

    Attributes
    ----------
    readable : bool
        Whether it keeps what it holds for others to look at.

    State
    -----
    That of the window.

    Notes
    -----
    Source: io.siddhi.core.window.Window.
    """

    def __init__(
        self,
        definition: ast.WindowDefinition,
        schema: Schema,
        rank: tuple[int, int],
        place: Place,
        joined: bool = True,
    ) -> None:
        assert definition.window is not None
        scope = Scope((AttributeSource(definition.name, definition.name, schema),))
        call = written_out(definition.window, scope)
        self.id = definition.name
        self.failures = place.failures
        self.observers: list[ReceiveEvents] = []
        self._receivers: list[ReceiveEvents] = []
        self._kinds = _KINDS[definition.output or "all"]
        window = find("window", call.id).implementation
        setting = WindowSetting(
            constants=constant_values(call.args),
            attributes=attribute_positions(call.args, schema.names),
            expects_expired=definition.output != "current",
            clock=place.clock,
            timer=lambda wake: place.timer(rank, wake),
            emit=self._publish,
            findable=joined,
            selected=tuple(range(len(schema))),
            prepared=prepared_window(definition.name, call, scope, catalog()),
        )
        super().__init__(window, setting, schema)
        keeps = joined or definition.output != "current" or bool(window.slides) or self.window.keeps
        self.readable = window.findable and keeps

    def subscribe(self, receive: ReceiveEvents) -> None:
        """Add a reader, after those already there."""
        self._receivers.append(receive)

    def deliver(self, arrivals: Sequence[Arrival]) -> None:
        """Hand events to the readers past the window, as Siddhi does with what is sent to it from outside."""
        self._publish([(CURRENT, timestamp, row) for timestamp, row in arrivals])

    def _publish(self, chunk: list[Event]) -> None:
        shown = [event for event in chunk if event[0] in self._kinds]
        if not shown:
            return
        try:
            for receive in self._receivers:
                receive(shown)
        # As at a stream, the readers behind the one that failed do not see the chunk.
        except Exception as error:
            self.failures.add(f"window '{self.id}'", [(timestamp, row) for _, timestamp, row in shown], error)
            return
        try:
            for observer in self.observers:
                observer(shown)
        except Exception as error:
            raise ObserverFailed(error) from error
