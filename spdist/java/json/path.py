"""JsonPath as Siddhi's json extension has it: paths, and how they are read in a document.

A path is *definite* where it names one place; then what is missing is an error, and the value itself comes out. With
wildcards, slices, filters, deep scans (``..``) it gives a list of what there is. Filters are in
`spdist.java.json.filter`, the texts of paths are read by `spdist.java.json.path_text`.

Source: com.jayway.jsonpath 2.4, which the extension uses; its oddities are kept, since results show them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spdist.java.json.escapes import joined_halves, unit_of
from spdist.java.json.text import text_of_object
from spdist.java.objects import JSONArray

__all__ = [
    "FoundPlaces",
    "Function",
    "Indexes",
    "InvalidPathError",
    "JsonPath",
    "ModificationError",
    "PathError",
    "PathNotFoundError",
    "PathStep",
    "Place",
    "Properties",
    "Scan",
    "Slice",
    "Where",
    "Wildcard",
    "closing",
    "entries_of",
    "member",
    "unescaped",
]


class PathError(ValueError):
    """A path cannot be read in this document."""


class InvalidPathError(PathError):
    """The text is no path, or it does not fit the document."""


class PathNotFoundError(InvalidPathError):
    """A definite path names nothing."""


class ModificationError(PathError):
    """What a path found cannot be changed like that."""


# A member may be null: this says that there is none
_UNDEFINED = object()


def entries_of(value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Return keys and values of a JSON object."""
    return iter(value.items())


def member(value: dict[str, Any], name: str) -> Any:
    """Return a member of a JSON object, or `_UNDEFINED`."""
    return value.get(name, _UNDEFINED)


#: Where a value was found: the object or array that holds it, and its name or index there. None is the document.
Place = tuple[Any, Any] | None


@dataclass(slots=True)
class FoundPlaces:
    """What a path found in a document so far.

    Parameters
    ----------
    root : Any
        The document.
    required : bool
        Whether everything that is missing is an error; so it is where a filter only asks whether something exists.
    """

    root: Any
    required: bool = False
    values: JSONArray = field(default_factory=JSONArray)
    places: list[Place] = field(default_factory=list)

    def add(self, place: Place, value: Any) -> None:
        """Take in a value."""
        self.values.append(value)
        self.places.append(place)


class PathStep:
    """A step of a path; `follow` hands a value to the next one, or to the results."""

    definite = True

    def __init__(self) -> None:
        self.next: PathStep | None = None
        self.upstream_definite = True

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Look into `value`."""
        raise NotImplementedError

    def follow(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Go on with a value that this step selects."""
        if self.next is None:
            found.add(place, value)
        else:
            self.next.evaluate(place, value, found)

    def scans(self, value: Any, found: FoundPlaces) -> bool:
        """Tell whether a deep scan stops at `value` to apply this step."""
        return False

    def _refuse(self, what: str) -> None:
        # Behind a wildcard, a slice, a filter or a scan what does not fit is passed over
        if self.upstream_definite:
            raise PathNotFoundError(what)

    def _element(self, values: list[Any], index: int, found: FoundPlaces) -> None:
        position = index + len(values) if index < 0 else index
        if 0 <= position < len(values):
            # The place keeps the number as written: one from the end can be read, but not set
            self.follow((values, index), values[position], found)


class Root(PathStep):
    """``$`` or ``@``."""

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Go on with the whole value."""
        self.follow(place, value, found)


class Properties(PathStep):
    """``.name`` or ``['name', 'other']``: several as the last step give one object of them."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    @property
    def definite(self) -> bool:  # type: ignore[override]
        """Whether it names one place."""
        return len(self.names) == 1 or self.next is None

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Select members of an object."""
        if not isinstance(value, dict):
            self._refuse(f"there is no '{self.names[0]}' in what is no object")
        elif len(self.names) > 1 and self.next is None:
            self._merge(value, found)
        else:
            for name in self.names:
                self.select(value, name, found)

    def select(self, value: dict[str, Any], name: str, found: FoundPlaces) -> None:
        """Go on with one member."""
        selected = member(value, name)
        if selected is not _UNDEFINED:
            self.follow((value, name), selected, found)
        elif found.required or (self.next is not None and self.upstream_definite and self.definite):
            raise PathNotFoundError(f"there is no '{name}'")

    def _merge(self, value: dict[str, Any], found: FoundPlaces) -> None:
        merged = {name: value[name] for name in self.names if member(value, name) is not _UNDEFINED}
        if found.required and len(merged) < len(set(self.names)):
            raise PathNotFoundError(f"not all of {self.names} are there")
        found.add((value, tuple(self.names)), merged)

    def scans(self, value: Any, found: FoundPlaces) -> bool:
        """Tell whether it is an object that has the members."""
        if not isinstance(value, dict):
            return False
        return not self.definite or all(member(value, name) is not _UNDEFINED for name in self.names)


class Wildcard(PathStep):
    """``*``: all members, all elements."""

    definite = False

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Select everything."""
        if isinstance(value, dict):
            for name, part in entries_of(value):
                self.follow((value, name), part, found)
        elif isinstance(value, list):
            for index in range(len(value)):
                try:
                    self._element(value, index, found)
                except PathNotFoundError:
                    # JsonPath's WildcardPathToken forgives what an element lacks, but not what a member lacks
                    if found.required:
                        raise

    def scans(self, value: Any, found: FoundPlaces) -> bool:
        """Tell that it stops everywhere."""
        return True


