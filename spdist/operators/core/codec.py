"""State as bytes: typed, versioned, and never pickle, so that reading state can run no code.

Keeps apart what operators tell apart: tuples from lists, deques, sets, and dictionaries with keys of any plain type.

What is stored or handed to somebody else is *sealed*: a line in front of the bytes says what they are, in which format,
and which version of spdist wrote them; a checksum covers all of that line and all of the bytes.
"""

from __future__ import annotations

import functools
import gc
import re
import zlib
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgpack

from spdist.errors import StateError
from spdist.java.objects import Float, HashMap, HashSet, JSONArray, JSONObject, Long, Opaque
from spdist.operators.core.packed_columns import plain, unpacked
from spdist.operators.core.state_columns import Column, column_of

__all__ = ["VERSION", "decode", "encode", "seal", "unseal"]

#: Grows when an older reader could misread what this one writes.
VERSION = 1

_MAGIC = b"spdist-state"
#: ``spdist <kind> <format> <version of spdist> <checksum>``.
_SEAL = re.compile(rb"(spdist ([a-z]+) ([0-9]{1,9}) ([!-~]+) )([0-9a-f]{8})\n")
#: What 0.12 and earlier wrote begins so.
_UNSEALED = (_MAGIC, b'{"kind": ')
#: JSON can say half a character, so texts can hold it.
_HALVES = "surrogatepass"
_TUPLE, _DEQUE, _SET, _FROZENSET = 1, 2, 3, 4
_LONG, _FLOAT, _MAP, _JSON_OBJECT, _JSON_ARRAY, _OPAQUE, _DECIMAL, _INTEGER, _HASH_SET = range(5, 14)
#: 14 and 15 are what 0.33 has written for lists and dictionaries of tuples: columns, and keys with columns.
_TUPLES, _KEYED, _COLUMN = 14, 15, 16
#: Of so many lists or dictionaries there are columns, and of so many tuples, as windows and tables have them, which are
#: mostly of one shape; where there are fewer, each is looked through.
_MANY, _MANY_TUPLES = 64, 8
_HOLDERS = frozenset({list, tuple, deque, dict})

_CODES: dict[type, int] = {
    tuple: _TUPLE,
    deque: _DEQUE,
    set: _SET,
    frozenset: _FROZENSET,
    Long: _LONG,
    Float: _FLOAT,
    HashMap: _MAP,
    JSONObject: _JSON_OBJECT,
    JSONArray: _JSON_ARRAY,
    Opaque: _OPAQUE,
    Decimal: _DECIMAL,
    HashSet: _HASH_SET,
    int: _INTEGER,  # beyond 64 bits
}


def _map_of(made: HashMap, parts: list[Any]) -> HashMap:
    for key, value in parts[1]:
        made.put(key, value)
    made.capacity = parts[0]
    return made


_MAKERS: dict[int, Callable[[Any], Any]] = {
    **{code: kind for kind, code in _CODES.items() if code not in (_MAP, _JSON_OBJECT, _OPAQUE)},
    _MAP: lambda parts: _map_of(HashMap(), parts),
    _JSON_OBJECT: lambda parts: _map_of(JSONObject(), parts),
    _OPAQUE: lambda parts: Opaque(*parts),
    _TUPLES: lambda columns: list(zip(*columns, strict=True)),
    _KEYED: lambda parts: dict(zip(parts[0], zip(*parts[1], strict=True), strict=True)),
    _COLUMN: lambda parts: plain(unpacked(parts)),
}


def _by_columns(value: Any) -> Any:
    """Return what holds many lists or dictionaries as a column, and what holds few with these as columns.

    The packer asks for each of them by itself, which takes longer than to pack all that they hold.
    """
    kind = type(value)
    if kind not in _HOLDERS:
        return value
    held = list(value.values() if kind is dict else value)
    types = set(map(type, held))
    if _HOLDERS.isdisjoint(types):
        return value
    if len(held) >= (_MANY_TUPLES if types == {tuple} else _MANY):
        return column_of([value])
    if kind is dict:
        return dict(zip(value, map(_by_columns, held), strict=True))
    return list(map(_by_columns, held)) if kind is list else value


