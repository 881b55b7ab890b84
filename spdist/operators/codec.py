"""State as bytes: typed, versioned, and never pickle, so that reading state can run no code.

Keeps apart what operators tell apart: tuples from lists, deques, sets, and dictionaries with keys of any plain type.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgpack

from spdist.errors import StateError

__all__ = ["VERSION", "decode", "encode"]

#: Grows when an older reader could misread what this one writes.
VERSION = 1

_MAGIC = b"spdist-state"
_TUPLE, _DEQUE, _SET, _FROZENSET = 1, 2, 3, 4
_CODES: dict[type, int] = {tuple: _TUPLE, deque: _DEQUE, set: _SET, frozenset: _FROZENSET}
_MAKERS: dict[int, type] = {code: kind for kind, code in _CODES.items()}


def _pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, default=_extend, strict_types=True, use_bin_type=True)
    return packed


def _extend(value: Any) -> msgpack.ExtType:
    code = _CODES.get(type(value))
    if code is None:
        raise StateError(
            f"a value of type {type(value).__name__} cannot be part of stored state",
            hint="object attributes may hold strings, numbers, booleans, lists, tuples, sets and dictionaries",
        )
    # Sets in one order, so that equal states are equal bytes whatever the order in which a process iterates.
    parts = sorted(value, key=_pack) if isinstance(value, set | frozenset) else list(value)
    return msgpack.ExtType(code, _pack(parts))


def _revive(code: int, data: bytes) -> Any:
    maker = _MAKERS.get(code)
    if maker is None:
        raise StateError(f"stored state holds a value of the unknown kind {code}")
    return maker(_unpack(data))


def _unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=_revive, strict_map_key=False, raw=False)


def encode(value: Any) -> bytes:
    """Return `value` as bytes that `decode` turns into an equal value of the same types.

    Parameters
    ----------
    value : Any
        None, bool, int (64 bits), float, str, bytes, and lists, tuples, deques, sets and dictionaries of them.

    Raises
    ------
    StateError
        The value holds something else.
    """
    try:
        return _MAGIC + bytes([VERSION]) + _pack(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise StateError(f"state cannot be stored: {error}") from error


def decode(data: bytes) -> Any:
    """Return what `encode` was given.

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
    try:
        return _unpack(data[start + 1 :])
    except StateError:
        raise
    except Exception as error:  # msgpack raises a dozen types for damaged input
        raise StateError(f"stored state is damaged: {error}") from error
