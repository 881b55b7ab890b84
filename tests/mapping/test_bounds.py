"""No payload harms more than itself: whatever it is, it is read or it cannot be read."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.errors import MappingError, SiddhiTypeError
from spdist.java.objects import HashMap
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.bounds import MAX_BYTES, MAX_DEPTH, MAX_EVENTS, MAX_TOLD, shown
from spdist.mapping.json_columns import FEW, ColumnReader
from spdist.mapping.mappers import source_mapper
from spdist.mapping.payload_reader import BatchReader
from spdist.mapping.rejected import RejectCounter
from spdist.transports.payloads.external import ExternalReader, mark
from spdist.transports.payloads.payload import Payload

SCHEMA = Schema.of([("s", "string"), ("i", "int")])
OBJECT = Schema.of([("o", "object")])
#: Mappings whose options say how to read.
WRITTEN = {
    "paths": "@map(type='json', @attributes(s='$.s', i='$.i'))",
    "regex": "@map(type='text', regex.A='((a+)+)b', regex.B='i:(\\d*)*,', @attributes(s='A[1]', i='B[1]'))",
}
PATHS = WRITTEN["paths"]
GOOD = {
    "json": '{"event":{"s":"a","i":1}}',
    "xml": "<events><event><s>a</s><i>1</i></event></events>",
    "csv": "a,1",
    "text": 's:"a",\ni:1',
}
_ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "lol"}">' for n in range(10))
#: What others may send, whatever the mapping is.
HOSTILE: tuple[Any, ...] = (
    "[" * 5000,
    "[" * 5000 + "]" * 5000,
    '{"event":' * 5000,
    '{"event":{"s":' + "[" * 1000 + "]" * 1000 + ',"i":1}}',
    b"<a>" * 5000,
    b"<a>" * 5000 + b"</a>" * 5000,
    b'<?xml version="1.0" encoding="utf-7"?><a/>',
    b'<?xml version="1.0" encoding="utf-32"?><a/>',
    b'<?xml version="1.0" encoding="nonsense"?><a/>',
    f"<!DOCTYPE lolz [{_ENTITIES}]><events><event><s>&e9;</s><i>1</i></event></events>",
    '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><events><event><s>&x;</s><i>1</i></event></events>',
    b"\xff\xfe\x00",
    b"\x00" * 100,
    "\ud800",
    '{"event":{"s":"a","i":' + "9" * 5000 + "}}",
    '{"event":{"s":"a","i":1e99999}}',
    "9" * 5000,
    "",
    b"",
    None,
    7,
    {"s": {"s": 1}},
    '"' * 200_001,
    "," * 200_001,
    "s:x" + " " * 100_000 + "y,\ni:1",
    's:"a",\ni:' + "1 " * 50_000,
    "a" * 100_000,
)


def setting(map: str, schema: Schema = SCHEMA, limit: int | None = None) -> MapSetting:
    app = parse(f"@source(type='inMemory', {map}) define stream S (s string);")
    source = app.definitions[0].annotations[0]
    return MapSetting("S", schema, source.nested("map")[0], limit)


def rows_of(map: str, payload: Any, lost: list[MappingError], schema: Schema = SCHEMA) -> list[Any]:
    chunks = source_mapper(setting(map, schema)).read(payload, {}, 7, lost.append)
    return [row for chunk in chunks for _, row in chunk]


@pytest.mark.parametrize("type", ["csv", "json", "keyvalue", "passThrough", "text", "xml", *WRITTEN])
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_whatever_is_sent_the_only_error_is_that_it_cannot_be_read(type: str, number: int) -> None:
    map = WRITTEN.get(type, f"@map(type='{type}')")
    lost: list[MappingError] = []
    try:
        rows_of(map, HOSTILE[number], lost)
    except MappingError as error:
        lost.append(error)
    assert all(len(str(error)) < 2000 for error in lost)


@pytest.mark.parametrize("type", sorted(GOOD))
def test_the_others_of_a_batch_come_through(type: str) -> None:
    good = GOOD[type]
    payloads = [one for hostile in HOSTILE if isinstance(hostile, str | bytes) for one in (hostile, good)]
    bad: list[int] = []
    reader = BatchReader(setting(f"@map(type='{type}')"))
    rows, numbers = reader.read(payloads, 7, lambda _: None, lambda number, _: bad.append(number))
    assert [row for row, number in zip(rows, numbers, strict=True) if number % 2] == [("a", 1)] * (len(payloads) // 2)
    assert not [number for number in bad if number % 2]


def test_one_bad_line_of_a_batch_of_columns_is_left_to_the_mapping() -> None:
    good = GOOD["json"].encode()
    for hostile in (one for one in HOSTILE if isinstance(one, bytes)):
        payloads = [good] * FEW + [hostile] + [good] * FEW
        rows, columns, _ = ColumnReader(setting("@map(type='json')")).read(pa.array(payloads, pa.binary()))
        assert columns is None
        assert [row for row in rows if row is not None] == [("a", 1)] * 2 * FEW


@given(st.one_of(st.binary(), st.text()), st.sampled_from([*sorted(GOOD), "keyvalue"]))
def test_any_bytes_are_read_or_cannot_be_read(payload: bytes | str, type: str) -> None:
    try:
        rows_of(f"@map(type='{type}')", payload, [])
    except MappingError as error:
        assert "stream 'S'" in error.message


# ------------------------------------------------------------------------------------------------------------- depth
def nested(depth: int, kind: str) -> str:
    begin, end = {"arrays": ("[", "]"), "objects": ('{"k":', "}")}[kind]
    return begin * depth + "1" + end * depth


@pytest.mark.parametrize("kind", ["arrays", "objects"])
@pytest.mark.parametrize("map", ["@map(type='json')", "@map(type='json', @attributes(o='$.o'))"])
def test_json_may_nest_to_a_bound_that_does_not_depend_on_the_stack(kind: str, map: str) -> None:
    """What is let through can also travel, and be written as text, however deep the stack is there."""
    inside = MAX_DEPTH - 1  # the object around it is a level, too
    (row,) = rows_of(map, f'{{"o":{nested(inside, kind)}}}', [], OBJECT)
    payload = Payload(OBJECT)

    def travels() -> None:
        from spdist.mapping.columns import Events

        value = payload.encode(Events.of([(7, row)]))
        assert payload.decode(value).rows == [row]

    _deeper(100, travels)
    with pytest.raises(MappingError, match="nests deeper than 200 levels"):
        rows_of(map, f'{{"o":{nested(inside + 1, kind)}}}', [], OBJECT)


def _deeper(frames: int, call: Any) -> None:
    if frames:
        _deeper(frames - 1, call)
    else:
        call()


def test_so_may_xml() -> None:
    def payload(depth: int) -> str:
        return "<r><e><s>a</s><i>1</i>" + "<x>" * (depth - 2) + "</x>" * (depth - 2) + "</e></r>"

    assert rows_of("@map(type='xml')", payload(MAX_DEPTH), []) == [("a", 1)]
    with pytest.raises(MappingError, match="nests deeper than 200 levels"):
        rows_of("@map(type='xml')", payload(MAX_DEPTH + 1), [])


def test_a_flat_array_of_many_events_is_not_deep() -> None:
    events = [{"event": {"s": "[[[", "i": n}} for n in range(1000)]
    assert len(rows_of("@map(type='json')", json.dumps(events), [])) == 1000


# ------------------------------------------------------------------------------------------------------ number, size
def test_a_payload_has_a_bound_of_events() -> None:
    for map, payload in (
        ("@map(type='json')", "[" + "{}," * MAX_EVENTS + "{}]"),
        (PATHS, "[" + "{}," * MAX_EVENTS + "{}]"),
        ("@map(type='csv')", "a,1\n" * (MAX_EVENTS + 1)),
        ("@map(type='text', event.grouping.enabled='true', delimiter='|')", "a|" * (MAX_EVENTS + 1)),
        ("@map(type='keyvalue')", [{}] * (MAX_EVENTS + 1)),
        ("@map(type='xml')", "<r>" + "<e/>" * (MAX_EVENTS + 1) + "</r>"),
    ):
        with pytest.raises(MappingError, match="it holds 500001 events, and a payload may hold 500000"):
            rows_of(map, payload, [])


def test_events_that_are_left_out_are_told_of_together_where_they_are_many() -> None:
    lost: list[MappingError] = []
    assert rows_of("@map(type='json')", "[" + "{}," * 999 + '{"s":"a","i":1}]', lost) == [("a", 1)]
    assert len(lost) == MAX_TOLD + 1
    assert sum(error.events for error in lost) == 999
    assert "989 more events of the payload are left out" in lost[-1].message


@pytest.mark.parametrize("type", sorted(GOOD))
def test_a_payload_has_a_bound_of_bytes_read_alone_or_with_others(type: str) -> None:
    good = GOOD[type]
    map = f"@map(type='{type}', max.payload.size='{len(good)}')"
    larger = good.replace("a", "aa")
    assert rows_of(map, good, []) == [("a", 1)]
    with pytest.raises(MappingError, match=f"it is larger than {len(good)} bytes"):
        rows_of(map, larger, [])
    bad: list[int] = []
    payloads = [good, larger, good] * FEW
    rows, _ = BatchReader(setting(map)).read(payloads, 7, lambda _: None, lambda number, _: bad.append(number))
    assert rows == [("a", 1)] * 2 * FEW
    assert bad == list(range(1, 3 * FEW, 3))
    found, columns, _ = ColumnReader(setting(map)).read(pa.array([one.encode() for one in payloads], pa.binary()))
    assert (columns, sum(row == ("aa", 1) for row in found)) == (None, 0)


def test_the_bound_is_said_by_the_transport_the_mapping_or_neither() -> None:
    assert setting("@map(type='json')").max_bytes == MAX_BYTES == 16 * 1024 * 1024
    assert setting("@map(type='json', max.payload.size='5')").max_bytes == 5
    assert setting("@map(type='json', max.payload.size='5')", limit=7).max_bytes == 7
    for wrong in ("big", "0", "9" * 5_000, "\u0663"):
        with pytest.raises(SiddhiTypeError, match=rf"'max\.payload\.size' is a number of bytes, not '{wrong[:99]}"):
            source_mapper(setting(f"@map(type='json', max.payload.size='{wrong}')"))


# --------------------------------------------------------------------------------------------------------- outsiders
def test_what_outsiders_put_into_a_topic_is_read_or_told_of() -> None:
    good = [GOOD["json"].encode(), GOOD["xml"].encode(), GOOD["json"].encode()]
    hostile = [one.encode(errors="surrogatepass") if isinstance(one, str) else one for one in HOSTILE if one]
    payloads = [one for one in hostile if isinstance(one, bytes)] + good
    bad: list[int] = []
    lost: list[MappingError] = []
    reader = ExternalReader(SCHEMA)
    marked = [mark(one, 5, number) for number, one in enumerate(payloads)]
    chunks = list(reader.read(marked, lost.append, lambda number, _: bad.append(number)))
    assert [event for _, _, chunk in chunks for event in chunk] == [(5, ("a", 1))] * len(good)
    assert bad and max(bad) < len(payloads) - len(good)


# ---------------------------------------------------------------------------------------------------------- counting
def test_all_are_counted_and_some_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    counter = RejectCounter("the @source of stream 'S'")
    with caplog.at_level(logging.WARNING):
        for _ in range(2500):
            counter.add(ValueError("no"))
        many = MappingError("many")
        many.events = 700
        counter.add(many)
        counter.add(many, told=False)
    assert counter.count == 3900
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 10 + 3
    assert told[-1] == "the @source of stream 'S' drops what it cannot read, 3200 so far: many"


def test_a_thread_has_stack_enough_for_what_nests_deepest() -> None:
    found: list[Any] = []
    payload = f'{{"o":{nested(MAX_DEPTH - 1, "objects")}}}'
    thread = threading.Thread(target=lambda: found.extend(rows_of("@map(type='json')", payload, [], OBJECT)))
    thread.start()
    thread.join()
    assert len(found) == 1


def test_a_value_that_holds_others_again_and_again_is_shown_in_part() -> None:
    twice: Any = HashMap([("n", 1)])
    often: Any = [1]
    for _ in range(60):
        twice, often = HashMap([("a", twice), ("b", [twice, twice])]), [often] * 20
    assert shown((1, (twice, 2))) == "(1, ({'a': {...}, 'b': [...]}, 2))"
    assert len(shown(often)) <= 2001
    assert shown([{"a": [1, "x"]}]) == "[{'a': [1, 'x']}]"
