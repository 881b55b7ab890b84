"""The exact order of what one event causes, also where it is spread over groups and brought together again.

On one machine an event is processed depth first: what it causes, and what that causes, before the next event. A *path*
says where in this tree an event is: the number of an output among all that the same cause had in its group, then the
number of an output caused by that, and so on. Written so that comparing `sort_key` of paths as bytes gives that order:

- of two outputs of one cause the earlier comes first, together with everything it causes;
- an event comes after everything it causes: a query that reads both a stream and what another query makes of it stands
  behind that other query, so the other query's output reaches it first.
"""

from __future__ import annotations

__all__ = ["MAX_PATH_BYTES", "child", "next_sibling", "sort_key"]

#: Paths grow by a byte or so per group on the way. Where groups form a circle they stop growing here.
MAX_PATH_BYTES = 64
#: Numbers below this are one byte; above, a byte that tells their length goes before them.
_SMALL = 0xF0
_END = b"\xff"
_SMALL_NUMBERS = tuple(bytes([number]) for number in range(_SMALL))


def sort_key(path: bytes) -> bytes:
    """Return the bytes by which paths are compared."""
    return path + _END


def child(path: bytes, number: int) -> bytes:
    """Return the path of output `number`, from 0, that the event at `path` caused in one group."""
    if len(path) >= MAX_PATH_BYTES:
        return path
    return path + (_SMALL_NUMBERS[number] if number < _SMALL else _large(number))


def next_sibling(path: bytes) -> bytes:
    """Return the path of the output after the one at `path`, of the same cause; `path` is no source's event."""
    parent, last, position = 0, 0, 0
    while position < len(path):
        parent, last, width = position, path[position], path[position] - _SMALL
        position += 1
        if width > 0:
            last = int.from_bytes(path[position : position + width], "big")
            position += width
    return child(path[:parent], last + 1)


def _large(number: int) -> bytes:
    width = (number.bit_length() + 7) // 8
    return bytes([_SMALL + width]) + number.to_bytes(width, "big")
