"""The window ``sort``: it holds the events that come first in an order of their attributes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import window
from spdist.java.order import place_of_real, place_of_text
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, Window, WindowSetting
from spdist.operators.core.parameters import INTEGER, is_constant

__all__ = ["SortWindow"]

_DIRECTIONS = {"asc": False, "desc": True}


class _NoPlace:
    """The place of null in an order: there is none, so what compares it fails."""

    def __lt__(self, other: object) -> bool:
        raise TypeError("'sort' cannot compare null with another value")

    __gt__ = __eq__ = __lt__
    __hash__ = None  # type: ignore[assignment]


def _of_text_descending(value: str) -> tuple[int, ...]:
    """Return the place of a text in the reverse order, in which what a text begins with is behind it."""
    # 1 is greater than every negated byte: it puts a text behind those that begin with it.
    return (*(-byte for byte in place_of_text(value)), 1)


#: From a value of each type to its place, ascending and descending; places compare as Java compares the values.
_PLACES: dict[Type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    Type.STRING: (place_of_text, _of_text_descending),
    Type.INT: (lambda value: value, lambda value: -value),
    Type.LONG: (lambda value: value, lambda value: -value),
    Type.FLOAT: (place_of_real, lambda value: -place_of_real(value)),
    Type.DOUBLE: (place_of_real, lambda value: -place_of_real(value)),
}


def _resolve(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...]) -> None:
    hint = "it is written as sort(window.length, attribute[, 'asc'|'desc'[, attribute, …]])"
    if len(types) > 2 and not isinstance(expressions[2], ast.Literal):
        raise SiddhiTypeError("'sort' needs 'asc' or 'desc' after the first of several attributes", hint=hint)
    if len(types) < 2 or types[0] not in INTEGER or not is_constant(expressions[0]):
        raise SiddhiTypeError("'sort' needs a constant int and at least one attribute", hint=hint)
    previous: ast.Expression = expressions[0]
    for type, expression in zip(types[1:], expressions[1:], strict=True):
        is_direction = isinstance(expression, ast.Literal) and isinstance(previous, ast.Variable)
        if is_direction and str(getattr(expression, "value", "")).lower() not in _DIRECTIONS:
            raise SiddhiTypeError("'sort' takes 'asc' or 'desc' after an attribute", hint=hint)
        if not is_direction and not (isinstance(expression, ast.Variable) and type in _PLACES):
            raise SiddhiTypeError("'sort' takes attributes that have an order", hint=hint)
        previous = expression


@window("sort", _resolve)
class SortWindow(Window):
    """Keep the ``window.length`` events that come first in the given order; what comes last expires.

    The new event is released before the one it pushes out, which may be the new event itself. Of equal events the one
    that came last is the last.

    State
    -----
    ``held``: at most ``window.length`` events, as they came until the first one is pushed out, then in order.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.SortWindowProcessor. Null has no place in the order: comparing
    it fails, and with it the event. Siddhi holds that event all the same, so that all events after it fail too and are
    held as well, without bound; here the window stays as it was.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[0]
        self._place: Callable[[Row], Any] = setting.prepared
        self.held: list[Arrival] = []
        #: Those of the events held, once they are in order.
        self._places: list[Any] | None = None

    @staticmethod
    def prepare(title: str, call: ast.FunctionCall, scope: Scope, catalog: Catalog) -> Callable[[Row], Any]:
        """Return what gives a row its place in the order; later attributes count where those before are equal."""
        schema = scope.sources[0].schema
        keys: list[tuple[int, Callable[[Any], Any]]] = []
        for number, argument in enumerate(call.args):
            if isinstance(argument, ast.Variable):
                follows = call.args[number + 1] if number + 1 < len(call.args) else None
                descending = isinstance(follows, ast.Literal) and _DIRECTIONS[str(follows.value).lower()]
                position = schema.names.index(argument.name)
                keys.append((position, _PLACES[schema.types[position]][descending]))
        if len(keys) > 1:
            return lambda row: tuple(
                _NoPlace() if row[position] is None else place(row[position]) for position, place in keys
            )
        ((position, place),) = keys
        return lambda row: _NoPlace() if row[position] is None else place(row[position])

    def process(self, timestamp: int, row: Row) -> None:
        """Release CURRENT(new), then EXPIRED(last in order) where the window is full."""
        self.process_chunk([(timestamp, row)])

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        for arrival in arrivals:
            chunk.append((CURRENT, *arrival))
            if len(self.held) < self.length:
                self.held.append(arrival)
            else:
                chunk.append((EXPIRED, self.clock.now, self._exchange(arrival)))
        self.emit(chunk)

    def _exchange(self, new: Arrival) -> Row:
        """Put an event into its place in the full window; return what is pushed out at the end."""
        places = self._places
        if places is None:
            places = self._order()
        place = self._place(new[1])
        # Fails here, before anything has changed, where a value is null.
        at = bisect_right(places, place)
        if at == len(places):
            return new[1]
        places.insert(at, place)
        self.held.insert(at, new)
        places.pop()
        return self.held.pop()[1]

    def _order(self) -> list[Any]:
        """Put the events held in order; return their places."""
        placed = [(self._place(row), (timestamp, row)) for timestamp, row in self.held]
        placed.sort(key=lambda held: held[0])
        self.held = [arrival for _, arrival in placed]
        self._places = [place for place, _ in placed]
        return self._places

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held."""
        return self.held

    def restore(self, state: Any) -> None:
        """Take over the events of a snapshot."""
        self.held = state
        self._places = None
