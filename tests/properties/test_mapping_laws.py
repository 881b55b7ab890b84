"""Many payloads at once give what the mapping gives payload by payload, errors included."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spdist.engine.local.sinks import PayloadWriter
from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.types import Schema, Type
from spdist.mapping.base import MapSetting
from spdist.mapping.columns import ColumnarRows
from spdist.mapping.mappers import sink_mapper, source_mapper
from spdist.mapping.payload_reader import BatchReader
from spdist.transports.delivery import JsonTexts
from spdist.transports.event_log import encoded

_KINDS = ("string", "int", "long", "float", "double", "bool", "object")
_schemas = st.lists(st.sampled_from(_KINDS), min_size=1, max_size=4).map(
    lambda kinds: Schema.of([(["a", "event", 'b"%s', "ü"][n], kind) for n, kind in enumerate(kinds)])
)
_texts = st.sampled_from(["", "x", 'q"\\', "ä\u2028", "\x00\n\x1f\x7f", "\ud800", "😀", "1", "%s", "null"])
_WHOLE = (0, -0, 1, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30)
_REAL = (0.0, -0.0, 0.1, 1.0, 1e-3, 9.99e-4, 1e7, 9999999.999999998, -1e7, 1e16, 123456789.125, 1e300, 5e-324, 3.4e38)
_numbers = st.sampled_from([*_WHOLE, *_REAL, 1e39, 2.0**63, float("inf")])
_values = st.none() | _texts | _numbers | st.booleans() | st.floats() | st.integers(-(2**33), 2**33)
_values |= st.sampled_from([[1], {"k": 1.5}, {}])
_TYPICAL: dict[str, st.SearchStrategy[Any]] = {
    "string": _texts | st.text(max_size=4),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32) | st.floats(0, 1e5),
    "double": st.floats(allow_nan=False) | st.floats(1e-4, 1e8) | st.floats(-(2.0**56), 2.0**56),
    "bool": st.booleans(),
    "object": _values,
}
_OPTIONS = (
    *({}, {}, {}),
    {"fail.on.missing.attribute": "false"},
    {"enclosing.element": "$.in"},
    {"validate.json": "true"},
)
_TYPES = ("json", "json", "json", "json", "csv", "keyvalue", "text", "xml")


def setting(schema: Schema, type: str, options: dict[str, str]) -> MapSetting:
    elements = tuple(ast.AnnotationElement(key, value) for key, value in {"type": type, **options}.items())
    return MapSetting("A", schema, ast.Annotation("map", elements))


@st.composite
def payloads(draw: st.DrawFn, schema: Schema) -> str | bytes:
    typical = draw(st.integers(0, 9)) < 8
    fields = {
        name: draw(st.none() | _TYPICAL[str(kind)] if typical else _values)
        for name, kind in schema
        if typical or draw(st.integers(0, 9))
    }
    text = json.dumps(fields, ensure_ascii=draw(st.booleans()))
    form = draw(st.sampled_from(["{}", "{}", '{{"event":{}}}', '{{"event":{}}}', "[{0},{0}]", ' {{"event": [{0}]}} ']))
    text = form.format(text)
    if not typical:
        broken = ["{}", "{},{}", "{}x", '{{"in":{}}}', '{{"event":{},"event":{}}}', "[{}", "null", '"x"', "\ufeff{}"]
        text = draw(st.sampled_from(broken)).replace("{}", text).replace("{{", "{").replace("}}", "}")
        text = draw(st.sampled_from([text, text.replace('"a"', '"a":1,"a"'), text.replace('"a"', '"zz"')]))
    try:
        return text.encode() if draw(st.booleans()) else text
    except UnicodeEncodeError:
        return text


#: Of which one alone is no event, or not one, and two side by side may look like some.
_ODD = (
    *('{"event":{"a":1', '"b":2}}', '{"a":1', '"b":2}', '{"event":', '{"a":1,"b":2}}', "{", "}", ""),
    *('{"a":1,"b":2},{"a":1,"b":2}', '{"a":1,"b":2},', ',{"a":1,"b":2}', '{"a":1,"b":2}{"a":1,"b":2}'),
    *('{"event":[{"a":1,"b":2}', '{"a":1,"b":2}]}', '{"a":1,"b":[', '{"a":1,"b":2}],"b":2}', '{"a":1,"b":2}]', "[{}"),
    *('{"x":\t[{}', '{}],"event":{"a":1,"b":2}}', '{"event":{"a":1,"b":[{}', '{}], "b":2}}', '{"a":1, [', "{]}"),
    *('{"a":1,"b":"', '"}', '{"a":1,"b":"}', '{"a":1,"b":"\n"}', '{"a":1,"b":"\\n"}', '{"a":1,"b":"x, [y"}'),
    *('{\n "a": 1,\n "b": 2\n}\n', ' {"a":1,"b":2}', '\ufeff{"a":1,"b":2}', '{"a":0,"a":1,"b":2}', '{"a":1,"b":2.0}'),
    *('{"event":{"a":1,"b":2},"event":{"a":3,"b":4}}', '[{"a":1,"b":2}]', '[{"a":1,"b":2},{"a":3,"b":4}]', "1", "[]"),
    *(
        '{"event":{"event":1}}',
        '{"event":1}',
        '{"event":"a"}',
        '{"event":null}',
        '{"a":1,"b":null}',
        "{}",
        '{"event":{}}',
    ),
    *('{"b":1,"a":2}', '{"a":1,"c":2}', '{"a":1,"b":[]}', '{"a":1,"b":18446744073709551615}', '{"a":1,"b":"\ud800"}'),
)
_TWO = '{"a":1,"b":2},{"a":1,"b":2}'
_USUAL = {Type.INT: 1, Type.LONG: 2**40, Type.DOUBLE: 0.5, Type.STRING: "[1"}
_SCHEMAS = tuple(
    Schema.of(pairs)
    for pairs in (
        [("a", "int"), ("b", "long")],
        [("a", "int"), ("b", "string")],
        [("event", "int"), ("b", "double")],
        [("a", "int")],
        [("event", "int")],
    )
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(_SCHEMAS),
    st.lists(st.sampled_from(_ODD), max_size=4),
    st.integers(0, 3),
    st.sampled_from(["{}", '{{"event":{}}}']),
    st.booleans(),
)
@example(_SCHEMAS[0], [_TWO], 0, "{}", True)
@example(_SCHEMAS[0], ['{"a":1', '"b":2}', _TWO], 0, "{}", True)
@example(_SCHEMAS[0], ['{"b":[{}', '{}],"a":1,"b":2}', _TWO], 0, "{}", True)
@example(_SCHEMAS[0], ['{"b": [\t[{}', '{}]],"a":1,"b":2}', _TWO], 0, "{}", False)
@example(_SCHEMAS[0], ['{"a":1,"b":2},[{}', "{}]"], 0, "{}", True)
def test_reading_odd_payloads(schema: Schema, odd: list[str], place: int, form: str, encoded: bool) -> None:
    usual = form.format(json.dumps({name: _USUAL[kind] for name, kind in schema}))
    sent = [*[usual] * place, *odd, usual]
    reads_alike(setting(schema, "json", {}), [_encoded(one) for one in sent] if encoded else sent)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def plain(rows: list[Any]) -> str:
    """As text, by which zeros, NaN and types differ as they do for people."""
    return repr(rows)


_CELLS = ("", "a", '"a"', '"a,b"', 'a"', " 1", "1", "1.5", "1e3", "-7", "1_0", "9999999999", "true", "\0")
_lines = st.lists(st.lists(st.sampled_from(_CELLS), max_size=4).map(",".join), min_size=1, max_size=2).map("\n".join)
_CSV = ({}, {}, {}, {"fail.on.unknown.attribute": "false"}, {"header.present": "true"}, {"delimiter": ";"})


@settings(max_examples=300, deadline=None)
@given(_schemas, st.sampled_from(_CSV), st.lists(_lines, max_size=5), st.booleans())
def test_reading_lines(schema: Schema, options: dict[str, str], lines: list[str], encoded: bool) -> None:
    sent = [_encoded(line) if encoded else line for line in lines]
    reads_alike(setting(schema, "csv", options), [*sent, b"\xff,1"] if encoded else sent)


def test_plain_lines_in_bytes_are_read_at_once() -> None:
    schema = Schema.of([("a", "string"), ("b", "int")])
    sent = ["ä,1".encode(), "x,2", b"\xff,3", '"y",4']
    assert BatchReader(setting(schema, "csv", {})).rows(sent) == [("ä", 1), ("x", 2), None, None]


@settings(max_examples=300, deadline=None)
@given(_schemas, st.sampled_from(_OPTIONS), st.sampled_from(_TYPES), st.data())
def test_reading_a_batch(schema: Schema, options: dict[str, str], type: str, data: st.DataObject) -> None:
    mapping = setting(schema, type, options)
    sent = data.draw(st.lists(payloads(schema), max_size=6))
    if type == "xml":
        sent = [payload for payload in sent if "\ud800" not in str(payload)]
    reads_alike(mapping, sent)


def reads_alike(mapping: MapSetting, sent: list[Any]) -> None:
    mapper = source_mapper(mapping)
    expected: list[Any] = []
    told: list[Any] = []
    for number, payload in enumerate(sent):
        try:
            for chunk in mapper.read(payload, {}, 7, lambda error: told.append(str(error))):
                expected += [(number, row) for _, row in chunk]
        except MappingError as error:
            told.append((number, str(error)))
    heard: list[Any] = []
    rows, numbers = BatchReader(mapping).read(
        sent,
        7,
        lambda error: heard.append(str(error)),
        lambda number, error: heard.append((number, str(error))),
    )
    assert plain(list(zip(numbers, rows, strict=True))) == plain(expected)
    assert heard == told


@settings(max_examples=300, deadline=None)
@given(_schemas, st.sampled_from(_OPTIONS), st.sampled_from(_TYPES), st.data())
def test_writing_a_batch(schema: Schema, options: dict[str, str], type: str, data: st.DataObject) -> None:
    mapping = setting(schema, type, options)
    row = st.tuples(*(st.none() | _TYPICAL[str(kind)] for kind in schema.types))
    odd = st.tuples(*(_values for _ in schema.types))
    typical = data.draw(st.booleans())
    events = [(n, one) for n, one in enumerate(data.draw(st.lists(row if typical else row | odd, max_size=5)))]
    mapper = sink_mapper(mapping)
    expected: list[Any] = []
    told: list[Any] = []
    sizes, begin, chunks = data.draw(st.lists(st.integers(1, 3), max_size=5)) or [1], 0, []
    while begin < len(events):
        chunk = events[begin : begin + sizes[begin % len(sizes)]]
        if len(chunk) > 1:
            chunks.append((begin, begin + len(chunk)))
        try:
            expected += mapper.write(chunk)
        except MappingError as error:
            told.append((begin, chunk, str(error)))
        begin += len(chunk)
    heard: list[Any] = []

    def unwritten(number: int, chunk: Any, error: Exception) -> None:
        assert isinstance(error, MappingError)
        heard.append((number, chunk, str(error)))

    writer = PayloadWriter(mapping)
    made = writer.write([ts for ts, _ in events], [row for _, row in events], unwritten, chunks)
    assert len(made) == len(expected)
    assert [encoded(one) for one in made] == [encoded(one) for one in expected]
    assert heard == told
    assert writer.mapper.snapshot() == mapper.snapshot()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(_KINDS[:-1]), st.data())
def test_writing_a_column(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(_TYPICAL[kind] | st.none(), min_size=1, max_size=5))
    mapping = setting(Schema.of([("a", "string"), ("b", kind)]), "json", {})
    rows = [("x", value) for value in values]
    expected = [payload for row in rows for payload in sink_mapper(mapping).write(((0, row),))]
    writer = PayloadWriter(mapping)
    assert writer.quick
    assert [encoded(one) for one in writer.write([], rows, lambda *_: None)] == [encoded(one) for one in expected]


_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.lists(_shapes, min_size=1, max_size=3), st.sampled_from([[False], [True], [False, True]]), st.data())
def test_texts_that_follow_one_another(parts: list[list[int]], columnar: list[bool], data: st.DataObject) -> None:
    """Each part is given by the sizes of its chunks; `columnar`: whether some are columns."""
    schema = Schema.of([("a", "string"), ("b", "double"), ("c", "int")])
    mapper = sink_mapper(setting(schema, "json", {}))
    row = st.tuples(*(st.none() | _TYPICAL[kind] for kind in ("string", "double", "int")))
    expected: list[bytes] = []
    texts: list[JsonTexts] = []
    for sizes, read in zip(parts, cycle(columnar), strict=False):
        rows: list[Any] = []
        chunks = []
        for size in sizes:
            own = data.draw(st.lists(row, min_size=size, max_size=size))
            expected += map(encoded, mapper.write([(0, one) for one in own]))
            chunks += [(len(rows), len(rows) + size)] if size > 1 else []
            rows += own
        columns = ColumnarRows.of(rows, schema.types, range(3)) if read else None
        texts.append(JsonTexts.grouped(schema, rows if columns is None else columns, chunks))
    whole = JsonTexts.following(texts)
    assert len(whole) == len(expected)
    assert whole.octets().to_pylist() == list(map(encoded, whole)) == expected
    cut = slice(*data.draw(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9), st.integers(1, 3))))
    assert list(map(encoded, whole[cut])) == expected[cut]
    assert [encoded(whole[place]) for place in range(-len(whole), len(whole))] == expected * 2
    with pytest.raises(IndexError):
        whole[len(whole)]
