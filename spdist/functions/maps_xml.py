"""XML as maps, as siddhi-execution-map reads and writes it: elements are keys, attributes are not seen."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from spdist.java.bounds import Room
from spdist.java.json.text import text_of_object
from spdist.java.numbers import LONG_MAX, LONG_MIN
from spdist.java.objects import HashMap, box_long, entries

__all__ = ["map_of_xml", "xml_of_map"]

# What commons-lang takes for a number, and as much of it as java.text.NumberFormat then reads.
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFdD]?|\d+[lL])", re.ASCII)
_READ = re.compile(r"-?\d*(?:\.\d*)?(?:E-?\d+)?", re.ASCII)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text):
        return text
    found = _READ.match(text)
    number = float(found.group()) if found is not None else 0.0
    negative_zero = number == 0 and text.startswith("-")
    if number.is_integer() and not negative_zero and LONG_MIN <= number <= LONG_MAX:
        digits = found.group() if found is not None else ""
        return box_long(int(digits) if digits.lstrip("-").isdecimal() else int(number))
    return number


def _map(element: ElementTree.Element) -> HashMap:
    return HashMap((part.tag, _map(part) if len(part) else _value("".join(part.itertext()))) for part in element)


def map_of_xml(text: str) -> HashMap:
    """Return the elements inside the outermost one; the last of those with the same name counts.

    Raises
    ------
    ValueError
        The text is no XML.
    """
    try:
        return _map(ElementTree.fromstring(text))
    except ElementTree.ParseError as error:
        raise ValueError(f"this is no XML: {error}") from error


def xml_of_map(known: dict[Any, Any], room: Room | None = None) -> str:
    """Return a map as elements, without escapes; raises ValueError for null, which has no text.

    Raises OverflowError where there is no `room` for it.
    """
    room = room or Room()
    room.enter()
    parts = []
    for key, value in entries(known):
        if key is None or value is None:
            raise ValueError("XML cannot show null")
        name = text_of_object(key, room)
        room.fill(f"<></{name}>")
        inner = xml_of_map(value, room) if isinstance(value, dict) else text_of_object(value, room)
        parts.append(f"<{name}>{inner}</{name}>")
    return "".join(parts)
