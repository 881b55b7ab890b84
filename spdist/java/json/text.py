"""Java's objects as text: ``String.valueOf``, and JSON as json-smart, Gson and org.json write it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from spdist.java.bounds import Room
from spdist.java.numbers import text_of
from spdist.java.objects import Float, HashMap, JSONArray, JSONObject, MapKey, Opaque, entries

__all__ = ["gson_text", "org_text", "smart_text", "text_of_object"]

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoting(special: str, digits: str, short: Mapping[str, str]) -> Callable[[str], str]:
    pattern = re.compile(special)

    def escape(match: re.Match[str]) -> str:
        found = match.group()
        return short.get(found) or f"\\u{ord(found[-1]):{digits}}"

    return lambda text: f'"{pattern.sub(escape, text)}"'


_smart_quoted = _quoting(r'["\\/\x00-\x1f\x7f-\x9f\u2000-\u20ff]', "04X", _SHORT | {"/": "\\/"})
# Gson escapes what means something in HTML, and the line ends that JavaScript knows and JSON does not
_gson_quoted = _quoting(r"""["\\<>&='\x00-\x1f\u2028\u2029]""", "04x", _SHORT)
# org.json escapes a slash only behind <, so that its text may stand within a script of an HTML page
_org_quoted = _quoting(r'["\\\x00-\x1f\x80-\x9f\u2000-\u20ff]|(?<=<)/', "04x", _SHORT | {"/": "\\/"})


class _JsonWriter:
    """A way to write JSON: how text is quoted, how fractions are written, and what is done with other objects."""

    def __init__(
        self, quoted: Callable[[str], str], fraction: Callable[[float], str], other: Callable[[Any], str]
    ) -> None:
        self.quoted = quoted
        self.fraction = fraction
        self.other = other

    def write(self, value: Any, room: Room | None = None) -> str:
        """Return `value` as JSON; raises OverflowError where there is no `room` for it."""
        room = room or Room()
        if isinstance(value, Mapping):
            room.enter()
            members = (
                f"{room.fill(self.quoted(text_of_object(key, room)))}:{self.write(part, room)}"
                for key, part in entries(value)
            )
            return f"{{{','.join(members)}}}"
        if isinstance(value, list | tuple | set | frozenset):
            room.enter()
            return f"[{','.join([self.write(part, room) for part in value])}]"
        return room.fill(self._plain(value))

    def _plain(self, value: Any) -> str:
        if value is None:
            return "null"
        if isinstance(value, str):
            return self.quoted(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return self.fraction(value) if isinstance(value, float) else self.other(value)


def _java(value: float) -> str:
    return str(value) if isinstance(value, Float) else text_of(value)


def _smart_fraction(value: float) -> str:
    return "null" if math.isinf(value) else _java(value)


def _gson_fraction(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{text_of(value)} is no number of JSON")
    return _java(value)


def _org_fraction(value: float) -> str:
    text = _gson_fraction(value)
    # The zeros of an exponent are part of the number, those of a fraction are not
    return text if "E" in text else text.rstrip("0").rstrip(".")


_SMART = _JsonWriter(_smart_quoted, _smart_fraction, str)
_GSON = _JsonWriter(_gson_quoted, _gson_fraction, str)
_ORG = _JsonWriter(_org_quoted, _org_fraction, str)


def smart_text(value: Any, room: Room | None = None) -> str:
    """Return JSON as json-smart writes it: slashes escaped, infinite numbers as null."""
    return _SMART.write(value, room)


def text_of_object(value: Any, room: Room | None = None) -> str:
    """Return ``String.valueOf(value)`` of any object; raises OverflowError where there is no `room` for it."""
    if isinstance(value, JSONObject | JSONArray):
        return smart_text(value, room)
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        room = room or Room()
        room.enter()
        if isinstance(value, Mapping):
            pairs = [f"{text_of_object(key, room)}={text_of_object(part, room)}" for key, part in entries(value)]
            return f"{{{', '.join(pairs)}}}"
        return f"[{', '.join([text_of_object(part, room) for part in value])}]"
    text = str(value) if isinstance(value, Decimal | Float) else text_of(value)
    return text if room is None else room.fill(text)


MapKey.text_of = text_of_object


def gson_text(value: Any) -> str:
    """Return JSON as Gson writes it, safe for HTML; raises ValueError for numbers that are not finite."""
    return _GSON.write(value)


def _org_object(value: Any, room: Room) -> Any:
    """Return what org.json makes of an object: maps by hash code and without null, other classes as text."""
    if isinstance(value, Mapping):
        if any(key is None and part is not None for key, part in entries(value)):
            raise ValueError("org.json has no name for null")
        room.enter()
        return HashMap((key, _org_object(part, room)) for key, part in entries(value) if part is not None)
    if isinstance(value, list | tuple | set | frozenset):
        room.enter()
        return [_org_object(part, room) for part in value]
    if isinstance(value, Decimal) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return str(value)
    return value


def org_text(value: Mapping[Any, Any]) -> str | None:
    """Return JSON as ``new JSONObject(map).toString()`` of org.json; null where it cannot."""
    try:
        return _ORG.write(_org_object(value, Room()))
    except ValueError:
        return None


def org_array(value: list[Any]) -> Opaque:
    """Return a ``JSONArray`` of org.json, which no function can look into."""
    return Opaque("org.json.JSONArray", _ORG.write(value))
