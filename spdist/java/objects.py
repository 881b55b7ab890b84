"""Java's objects in Python: what lists and maps of SiddhiQL hold, compare and write.

An object attribute keeps apart what Python takes for equal: an Integer 1 is neither a Long 1 nor a Double 1.0, as a
member of a list or as a key of a map. A plain ``int`` is an Integer where it fits 32 bits (else a Long), a plain
``float`` a Double; a Long that would fit and a Float have classes of their own, which calculate as numbers do. A plain
list is a ``LinkedList`` or ``ArrayList``, a plain dictionary a ``LinkedHashMap``; `HashMap` iterates as Java's does.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from spdist.java.numbers import INT_MAX, INT_MIN, float32, text_of_float32

__all__ = [
    "Float",
    "HashMap",
    "HashSet",
    "JSONArray",
    "JSONObject",
    "Long",
    "MapKey",
    "Opaque",
    "box_float",
    "box_long",
    "bucket_of",
    "capacity_for",
    "concurrent_capacity",
    "concurrent_order",
    "entries",
    "hash_of",
    "is_integer",
    "is_long",
    "same",
    "set_order",
    "unbox",
]


class Long(int):
    """A ``java.lang.Long`` that would fit an Integer."""

    __slots__ = ()


class Float(float):
    """A ``java.lang.Float``."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_of_float32(float(self))


def box_long(value: int | None) -> int | None:
    """Return the value of a ``long`` expression as an object."""
    return Long(value) if value is not None and INT_MIN <= value <= INT_MAX else value


def box_float(value: float | None) -> float | None:
    """Return the value of a ``float`` expression as an object."""
    return None if value is None else Float(float32(value))


def unbox(value: Any) -> Any:
    """Return an object as the plain value of an attribute that is no object."""
    if type(value) is Long:
        return int(value)
    return float(value) if type(value) is Float else value


def is_integer(value: Any) -> bool:
    """Tell whether an object is an Integer."""
    return type(value) is int and INT_MIN <= value <= INT_MAX


def is_long(value: Any) -> bool:
    """Tell whether an object is a Long."""
    return type(value) is Long or (type(value) is int and not INT_MIN <= value <= INT_MAX)


class Opaque:
    """An object of Java that SiddhiQL only passes on: its class and how it writes itself."""

    __slots__ = ("java_class", "text")

    def __init__(self, java_class: str, text: str) -> None:
        self.java_class = java_class
        self.text = text

    def __eq__(self, other: object) -> bool:
        return type(other) is Opaque and (self.java_class, self.text) == (other.java_class, other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


# --- equality and hash codes -------------------------------------------------------------------------------------


def same(left: Any, right: Any) -> bool:
    """Return ``left.equals(right)``; null equals null only."""
    kind = type(left)
    if kind is type(right):
        if kind is float or kind is Float:
            # As bits, but for NaN, which has many and equals itself: the zeros differ.
            return (left != left and right != right) or struct.pack("<d", left) == struct.pack("<d", right)
        if kind is str or kind is int or kind is bool or kind is Long or left is None:
            return bool(left == right)
    if isinstance(left, list | tuple):
        return isinstance(right, list | tuple) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping):
        if not isinstance(right, Mapping) or len(left) != len(right):
            return False
        # As keys of a plain dictionary an Integer 1 and a Long 1 would be one
        others = {_key_of(key): value for key, value in entries(right)}
        return all(key in others and same(value, others[key]) for key, value in _keyed(left))
    if isinstance(left, set | frozenset) and isinstance(right, set | frozenset):
        return {_key_of(value) for value in left} == {_key_of(value) for value in right}
    return kind is type(right) and bool(left == right)


@lru_cache(maxsize=65536)
def _hash_of_text(text: str) -> int:
    code = 0
    for character in text:
        # String.hashCode runs over units of UTF-16, of which such a character has two
        if character > "\uffff":
            point = ord(character) - 0x10000
            for unit in (0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF)):
                code = (31 * code + unit) & 0xFFFF_FFFF
        else:
            code = (31 * code + ord(character)) & 0xFFFF_FFFF
    return code


