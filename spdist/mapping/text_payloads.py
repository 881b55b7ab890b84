"""``text``: events as lines ``a:"x",`` and ``b:1``, or in a form of the app's own.

Source: io.siddhi.extension.map.text (its documentation), described in our own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.java.regex.pattern import JavaPattern, java_pattern
from spdist.language.types import Type
from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, Stateless, mapped_attributes, readable
from spdist.mapping.bounds import check_events
from spdist.mapping.templates import Template
from spdist.mapping.values import read_text, write_text

__all__ = ["TextSink", "TextSource"]

_DELIMITER = "~~~~~~~~~~"
_GROUP = re.compile(r"^(?P<id>\w+)\[(?P<group>\d+)\]$")


def _newline(setting: MapSetting) -> str:
    return setting.text("new.line.character", "\n").replace("\\r", "\r").replace("\\n", "\n")


class TextSink(Stateless):
    """Writes events as text.

    Options: ``event.grouping.enabled`` (false), ``delimiter`` between grouped events (ten ``~``),
    ``new.line.character``, ``@payload('{{a}} of {{b}}')``.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._schema = setting.schema
        self._grouping = setting.flag("event.grouping.enabled", False)
        self._newline = _newline(setting)
        self._delimiter = setting.text("delimiter", _DELIMITER)
        payload = setting.nested("payload")
        self._template = None if payload is None else Template(payload.elements[0].value, setting.schema)

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return one payload for each event, or one for all where they are grouped."""
        texts = [self._event(row) for _, row in events]
        return [f"{self._newline}{self._delimiter}{self._newline}".join(texts)] if self._grouping else texts

    def _event(self, row: tuple[Any, ...]) -> str:
        if self._template is not None:
            return self._template.fill(row)
        fields = zip(self._schema, row, strict=False)
        return f",{self._newline}".join(f"{name}:{_shown(value, kind)}" for (name, kind), value in fields)


def _shown(value: Any, kind: Type) -> str:
    text = write_text(value, kind)
    return f'"{text}"' if isinstance(value, str) else text


class TextSource(Stateless):
    """Reads events from text.

    Options: ``event.grouping.enabled`` (false), ``delimiter``, ``new.line.character``,
    ``fail.on.missing.attribute`` (true), and for a form of the app's own ``regex.A='…'`` with
    ``@attributes(a='A[1]', b='A[2]')``: the groups of what the expression finds.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._fail = setting.flag("fail.on.missing.attribute", True)
        self._delimiter = (
            setting.text("delimiter", _DELIMITER) if setting.flag("event.grouping.enabled", False) else None
        )
        self._newline = _newline(setting)
        mapped = mapped_attributes(setting)
        self._groups = None if mapped is None else [self._group(text) for text in mapped]
        elements = () if setting.annotation is None else setting.annotation.elements
        self._patterns = {
            element.key[len("regex.") :]: self._compiled(element.value)
            for element in elements
            if element.key is not None and element.key.lower().startswith("regex.")
        }

    @staticmethod
    def _compiled(pattern: str) -> JavaPattern:
        try:
            return java_pattern(pattern)
        except ValueError as error:
            raise SiddhiTypeError(str(error)) from error

    @staticmethod
    def _group(text: str) -> tuple[str, int] | str:
        if text.startswith(TRANSPORT_PREFIX):
            return text.removeprefix(TRANSPORT_PREFIX)
        found = _GROUP.match(text.strip())
        if found is None:
            raise SiddhiTypeError(f"'{text}' names no group of an expression", hint="for example: a='A[1]'")
        return found["id"], int(found["group"])

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the payload's events as one chunk."""
        text = self._setting.text_of(payload, "text")
        # A delimiter at the end leaves a blank part, which is no event.
        parts = [text] if self._delimiter is None else [part for part in text.split(self._delimiter) if part.strip()]
        check_events(parts)
        events = [(now, row) for row in readable(lambda part: self._row(part, properties), parts, lost)]
        return [events] if events else []

    def _row(self, text: str, properties: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            found = self._fields(text) if self._groups is None else self._matched(text, properties)
            missing = [name for name in self._setting.schema.names if found.get(name) is None]
            if missing and self._fail:
                raise self._setting.bad(f"the attribute '{missing[0]}' is missing")
            return tuple(None if (v := found.get(n)) is None else read_text(v, t) for n, t in self._setting.schema)
        except ValueError as error:
            raise self._setting.bad(str(error)) from error

    def _fields(self, text: str) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for line in text.split(self._newline):
            name, colon, rest = line.partition(":")
            name = name.strip()
            # A line of a longer text may have a colon, too: a name is one word.
            if colon and len(name.split()) == 1:
                found[name] = _value(rest.strip())
        return found

    def _matched(self, text: str, properties: Mapping[str, Any]) -> dict[str, str | None]:
        matches = {id: pattern.search(text) for id, pattern in self._patterns.items()}
        found: dict[str, str | None] = {}
        for name, place in zip(self._setting.schema.names, self._groups or (), strict=True):
            if isinstance(place, str):
                found[name] = None if place not in properties else str(properties[place])
            else:
                match = matches.get(place[0])
                # A group beyond those of the expression would raise; it is missing like one that has matched nothing.
                groups = self._patterns[place[0]].groups if match is not None else 0
                found[name] = match.group(place[1]) if match is not None and place[1] <= groups else None
        return found


def _value(text: str) -> str | None:
    """Return the value of a field: what is between quotes, or all but a comma at the end; None for null.

    By hand: a regular expression for it goes back and forth over spaces, some hundred of which take it a second.
    """
    bare = text.removesuffix(",").rstrip()
    for quoted in (text, bare):
        if len(quoted) > 1 and quoted[0] == quoted[-1] == '"':
            return quoted[1:-1]
    return None if bare == "null" else bare
