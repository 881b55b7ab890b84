"""Payloads of JSON that are read together give what the mapping gives one by one, or are left to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.types import Schema, Type
from spdist.mapping import json_columns
from spdist.mapping.base import MapSetting
from spdist.mapping.columns import EventList, Events, child
from spdist.mapping.json_columns import ColumnReader, ReadPayloads
from spdist.mapping.kernels import Kernels
from spdist.mapping.mappers import source_mapper
from spdist.transports.payloads.payload import Payload, payload_columns


@pytest.fixture(autouse=True, scope="module", params=["by Arrow", "compiled"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """How payloads are read; few like many."""
    name = "spdist.mapping.json_kernels" if request.param == "compiled" else "none"
    kernels = Kernels(partial(import_module, name), "")
    kernels.load()
    assert (kernels.loops is not None) == (request.param == "compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "FEW", 1)
        patch.setattr(json_columns, "_KERNELS", kernels)
        yield request.param


#: Each as it stands in a payload; first those that everybody writes.
_USUAL: dict[Type, tuple[bytes, ...]] = {
    Type.STRING: (b'"x"', b'""', '"ä😀"'.encode(), b'"\\n\\"\\\\\\/\\u00e9\\ud83d\\ude00"', b'"\\u0000"', b'"\x7f}{"'),
    Type.INT: (b"1", b"0", b"-0", b"-7", b"2147483647", b"-2147483648"),
    Type.LONG: (b"1", b"-0", b"9223372036854775807", b"-9223372036854775808"),
    Type.FLOAT: (b"0.1", b"5", b"16777217", b"9007199254740993", b"1e5", b"1e-50", b"5E+3", b"0"),
    Type.DOUBLE: (
        *(b"0.1", b"100.0", b"-0.0", b"1e5"),
        *(b"1E-2", b"5e-324", b"2.2250738585072011e-308", b"9007199254740993.5"),
    ),
    Type.BOOL: (b"true", b"false"),
}
_ODD: dict[Type, tuple[bytes, ...]] = {
    Type.STRING: (
        *(b'"a\nb"', b'"a\tb"', b'"\x00"', b'"\\x"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xff"', b'"\xed\xa0\x80"'),
        *(b'"\xc0\x80"', b"1", b"true", b"[]", b"{}", b'"', b'"},{"', b'"\\"price\\":5,"', b'"2020-01-01"'),
    ),
    Type.INT: (b"1.0", b"01", b"+1", b"1e2", b"2147483648", b'"1"', b"true", b"-"),
    Type.LONG: (b"1.0", b"1e2", b"9223372036854775808", b"-9223372036854775809", b'"1"'),
    Type.FLOAT: (
        *(b"-0", b"-0.0", b"NaN", b"-Infinity", b"1e400", b"1e39"),
        *(b"9223372036854775808", b"1e19", b"5.", b".5", b'"1"'),
    ),
    Type.DOUBLE: (b"5", b"-0", b"0", b"NaN", b"Infinity", b"1e400", b"1e300", b"1e19", b"01.5", b"1" * 400, b'"1.5"'),
    Type.BOOL: (b"1", b'"true"', b"TRUE"),
}
_NAMES = ("price", "event", "a", 'q"', "ü.*", "z z")
_schemas = st.lists(st.sampled_from(list(_USUAL)), min_size=1, max_size=4).flatmap(
    lambda kinds: st.permutations(_NAMES).map(
        lambda names: Schema.of([(name, str(kind)) for name, kind in zip(names, kinds, strict=False)])
    )
)
_FORMS = (b'{"event":{%b}}', b"{%b}")
_ARRAYS = (b'[{"event":{%b}},{%b}]', b'[ {"event":{%b}}\t,{"event":{%b}},\r{"event": {%b} } ] ', b'\n[{"event":{%b}}]')
_STRANGE = (
    *(b"[{%b}", b"[{%b},]", b"[{%b}]]", b"[,{%b}]", b"[{%b} {%b}]", b"[]", b"[[{%b}]]", b"[{%b},null]", b"[{%b}],"),
    *(b'{"event":{%b}}{"event":{%b}}', b'{"event":{%b},"event":{%b}}', b"[{%b},{%b}]", b'{"event":[{%b}]}', b"{%b} "),
    *(b'{"event":\n{%b}}', b'{"event":\r\t{%b} }', b'\xef\xbb\xbf{"event":{%b}}', b'{"event":null}', b"{}", b"", b"\n"),
    *(
        b'{"event":{%b}},',
        b'{"event":{%b},"x":1}',
        b'{"event":{%b',
        b"}",
        b"{",
        b'}{"event":{%b}}{',
        b'{"event":{%b}}\n',
    ),
    *(
        b'{"event":{%b,}}',
        b'{"\\u0065vent":{%b}}',
        b'{"event":{%b/**/}}',
        b'{"event":{%b}}\x00',
        b"{%b}\n{%b}",
        b'{"a":{}',
    ),
)
_OBJECTS = st.sampled_from([[b"{", b"%b", b"}"], [b"{", b'"event"', b":", b"{", b"%b", b"}", b"}"]])
_BLANKS = st.sampled_from([b"", b"", b"", b" ", b"\r\n\t"])


@st.composite
def _spaced_forms(draw: st.DrawFn) -> bytes:
    """An object or an array with blanks anywhere; of some there is a token too many, most often a comma."""
    first, *more = draw(st.lists(_OBJECTS, min_size=1, max_size=3))
    tokens = [b"[", *first, *(token for one in more for token in (b",", *one)), b"]"]
    tokens = tokens if more or draw(st.booleans()) else [*first]
    if draw(st.booleans()):
        extra = st.sampled_from([b",", b",", b",", b"[", b"]", b"}", b"null", b"\f", b"\xc2\xa0"])
        # Behind the last object as often as anywhere else.
        tokens.insert(draw(st.just(len(tokens) - 1) | st.integers(0, len(tokens))), draw(extra))
    return b"".join([draw(_BLANKS) + token for token in tokens]) + draw(_BLANKS)


_strange_forms = st.sampled_from(_STRANGE) | _spaced_forms()


def _quoted(name: str) -> bytes:
    return b'"%b"' % name.replace('"', '\\"').encode()


@st.composite
def _payloads(draw: st.DrawFn, schema: Schema, form: bytes, odd: int) -> bytes:
    """One payload; of a thousand values and forms so many are `odd`."""

    def strange() -> bool:
        return draw(st.integers(1, 1000)) <= odd

    members = []
    for name, kind in schema:
        value = draw(st.sampled_from(_ODD[kind] if strange() else _USUAL[kind]))
        key, space = _quoted(name), draw(st.sampled_from([b"", b"", b" ", b"\t"]))
        if strange():
            value = draw(st.sampled_from([b"null", value]))
            key = draw(st.sampled_from([key, b'"\\u0070rice"', b'"zz"', _quoted(schema.names[0])]))
        members.append(key + space + b":" + space + value + space)
    if strange():
        members = draw(st.sampled_from([members[:-1], members * 2, members[::-1]]))
    form = draw(_strange_forms) if strange() else form
    return form.replace(b"%b", b",".join(members))


def _setting(schema: Schema) -> MapSetting:
    return MapSetting("A", schema, ast.Annotation("map", (ast.AnnotationElement("type", "json"),)))


def _one_by_one(mapping: MapSetting, payload: bytes) -> list[Any] | None:
    """The rows of one payload, or nothing where the mapping has something to say of it."""
    told: list[Exception] = []
    try:
        chunks = source_mapper(mapping).read(payload, {}, 7, told.append)
    except MappingError:
        return None
    return None if told else [row for chunk in chunks for _, row in chunk]


def _read(schema: Schema, sent: list[bytes], before: int = 0) -> Any:
    """Read payloads, the array of which may begin later; check the laws, and return the columns."""
    mapping = _setting(schema)
    # An array that is a part of a longer one, which would be something else as a whole.
    payloads = pa.array([b"{"] * before + sent + [b"}\n"], pa.binary()).slice(before, len(sent))
    read, columns, counts = found = ColumnReader(mapping).read(payloads)
    assert len(read) == len(sent) if counts is None else len(counts) == len(sent) and counts.max() > 1
    rows, left = list(read), iter(read)
    assert read[1:-1] == rows[1:-1]
    for count, payload in zip([1] * len(sent) if counts is None else counts.tolist(), sent, strict=True):
        own = list(islice(left, count))
        if own != [None]:
            assert repr(own) == repr(_one_by_one(mapping, payload)), payload
    assert list(left) == []
    if columns is not None:
        assert repr([tuple(one.values()) for one in columns.to_pylist()]) == repr(rows)
        _travels_alike(schema, rows, found, len(sent))
    return columns


def _travels_alike(schema: Schema, rows: list[Any], read: ReadPayloads, count: int) -> None:
    quick = read.events(numpy.arange(count), numpy.arange(count) + 7)
    quick = replace(quick, columns=payload_columns(quick, read.columns))
    slow = EventList()
    for number, size in enumerate([1] * count if read.counts is None else read.counts.tolist()):
        for place in range(size):
            path = child(b"", place) if size > 1 else b""
            slow.add(number, number + 7, path, place, number, rows[len(slow)])
    _are_alike(schema, quick, slow.events())


def _are_alike(schema: Schema, quick: Events, slow: Events) -> None:
    rows = slow.rows
    assert Payload(schema).encode(quick) == Payload(schema).encode(slow)
    half = len(rows) // 2
    for begin, end in ((0, half), (half, len(rows))):
        if begin < end:
            payload = Payload(schema).encode(quick.part(begin, end))
            same = Payload(schema).encode(slow.part(begin, end))
            if not slow.chunk.any():
                assert Payload(schema).read(payload).schema == Payload(schema).read(same).schema
            assert repr(Payload(schema).decode(payload)) == repr(slow.part(begin, end))


@settings(max_examples=600, deadline=None)
@given(st.data(), _schemas, st.sampled_from(_FORMS), st.sampled_from([0, 0, 30, 200]), st.integers(0, 2), st.booleans())
def test_columns_hold_what_the_mapping_reads(
    way: str, data: st.DataObject, schema: Schema, form: bytes, odd: int, before: int, arrays: bool
) -> None:
    one = _payloads(schema, form, odd)
    if arrays:
        one |= st.sampled_from(_ARRAYS).flatmap(lambda form: _payloads(schema, form, odd))
    sent = data.draw(st.lists(one, min_size=1, max_size=8))
    columns = _read(schema, sent, before)
    # Arrays that the loop does not know, or is not sure of, are left to the mapping.
    left = any(one.strip().startswith(b"[") and (way != "compiled" or b"1e-50" in one) for one in sent)
    if not odd and not left and b"\\" not in b"".join(sent):  # which is doubted where there is a whole double
        assert columns is not None


_PRICES = Schema.of([("price", "double"), ("a", "string")])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*_FORMS, *_ARRAYS]) | _strange_forms, min_size=1, max_size=4), st.sampled_from(_FORMS))
@example([b' [{"event":{%b}},]'], _FORMS[0])
@example([b'{"event":{"a":"', b'"}}'], _FORMS[0])
@example([b'{"event":{%b}}{"event":{%b}}', b'{"event":{%b', b"}}"], _FORMS[0])
@example([b'{"event":{%b},"event":{}', b'{"event":{%b}}'], _FORMS[0])
@example([b'{"a":"}', b'{","price":1.5}', b"{%b}{%b}"], _FORMS[1])
def test_each_payload_is_one_object(strange: list[bytes], form: bytes) -> None:
    inner = b'"price":1.5,"a":"x"'
    _read(_PRICES, [one.replace(b"%b", inner) for one in [form, *strange, form]])


@pytest.mark.parametrize(
    ("payload", "columns"),
    [
        (b'{"event":{"price":5.0,"a":"x"}}', True),
        (b'{"event":{"price" : 5e0 ,"a":"x"}}', True),
        (b'{"event":{"price":5,"a":"x"}}', False),
        (b'{"event":{"a":"x","price" :\t-0 }}', False),
        (b'{"event":{"a":"x","pr\\u0069ce":5}}', False),
        (b'{"event":{"a":"\\"price\\":5,","price":5.0}}', True),
        (b'{"event":{"a":null,"price":null}}', True),
        (b'{"event":{"a":null,"price":7}}', False),
        (b'{"event":{"a":"x"}}', False),
        (b'{"event":null}', False),
    ],
)
def test_what_is_doubted_is_read_again(payload: bytes, columns: bool) -> None:
    usual = b'{"event":{"price":0.5,"a":"y"}}'
    assert (_read(_PRICES, [usual, payload, usual]) is not None) == columns


def test_both_forms_side_by_side(way: str) -> None:
    columns = _read(_PRICES, [b'{"event":{"price":0.5,"a":"y"}}', b'{"a":"x","price":0.5}'])
    assert (columns is not None) == (way == "compiled")


def test_what_is_read_again_are_the_doubted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    reader = ColumnReader(_setting(_PRICES))
    rows = reader.reader.rows
    monkeypatch.setattr(reader.reader, "rows", lambda payloads: asked.extend(payloads) or rows(payloads))
    sent = [b'{"price":%b,"a":"x"}' % price for price in (b"0.5", b"7.0", b"7", b"1e3")]
    assert reader.read(pa.array(sent, pa.binary()))[0] == [(0.5, "x"), (7.0, "x"), None, (1000.0, "x")]
    assert asked == [sent[2]]


def test_the_loop_is_left_out_for_a_while_where_it_is_sure_of_few(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, asked, read = ColumnReader(_setting(_PRICES)), list[Any](), json_columns.JsonLoop.read
    monkeypatch.setattr(
        json_columns.JsonLoop, "read", lambda loop, payloads: asked.append(loop) or read(loop, payloads)
    )
    escaped = pa.array([b'{"price":1.5,"a":"\\u0041"}'] * 3, pa.binary())
    for _ in range(json_columns._PAUSE + 1):
        rows, columns, _ = reader.read(escaped)
        assert list(rows) == [(1.5, "A")] * 3 and columns is not None
    assert len(asked) == (1 if way == "compiled" else json_columns._PAUSE + 1)
    reader.read(pa.array([b'{"price":1.5,"a":"%b"}' % text for text in (b"x", b"y", b"\\n")], pa.binary()))
    reader.read(escaped)
    assert len(asked) == (3 if way == "compiled" else json_columns._PAUSE + 3)


def test_forms_may_change_between_batches() -> None:
    reader = ColumnReader(_setting(_PRICES))
    for form in (*_FORMS, *_FORMS[::-1], _FORMS[1]):
        sent = pa.array([form % b'"price":1.5,"a":"x"'] * 3, pa.binary())
        rows, columns, _ = reader.read(sent)
        assert rows == [(1.5, "x")] * 3
        assert columns is not None


def test_payloads_that_are_long_are_read(way: str) -> None:
    long = "x" * (json_columns._BLOCK // 3)
    for size in (1, 2, 12):
        columns = _read(_PRICES, [b'{"price":1.5,"a":"%b"}' % (long * size).encode()] * 5)
        assert (columns is not None) == (size < 12 or way == "compiled")


def test_other_mappings_have_no_columns() -> None:
    text = MapSetting("A", _PRICES, ast.Annotation("map", (ast.AnnotationElement("type", "text"),)))
    assert ColumnReader(text).read(pa.array([b'{"price":1.5,"a":"x"}'], pa.binary())) == ([None], None, None)
    objects = _setting(Schema.of([("a", "object")]))
    assert ColumnReader(objects).read(pa.array([b'{"a":1}'], pa.binary())) == ([None], None, None)


@pytest.mark.parametrize("octets", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x82"])
def test_what_is_no_text_is_left_to_the_mapping(octets: bytes) -> None:
    """Arrow's parser takes it, and rows are made later."""
    schema = Schema.of([("a", "string"), ("b", "string")])
    assert _read(schema, [b'{"event":{"a":"x","b":"y"}}', b'{"event":{"a":"x","b":"' + octets + b'"}}']) is None


