"""The keys of a program of which there is one event each: those of ``unique:`` windows, and of stream processors.

A key has a number, and under it ``q_node``, the node of its event: -1 where none has come. ``q_place`` is the number of
a node's key.
"""

from __future__ import annotations

from spdist.language import ast
from spdist.language.types import Type
from spdist.program.expressions import NUMBER, NotTyped, TypedWriter, Value
from spdist.program.hash_text import hashed, hashed_text
from spdist.program.key_text import finds, key_word
from spdist.program.parts import QueryText, Whole, indent
from spdist.program.windows.kinds import JOINED, Unique

__all__ = ["UniqueKeys"]

_REALS = (Type.FLOAT, Type.DOUBLE)


class UniqueKeys:
    """The table of a window's keys.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query.
    unique : Unique
        What makes an event the only one.
    key : str
        Source of the number of the partition's key.
    """

    def __init__(self, whole: Whole, query: QueryText, unique: Unique, key: str) -> None:
        self._whole = whole
        self._unique = unique
        self._query = query
        self._key = key
        self._words = [key] if query.keyed is not None else []
        self._table = f"{query.name}_u_k"
        self._width = len(self._words) + 2
        self.room = f"groups {query.name}_u"
        #: Source of the number of the key of the event that comes.
        self.number = f"u{query.name}"
        self.node = whole.arrays.declare(f"{query.name}_node", NUMBER, self.room, "-1")
        self._places = f"{query.name}_place", f"nodes {query.name}"

    @property
    def place(self) -> str:
        """The array of the numbers of the keys of nodes."""
        name, room = self._places
        return self._whole.arrays.declare(name, NUMBER, room)

    def finds(self, writer: TypedWriter) -> tuple[list[str], Value]:
        """Return what finds the number of the key of the event that comes, and that key."""
        try:
            # Computed once, as its words and its hash are read several times
            value = writer.kept(writer.write(self._unique.key))
        except NotTyped as why:
            joined = isinstance(self._unique.key, ast.FunctionCall) and self._unique.key.id == JOINED
            raise NotTyped("unique keys that are no attributes of a source", why.span) if joined else why from None
        null = value.null
        words = [f"0 if {null} else {key_word(value)}" if null else key_word(value)]
        # As texts null and the text that is written for it are one key, and texts have numbers.
        alike = self._unique.type is Type.STRING and self._unique.as_text
        words.append(f"(1 if {null} else 0)" if null and not alike else "0")
        found = finds(self._whole.arrays, self._table, self.room, [*self._words, *words], self.number)
        return [*writer.lines, *found], value

    def listed(self, node: str) -> list[str]:
        """Return what puts the key of the event that comes into a list, where it is new: where it has no `node`.

        ``q_own`` and ``q_more`` are the numbers of the keys that came for each key of the partition, ``q_owned`` is how
        many.
        """
        own, number = self.of_key("own", "-1"), self.number
        more = self._whole.arrays.declare(f"{self._query.name}_more", NUMBER, self.room, "-1")
        news = [f"{more}[{number}], {own} = {own}, {number}", f"{self.of_key('owned')} += 1"]
        return [f"if {node} < 0:", *indent(news)]

    def of_key(self, name: str, first: str = "0") -> str:
        """Return source of a number that there is for each key of the partition."""
        array = self._whole.arrays.declare(f"{self._query.name}_{name}", NUMBER, self._query.instances, first)
        return f"{array}[{self._key}]"

    def forgets(self, number: str) -> str:
        """Return what forgets a key."""
        return f"release({self._whole.arrays.table(self._table, self._width, self.room)}, {number}, {self._width})"

    def hashed(self, value: Value) -> str:
        """Return source of Java's hash code of a key, without sign."""
        as_text = self._unique.as_text and value.type not in _REALS
        return hashed_text(self._whole, value) if as_text else hashed(self._whole, value)