class _Encoder:
    """Packs one state. What lies in something that the format does not know is packed by itself, level by level.

    Parameters
    ----------
    errors : str
        What is done with half a character in a text, as in `str.encode`.

    State
    -----
    The packers of all levels: each begins with a buffer that takes longer to get than most values to pack.
    """

    def __init__(self, errors: str = "strict") -> None:
        self._errors = errors
        self._packers: list[msgpack.Packer] = []
        self._level = 0

    def whole(self, value: Any) -> bytes:
        """Return `value` as bytes of a state, which may be many."""
        packer = self._packer(autoreset=False)
        packer.pack(_by_columns(value))
        # From the packer's own buffer: a copy of it would be another copy of the whole state.
        return b"".join((_MAGIC, bytes([VERSION]), packer.getbuffer()))

    def _packer(self, autoreset: bool) -> msgpack.Packer:
        return msgpack.Packer(
            default=self._extend,
            strict_types=True,
            use_bin_type=True,
            unicode_errors=self._errors,
            autoreset=autoreset,
        )

    def pack(self, value: Any) -> bytes:
        """Return what is within a state as bytes."""
        if self._level == len(self._packers):
            self._packers.append(self._packer(autoreset=True))
        self._level += 1
        try:
            packed: bytes = self._packers[self._level - 1].pack(value)
        finally:
            self._level -= 1
        return packed

    def _extend(self, value: Any) -> msgpack.ExtType:
        if isinstance(value, Column):
            return _known_kind(_COLUMN, self.pack(value.packed()))
        code = _CODES.get(type(value))
        if code is None:
            raise StateError(
                f"a value of type {type(value).__name__} cannot be part of stored state",
                hint="object attributes may hold strings, numbers, booleans, lists, tuples, sets and dictionaries",
            )
        return _known_kind(code, self.pack(self._parts(value)))

    def _parts(self, value: Any) -> Any:
        """Return plain data that `value` can be made of again."""
        if type(value) is tuple:  # most of what there is
            return list(value)
        if isinstance(value, HashMap):
            # In the order in which keys came: that of the iteration follows from it and from the capacity.
            return _by_columns([value.capacity, value.history()])
        if isinstance(value, Opaque):
            return [value.java_class, value.text]
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, int):
            # What msgpack has room for: signed or unsigned 64 bits.
            return int(value) if -(2**63) <= value < 2**64 else str(value)
        # In one order, so that equal states are equal bytes whatever the order in which a process iterates.
        if type(value) in (set, frozenset):
            return sorted(value, key=self.pack)
        return list(map(_by_columns, value))


def _known_kind(code: int, data: bytes) -> msgpack.ExtType:
    """Return a value of a kind that is one: nothing is left to check."""
    return msgpack.ExtType._make((code, data))


def _revive(code: int, data: bytes) -> Any:
    maker = _MAKERS.get(code)
    if maker is None:
        raise StateError(f"stored state holds a value of the unknown kind {code}")
    return maker(_unpack(data))


def _revive_column(code: int, data: bytes) -> Any:
    """Make columns of what is one; of all else, and within them, values."""
    return unpacked(_unpack(data)) if code == _COLUMN else _revive(code, data)


def _unpack(data: bytes, revive: Callable[[int, bytes], Any] = _revive) -> Any:
    try:
        return msgpack.unpackb(data, ext_hook=revive, strict_map_key=False, raw=False)
    except UnicodeDecodeError:
        return msgpack.unpackb(data, ext_hook=revive, strict_map_key=False, raw=False, unicode_errors=_HALVES)


