"""``csv``: one line for each event.

Source: io.siddhi.extension.map.csv.sinkmapper.CSVSinkMapper, io.siddhi.extension.map.csv.sourcemapper.CSVSourceMapper,
described in our own words.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.java.numbers import whole_number
from spdist.mapping.base import TRANSPORT_PREFIX, Event, Lost, MapSetting, mapped_attributes, readable
from spdist.mapping.bounds import check_events, shown
from spdist.mapping.values import read_text, reader_of, writer_of

__all__ = ["CsvSink", "CsvSource"]

#: What gives a line another meaning than that of texts between delimiters.
_UNUSUAL = re.compile('["\\r\\n\\0]')
#: Longer lines may be refused.
_PLAIN_LENGTH = 100_000


def _delimiter(setting: MapSetting) -> str:
    """Return the character between values; a tab may be written as backslash and t."""
    return setting.text("delimiter", ",").replace("\\t", "\t")[:1] or ","


class CsvSink:
    """Writes events as lines.

    Options: ``delimiter`` (``,``), ``header`` (false: no line with the names before the first event),
    ``event.grouping.enabled`` (false: each event is a payload of its own), ``@payload(a='0', b='1')`` with the columns.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._delimiter = _delimiter(setting)
        self._grouping = setting.flag("event.grouping.enabled", False)
        self._header_due = setting.flag("header", False)
        payload = setting.nested("payload")
        names = setting.schema.names if payload is None else _in_order(setting, payload.elements)
        self._names = names
        positions = [setting.schema.names.index(name) for name in names]
        self._columns = [(position, writer_of(setting.schema.types[position])) for position in positions]

    def write(self, events: Sequence[Event]) -> list[Any]:
        """Return one payload for each event, or one for all where they are grouped."""
        lines = [self._line([write(row[position]) for position, write in self._columns]) for _, row in events]
        payloads = ["\n".join(lines)] if self._grouping else lines
        if self._header_due:
            self._header_due = False
            payloads[0] = f"{self._line(list(self._names))}\n{payloads[0]}"
        return payloads

    def _line(self, values: list[str]) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=self._delimiter, lineterminator="\n").writerow(values)
        # Without the newline of the writer: payloads are joined by newlines, and a single one ends without.
        return out.getvalue()[:-1]

    def snapshot(self) -> Any:
        """Return whether the header is still to be written."""
        return self._header_due

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self._header_due = state


def _text(payload: Any) -> str:
    """Return a payload as text; nothing where it is none."""
    try:
        return payload.decode() if type(payload) is bytes else payload if type(payload) is str else ""
    except UnicodeDecodeError:
        return ""


def _in_order(setting: MapSetting, elements: Sequence[Any]) -> tuple[str, ...]:
    columns = {}
    for element in elements:
        column = whole_number(element.value, 0)
        if element.key is None or column is None or setting.schema.index(element.key) is None:
            hint = "for example: @payload(a='0', b='1')"
            raise SiddhiTypeError("a csv payload names attributes and their columns", span=element.span, hint=hint)
        columns[column] = element.key
    return tuple(columns[column] for column in sorted(columns))


class CsvSource:
    """Reads events from lines.

    Options: ``delimiter`` (``,``), ``header.present`` (false: the first line is an event),
    ``fail.on.unknown.attribute`` (true: an event whose value is not of its type is left out; false: it is null),
    ``@attributes(a='0', b='2')`` with the columns.

    State
    -----
    Whether the header is still to come.
    """

    def __init__(self, setting: MapSetting) -> None:
        self._setting = setting
        self._delimiter = _delimiter(setting)
        self._fail = setting.flag("fail.on.unknown.attribute", True)
        self._header_due = setting.flag("header.present", False)
        mapped = mapped_attributes(setting)
        #: the place in a line of each attribute, or the property of the transport that it is
        self._columns: list[int | str] = [*range(len(setting.schema.names))]
        if mapped is not None:
            places = (whole_number(one, 0) for one in mapped)
            self._columns = [one if place is None else place for one, place in zip(mapped, places, strict=True)]

    def read(self, payload: Any, properties: Mapping[str, Any], now: int, lost: Lost) -> list[list[Event]]:
        """Return the lines as one chunk."""
        text = self._setting.text_of(payload, "csv")
        try:
            lines = [line for line in csv.reader(io.StringIO(text), delimiter=self._delimiter, strict=True) if line]
        except csv.Error as error:
            raise self._setting.bad(f"these are no lines of csv ({error}): {shown(text)}") from error
        # Before the header is taken off: a payload that is refused as a whole leaves the header due.
        check_events(lines)
        if self._header_due:
            self._header_due = False
            lines = lines[1:]
        events = [(now, row) for row in readable(lambda line: self._row(line, properties), lines, lost)]
        return [events] if events else []

    def rows(self, payloads: Sequence[Any], largest: int) -> list[tuple[Any, ...] | None]:
        """Return the row of each payload that is one plain line with all values; None where `read` is to be asked.

        Parameters
        ----------
        payloads : Sequence
            What the transport received.
        largest : int
            How long one may be.
        """
        columns, delimiter = self._columns, self._delimiter
        # The header is in the state of `read`, and properties (trp:) do not come with payloads that are read together.
        places = [column for column in columns if isinstance(column, int)]
        if self._header_due or len(places) < len(columns):
            return [None] * len(payloads)
        cells = [(place, reader_of(kind)) for place, kind in zip(places, self._setting.schema.types, strict=True)]
        rows: list[tuple[Any, ...] | None] = []
        for payload in payloads:
            row = None
            # `_text` makes nothing of what is no text, and 0 < len sends that to `read`, which says why.
            text = _text(payload)
            if 0 < len(text) < _PLAIN_LENGTH and len(payload) <= largest and _UNUSUAL.search(text) is None:
                texts = text.split(delimiter)
                try:
                    row = tuple([read(texts[place]) for place, read in cells])
                except Exception:  # `read` says why
                    pass
                else:
                    # A reader has refused a text: whether that is an error, or null, `read` decides.
                    row = None if None in row else row
            rows.append(row)
        return rows

    def _row(self, line: list[str], properties: Mapping[str, Any]) -> tuple[Any, ...]:
        row: list[Any] = []
        for (name, kind), column in zip(self._setting.schema, self._columns, strict=True):
            text = self._cell(name, column, line, properties)
            try:
                row.append(read_text(text, kind))
            except ValueError as error:
                if self._fail:
                    raise self._setting.bad(f"'{name}': {error}") from error
                row.append(None)
        return tuple(row)

    def _cell(self, name: str, column: int | str, line: list[str], properties: Mapping[str, Any]) -> str:
        # A line with too few values raises below even where `fail.on.unknown.attribute` is false: that is about types.
        if isinstance(column, int):
            if column < len(line):
                return line[column]
        elif column.startswith(TRANSPORT_PREFIX):
            found = properties.get(column.removeprefix(TRANSPORT_PREFIX))
            if found is not None:
                return str(found)
        raise self._setting.bad(f"nothing is there for '{name}' in {shown(line)}")

    def snapshot(self) -> Any:
        """Return whether the header is still to come."""
        return self._header_due

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self._header_due = state
