"""Payloads from events and back, without an app."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spdist.errors import ErrorKind, MappingError, SiddhiTypeError, UndefinedNameError
from spdist.language import ast
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.mappers import is_mapped, sink_mapper, source_mapper
from tests.error_codes import coded

SCHEMA = Schema.of([("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool")])
ROW = ("a<b", 1, 2, 0.10000000149011612, 1e20, True)
NULLS = (None,) * 6
OTHER = ("x", -1, 2**40, 1.5, 0.1, False)
TYPES = ("csv", "json", "keyvalue", "passThrough", "text", "xml")


def setting(map: str, schema: Schema = SCHEMA) -> MapSetting:
    app = parse(f"@source(type='inMemory', {map}) define stream S (s string);")
    source = app.definitions[0].annotations[0]
    return MapSetting("S", schema, source.nested("map")[0])


def written(map: str, *rows: Any, schema: Schema = SCHEMA) -> list[Any]:
    return sink_mapper(setting(map, schema)).write([(n, row) for n, row in enumerate(rows)])


def read(map: str, payload: Any, schema: Schema = SCHEMA, **properties: Any) -> list[list[Any]]:
    lost: list[MappingError] = []
    chunks = source_mapper(setting(map, schema)).read(payload, properties, 7, lost.append)
    return [[row for _, row in chunk] for chunk in chunks]


@pytest.mark.parametrize("type", TYPES)
def test_what_is_written_is_read_again(type: str) -> None:
    for rows in ([ROW], [ROW, OTHER]):
        payloads = written(f"@map(type='{type}')", *rows)
        assert [row for payload in payloads for chunk in read(f"@map(type='{type}')", payload) for row in chunk] == rows


@pytest.mark.parametrize("type", ["csv", "json", "text"])
def test_so_it_is_where_events_are_grouped(type: str) -> None:
    map = f"@map(type='{type}', event.grouping.enabled='true')"
    (payload,) = written(map, ROW, OTHER)
    assert read(map, payload) == [[ROW, OTHER]]


#: The form of a line of text, as one would write it down; it takes too long to be run on what others send.
LINE = re.compile(r'\s*(?P<name>[^\s:]+)\s*:\s*(?:"(?P<quoted>.*)"|(?P<bare>.*?))\s*,?\s*', re.DOTALL)


@given(st.text(alphabet='s:", \t,x', max_size=12))
@example('s:"a",')
@example('s: "a" , ')
@example("s:null,")
def test_a_line_of_text_is_a_name_and_a_value(line: str) -> None:
    found = LINE.fullmatch(line)
    expected = None
    if found is not None and found["name"] == "s":
        expected = found["bare"] if found["quoted"] is None else found["quoted"]
        expected = None if found["bare"] == "null" else expected
    got = read("@map(type='text', fail.on.missing.attribute='false')", line, Schema.of([("s", "string")]))
    assert got == [[(expected,)]]


@pytest.mark.parametrize("type", ["json", "passThrough"])
def test_nulls_survive(type: str) -> None:
    (payload,) = written(f"@map(type='{type}')", NULLS)
    assert read(f"@map(type='{type}')", payload) == [[NULLS]]


@pytest.mark.parametrize("type", ["keyvalue", "text", "xml"])
def test_nulls_survive_where_attributes_may_be_missing(type: str) -> None:
    map = f"@map(type='{type}', fail.on.missing.attribute='false')"
    (payload,) = written(map, NULLS)
    assert read(map, payload) == [[NULLS]]


@pytest.mark.parametrize("type", TYPES)
def test_mappers_keep_what_they_did_once(type: str) -> None:
    for made in (sink_mapper(setting(f"@map(type='{type}')")), source_mapper(setting(f"@map(type='{type}')"))):
        state = made.snapshot()
        made.restore(state)
        assert made.snapshot() == state


def test_headers_come_once_also_after_a_restart() -> None:
    map, schema = "@map(type='csv', header='true', header.present='true')", Schema.of([("s", "string")])
    sink, source = sink_mapper(setting(map, schema)), source_mapper(setting(map, schema))
    assert sink.write([(1, ("a",))]) == ["s\na"]
    assert source.read("s\na", {}, 7, pytest.fail) == [[(7, ("a",))]]
    other_sink, other_source = sink_mapper(setting(map, schema)), source_mapper(setting(map, schema))
    other_sink.restore(sink.snapshot())
    other_source.restore(source.snapshot())
    assert other_sink.write([(1, ("b",))]) == ["b"]
    assert other_source.read("b", {}, 7, pytest.fail) == [[(7, ("b",))]]


TWO = Schema.of([("s", "string"), ("i", "int")])


JSON_FORM = """@map(type='json', @payload(\"\"\"{"s":"{{s}}","i":{{i}}}\"\"\"))"""
XML_FORM = """@map(type='xml', @payload(\"\"\"<e v="{{i}}"/>\"\"\"))"""


@pytest.mark.parametrize(
    ("map", "expected"),
    [
        ("@map(type='text', @payload('{{s}} has {{i}}'))", ["a has 1", "null has null"]),
        ("@map(type='text')", ['s:"a",\ni:1', "s:null,\ni:null"]),
        (XML_FORM, ['<e v="1"/>', '<e v="null"/>']),
        (
            "@map(type='keyvalue', @payload(k='s', t='{{i}} pieces'))",
            [{"k": "a", "t": "1 pieces"}, {"k": None, "t": "null pieces"}],
        ),
        (JSON_FORM, ['[{"s":"a","i":1},\n{"s":null,"i":null}]']),
        ("@map(type='csv', delimiter='\\t', @payload(i='0', s='1'))", ["1\ta", "null\tnull"]),
    ],
)
def test_forms_of_the_apps_own(map: str, expected: list[Any]) -> None:
    assert written(map, ("a", 1), (None, None), schema=TWO) == expected


@pytest.mark.parametrize(
    ("map", "payload", "expected"),
    [
        ("@map(type='text', regex.A='(\\w+) has (\\d+)', @attributes(s='A[1]', i='A[2]'))", "so: a has 12.", ("a", 12)),
        ("@map(type='text', regex.A='(\\w+)', @attributes(s='A[1]', i='trp:size'))", "a", ("a", 5)),
        ("@map(type='keyvalue', @attributes(s='k', i='trp:size'))", {"k": "a"}, ("a", 5)),
        ("@map(type='keyvalue', implicit.cast.enable='true')", {"s": "a", "i": "3"}, ("a", 3)),
        (
            "@map(type='xml', namespaces='m=http://m', enclosing.element='//m:list', "
            "@attributes(s='m:name', i='m:size/@n'))",
            '<r xmlns:p="http://m"><p:list><p:e><p:name>a</p:name><p:size n="4"/></p:e></p:list></r>',
            ("a", 4),
        ),
        (
            "@map(type='xml', enclosing.element='e', enclosing.element.as.event='true', "
            "@attributes(s='s/text()', i='trp:size'))",
            "<r><e><s>a</s></e></r>",
            ("a", 5),
        ),
        ("@map(type='csv', @attributes(s='1', i='trp:size'))", "x,a", ("a", 5)),
        ("@map(type='json', @attributes('$.k', 'trp:size'))", '{"k": "a"}', ("a", 5)),
    ],
)
def test_attributes_are_found_where_the_app_says(map: str, payload: Any, expected: tuple[Any, ...]) -> None:
    assert read(map, payload, TWO, size=5) == [[expected]]


@pytest.mark.parametrize("type", TYPES)
def test_what_cannot_be_read_is_refused(type: str) -> None:
    with pytest.raises(MappingError, match="stream 'S'"):
        source_mapper(setting(f"@map(type='{type}')")).read(object(), {}, 7, pytest.fail)


@pytest.mark.parametrize(
    ("map", "payload"),
    [
        ("@map(type='json')", '{"s": "a", "i": NaN}'),
        ("@map(type='json')", "[1]"),
        ("@map(type='json', enclosing.element='$.x')", "{}"),
        ("@map(type='json')", b'{"s": "\xff", "i": 1}'),
        ("@map(type='xml')", "<r>"),
        ("@map(type='xml')", b"<r>\xff</r>"),
        ("@map(type='xml')", "<r>\ud800</r>"),
        ("@map(type='csv')", '"a'),
        ("@map(type='csv')", b"\xff,1"),
        ("@map(type='text')", b"\xff"),
        ("@map(type='passThrough', @attributes(s='s', i='trp:none'))", None),
    ],
)
def test_so_are_payloads_that_do_not_fit(map: str, payload: Any) -> None:
    if payload is None:
        (payload,) = written("@map(type='passThrough')", ("a", 1), schema=TWO)
    with pytest.raises(MappingError, match="stream 'S'"):
        source_mapper(setting(map, TWO)).read(payload, {}, 7, pytest.fail)


@pytest.mark.parametrize(
    ("map", "payload"),
    [
        ("@map(type='csv')", "a"),
        ("@map(type='csv')", "a,x"),
        (f"@map(type='csv', @attributes(s='{'9' * 5_000}', i='1'))", "a,1"),
        ("@map(type='csv', @attributes(s='\u0660', i='1'))", "a,1"),
        ("@map(type='text')", 's:"a"'),
        ("@map(type='xml')", "<r><e><s>a</s></e></r>"),
        ("@map(type='xml')", "<r><e><s>a</s><i>x</i></e></r>"),
        ("@map(type='keyvalue')", {"s": "a"}),
        ("@map(type='json')", '[{"event":{"s":"a"}}]'),
        ("@map(type='text')", 's:"a",\ni:x'),
        ("@map(type='keyvalue')", {"s": 5, "i": 5}),
        ("@map(type='keyvalue')", {"s": "a", "i": True}),
        ("@map(type='keyvalue', implicit.cast.enable='true')", {"s": "a", "i": "x"}),
    ],
)
def test_an_event_that_lacks_something_is_left_out_and_told(map: str, payload: Any) -> None:
    lost: list[MappingError] = []
    assert source_mapper(setting(map, TWO)).read(payload, {}, 7, lost.append) == []
    assert len(lost) == 1


_GROUPED = "event.grouping.enabled='true'"


@pytest.mark.parametrize("bad", ["type", "missing", "form"])
@pytest.mark.parametrize(
    ("mapping", "one", "together"),
    [
        (
            "@map(type='xml')",
            ("<event><s>a</s><i>1</i></event>", "<event><s>a</s><i>x</i></event>", "<event><s>a</s></event>", "<e/>"),
            "<events>{}{}{}</events>",
        ),
        ("@map(type='csv')", ("a,1", "a,x", "a", "a,"), "{}\n{}\n{}\n"),
        (
            f"@map(type='text', {_GROUPED}, delimiter='~~')",
            ('s:"a",\ni:1', 's:"a",\ni:x', 's:"a"', "so what"),
            "{}~~{}~~{}",
        ),
        ("@map(type='keyvalue')", ({"s": "a", "i": 1}, {"s": "a", "i": "x"}, {"s": "a"}, 7), None),
    ],
)
def test_an_event_that_cannot_be_read_takes_no_other_with_it(
    mapping: str, one: tuple[Any, ...], together: str | None, bad: str
) -> None:
    good, *wrong = one
    unfit = wrong[["type", "missing", "form"].index(bad)]
    parts = (good, unfit, good)
    payload: Any = list(parts)
    if together is not None:
        payload = "".join(map(str.__add__, together.split("{}"), (*parts, "")))
    lost: list[MappingError] = []
    chunks = source_mapper(setting(mapping, TWO)).read(payload, {}, 7, lost.append)
    assert [[row for _, row in chunk] for chunk in chunks] == [[("a", 1), ("a", 1)]]
    assert sum(error.events for error in lost) == 1


def test_objects_are_written_as_json() -> None:
    schema = Schema.of([("o", "object")])
    value = {"k": [1, None, True, 1e20, "ü"], "s": {2}, "t": (1,), "n": float("inf")}
    assert written("@map(type='json')", (value,), schema=schema) == [
        '{"event":{"o":{"k":[1,null,true,1.0E20,"ü"],"s":[2],"t":[1],"n":null}}}'
    ]


def test_unknown_types_are_refused_with_a_suggestion() -> None:
    assert not is_mapped(setting("@map(type='jason')"))
    for make in (sink_mapper, source_mapper):
        with pytest.raises(UndefinedNameError, check=coded(ErrorKind.UNKNOWN_EXTENSION)) as caught:
            make(setting("@map(type='jason')"))
        assert "json" in str(caught.value.hint)


def test_a_form_that_names_no_attribute_is_refused() -> None:
    for map in ("@map(type='text', @payload('{{z}}'))", "@map(type='csv', @payload(z='0'))"):
        with pytest.raises(SiddhiTypeError):
            sink_mapper(setting(map, TWO))
    for map in (
        "@map(type='json', @attributes(s='$[', i='i'))",
        "@map(type='text', @attributes(s='A', i='A[1]'))",
        "@map(type='text', regex.A='(')",
    ):
        with pytest.raises(SiddhiTypeError):
            source_mapper(setting(map, TWO))


def test_a_setting_without_annotation_is_the_default() -> None:
    assert MapSetting("S", TWO).text("type", "passThrough") == "passThrough"
    assert isinstance(setting("@map(type='csv')").annotation, ast.Annotation)


def test_a_mapping_that_cannot_be_made_is_placed_at_its_annotation() -> None:
    text = "@source(type='inMemory', topic='t', @map(type='json', @attributes(v='$.a[1b'))) define stream S (v int);"
    (definition,) = parse(text).definitions
    assert isinstance(definition, ast.StreamDefinition)
    annotation = definition.annotations[0].nested("map")[0]
    with pytest.raises(SiddhiTypeError, match="is no path") as caught:
        source_mapper(MapSetting("S", definition.schema, annotation))
    assert caught.value.span == annotation.span is not None