def encode(value: Any) -> bytes:
    """Return `value` as bytes that `decode` turns into an equal value of the same types.

    Parameters
    ----------
    value : Any
        None, bool, int, float, str, bytes, objects of `spdist.java.objects`, and lists, tuples, deques, sets and
        dictionaries of them.

    Raises
    ------
    StateError
        The value holds something else.
    """
    try:
        try:
            return _Encoder().whole(value)
        except UnicodeEncodeError:  # seldom, and slower for all texts
            return _Encoder(_HALVES).whole(value)
    except (OverflowError, ValueError, TypeError, RecursionError) as error:
        raise StateError(f"state cannot be stored: {error}") from error


def decode(data: bytes, columns: bool = False) -> Any:
    """Return what `encode` was given.

    Parameters
    ----------
    data : bytes
        What `encode` returned.
    columns : bool
        Whether what was packed by columns stays a `Column`, where nothing but lists and dictionaries are around it:
        `plain` makes values of it.

    Raises
    ------
    StateError
        The bytes are damaged, are no state, or were written by a newer version.
    """
    start = len(_MAGIC)
    if data[:start] != _MAGIC or len(data) <= start:
        raise StateError("these bytes are no state of spdist")
    if data[start] != VERSION:
        raise StateError(
            f"this state has format {data[start]}, this version of spdist reads format {VERSION}",
            hint="restore it with the version that wrote it",
        )
    collects = gc.isenabled()
    # Nothing of what is made is garbage, and to look for some again and again takes several times as long as to make it
    gc.disable()
    try:
        return _unpack(data[start + 1 :], _revive_column if columns else _revive)
    except StateError:
        raise
    except Exception as error:  # msgpack raises a dozen types for damaged input
        raise StateError(f"stored state is damaged: {error}") from error
    finally:
        if collects:
            gc.enable()


def seal(kind: str, format: int, *data: bytes) -> bytes:
    """Return the parts of `data` behind a line that tells what it is, with a checksum over all, for `unseal`.

    Parameters
    ----------
    kind : str
        What it is, in one word of lower-case letters.
    format : int
        Grows when an older reader could misread it.
    *data : bytes
        May be anything.
    """
    head = f"spdist {kind} {format} {_written_by()} ".encode()
    checksum = zlib.crc32(head)
    for part in data:
        checksum = zlib.crc32(part, checksum)
    return b"".join((head, b"%08x\n" % checksum, *data))


def unseal(kind: str, format: int, sealed: bytes, name: str) -> bytes:
    """Return what `seal` was given.

    Parameters
    ----------
    kind, format
        What is expected.
    sealed : bytes
        What was stored.
    name : str
        What the bytes are, for errors.

    Raises
    ------
    StateError
        They are damaged, something else, or in another format; says which version of spdist can read them.
    """
    found = _SEAL.match(sealed)
    if found is None:
        if sealed.startswith(_UNSEALED):
            raise _of_another_format(name, "0.12 or earlier", "does not tell its format", format)
        raise StateError(f"{name} is damaged: it does not begin as stored state does", hint=_ANOTHER)
    head, known, number, written_by, checksum = found.groups()
    data = sealed[found.end() :]
    if b"%08x" % zlib.crc32(data, zlib.crc32(head)) != checksum:
        raise StateError(f"{name} is damaged: its checksum is wrong", hint=_ANOTHER)
    if known != kind.encode():
        raise StateError(f"{name} is a {known.decode()}, not a {kind}", hint=_ANOTHER)
    if int(number) != format:
        raise _of_another_format(name, written_by.decode(), f"has format {int(number)}", format)
    return data


_ANOTHER = "restore another revision"


def _of_another_format(name: str, written_by: str, what: str, format: int) -> StateError:
    return StateError(
        f"{name} was written by spdist {written_by} and {what}; this version reads format {format}",
        hint=f"run spdist {written_by} to go on from it, restore a revision that this version has made, or move the "
        "state away to start anew",
    )


@functools.cache
def _written_by() -> str:
    try:
        return version("spdist")
    except PackageNotFoundError:  # run from its source
        return "unknown"