def hash_of(value: Any) -> int:
    """Return ``value.hashCode()`` as an unsigned number of 32 bits; 0 for null."""
    if value is None:
        return 0
    if isinstance(value, str):
        return _hash_of_text(value)
    # In front of the numbers, as a bool is an int in Python; these are the codes of Boolean.hashCode
    if value is True or value is False:
        return 1231 if value else 1237
    if isinstance(value, int):
        whole = int(value)
        # Java's >>> brings in zeros, Python's >> the sign: the low 32 bits are the same
        return (whole ^ (whole >> 32)) & 0xFFFF_FFFF if is_long(value) else whole & 0xFFFF_FFFF
    if isinstance(value, Float):
        return int(struct.unpack("<I", struct.pack("<f", value if value == value else math.nan))[0])
    if isinstance(value, float):
        # All NaNs have one code: Double.hashCode takes doubleToLongBits, which knows one NaN only
        low, high = struct.unpack("<II", struct.pack("<d", value if value == value else math.nan))
        return int(low ^ high)
    if isinstance(value, Mapping):
        # A sum, so that the order of the entries does not matter
        return sum(hash_of(key) ^ hash_of(part) for key, part in entries(value)) & 0xFFFF_FFFF
    if isinstance(value, set | frozenset):
        return sum(map(hash_of, value)) & 0xFFFF_FFFF
    if isinstance(value, list | tuple):
        code = 1
        for part in value:
            code = (31 * code + hash_of(part)) & 0xFFFF_FFFF
        return code
    return hash(value) & 0xFFFF_FFFF


def bucket_of(key: Any, capacity: int) -> int:
    """Return the bucket of a key in a ``java.util.HashMap`` of `capacity` buckets, which iterates bucket by bucket."""
    code = hash_of(key)
    # HashMap.hash mixes the upper half in, as only the low bits choose the bucket
    return (code ^ (code >> 16)) & (capacity - 1)


def capacity_for(size: int) -> int:
    """Return how many buckets a ``java.util.HashMap`` has that held up to `size` keys."""
    capacity = 16
    while size > capacity * 0.75:
        capacity *= 2
    return capacity


def concurrent_capacity(size: int) -> int:
    """Return how many buckets a ``java.util.concurrent.ConcurrentHashMap`` has that held up to `size` keys."""
    capacity = 16
    # Other than a HashMap it grows when it reaches three quarters, not when it exceeds them
    while size >= capacity * 0.75:
        capacity *= 2
    return capacity


def concurrent_order(keys: Iterable[Any]) -> list[Any]:
    """Return keys in the order of a ``java.util.concurrent.ConcurrentHashMap``.

    It has other sizes than a ``HashMap``; where its buckets are parted, all but the last ones that go to one side turn
    round.

    Parameters
    ----------
    keys : iterable
        In the order in which they came; none has left since.
    """
    buckets: list[list[tuple[int, Any]]] = [[] for _ in range(16)]
    for size, key in enumerate(keys, 1):
        # ConcurrentHashMap.spread keeps 31 bits of the mixed code
        code = bucket_of(key, 1 << 31)
        buckets[code & (len(buckets) - 1)].append((code, key))
        if size >= len(buckets) * 0.75:
            parted = [_parted(bucket, len(buckets)) for bucket in buckets]
            buckets = [low for low, _ in parted] + [high for _, high in parted]
    return [key for bucket in buckets for _, key in bucket]


def set_order(keys: Collection[Any]) -> list[Any]:
    """Return keys in the order of a ``java.util.HashSet`` that a ``ConcurrentHashMap`` was copied to; see there."""
    # `new HashSet(collection)` asks for size / 0.75 + 1 buckets, at least 16, and gets the next power of two
    capacity = 1 << max(15, int(len(keys) / 0.75)).bit_length()
    return sorted(concurrent_order(keys), key=lambda key: bucket_of(key, capacity))


def _parted(bucket: list[tuple[int, Any]], bit: int) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
    # ConcurrentHashMap.transfer hands on the longest end of a bucket that goes to one side as it is,
    # and puts the entries before that one by one in front
    end = len(bucket)
    while end and not (bucket[end - 1][0] ^ bucket[-1][0]) & bit:
        end -= 1
    turned = [*bucket[:end][::-1], *bucket[end:]]
    return [entry for entry in turned if not entry[0] & bit], [entry for entry in turned if entry[0] & bit]


# --- maps --------------------------------------------------------------------------------------------------------


class MapKey:
    """A key of a map that Python would mix up with another: a Long, a fraction, a boolean, or a collection."""

    __slots__ = ("value",)

    #: Writes a key as text: set by `spdist.java.json.text`, which stands above.
    text_of: ClassVar[Callable[[Any], str]] = repr

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is MapKey and same(self.value, other.value)

    def __hash__(self) -> int:
        return hash_of(self.value)

    def __repr__(self) -> str:
        return type(self).text_of(self.value)