_tokens = st.from_regex(
    r"-?(0|[1-9][0-9]{0,24})([.][0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True, alphabet="-+.eE0123456789"
)
_numerals = st.floats().map(repr) | st.floats(width=32).map(repr) | st.integers(-(2**65), 2**65).map(str) | _tokens


@settings(max_examples=200, deadline=None)
@given(st.lists(_numerals, min_size=1, max_size=30), st.sampled_from(["int", "long", "float", "double"]))
@example(
    ["-0.0", "-1e-60", "1e-60", "0e999999999999", "1.5e-2147483648", "9007199254740993.0", "1e22", "1e23"], "double"
)
@example(["-0", "-0.0", "-1e-60", "1e-46", "-1e-46", "16777217", "9223372036854775807", "3.5e38", "1e-400"], "float")
@example(["9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616"], "long")
@example(["2147483647", "2147483648", "-2147483648", "-2147483649", "00", "-", "1.", "1e", "1e+", ".5"], "int")
def test_numbers_are_those_of_the_mapping(numerals: list[str], kind: str) -> None:
    sent = [b'{"n":%b}' % one.encode() for one in numerals]
    _read(Schema.of([("n", kind)]), sent)
    _read(Schema.of([("n", kind)]), [b"[%b]" % b",".join(sent), *(b"[%b,%b]" % (one, one) for one in sent)])


