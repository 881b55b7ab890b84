"""How large a payload may be that somebody else has written: its size, how deep it nests, how many events it holds.

The bounds are far below those at which Python itself gives up, which depend on how deep its stack is at the moment: so
a payload means the same whoever reads it, and whenever it is read again.
"""

from __future__ import annotations

from collections.abc import Sized
from itertools import chain
from reprlib import Repr
from typing import Any

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_EVENTS", "MAX_TOLD", "check_depth", "check_events", "shown"]

#: Bytes of a payload, where neither source nor mapping say otherwise; of one that comes as text its characters.
MAX_BYTES = 16 << 20
#: Arrays and objects, or elements, within one another.
MAX_DEPTH = 200
#: Events of one payload, those that are left out included. Sources number a message's events in a range of 2^20.
MAX_EVENTS = 500_000
#: Events of one payload that are left out and told of one by one; the others are told of together.
MAX_TOLD = 10
#: Characters of a payload in a message.
_SHOWN = 200


class _Short(Repr):
    """The beginning of a value. Maps and lists of an app hold others again and again: their own text has no end."""

    def repr1(self, x: Any, level: int) -> str:
        # Also subclasses, as a Java map of an app is one: Repr looks at the name of the class only.
        if isinstance(x, dict):
            return self.repr_dict(x, level)
        if isinstance(x, list):
            return self.repr_list(x, level)
        return super().repr1(x, level)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHOWN
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = 20
_SHORT.maxlevel = 3  # with 20 of each, so many values are looked at at most: 20 * 20 * 20


def check_depth(tree: Any, text: str) -> None:
    """Raise ValueError where a tree of lists and dictionaries, read from `text`, nests deeper than `MAX_DEPTH`."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    # Level by level and not by recursion: the depth that is to be bounded would else be that of Python's stack.
    level = [tree]
    for _ in range(MAX_DEPTH):
        values = chain.from_iterable(node.values() if isinstance(node, dict) else node for node in level)
        level = [value for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")


def check_events(events: Sized) -> None:
    """Raise ValueError where there are more events than a payload may hold."""
    if len(events) > MAX_EVENTS:
        raise ValueError(f"it holds {len(events)} events, and a payload may hold {MAX_EVENTS}")


def shown(payload: Any) -> str:
    """Return a payload for a message: its beginning, and how long it is where that is not all."""
    if not isinstance(payload, str | bytes | bytearray):
        text = _SHORT.repr(payload)
        return text if len(text) <= 10 * _SHOWN else f"{text[: 10 * _SHOWN]}…"
    if len(payload) <= _SHOWN:
        return repr(payload)
    unit = "characters" if isinstance(payload, str) else "bytes"
    return f"{payload[:_SHOWN]!r}… ({len(payload)} {unit})"