def _key_of(value: Any) -> Any:
    kind = type(value)
    return value if kind is str or kind is int or value is None or kind is MapKey else MapKey(value)


def _value_of(key: Any) -> Any:
    return key.value if type(key) is MapKey else key


class HashMap(dict[Any, Any]):
    """A ``java.util.HashMap``: keys of different classes differ, and it iterates by their hash codes.

    Parameters
    ----------
    entries : iterable of tuple
        Keys and values to begin with.
    """

    __slots__ = ("_capacity",)

    def __init__(self, entries: Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__()
        self._capacity = 0
        for key, value in entries:
            self.put(key, value)

    @classmethod
    def copy_of(cls, other: Mapping[Any, Any]) -> HashMap:
        """Return a map of the same entries, sized as ``new HashMap(Map)`` sizes it."""
        copy = cls()
        copy.put_all(other)
        return copy

    @property
    def capacity(self) -> int:
        """How many buckets the table has: 0 before the first entry, never less than it once needed."""
        return self._capacity

    @capacity.setter
    def capacity(self, buckets: int) -> None:
        self._capacity = buckets

    def reserve(self, size: int) -> None:
        """Make the table large enough for `size` entries that are about to come."""
        # HashMap.putMapEntries sizes a table that is not there yet for the other map alone
        if not self._capacity and size:
            self._capacity = 1
            while self._capacity < int(size / 0.75 + 1):
                self._capacity *= 2
        while size > self._capacity * 0.75:
            self._capacity *= 2

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        super().__setitem__(_key_of(key), value)
        self._capacity = self._capacity or 16
        while len(self) > self._capacity * 0.75:
            self._capacity *= 2

    def put_all(self, other: Mapping[Any, Any]) -> None:
        """Set the values of all keys of another map."""
        self.reserve(len(other))
        for key, value in entries(other):
            self.put(key, value)

    def find(self, key: Any, missing: Any = None) -> Any:
        """Return the value of a key, or `missing` where there is none."""
        return super().get(_key_of(key), missing)

    def has(self, key: Any) -> bool:
        """Tell whether there is a key."""
        return super().__contains__(_key_of(key))

    def take(self, key: Any) -> None:
        """Remove a key, if it is there."""
        super().pop(_key_of(key), None)

    def history(self) -> list[tuple[Any, Any]]:
        """Return keys and values in the order in which the keys came."""
        # In a comprehension, a function of its own, `super` needs its arguments
        return [(_value_of(key), super(HashMap, self).__getitem__(key)) for key in super().__iter__()]

    def _order(self) -> list[Any]:
        keys = list(super().__iter__())
        if len(keys) > 1:
            # Sorting is stable: within a bucket keys stay in the order in which they came, as in Java's linked list
            keys.sort(key=lambda key: bucket_of(_value_of(key), self._capacity))
        return keys

    def __iter__(self) -> Iterator[Any]:
        return iter(self._order())

    def keys(self) -> list[Any]:  # type: ignore[override]
        """Return the keys in Java's order."""
        return self._order()

    def items(self) -> list[tuple[Any, Any]]:  # type: ignore[override]
        """Return keys and values in Java's order."""
        return [(key, super(HashMap, self).__getitem__(key)) for key in self._order()]

    def values(self) -> list[Any]:  # type: ignore[override]
        """Return the values in Java's order."""
        return [super(HashMap, self).__getitem__(key) for key in self._order()]

    def __reduce__(self) -> tuple[Any, ...]:
        # The values of slots as pickle and copy set them: a map that has shrunk keeps its table, and so its order
        return type(self), (entries(self),), (None, {"_capacity": self._capacity})


class HashSet(set[Any]):
    """A ``java.util.HashSet`` that is made once and not changed: it iterates by the hash codes of its members.

    Parameters
    ----------
    members : iterable
        What it holds, in the order in which it came.
    """

    __slots__ = ("_order",)

    def __init__(self, members: Iterable[Any] = ()) -> None:
        self._order = [key for key, _ in entries(HashMap((member, None) for member in members))]
        super().__init__(self._order)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._order)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._order,)


class JSONObject(HashMap):
    """A map that writes itself as JSON, as ``json:toObject`` makes it."""

    __slots__ = ()


class JSONArray(list[Any]):
    """A list that writes itself as JSON."""

    __slots__ = ()


def entries(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Return keys and values of a map of either kind, in its order."""
    return [(_value_of(key), value) for key, value in mapping.items()]


def _keyed(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(_key_of(key), value) for key, value in mapping.items()]
