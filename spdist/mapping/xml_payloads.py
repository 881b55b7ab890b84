"""``xml``: events as ``<events><event><a>1</a></event></events>``, or in a form of the app's own.

Paths are the part of XPath that Python's ElementTree knows, with ``/@attribute`` and ``/text()`` at their end.

Source: io.siddhi.extension.map.xml (its documentation), described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from spdist.errors import SiddhiTypeError
from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, Stateless, mapped_attributes
from spdist.mapping.templates import Template
from spdist.mapping.values import read_text, writer_of

__all__ = ["XmlSink", "XmlSource"]

_DEFAULT = "<events>"


class XmlSink(Stateless):
    """Writes events as XML; nulls are empty elements with ``xsi:nil``.

    Options: ``enclosing.element`` (``<events>``; none where the app gives its own ``@payload``), ``validate.xml``
    (false).
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        payload = setting.nested("payload")
        self._template = None if payload is None else Template(payload.elements[0].value, setting.schema)
        enclosing = setting.text("enclosing.element", "" if payload is not None else _DEFAULT).strip()
        self._before = enclosing
        self._after = f"</{enclosing.strip('<>').split()[0]}>" if enclosing else ""
        self._validate = setting.flag("validate.xml", False)
        self._writers = [writer_of(kind) for kind in setting.schema.types]

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return one payload for the chunk; without an enclosing element one for each event."""
        texts = [self._event(row) for _, row in events]
        payloads = [f"{self._before}{''.join(texts)}{self._after}"] if self._before else texts
        for payload in payloads if self._validate else ():
            _parsed(self._setting, payload)
        return payloads

    def _event(self, row: tuple[Any, ...]) -> str:
        if self._template is not None:
            return self._template.fill(row)
        fields = zip(self._setting.schema.names, self._writers, row, strict=False)
        return "<event>" + "".join(_element(name, write, value) for name, write, value in fields) + "</event>"


def _element(name: str, write: Callable[[Any], str], value: Any) -> str:
    if value is None:
        return f'<{name} xsi:nil="true" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>'
    return f"<{name}>{escape(write(value))}</{name}>"


def _parsed(setting: MapSetting, payload: str | bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(payload)
    except (ElementTree.ParseError, UnicodeError) as error:
        raise setting.bad(f"this is no XML ({error}): {payload!r}") from error


class XmlSource(Stateless):
    """Reads events from XML.

    Options: ``namespaces`` (``a=http://…,b=…``), ``enclosing.element`` (a path; by default the root),
    ``enclosing.element.as.event`` (false: its children are the events), ``fail.on.missing.attribute`` (true),
    ``@attributes`` with a path for each attribute.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._fail = setting.flag("fail.on.missing.attribute", True)
        self._enclosing = setting.text("enclosing.element", "").strip()
        self._as_event = setting.flag("enclosing.element.as.event", False)
        pairs = [part.partition("=") for part in setting.text("namespaces", "").split(",")]
        self._namespaces = {name.strip(): uri.strip() for name, _, uri in pairs if uri}
        self._paths = mapped_attributes(setting) or setting.schema.names

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the payload's events as one chunk."""
        if not isinstance(payload, str | bytes | bytearray):
            raise self._setting.bad(f"xml takes a text, not {type(payload).__name__}")
        root = _parsed(self._setting, bytes(payload) if isinstance(payload, bytearray) else payload)
        events = [(now, row) for one in self._events(root) if (row := self._row(one, properties, lost)) is not None]
        return [events] if events else []

    def _events(self, root: ElementTree.Element) -> list[ElementTree.Element]:
        around = [root]
        if self._enclosing:
            path = self._enclosing.lstrip("/")
            named = [root] if path == root.tag else root.findall(f".//{path}", self._namespaces)
            around = named or root.findall(path, self._namespaces)
        return around if self._as_event else [child for element in around for child in element]

    def _row(self, element: ElementTree.Element, properties: Mapping[str, Any], lost: Lost) -> tuple[Any, ...] | None:
        row: list[Any] = []
        for (name, kind), path in zip(self._setting.schema, self._paths, strict=True):
            found, text = self._found(element, path, properties)
            if not found and self._fail:
                lost(self._setting.bad(f"the attribute '{name}' is missing"))
                return None
            try:
                row.append(None if text is None else read_text(text, kind))
            except ValueError as error:
                raise self._setting.bad(f"'{name}': {error}") from error
        return tuple(row)

    def _found(self, element: ElementTree.Element, path: str, properties: Mapping[str, Any]) -> tuple[bool, str | None]:
        if path.startswith(TRANSPORT_PREFIX):
            value = properties.get(path.removeprefix(TRANSPORT_PREFIX))
            return value is not None, None if value is None else str(value)
        path = path.removesuffix("/text()")
        steps, _, attribute = path.rpartition("@")
        steps = (steps if attribute != path else path).strip("/")
        try:
            place = element.find(steps, self._namespaces) if steps else element
        except SyntaxError as error:
            raise SiddhiTypeError(f"'{path}' is no path: {error}") from error
        if place is None:
            return False, None
        if attribute != path:
            return attribute in place.attrib, place.get(attribute)
        nil = any(key.endswith("}nil") and value == "true" for key, value in place.attrib.items())
        return True, None if nil else place.text or ""
