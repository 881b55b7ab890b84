"""Changing JSON at the places that a path finds, as ``json:setElement`` does."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

from spdist.java.json.gson import parse_gson
from spdist.java.json.parse import parse_smart
from spdist.java.json.path import (
    InvalidPathError,
    JsonPath,
    ModificationError,
    PathError,
    PathNotFoundError,
    Place,
)
from spdist.java.json.path_text import compile_path
from spdist.java.json.text import text_of_object

__all__ = ["set_element"]


def _accessor(place: Place) -> str:
    if place is None:
        return "$"
    return "&&".join(place[1]) if isinstance(place[1], tuple) else str(place[1])


def _later_first(one: Place, other: Place) -> int:
    # As JsonPath's PathRef.compareTo: of elements the later one, of all else the name further behind, comes first
    if one is not None and other is not None and isinstance(one[0], list) and isinstance(other[0], list):
        return int(other[1]) - int(one[1])
    left, right = _accessor(one), _accessor(other)
    return (left < right) - (left > right)


def _places(path: JsonPath, document: Any) -> list[Place]:
    # In this order they are changed, which shows where one of them cannot be.
    return sorted(path.find(document, document).places, key=cmp_to_key(_later_first))


def _at(place: tuple[Any, Any]) -> Any:
    holder, name = place
    if isinstance(holder, list):
        if not 0 <= name < len(holder):
            raise IndexError(f"there is no element {name}")
        return holder[name]
    return holder.get(name)


def _set(place: Place, _document: Any, value: Any) -> None:
    if place is None:
        raise ModificationError("the document itself cannot be replaced")
    holder, name = place
    if isinstance(name, tuple):
        holder.update(dict.fromkeys(name, value))
        return
    if isinstance(holder, list):
        _at(place)
    holder[name] = value


def _target(place: Place, document: Any, kind: type) -> Any:
    if place is not None and isinstance(place[1], tuple):
        raise ModificationError("several members cannot be changed at once")
    target = document if place is None else _at(place)
    # Null where something is to be changed is passed over in silence, unless it is the document
    if not isinstance(target, kind) and (place is None or target is not None):
        raise ModificationError(f"this is no {'array' if kind is list else 'object'}")
    return target


def _add(place: Place, document: Any, value: Any) -> None:
    target = _target(place, document, list)
    if target is not None:
        if place is not None and isinstance(place[0], list):
            raise PathError("nothing can be added to an array inside of an array")
        target.append(value)


def _put(place: Place, document: Any, key: str, value: Any) -> None:
    target = _target(place, document, dict)
    if target is not None:
        target[key] = value


def _element(value: Any) -> Any:
    """Return what is put in: text that is an object or an array becomes one; any other text must still be readable."""
    if value is None:
        raise TypeError("null cannot be put into JSON")
    parsed = parse_gson(text_of_object(value))
    return parsed if isinstance(value, str) and isinstance(parsed, dict | list) else value


def set_element(text: str, written: str, value: Any, key: str | None) -> Any:
    """Return the document with a value at the places of a path.

    Where the path finds an array the value is appended; with a `key` it becomes that member of the objects found;
    otherwise it replaces what is found. What cannot be changed stays as it is.

    Raises
    ------
    ValueError
        The text is no JSON, or the value is text that Gson cannot read.
    """
    path, document = compile_path(written), parse_smart(text)
    try:
        seen = path.read(document, document)
    except PathNotFoundError:
        seen = None
    listed = isinstance(seen, list)
    if listed or key is not None:
        value = _element(value)
    try:
        # Only reading forgives blanks in front of a path.
        if written.startswith(" "):
            raise InvalidPathError("a path does not begin with a blank")
        if key == "" and not listed:
            raise ValueError("a key cannot be empty")
        for place in _places(path, document):
            if listed:
                _add(place, document, value)
            elif key is not None:
                _put(place, document, key, value)
            else:
                _set(place, document, value)
    except PathError as error:
        if listed and not isinstance(error, ModificationError):
            raise
    return document
