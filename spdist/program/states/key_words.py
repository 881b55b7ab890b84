"""Keys as the words of a table, and back: numbers, bools and texts by number as they are, reals by their bits.

Values are one key where Java writes them alike: so all that are not a number are one, and 0.0 is another one than -0.0.
Where operators have a key as text, it is Java's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.java.numbers import float32, text_of, text_of_float32
from spdist.java.objects import box_float
from spdist.language.types import Type
from spdist.operators.core.state_columns import Column, ValueColumn
from spdist.program.parts import QueryText
from spdist.program.running.rooms import Rooms
from spdist.program.windows.kinds import Unique

__all__ = [
    "key_numbers",
    "key_owners",
    "key_texts",
    "keys_of_texts",
    "known_keys",
    "real_key",
    "real_values",
    "real_words",
    "spread_hashes",
    "words_of",
    "words_of_keys",
]

_REALS = (Type.FLOAT, Type.DOUBLE)


def real_words(values: Any) -> Any:
    """Return reals as words."""
    # NaN has many bit patterns, of which one stands for all
    whole = numpy.asarray(values, numpy.float64)
    return numpy.where(numpy.isnan(whole), math.nan, whole).view(numpy.int64)


def real_values(words: Any) -> Any:
    """Return the reals with these words."""
    return numpy.ascontiguousarray(words).view(numpy.float64)


def words_of(values: Any, nulls: Any, type: Type) -> Any:
    """Return values of a program as words; 0 where they are null."""
    words = real_words(values) if type in _REALS else numpy.asarray(values).astype(numpy.int64)
    return numpy.where(nulls, 0, words)


def real_key(text: str) -> float | None:
    """Return the real that Java writes so as the key of a group; None for null."""
    return None if text == "null" else float(text)


def spread_hashes(running: Rooms, texts: Any, nulls: Any) -> Any:
    """Return all bits of `spdist.java.objects.bucket_of`, of texts by their numbers; 0 where they are null."""
    codes = numpy.empty(len(texts), numpy.int64)
    running.compiled.kernels.text_hashes(running.texts.starts, running.texts.arena, texts, codes)
    return numpy.where(nulls, 0, codes ^ (codes >> 16))


def key_numbers(running: Rooms, table: str, words: Any) -> Any:
    """Return the numbers of keys; new ones get one."""
    arrays = running.arrays
    found = numpy.empty(len(words), numpy.int64)
    running.compiled.hash_tables.find_all(
        *(arrays[f"{table}_{part}"] for part in ("slots", "keys", "meta", "after")),
        numpy.ascontiguousarray(words).reshape(-1),
        words.shape[1],
        numpy.empty(words.shape[1], numpy.int64),
        found,
    )
    return found


def key_owners(running: Rooms, query: QueryText, table: str) -> tuple[Any, Any]:
    """Return the numbers of all keys in a table, and the number of the partition's key of each."""
    slots = running.arrays[f"{table}_slots"]
    numbers = numpy.sort(slots[slots >= 0])
    if query.keyed is None:
        return numbers, numpy.zeros(len(numbers), numpy.int64)
    return numbers, words_of_keys(running, table, numbers)[:, 0]


def words_of_keys(running: Rooms, table: str, numbers: Any) -> Any:
    """Return the words of the keys with these numbers in a table; in a partition the first is the number of its key."""
    return running.arrays[f"{table}_keys"].reshape(-1, running.program.arrays.tables[table].width)[numbers]


# Keys of partitions: texts, whatever the type.


def keys_of_texts(running: Rooms, keys: Sequence[str], type: Type) -> Any:
    """Return the keys of a partition as words."""
    if type is Type.STRING:
        return running.texts.numbers(pa.array(keys, pa.string())).astype(numpy.int64)
    if type in _REALS:
        # The shortest text of a float names another double, which is rounded to the float again
        reals = [float32(float(key)) if type is Type.FLOAT else float(key) for key in keys]
        return real_words(numpy.array(reals, numpy.float64))
    return numpy.array([key == "true" if type is Type.BOOL else int(key) for key in keys], numpy.int64)


def key_texts(running: Rooms, words: Any, type: Type) -> list[str]:
    """Return words as the keys of a partition."""
    if type is Type.STRING:
        found: list[str] = running.texts.texts(words).to_pylist()
        return found
    if type in _REALS:
        written = text_of_float32 if type is Type.FLOAT else text_of
        return [written(value) for value in real_values(words).tolist()]
    return [text_of(bool(word) if type is Type.BOOL else word) for word in words.tolist()]


# Keys of which a window has one event each.


def known_keys(running: Rooms, query: QueryText, unique: Unique, numbers: Any) -> Column:
    """Return the keys with these numbers."""
    words = words_of_keys(running, f"{query.name}_u_k", numbers)
    type = Type.DOUBLE if unique.type in _REALS else unique.type
    own = words[:, -2]
    keys = running.values.stored(real_values(own) if type is Type.DOUBLE else own, words[:, -1], type)
    if unique.as_text and not (type is Type.STRING and keys.known().all()):
        return ValueColumn(list(map(text_of, keys.values())))
    return ValueColumn(list(map(box_float, keys.values()))) if unique.type is Type.FLOAT else keys