class ElementNumbers(PathStep):
    """What selects elements of an array by number."""

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Select elements."""
        if not isinstance(value, list):
            self._refuse("there are no elements in what is no array")
            return
        for index in self.indexes(len(value)):
            self._element(value, index, found)

    def indexes(self, length: int) -> Iterator[int] | range | list[int]:
        """Return the numbers of the elements, from the end where negative."""
        raise NotImplementedError

    def scans(self, value: Any, found: FoundPlaces) -> bool:
        """Tell whether it is an array."""
        return isinstance(value, list)


class Indexes(ElementNumbers):
    """``[0]`` or ``[0, 2, -1]``."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__()
        self.numbers = numbers
        self.definite = len(numbers) == 1

    def indexes(self, length: int) -> list[int]:
        """Return the numbers as they stand."""
        return self.numbers


class Slice(ElementNumbers):
    """``[1:]``, ``[:-1]``, ``[1:3]``."""

    definite = False

    def __init__(self, start: int | None, end: int | None) -> None:
        super().__init__()
        self.start = start
        self.end = end

    def indexes(self, length: int) -> range:
        """Return the numbers of the slice; where both ends are given negative ones are taken as they are."""
        if self.end is None:
            start = self.start or 0
            return range(max(0, start + length if start < 0 else start), length)
        if self.start is None:
            return range(min(length, self.end + length if self.end < 0 else self.end))
        return range(self.start, min(length, self.end)) if length else range(0)


