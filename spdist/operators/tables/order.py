"""In which order a table with a primary key holds its rows: that of the map in which Siddhi keeps them.

Where the only key is a number that is a sorted map, else a hash map, which iterates bucket by bucket, and within one in
the order in which the keys came. It has as many buckets as its greatest size so far asked for. Several attributes are
one text there. Where Siddhi looks rows up by ``@Index`` their order is that of a set of objects without hash codes of
their own, which is another one in each run of a JVM; here they are in the order of the key, or of insertion.

Source: io.siddhi.core.table.holder.IndexEventHolder and java.util.HashMap, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spdist.java.json.text import text_of_object
from spdist.java.numbers import text_of, text_of_float32
from spdist.java.objects import bucket_of, capacity_for
from spdist.language.types import Schema, Type

__all__ = ["KeyOrder", "key_order"]


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The order of one table.

    Parameters
    ----------
    by_value : bool
        Whether it is that of the keys themselves.
    hashed : callable
        From a key to what Siddhi hashes.
    """

    by_value: bool
    hashed: Callable[[Any], Any]

    def rank(self, most: int) -> Callable[[Any], Any]:
        """Return what sorts keys, given in the order in which they came.

        Parameters
        ----------
        most : int
            How many rows the table ever held at a time.
        """
        hashed = self.hashed
        if self.by_value:
            return hashed
        capacity = capacity_for(most)
        return lambda key: bucket_of(hashed(key), capacity)


def key_order(schema: Schema, key: tuple[int, ...]) -> KeyOrder:
    """Return the order of a table with these attributes as its primary key, given by position."""
    types = [schema.types[position] for position in key]
    if len(types) == 1:
        return KeyOrder(types[0].numeric, lambda value: value)
    texts = [_TEXTS.get(kind, text_of) for kind in types]

    def whole(values: tuple[Any, ...]) -> str:
        return "".join(f"{text(value)}:-:" for text, value in zip(texts, values, strict=True))

    return KeyOrder(False, whole)


_TEXTS: dict[Type, Callable[[Any], str]] = {Type.FLOAT: text_of_float32, Type.OBJECT: text_of_object}
