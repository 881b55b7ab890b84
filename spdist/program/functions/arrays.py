"""The arrays of what functions give that are computed before the loop, and which of them a text asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spdist.language import ast
from spdist.program.arrays import TEXTS, Arrays
from spdist.program.expressions import FLAG, dtype_of
from spdist.program.functions.computed import Computed, ComputedAttribute, Guard, TextFunction, text_function
from spdist.program.shape import Shape

__all__ = ["FunctionArrays"]


class FunctionArrays:
    """What is computed before the loop.

    Parameters
    ----------
    shape : Shape
        The app's queries.
    arrays : Arrays
        Where arrays are declared.
    attribute : callable
        Takes note that an attribute of a source is read, given its stream and its place.
    """

    def __init__(self, shape: Shape, arrays: Arrays, attribute: Callable[[str, int], object]) -> None:
        self._shape = shape
        self._arrays = arrays
        self._attribute = attribute
        self._texts: dict[ast.FunctionCall, TextFunction] = {}
        self._computed: dict[tuple[str, tuple[int, ...], ast.FunctionCall], ComputedAttribute] = {}

    @property
    def of_texts(self) -> tuple[TextFunction, ...]:
        """The functions of one text."""
        return tuple(self._texts.values())

    @property
    def of_events(self) -> tuple[ComputedAttribute, ...]:
        """The functions of other attributes of a source."""
        return tuple(self._computed.values())

    def known(self, call: ast.FunctionCall) -> TextFunction | None:
        """Return a function of a text that was asked for before; None where it was not."""
        return self._texts.get(call)

    def of_text(self, function: Computed, origin: tuple[str, int], strict: bool) -> TextFunction:
        """Return a function of a text that is an attribute of a source.

        Parameters
        ----------
        function : Computed
            What computes it.
        origin : Origin
            The attribute.
        strict : bool
            Whether events cannot be lost in the loop.
        """
        call = function.call
        found = self._texts.get(call)
        if found is None:
            found = self._texts[call] = text_function(f"m{len(self._texts)}", function)
        self._arrays.declare(f"{found.name}_v", dtype_of(found.type), TEXTS)
        self._arrays.declare(f"{found.name}_s", FLAG, TEXTS)
        found.origins.add(origin)
        if strict:
            found.strict.add(origin)
        return found

    def of_event(
        self, function: Computed, origins: Sequence[tuple[str, int]], strict: bool, guard: Guard | None = None
    ) -> str:
        """Return the array of what a function gives for the events of a source.

        Parameters
        ----------
        function : Computed
            What computes it.
        origins : sequence of Origin
            The attributes of the source that are its arguments.
        strict : bool
            Whether events cannot be lost in the loop.
        guard : Guard, optional
            What an event has met where it is looked at.
        """
        stream, places = origins[0][0], tuple(place for _, place in origins)
        number, types = self._shape.sources.index(stream), self._shape.schemas[stream].types
        # One array for all queries that ask for the same function of the same attributes
        key = stream, places, function.call
        if key not in self._computed:
            name = f"i{number}_c{len(self._computed)}"
            given = tuple(types[place] for place in places)
            self._computed[key] = ComputedAttribute(name, stream, places, given, function)
        found = self._computed[key]
        found.looked_at(guard)
        # Python reads these in the arrays of the source, so the source must fill them
        for place in (*places, *(() if guard is None else guard.arguments)):
            self._attribute(stream, place)
        room = f"input {number}"
        self._arrays.declare(found.name, dtype_of(function.type), room)
        self._arrays.declare(f"{found.name}_n", FLAG, room)
        found.strict |= strict
        return found.name