@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(st.integers(0, 255) | st.sampled_from(b'{}",:\\ nt0.-e'), min_size=1, max_size=3))
def test_no_bytes_are_read_otherwise(data: st.DataObject, octets: list[int]) -> None:
    schema = Schema.of([("price", "double"), ("a", "string"), ("n", "int"), ("b", "bool")])
    usual = b'{"event": {"price": 2.5, "a": "x\xc3\xa4", "n": -12, "b": true}}'
    changed = bytearray(data.draw(st.sampled_from([usual, b"[%b]" % usual, b"[%b,%b]" % (usual, usual)])))
    for octet in octets:
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place : place + data.draw(st.integers(0, 2))] = bytes([octet])
    _read(schema, [usual, bytes(changed), usual])


def test_texts_of_one_payload_do_no_harm_to_others(way: str) -> None:
    sent = [b'{"price":1.5,"a":"x"}', b'{"a":"\xff\xff","price":[]}', b'{"price":0.1234567890123456789,"a":"y"}'] * 3
    rows, columns, _ = ColumnReader(_setting(_PRICES)).read(pa.array(sent, pa.binary()))
    assert list(rows) == [(1.5, "x"), None, (0.1234567890123456789, "y")] * 3
    assert columns is None
    escaped = [sent[0], b'{"price":2.5,"a":"\\n"}', sent[2]]
    rows, columns, _ = ColumnReader(_setting(_PRICES)).read(pa.array(escaped, pa.binary()))
    assert columns is not None
    assert columns.to_pydict() == {"price": [1.5, 2.5, 0.1234567890123456789], "a": ["x", "\n", "y"]}


def test_rows_are_made_where_they_are_read_as_long_as_somebody_looks_at_them() -> None:
    reader = ColumnReader(_setting(_PRICES))
    sent = pa.array([b'{"price":1.5,"a":"x"}'] * 3, pa.binary())

    def made() -> bool:
        return reader.read(sent)[0]._rows is not None  # type: ignore[union-attr]

    assert not made()
    for _ in range(3):
        assert list(reader.read(sent)[0])
        assert made()
    assert list(reader.read(sent)[0].at(numpy.array([2, 0])))  # type: ignore[union-attr]
    assert [made() for _ in range(json_columns._PATIENCE + 1)] == [True] * json_columns._PATIENCE + [False]
    assert not made()