class Where(PathStep):
    """``[?(…)]``: an object, or the elements of an array, that meet a condition."""

    definite = False

    def __init__(self, holds: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self.holds = holds

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Select what meets the condition."""
        if isinstance(value, dict):
            if self._accepts(value, found):
                self.follow(place, value, found)
        elif isinstance(value, list):
            for index, part in enumerate(value):
                if self._accepts(part, found):
                    self._element(value, index, found)
        elif self.upstream_definite:
            raise InvalidPathError("a filter cannot be applied to a single value")

    def scans(self, value: Any, found: FoundPlaces) -> bool:
        """Tell whether the value itself meets the condition."""
        return self._accepts(value, found)

    def _accepts(self, value: Any, found: FoundPlaces) -> bool:
        try:
            return self.holds(value, found.root)
        except InvalidPathError:
            return False


class Scan(PathStep):
    """``..``: the next step at every depth."""

    definite = False

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Apply the next step to the value and all that is inside it."""
        step = self.next
        if step is None or not isinstance(value, dict | list):
            return
        if step.scans(value, found):
            if isinstance(value, dict) or step.next is None:
                step.evaluate(place, value, found)
            else:
                # An array hands its elements to the step after the next: what that one selects is not looked at.
                for part in value:
                    step.next.evaluate(place, part, found)
        inside = entries_of(value) if isinstance(value, dict) else enumerate(value)
        for name, part in inside:
            self.evaluate((value, name), part, found)


# --- functions ---------------------------------------------------------------------------------------------------


def _numbers(value: Any, more: list[Any]) -> list[float]:
    parts = [*(value if isinstance(value, list) else ()), *more]
    # A bool is an int in Python
    numbers = [float(part) for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
    if not numbers:
        raise PathError("there are no numbers to calculate with")
    return numbers


def _deviation(value: Any, more: list[Any]) -> float:
    numbers = _numbers(value, more)
    count, total = float(len(numbers)), sum(numbers)
    variance = sum(number * number for number in numbers) / count - total * total / count / count
    # Rounding may bring it below 0, where Java's Math.sqrt is NaN and Python's raises
    return math.sqrt(variance) if variance >= 0 else math.nan


def _length(value: Any, _more: list[Any]) -> int | None:
    return len(value) if isinstance(value, list | dict) else None


def _concat(value: Any, more: list[Any]) -> str:
    texts = [part for part in value if isinstance(part, str)] if isinstance(value, list) else []
    return "".join([*texts, *(text_of_object(part) for part in more if part is not None)])


def _append(value: Any, more: list[Any]) -> Any:
    if isinstance(value, list):
        value.extend(more)
    return value


_FUNCTIONS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "append": _append,
    "avg": lambda value, more: sum(_numbers(value, more)) / len(_numbers(value, more)),
    "concat": _concat,
    "length": _length,
    # As in Java, where the search begins at the least positive number.
    "max": lambda value, more: max(5e-324, *_numbers(value, more)),
    "min": lambda value, more: min(1.7976931348623157e308, *_numbers(value, more)),
    "size": _length,
    "stddev": _deviation,
    "sum": lambda value, more: sum(_numbers(value, more)),
}


class Function(PathStep):
    """``.length()``, ``.sum($.other)``: a function of what is before it; parameters are paths or JSON."""

    def __init__(self, name: str, parameters: list[Callable[[Any], Any]]) -> None:
        super().__init__()
        self.name = name
        self.parameters = parameters

    def evaluate(self, place: Place, value: Any, found: FoundPlaces) -> None:
        """Calculate."""
        compute = _FUNCTIONS.get(self.name)
        if compute is None:
            raise InvalidPathError(f"there is no function '{self.name}'")
        result = compute(value, [parameter(found.root) for parameter in self.parameters])
        found.add(place, result)
        if self.next is not None:
            self.next.evaluate(place, result, found)


# --- paths -------------------------------------------------------------------------------------------------------


class JsonPath:
    """A path that was read.

    Parameters
    ----------
    steps : list of PathStep
        Its steps, without the root.
    of_root : bool
        Whether it begins at the document (``$``), not at the element that a filter looks at (``@``).
    """

    def __init__(self, steps: list[PathStep], of_root: bool) -> None:
        self.of_root = of_root
        self._root = Root()
        before: PathStep = self._root
        for step in steps:
            before.next = step
            before = step
        self.definite = True
        for step in steps:
            # Only after all steps are linked: some are definite only as the last one
            step.upstream_definite = self.definite
            self.definite = self.definite and step.definite
        # append changes the document that it reads, so nobody else may share that document
        self.changes = any(isinstance(step, Function) and step.name == "append" for step in steps)

    def find(self, value: Any, root: Any, required: bool = False) -> FoundPlaces:
        """Return all that is found in `value`, a part of the document `root`; raises PathError."""
        if root is None:
            raise TypeError("null is no document")
        found = FoundPlaces(root, required)
        self._root.evaluate(None, value, found)
        return found

    def read(self, value: Any, root: Any, required: bool = False) -> Any:
        """Return the value of a definite path, or the list of what another one finds; raises PathError."""
        found = self.find(value, root, required)
        if not self.definite:
            return found.values
        if not found.values:
            raise PathNotFoundError("the path names nothing")
        # A function in the middle of a path adds its own result in front of the final one
        return found.values[-1]


# --- texts of paths -----------------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def unescaped(text: str) -> str:
    """Return a text of a path with its escapes resolved; raises InvalidPathError where one is no character."""
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped[0] != "u":
            return _ESCAPED.get(escaped, escaped)
        # JsonPath forgets the digits of an escape that the end of the text cuts off
        return unit_of(escaped[1:], as_number=True) if len(escaped) == 5 else ""

    try:
        return joined_halves(_ESCAPE.sub(plain, text))
    except ValueError as error:
        raise InvalidPathError(f"'{text}' has a wrong escape: {error}") from error


def closing(text: str, start: int, pair: str, regular: bool) -> int:
    """Return where the bracket at `start` is closed, passing over texts and, if `regular`, regular expressions.

    Raises
    ------
    InvalidPathError
        It is not closed.
    """
    depth, at = 0, start
    while at < len(text):
        character = text[at]
        if character in "'\"" or (regular and character == "/"):
            end = re.compile(rf"{character}(?:[^\\{character}]|\\.)*{character}", re.DOTALL).match(text, at)
            if end is None:
                raise InvalidPathError(f"{character} is not closed in '{text}'")
            at = end.end()
            continue
        depth += (character == pair[0]) - (character == pair[1])
        if not depth:
            return at
        at += 1
    raise InvalidPathError(f"'{text}' has a bracket that is not closed")
