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
from operator import itemgetter
from typing import Any

from spdist.java.json.text import text_of_object
from spdist.java.numbers import text_of, text_of_float32
from spdist.java.objects import bucket_of, capacity_for
from spdist.java.order import place_of_real
from spdist.language.types import Schema, Type
from spdist.operators.base import Row

__all__ = ["KeyOrder", "key_of", "key_order"]


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The order of one table.

    Parameters
    ----------
    by_value : bool
        Whether it is that of the keys themselves.
    sort_value : callable
        From the values of a key to itself where it is `by_value`, else to what Siddhi hashes.
    """

    by_value: bool
    sort_value: Callable[[Any], Any]

    def rank(self, most: int) -> Callable[[Any], Any]:
        """Return what sorts values of keys, given in the order in which they came.

        Parameters
        ----------
        most : int
            How many rows the table ever held at a time.
        """
        sort_value = self.sort_value
        if self.by_value:
            return sort_value
        capacity = capacity_for(most)
        return lambda values: bucket_of(sort_value(values), capacity)


def key_order(schema: Schema, key: tuple[int, ...]) -> KeyOrder:
    """Return the order of a table with these attributes as its primary key, given by position."""
    types = [schema.types[position] for position in key]
    if len(types) == 1:
        return KeyOrder(types[0].numeric, place_of_real if types[0] in _REALS else lambda value: value)
    texts = [_TEXTS.get(kind, text_of) for kind in types]

    def whole(values: tuple[Any, ...]) -> str:
        return "".join(f"{text(value)}:-:" for text, value in zip(texts, values, strict=True))

    return KeyOrder(False, whole)


def key_of(schema: Schema, key: tuple[int, ...]) -> Callable[[Row], Any]:
    """Return what gives the key of a row: for reals their places, since NaN is one key, and the zeros are two."""
    values = itemgetter(*key)
    reals = [schema.types[position] in _REALS for position in key]
    if not any(reals):
        return values
    if len(key) == 1:
        return lambda row: None if row[key[0]] is None else place_of_real(row[key[0]])
    places = [place_of_real if real else None for real in reals]

    def placed(row: Row) -> Any:
        parts = zip(places, values(row), strict=True)
        return tuple(value if place is None or value is None else place(value) for place, value in parts)

    return placed


_REALS = (Type.FLOAT, Type.DOUBLE)
_TEXTS: dict[Type, Callable[[Any], str]] = {Type.FLOAT: text_of_float32, Type.OBJECT: text_of_object}
