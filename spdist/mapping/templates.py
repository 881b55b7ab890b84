"""Texts with ``{{attribute}}`` in them: payloads, topics, and other options that differ from event to event."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.language.checking.scope import suggestion
from spdist.language.types import Schema
from spdist.mapping.values import writer_of

__all__ = ["Filled", "Template", "json_template"]

_PLACE = re.compile(r"\{\{([^{}]*)\}\}")
_QUOTED_PLACE = re.compile(r'"\{\{([^{}]*)\}\}"|\{\{([^{}]*)\}\}')

Writer = Callable[[Any], str]


class Filled(str):
    """A text that was made from a template, and knows what of it was written and what came with an event.

    Attributes
    ----------
    written : tuple of str
        The parts of the template around its places: one more than there are values.
    values : tuple of str
        What the event has put there.
    """

    __slots__ = ("values", "written")

    written: tuple[str, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, written: Sequence[str], values: Sequence[str]) -> Filled:
        """Return the text of parts and the values between them."""
        # There is one part more than there are values: the empty one pairs with the last part.
        made = cls("".join(chain.from_iterable(zip(written, (*values, ""), strict=True))))
        made.written, made.values = tuple(written), tuple(values)
        return made

    @property
    def sample(self) -> Filled:
        """The same template with a harmless word in each place, to see what of it is as it is written."""
        return Filled.of(self.written, ["any"] * len(self.values))


class Template:
    """A text whose ``{{attribute}}`` are replaced by an event's values.

    Parameters
    ----------
    text : str
        As written.
    schema : Schema
        The attributes there are.

    Raises
    ------
    SiddhiTypeError
        The text names an attribute that the stream does not have.
    """

    def __init__(self, text: str, schema: Schema) -> None:
        self._fixed: list[str] = []
        self._values: list[tuple[int, Writer]] = []
        end = 0
        for place in self._places(text):
            name, quoted = self._named(place)
            self._fixed.append(text[end : place.start()])
            self._values.append((_position(name, schema), self._writer(name, schema, quoted)))
            end = place.end()
        self._fixed.append(text[end:])

    def _places(self, text: str) -> list[re.Match[str]]:
        return list(_PLACE.finditer(text))

    def _named(self, place: re.Match[str]) -> tuple[str, bool]:
        return place[1], False

    def _writer(self, name: str, schema: Schema, quoted: bool) -> Writer:
        return writer_of(schema.types[_position(name, schema)])

    @property
    def varies(self) -> bool:
        """Whether the text differs from event to event."""
        return bool(self._values)

    def fill(self, row: tuple[Any, ...]) -> str:
        """Return the text for one event."""
        parts = [self._fixed[0]]
        for (position, write), fixed in zip(self._values, self._fixed[1:], strict=True):
            parts += (write(row[position]), fixed)
        return "".join(parts)

    @property
    def sample(self) -> str:
        """The text with a harmless word in each place; one that does not vary is as it was written."""
        return Filled.of(self._fixed, ["any"] * len(self._values)) if self.varies else self._fixed[0]

    def filled(self, row: tuple[Any, ...]) -> Filled:
        """Return the same as `fill`, as a text that knows what came from the event."""
        return Filled.of(self._fixed, [write(row[position]) for position, write in self._values])


class _JsonTemplate(Template):
    """A JSON text: what stands alone between double quotes is written as a JSON string, and null as null."""

    def _places(self, text: str) -> list[re.Match[str]]:
        return list(_QUOTED_PLACE.finditer(text))

    def _named(self, place: re.Match[str]) -> tuple[str, bool]:
        return (place[1], True) if place[1] is not None else (place[2], False)

    def _writer(self, name: str, schema: Schema, quoted: bool) -> Writer:
        write = super()._writer(name, schema, quoted)
        # Within a longer text, or without quotes in the template, a value stands as it is.
        if not quoted:
            return write
        return lambda value: "null" if value is None else json.dumps(write(value), ensure_ascii=False)


def json_template(text: str, schema: Schema) -> Template:
    """Return a template whose text is JSON, so that values with quotes, or null, leave it valid."""
    return _JsonTemplate(text, schema)


def _position(name: str, schema: Schema) -> int:
    position = schema.index(name)
    if position is None:
        raise SiddhiTypeError(
            f"there is no attribute '{name}' for '{{{{{name}}}}}'", hint=suggestion(name, schema.names)
        )
    return position
