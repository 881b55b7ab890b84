"""How a program finds the number of a key: in the text itself, where the key has few words and is known.

A function that is given the arrays of a table costs as much as ten such look-ups, so it is called for new keys only.
"""

from __future__ import annotations

from collections.abc import Sequence

from spdist.language.types import Type
from spdist.program.arrays import Arrays
from spdist.program.expressions import NUMBER, Value

__all__ = ["finds", "key_word", "key_words", "seeks"]

_MOST_WORDS = 3


def key_word(value: Value) -> str:
    """Return source of a value, which is not null, as a word of a key."""
    return f"key_bits({value.text})" if value.type in (Type.FLOAT, Type.DOUBLE) else value.text


def key_words(values: Sequence[Value]) -> list[str]:
    """Return source of the words of a key of several values: of each, and which of them are null.

    The last word is not there where all are texts: one that is null is the text of number 0.
    """
    words = [f"0 if {value.null} else {key_word(value)}" for value in values]
    nulls = [f"({1 << bit} if {one.null} else 0)" for bit, one in enumerate(values) if one.type is not Type.STRING]
    return [*words, *([" + ".join(nulls)] if nulls else [])]


def finds(arrays: Arrays, table: str, room: str, words: list[str], number: str) -> list[str]:
    """Return what sets `number` to the number of a key; a new key gets one.

    Parameters
    ----------
    arrays : Arrays
        Where the table is declared.
    table : str
        Its name.
    room : str
        What its numbers have a place for.
    words : list of str
        Source of the words of the key.
    number : str
        The name that gets the number.
    """
    width = len(words)
    new = [f"{number} = find({arrays.table(table, width, room)}, {_word(arrays, width)}, {width})"]
    if width > _MOST_WORDS:
        return [*_written(arrays, words), *new]
    names = [f"w{place}" for place in range(width)]
    return [
        *_looked_up(table, words, number),
        f"if {number} < 0:",
        *(f"    {line}" for line in (*_written(arrays, names), *new)),
    ]


def seeks(arrays: Arrays, table: str, room: str, words: list[str], number: str) -> list[str]:
    """Return what sets `number` to the number of a key, or -1 where it has none; for the parameters see `finds`."""
    width = len(words)
    arrays.table(table, width, room)
    if width <= _MOST_WORDS:
        return _looked_up(table, words, number)
    given = f"{table}_slots, {table}_keys, {table}_meta, {_word(arrays, width)}, {width}"
    return [*_written(arrays, words), f"{number} = known({given})"]


def _word(arrays: Arrays, width: int) -> str:
    """Return the array that has a key of so many words for functions."""
    return arrays.declare(f"word{width}", NUMBER, str(width))


def _written(arrays: Arrays, words: list[str]) -> list[str]:
    """Return what writes words into that array."""
    return [f"{_word(arrays, len(words))}[{place}] = {text}" for place, text in enumerate(words)]


def _looked_up(table: str, words: list[str], number: str) -> list[str]:
    """Return what looks a key of few words up."""
    width = len(words)
    names = [f"w{place}" for place in range(width)]
    alike = (f"{table}_keys[{width} * {number} + {place}] == {name}" for place, name in enumerate(names))
    return [
        *(f"{name} = {text}" for name, text in zip(names, words, strict=True)),
        f"slot = slot_{width}({table}_meta[3], {table}_meta[4], {', '.join(names)})",
        f"{number} = {table}_slots[slot]",
        # Linear probing: the key is there or behind, in front of the first free slot, of which there always are some
        f"while {number} >= 0 and not ({' and '.join(alike)}):",
        f"    slot = (slot + 1) & {table}_meta[4]",
        f"    {number} = {table}_slots[slot]",
    ]
