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
from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, Stateless, mapped_attributes, readable
from spdist.mapping.bounds import MAX_DEPTH, check_events, shown
from spdist.mapping.templates import Template
from spdist.mapping.values import read_text, writer_of

__all__ = ["XmlSink", "XmlSource"]

_DEFAULT = "<events>"
#: Bytes or characters that are parsed at a time.
_PART = 1 << 16


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


class _ElementBuilder(ElementTree.TreeBuilder):
    """Makes the elements of a payload, unless they nest too deep.

    A document type may define entities, which grow when they are read, or name files: events need none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def start(self, tag: str, attrs: dict[Any, Any], /) -> ElementTree.Element:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ElementTree.Element:
        self._depth -= 1
        return super().end(tag)

    def doctype(self, name: str, _public: str | None, _system: str | None) -> None:
        raise ValueError(f"it has a document type, '{name}', which is not taken")


def _parsed(setting: MapSetting, payload: str | bytes) -> ElementTree.Element:
    parser = ElementTree.XMLParser(target=_ElementBuilder())
    try:
        # In parts: the parser reads what it was given to its end, also after an error.
        for start in range(0, len(payload), _PART):
            parser.feed(payload[start : start + _PART])
        root: ElementTree.Element = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise setting.bad(f"this is no XML that can be read ({error}): {shown(payload)}") from error
    return root


class XmlSource(Stateless):
    """Reads events from XML.

    Options: ``namespaces`` (``a=http://…,b=…``), ``enclosing.element`` (a path; by default the root),
    ``enclosing.element.as.event`` (false: its children are the events), ``fail.on.missing.attribute`` (true),
    ``@attributes`` with a path for each attribute.

    Notes
    -----
    An event without one of its attributes, or with a value of another type, is left out, as Siddhi's mapper drops it;
    the others of its payload are delivered. A payload with a document type is refused.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._fail = setting.flag("fail.on.missing.attribute", True)
        self._enclosing = setting.text("enclosing.element", "").strip()
        self._as_event = setting.flag("enclosing.element.as.event", False)
        pairs = [part.partition("=") for part in setting.text("namespaces", "").split(",")]
        self._namespaces = {name.strip(): uri.strip() for name, _, uri in pairs if uri}
        self._paths = mapped_attributes(setting) or setting.schema.names
        for path in self._paths:
            # Only for its error: a path that cannot be read is a fault of the app, not of each payload.
            self._found(ElementTree.Element("event"), path, {})

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the payload's events as one chunk."""
        if not isinstance(payload, str | bytes | bytearray):
            raise self._setting.bad(f"xml takes a text, not {type(payload).__name__}")
        root = _parsed(self._setting, bytes(payload) if isinstance(payload, bytearray) else payload)
        elements = self._events(root)
        check_events(elements)
        events = [(now, row) for row in readable(lambda one: self._row(one, properties), elements, lost)]
        return [events] if events else []

    def _events(self, root: ElementTree.Element) -> list[ElementTree.Element]:
        around = [root]
        if self._enclosing:
            path = self._enclosing.lstrip("/")
            # ElementTree's find looks below an element only and never at the root itself.
            named = [root] if path == root.tag else root.findall(f".//{path}", self._namespaces)
            around = named or root.findall(path, self._namespaces)
        return around if self._as_event else [child for element in around for child in element]

    def _row(self, element: ElementTree.Element, properties: Mapping[str, Any]) -> tuple[Any, ...]:
        row: list[Any] = []
        for (name, kind), path in zip(self._setting.schema, self._paths, strict=True):
            found, text = self._found(element, path, properties)
            if not found and self._fail:
                raise self._setting.bad(f"the attribute '{name}' is missing")
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
        # An attribute with a namespace is called `{uri}name` in ElementTree.
        nil = any(key.endswith("}nil") and value == "true" for key, value in place.attrib.items())
        return True, None if nil else place.text or ""
